"""Several processes on one database: each notice is delivered by one of them, also after one has died."""

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from authz.cli import webhooks_drop, webhooks_list, webhooks_retry
from authz.ports.notices import DeliveryState
from authz.service.notices import DEFAULT_LIMITS, NoticeLimits, NoticeService
from authz.store.notice_letters import list_letters
from authz.store.notice_outbox import StoredOutbox
from authz.store.postgres_url import PostgresUrl
from tests.notices.receiver import Receiver
from tests.notices.world import PUBLIC_URL, Counts, notice, tell, webhook
from tests.store.durable import DurableStore
from tests.store.world import Clock
from tests.support.command import run_command
from tests.support.waiting import until

ONE_TRY = replace(DEFAULT_LIMITS, most_attempts=1)


@pytest.fixture(params=["sqlite", "postgres"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> DurableStore:
    """An empty database of each kind."""
    if request.param == "sqlite":
        return DurableStore(database=tmp_path / "authz.db", folder=tmp_path)
    url = PostgresUrl.parse(request.getfixturevalue("postgres_url"))
    return DurableStore(database=url, folder=tmp_path)


class Replica:
    """The worker of one process, with a session of its own."""

    def __init__(
        self, store: DurableStore, ledger: object, clock: Clock, url: str, limits: NoticeLimits
    ) -> None:
        self.outbox = StoredOutbox(store.database)
        self.webhook = webhook(url)
        self.counts = Counts()
        self.service = NoticeService(
            outbox=self.outbox,
            ledger=ledger,  # type: ignore[arg-type]
            clock=clock,
            webhooks=[self.webhook],
            public_url=PUBLIC_URL,
            observer=self.counts,
            limits=limits,
        )

    async def step(self) -> None:
        await self.service.direct()
        await self.service.deliver(self.webhook)


async def test_of_two_replicas_one_delivers_each_notice(store: DurableStore, receiver: Receiver) -> None:
    limits = replace(DEFAULT_LIMITS, poll_seconds=0.01, per_window=1000)
    ledger, _ = store.open()
    clock = Clock()
    async with ledger:
        replicas = [Replica(store, ledger, clock, receiver.url, limits) for _ in range(2)]
        running = [asyncio.create_task(replica.service.run()) for replica in replicas]
        for number in range(30):
            await tell(ledger, notice(number))

        async def all_are_marked() -> bool:
            return sum(replica.counts.counts["ops", "delivered"] for replica in replicas) == 30

        await until(all_are_marked)
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        for replica in replicas:
            await replica.outbox.close()

    told = [got.message["data"]["approval_id"] for got in receiver.got]
    assert sorted(told) == sorted(f"ap-{number}" for number in range(30))
    assert len({got.id for got in receiver.got}) == 30


async def test_what_a_process_left_another_delivers_with_the_same_id(
    store: DurableStore, receiver: Receiver
) -> None:
    clock = Clock(step_ms=0)
    ledger, _ = store.open()
    async with ledger:
        await tell(ledger, notice())
        dying = Replica(store, ledger, clock, receiver.url, DEFAULT_LIMITS)
        await dying.service.direct()
        (claimed,) = await dying.outbox.claim(
            tenant="acme", webhook="ops", now_ms=clock.now_ms(), lease_ms=60_000, most=1
        )
        # It was delivered, and the process died before it could say so.
        await dying.service._poster.post(dying.webhook, claimed, now_ms=clock.now_ms())
        await dying.outbox.close()

    ledger, _ = store.open()
    async with ledger:
        other = Replica(store, ledger, clock, receiver.url, DEFAULT_LIMITS)
        await other.step()
        assert len(receiver.got) == 1, "until its lease ends it may be under way"
        clock.at_ms += 60_000
        await other.step()
        await other.step()
        await other.outbox.close()
    assert [got.id for got in receiver.got] == [claimed.message_id] * 2


async def test_a_dead_letter_is_listed_tried_again_and_dropped(
    store: DurableStore,
    receiver: Receiver,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> None:
    place = ("--data-dir", str(store.folder))
    if not isinstance(store.database, Path):
        monkeypatch.setenv("AUTHZ_DATABASE_URL", request.getfixturevalue("postgres_url"))
    clock = Clock(step_ms=0)
    receiver.will_answer(500, 500)
    ledger, _ = store.open()
    async with ledger:
        replica = Replica(store, ledger, clock, receiver.url, ONE_TRY)

        async def run(command: object, *words: str) -> tuple[int, str]:
            code = await asyncio.to_thread(run_command, command, *place, *words)  # type: ignore[arg-type]
            return code, capsys.readouterr().out

        assert (await run(webhooks_list))[0] == 1
        await tell(ledger, notice(1), notice(2))
        await replica.step()
        code, listed = await run(webhooks_list)
        assert code == 0
        assert "ops  approval.requested  ap-1  1  the receiver answered 500" in listed
        one, other = [letter.message_id for letter in list_letters(store.database)]
        assert (await run(webhooks_list, "--tenant", "nobody"))[0] == 1

        assert await run(webhooks_retry, one) == (0, "1 notice is tried again\n")
        assert (await run(webhooks_retry, one))[0] == 2
        clock.at_ms = 4_000_000_000_000
        await replica.step()
        assert await run(webhooks_drop, "--all") == (0, "1 notice is dropped\n")
        assert await run(webhooks_drop, "--all") == (0, "0 notices are dropped\n")
        assert (await run(webhooks_list))[0] == 1
        await replica.outbox.close()
    assert [got.id for got in receiver.got].count(one) == 2
    assert [got.id for got in receiver.got].count(other) == 1
    states = {row[0] for row in store.fetch("SELECT state FROM notices")}
    assert states == {DeliveryState.DELIVERED.value}

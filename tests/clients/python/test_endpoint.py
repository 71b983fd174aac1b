"""Endpoints of tool servers: one effect a call, on SQLite and PostgreSQL, over threads and processes."""

import asyncio
import contextlib
import multiprocessing
import os
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from authz_client.capabilities import NOTHING_REVOKED, Reason, sign_ticket
from authz_client.endpoint import (
    Endpoint,
    InDoubt,
    KeyConflict,
    NotPerformed,
    PostgresEffects,
    Received,
    SqliteEffects,
    StillRunning,
    TicketRefused,
    TicketRules,
)

from tests.support.chains import ISSUER_KEY

NOW = 1_796_032_800
KEY = ISSUER_KEY
ARGUMENTS = {"to": "acc-1", "amount": 5}
RULES = TicketRules(
    issuer="https://authz.example",
    audience="local:bank",
    keys=lambda: {KEY.kid: KEY.public},
    revoked=lambda: NOTHING_REVOKED,
)


class Clock:
    def __init__(self) -> None:
        self.at = float(NOW)

    def __call__(self) -> float:
        return self.at


def received(
    key: str = "key-1", *, arguments: Any = ARGUMENTS, decision: str = "d-1", **more: Any
) -> Received:
    """A call with the ticket for it; `more` are other claims of the ticket."""
    claims: dict[str, Any] = {
        "issuer": RULES.issuer,
        "audience": RULES.audience,
        "subject": "ada",
        "agent": "coder-1",
        "tool": "bank/transfer",
        "fingerprint": "sha256:" + "f" * 64,
        "arguments": arguments,
        "decision_id": decision,
        "holder_thumbprint": None,
        "ancestors": (),
        "jti": f"jti-{decision}",
        "iat": NOW,
        "exp": NOW + 600,
        **more,
    }
    return Received(
        tool=claims["tool"],
        arguments=arguments,
        ticket=sign_ticket(KEY, **claims),
        fingerprint=claims["fingerprint"],
        idempotency_key=key,
    )


@pytest.fixture(params=["sqlite", "postgres"])
def where(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, str]:
    if request.param == "sqlite":
        return "sqlite", str(tmp_path / "effects.db")
    return "postgres", request.getfixturevalue("postgres_url")


def open_store(where: tuple[str, str]) -> Any:
    kind, place = where
    return SqliteEffects(place) if kind == "sqlite" else PostgresEffects(place)


@pytest.fixture
def store(where: tuple[str, str]) -> Iterator[Any]:
    opened = open_store(where)
    yield opened
    if isinstance(opened, PostgresEffects):
        opened.close()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def endpoint(store: Any, clock: Clock) -> Endpoint:
    return Endpoint(store, tickets=RULES, lease_seconds=60, clock=clock)


class Counting:
    def __init__(self, error: BaseException | None = None) -> None:
        self.count = 0
        self.error = error

    def __call__(self) -> dict[str, int]:
        self.count += 1
        if self.error is not None:
            raise self.error
        return {"tx": self.count}


def test_a_repeat_gets_the_first_result(endpoint: Endpoint) -> None:
    effect = Counting()
    assert [endpoint.run(received(), effect) for _ in range(3)] == [{"tx": 1}] * 3
    assert effect.count == 1
    assert endpoint.run(received("key-2", decision="d-2"), effect) == {"tx": 2}
    # The same operation, decided anew under its key after a failure that was reported in error.
    assert endpoint.run(received(decision="d-3"), effect) == {"tx": 1}


def test_a_key_has_one_call_and_a_decision_one_key(endpoint: Endpoint) -> None:
    effect = Counting()
    endpoint.run(received(), effect)
    with pytest.raises(KeyConflict, match="another call"):
        endpoint.run(received(decision="d-2", fingerprint="sha256:" + "e" * 64), effect)
    with pytest.raises(KeyConflict, match="another call"):
        endpoint.run(received(decision="d-2", tool="bank/other"), effect)
    with pytest.raises(KeyConflict, match="another idempotency key"):
        endpoint.run(received("key-2"), effect)
    for key in ("", "k" * 257, "a\nb", "é"):
        with pytest.raises(KeyConflict):
            endpoint.run(received(key, decision="d-9"), effect)
    assert effect.count == 1


@pytest.mark.parametrize(
    ("call", "reason"),
    [
        (replace(received(), arguments={**ARGUMENTS, "amount": 500}), Reason.ARGUMENTS_MISMATCH),
        (replace(received(), fingerprint="sha256:" + "0" * 64), Reason.FINGERPRINT_MISMATCH),
        (received(audience="local:other"), Reason.AUD_MISMATCH),
        (received(iat=NOW - 4000, exp=NOW - 3500), Reason.EXPIRED),
        (replace(received(), ticket="x.y.z"), None),
    ],
)
def test_a_ticket_is_verified_against_what_arrived(endpoint: Endpoint, call: Received, reason: Any) -> None:
    effect = Counting()
    with pytest.raises(TicketRefused) as caught:
        endpoint.run(call, effect)
    assert reason is None or caught.value.refusal.reason is reason
    with pytest.raises(KeyConflict, match="another tool"):
        endpoint.run(replace(received(), tool="bank/refund"), effect)
    assert effect.count == 0
    assert call.ticket not in repr(call)


def test_what_cannot_be_verified_is_refused(store: Any) -> None:
    def gone() -> Any:
        raise ConnectionError

    effect = Counting()
    for rules in (replace(RULES, keys=gone), replace(RULES, revoked=gone)):
        with pytest.raises(ConnectionError):
            Endpoint(store, tickets=rules).run(received(), effect)
    assert effect.count == 0


def test_an_effect_that_breaks_off_is_in_doubt_until_somebody_has_looked(endpoint: Endpoint) -> None:
    effect = Counting(error=TimeoutError())
    with pytest.raises(TimeoutError):
        endpoint.run(received(), effect)
    effect.error = None
    for _ in range(2):
        with pytest.raises(InDoubt):
            endpoint.run(received(), effect)
    assert endpoint.in_doubt() == ("key-1",)
    endpoint.resolve("key-1", performed=True, result={"tx": "found"})
    assert endpoint.run(received(), effect) == {"tx": "found"}
    with pytest.raises(KeyConflict, match="not in doubt"):
        endpoint.resolve("key-1", performed=False)
    assert effect.count == 1


def test_what_was_found_not_to_have_happened_may_be_done(endpoint: Endpoint) -> None:
    effect = Counting(error=TimeoutError())
    with pytest.raises(TimeoutError):
        endpoint.run(received(), effect)
    endpoint.resolve("key-1", performed=False)
    effect.error = None
    assert endpoint.run(received(), effect) == {"tx": 2}


def test_an_effect_that_says_that_nothing_happened_gives_the_key_free(endpoint: Endpoint) -> None:
    effect = Counting(error=NotPerformed())
    with pytest.raises(NotPerformed):
        endpoint.run(received(), effect)
    effect.error = None
    assert endpoint.run(received(), effect) == {"tx": 2}


def test_a_result_that_cannot_be_kept_is_in_doubt(endpoint: Endpoint) -> None:
    with pytest.raises(ValueError, match="no JSON value"):
        endpoint.run(received(), object)
    with pytest.raises(InDoubt):
        endpoint.run(received(), Counting())


def test_a_claim_without_a_result_is_under_way_and_then_in_doubt(endpoint: Endpoint, clock: Clock) -> None:
    again = Counting()

    def effect() -> str:
        with pytest.raises(StillRunning):
            endpoint.run(received(), again)
        clock.at += 61
        with pytest.raises(InDoubt):
            endpoint.run(received(), again)
        return "late, and true"

    assert endpoint.run(received(), effect) == "late, and true"
    assert endpoint.run(received(), again) == "late, and true"
    assert again.count == 0


def test_a_late_effect_of_a_key_that_was_given_free_is_not_passed_over(
    endpoint: Endpoint, clock: Clock
) -> None:
    def effect() -> str:
        clock.at += 61
        endpoint.resolve("key-1", performed=False)
        return "had all the same"

    with pytest.raises(InDoubt):
        endpoint.run(received(), effect)


def test_what_is_old_is_forgotten_and_what_is_in_doubt_is_not(endpoint: Endpoint, clock: Clock) -> None:
    endpoint.run(received(), Counting())
    with pytest.raises(TimeoutError):
        endpoint.run(received("key-2", decision="d-2"), Counting(error=TimeoutError()))
    clock.at += 3600
    assert endpoint.forget(3601) == 0
    assert endpoint.forget(3599) == 1
    assert endpoint.in_doubt() == ("key-2",)


def test_of_many_threads_one_has_the_effect(endpoint: Endpoint) -> None:
    effect, gate = Counting(), threading.Barrier(16)
    call = received()

    def one(_: int) -> Any:
        gate.wait()
        try:
            return endpoint.run(call, effect)
        except StillRunning as refused:
            return refused.code

    with ThreadPoolExecutor(16) as pool:
        came = list(pool.map(one, range(16)))
    assert effect.count == 1
    assert {"tx": 1} in came
    assert all(one in ({"tx": 1}, "endpoint.running") for one in came)


def _race(where: tuple[str, str], call: Received, folder: str, gate: Any, dies: bool) -> None:
    """One process of several; what it does is a file of its own."""

    def effect() -> str:
        Path(folder, str(os.getpid())).touch()
        if dies:
            os.kill(os.getpid(), signal.SIGKILL)
        return "done"

    endpoint = Endpoint(open_store(where), tickets=RULES, lease_seconds=60, clock=Clock())
    gate.wait(120)
    with contextlib.suppress(StillRunning):
        endpoint.run(call, effect)


@pytest.mark.parametrize("dies", [False, True])
def test_of_several_processes_one_has_the_effect(
    where: tuple[str, str], endpoint: Endpoint, tmp_path: Path, clock: Clock, dies: bool
) -> None:
    """Also where it is killed between the effect and its result: then nobody tries it again."""
    folder = tmp_path / "effects"
    folder.mkdir()
    context = multiprocessing.get_context("spawn")
    gate = context.Barrier(3)
    call = received()
    processes = [context.Process(target=_race, args=(where, call, str(folder), gate, dies)) for _ in range(3)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(120)
    assert len(list(folder.iterdir())) == 1
    again = Counting()
    if dies:
        with pytest.raises(StillRunning):
            endpoint.run(call, again)
        clock.at += 61
        with pytest.raises(InDoubt):
            endpoint.run(call, again)
        assert endpoint.in_doubt() == ("key-1",)
    else:
        assert endpoint.run(call, again) == "done"
    assert again.count == 0


async def test_the_same_for_coroutines(endpoint: Endpoint) -> None:
    count = 0

    async def effect() -> int:
        nonlocal count
        await asyncio.sleep(0)
        count += 1
        return count

    assert [await endpoint.run_async(received(), effect) for _ in range(2)] == [1, 1]

    async def broken() -> None:
        raise TimeoutError

    with pytest.raises(TimeoutError):
        await endpoint.run_async(received("key-2", decision="d-2"), broken)
    with pytest.raises(InDoubt):
        await endpoint.run_async(received("key-2", decision="d-2"), effect)
    assert count == 1

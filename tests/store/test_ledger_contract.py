"""What every ledger does, whatever is beneath it. Runs on each of them."""

import asyncio
import dataclasses
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from authz.core.log_chain import genesis_hash, record_hash
from authz.errors import StoreUnavailable
from authz.model.operation import OperationState
from authz.model.record import Committed, Conflict, EventQuery, EventType, StoredEvent
from authz.ports import CommitUnit, CredentialSource, ExposureWrite, Ledger
from authz.store.keys import ServiceKeys
from authz.store.memory import MemoryLedger
from authz.store.postgres import PostgresLedger
from authz.store.postgres_url import PostgresUrl
from authz.store.sqlite import SqliteLedger
from tests.store.world import QUIET, START_MS, Clock, event, operation, unit

AnyLedger = MemoryLedger | SqliteLedger | PostgresLedger


@pytest.fixture(params=["memory", "sqlite", "postgres"])
async def ledger(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[AnyLedger]:
    opened: AnyLedger
    signer = ServiceKeys.generate()
    if request.param == "memory":
        opened = MemoryLedger(clock=Clock())
    elif request.param == "sqlite":
        opened = SqliteLedger.open(tmp_path / "authz.db", clock=Clock(), signer=signer, limits=QUIET)
    else:
        url = PostgresUrl.parse(request.getfixturevalue("postgres_url"))
        opened = PostgresLedger.open(url, tmp_path, clock=Clock(), signer=signer, limits=QUIET)
    async with opened:
        yield opened


async def commit(ledger: AnyLedger, *units: CommitUnit) -> list[Committed]:
    committed = []
    for each in units:
        outcome = await ledger.commit(each)
        assert isinstance(outcome, Committed)
        committed.append(outcome)
    return committed


def ids(found: "list[StoredEvent] | tuple[StoredEvent, ...]") -> list[str]:
    return [json.loads(record.text)["decision_id"] for record in found]


async def test_it_is_what_the_ports_ask_for(ledger: AnyLedger) -> None:
    as_ledger: Ledger = ledger
    as_credentials: CredentialSource = ledger
    assert await as_ledger.is_ready()
    assert await as_credentials.find_credential("0" * 64) is None
    await ledger.close()


async def test_records_form_a_chain(ledger: AnyLedger) -> None:
    committed = await commit(ledger, unit(1), unit(2), unit(3))

    assert [outcome.sequence for outcome in committed] == [1, 2, 3]
    assert {outcome.writer for outcome in committed} == {ledger.writer}
    previous = genesis_hash(ledger.writer)
    for outcome in committed:
        stored = await ledger.find_event("default", f"d-{outcome.sequence}")
        assert stored is not None
        record = json.loads(stored.text)
        assert list(record)[:8] == [
            *("schema", "type", "tenant", "writer", "sequence", "previous", "occurred_at", "recorded_at")
        ]
        assert record["previous"] == previous
        assert record_hash(previous, stored.text) == stored.hash == outcome.hash
        assert (stored.writer, stored.sequence) == (outcome.writer, outcome.sequence)
        assert stored.recorded_at_ms == outcome.recorded_at_ms
        previous = outcome.hash


async def test_the_text_is_the_body_as_given(ledger: AnyLedger) -> None:
    odd = dataclasses.replace(event(1), body=b'{"decision_id":"d-1","n":1.50,"t":"\\u00fc\\ud83d\\ude00"}')
    await commit(ledger, CommitUnit(event=odd))

    stored = await ledger.find_event("default", "d-1")

    assert stored is not None
    assert stored.text.endswith(',"decision_id":"d-1","n":1.50,"t":"\\u00fc\\ud83d\\ude00"}')


async def test_an_operation_is_written_by_compare_and_set(ledger: AnyLedger) -> None:
    assert await ledger.find_operation("k") is None
    await commit(ledger, unit(1, operation("k", state=OperationState.WAITING)))
    first = await ledger.find_operation("k")
    assert first is not None
    assert (first.state, first.version, first.expires_at_ms) == (OperationState.WAITING, 1, START_MS + 1000)

    await commit(ledger, unit(2, operation("k", expected_version=1, decision_id="d-2")))

    second = await ledger.find_operation("k")
    assert second is not None
    assert (second.state, second.version, second.decision_id) == (OperationState.RESERVED, 2, "d-2")


@pytest.mark.parametrize(
    ("key", "expected_version", "tenant"),
    [
        pytest.param("k", None, "default", id="exists already"),
        pytest.param("k", 2, "default", id="moved back or never there"),
        pytest.param("other", 1, "default", id="does not exist"),
        pytest.param("k", 1, "elsewhere", id="another tenant's"),
        pytest.param("k", None, "elsewhere", id="another tenant's, as new"),
    ],
)
async def test_a_conflict_writes_nothing(
    ledger: AnyLedger, key: str, expected_version: int | None, tenant: str
) -> None:
    await commit(ledger, unit(1, operation("k")))
    before = await ledger.find_operation("k")
    exposure = ExposureWrite(session_key="s", labels=frozenset({"secret"}))

    write = operation(key, expected_version=expected_version, tenant=tenant)
    outcome = await ledger.commit(unit(2, write, exposure))

    assert outcome == Conflict(key=key)
    assert await ledger.find_operation("k") == before
    assert await ledger.session_exposure("s") == frozenset()
    assert await ledger.find_event("default", "d-2") is None
    (after,) = await commit(ledger, unit(3))
    assert after.sequence == 2, "a conflict leaves no gap in the log"


async def test_one_of_many_at_once_gets_the_operation(ledger: AnyLedger) -> None:
    outcomes = await asyncio.gather(*(ledger.commit(unit(number, operation("k"))) for number in range(20)))

    assert sum(isinstance(outcome, Committed) for outcome in outcomes) == 1
    assert len(await ledger.search(EventQuery(tenant="default"))) == 1
    found = await ledger.find_operation("k")
    assert found is not None
    assert found.version == 1


async def test_a_unit_that_conflicts_does_not_harm_its_batch(ledger: AnyLedger) -> None:
    await commit(ledger, unit(0, operation("taken")))
    keys = ["a", "taken", "b", "taken", "c"]

    outcomes = await asyncio.gather(
        *(ledger.commit(unit(number, operation(key))) for number, key in enumerate(keys, start=1))
    )

    assert [isinstance(outcome, Conflict) for outcome in outcomes] == [False, True, False, True, False]
    sequences = [outcome.sequence for outcome in outcomes if isinstance(outcome, Committed)]
    assert sequences == [2, 3, 4]


async def test_exposure_only_grows(ledger: AnyLedger) -> None:
    assert await ledger.session_exposure("s") == frozenset()
    for labels in ({"untrusted"}, {"secret", "untrusted"}, set[str]()):
        exposure = ExposureWrite(session_key="s", labels=frozenset(labels))
        await commit(ledger, unit(1, exposure=exposure))

    assert await ledger.session_exposure("s") == {"untrusted", "secret"}
    assert await ledger.session_exposure("other") == frozenset()


@pytest.mark.parametrize(
    ("restriction", "expected"),
    [
        pytest.param({}, ["d-4", "d-3", "d-2", "d-1"], id="everything, newest first"),
        pytest.param({"agent": "coder-2"}, ["d-2"], id="agent"),
        pytest.param({"user": "bob"}, ["d-3"], id="user"),
        pytest.param({"tool": "mail/send"}, ["d-3"], id="tool"),
        pytest.param({"effect": "deny"}, ["d-2"], id="effect"),
        pytest.param({"trace_id": "t-9"}, ["d-4"], id="trace"),
        pytest.param({"rule": "a"}, ["d-1"], id="rule"),
        pytest.param({"rule": "b|c"}, ["d-2"], id="a bar in a rule's name"),
        pytest.param({"rule": "c"}, [], id="part of a rule's name"),
        pytest.param({"rule": "B|C"}, [], id="case counts"),
        pytest.param({"rule": "%"}, [], id="percent is no wildcard"),
        pytest.param({"rule": "_"}, [], id="underscore is no wildcard"),
        pytest.param({"rule": "100%"}, ["d-3"], id="percent is itself"),
        pytest.param({"type": "decision.repeated"}, ["d-4"], id="type"),
        pytest.param({"since_ms": START_MS + 3}, ["d-4", "d-3"], id="since, inclusive"),
        pytest.param({"until_ms": START_MS + 2}, ["d-2", "d-1"], id="until, inclusive"),
        pytest.param({"agent": "coder-1", "limit": 1}, ["d-4"], id="limit"),
        pytest.param({"limit": 0}, ["d-4"], id="no limit is not all"),
        pytest.param({"agent": "' OR 1=1 --"}, [], id="injection"),
    ],
)
async def test_search(ledger: AnyLedger, restriction: dict[str, Any], expected: list[str]) -> None:
    await commit(
        ledger,
        CommitUnit(event=event(1, rules=("a", "z"))),
        CommitUnit(event=event(2, agent="coder-2", effect="deny", rules=("b|c",))),
        CommitUnit(event=event(3, user="bob", server="mail", name="send", rules=("100%",))),
        CommitUnit(event=event(4, trace_id="t-9", event_type=EventType.DECISION_REPEATED, rules=())),
        CommitUnit(event=event(5, tenant="elsewhere", rules=("a", "b|c"), trace_id="t-9")),
    )

    found = await ledger.search(dataclasses.replace(EventQuery(tenant="default"), **restriction))

    assert ids(list(found)) == expected


@pytest.mark.parametrize("step_ms", [0, 1, -1])
async def test_pages_are_whole_and_disjoint(ledger: AnyLedger, step_ms: int) -> None:
    clock = ledger._clock
    assert isinstance(clock, Clock)
    clock.step_ms = step_ms  # many records at one instant, and a clock that goes back
    await commit(ledger, *(unit(number) for number in range(1, 8)))

    seen: list[StoredEvent] = []
    before: tuple[int, str, int] | None = None
    while page := await ledger.search(EventQuery(tenant="default", limit=3, before=before)):
        seen += page
        before = (page[-1].recorded_at_ms, page[-1].writer, page[-1].sequence)

    positions = [(record.recorded_at_ms, record.writer, record.sequence) for record in seen]
    assert len(set(positions)) == 7
    assert positions == sorted(positions, reverse=True)


async def test_a_decision_is_found_by_its_own_tenant_only(ledger: AnyLedger) -> None:
    await commit(
        ledger,
        CommitUnit(event=event(1)),
        CommitUnit(event=event(1, event_type=EventType.DECISION_REPEATED)),
        CommitUnit(event=dataclasses.replace(event(2), decision_id="", body=b"{}")),
    )

    found = await ledger.find_event("default", "d-1")

    assert found is not None
    assert found.sequence == 1, "the record that made the decision, not its repetition"
    assert await ledger.find_event("elsewhere", "d-1") is None
    assert await ledger.find_event("default", "d-9") is None
    assert await ledger.find_event("default", "") is None


async def test_what_became_of_a_decision_is_found_in_its_order(ledger: AnyLedger) -> None:
    moves = (EventType.OPERATION_STARTED, EventType.OPERATION_SETTLED, EventType.OPERATION_CONTRADICTED)
    units = [CommitUnit(event=event(1)), *(CommitUnit(event=event(1, event_type=kind)) for kind in moves)]
    for written in (*units, CommitUnit(event=event(2, event_type=EventType.OPERATION_SETTLED))):
        await commit(ledger, written)

    found = await ledger.find_moves("default", "d-1")

    assert [json.loads(record.text)["type"] for record in found] == [str(kind) for kind in moves]
    for tenant, decision_id in (("elsewhere", "d-1"), ("default", "d-9"), ("default", "")):
        assert await ledger.find_moves(tenant, decision_id) == []


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"body": b"[1]"}, id="not an object"),
        pytest.param({"body": b'{"a":1'}, id="cut off"),
        pytest.param({"body": b' {"a":1}'}, id="a blank before"),
        pytest.param({"body": b'{"a":"\xff"}'}, id="not UTF-8"),
        pytest.param({"agent": "\ud800"}, id="a lone surrogate"),
        pytest.param({"agent": "a\0b"}, id="a NUL in what it is found by"),
        pytest.param({"occurred_at_ms": -1}, id="before 1970"),
        pytest.param({"occurred_at_ms": 10**18}, id="after 9999"),
    ],
)
async def test_a_unit_that_cannot_be_written_is_refused_alone(
    ledger: AnyLedger, change: dict[str, Any]
) -> None:
    bad = CommitUnit(event=dataclasses.replace(event(2), **change))

    outcomes = await asyncio.gather(
        ledger.commit(unit(1)), ledger.commit(bad), ledger.commit(unit(3)), return_exceptions=True
    )

    assert isinstance(outcomes[0], Committed)
    assert isinstance(outcomes[2], Committed)
    assert isinstance(outcomes[1], StoreUnavailable)
    assert outcomes[1].code == "store.unwritable"


@pytest.mark.parametrize("text", ["\0", "a\0b", "\ud800"], ids=["NUL", "NUL within", "lone surrogate"])
async def test_texts_that_no_store_holds(ledger: AnyLedger, text: str) -> None:
    await commit(ledger, unit(1))
    exposure = ExposureWrite(session_key="s", labels=frozenset({text}))
    for bad in (unit(2, operation(text)), unit(2, exposure=exposure)):
        with pytest.raises(StoreUnavailable) as refused:
            await ledger.commit(bad)
        assert refused.value.code == "store.unwritable"
    if "\0" in text:
        assert await ledger.search(EventQuery(tenant="default", agent=text)) in ([], ())
        assert await ledger.find_event("default", text) is None
        assert await ledger.find_operation(text) is None
        assert await ledger.session_exposure(text) == frozenset()


async def test_a_closed_ledger_refuses(ledger: AnyLedger) -> None:
    await ledger.close()

    with pytest.raises(StoreUnavailable):
        await ledger.commit(unit(1))
    with pytest.raises(StoreUnavailable):
        await ledger.find_operation("k")
    with pytest.raises(StoreUnavailable):
        await ledger.session_exposure("s")
    with pytest.raises(StoreUnavailable):
        await ledger.find_credential("digest")
    with pytest.raises(StoreUnavailable):
        await ledger.search(EventQuery(tenant="default"))

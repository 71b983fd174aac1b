"""Any single change to a valid log is found, and a valid log is never accused."""

import dataclasses
import json
from collections.abc import Sequence
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from authz.core.log_chain import (
    LAST_MS,
    StoredRecord,
    check_event,
    encode_rule,
    encode_rules,
    frame_record,
    genesis_hash,
    index_members,
    record_hash,
    rfc3339_ms,
)
from authz.core.log_checkpoint import LogHead, check_expected_head, format_head, parse_head
from authz.core.log_verify import Anchor, ChainReport, Finding, FindingKind, check_log_head, verify_chain
from authz.errors import MalformedInput
from authz.model.record import Event, EventType

WRITER = "0123456789ab"
TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=12)
TIMES = st.integers(0, LAST_MS)


@st.composite
def events(draw: st.DrawFn) -> Event:
    body: dict[str, object] = {
        "decision_id": draw(TEXT),
        "trace_id": draw(TEXT),
        "effect": draw(st.sampled_from(["allow", "deny", "require_approval"])),
        "subject": {"agent": draw(TEXT), "on_behalf_of": draw(st.none() | TEXT)},
        "tool": {"server": draw(TEXT), "name": draw(TEXT)},
        "matched": [{"rule": rule} for rule in draw(st.lists(TEXT, max_size=3))],
        "arguments": draw(st.dictionaries(TEXT, st.integers() | TEXT, max_size=3)),
    }
    members = index_members(body)
    return Event(
        type=draw(st.sampled_from(EventType)),
        tenant=draw(TEXT),
        occurred_at_ms=draw(TIMES),
        body=json.dumps(body, ensure_ascii=draw(st.booleans()), separators=(",", ":")).encode(),
        decision_id=members.decision_id,
        trace_id=members.trace_id,
        agent=members.agent,
        user=members.user,
        tool=members.tool,
        effect=members.effect,
        rules=members.rules,
    )


def write(log: Sequence[Event], *, writer: str = WRITER, recorded_at_ms: int = 1) -> list[StoredRecord]:
    """The log as a store keeps it."""
    rows: list[StoredRecord] = []
    previous = genesis_hash(writer)
    for sequence, event in enumerate(log, start=1):
        check_event(event)
        text = frame_record(
            event, writer=writer, sequence=sequence, previous=previous, recorded_at_ms=recorded_at_ms
        )
        previous = record_hash(previous, text)
        rows.append(
            StoredRecord(
                writer=writer,
                sequence=sequence,
                text=text,
                hash=previous,
                type=str(event.type),
                tenant=event.tenant,
                decision_id=event.decision_id,
                trace_id=event.trace_id,
                agent=event.agent,
                user=event.user,
                tool=event.tool,
                effect=event.effect,
                rules=encode_rules(event.rules),
                occurred_at_ms=event.occurred_at_ms,
                recorded_at_ms=recorded_at_ms,
            )
        )
    return rows


LOGS = st.lists(events(), min_size=1, max_size=6).map(write)


def head_of(rows: Sequence[StoredRecord]) -> Anchor:
    return Anchor(sequence=rows[-1].sequence, hash=rows[-1].hash, source="the stored head")


def find(rows: Sequence[StoredRecord], head: Anchor) -> list[Finding]:
    report = verify_chain(WRITER, rows)
    return [*report.findings, *check_log_head(report, head)]


@given(LOGS)
def test_a_valid_log_is_never_accused(rows: list[StoredRecord]) -> None:
    anchors = [Anchor(sequence=row.sequence, hash=row.hash, source="checkpoint") for row in rows]
    report = verify_chain(WRITER, rows, anchors=anchors)
    assert report == ChainReport(
        writer=WRITER, records=len(rows), sequence=len(rows), hash=rows[-1].hash, findings=()
    )
    assert check_log_head(report, head_of(rows)) == ()


@given(LOGS, st.data())
def test_any_change_to_a_field_is_found(rows: list[StoredRecord], data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(rows) - 1))
    name = data.draw(st.sampled_from([field.name for field in dataclasses.fields(StoredRecord)]))
    old = getattr(rows[at], name)
    replacement = st.integers(-1, LAST_MS) if isinstance(old, int) else TEXT
    new = data.draw(replacement.filter(lambda value: value != old))
    changed = [*rows]
    changed[at] = dataclasses.replace(rows[at], **cast(Any, {name: new}))
    assert find(changed, head_of(rows))


@given(LOGS, st.data())
def test_any_changed_character_of_a_text_is_found(rows: list[StoredRecord], data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(rows) - 1))
    text = rows[at].text
    place = data.draw(st.integers(0, len(text) - 1))
    new = data.draw(st.characters().filter(lambda character: character != text[place]) | st.just(""))
    changed = [*rows]
    changed[at] = dataclasses.replace(rows[at], text=text[:place] + new + text[place + 1 :])
    assert at + 1 in {finding.sequence for finding in find(changed, head_of(rows))}


@given(LOGS, st.data())
def test_any_removed_record_is_found(rows: list[StoredRecord], data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(rows) - 1))
    found = find(rows[:at] + rows[at + 1 :], head_of(rows))
    expected = FindingKind.TRUNCATED if at == len(rows) - 1 else FindingKind.MISSING
    assert [(finding.sequence, finding.kind) for finding in found] == [(at + 1, expected)]


@given(LOGS, st.data())
def test_any_truncation_is_found(rows: list[StoredRecord], data: st.DataObject) -> None:
    keep = data.draw(st.integers(0, len(rows) - 1))
    (found,) = find(rows[:keep], head_of(rows))
    assert (found.sequence, found.kind) == (keep + 1, FindingKind.TRUNCATED)


@given(LOGS, st.data())
def test_any_duplicate_is_found(rows: list[StoredRecord], data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(rows) - 1))
    to = data.draw(st.integers(at + 1, len(rows)))
    (found,) = find([*rows[:to], rows[at], *rows[to:]], head_of(rows))
    assert (found.sequence, found.kind) == (at + 1, FindingKind.DUPLICATED)


@given(LOGS.filter(lambda rows: len(rows) > 1), st.data())
def test_any_order_but_the_right_one_is_found(rows: list[StoredRecord], data: st.DataObject) -> None:
    shuffled = data.draw(st.permutations(rows).filter(lambda order: order != rows))
    kinds = {finding.kind for finding in find(shuffled, head_of(rows))}
    assert FindingKind.REORDERED in kinds
    assert FindingKind.MISSING not in kinds, "they are all there"


@given(LOGS, st.data())
def test_a_log_that_was_hashed_again_is_found_by_a_witness(
    rows: list[StoredRecord], data: st.DataObject
) -> None:
    log = data.draw(st.lists(events(), min_size=len(rows), max_size=len(rows)))
    forged = write(log, recorded_at_ms=2)
    assert find(forged, head_of(forged)) == []
    at = data.draw(st.integers(0, len(rows) - 1))
    witness = Anchor(sequence=at + 1, hash=rows[at].hash, source="checkpoint 1")
    (found,) = verify_chain(WRITER, forged, anchors=[witness]).findings
    assert (found.sequence, found.kind) == (at + 1, FindingKind.HEAD_DISAGREES)


@given(LOGS)
def test_chains_of_two_writers_cannot_be_swapped(rows: list[StoredRecord]) -> None:
    renamed = [dataclasses.replace(row, writer="ba9876543210") for row in rows]
    assert verify_chain("ba9876543210", renamed).findings
    assert verify_chain("ba9876543210", rows).findings


@pytest.mark.parametrize(
    "extra", ['"sequence":1', '"effect":"allow"', '"schema":1'], ids=["envelope", "body", "first"]
)
def test_a_member_that_occurs_twice_is_no_record(extra: str) -> None:
    event = Event(
        type=EventType.DECISION_MADE,
        tenant="t",
        occurred_at_ms=0,
        effect="deny",
        body=b'{"effect":"deny",' + extra.encode() + b"}",
    )
    (row,) = write([event])
    (found,) = verify_chain(WRITER, [row]).findings
    assert found.kind is FindingKind.MALFORMED


@given(st.lists(TEXT.filter(bool), max_size=4), TEXT.filter(bool))
def test_no_rule_name_looks_like_another(rules: list[str], other: str) -> None:
    assert (f"|{encode_rule(other)}|" in encode_rules(rules)) is (other in rules)


@pytest.mark.parametrize(
    ("at_ms", "expected"),
    [
        (0, "1970-01-01T00:00:00.000Z"),
        (1_709_164_800_001, "2024-02-29T00:00:00.001Z"),
        (LAST_MS, "9999-12-31T23:59:59.999Z"),
    ],
)
def test_times(at_ms: int, expected: str) -> None:
    assert rfc3339_ms(at_ms) == expected


def test_head_round_trip_and_growth() -> None:
    heads = (
        LogHead(writer="b", sequence=2, hash="1" * 64),
        LogHead(writer="a", sequence=10, hash="0" * 64),
    )
    text = format_head(heads)
    assert text == f"a:10:{'0' * 64},b:2:{'1' * 64}"
    assert sorted(parse_head(f" {text}\n")) == sorted(heads)

    hashes = {("a", 10): "0" * 64, ("a", 11): "2" * 64, ("b", 2): "3" * 64}
    (found,) = check_expected_head(parse_head(text), lambda writer, sequence: hashes.get((writer, sequence)))
    assert (found.writer, found.sequence, found.kind) == ("b", 2, FindingKind.HEAD_DISAGREES)
    assert {finding.kind for finding in check_expected_head(heads, lambda writer, sequence: None)} == {
        FindingKind.TRUNCATED
    }


@pytest.mark.parametrize(
    "text", ["", ",", "a", "a:1", f"a:0:{'0' * 64}", f"a:1:{'0' * 63}", f"a:01:{'0' * 64}"]
)
def test_heads_that_are_none(text: str) -> None:
    with pytest.raises(MalformedInput):
        parse_head(text)

"""How a record of the decision log is framed, hashed and verified (spec section 10).

A record is one JSON text: the envelope, then the members of `Event.body`. Its hash covers the
previous record's hash and the exact bytes of the text, so what is verified is what was written, byte
for byte, without any canonical form. The first record of a writer follows `genesis_hash(writer)`, so
one writer's chain cannot be passed off as another's.

`authz.core.log_verify` verifies such a chain.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from datetime import UTC, datetime, timedelta
from functools import lru_cache

from authz.model.record import Event

SCHEMA_VERSION = 1
LAST_MS = 253_402_300_799_999
"""9999-12-31T23:59:59.999Z, the last instant that RFC 3339 can write."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class MalformedRecord(ValueError):
    """A text that is not a record. Verification turns it into a finding; it never leaves the store."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexMembers:
    """The members of a record's body that searches select by."""

    decision_id: str = ""
    trace_id: str = ""
    agent: str = ""
    user: str = ""
    tool: str = ""
    effect: str = ""
    rules: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredRecord:
    """A row of the log as it was read, nothing of it believed yet."""

    writer: str
    sequence: int
    text: str
    hash: str
    type: str
    tenant: str
    decision_id: str
    trace_id: str
    agent: str
    user: str
    tool: str
    effect: str
    rules: str
    occurred_at_ms: int
    recorded_at_ms: int


def genesis_hash(writer: str) -> str:
    """What stands as the previous hash in the first record of `writer`: hex of SHA-256."""
    return hashlib.sha256(b"0" * 64 + writer.encode("utf-8", "surrogateescape")).hexdigest()


def record_hash(previous: str, text: str) -> str:
    """SHA-256 over the previous hash's 32 bytes and the text's UTF-8 bytes, as hex."""
    return hashlib.sha256(bytes.fromhex(previous) + text.encode("utf-8")).hexdigest()


def check_record_hash(text: str, stored_hash: str) -> None:
    """Refuse (`MalformedRecord`) a record whose text and stored hash do not agree."""
    previous = parse_record(text).get("previous")
    if not isinstance(previous, str) or not is_hash(previous) or record_hash(previous, text) != stored_hash:
        raise MalformedRecord("the text and its stored hash do not agree")


def check_event(event: Event) -> None:
    """Refuse (`ValueError`) an event that could not stand in the log, before it joins a batch.

    The body must be one JSON object in UTF-8 without leading or trailing blanks. Whether it parses is
    not checked here (that would cost more than the commit); verification does.
    """
    body = event.body
    if body != b"{}" and not (body.startswith(b'{"') and body.endswith(b"}")):
        raise ValueError("the body of an event must be a JSON object without surrounding blanks")
    if b"\0" in body:
        raise ValueError("the body of an event must not hold a NUL byte")
    if not 0 <= event.occurred_at_ms <= LAST_MS:
        raise ValueError("`occurred_at_ms` must lie between the years 1970 and 9999")
    body.decode("utf-8")
    texts = (
        event.tenant,
        event.decision_id,
        event.trace_id,
        event.agent,
        event.user,
        event.tool,
        event.effect,
    )
    joined = "\n".join((*texts, *event.rules))
    joined.encode("utf-8")
    if "\0" in joined:
        raise ValueError("what an event is found by must not hold a NUL character")


def frame_record(event: Event, *, writer: str, sequence: int, previous: str, recorded_at_ms: int) -> str:
    """The record's exact text: the envelope, then the body's members, spliced and not parsed again."""
    body = event.body.decode("utf-8")
    rest = "}" if body == "{}" else "," + body[1:]
    return (
        f'{{"schema":{SCHEMA_VERSION},"type":{_quoted(str(event.type))},"tenant":{_quoted(event.tenant)}'
        f',"writer":{_quoted(writer)},"sequence":{sequence},"previous":"{previous}"'
        f',"occurred_at":"{rfc3339_ms(event.occurred_at_ms)}","recorded_at":"{rfc3339_ms(recorded_at_ms)}"{rest}'
    )


def rfc3339_ms(at_ms: int) -> str:
    """Milliseconds since the epoch as RFC 3339 in UTC with three fractional digits and `Z`."""
    seconds, milliseconds = divmod(at_ms, 1000)
    return f"{_rfc3339_seconds(seconds)}.{milliseconds:03d}Z"


@lru_cache(maxsize=64)
def _rfc3339_seconds(seconds: int) -> str:
    return (_EPOCH + timedelta(seconds=seconds)).replace(tzinfo=None).isoformat()


@lru_cache(maxsize=1024)
def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def encode_rules(rules: Iterable[str]) -> str:
    """Rule names as one searchable text, `|a|b|`; empty for none.

    `%` and `|` inside a name are percent-encoded, so that no name can look like two others.
    """
    encoded = "|".join(encode_rule(rule) for rule in rules)
    return f"|{encoded}|" if encoded else ""


def encode_rule(rule: str) -> str:
    """One rule name as it stands between the bars of `encode_rules`."""
    return rule.replace("%", "%25").replace("|", "%7C")


def index_members(record: Mapping[str, object]) -> IndexMembers:
    """What searches select a record by, read from the members of its body.

    The one place that says where they stand: `decision_id`, `trace_id`, `effect`, `subject.agent`,
    `subject.on_behalf_of`, `tool.server` + `/` + `tool.name`, and the `rule` of each of `matched`, in
    order. An absent or null member is an empty field. Raises `MalformedRecord` for a member
    of another type. Build `Event` with this, and its fields cannot disagree with its body.
    """
    subject, tool = _object(record, "subject"), _object(record, "tool")
    server, name = _text(tool, "server"), _text(tool, "name")
    matched = record.get("matched") or []
    if not isinstance(matched, list | tuple) or not all(isinstance(item, Mapping) for item in matched):
        raise MalformedRecord("`matched` is not a list of objects")
    return IndexMembers(
        decision_id=_text(record, "decision_id"),
        trace_id=_text(record, "trace_id"),
        agent=_text(subject, "agent"),
        user=_text(subject, "on_behalf_of"),
        tool=f"{server}/{name}" if server or name else "",
        effect=_text(record, "effect"),
        rules=tuple(_text(item, "rule") for item in matched),
    )


def _object(record: Mapping[str, object], name: str) -> Mapping[str, object]:
    value = record.get(name)
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise MalformedRecord(f"`{name}` is not an object")
    return value


def _text(record: Mapping[str, object], name: str) -> str:
    value = record.get(name)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise MalformedRecord(f"`{name}` is not a text")
    return value


def is_hash(text: str) -> bool:
    """Whether `text` is a SHA-256 in lower-case hex."""
    return len(text) == 64 and all(character in "0123456789abcdef" for character in text)


def parse_record(text: object) -> dict[str, object]:
    """The members of a record as it was read. Raises `ValueError` or `RecursionError`."""
    if not isinstance(text, str):
        raise MalformedRecord("it is not stored as text")
    text.encode("utf-8")  # a lone surrogate stands for a byte that is not UTF-8
    record = json.loads(text, object_pairs_hook=_unique)
    if not isinstance(record, dict):
        raise MalformedRecord("it is not an object")
    if type(record.get("schema")) is not int or record["schema"] != SCHEMA_VERSION:
        raise MalformedRecord("its schema version is unknown")
    return record


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    # A second `sequence` or `effect` in the body would let two readers see two records.
    members = dict(pairs)
    if len(members) != len(pairs):
        raise MalformedRecord("a member name occurs twice")
    return members


def expected_columns(record: Mapping[str, object]) -> dict[str, object]:
    """What each index column must hold, by the text."""
    members = index_members(record)
    columns: dict[str, object] = {field.name: getattr(members, field.name) for field in fields(members)}
    columns["rules"] = encode_rules(members.rules)
    for name in ("writer", "sequence", "type", "tenant"):
        columns[name] = record.get(name)
    for name in ("occurred_at", "recorded_at"):
        columns[f"{name}_ms"] = _parse_ms(_text(record, name))
    return columns


def _parse_ms(text: str) -> int:
    at = datetime.fromisoformat(text)
    if at.tzinfo is None:
        raise MalformedRecord("a time has no zone")
    at_ms = (at - _EPOCH) // timedelta(milliseconds=1)
    if rfc3339_ms(at_ms) != text:
        raise MalformedRecord("a time is not in the log's form")
    return at_ms

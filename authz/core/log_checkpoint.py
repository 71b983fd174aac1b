"""Joint checkpoints over all writers of the log, and the HEAD text that is kept outside (spec section 10).

A checkpoint is a compact JWS (RFC 7515, EdDSA) that names the last record of every writer and the
hash of the checkpoint before it. HEAD is the same heads as plain text, `writer:sequence:hash` joined by
commas: whoever keeps one can later prove that nothing up to there was changed or cut off, without
trusting the service's key.
"""

import hashlib
import json
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import jwt
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from authz.core.log_chain import LAST_MS, MalformedRecord, rfc3339_ms
from authz.core.log_verify import Anchor, Finding, FindingKind
from authz.errors import MalformedInput

CHECKPOINT_SCHEMA = 1
CHECKPOINT_TYPE = "log-checkpoint+jwt"
GENESIS_CHECKPOINT = "0" * 64
_HEAD_ITEM = re.compile(r"([0-9A-Za-z_-]{1,64}):([1-9][0-9]{0,18}):([0-9a-f]{64})")


class Signer(Protocol):
    """Signs with the service's key in use."""

    @property
    def identity(self) -> str:
        """Names the service's keys together, the same through all rotations."""
        ...

    @property
    def kid(self) -> str:
        """RFC 7638 thumbprint of the key in use."""
        ...

    def sign(self, header: Mapping[str, object], payload: Mapping[str, object]) -> str:
        """A compact JWS. `header` names at least `typ`; `alg` and `kid` are the signer's."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class LogHead:
    """The last record of one writer."""

    writer: str
    sequence: int
    hash: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredCheckpoint:
    """A row of the checkpoints as it was read, nothing of it believed yet."""

    number: int
    at_ms: int
    token: str
    hash: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointReport:
    """What verifying the checkpoints found. `anchors` holds only what verified, by writer."""

    checkpoints: int
    anchors: Mapping[str, Sequence[Anchor]]
    findings: tuple[Finding, ...]


def format_head(heads: Iterable[LogHead]) -> str:
    """HEAD: `writer:sequence:hash`, sorted and joined by commas."""
    return ",".join(f"{head.writer}:{head.sequence}:{head.hash}" for head in sorted(heads))


def parse_head(text: str) -> tuple[LogHead, ...]:
    """The heads of a HEAD text. Raises `MalformedInput`; an empty one is refused, since it proves nothing."""
    heads = []
    for item in text.strip().split(","):
        match = _HEAD_ITEM.fullmatch(item)
        if match is None:
            raise MalformedInput(
                "HEAD must be `writer:sequence:hash` joined by commas, as `authz log head` prints it",
                code="log.head_malformed",
            )
        heads.append(LogHead(writer=match[1], sequence=int(match[2]), hash=match[3]))
    return tuple(heads)


def check_expected_head(
    expected: Iterable[LogHead], find_hash: Callable[[str, int], str | None]
) -> tuple[Finding, ...]:
    """Every record that HEAD names must be there with that hash; the log may have grown since.

    `find_hash(writer, sequence)` is the hash of a record of the log, `None` when there is none.
    """
    findings = []
    for head in expected:
        found = find_hash(head.writer, head.sequence)
        if found == head.hash:
            continue
        kind = FindingKind.TRUNCATED if found is None else FindingKind.HEAD_DISAGREES
        message = "the expected HEAD names this record, but " + (
            "it is not there" if found is None else "it has another hash"
        )
        findings.append(Finding(writer=head.writer, sequence=head.sequence, kind=kind, message=message))
    return tuple(findings)


def checkpoint_payload(
    *, number: int, previous: str, heads: Iterable[LogHead], at_ms: int
) -> dict[str, object]:
    """The claims of checkpoint `number`. `previous` is the hash of the one before it."""
    named = [{"writer": head.writer, "sequence": head.sequence, "hash": head.hash} for head in sorted(heads)]
    return {
        "schema": CHECKPOINT_SCHEMA,
        "number": number,
        "previous": previous,
        "heads": named,
        "at": rfc3339_ms(at_ms),
    }


def checkpoint_hash(token: str) -> str:
    """SHA-256 of the compact JWS as hex: what the next checkpoint names as `previous`."""
    return hashlib.sha256(token.encode("utf-8")).hexdigest()


def unverified_heads(token: str) -> tuple[LogHead, ...]:
    """The heads that a checkpoint names, its signature not checked. Raises `MalformedRecord`."""
    try:
        payload = jwt.PyJWS().decode_complete(token, options={"verify_signature": False})["payload"]
    except jwt.PyJWTError as fault:
        raise MalformedRecord("the checkpoint is malformed") from fault
    return tuple(read_heads(json.loads(payload)))


def verify_checkpoints(
    rows: Iterable[StoredCheckpoint],
    expected_keys: Mapping[str, Ed25519PublicKey],
    *,
    withdrawn: Collection[str] = (),
) -> CheckpointReport:
    """Verify signatures (keys by thumbprint), numbers and the chain of all checkpoints, in order.

    A checkpoint under a key of `withdrawn`, which others may have, proves nothing by itself; it holds
    because a later one, under another key, names it through the chain of hashes.
    """
    anchors: dict[str, list[Anchor]] = {}
    findings: list[Finding] = []
    expected_number, expected_previous, count = 1, GENESIS_CHECKPOINT, 0
    unproven = 0  # the last checkpoint that waits for one under a key that is not withdrawn

    def find(number: int, message: str) -> None:
        kind = FindingKind.CHECKPOINT_INVALID
        findings.append(Finding(writer="", sequence=number, kind=kind, message=message))

    for row in rows:
        count += 1
        if type(row.number) is not int:
            find(0, "a checkpoint has no place: its number is not a number")
            continue
        if row.number != expected_number:
            find(row.number, f"checkpoint {expected_number} is missing before this one")
        try:
            payload = _check_row(row, expected_keys)
            heads = read_heads(payload)
        except (ValueError, RecursionError) as fault:
            find(row.number, f"the checkpoint does not verify: {fault}")
        else:
            if row.number == expected_number and payload["previous"] != expected_previous:
                find(row.number, "the checkpoint does not follow the one before it")
            _add_anchors(anchors, row.number, heads, find)
            unproven = row.number if _kid(row.token) in withdrawn else 0
        expected_number, expected_previous = row.number + 1, row.hash
    if unproven:
        find(unproven, "its key was withdrawn, and no later checkpoint under another key covers it yet")
    return CheckpointReport(checkpoints=count, anchors=anchors, findings=tuple(findings))


def _add_anchors(
    anchors: dict[str, list[Anchor]],
    number: int,
    heads: Iterable[LogHead],
    find: Callable[[int, str], None],
) -> None:
    for head in heads:
        known = anchors.setdefault(head.writer, [])
        if known and head.sequence < known[-1].sequence:
            find(number, f"the checkpoint goes back to record {head.sequence} of writer `{head.writer}`")
        known.append(Anchor(sequence=head.sequence, hash=head.hash, source=f"checkpoint {number}"))


def _check_row(row: StoredCheckpoint, expected_keys: Mapping[str, Ed25519PublicKey]) -> Mapping[str, object]:
    if not isinstance(row.token, str):
        raise MalformedRecord("it is not stored as text")
    if checkpoint_hash(row.token) != row.hash:
        raise MalformedRecord("the text and its stored hash do not agree")
    payload = verify_token(row.token, expected_keys)
    if payload.get("number") != row.number:
        raise MalformedRecord("column `number` is not what the checkpoint says")
    # The type first: SQLite stores any value in any column, also a time that no calendar has.
    if (
        type(row.at_ms) is not int
        or not 0 <= row.at_ms <= LAST_MS
        or payload.get("at") != rfc3339_ms(row.at_ms)
    ):
        raise MalformedRecord("column `at_ms` is not what the checkpoint says")
    return payload


def _kid(token: str) -> object:
    return jwt.get_unverified_header(token).get("kid")


def verify_token(token: str, expected_keys: Mapping[str, Ed25519PublicKey]) -> Mapping[str, object]:
    """The claims of a checkpoint, its signature and form checked. Raises `ValueError`, `RecursionError`."""
    try:
        kid = _kid(token)
        key = expected_keys.get(kid) if isinstance(kid, str) else None
        if key is None:
            raise MalformedRecord(f"its key `{kid}` is not among the keys to check with")
        verified = jwt.PyJWS().decode_complete(token, key, algorithms=["EdDSA"])
    except jwt.PyJWTError as fault:
        raise MalformedRecord(f"{fault}".lower() or "the signature is wrong") from fault
    header = verified["header"]
    if header.get("typ") != CHECKPOINT_TYPE or not set(header) <= {"alg", "kid", "typ"}:
        raise MalformedRecord("it was signed as something else")
    payload = json.loads(verified["payload"])
    if not isinstance(payload, dict):
        raise MalformedRecord("its payload is not an object")
    if payload.get("schema") != CHECKPOINT_SCHEMA:
        raise MalformedRecord("its schema version is unknown")
    if "previous" not in payload:
        raise MalformedRecord("it names no previous checkpoint")
    return payload


def read_heads(payload: object) -> list[LogHead]:
    """The heads that a checkpoint's claims name. Raises `MalformedRecord`."""
    named = payload.get("heads") if isinstance(payload, dict) else None
    if not isinstance(named, list) or not named:
        raise MalformedRecord("it names no heads")
    return [_read_head(item) for item in named]


def _read_head(item: object) -> LogHead:
    members = item if isinstance(item, dict) else {}
    match = _HEAD_ITEM.fullmatch(":".join(str(members.get(name)) for name in ("writer", "sequence", "hash")))
    if match is None:
        raise MalformedRecord("a head is malformed")
    return LogHead(writer=match[1], sequence=int(match[2]), hash=match[3])

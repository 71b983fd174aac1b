"""Verifying a log against its anchor, a checkpoint that is kept apart from the log (spec section 10)."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import jwt
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from authz.core.log_checkpoint import LogHead, checkpoint_hash, read_heads, verify_token
from authz.core.log_verify import Anchor, Finding, FindingKind

_SOURCE = "the anchor file"


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedCheckpoint:
    """The place of a checkpoint among the others, and its hash."""

    number: int
    hash: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AnchorReport:
    """What an anchor says of the log. `anchors` is empty unless it verified."""

    anchors: Mapping[str, Anchor]
    findings: tuple[Finding, ...]


def unverified_anchor(token: str) -> NamedCheckpoint | None:
    """Which checkpoint an anchor is, its signature not checked; `None` when it is none."""
    try:
        payload = json.loads(
            jwt.PyJWS().decode_complete(token, options={"verify_signature": False})["payload"]
        )
        return NamedCheckpoint(number=_read_number(payload), hash=checkpoint_hash(token))
    except (jwt.PyJWTError, ValueError, RecursionError):
        return None


def verify_anchor(
    token: str,
    expected_keys: Mapping[str, Ed25519PublicKey],
    find_hash: Callable[[int], str | None],
) -> AnchorReport:
    """Verify an anchor, and that the log has the checkpoint that it is; the records come later.

    `find_hash(number)` is the stored hash of a checkpoint of the log, `None` when there is none.
    """
    try:
        payload = verify_token(token, expected_keys)
        number, heads = _read_number(payload), read_heads(payload)
    except (ValueError, RecursionError) as fault:
        message = f"{_SOURCE} does not verify: {fault}"
        return AnchorReport(anchors={}, findings=(_finding(0, FindingKind.ANCHOR_INVALID, message),))
    findings: tuple[Finding, ...] = ()
    found = find_hash(number)
    if found != checkpoint_hash(token):
        has = "does not have it" if found is None else "has another of that number"
        message = f"{_SOURCE} names checkpoint {number}, but the log {has}"
        findings = (_finding(number, FindingKind.CHECKPOINT_MISSING, message),)
    return AnchorReport(anchors={head.writer: _anchor(head) for head in heads}, findings=findings)


def _finding(number: int, kind: FindingKind, message: str) -> Finding:
    return Finding(writer="", sequence=number, kind=kind, message=message)


def _anchor(head: LogHead) -> Anchor:
    return Anchor(sequence=head.sequence, hash=head.hash, source=_SOURCE)


def _read_number(payload: object) -> int:
    number = payload.get("number") if isinstance(payload, dict) else None
    if type(number) is not int or not 0 < number < 2**63:
        raise ValueError("it has no number")
    return number

"""Decisions as the wire gives them, for tests of what is done with one."""

from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

from authz_client import Asked, Decision
from authz_client.paths import ResolvedPath

NOW = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)


def clock() -> datetime:
    return NOW


def access(verb: str, uri: str, *, scope: str = "object", effect: str = "allow") -> dict[str, Any]:
    return {
        "verb": verb,
        "resource": f"Thing::{uri!r}",
        "uri": uri,
        "scope": scope,
        "authority": "A1",
        "effect": effect,
        "rules": ["r"],
    }


def of_path(verb: str, path: str, **more: Any) -> dict[str, Any]:
    return access(verb, "file://" + quote(path), **more)


def asked_about(*found: ResolvedPath) -> Asked:
    """What a request is remembered by that is sent now, with the claims of `found`."""
    claims = {f"/{number}": path.claim() for number, path in enumerate(found)}
    return Asked.now({"context": {"resolved": claims}})


def body_of(*accesses: dict[str, Any], effect: str = "allow", **changes: Any) -> dict[str, Any]:
    """What the service answers: an allow that lasts a minute unless `changes` say otherwise."""
    return {
        "decision_id": "d-1",
        "effect": effect,
        "expires_at": "2026-11-30T12:01:00Z",
        "matched": [],
        "stage": "policy",
        "code": "policy.permit" if effect == "allow" else "policy.forbid",
        "accesses": list(accesses),
        "fingerprint": "sha256:bb",
        **changes,
    }


def decision(*accesses: dict[str, Any], asked: Asked | None = None, **changes: Any) -> Decision:
    """A decision on `accesses`, with the body of `body_of`, that answers what was `asked`."""
    return Decision.from_json(body_of(*accesses, **changes), now=NOW, asked=asked)

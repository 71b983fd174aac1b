"""A decision as the client believes it. What cannot be believed is a `MalformedAnswer`."""

import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, Final, Self, TypeVar

from authz_client.errors import MalformedAnswer


class Effect(StrEnum):
    """What the runtime may do with the call."""

    ALLOW = "allow"
    REQUIRE_APPROVAL = "require_approval"
    DENY = "deny"


class Obligation(StrEnum):
    """What an allow is bound to. The set is closed: an allow with an unknown one must not run."""

    SNAPSHOT_BEFORE = "snapshot_before"
    VERIFY_IDENTITY = "verify_identity"
    SETTLE_BEFORE_RETRY = "settle_before_retry"
    FILTER_RESULTS = "filter_results"
    LOG_LOCALLY = "log_locally"
    PROBE_BEFORE = "probe_before"


@dataclass(frozen=True, slots=True, kw_only=True)
class MatchedRule:
    """A rule that determined the effect, by the name that its author gave it."""

    rule: str
    kind: str
    file: str | None
    line: int | None
    reason: str

    @classmethod
    def from_json(cls, value: object) -> Self:
        """Raises `MalformedAnswer`."""
        members = _object(value, "matched")
        return cls(
            rule=_text(members, "rule"),
            kind=_text(members, "kind"),
            file=_optional_text(members, "file"),
            line=_optional_integer(members, "line"),
            reason=_optional_text(members, "reason") or "",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """One canonical (verb, resource, scope) that the call would exercise, and its own effect."""

    verb: str
    resource: str
    uri: str
    scope: str
    authority: str
    effect: Effect
    rules: tuple[str, ...]
    pattern: str | None = None
    """Of a tree: the access is only to what matches beneath its resource."""

    @classmethod
    def from_json(cls, value: object) -> Self:
        """Raises `MalformedAnswer`."""
        members = _object(value, "accesses")
        return cls(
            verb=_text(members, "verb"),
            resource=_text(members, "resource"),
            uri=_text(members, "uri"),
            scope=_text(members, "scope"),
            authority=_text(members, "authority"),
            effect=_effect(members),
            rules=_texts(members, "rules"),
            pattern=_optional_text(members, "pattern"),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """The right to run an allowed call, and to settle it, until it ends. `token` is a secret."""

    token: str
    expires_at: datetime

    @classmethod
    def from_json(cls, value: object) -> Self:
        """Raises `MalformedAnswer`."""
        members = _object(value, "lease")
        return cls(token=_text(members, "token"), expires_at=_instant(members, "expires_at"))

    def __repr__(self) -> str:
        return f"Lease(token=…, expires_at={self.expires_at!r})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Approval:
    """The approval that a call waits for."""

    id: str
    state: str
    url: str | None
    expires_at: datetime | None

    @classmethod
    def from_json(cls, value: object) -> Self:
        """Raises `MalformedAnswer`."""
        members = _object(value, "approval")
        return cls(
            id=_text(members, "id"),
            state=_text(members, "state"),
            url=_optional_text(members, "url"),
            expires_at=_optional(members, "expires_at", _instant),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class CapabilityRefusal:
    """Which link of the presented chain refused a call, by which rule. With a code `capability.…`."""

    reason: str
    link: int | None
    """0 for the root; `None` where it is none of them."""
    agent: str | None
    """Who holds that link, where its signature holds."""
    component: str | None
    """`R` (rights), `O` (objects), `P` (predicate) or `E` (expiry)."""

    @classmethod
    def from_json(cls, value: object) -> Self:
        """Raises `MalformedAnswer`."""
        members = _object(value, "capability")
        return cls(
            reason=_text(members, "reason"),
            link=_optional_integer(members, "link"),
            agent=_optional_text(members, "agent"),
            component=_optional_text(members, "component"),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimedPath:
    """What a request claimed of one path (`context.resolved`)."""

    path: str
    device: int
    inode: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What was asked about, and when: an answer is about no other object, and about none found later."""

    claims: frozenset[ClaimedPath]
    at_ns: int
    """Of this machine's monotonic clock, before the request was sent."""

    @classmethod
    def now(cls, request: Mapping[str, Any]) -> Self:
        """To be called before `request` (the body of `POST /decide`) is sent.

        What is no claim is left out: the service refuses it, and nothing is opened by it.
        """
        at_ns = time.monotonic_ns()
        context = request.get("context")
        resolved = context.get("resolved") if isinstance(context, Mapping) else None
        values = resolved.values() if isinstance(resolved, Mapping) else ()
        claims = (_claimed(value) for value in values)
        return cls(claims=frozenset(claim for claim in claims if claim is not None), at_ns=at_ns)


def _claimed(value: object) -> ClaimedPath | None:
    if not isinstance(value, Mapping):
        return None
    path, device, inode = (value.get(name) for name in ("path", "device", "inode"))
    if not isinstance(path, str) or type(device) is not int or type(inode) is not int:
        return None
    return ClaimedPath(path=path, device=device, inode=inode)


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """The answer to one call. What the service left out is `None` or empty."""

    decision_id: str
    effect: Effect
    stage: str
    """The stage that settled the effect."""
    code: str
    matched: tuple[MatchedRule, ...]
    message: str
    """For a refusal: words that a model can use."""
    next: tuple[str, ...]
    """What may be tried after a refusal."""
    retry_unchanged: bool
    expires_at: datetime | None
    fingerprint: str | None
    request_digest: str | None
    accesses: tuple[Access, ...]
    arguments: Mapping[str, Any] | None
    """The arguments that were judged, defaults included: these are to run, not the proposed ones."""
    obligations: tuple[Obligation, ...]
    idempotency_key: str | None
    lease: Lease | None
    approval: Approval | None
    policy_version: str | None
    dry_run: bool
    """What the answer would be. Nothing was reserved, so nothing may run on it."""
    repeated: bool
    """The call was allowed before. This is that permission, not a second one."""
    capability: CapabilityRefusal | None = None
    """Of a deny because of the capability: which link, and which of rights, objects, predicate, expiry."""
    ticket: str | None = field(default=None, repr=False)
    """With an allow, where it was asked for: what the tool server verifies (`capabilities.tickets`)."""
    asked: Asked | None = field(default=None, compare=False)
    """Not of the answer, but what it answers. `authz_client.files` opens nothing without it."""

    @property
    def allowed(self) -> bool:
        """Whether the call may run, until `expires_at` and with every obligation met."""
        return self.effect is Effect.ALLOW and not self.dry_run

    @classmethod
    def from_json(cls, value: object, *, now: datetime, asked: Asked | None = None) -> Self:
        """Read a decision from a parsed body (spec section 11).

        `now` must carry a time zone. `asked` is of the request that this answers. Members that this version
        does not know are ignored. Raises `MalformedAnswer` for missing members, wrong types, an unknown
        effect or obligation, and for an allow that names no id, expiry or fingerprint, has expired, or holds
        an access not allowed.
        """
        if now.tzinfo is None:
            raise ValueError("`now` needs a time zone")
        members = _object(value, "the answer")
        decision = cls(
            decision_id=_text(members, "decision_id"),
            effect=_effect(members),
            stage=_text(members, "stage"),
            code=_text(members, "code"),
            matched=_each(members, "matched", MatchedRule.from_json, required=True),
            message=_optional_text(members, "message") or "",
            next=_texts(members, "next"),
            retry_unchanged=_optional_boolean(members, "retry_unchanged"),
            expires_at=_optional(members, "expires_at", _instant),
            fingerprint=_optional(members, "fingerprint", _text),
            request_digest=_optional(members, "request_digest", _text),
            accesses=_each(members, "accesses", Access.from_json),
            arguments=_optional(members, "arguments", lambda found, name: _object(found[name], name)),
            obligations=tuple(_obligation(name) for name in _texts(members, "obligations")),
            idempotency_key=_optional(members, "idempotency_key", _text),
            lease=_optional(members, "lease", lambda found, name: Lease.from_json(found[name])),
            approval=_optional(members, "approval", lambda found, name: Approval.from_json(found[name])),
            policy_version=_optional(members, "policy_version", _text),
            dry_run=_optional_boolean(members, "dry_run"),
            repeated=_optional_boolean(members, "repeated"),
            capability=_optional(
                members, "capability", lambda found, name: CapabilityRefusal.from_json(found[name])
            ),
            ticket=_optional(members, "ticket", _text),
            asked=asked,
        )
        if decision.effect is Effect.ALLOW:
            _check_allow(decision, now)
        return decision


def _check_allow(decision: Decision, now: datetime) -> None:
    if decision.fingerprint is None:
        raise MalformedAnswer("an allow must name the `fingerprint` that it is bound to")
    if decision.expires_at is None:
        raise MalformedAnswer("an allow must say when it ends (`expires_at`)")
    if decision.expires_at <= now:
        raise MalformedAnswer("the allow has expired: check this machine's clock, or ask again")
    # The effect of a call is the strictest of its accesses' (spec section 1).
    if any(access.effect is not Effect.ALLOW for access in decision.accesses):
        raise MalformedAnswer("an allow must not hold an access that is not allowed")


_T = TypeVar("_T")
_Members = Mapping[str, Any]

# RFC 3339. `fromisoformat` alone also takes dates, week dates and times without a zone.
_INSTANT: Final = re.compile(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d{1,9})?([Zz]|[+-]\d\d:\d\d)", re.ASCII)


def _object(value: object, name: str) -> _Members:
    if not isinstance(value, dict):
        raise MalformedAnswer(f"`{name}` must be an object")
    return value


def _text(members: _Members, name: str) -> str:
    value = members.get(name)
    if not isinstance(value, str) or not value:
        raise MalformedAnswer(f"`{name}` must be a non-empty string")
    return value


def _optional(members: _Members, name: str, read: Callable[[_Members, str], _T]) -> _T | None:
    return None if members.get(name) is None else read(members, name)


def _optional_text(members: _Members, name: str) -> str | None:
    value = members.get(name)
    if value is not None and not isinstance(value, str):
        raise MalformedAnswer(f"`{name}` must be a string")
    return value


def _optional_integer(members: _Members, name: str) -> int | None:
    value = members.get(name)
    if value is not None and type(value) is not int:  # `True` is an int to Python, not to JSON
        raise MalformedAnswer(f"`{name}` must be an integer")
    return value


def _optional_boolean(members: _Members, name: str) -> bool:
    value = members.get(name)
    if value is not None and not isinstance(value, bool):
        raise MalformedAnswer(f"`{name}` must be a boolean")
    return value is True


def _each(
    members: _Members, name: str, read: Callable[[object], _T], *, required: bool = False
) -> tuple[_T, ...]:
    value = members.get(name)
    if value is None and not required:
        return ()
    if not isinstance(value, list):
        raise MalformedAnswer(f"`{name}` must be an array")
    return tuple(read(item) for item in value)


def _texts(members: _Members, name: str) -> tuple[str, ...]:
    values = _each(members, name, lambda item: item)
    if not all(isinstance(value, str) for value in values):
        raise MalformedAnswer(f"`{name}` must be an array of strings")
    return tuple(str(value) for value in values)


def _effect(members: _Members) -> Effect:
    try:
        return Effect(_text(members, "effect"))
    except ValueError:
        raise MalformedAnswer("`effect` is none of allow, require_approval, deny") from None


def _obligation(name: str) -> Obligation:
    try:
        return Obligation(name)
    except ValueError:
        raise MalformedAnswer(f"the obligation `{name[:60]}` is unknown: update this client") from None


def _instant(members: _Members, name: str) -> datetime:
    text = _text(members, name)
    try:
        if _INSTANT.fullmatch(text) is None:
            raise ValueError
        return datetime.fromisoformat(text.upper())
    except ValueError:
        raise MalformedAnswer(f"`{name}` must be an RFC 3339 date and time with an offset") from None

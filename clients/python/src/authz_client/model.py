"""A decision as the client believes it. What cannot be believed is a `MalformedAnswer`."""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, Self

from authz_client._members import (
    Members,
    an_object,
    each,
    instant,
    optional,
    optional_boolean,
    optional_integer,
    optional_text,
    text,
    texts,
)
from authz_client.errors import MalformedAnswer
from authz_client.outcomes import Standing


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
        members = an_object(value, "matched")
        return cls(
            rule=text(members, "rule"),
            kind=text(members, "kind"),
            file=optional_text(members, "file"),
            line=optional_integer(members, "line"),
            reason=optional_text(members, "reason") or "",
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
        members = an_object(value, "accesses")
        return cls(
            verb=text(members, "verb"),
            resource=text(members, "resource"),
            uri=text(members, "uri"),
            scope=text(members, "scope"),
            authority=text(members, "authority"),
            effect=_effect(members),
            rules=texts(members, "rules"),
            pattern=optional_text(members, "pattern"),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """The right to run an allowed call, and to settle it, until it ends. `token` is a secret."""

    token: str
    expires_at: datetime

    @classmethod
    def from_json(cls, value: object) -> Self:
        """Raises `MalformedAnswer`."""
        members = an_object(value, "lease")
        return cls(token=text(members, "token"), expires_at=instant(members, "expires_at"))

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
        members = an_object(value, "approval")
        return cls(
            id=text(members, "id"),
            state=text(members, "state"),
            url=optional_text(members, "url"),
            expires_at=optional(members, "expires_at", instant),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ArgumentError:
    """One fault of the arguments, in words that a model can act on."""

    pointer: str
    """JSON Pointer (RFC 6901) into the arguments; empty for the whole."""
    found: str
    expected: str
    message: str

    @classmethod
    def from_json(cls, value: object) -> Self:
        """Raises `MalformedAnswer`."""
        members = an_object(value, "errors")
        names = ("pointer", "found", "expected", "message")
        return cls(**{name: optional_text(members, name) or "" for name in names})


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
        members = an_object(value, "capability")
        return cls(
            reason=text(members, "reason"),
            link=optional_integer(members, "link"),
            agent=optional_text(members, "agent"),
            component=optional_text(members, "component"),
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
    authority: str | None = None
    """The highest of its accesses': `A0` (changes nothing) to `A3`."""
    side_effect: str | None = None
    """`none`, `idempotent` or `cumulative`: whether the call may run twice."""
    retry_after_ms: int | None = None
    """When an unchanged retry can help, in milliseconds from this answer."""
    errors: tuple[ArgumentError, ...] = ()
    """What is wrong with the arguments."""
    operation: Standing | None = None
    """Where the operation of the call stands; of one that ran before, what came of it."""
    shares_written_resource_with: tuple[int, ...] = ()
    """In a batch: indices of calls that touch a resource which this call or the other one writes."""
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
        members = an_object(value, "the answer")
        decision = cls(
            decision_id=text(members, "decision_id"),
            effect=_effect(members),
            stage=text(members, "stage"),
            code=text(members, "code"),
            matched=each(members, "matched", MatchedRule.from_json, required=True),
            message=optional_text(members, "message") or "",
            next=texts(members, "next"),
            retry_unchanged=optional_boolean(members, "retry_unchanged"),
            expires_at=optional(members, "expires_at", instant),
            fingerprint=optional(members, "fingerprint", text),
            request_digest=optional(members, "request_digest", text),
            accesses=each(members, "accesses", Access.from_json),
            arguments=optional(members, "arguments", lambda found, name: an_object(found[name], name)),
            obligations=tuple(_obligation(name) for name in texts(members, "obligations")),
            idempotency_key=optional(members, "idempotency_key", text),
            lease=optional(members, "lease", lambda found, name: Lease.from_json(found[name])),
            approval=optional(members, "approval", lambda found, name: Approval.from_json(found[name])),
            policy_version=optional(members, "policy_version", text),
            dry_run=optional_boolean(members, "dry_run"),
            repeated=optional_boolean(members, "repeated"),
            authority=optional(members, "authority", text),
            side_effect=optional(members, "side_effect", text),
            retry_after_ms=optional_integer(members, "retry_after_ms"),
            errors=each(members, "errors", ArgumentError.from_json),
            operation=optional(members, "operation", lambda found, name: Standing.from_json(found[name])),
            shares_written_resource_with=each(members, "shares_written_resource_with", _index),
            capability=optional(
                members, "capability", lambda found, name: CapabilityRefusal.from_json(found[name])
            ),
            ticket=optional(members, "ticket", text),
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


def _index(value: object) -> int:
    if type(value) is not int:
        raise MalformedAnswer("`shares_written_resource_with` must hold integers")
    return value


def _effect(members: Members) -> Effect:
    try:
        return Effect(text(members, "effect"))
    except ValueError:
        raise MalformedAnswer("`effect` is none of allow, require_approval, deny") from None


def _obligation(name: str) -> Obligation:
    try:
        return Obligation(name)
    except ValueError:
        raise MalformedAnswer(f"the obligation `{name[:60]}` is unknown: update this client") from None

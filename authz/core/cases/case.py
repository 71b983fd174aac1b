"""A policy case as a value: one call, what the service knows besides it, and what is expected."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

DEFAULT_PROFILE: Final = "runtime"
NOW_MS: Final = 1_796_000_000_000
"""The time of cases that state none: 2026-11-30T00:53:20Z."""
PINNED: Final = "pinned"
"""In place of `tool.advertised_digest`: the digest that the bundle pins, which an honest client sends."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenCapability:
    """A capability that the call presents. What is not stated is as narrow as the call allows."""

    agents: tuple[str, ...] = ()
    """Everybody of its chain, who had it first first; without any, the call's own agent alone."""
    expires_in: int = 3600
    """Seconds from `now`."""
    holder: str = "holder"
    """Whose key it is: a name of the case's own. What rules see is a thumbprint."""
    actions: tuple[str, ...] = ()
    """Rights; without any, every verb."""
    locations: tuple[str, ...] = ()
    """Canonical URIs; without any, those that the call reaches."""
    constraints: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """What the service knows besides the call."""

    profile: str = DEFAULT_PROFILE
    """The caller's credential profile."""
    exposed: frozenset[str] = frozenset()
    """Labels that the session has been exposed to."""
    delegated: bool = False
    """Whether the session is known as one that was delegated, whatever the call says of itself."""
    fresh_ids: bool = True
    """Whether trace, turn and call ids that the call does not state are filled in."""
    now_ms: int = NOW_MS
    """Milliseconds since the Unix epoch, UTC."""
    groups: Mapping[tuple[str, str], tuple[str, ...]] = field(default_factory=dict)
    """By (`Agent` or `User`, id): the groups that it is in, in place of those of `entities.yaml`."""
    approved: frozenset[str] = frozenset()
    """Asking rules that a person has approved this call under."""
    reached: frozenset[str] = frozenset()
    """Limits of which nothing is left."""
    capability: GivenCapability | None = None
    """`None`: the call presents none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessExpectation:
    """What is expected of one access. `None` is not looked at."""

    verb: str | None = None
    uri: str | None = None
    scope: str | None = None
    authority: str | None = None
    effect: str | None = None
    code: str | None = None
    rules: frozenset[str] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Expectation:
    """What a case expects of the decision. Only what is in `stated` is looked at."""

    stated: frozenset[str] = frozenset()
    """Names of the members below that the case states; null is a statement too."""
    effect: str = ""
    code: str = ""
    rules: frozenset[str] = frozenset()
    """Every rule that determined the decision."""
    authority: str | None = None
    """`None`, where stated: the decision ended before it was known."""
    stage: str = ""
    side_effect: str | None = None
    reason: str = ""
    """Of one of the rules."""
    overruled: frozenset[str] = frozenset()
    """Permits that an asking rule outranked."""
    hidden_by: frozenset[str] = frozenset()
    """Rules that hide the tool."""
    uris: tuple[str, ...] = ()
    """Of the accesses, in order."""
    accesses: tuple[AccessExpectation, ...] = ()
    """All of the accesses, in order."""
    arguments: Mapping[str, Any] = field(default_factory=dict)
    """The canonical arguments, with defaults: what the executor runs."""
    may_approve: Mapping[str, frozenset[str] | None] = field(default_factory=dict)
    """By person: the rules that let it approve the call; `None` where the case does not say which."""
    may_not_approve: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """By person: the rules that forbid it to; none where it is only that nothing permits it."""
    record: Mapping[str, Any] = field(default_factory=dict)
    """Members that the record of the decision has; of an object, those that are named."""
    refused: str | None = None
    """The code with which the request is refused before a decision (stages 0 and 1)."""

    @property
    def reaches(self) -> frozenset[str]:
        """Every rule that the case says it shows at work."""
        named = (*self.may_approve.values(), *self.may_not_approve.values())
        return (self.rules | self.overruled | self.hidden_by).union(*(rules or () for rules in named))

    @property
    def people(self) -> frozenset[str]:
        """Everybody of whom the case says whether they may approve the call."""
        return frozenset((*self.may_approve, *self.may_not_approve))


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One call and what is expected of it."""

    file: str
    """Relative to the bundle: `tests/mail.yaml`."""
    line: int
    name: str
    body: Mapping[str, Any]
    """The body of `POST /decide`, as the case states it."""
    given: Given
    expected: Expectation
    expected_line: int = 0
    """Where the expectation stands."""

    @property
    def is_call(self) -> bool:
        """Whether it is about a call; else it is about a capability that is asked for."""
        return "issue" not in self.body

    @property
    def id(self) -> str:
        """`mail:send to a colleague`: unique in a bundle."""
        return f"{self.file.rpartition('/')[2].removesuffix('.yaml')}:{self.name}"


def find_case(cases: Sequence[Case], name: str) -> Case | None:
    """The case of that id, or of that name where only one file has it."""
    found = [case for case in cases if case.id == name] or [case for case in cases if case.name == name]
    return found[0] if len(found) == 1 else None

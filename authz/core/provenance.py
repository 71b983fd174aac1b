"""Where argument values came from, as far as it is believed, told to policies by role (spec section 5)."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from authz.core.pointer import WILDCARD, Tokens, leaves, matches, parse_pointer
from authz.model.call import Call, ProvenanceClaim
from authz.model.caller import Profile
from authz.model.tool import ReturnSpec, Role, Trust

UNTRUSTED: Final = "untrusted"
SECRET: Final = "secret"
UNDECLARED: Final = "undeclared"
"""The role told of a leaf that the descriptor gives none: never mistaken for a reviewed one."""

SOURCES: Final = frozenset(
    {"user", "system", "project", "tool_result", "file", "web", "email", "memory", "agent", "secret", "model"}
)
TRUSTED_SOURCES: Final = frozenset({"user", "system", "project", "secret"})
RESULT: Final = "tool_result"
"""The one source for which a reviewed descriptor may say better than untrusted."""
DEFAULT_SOURCE: Final = "system"
"""A value that the schema's default filled in comes from the reviewed descriptor."""
MISSING_SOURCE: Final = "missing"


@dataclass(frozen=True, slots=True, kw_only=True)
class ArgumentProvenance:
    """Roles by what their values are: what `context.untrusted`, `.secret` and `.sources` say."""

    untrusted: frozenset[str]
    secret: frozenset[str]
    sources: Mapping[str, frozenset[str]]
    secret_leaves: frozenset[Tokens]
    """Leaves that must not be written anywhere in the clear."""
    unknown_sources: frozenset[str]
    """Sources that were declared and are no source of the contract, or not this caller's to declare."""


class RoleTable:
    """The roles of one tool's arguments, looked up by leaf."""

    def __init__(self, roles: Mapping[Tokens, Role]) -> None:
        self._by_name: dict[str, list[tuple[Tokens, str]]] = {}
        for pattern, role in roles.items():
            self._by_name.setdefault(pattern[0], []).append((pattern, role.value))
        for patterns in self._by_name.values():
            patterns.sort(key=lambda entry: -len(entry[0]))

    def role_of(self, tokens: Tokens) -> str:
        """The role of a leaf: that of the longest pattern that is a prefix of its pointer."""
        for pattern, role in self._by_name.get(tokens[0], ()) if tokens else ():
            if len(pattern) == 1 or matches(pattern, tokens):
                return role
        return UNDECLARED


def check_provenance(
    call: Call,
    arguments: Mapping[str, Any],
    roles: RoleTable,
    profile: Profile,
    exposed: frozenset[str],
    returns_of: Callable[[str], ReturnSpec | None] = lambda _: None,
) -> ArgumentProvenance:
    """Judge every leaf of the canonical arguments. Missing and unbelieved provenance is untrusted.

    `returns_of` tells what the reviewed descriptor of `server/name` says of its results.
    """
    untrusted: set[str] = set()
    secret: set[str] = set()
    sources: dict[str, set[str]] = {}
    secret_leaves: set[Tokens] = set()
    unknown: set[str] = set()
    judged = judge_leaves(call, arguments, roles, profile, exposed, returns_of)
    for tokens, role, source, not_believed, untrusted_because, is_secret in judged:
        sources.setdefault(role, set()).add(source)
        if not_believed is not None:
            unknown.add(not_believed)
        if untrusted_because:
            untrusted.add(role)
        if is_secret:
            secret.add(role)
            secret_leaves.add(tokens)
    return ArgumentProvenance(
        untrusted=frozenset(untrusted),
        secret=frozenset(secret),
        sources={role: frozenset(names) for role, names in sources.items()},
        secret_leaves=frozenset(secret_leaves),
        unknown_sources=frozenset(unknown),
    )


class LeafProvenance(NamedTuple):
    """One leaf of the canonical arguments, judged. Made for every leaf of every call, so a tuple."""

    tokens: Tokens
    role: str
    source: str
    """What it is taken to be: the declared source where that is believed."""
    not_believed: str | None
    """A declared source that this caller may not declare, or that is none."""
    untrusted_because: str
    """Why the value is untrusted; empty for a trusted one."""
    secret: bool


def judge_leaves(
    call: Call,
    arguments: Mapping[str, Any],
    roles: RoleTable,
    profile: Profile,
    exposed: frozenset[str],
    returns_of: Callable[[str], ReturnSpec | None] = lambda _: None,
) -> Iterator[LeafProvenance]:
    """Judge leaf by leaf: what `check_provenance` sums up by role."""
    secret_places = {place for place, claim in call.provenance.items() if claim.is_secret}
    above_secrets = {place[:length] for place in secret_places for length in range(len(place))}
    # A call without any argument has no value that could come from anywhere.
    for tokens, _ in leaves(arguments) if arguments else ():
        role = roles.role_of(tokens)
        claim = _nearest_claim(call.provenance, tokens)
        believed = claim is not None and claim.source in SOURCES and claim.source in profile.sources
        if claim is None and not _sent(call.arguments, tokens):
            claim, believed = _FROM_DEFAULT, True
        returned = _returned(claim, returns_of) if claim is not None else None
        if claim is None:
            because = "nothing is said about where it came from"
        elif not believed:
            because = "this credential may not declare that source, or it is none"
        else:
            because = _untrusted_because(claim, call, exposed, returned)
        # Secrecy is taken from every claim at, above or below the leaf, believed or not: it can only make
        # the call stricter.
        claimed_secret = bool(secret_places) and (
            tokens in above_secrets or any(tokens[:n] in secret_places for n in range(len(tokens) + 1))
        )
        claimed_secret = claimed_secret or (returned is not None and SECRET in returned.labels)
        source = claim.source if claim is not None and believed else MISSING_SOURCE
        not_believed = claim.source if claim is not None and not believed else None
        # By position: for every leaf of every call.
        yield LeafProvenance(
            tokens, role, source, not_believed, because, claimed_secret or role == Role.CREDENTIAL
        )


_FROM_DEFAULT: Final = ProvenanceClaim(source=DEFAULT_SOURCE)


def _sent(arguments: Any, tokens: Tokens) -> bool:
    """False for a leaf that a default of the schema filled in."""
    value = arguments
    for token in tokens:
        if isinstance(value, Mapping):
            if token not in value:
                return False
            value = value[token]
        elif isinstance(value, list):
            value = value[int(token)]
        else:
            # Canonicalization replaced what stood here; the caller did send it.
            return True
    return True


def _nearest_claim(claims: Mapping[Tokens, ProvenanceClaim], tokens: Tokens) -> ProvenanceClaim | None:
    for length in range(len(tokens), -1, -1):
        claim = claims.get(tokens[:length])
        if claim is not None:
            return claim
    return None


def _returned(claim: ProvenanceClaim, returns_of: Callable[[str], ReturnSpec | None]) -> ReturnSpec | None:
    """What the descriptor says of the part of the result that the value came from.

    The trust of a part is the least of everything in it, and its labels are those of all of it: a value
    from somewhere in an object may be any of its fields. Without a field the whole result is the part.
    """
    returns = returns_of(claim.tool) if claim.tool is not None else None
    if returns is None:
        return None
    place = claim.field or ()
    fields = [(parse_pointer(pointer), field) for pointer, field in returns.fields.items()]
    met = [(len(pattern), field) for pattern, field in fields if _meet(pattern, place)]
    within = [field for length, field in met if length > len(place)]
    at = [(length, field) for length, field in met if length <= len(place)]
    # The nearest description holds; where several are as near, all of them do.
    nearest = max((length for length, _ in at), default=0)
    above = [field for length, field in at if length == nearest] or [returns]
    parts = (*above, *within)
    untrusted = any(part.trust is Trust.UNTRUSTED for part in parts)
    return ReturnSpec(
        trust=Trust.UNTRUSTED if untrusted else Trust.TRUSTED,
        labels=frozenset(label for part in parts for label in part.labels),
    )


def _meet(pattern: Tokens, place: Tokens) -> bool:
    """Whether the two can name one place as far as the shorter goes; `*` on either side is any token."""
    return all(
        left == right or WILDCARD in (left, right) for left, right in zip(pattern, place, strict=False)
    )


def _untrusted_because(
    claim: ProvenanceClaim, call: Call, exposed: frozenset[str], returned: ReturnSpec | None
) -> str:
    """Why a value of a believed source is untrusted; empty when it is trusted."""
    if claim.trust is Trust.UNTRUSTED:
        return "the caller says that it is untrusted"
    if claim.source in TRUSTED_SOURCES:
        return ""
    # Results are untrusted, unless a reviewer found this field to be the platform's own word.
    if claim.source == RESULT and returned is not None:
        return "" if returned.trust is Trust.TRUSTED else "the descriptor does not vouch for that result"
    # What a model composed is worth the least trusted thing that its session had read; a session
    # that is not named cannot be remembered, so it may have read anything.
    if claim.source != "model":
        return f"the source `{claim.source}` is untrusted"
    if call.subject.session is None:
        return "a model composed it, in a session that is not named and may have read anything"
    return (
        "a model composed it after its session had read something untrusted" if UNTRUSTED in exposed else ""
    )

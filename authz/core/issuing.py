"""Who may be given what: issuing a capability is itself a question to the policies (spec section 7).

Every location of every entry is asked about as the resource of the action `issue`. A location is judged as
what it names, and not for everything beneath: a capability only restricts, and what its holder does with it
is judged call by call.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import orjson
from authz_client.capabilities import Entry, PublicKey, TaskPacket, parse_entries
from authz_client.capabilities import Refusal as TokenRefusal
from authz_client.capabilities.rights import Right

from authz.core.canonical import canonical_uri, canonicalize
from authz.core.cedar_context import ROLE_NAMES, Reads, cedar_datetime, told_part
from authz.core.cedar_schema import ISSUE, NO_TOOL
from authz.core.entities import resource_document
from authz.core.policy import Question
from authz.core.ruleset import Ruleset, Tool
from authz.core.visibility import hidden_because
from authz.errors import MalformedInput
from authz.model.caller import Profile
from authz.model.decision import Code, Effect, RuleMatch, strictest
from authz.model.resource import Base, NotCanonical, Resource, Scope
from authz.model.tool import SideEffect

MAX_LOCATIONS: Final = 256
"""Of all entries together: each is an evaluation."""
DETAILS: Final = "/authorization_details"


@dataclass(frozen=True, slots=True, kw_only=True)
class IssueRequest:
    """A capability that is asked for, as it was sent."""

    agent: str
    user: str | None
    holder: PublicKey
    details: Sequence[Mapping[str, Any]]
    """Elements of `authorization_details`."""
    lifetime_seconds: int
    max_depth: int
    task: TaskPacket | None = None
    task_json: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """What one entry would give, by the tools of the bundle that the agent may see."""

    entry: Entry
    resources: tuple[Resource, ...]
    verbs: frozenset[str]
    """Every verb that it gives with some tool."""
    tools: frozenset[str]
    """`server/name` of every tool that it could be used with."""
    digests: Mapping[str, str]
    """Descriptor digests of the tools that it names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RightRefused:
    """A right that names what the bundle does not have, or what this agent may not see: alike."""

    entry: int
    right: str


@dataclass(frozen=True, slots=True, kw_only=True)
class IssueVerdict:
    """What the rules say to a capability. Only a clean allow of every location gives it."""

    effect: Effect
    code: Code
    rules: tuple[RuleMatch, ...] = ()
    """Of the first location that was refused; of all where none was."""
    entry: int | None = None
    location: str = ""
    internal: str = ""


def read_entries(details: Any, profile: Profile, at: str = DETAILS) -> tuple[Entry, ...]:
    """The entries of `authorization_details`, spelled as the service spells them.

    Raises `MalformedInput`, naming the canonical spelling where there is one. The URIs are held to the
    service's own functions first, and then to the parser that every verifier has.
    """
    for pointer, uri in _uris(details, at):
        _check_spelling(uri, pointer, profile)
    found = parse_entries(details)
    if isinstance(found, TokenRefusal):
        raise MalformedInput(found.detail, code=f"capability.{found.reason}", pointer=at)
    if sum(len(entry.locations) for entry in found) > MAX_LOCATIONS:
        raise MalformedInput(
            f"the entries have over {MAX_LOCATIONS} locations together; ask for several capabilities",
            code="capability.details_invalid",
            pointer=at,
        )
    return found


def _uris(details: Any, at: str) -> Iterator[tuple[str, str]]:
    """(place, text) of every URI in what may be entries. Other faults are the parser's to tell."""
    for number, entry in enumerate(details if isinstance(details, list) else ()):
        if not isinstance(entry, dict):
            continue
        yield from _texts(entry.get("locations"), f"{at}/{number}/locations")
        constraints = entry.get("constraints")
        for key, members in constraints.items() if isinstance(constraints, dict) else ():
            if isinstance(members, dict) and "within" in members:
                within = members["within"]
                name = str(key).replace("~", "~0").replace("/", "~1")
                place = f"{at}/{number}/constraints/{name}/within"
                yield from _texts([within] if isinstance(within, str) else within, place)


def _texts(value: Any, at: str) -> Iterator[tuple[str, str]]:
    for number, text in enumerate(value if isinstance(value, list) else ()):
        if isinstance(text, str):
            yield f"{at}/{number}", text


def _check_spelling(uri: str, pointer: str, profile: Profile) -> None:
    found = _resource(uri, profile)
    if isinstance(found, NotCanonical):
        raise MalformedInput(
            f"this is no location: {found.message}", code="capability.location_invalid", pointer=pointer
        )
    if found.uri != uri:
        raise MalformedInput(
            f"a location is written in its canonical spelling; write `{found.uri}`",
            code="capability.location_invalid",
            pointer=pointer,
        )


def _resource(uri: str, profile: Profile) -> Resource | NotCanonical:
    """What a URI names. A path is spelled as on the volume of the caller's executors."""
    if not uri.startswith("file:"):
        return canonical_uri(uri)
    found = canonicalize("path", uri, Base(volume=profile.volume))
    return found if isinstance(found, NotCanonical) else found[0]


class _Visible:
    """The tools that an agent may see, and what a right comes to with them. Each right is looked at once."""

    def __init__(self, ruleset: Ruleset, agent: str, user: str | None) -> None:
        self._by_name: dict[str, list[Tool]] = {}
        self._all: list[Tool] = []
        for tool in ruleset.tools.values():
            if hidden_because(ruleset, tool, agent, user) is None:
                self._all.append(tool)
                self._by_name.setdefault(tool.descriptor.name, []).append(tool)
        self._known: dict[str, tuple[tuple[Tool, frozenset[str]], ...]] = {}

    def covered(self, right: Right) -> tuple[tuple[Tool, frozenset[str]], ...]:
        """(tool, verbs) of everything that a right gives something with."""
        found = self._known.get(right.text)
        if found is None:
            among = self._all if right.name is None else self._by_name.get(right.name, ())
            pairs = ((tool, _verbs(right, tool)) for tool in among)
            found = self._known[right.text] = tuple(pair for pair in pairs if pair[1])
        return found


def grants_of(
    entries: Sequence[Entry], ruleset: Ruleset, agent: str, user: str | None, profile: Profile
) -> tuple[Grant, ...] | RightRefused:
    """What each entry would give; or the first right that gives nothing here."""
    visible = _Visible(ruleset, agent, user)
    found = []
    for number, entry in enumerate(entries):
        verbs: set[str] = set()
        tools: set[str] = set()
        digests: dict[str, str] = {}
        for right in entry.rights:
            covered = visible.covered(right)
            if not covered and right.name is not None:
                return RightRefused(entry=number, right=right.text)
            verbs |= {right.verb} if right.verb is not None else set()
            for tool, given in covered:
                verbs |= given
                tools.add(tool.descriptor.qualified_name)
                if right.name is not None:
                    digests[tool.descriptor.qualified_name] = tool.descriptor.digest
        resources = [_resource(place.uri, profile) for place in entry.locations]
        found.append(
            Grant(
                entry=entry,
                resources=tuple(one for one in resources if isinstance(one, Resource)),
                verbs=frozenset(verbs),
                tools=frozenset(tools),
                digests=digests,
            )
        )
    return tuple(found)


def _verbs(right: Right, tool: Tool) -> frozenset[str]:
    """The verbs that a right gives with a tool, of those that its calls can come to."""
    descriptor = tool.descriptor
    return frozenset(
        action.verb.value
        for action in tool.actions
        if action.verb is not None
        and right.covers(server=descriptor.server.alias, name=descriptor.name, verb=action.verb.value)
    )


def judge_issue(
    request: IssueRequest, grants: Sequence[Grant], ruleset: Ruleset, profile: Profile, now_ms: int
) -> IssueVerdict:
    """Ask the policies about every location of every entry. The first that is refused decides."""
    principal = ruleset.entities.principal(request.agent, request.user)
    named: dict[str, RuleMatch] = {}
    effects: list[Effect] = []
    for number, grant in enumerate(grants):
        # A location that is none is refused, as everything is that nobody could be asked about.
        if len(grant.resources) != len(grant.entry.locations):
            return IssueVerdict(effect=Effect.DENY, code=Code.POLICY_ERROR, entry=number)
        for resource in grant.resources:
            question = _question(request, grant, resource, profile, now_ms)
            added = f"[{resource_document(resource).decode()}]"
            (answer,) = ruleset.engine.evaluate([question], principal, added)
            if answer.effect is not Effect.ALLOW:
                return IssueVerdict(
                    effect=answer.effect,
                    code=answer.code,
                    rules=answer.rules,
                    entry=number,
                    location=resource.uri,
                    internal=answer.internal,
                )
            effects.append(answer.effect)
            named |= {rule.rule: rule for rule in answer.rules}
    # Without anything that was asked there is nothing that allows.
    effect = strictest(effects)
    code = Code.POLICY_PERMIT if effect is Effect.ALLOW else Code.POLICY_NO_MATCH
    return IssueVerdict(effect=effect, code=code, rules=tuple(named.values()))


def _question(
    request: IssueRequest, grant: Grant, resource: Resource, profile: Profile, now_ms: int
) -> Question:
    def context(reads: Reads) -> str:
        return orjson.dumps(issue_context(request, grant, profile, now_ms, reads)).decode()

    return Question(
        principal=("Agent", request.agent),
        action=ISSUE.id,
        resource=[(entity.type, entity.id) for entity in resource.chain],
        context=context,
    )


def issue_context(
    request: IssueRequest, grant: Grant, profile: Profile, now_ms: int, reads: Reads | None = None
) -> dict[str, Any]:
    """The context of `issue` in Cedar's JSON, or the part of it in `reads`."""
    values: dict[str, Any] = {
        **_OF_NO_CALL,
        "verbs": sorted(grant.verbs),
        "tools": sorted(grant.tools),
        "lifetime_seconds": request.lifetime_seconds,
        "max_depth": request.max_depth,
        "has_budget": grant.entry.budget is not None,
        "profile": profile.name,
        "now": cedar_datetime(now_ms),
    }
    return values if reads is None else told_part(values, reads)


_OF_NO_CALL: Final[Mapping[str, Any]] = {
    "arguments": {},
    "tool": {"__entity": {"type": "Tool", "id": NO_TOOL}},
    "scope": Scope.TREE.value,
    "role": "",
    "resolved": False,
    "sandboxed": False,
    "side_effect": SideEffect.NONE.value,
    "undoable": False,
    "untrusted": [],
    "secret": [],
    "sources": {role: [] for role in ROLE_NAMES},
    "session": {"id": "", "delegated": False, "exposed": []},
    "capability": {"presented": False},
}
"""What a rule about every action sees of the call that there is none of."""

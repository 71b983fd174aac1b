"""Names and values that nothing ever has: the rule loads, and what it was to catch is not caught."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from difflib import get_close_matches
from typing import Final

from authz.core.canonical.addresses import HostClass
from authz.core.cedar_context import ROLE_NAMES
from authz.core.lint.facts import RuleFacts, at_rule
from authz.core.lint.table import Hit, Lint, Severity
from authz.core.policy.outline import Comparison, Outline, Value
from authz.core.provenance import MISSING_SOURCE, SOURCES
from authz.model.decision import RuleKind
from authz.model.resource import Scope
from authz.model.tool import SideEffect

_ROLES: Final = frozenset(ROLE_NAMES)
_CLOSED: Final[Mapping[tuple[str, ...], tuple[str, frozenset[str]]]] = {
    ("context", "untrusted"): ("role", _ROLES),
    ("context", "secret"): ("role", _ROLES),
    # An access to what is no argument has no role.
    ("context", "role"): ("role", _ROLES | {""}),
    **{
        ("context", "sources", role): ("provenance source", SOURCES | {MISSING_SOURCE}) for role in ROLE_NAMES
    },
    ("context", "scope"): ("scope", frozenset(Scope)),
    ("context", "side_effect"): ("side effect", frozenset(SideEffect)),
    ("resource", "class"): ("class of hosts", frozenset(HostClass)),
}
"""What the values of a path can be, and what they are called."""
_LOWER_CASE: Final = frozenset(
    {
        ("resource", "names"),
        ("resource", "extension"),
        ("resource", "scheme"),
        ("resource", "host"),
        ("resource", "class"),
        ("resource", "host_class"),
        ("resource", "domain"),
        ("resource", "local"),
    }
)
"""Attributes that are always in lower (or folded) case."""


def group_undeclared(facts: RuleFacts) -> Iterator[Hit]:
    """Nobody is in a group that `entities.yaml` does not have, so a forbid on it holds for nobody."""
    for outline, (kind, name) in _entities(facts):
        if kind == "Group" and name not in facts.groups:
            yield at_rule(
                outline,
                f"the group `{name}` is not declared, so nobody is in it",
                _nearest(name, facts.groups, "add it under `groups` in entities.yaml"),
            )


def group_empty(facts: RuleFacts) -> Iterator[Hit]:
    """A declared group without members, other than one that only holds other groups' members."""
    for outline, (kind, name) in _entities(facts):
        if kind == "Group" and name in facts.groups and not facts.groups[name]:
            yield at_rule(
                outline,
                f"nobody is in the group `{name}`",
                "put users or agents into it in entities.yaml",
            )


def unassertable(facts: RuleFacts) -> Iterator[Hit]:
    """An agent or user that no credential profile may speak for never asks."""
    for kind in ("Agent", "User"):
        said = [profile.agents if kind == "Agent" else profile.users for profile in facts.profiles.values()]
        known = frozenset[str]().union(*said)
        if "*" in known:
            continue
        for outline, (found, name) in _entities(facts):
            # `User::""` stands for no user, which is always possible. Nobody speaks for who approves.
            is_meant = found == kind and not facts.is_about_people(outline)
            if is_meant and name not in known and name:
                yield at_rule(
                    outline,
                    f'no credential profile may speak for {kind}::"{name}"',
                    _nearest(name, known, f"add it under `{kind.lower()}s` of a profile in credentials.yaml"),
                )


def undeclared(facts: RuleFacts) -> Iterator[Hit]:
    """An agent or user that anybody may speak for and nothing declares: mostly another one, misspelt."""
    for kind in ("Agent", "User"):
        said = [profile.agents if kind == "Agent" else profile.users for profile in facts.profiles.values()]
        asserted = frozenset[str]().union(*said)
        declared = {name for found, name in facts.parents if found == kind}
        if "*" not in asserted:
            continue  # then `unassertable` tells
        for outline, (found, name) in _entities(facts):
            if found == kind and name and name not in declared | asserted:
                yield at_rule(
                    outline,
                    f'{kind}::"{name}" is declared nowhere',
                    _nearest(name, declared | asserted, f"add it under `{kind.lower()}s` in entities.yaml"),
                )


def unknown_tag(facts: RuleFacts) -> Iterator[Hit]:
    """Nobody who can be asked about has the tag: `hasTag` never holds, and `getTag` only fails."""
    known: dict[str, set[str]] = {}
    for member in facts.members:
        known.setdefault(member.uid[0], set()).update(member.tags)
    for outline in facts.outlines:
        for path, tag in outline.tags:
            kinds = [_TAGGED[path]] if path in _TAGGED else []
            if path == ("principal",) and facts.approvable(outline):
                kinds = ["User"] if facts.is_about_people(outline) else ["Agent", "User"]
            tags = set[str]().union(*(known.get(kind, ()) for kind in kinds))
            if kinds and tag not in tags:
                who = " and no ".join(kind.lower() for kind in kinds)
                hint = f"add it under `tags` of {kinds[0].lower()}s in entities.yaml"
                yield at_rule(outline, f"no {who} has the tag `{tag}`", _nearest(tag, tags, hint))


_TAGGED: Final[Mapping[tuple[str, ...], str]] = {
    ("principal",): "Agent",
    ("principal", "on_behalf_of"): "User",
    **{(kind,): kind for kind in ("Agent", "User", "Group")},
}
"""Whose tags a path asks for."""


def _entities(facts: RuleFacts) -> Iterator[tuple[Outline, tuple[str, str]]]:
    """(rule, entity) of every group, agent and user that a rule names, each once a rule."""
    for outline in facts.outlines:
        for uid in sorted(outline.entities):
            if uid[0] in ("Group", "Agent", "User"):
                yield outline, uid


def public_suffix(facts: RuleFacts) -> Iterator[Hit]:
    """A permit for a domain right below which anybody can register a name is a permit for everybody's."""
    for outline in facts.outlines:
        if outline.match.kind is not RuleKind.PERMIT:
            continue
        for kind, name in sorted(outline.entities):
            if kind == "Domain" and facts.is_public_suffix(name):
                yield at_rule(
                    outline,
                    f'anybody can register a name in Domain::"{name}"',
                    "name the domain of the organisation that is meant",
                )


def unknown_label(facts: RuleFacts) -> Iterator[Hit]:
    """No tool returns the label, so no session is ever exposed to it."""
    for outline, _, value in _strings(facts, [("context", "session", "exposed")]):
        if value not in facts.labels:
            yield at_rule(
                outline,
                f"no tool returns the label `{value}`, so no session is ever exposed to it",
                _nearest(value, facts.labels, f"there are {', '.join(sorted(facts.labels))}"),
            )


def unknown_value(facts: RuleFacts) -> Iterator[Hit]:
    """A role, source, scope, side effect, class, server or tool that does not exist."""
    tools = [action.tool.partition("/") for action in facts.actions if action.tool]
    closed = {
        **_CLOSED,
        ("context", "tool", "server"): ("server", frozenset(server for server, _, _ in tools)),
        ("context", "tool", "name"): ("tool", frozenset(name for _, _, name in tools)),
    }
    for outline, comparison, value in _strings(facts, closed):
        what, known = closed[comparison.path]
        if value not in known:
            yield at_rule(
                outline,
                f"`{'.'.join(comparison.path)}` is never `{value}`: there is no such {what}",
                _nearest(value, known, f"one of {', '.join(sorted(filter(None, known)))}"),
            )


def upper_case(facts: RuleFacts) -> Iterator[Hit]:
    """These attributes are in lower case, so a text with capitals is never equal to one."""
    for outline, comparison, value in _strings(facts, _LOWER_CASE):
        folded = value.casefold() if comparison.path[-1] == "names" else value.lower()
        if value != folded:
            yield at_rule(
                outline,
                f"`{'.'.join(comparison.path)}` is in lower case, so it is never `{value}`",
                f"write `{folded}`",
            )


def never_a_part(facts: RuleFacts) -> Iterator[Hit]:
    """An extension has no dot in front, and a name of a path no slash in it."""
    for outline, comparison, value in _strings(facts, [("resource", "extension"), ("resource", "names")]):
        attribute = comparison.path[-1]
        if attribute == "extension" and "." in value.strip("*"):
            hint = f"write `{value.rpartition('.')[2]}`"
            yield at_rule(outline, f"an extension is what follows the last dot, never `{value}`", hint)
        elif attribute in ("names", "extension") and "/" in value:
            hint = "name one component, or write `resource in Directory::…` for a place"
            yield at_rule(outline, f"`{value}` is a path, and a name is one component of it", hint)


def _strings(facts: RuleFacts, paths: Iterable[tuple[str, ...]]) -> Iterator[tuple[Outline, Comparison, str]]:
    wanted = frozenset(paths)
    for outline in facts.outlines:
        for comparison in outline.comparisons:
            if comparison.path in wanted:
                for value in dict.fromkeys(comparison.values):
                    if _is_whole(comparison, value):
                        yield outline, comparison, str(value)


def _is_whole(comparison: Comparison, value: Value) -> bool:
    """Whether the value is a text that the path has to be; of a pattern only letters can be told."""
    if not isinstance(value, str):
        return False
    return comparison.operator != "like" or comparison.path in _LOWER_CASE


def _nearest(name: str, known: Iterable[str], otherwise: str) -> str:
    close = get_close_matches(name, sorted(known), n=1)
    return f"did you mean `{close[0]}`?" if close else otherwise


def _row(code: str, says: str, find: Callable[[RuleFacts], Iterator[Hit]]) -> Lint[RuleFacts]:
    return Lint(code=code, severity=Severity.WARNING, says=says, find=find)


LINTS: Final = (
    _row("rule.group-undeclared", "a group that entities.yaml does not have", group_undeclared),
    _row("rule.group-empty", "a group that nobody is in", group_empty),
    _row("rule.unassertable", "an agent or user that no credential profile may speak for", unassertable),
    _row("rule.undeclared", "an agent or user that is declared nowhere", undeclared),
    _row("rule.unknown-tag", "a tag that nobody has", unknown_tag),
    _row("rule.public-suffix", "a permit for a domain in which anybody can register a name", public_suffix),
    _row("rule.unknown-label", "a label that no tool returns", unknown_label),
    _row("rule.unknown-value", "a role, source, scope, class or tool that does not exist", unknown_value),
    _row("rule.upper-case", "a text with capitals held against an attribute in lower case", upper_case),
    _row("rule.never-a-name", "an extension with a dot, or a name with a slash", never_a_part),
)

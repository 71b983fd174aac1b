"""What lint knows of a bundle: rules as outlines, the actions they can be about, people, labels, tests."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from authz.core.cases.case import Case
from authz.core.cedar_schema import APPROVE, Action
from authz.core.entities import PersonOrGroup
from authz.core.lint.table import Hit
from authz.core.policy import Policy
from authz.core.policy.narrow import NarrowValidator
from authz.core.policy.outline import Outline, Uid
from authz.core.policy.probes import Dead, dead_parts
from authz.model.caller import Profile
from authz.model.decision import RuleKind


@dataclass(frozen=True, kw_only=True)
class RuleFacts:
    """A bundle whose tools, people and profiles could all be read, with the rules that are no error."""

    policies: tuple[Policy, ...]
    actions: tuple[Action, ...]
    members: tuple[PersonOrGroup, ...] = ()
    profiles: Mapping[str, Profile] = field(default_factory=dict)
    labels: frozenset[str] = frozenset()
    """Every label that a result of some tool can carry."""
    cases: tuple[Case, ...] = ()
    rules: frozenset[str] = frozenset()
    """What a decision can name: ids of all rules, also those that are an error, and of limits."""
    is_public_suffix: Callable[[str], bool] = lambda _: False
    """Whether anybody can register a name right below a domain: `com`, `co.uk`, `github.io`."""

    @cached_property
    def outlines(self) -> tuple[Outline, ...]:
        """The rules, in the order of their files."""
        return tuple(Outline(policy) for policy in self.policies)

    @cached_property
    def validator(self) -> NarrowValidator:
        """Cedar's validator, for what it can tell of changed rules."""
        return NarrowValidator(self.actions)

    @cached_property
    def dead(self) -> Mapping[str, Dead]:
        """By rule, what Cedar knows to be dead; rules that are alive all over are left out."""
        return dead_parts(self.policies, self.validator)

    @cached_property
    def groups(self) -> Mapping[str, frozenset[Uid]]:
        """By declared group, the users and agents in it or in a group below it."""
        found: dict[str, set[Uid]] = {uid[1]: set() for uid in self.parents if uid[0] == "Group"}
        for uid in self.parents:
            if uid[0] != "Group":
                for group in self.above(uid):
                    found.setdefault(group, set()).add(uid)
        return {group: frozenset(inside) for group, inside in found.items()}

    @cached_property
    def parents(self) -> Mapping[Uid, tuple[str, ...]]:
        """The groups that each declared agent, user and group stands in directly."""
        return {member.uid: member.parents for member in self.members}

    def above(self, uid: Uid) -> frozenset[str]:
        """The groups that an agent, user or group is in, also by way of other groups."""
        seen: set[str] = set()
        pending = list(self.parents.get(uid, ()))
        while pending:
            group = pending.pop()
            if group not in seen:
                seen.add(group)
                pending += self.parents.get(("Group", group), ())
        return frozenset(seen)

    def mask(self, outline: Outline) -> int:
        """The actions that the scope is about, a bit for each action."""
        if outline.actions is None:
            every = (1 << len(self.actions)) - 1
            # Of approving, what permits it names it, and nobody is asked about it.
            return every if outline.match.kind is RuleKind.FORBID else every & ~self._masks.get(APPROVE, 0)
        found = 0
        for name in outline.actions:
            found |= self._masks.get(name, 0)
        return found

    @cached_property
    def _masks(self) -> Mapping[str, int]:
        masks: dict[str, int] = {}
        for number, action in enumerate(self.actions):
            for name in (action.id, *action.groups):
                masks[name] = masks.get(name, 0) | 1 << number
        return masks

    def is_approving(self, name: str) -> bool:
        """Whether it is the id of an action by which people approve, or of their group."""
        return bool(self._masks.get(name)) and not self._masks[name] & ~self._masks.get(APPROVE, 0)

    def is_about_people(self, outline: Outline) -> bool:
        """Whether the scope is about approving alone, so that its principal is a person."""
        mask = self.mask(outline)
        return bool(mask) and not mask & ~self._masks.get(APPROVE, 0)

    def approvable(self, outline: Outline) -> frozenset[str]:
        """The tools whose calls a rule is about approving, as far as its action scope tells."""
        return self._tools(self.mask(outline) & self._masks.get(APPROVE, 0))

    def tools_called(self, outline: Outline) -> frozenset[str]:
        """The tools whose calls a rule is about, as far as its action scope tells."""
        return self._tools(self.mask(outline) & ~self._masks.get(APPROVE, 0))

    def _tools(self, mask: int) -> frozenset[str]:
        found = {action.tool for number, action in enumerate(self.actions) if mask >> number & 1}
        # `issue` is no tool's.
        return frozenset(found - {""})

    def of_kind(self, *kinds: RuleKind) -> Iterable[Outline]:
        """The rules of these kinds."""
        return (outline for outline in self.outlines if outline.match.kind in kinds)


def at_rule(outline: Outline, message: str, hint: str = "") -> Hit:
    """A finding about a rule, at its first line."""
    return Hit(
        subject=outline.id,
        message=f"`{outline.id}`: {message}",
        file=outline.match.file or "",
        line=outline.match.line,
        hint=hint,
    )

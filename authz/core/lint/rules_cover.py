"""Rules that another one makes idle: permitted already, or forbidden whatever they say."""

from collections.abc import Iterable, Iterator
from typing import Final

from authz.core.lint.facts import RuleFacts, at_rule
from authz.core.lint.rules_match import is_about_everything, is_unconditional
from authz.core.lint.table import Hit, Lint, Severity
from authz.core.policy.outline import Constraint, Outline, Uid
from authz.model.decision import RuleKind


def redundant(facts: RuleFacts) -> Iterator[Hit]:
    """A permit that says nothing, because another permits all of it."""
    permits = [outline for outline in facts.of_kind(RuleKind.PERMIT) if not _is_dead(facts, outline)]
    place = {outline.id: number for number, outline in enumerate(permits)}
    wide = _ByScope(facts, (outline for outline in permits if is_unconditional(facts, outline)))
    guarded: dict[object, list[Outline]] = {}
    for outline in permits:
        if not is_unconditional(facts, outline):
            guarded.setdefault(outline.policy.tree.clauses, []).append(outline)
    alike = {clauses: _ByScope(facts, outlines) for clauses, outlines in guarded.items()}
    for inner in permits:
        same = alike.get(inner.policy.tree.clauses, wide)
        for outer in (*wide.around(inner), *(same.around(inner) if same is not wide else ())):
            if outer is inner or not covers(facts, outer, inner):
                continue
            # Of two that say the same, the later one is told.
            twins = same.holds(outer) and covers(facts, inner, outer)
            if twins and place[outer.id] > place[inner.id]:
                continue
            yield at_rule(
                inner,
                f"all that it permits is permitted by `{outer.id}` ({outer.match.file}:{outer.match.line})",
                "delete one of the two, or narrow the wider one",
            )
            break


def shadowed(facts: RuleFacts) -> Iterator[Hit]:
    """What an unconditional forbid covers can neither be permitted nor asked for."""
    forbids = _ByScope(
        facts,
        (
            outline
            for outline in facts.of_kind(RuleKind.FORBID)
            # One that forbids everything is told as such, once.
            if is_unconditional(facts, outline) and not is_about_everything(outline)
        ),
    )
    for inner in facts.of_kind(RuleKind.PERMIT, RuleKind.ASK):
        for outer in forbids.around(inner):
            if covers(facts, outer, inner):
                yield at_rule(
                    inner,
                    f"`{outer.id}` ({outer.match.file}:{outer.match.line}) forbids all that it is about, "
                    "so it never decides",
                    "delete it, or add the exception to the forbid",
                )
                break


class _ByScope:
    """Rules by the entities of their scopes, so that not every pair of a large bundle is compared."""

    def __init__(self, facts: RuleFacts, outlines: Iterable[Outline]) -> None:
        self._facts = facts
        self._held: dict[tuple[Uid | None, Uid | None], list[Outline]] = {}
        self._ids: set[str] = set()
        for outline in outlines:
            self._ids.add(outline.id)
            key = (outline.principal.entity, outline.resource.entity)
            self._held.setdefault(key, []).append(outline)

    def holds(self, outline: Outline) -> bool:
        """Whether the rule is one of these."""
        return outline.id in self._ids

    def around(self, inner: Outline) -> Iterator[Outline]:
        """Those whose scope could cover that of `inner`."""
        principal, resource = inner.principal.entity, inner.resource.entity
        groups = [("Group", group) for group in sorted(self._facts.above(principal))] if principal else []
        for above in (None, principal, *groups) if principal else (None,):
            for container in (None, *_containers(resource)) if resource else (None,):
                yield from self._held.get((above, container), ())


def _containers(entity: Uid) -> Iterator[Uid]:
    """The entity and what contains it, as far as its id tells."""
    yield entity
    kind, name = entity
    if kind in ("Directory", "File"):
        yield "Directory", name
        while name.strip("/"):
            name = name.rpartition("/")[0]
            yield "Directory", name or "/"
    elif kind == "Domain":
        while "." in name:
            name = name.partition(".")[2]
            yield "Domain", name


def _is_dead(facts: RuleFacts, outline: Outline) -> bool:
    dead = facts.dead.get(outline.id)
    return dead is not None and dead.whole


def covers(facts: RuleFacts, outer: Outline, inner: Outline) -> bool:
    """Whether everything in the scope of `inner` is in the scope of `outer`. False where it is not clear."""
    return (
        _resource_covers(outer.resource, inner.resource)
        and _types_cover(facts, outer, inner)
        and _principal_covers(facts, outer.principal, inner.principal)
        and not facts.mask(inner) & ~facts.mask(outer)
    )


def _types_cover(facts: RuleFacts, outer: Outline, inner: Outline) -> bool:
    """Whether the type that the outer one demands of principals is that of every principal of the inner."""
    if outer.principal.type is None:
        return True
    named = inner.principal.type or (inner.principal.entity or ("",))[0]
    people, mixed = facts.is_about_people(inner), facts.approvable(inner)
    of_scope = "User" if people else "Agent" if not mixed else ""
    return outer.principal.type in (named, of_scope)


def _principal_covers(facts: RuleFacts, outer: Constraint, inner: Constraint) -> bool:
    if outer.entity is None:
        return True
    if inner.entity is None:
        return False
    if inner.entity == outer.entity:
        return inner.exact or not outer.exact
    return not outer.exact and outer.entity[1] in facts.above(inner.entity) and outer.entity[0] == "Group"


def _resource_covers(outer: Constraint, inner: Constraint) -> bool:
    if outer.type is not None and outer.type != _type_of(inner):
        return False
    if outer.entity is None:
        return True
    if inner.entity is None:
        return False
    if outer.exact:
        return inner.exact and inner.entity == outer.entity
    return outer.entity in _containers(inner.entity)


def _type_of(constraint: Constraint) -> str | None:
    if constraint.type is None and constraint.exact and constraint.entity is not None:
        return constraint.entity[0]
    return constraint.type


LINTS: Final = (
    Lint(
        code="rule.redundant",
        severity=Severity.WARNING,
        says="a permit that another permit covers whole",
        find=redundant,
    ),
    Lint(
        code="rule.shadowed",
        severity=Severity.WARNING,
        says="a permit or ask that an unconditional forbid covers whole",
        find=shadowed,
    ),
)

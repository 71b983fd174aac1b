"""Rules that can never match, and rules that match whatever is asked."""

from collections.abc import Iterator
from typing import Final

from authz.core.lint.facts import RuleFacts, at_rule
from authz.core.lint.table import Hit, Lint, Severity
from authz.core.policy.outline import Outline, Value
from authz.model.decision import RuleKind


def never_matches(facts: RuleFacts) -> Iterator[Hit]:
    """Cedar knows that the condition never holds in this scope, or two conjuncts exclude each other."""
    for outline in facts.outlines:
        dead = facts.dead.get(outline.id)
        if dead is not None and dead.whole:
            which = f"clause {dead.clause} " if dead.clauses > 1 else "its condition "
            yield at_rule(
                outline,
                f"it can never match: {which}never holds for anything in its scope",
                "make scope and condition name the same types and actions, or delete the rule",
            )
        elif part := outline.contradicts_itself():
            yield at_rule(
                outline, f"it can never match: `{part}` must hold and not hold", "delete one of the two"
            )
        elif path := _excluded(outline):
            yield at_rule(
                outline,
                f"it can never match: `{path}` would have to be two different values",
                "write `||` between the values, or one set that `contains` them",
            )


def _excluded(outline: Outline) -> str:
    """The path that all required comparisons together leave no value; empty if none."""
    left: dict[tuple[str, ...], frozenset[Value]] = {}
    for comparison in outline.comparisons:
        if comparison.required and comparison.operator in ("eq", "one_of"):
            values = frozenset(comparison.values)
            left[comparison.path] = left.get(comparison.path, values) & values
    return next((".".join(path) for path, values in left.items() if not values), "")


def dead_alternative(facts: RuleFacts) -> Iterator[Hit]:
    """One side of an `||` never holds: what it was to catch is not caught."""
    for outline in facts.outlines:
        dead = facts.dead.get(outline.id)
        for clause, place in dead.alternatives if dead is not None else ():
            where = f"alternative {place}" + (f" of clause {clause}" if dead and dead.clauses > 1 else "")
            yield at_rule(
                outline,
                f"{where} of its `||` never holds for anything in its scope",
                "delete it, or widen the scope to what it is about",
            )


def condition_always_holds(facts: RuleFacts) -> Iterator[Hit]:
    """A condition that everything in the scope fulfils says nothing, and reads as if it did."""
    for outline in facts.outlines:
        dead = facts.dead.get(outline.id)
        always = dead.always if dead is not None else ()
        hint = "delete it if the scope is meant alone; otherwise write what was meant"
        for clause in always:
            which = f"clause {clause}" if dead and dead.clauses > 1 else "its condition"
            yield at_rule(outline, f"{which} holds for everything in its scope", hint)
        if not always and (part := outline.tautology()):
            yield at_rule(outline, f"it asks for `{part}` or its opposite, which always holds", hint)


_CONSTANT: Final = {
    "holds": ("always holds", "delete it, or compare what was meant"),
    "fails": ("never holds", "delete it, or compare what was meant"),
    "errs": ("fails on every call, and a rule that fails denies", "write the value that was meant"),
}


def constant_part(facts: RuleFacts) -> Iterator[Hit]:
    """A part of a condition reads nothing of the call, so what it comes to was known when it was written."""
    for outline in facts.outlines:
        if outline.id in facts.dead:
            continue  # Cedar knows by the types alone, and that is told already
        for part in outline.constants:
            what, hint = _CONSTANT[part.outcome]
            yield at_rule(outline, f"`{part.text}` reads nothing of the call: it {what}", hint)


def is_unconditional(facts: RuleFacts, outline: Outline) -> bool:
    """Whether the scope alone decides: without conditions, or with such as always hold."""
    dead = facts.dead.get(outline.id)
    return not outline.has_conditions or (dead is not None and len(dead.always) == dead.clauses)


def is_about_everything(outline: Outline) -> bool:
    """Whether the scope says nothing at all."""
    return outline.principal.is_open and outline.resource.is_open and outline.actions is None


def permits_everything(facts: RuleFacts) -> Iterator[Hit]:
    """Then only what is forbidden is not allowed: the rules that permit less say nothing."""
    for outline in facts.of_kind(RuleKind.PERMIT):
        if is_about_everything(outline) and is_unconditional(facts, outline):
            yield at_rule(
                outline,
                "it permits everything to everybody",
                "name the actions and resources that are meant; what no rule permits is denied",
            )


def forbids_everything(facts: RuleFacts) -> Iterator[Hit]:
    """Then nothing is ever allowed, and every other rule is dead."""
    for outline in facts.of_kind(RuleKind.FORBID):
        if is_about_everything(outline) and is_unconditional(facts, outline):
            yield at_rule(
                outline,
                "it forbids everything to everybody, so no other rule can allow anything",
                "delete it, or name what is meant; what no rule permits is denied anyway",
            )


LINTS: Final = (
    Lint(
        code="rule.never-matches",
        severity=Severity.WARNING,
        says="the rule can never match",
        find=never_matches,
    ),
    Lint(
        code="rule.dead-alternative",
        severity=Severity.WARNING,
        says="one side of an `||` can never hold",
        find=dead_alternative,
    ),
    Lint(
        code="rule.condition-always-holds",
        severity=Severity.WARNING,
        says="a condition that everything in the scope fulfils",
        find=condition_always_holds,
    ),
    Lint(
        code="rule.constant-part",
        severity=Severity.WARNING,
        says="a part of a condition that is the same for every call",
        find=constant_part,
    ),
    Lint(
        code="rule.permits-everything",
        severity=Severity.WARNING,
        says="a permit without scope and condition",
        find=permits_everything,
    ),
    Lint(
        code="rule.forbids-everything",
        severity=Severity.WARNING,
        says="a forbid without scope and condition",
        find=forbids_everything,
    ),
)

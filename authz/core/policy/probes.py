"""What Cedar itself can tell of a rule before any request: conditions that never hold, or always do.

Cedar's validator gives every expression a type, and knows some to be only ever false: another entity type
than the scope allows, a name that nothing has, literals that differ. What follows such a conjunct is never
reached and so not typed. Hence the question: put an access that nothing has behind a condition; where the
policy still passes, the condition cannot hold for anything that the scope allows. Nothing is evaluated here
by other means than Cedar's.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from cedarpy import pst

from authz.core.cedar_schema import Action
from authz.core.policy.narrow import Key, NarrowValidator, TypeQuestion, key_of
from authz.core.policy.rules import Policy

Place = tuple[str, str]
"""An action and a type of resource that it is about."""
_UNREACHABLE: Final = pst.When(pst.GetAttr(pst.Var("principal"), "authz_probe"))
"""No principal has that attribute, so a policy passes only where Cedar never gets here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Dead:
    """What can never hold of one rule."""

    whole: bool = False
    """The rule never matches."""
    clause: int | None = None
    """The first clause (from 1) with which nothing is left that could match."""
    always: tuple[int, ...] = ()
    """Clauses (from 1) that hold for everything that the scope and the clauses before them allow."""
    alternatives: tuple[tuple[int, int], ...] = ()
    """(clause, alternative), both from 1, of an `||` that never holds."""
    clauses: int = 0


def dead_parts(policies: Sequence[Policy], validator: NarrowValidator) -> dict[str, Dead]:
    """By rule, what Cedar knows to be dead. `policies` must have passed validation, with unique ids."""
    questions: dict[str, TypeQuestion] = {}
    asked: dict[str, tuple[str, str, tuple[int, ...]]] = {}

    def ask(policy: Policy, what: str, at: tuple[int, ...], clauses: Iterable[Any]) -> None:
        name = f"{len(asked)}"
        asked[name] = (policy.id, what, at)
        tree = replace(policy.tree, id=name, clauses=(*clauses, _UNREACHABLE), annotations={})
        questions[name] = TypeQuestion(tree, key)

    for policy in policies:
        clauses = policy.tree.clauses
        if not clauses:
            continue
        key = key_of(policy.tree)
        for number, clause in enumerate(clauses, start=1):
            before = clauses[: number - 1]
            ask(policy, "prefix", (number,), (*before, clause))
            ask(policy, "always", (number,), (*before, _opposite(clause)))
            alternatives = _alternatives(clause.expr)
            for place, part in enumerate(alternatives if len(alternatives) > 1 else (), start=1):
                ask(policy, "alternative", (number, place), (*before, pst.When(part)))
    passed = validator.passing(questions)
    found: dict[str, dict[str, list[tuple[int, ...]]]] = {}
    for name, (rule, what, at) in asked.items():
        if name in passed:
            found.setdefault(rule, {}).setdefault(what, []).append(at)
    counts = {policy.id: len(policy.tree.clauses) for policy in policies}
    return {rule: _dead(parts, counts[rule]) for rule, parts in found.items()}


def _dead(parts: Mapping[str, list[tuple[int, ...]]], clauses: int) -> Dead:
    prefixes = sorted(at[0] for at in parts.get("prefix", ()))
    if prefixes:
        return Dead(whole=True, clause=prefixes[0], clauses=clauses)
    return Dead(
        always=tuple(sorted(at[0] for at in parts.get("always", ()))),
        alternatives=tuple(sorted((at[0], at[1]) for at in parts.get("alternative", ()))),
        clauses=clauses,
    )


def possible_places(
    policies: Sequence[Policy], actions: Iterable[Action], validator: NarrowValidator
) -> dict[str, frozenset[Place]]:
    """By rule, the places of `actions` that Cedar does not know it never to match."""
    questions: dict[str, TypeQuestion] = {}
    asked: dict[str, tuple[str, list[Action], str]] = {}
    found: dict[str, set[Place]] = {policy.id: set() for policy in policies}
    among = {action.id: action for action in actions}
    for policy in policies:
        key = key_of(policy.tree)
        for alike in validator.kinds(key, among):
            for kind in alike[0].resource_types:
                tree = _narrowed(policy.tree, alike[0].id, kind)
                if tree is None:
                    continue
                if not policy.tree.clauses and _is_open(policy.tree.resource):
                    # The scope alone decides.
                    found[policy.id] |= {(action.id, kind) for action in alike}
                    continue
                name = f"{len(asked)}"
                asked[name] = (policy.id, alike, kind)
                one = Key(
                    named=key.named | {alike[0].id},
                    scope=frozenset({alike[0].id}),
                    arguments=key.arguments,
                )
                questions[name] = TypeQuestion(replace(tree, id=name, annotations={}), one)
    impossible = validator.passing(questions)
    for name, (rule, alike, kind) in asked.items():
        if name not in impossible:
            found[rule] |= {(action.id, kind) for action in alike}
    return {rule: frozenset(places) for rule, places in found.items()}


def _is_open(scope: Any) -> bool:
    return isinstance(scope, pst.ScopeAny | pst.ScopeIs)


def _narrowed(tree: pst.Template, action: str, kind: str) -> pst.Template | None:
    """The rule about one action and one resource type only; `None` where its scope names another type."""
    scope = tree.resource
    named = getattr(scope, "entity_type", None)
    if named is not None and str(named) != kind:
        return None
    narrowed: Any = scope
    resource_type = pst.EntityType(kind)
    if isinstance(scope, pst.ScopeAny):
        narrowed = pst.ScopeIs(resource_type)
    elif isinstance(scope, pst.ScopeIn):
        narrowed = pst.ScopeIsIn(resource_type, scope.entity)
    elif isinstance(scope, pst.ScopeEq) and str(getattr(scope.entity, "type", kind)) != kind:
        return None
    uid = pst.EntityUid(pst.EntityType("Action"), action)
    return replace(tree, action=pst.ActionEq(uid), resource=narrowed, clauses=(*tree.clauses, _UNREACHABLE))


def _opposite(clause: pst.Clause) -> pst.Clause:
    return pst.Unless(clause.expr) if isinstance(clause, pst.When) else pst.When(clause.expr)


def _alternatives(node: Any) -> list[Any]:
    if isinstance(node, pst.BinaryOp) and node.op == "or":
        return [*_alternatives(node.left), *_alternatives(node.right)]
    return [node]

"""Names after `has`, held against what there is.

Cedar's validator lets a `has` of anything pass: it is false, and the rule behind it silently never
matches. So every name that follows one is looked up in the context, the principal and the resources of
the actions that the rule can be about; a name that none of them has is an error at load.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from typing import Any

from cedarpy import pst

from authz.core.cedar_context import APPROVE_FIELDS, FIELDS, ISSUE_FIELDS
from authz.core.cedar_schema import ENTITY_ATTRIBUTES, Action
from authz.core.cedar_values import Shape
from authz.core.policy.trees import children
from authz.errors import BundleProblem
from authz.model.decision import RuleMatch


def unknown_names(tree: pst.Template, match: RuleMatch, actions: Sequence[Action]) -> Iterator[BundleProblem]:
    """A problem for every name after `has` in this policy that none of `actions` has."""
    roots: dict[str, list[Shape]] | None = None
    for clause in tree.clauses:
        for path, names in _has_paths(clause.expr):
            if path is None:
                yield BundleProblem(
                    f"`{match.rule}`: `has {'.'.join(names)}` of an expression that cannot be checked",
                    file=match.file or "",
                    line=match.line,
                    hint="ask `context`, `principal`, `resource` or a path from them",
                    code="rule.has-unknown",
                )
                continue
            roots = roots or _roots(actions)
            if path[0] not in roots:
                roots[path[0]] = [_entity(path[0])] if path[0] in ENTITY_ATTRIBUTES else []
            for depth, name in enumerate(names):
                shapes = _descend(roots[path[0]], (*path[1:], *names[:depth]))
                known = {member for shape in shapes for member in shape}
                if name not in known and shapes:
                    yield _problem(match, (*path, *names[: depth + 1]), known)
                    break


def asks_for_names(tree: pst.Template) -> bool:
    """Whether the policy has a `has` at all."""
    return any(True for clause in tree.clauses for _ in _has_paths(clause.expr))


def _problem(match: RuleMatch, path: Sequence[str], known: Iterable[str]) -> BundleProblem:
    close = get_close_matches(path[-1], list(known), n=1)
    return BundleProblem(
        f"`{match.rule}`: nothing it can be about has `{'.'.join(path)}`, so it would never match",
        file=match.file or "",
        line=match.line,
        hint=f"did you mean `{close[0]}`?" if close else f"there are {', '.join(sorted(known)) or 'none'}",
        code="rule.has-unknown",
    )


def attribute_names(path: Sequence[str], actions: Sequence[Action]) -> frozenset[str]:
    """The names that `path` (from `context`, `principal` or `resource`) has in any of `actions`."""
    shapes = _descend(_roots(actions).get(path[0], []), path[1:])
    return frozenset(member for shape in shapes for member in shape)


def _roots(actions: Sequence[Action]) -> dict[str, list[Shape]]:
    types = {kind for action in actions for kind in action.resource_types}
    return {
        "context": [
            {**_CONTEXTS[frozenset(action.fields)], "arguments": action.arguments.shape()}
            for action in actions
        ],
        "principal": [_entity(kind) for kind in sorted({action.principal for action in actions})],
        "resource": [_entity(kind) for kind in sorted(types)],
    }


def _entity(kind: str) -> Shape:
    return _ENTITIES[kind]


def _entity_shapes() -> dict[str, Shape]:
    # A user leads to itself, so what the shapes hold is each other.
    shapes: dict[str, dict[str, Shape]] = {kind: {} for kind in ENTITY_ATTRIBUTES}
    for kind, attributes in ENTITY_ATTRIBUTES.items():
        shapes[kind] |= {name: shapes.get(of, {}) for name, of in attributes.items()}
    return dict(shapes)


_ENTITIES = _entity_shapes()


def _context_shape(fields: Mapping[str, str | Mapping[str, str]]) -> Shape:
    shape: dict[str, Shape] = {}
    for name, kind in fields.items():
        if isinstance(kind, Mapping):
            shape[name] = {
                member.rstrip("?"): _entity(of) if of in ENTITY_ATTRIBUTES else {}
                for member, of in kind.items()
            }
        else:
            shape[name] = _entity(kind) if kind in ENTITY_ATTRIBUTES else {}
    return shape


_CONTEXTS = {frozenset(fields): _context_shape(fields) for fields in (FIELDS, ISSUE_FIELDS, APPROVE_FIELDS)}


def _descend(shapes: Iterable[Shape], path: Iterable[str]) -> list[Shape]:
    found = list(shapes)
    for name in path:
        found = [shape[name] for shape in found if name in shape]
    return found


def _has_paths(node: Any) -> Iterator[tuple[tuple[str, ...] | None, tuple[str, ...]]]:
    """(path of the base, names) of every `has`; the path is `None` for a base that is no plain path."""
    if isinstance(node, pst.HasAttr):
        yield _path(node.base), node.attrs
    for child in children(node):
        yield from _has_paths(child)


def _path(node: Any) -> tuple[str, ...] | None:
    if isinstance(node, pst.Var):
        return (node.name,) if node.name in ("principal", "resource", "context") else None
    if isinstance(node, pst.EntityLit):
        return (str(node.value.type),)
    if isinstance(node, pst.GetAttr):
        base = _path(node.base)
        return None if base is None else (*base, node.attr)
    return None

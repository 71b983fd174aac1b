"""Parts of a condition that read nothing of the call: Cedar can say once and for all what they come to.

The validator gives every part a type and does not compute: `1 < 0` is a `Bool` to it, and a sum that
overflows a `Long`. So each such part is evaluated once, over no entities.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, Literal

import cedarpy
from cedarpy import pst

from authz.core.policy.narrow import policy_text
from authz.core.policy.trees import children

_CONSTRUCTORS: Final = frozenset({"datetime", "decimal", "duration", "ip"})
_COMPUTES: Final = (pst.BinaryOp, pst.UnaryOp, pst.IfThenElse, pst.Like, pst.Is)
_NOBODY: Final = {"type": "Agent", "id": ""}


@dataclass(frozen=True, slots=True, kw_only=True)
class Constant:
    """One part of a condition that is the same for every call."""

    text: str
    """As Cedar writes it."""
    outcome: Literal["holds", "fails", "errs"]


def constant_parts(tree: pst.Template) -> Iterator[Constant]:
    """The largest parts of the conditions that come to true, to false or to an error, each once."""
    seen: set[Any] = set()
    for clause in tree.clauses:
        for part in _closed_parts(clause.expr):
            if part not in seen:
                seen.add(part)
                outcome = _outcome(part)
                if outcome is not None:
                    yield Constant(text=_shown(part), outcome=outcome)


def _closed_parts(node: Any) -> Iterator[Any]:
    """The largest expressions at or below `node` that compute something and read no variable or entity."""
    if _is_closed(node):
        if _computes(node):
            yield node
        return
    for child in children(node):
        yield from _closed_parts(child)


def _is_closed(node: Any) -> bool:
    return not isinstance(node, pst.Var | pst.EntityLit) and all(map(_is_closed, children(node)))


def _computes(node: Any) -> bool:
    # The validator holds the texts of constructors to their form, so there is nothing to find in them.
    if isinstance(node, pst.UnaryOp) and node.op in _CONSTRUCTORS and isinstance(node.arg, pst.StringLit):
        return False
    return isinstance(node, _COMPUTES) or any(map(_computes, children(node)))


def _outcome(part: Any) -> Literal["holds", "fails", "errs"] | None:
    """What Cedar says of a part; `None` for one that comes to a value which is neither true nor false."""
    asked = {
        name: _asking(name, pst.BinaryOp("eq", part, pst.BoolLit(value)))
        for name, value in (("holds", True), ("fails", False))
    }
    whole = pst.PolicySet(templates={}, static_policies=asked, template_links=())
    request = {
        "principal": _NOBODY,
        "action": {"type": "Action", "id": ""},
        "resource": _NOBODY,
        "context": {},
    }
    result = cedarpy.is_authorized(request, cedarpy.PolicySet.from_pst(whole), [])
    if result.diagnostics.errors:
        return "errs"
    if "holds" in result.diagnostics.reasons:
        return "holds"
    return "fails" if "fails" in result.diagnostics.reasons else None


def _asking(name: str, expression: Any) -> pst.Template:
    anything = pst.ScopeAny()
    return pst.Template(
        id=name,
        effect="permit",
        principal=anything,
        action=anything,
        resource=anything,
        clauses=(pst.When(expression),),
        annotations={},
    )


def _shown(part: Any) -> str:
    found = re.search(r"when\s*\{(.*)\}\s*;\s*$", policy_text(_asking("shown", part)), re.DOTALL)
    return " ".join(found[1].split()) if found else type(part).__name__

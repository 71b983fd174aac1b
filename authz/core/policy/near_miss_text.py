"""A part of a policy's tree as Cedar text: what an explanation quotes.

Parentheses stand only where Cedar's grammar needs them, so that a condition reads as its author wrote it.
Comments and line breaks are not in the tree; the meaning is, and a test parses every rendering back.
"""

import re
from typing import Any, Final

from cedarpy import pst

from authz.model.resource import escape_cedar

# Binding strength, loosest first: a part that binds looser than its place asks for stands in parentheses.
_IF, _OR, _AND, _RELATION, _ADD, _MULTIPLY, _UNARY, _MEMBER = range(8)

_INFIX: Final = {
    "or": ("||", _OR),
    "and": ("&&", _AND),
    "eq": ("==", _RELATION),
    "not_eq": ("!=", _RELATION),
    "less": ("<", _RELATION),
    "less_eq": ("<=", _RELATION),
    "greater": (">", _RELATION),
    "greater_eq": (">=", _RELATION),
    "in": ("in", _RELATION),
    "add": ("+", _ADD),
    "sub": ("-", _ADD),
    "mul": ("*", _MULTIPLY),
}
_ASSOCIATIVE: Final = frozenset({"or", "and", "add", "sub", "mul"})
_METHODS: Final = {
    "contains": "contains",
    "contains_all": "containsAll",
    "contains_any": "containsAny",
    "get_tag": "getTag",
    "has_tag": "hasTag",
    "is_in_range": "isInRange",
    "offset": "offset",
    "duration_since": "durationSince",
    "decimal_less_than": "lessThan",
    "decimal_less_eq": "lessThanOrEqual",
    "decimal_greater": "greaterThan",
    "decimal_greater_eq": "greaterThanOrEqual",
    "is_empty": "isEmpty",
    "is_ipv4": "isIpv4",
    "is_ipv6": "isIpv6",
    "is_loopback": "isLoopback",
    "is_multicast": "isMulticast",
    "to_date": "toDate",
    "to_time": "toTime",
    "to_milliseconds": "toMilliseconds",
    "to_seconds": "toSeconds",
    "to_minutes": "toMinutes",
    "to_hours": "toHours",
    "to_days": "toDays",
}
_FUNCTIONS: Final = frozenset({"datetime", "decimal", "duration", "ip"})
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_RESERVED: Final = frozenset({"true", "false", "if", "then", "else", "in", "is", "like", "has", "__cedar"})


def cedar_text(node: pst.Expr) -> str:
    """An expression as Cedar writes it."""
    return _text(node, _IF)


def scope_text(name: str, scope: Any) -> str:
    """One part of a scope: `principal`, `action in Action::"write"`, `resource is File in …`."""
    if isinstance(scope, pst.ScopeEq | pst.ActionEq):
        return f"{name} == {_uid(scope.entity)}"
    if isinstance(scope, pst.ScopeIn):
        return f"{name} in {_uid(scope.entity)}"
    if isinstance(scope, pst.ScopeIs):
        return f"{name} is {scope.entity_type}"
    if isinstance(scope, pst.ScopeIsIn):
        return f"{name} is {scope.entity_type} in {_uid(scope.entity)}"
    if isinstance(scope, pst.ActionIn):
        named = ", ".join(_uid(entity) for entity in scope.entities)
        return f"{name} in {named}" if len(scope.entities) == 1 else f"{name} in [{named}]"
    return name


def _text(node: Any, place: int) -> str:
    text, binds = _render(node)
    return f"({text})" if binds < place else text


def _render(node: Any) -> tuple[str, int]:
    """(text, how strongly it binds)."""
    match node:
        case pst.BinaryOp():
            return _binary(node)
        case pst.UnaryOp():
            return _unary(node)
        case pst.IfThenElse():
            parts = (cedar_text(part) for part in (node.cond, node.then_expr, node.else_expr))
            return "if {} then {} else {}".format(*parts), _IF
        case pst.HasAttr():
            return f"{_text(node.base, _ADD)} has {_attributes(node.attrs)}", _RELATION
        case pst.Like():
            pattern = "".join(_pattern(element) for element in node.pattern)
            return f'{_text(node.base, _ADD)} like "{pattern}"', _RELATION
        case pst.Is():
            within = "" if node.in_expr is None else f" in {_text(node.in_expr, _ADD)}"
            return f"{_text(node.base, _ADD)} is {node.entity_type}{within}", _RELATION
        case pst.GetAttr():
            base = _text(node.base, _MEMBER)
            return (
                f"{base}.{node.attr}" if _is_name(node.attr) else f"{base}[{_string(node.attr)}]"
            ), _MEMBER
        case pst.LongLit():
            return str(node.value), _UNARY if node.value < 0 else _MEMBER
        case _:
            return _primary(node), _MEMBER


def _primary(node: Any) -> str:
    match node:
        case pst.Var():
            return node.name
        case pst.BoolLit():
            return "true" if node.value else "false"
        case pst.StringLit():
            return _string(node.value)
        case pst.EntityLit():
            return _uid(node.value)
        case pst.Slot():
            return f"?{node.name}"
        case pst.Set():
            return f"[{', '.join(cedar_text(element) for element in node.elements)}]"
        case pst.Record():
            members = (f"{_member(name)}: {cedar_text(value)}" for name, value in node.fields.items())
            return "{" + ", ".join(members) + "}"
        case _:
            # A node of a later Cedar: quoted by its kind alone, and still evaluated by Cedar.
            return f"<{type(node).__name__}>"


def _binary(node: pst.BinaryOp) -> tuple[str, int]:
    if node.op in _METHODS:
        return f"{_text(node.left, _MEMBER)}.{_METHODS[node.op]}({cedar_text(node.right)})", _MEMBER
    sign, binds = _INFIX[node.op]
    # Chains lean left; a relation takes no other relation on either side.
    left = binds if node.op in _ASSOCIATIVE else binds + 1
    return f"{_text(node.left, left)} {sign} {_text(node.right, binds + 1)}", binds


def _unary(node: pst.UnaryOp) -> tuple[str, int]:
    if node.op in _METHODS:
        return f"{_text(node.arg, _MEMBER)}.{_METHODS[node.op]}()", _MEMBER
    if node.op in _FUNCTIONS:
        return f"{node.op}({cedar_text(node.arg)})", _MEMBER
    sign = "!" if node.op == "not" else "-"
    # `-3` is a literal, and the negation of 3 is not; `--x` would be two signs in a row.
    return f"{sign}{_text(node.arg, _MEMBER if sign == '!' else _MEMBER + 1)}", _UNARY


def _attributes(names: tuple[str, ...]) -> str:
    if all(_is_name(name) for name in names):
        return ".".join(names)
    return _string(names[0])


def _pattern(element: pst.PatternElem) -> str:
    if isinstance(element, pst.Wildcard):
        return "*"
    return "\\*" if element.value == "*" else escape_cedar(element.value)


def _member(name: str) -> str:
    return name if _is_name(name) else _string(name)


def _is_name(name: str) -> bool:
    return _NAME.fullmatch(name) is not None and name not in _RESERVED


def _string(text: str) -> str:
    return f'"{escape_cedar(text)}"'


def _uid(entity: pst.EntityOrSlot) -> str:
    if isinstance(entity, pst.Slot):
        return f"?{entity.name}"
    return f"{entity.type}::{_string(entity.id)}"

"""Whether a rule can hold for anything that a pattern matches (spec section 4, trees).

A rule that looks closer than at places may hold for what nobody has named, so a whole tree is asked for. Of
what `*.md` matches more is known: no such file has the extension `pem`. That is worked out here from the
tests that a rule makes of a file's `name`, `extension` and `names`, and of where it lies. `True` and `False`
are results that every match gives and none fails to give; `None` is anything else, and whatever is not
plainly such a test is that (fail closed).
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, Self

from cedarpy import pst

from authz.core.canonical.pattern import ANY_DEPTH, may_match, reaches
from authz.core.policy.trees import children
from authz.model.resource import PathPattern, Resource

_EXTENSION: Final = re.compile(r"\.([^.*?]+)\Z")
"""At the end of a pattern: every name that matches has this extension."""
_PLAIN_OPS: Final = frozenset(("and", "or", "eq", "not_eq", "in", "contains", "contains_all", "contains_any"))
_PLAIN: Final = (pst.StringLit, pst.EntityLit, pst.BoolLit, pst.Set, pst.Like, pst.Is)
_ATTRIBUTES: Final = frozenset(("name", "extension", "names"))
_PLACES: Final = frozenset(("File", "Directory"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Matched:
    """The files that a pattern matches in one folder, and nothing beneath them."""

    folder: str
    pattern: PathPattern

    @classmethod
    def of(cls, root: Resource, pattern: PathPattern) -> Self | None:
        """`None` where what matches is reached with all that it holds: of that no name is known."""
        if root.entity.type != "File" or pattern.parts[-1] == ANY_DEPTH:
            return None
        return cls(folder=root.entity.id, pattern=pattern)

    def may_meet(self, policy: pst.Template) -> bool:
        """Whether the rule may hold, or fail to be evaluated, for one of the files."""
        if self._scope(policy.resource) is False:
            return False
        for clause in policy.clauses:
            found = self._test(clause.expr)
            if found is not None and found is isinstance(clause, pst.Unless):
                return False
            if found is None and not _cannot_fail(clause.expr):
                return True
        return True

    def _scope(self, scope: Any) -> bool | None:
        if isinstance(scope, pst.ScopeEq):
            return self._is_equal(scope.entity)
        if isinstance(scope, pst.ScopeIs | pst.ScopeIsIn) and str(scope.entity_type) != "File":
            return False
        if isinstance(scope, pst.ScopeIn | pst.ScopeIsIn):
            return self._lies_in(scope.entity)
        return True

    def _test(self, node: Any) -> bool | None:
        if isinstance(node, pst.BoolLit):
            return bool(node.value)
        if isinstance(node, pst.UnaryOp) and node.op == "not":
            found = self._test(node.arg)
            return None if found is None else not found
        if isinstance(node, pst.Is) and _is_resource(node.base):
            is_file = str(node.entity_type) == "File"
            return self._in(node.in_expr) if is_file and node.in_expr is not None else is_file
        if isinstance(node, pst.Like) and _attribute(node.base) == "name":
            return self._name_like(
                tuple(one.value if isinstance(one, pst.Char) else None for one in node.pattern)
            )
        return self._operation(node) if isinstance(node, pst.BinaryOp) else None

    def _operation(self, node: pst.BinaryOp) -> bool | None:
        if node.op in ("and", "or"):
            return self._joined(node, settles=node.op == "or")
        if node.op in ("eq", "not_eq"):
            found = self._equals(node.left, node.right)
            return found if node.op == "eq" or found is None else not found
        if node.op == "in" and _is_resource(node.left):
            return self._in(node.right)
        if node.op == "contains":
            if _attribute(node.left) == "names":
                return self._any_named([node.right])
            if isinstance(node.left, pst.Set) and _attribute(node.right) is not None:
                return _any([self._equals(node.right, element) for element in node.left.elements])
        if node.op == "contains_any" and _attribute(node.left) == "names" and isinstance(node.right, pst.Set):
            return self._any_named(node.right.elements)
        return None

    def _joined(self, node: pst.BinaryOp, *, settles: bool) -> bool | None:
        """`&&` and `||`: what the left one settles leaves the right one out."""
        left = self._test(node.left)
        if left is settles:
            return settles
        right = self._test(node.right)
        if left is None:
            # It may fail, and then the rule has failed whatever the other says.
            return settles if right is settles and _cannot_fail(node.left) else None
        return right

    def _equals(self, left: Any, right: Any) -> bool | None:
        if _is_resource(left) and isinstance(right, pst.EntityLit):
            return self._is_equal(right.value)
        if not isinstance(right, pst.StringLit):
            return None
        attribute, text = _attribute(left), right.value
        if attribute == "name":
            return self._name_like(tuple(text))
        if attribute != "extension":
            return None
        known = _EXTENSION.search(self.pattern.parts[-1])
        if known is not None:
            return known[1].lower() == text
        if not text:
            return None
        return False if "." in text else self._name_like((None, ".", *text))

    def _name_like(self, wanted: tuple[str | None, ...]) -> bool | None:
        part = self.pattern.parts[-1]
        overlap = _known_overlap if len(part) <= _REMEMBERED_CHARACTERS else _may_overlap
        return None if overlap(part, wanted) else False

    def _any_named(self, elements: Sequence[Any]) -> bool | None:
        """Whether a name on the way to the file, or its own, is one of these."""
        return _any(
            [
                self._is_named(element.value) if isinstance(element, pst.StringLit) else None
                for element in elements
            ]
        )

    def _is_named(self, name: str) -> bool | None:
        if name in self.folder.casefold().split("/")[1:]:
            return True
        if any(part == ANY_DEPTH or may_match(part, name) for part in self.pattern.parts):
            return None
        return False

    def _in(self, node: Any) -> bool | None:
        if isinstance(node, pst.Set):
            return _any([self._in(element) for element in node.elements])
        return self._lies_in(node.value) if isinstance(node, pst.EntityLit) else None

    def _lies_in(self, uid: Any) -> bool | None:
        if isinstance(uid, pst.Slot):
            return None
        if str(uid.type) not in _PLACES:
            return False
        place = uid.id
        if str(uid.type) == "Directory" and (place == "/" or f"{self.folder}/".startswith(f"{place}/")):
            return True
        return None if self._is_reached(place) else False

    def _is_equal(self, uid: Any) -> bool | None:
        if isinstance(uid, pst.Slot):
            return None
        return None if str(uid.type) == "File" and self._is_reached(uid.id) else False

    def _is_reached(self, place: str) -> bool:
        above = self.folder.rstrip("/") + "/"
        return place.startswith(above) and reaches(self.pattern, place[len(above) :].split("/"))


def _any(found: Sequence[bool | None]) -> bool | None:
    if any(one is True for one in found):
        return True
    return False if all(one is False for one in found) else None


def _attribute(node: Any) -> str | None:
    """The attribute of the resource that an expression is, of those that every file has."""
    if isinstance(node, pst.GetAttr) and _is_resource(node.base) and node.attr in _ATTRIBUTES:
        return str(node.attr)
    return None


def _is_resource(node: Any) -> bool:
    return isinstance(node, pst.Var) and node.name == "resource"


def _cannot_fail(node: Any) -> bool:
    """Whether an expression only tests what every file has."""
    if isinstance(node, pst.BinaryOp) and node.op not in _PLAIN_OPS:
        return False
    if isinstance(node, pst.UnaryOp) and node.op != "not":
        return False
    if _is_resource(node) or _attribute(node) is not None or isinstance(node, pst.EntityLit):
        return True
    if not isinstance(node, (pst.BinaryOp, pst.UnaryOp, *_PLAIN)):
        return False
    return all(_cannot_fail(child) for child in children(node) if isinstance(child, _EXPRESSIONS)) and all(
        map(_cannot_fail, node.elements if isinstance(node, pst.Set) else ())
    )


_EXPRESSIONS: Final = (
    *(pst.Var, pst.GetAttr, pst.HasAttr, pst.Is, pst.Like, pst.BinaryOp, pst.UnaryOp, pst.IfThenElse),
    *(pst.Set, pst.Record, pst.StringLit, pst.EntityLit, pst.BoolLit, pst.LongLit),
)


_REMEMBERED_CHARACTERS: Final = 64
"""Longer parts of a pattern are not remembered, so that nobody can fill memory with them."""


def _may_overlap(part: str, wanted: tuple[str | None, ...]) -> bool:
    """Whether a name may match both a part of a pattern and these characters; `None` is any run of them."""
    if not all(char is None or char.isascii() for char in wanted):
        return True
    if part[0] in "*?" and wanted[:1] == (".",):
        return False
    one: list[str | None] = [None if char == "*" else char for char in part.lower()]
    other = [char if char is None else char.lower() for char in wanted]
    seen: set[tuple[int, int]] = set()
    pending = [(0, 0)]
    while pending:
        at = pending.pop()
        if at in seen:
            continue
        seen.add(at)
        i, j = at
        left, right = one[i : i + 1], other[j : j + 1]
        if not left and not right:
            return True
        if left == [None] or right == [None]:
            # A run ends here, or takes whatever the other has next.
            pending += [(i + 1, j)] * bool(left) + [(i, j + 1)] * bool(right)
        if left and right and None not in (*left, *right) and (left == ["?"] or left == right):
            pending.append((i + 1, j + 1))
    return False


_known_overlap = lru_cache(maxsize=4096)(_may_overlap)

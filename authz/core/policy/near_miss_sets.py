"""The parts of many rules as policy sets of Cedar, evaluated with one request."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import cedarpy
from cedarpy import pst

from authz.core.policy.near_miss_parts import Part, condition_parts, scope_parts, whole
from authz.core.policy.rules import Policy

MAX_SET: Final = 128
"""Policies of one set. Cedar builds a set in one go, and decisions that are made meanwhile wait for it."""
_FAILED = re.compile(r"error while evaluating policy `([^`]+)`: (.*)", re.DOTALL)
# Cedar's messages name entities and values, so only their kind is told.
_KINDS: Final = (
    ("does not have the attribute", "an attribute is missing"),
    ("does not have the tag", "a tag is missing"),
    ("does not exist", "an entity is missing"),
    ("overflow", "a number overflows"),
    ("type error", "the types do not fit"),
    ("extension", "a value cannot be read as the type that is asked for"),
)


@dataclass(frozen=True, slots=True)
class PartIds:
    """Under which ids Cedar knows the parts of one rule."""

    whole: str
    parts: tuple[tuple[Part, str, tuple[str, ...]], ...]
    """(part, its id, the ids of what it is put together from)."""


@dataclass(frozen=True, slots=True)
class Found:
    """What Cedar said of every part."""

    satisfied: frozenset[str]
    errors: Mapping[str, str]
    """What kind of error, by part."""


class TakenApart:
    """Rules taken apart, every part a permit of its own."""

    def __init__(self, policies: Sequence[Policy]) -> None:
        self.ids: dict[str, PartIds] = {}
        self._trees: dict[str, pst.Template] = {}
        for policy in policies:
            parts = tuple(
                (part, self._add(part.tree), tuple(self._add(member.tree) for member in part.inside))
                for part in (*scope_parts(policy.tree), *condition_parts(policy.tree))
            )
            self.ids[policy.id] = PartIds(self._add(whole(policy.tree)), parts)
        names = list(self._trees)
        self._sets = [_build(self._trees, names[at : at + MAX_SET]) for at in range(0, len(names), MAX_SET)]

    def _add(self, tree: pst.Template) -> str:
        name = f"p{len(self._trees)}"
        self._trees[name] = replace(tree, id=name)
        return name

    def evaluate(self, request: dict[str, Any], entities: Any, schema: Any) -> Found | None:
        """Every part of every rule; `None` when Cedar gives no clean answer."""
        satisfied: set[str] = set()
        errors: dict[str, str] = {}
        for policies in self._sets:
            result = cedarpy.is_authorized(request, policies, entities, schema=schema)
            if result.decision not in (cedarpy.Decision.Allow, cedarpy.Decision.Deny):
                return None
            for text in result.diagnostics.errors:
                told = _FAILED.match(text)
                if told is None:
                    return None
                errors[told[1]] = _kind(told[2])
            # All parts are permits, so Cedar's reasons are all of them that are satisfied.
            satisfied.update(result.diagnostics.reasons)
        return Found(frozenset(satisfied), errors)


def _build(trees: Mapping[str, pst.Template], names: Sequence[str]) -> Any:
    chosen = {name: trees[name] for name in names}
    return cedarpy.PolicySet.from_pst(
        pst.PolicySet(templates={}, static_policies=chosen, template_links=()), release_gil=True
    )


def _kind(message: str) -> str:
    return next((kind for sign, kind in _KINDS if sign in message), "it cannot be evaluated")

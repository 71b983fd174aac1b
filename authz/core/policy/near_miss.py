"""Which rules matched a question or nearly did, and which of their conditions failed.

Every verdict here is Cedar's: a rule is taken apart (`near_miss_parts`), each part becomes a policy of its
own, and one evaluation with the question's own entities and context tells which of them are satisfied.
Nothing is decided here; `PolicyEngine.evaluate` alone decides.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

import cedarpy
from cedarpy import pst

from authz.core.cedar_schema import Action, evaluation_schema
from authz.core.entities import PreparedEntities, join_documents
from authz.core.policy.engine import PolicyEngine, Question
from authz.core.policy.near_miss_parts import Clause, Part, whole
from authz.core.policy.near_miss_sets import Found, PartIds, TakenApart
from authz.core.policy.reads import context_reads, literals_looked_into
from authz.core.policy.rules import Policy
from authz.core.policy.scopes import action_matches
from authz.model.decision import RuleMatch

MAX_EXAMINED: Final = 256
"""Rules taken apart for one question, unless all are asked for: those whose scope fits first."""


class Verdict(StrEnum):
    """What Cedar says of one part."""

    TRUE = "true"
    FALSE = "false"
    ERROR = "error"
    NOT_REACHED = "not_reached"
    """Cedar stops before it, and by itself it cannot be evaluated: what guards it did not hold."""
    UNKNOWN = "unknown"
    """It reads an argument whose value is not known here: that of a recorded call can be redacted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Examined:
    """One part of a rule and what it came to."""

    clause: Clause
    text: str
    """Cedar text. Of an `unless` it must be false for the rule to match."""
    verdict: Verdict
    reached: bool
    """Whether Cedar gets this far. Where it does not, the verdict is of the part by itself."""
    error: str = ""
    inside: tuple["Examined", ...] = ()

    @property
    def holds(self) -> bool:
        """Whether the rule's demand is met."""
        return self.verdict is (Verdict.FALSE if self.clause == "unless" else Verdict.TRUE)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExaminedRule:
    """One rule, held against one question."""

    match: RuleMatch
    matched: bool
    """Cedar's verdict on the whole rule."""
    failed: bool
    """The rule cannot be evaluated: the call is denied for that alone."""
    parts: tuple[Examined, ...]

    @property
    def missing(self) -> tuple[Examined, ...]:
        """What would have to be otherwise for the rule to match."""
        return tuple(part for part in self.parts if not part.holds)

    @property
    def uncertain(self) -> bool:
        """Whether it matches depends on a value that is not known: nothing that is known rules it out."""
        return any(part.verdict is Verdict.UNKNOWN for part in self.missing) and not any(
            part.verdict is Verdict.FALSE if part.clause != "unless" else part.verdict is Verdict.TRUE
            for part in self.missing
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Examination:
    """Every rule that could be about a question, and how many are about something else."""

    rules: tuple[ExaminedRule, ...]
    elsewhere: int
    """Rules about other actions or other types of resources."""
    unexamined: int
    """Rules about this action that were left out because there are too many."""
    broken: str = ""
    """Why nothing could be examined."""


class Examiner:
    """Examines the questions of one call; rules that were taken apart once are kept."""

    def __init__(
        self, engine: PolicyEngine, *, every_rule: bool = False, unknown: frozenset[str] = frozenset()
    ) -> None:
        """`every_rule`: also those about other actions, and without a bound.

        `unknown` names arguments whose values stand in for others: what reads them has no verdict.
        """
        self._policies = list(engine.policies.values())
        self._every_rule = every_rule
        self._unknown = unknown
        self._taken: dict[tuple[str, ...], TakenApart] = {}

    def examine(
        self,
        question: Question,
        action: Action,
        principal: PreparedEntities,
        added: str,
        determining: frozenset[str] = frozenset(),
    ) -> Examination:
        """Hold every rule that could matter against the question. Never raises for a request.

        Rules that are known to be `determining` are examined whatever the bound. Touches no cache of the
        engine, so it may run in another thread than the decisions.
        """
        chosen, elsewhere, unexamined = self._choose(question, action, determining)
        taken = self._take_apart(chosen)
        reads = context_reads(policy.tree for policy in chosen)
        try:
            schema = cedarpy.Schema.from_str(evaluation_schema(action, reads))
            entities = _entities(principal, action, added, chosen, schema)
            request = {
                "principal": _uid(question.principal),
                "action": _uid(("Action", action.id)),
                "resource": _uid(question.resource[0]),
                "context": question.context(reads),
            }
            found = taken.evaluate(request, entities, schema)
        except (TypeError, ValueError):
            # The text of the error echoes entities, so it goes nowhere.
            found = None
        if found is None:
            return Examination(rules=(), elsewhere=0, unexamined=len(self._policies), broken=_BROKEN)
        rules = tuple(self._rule(policy, taken.ids[policy.id], found) for policy in chosen)
        return Examination(rules=rules, elsewhere=elsewhere, unexamined=unexamined)

    def _choose(
        self, question: Question, action: Action, determining: frozenset[str]
    ) -> tuple[list[Policy], int, int]:
        if self._every_rule:
            return self._policies, 0, 0
        names = frozenset((action.id, *action.groups))
        types = frozenset(kind for kind, _ in question.resource)
        above = frozenset(question.resource)
        about = [
            policy
            for policy in self._policies
            if action_matches(policy.tree, names) and _about(policy.tree, question.resource[0][0], types)
        ]
        # Where there are too many, those that decide come first, then those that name this resource or none.
        about.sort(
            key=lambda policy: (policy.id not in determining, not _named_by(policy.tree.resource) <= above)
        )
        chosen = about[:MAX_EXAMINED]
        return chosen, len(self._policies) - len(about), len(about) - len(chosen)

    def _take_apart(self, policies: Sequence[Policy]) -> TakenApart:
        key = tuple(policy.id for policy in policies)
        taken = self._taken.get(key)
        if taken is None:
            taken = self._taken[key] = TakenApart(policies)
        return taken

    def _rule(self, policy: Policy, ids: PartIds, found: Found) -> ExaminedRule:
        parts: list[Examined] = []
        for part, name, members in ids.parts:
            reached = all(before.holds for before in parts)
            parts.append(self._part(part, name, members, found, reached=reached))
        return ExaminedRule(
            match=policy.match,
            matched=self._verdict(whole(policy.tree), ids.whole, found) is Verdict.TRUE,
            failed=self._verdict(whole(policy.tree), ids.whole, found) is Verdict.ERROR,
            parts=tuple(parts),
        )

    def _part(
        self, part: Part, name: str, members: tuple[str, ...], found: Found, *, reached: bool
    ) -> Examined:
        verdict = self._verdict(part.tree, name, found)
        if verdict is Verdict.ERROR and not reached:
            # By itself it fails, and in the rule it is never evaluated: no verdict of the rule's.
            return Examined(clause=part.clause, text=part.text, verdict=Verdict.NOT_REACHED, reached=False)
        # `||` goes on while it is false, `&&` while it is true.
        goes_on = Verdict.TRUE if part.clause == "unless" else Verdict.FALSE
        inside: list[Examined] = []
        for member, member_name in zip(part.inside, members, strict=True):
            member_reached = reached and all(before.verdict is goes_on for before in inside)
            inside.append(self._part(member, member_name, (), found, reached=member_reached))
        return Examined(
            clause=part.clause,
            text=part.text,
            verdict=verdict,
            reached=reached,
            error=found.errors.get(name, "") if verdict is Verdict.ERROR else "",
            inside=tuple(inside),
        )

    def _verdict(self, tree: pst.Template, name: str, found: Found) -> Verdict:
        if self._unknown and _reads(tree, self._unknown):
            return Verdict.UNKNOWN
        if name in found.errors:
            return Verdict.ERROR
        return Verdict.TRUE if name in found.satisfied else Verdict.FALSE


_BROKEN: Final = "the question could not be evaluated, so no rule can be told to match"


def _reads(tree: pst.Template, arguments: frozenset[str]) -> bool:
    read = context_reads((tree,)).get("arguments", frozenset())
    return read is None or bool(read & arguments)


def _about(tree: pst.Template, resource_type: str, types: frozenset[str]) -> bool:
    """Whether the rule could be about a resource of this type, given the types of what it lies in."""
    scope = tree.resource
    if isinstance(scope, pst.ScopeIs | pst.ScopeIsIn) and str(scope.entity_type) != resource_type:
        return False
    return all(kind in types for kind, _ in _named_by(scope))


def _named_by(scope: Any) -> frozenset[tuple[str, str]]:
    if isinstance(scope, pst.ScopeEq | pst.ScopeIn | pst.ScopeIsIn) and isinstance(
        scope.entity, pst.EntityUid
    ):
        return frozenset({(str(scope.entity.type), scope.entity.id)})
    return frozenset()


def _entities(
    principal: PreparedEntities, action: Action, added: str, policies: Iterable[Policy], schema: Any
) -> Any:
    """The entities of the question: under a schema, or `action in …` would be false."""
    literals = {
        literal
        for policy in policies
        for clause in policy.tree.clauses
        for literal in literals_looked_into(clause.expr)
    }
    tool = ("Tool", action.tool)
    documents = {tool: action.tool_document, **principal.documents(literals)}
    return cedarpy.Entities.from_json_str(join_documents(documents), schema).with_added_json_str(added)


def _uid(entity: tuple[str, str]) -> dict[str, str]:
    return {"type": entity[0], "id": entity[1]}

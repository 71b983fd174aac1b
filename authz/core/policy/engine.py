"""Evaluation, fail closed: whatever is not a clean answer from Cedar is a deny."""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import cedarpy
from cedarpy import pst

from authz.core.cedar_context import Reads
from authz.core.cedar_schema import Action, evaluation_schema
from authz.core.entities import PreparedEntities
from authz.core.policy.reads import context_reads, literals_looked_into
from authz.core.policy.rules import Policy, check_unique, first_line, validate
from authz.errors import BundleError, BundleProblem
from authz.model.decision import Code, Effect, RuleKind, RuleMatch
from authz.model.resource import Entity

BLANKET_PERMIT: Final = "authz:asked-for"
"""Id of the permit that carries the second set. No `@id` can equal it: a colon is not allowed there."""

_FAILED_POLICY = re.compile(r"error while evaluating policy `([^`]+)`")


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """One evaluation: may this principal exercise this action on this resource?"""

    principal: tuple[str, str]
    action: str
    resource: tuple[str, str]
    context: Callable[[Reads], str]
    """Gives the context, or the part of it that rules read, as Cedar JSON text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Prepared:
    """What one action is evaluated with: all that could matter to it, and nothing else."""

    settled: Any
    """Permits and hard forbids whose action scope could match."""
    asking: Any | None
    """Asking forbids whose action scope could match, plus the blanket permit."""
    reads: Reads
    schema: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyAnswer:
    """What the rules say to one question, and which of them determined it."""

    effect: Effect
    code: Code
    rules: tuple[RuleMatch, ...]
    overruled: tuple[RuleMatch, ...] = ()
    internal: str = ""


class PolicyEngine:
    """A validated set of policies against one schema. Immutable; evaluation holds no state."""

    def __init__(self, policies: Sequence[Policy], schema_text: str, actions: Iterable[Action]) -> None:
        """Raises `BundleError` for duplicate ids and for every policy that the schema refuses."""
        check_unique(policies)
        self.policies = {policy.id: policy for policy in policies}
        try:
            self._schema = cedarpy.Schema.from_str(schema_text)
        except ValueError as error:
            raise BundleError(
                (BundleProblem(f"the generated schema is invalid: {first_line(error)}", file="tools"),)
            ) from None
        validate(policies, self._schema)
        self._actions = {action.id: action for action in actions}
        self._prepared: dict[str, _Prepared] = {}
        self._built: dict[frozenset[str], Any] = {}
        self.literals_to_load = frozenset(
            literal
            for policy in policies
            for clause in policy.tree.clauses
            for literal in literals_looked_into(clause.expr)
        )
        """Literals whose own parents or attributes a condition reads: Cedar must be handed them."""

    def prepare_entities(self, text: str) -> PreparedEntities:
        """Parse entities (Cedar JSON) once for many evaluations, held to the schema.

        Raises `ValueError` for entities that the schema does not have; no request can cause that.
        """
        return cedarpy.Entities.from_json_str(text, self._schema)

    def evaluate(
        self, questions: Sequence[Question], principal: PreparedEntities, added: str
    ) -> list[PolicyAnswer]:
        """Answer every question over the same entities. Never raises for a request.

        `principal` comes from `prepare_entities`; `added` is Cedar JSON of what this call adds.

        Anything but a clean Allow or Deny from Cedar is a deny with `policy.error`: an erroring
        forbid, which Cedar skips, must not vanish.
        """
        try:
            entities = principal.with_added_json_str(added)
        except ValueError:
            # The text of the error echoes entities, so it goes nowhere.
            return [_broken("the entities of the call do not fit together")] * len(questions)
        answers: list[PolicyAnswer | None] = [None] * len(questions)
        by_action: dict[str, list[int]] = {}
        for index, question in enumerate(questions):
            by_action.setdefault(question.action, []).append(index)
        for action, indices in by_action.items():
            asked = [questions[index] for index in indices]
            for index, answer in zip(indices, self._answer(action, asked, entities), strict=True):
                answers[index] = answer
        return [answer if answer is not None else _broken("no answer") for answer in answers]

    def _answer(
        self, action: str, questions: list[Question], entities: PreparedEntities
    ) -> list[PolicyAnswer]:
        if action not in self._actions:
            return [_broken("the action is not in the schema")] * len(questions)
        prepared = self._prepare(action)
        try:
            requests = [_request(question, prepared.reads) for question in questions]
        except (TypeError, ValueError):
            return [_broken("the arguments could not be encoded")] * len(questions)
        results = _ask_cedar(requests, prepared.settled, entities, prepared.schema)
        answers = [self._first(result) for result in results]
        if prepared.asking is not None:
            allowed = [index for index, answer in enumerate(answers) if answer.effect is Effect.ALLOW]
            asked = [requests[index] for index in allowed]
            results = _ask_cedar(asked, prepared.asking, entities, prepared.schema)
            for index, result in zip(allowed, results, strict=True):
                answers[index] = self._second(answers[index], result)
        return answers

    def _first(self, result: Any) -> PolicyAnswer:
        """What permits and hard forbids say."""
        broken = self._trouble(result)
        if broken is not None:
            return broken
        rules = self._rules(result.diagnostics.reasons)
        if result.decision is cedarpy.Decision.Allow and rules:
            return PolicyAnswer(effect=Effect.ALLOW, code=Code.POLICY_PERMIT, rules=rules)
        code = Code.POLICY_FORBID if rules else Code.POLICY_NO_MATCH
        return PolicyAnswer(effect=Effect.DENY, code=code, rules=rules)

    def _second(self, permitted: PolicyAnswer, result: Any) -> PolicyAnswer:
        """What asking rules say of something that permits allow."""
        broken = self._trouble(result)
        if broken is not None:
            return broken
        if result.decision is cedarpy.Decision.Allow:
            return permitted
        rules = self._rules(result.diagnostics.reasons)
        if not rules:
            return _broken("a deny without a rule")
        return PolicyAnswer(
            effect=Effect.REQUIRE_APPROVAL,
            code=Code.APPROVAL_REQUIRED,
            rules=rules,
            overruled=permitted.rules,
        )

    def _trouble(self, result: Any) -> PolicyAnswer | None:
        if isinstance(result, Exception):
            return _broken(f"the engine failed: {type(result).__name__}")
        errors = result.diagnostics.errors
        if errors:
            # The text of Cedar's errors echoes entities, so only the names of rules are taken.
            failed = {found[1] for error in errors if (found := _FAILED_POLICY.match(error))}
            named = self._rules(failed)
            return PolicyAnswer(
                effect=Effect.DENY,
                code=Code.POLICY_ERROR,
                rules=named,
                internal="a policy failed to evaluate" if named else "the request could not be evaluated",
            )
        if result.decision not in (cedarpy.Decision.Allow, cedarpy.Decision.Deny):
            return _broken("the engine made no decision")
        return None

    def _rules(self, ids: Iterable[str]) -> tuple[RuleMatch, ...]:
        return tuple(self.policies[name].match for name in sorted(ids) if name in self.policies)

    def could_allow(
        self, principal: tuple[str, str], action: str, known: PreparedEntities, added: str
    ) -> tuple[bool, tuple[RuleMatch, ...]]:
        """Whether any resource and context could make this action anything but a deny.

        Cedar evaluates with the resource and the context unknown. That is a preview: only its
        certain deny is used, to hide a tool; what is shown is still decided in full.
        """
        settled = self._prepare(action).settled
        # Unlike the others, this function takes entities as Cedar text only.
        request = {
            "principal": Entity(type=principal[0], id=principal[1]).cedar,
            "action": Entity(type="Action", id=action).cedar,
        }
        try:
            entities = known.with_added_json_str(added)
            result = cedarpy.is_authorized_partial(request, settled, entities, schema=self._schema)
        except ValueError:
            # An id that Cedar's text form cannot carry: shown, and then decided in full.
            return True, ()
        if result.decision is cedarpy.Decision.Deny and not result.diagnostics.errors:
            # Permits that can no longer matter are named too; what denies are the forbids.
            named = self._rules(result.diagnostics.reasons)
            return False, tuple(rule for rule in named if rule.kind is RuleKind.FORBID)
        return True, ()

    def _prepare(self, action: str) -> _Prepared:
        """What could matter to this action.

        A policy whose action scope does not match is false before any of it is evaluated, so it
        can neither decide nor fail: leaving it out changes nothing. The same holds for a context
        field that none of the rest reads.
        """
        prepared = self._prepared.get(action)
        if prepared is None:
            names = frozenset((action, *self._actions[action].groups))
            matching = [policy for policy in self.policies.values() if _action_matches(policy.tree, names)]
            asks = [policy for policy in matching if policy.match.kind is RuleKind.ASK]
            reads = context_reads(policy.tree for policy in matching)
            prepared = _Prepared(
                settled=self._build([policy for policy in matching if policy.match.kind is not RuleKind.ASK]),
                asking=self._build(asks, blanket=True) if asks else None,
                reads=reads,
                schema=cedarpy.Schema.from_str(evaluation_schema(self._actions[action], reads)),
            )
            self._prepared[action] = prepared
        return prepared

    def _build(self, policies: list[Policy], *, blanket: bool = False) -> Any:
        key = frozenset(policy.id for policy in policies) | ({BLANKET_PERMIT} if blanket else frozenset())
        built = self._built.get(key)
        if built is None:
            trees = {policy.id: policy.tree for policy in policies}
            if blanket:
                trees[BLANKET_PERMIT] = _BLANKET
            built = cedarpy.PolicySet.from_pst(
                pst.PolicySet(templates={}, static_policies=trees, template_links=())
            )
            self._built[key] = built
        return built


_BLANKET: Final = pst.Template(
    id=BLANKET_PERMIT,
    effect="permit",
    principal=pst.ScopeAny(),
    action=pst.ScopeAny(),
    resource=pst.ScopeAny(),
    clauses=(),
    annotations={},
)


def _broken(why: str) -> PolicyAnswer:
    return PolicyAnswer(effect=Effect.DENY, code=Code.POLICY_ERROR, rules=(), internal=why)


def _uid(entity: tuple[str, str]) -> dict[str, str]:
    return {"type": entity[0], "id": entity[1]}


def _ask_cedar(
    requests: list[dict[str, Any]], policies: Any, entities: PreparedEntities, schema: Any
) -> list[Any]:
    if not requests:
        return []
    try:
        return list(cedarpy.is_authorized_batch(requests, policies, entities, schema=schema))
    except Exception as error:  # noqa: BLE001 - whatever the engine does, the answer is a deny
        return [error] * len(requests)


def _request(question: Question, reads: Reads) -> dict[str, Any]:
    return {
        "principal": _uid(question.principal),
        "action": _uid(("Action", question.action)),
        "resource": _uid(question.resource),
        "context": question.context(reads),
    }


def _action_matches(tree: pst.Template, names: frozenset[str]) -> bool:
    scope = tree.action
    if isinstance(scope, pst.ActionEq):
        return scope.entity.id in names
    if isinstance(scope, pst.ActionIn):
        return any(entity.id in names for entity in scope.entities)
    return True

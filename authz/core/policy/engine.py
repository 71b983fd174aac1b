"""Evaluation, fail closed: whatever is not a clean answer from Cedar is a deny."""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import cedarpy

from authz.core.cedar_context import Reads
from authz.core.cedar_schema import Action
from authz.core.entities import PreparedEntities
from authz.core.policy.names import unknown_names
from authz.core.policy.reads import literals_looked_into
from authz.core.policy.rules import Policy, check_unique, first_line, validate
from authz.core.policy.slices import ActionPolicies, action_matches, build_set
from authz.errors import BundleError, BundleProblem
from authz.model.decision import Code, Effect, RuleKind, RuleMatch
from authz.model.resource import Entity

MAX_CACHED_SETS: Final = 4096
MAX_PARSED_ENTITIES: Final = 4096
"""Of (principal, action): bounded together, since a caller may name any number of agents."""
WHOLE: Final = ""
"""In place of an action: the schema of the whole bundle. No action has that id."""

_FAILED_POLICY = re.compile(r"error while evaluating policy `([^`]+)`")


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """One evaluation: may this principal exercise this action on this resource?"""

    principal: tuple[str, str]
    action: str
    resource: Sequence[tuple[str, str]]
    """The resource and all of its ancestors, nearest first."""
    context: Callable[[Reads], str]
    """Gives the context, or the part of it that rules read, as Cedar JSON text."""


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
        _check_action_literals(policies)
        self._actions = {action.id: action for action in actions}
        _check_names(policies, list(self._actions.values()))
        self._prepared: dict[str, ActionPolicies] = {}
        self._built: dict[frozenset[str], Any] = {}
        self._entities = lru_cache(maxsize=MAX_PARSED_ENTITIES)(self._parse_entities)
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
        self._entities(text, WHOLE)
        return text

    def _parse_entities(self, text: str, action: str) -> Any:
        """Entities under the small schema of one action, with its `Tool`; under the bundle's for `WHOLE`.

        Cedar adds the schema's actions to what it parses, and copies all of it when a call adds its own:
        under the whole schema, every tool of the bundle would make every decision dearer.
        """
        if action == WHOLE:
            return cedarpy.Entities.from_json_str(text, self._schema)
        prepared = self._prepare(action)
        if prepared.tool_document not in text:
            text = f"{text[:-1]},{prepared.tool_document}]"
        return cedarpy.Entities.from_json_str(text, prepared.schema)

    def evaluate(
        self, questions: Sequence[Question], principal: PreparedEntities, added: str
    ) -> list[PolicyAnswer]:
        """Answer every question over the same entities. Never raises for a request.

        `principal` comes from `prepare_entities`; `added` is Cedar JSON of what this call adds.

        Anything but a clean Allow or Deny from Cedar is a deny with `policy.error`: an erroring
        forbid, which Cedar skips, must not vanish.
        """
        return [self._answer(question, principal, added) for question in questions]

    def _answer(self, question: Question, principal: PreparedEntities, added: str) -> PolicyAnswer:
        if question.action not in self._actions:
            return _broken("the action is not in the schema")
        prepared = self._prepare(question.action)
        chosen = prepared.slice_for(question.resource)
        try:
            entities = self._entities(principal, question.action).with_added_json_str(added)
        except ValueError:
            # The text of the error echoes entities, so it goes nowhere.
            return _broken("the entities of the call do not fit together")
        try:
            request = _request(question, prepared.reads)
        except (TypeError, ValueError):
            return _broken("the arguments could not be encoded")
        answer = self._first(_ask_cedar(request, chosen.settled, entities, prepared.schema))
        if answer.effect is Effect.ALLOW and chosen.asking is not None:
            # The schema held the request to its types in the first evaluation.
            answer = self._second(answer, _ask_cedar(request, chosen.asking, entities, None))
        return answer

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
        settled = self._prepare(action).possible()
        # Unlike the others, this function takes entities as Cedar text only.
        request = {
            "principal": Entity(type=principal[0], id=principal[1]).cedar,
            "action": Entity(type="Action", id=action).cedar,
        }
        try:
            entities = self._entities(known, WHOLE).with_added_json_str(added)
            result = cedarpy.is_authorized_partial(request, settled, entities, schema=self._schema)
        except ValueError:
            # An id that Cedar's text form cannot carry: shown, and then decided in full.
            return True, ()
        if result.decision is cedarpy.Decision.Deny and not result.diagnostics.errors:
            # Permits that can no longer matter are named too; what denies are the forbids.
            named = self._rules(result.diagnostics.reasons)
            return False, tuple(rule for rule in named if rule.kind is RuleKind.FORBID)
        return True, ()

    def _prepare(self, action: str) -> ActionPolicies:
        prepared = self._prepared.get(action)
        if prepared is None:
            prepared = ActionPolicies(self._actions[action], list(self.policies.values()), self._build)
            self._prepared[action] = prepared
        return prepared

    def _build(self, policies: Sequence[Policy]) -> Any:
        """The policy set of these policies; many actions and resources share one."""
        key = frozenset(policy.id for policy in policies)
        built = self._built.get(key)
        if built is None:
            if len(self._built) >= MAX_CACHED_SETS:
                self._built.clear()
            built = self._built[key] = build_set(policies)
        return built


def _check_names(policies: Sequence[Policy], actions: Sequence[Action]) -> None:
    names = [(action, frozenset((action.id, *action.groups))) for action in actions]
    problems: list[BundleProblem] = []
    for policy in policies:
        about = [action for action, groups in names if action_matches(policy.tree, groups)]
        problems += unknown_names(policy.tree, policy.match, about)
    if problems:
        raise BundleError(tuple(problems))


def _check_action_literals(policies: Sequence[Policy]) -> None:
    """An action of a condition is only compared with: what it is in is told of the asked action alone."""
    problems = [
        BundleProblem(
            f"`{policy.id}` looks into the action `{name}`",
            file=policy.match.file or "",
            line=policy.match.line,
            hint='write `action in Action::"…"`',
        )
        for policy in policies
        for clause in policy.tree.clauses
        for kind, name in literals_looked_into(clause.expr)
        if kind == "Action"
    ]
    if problems:
        raise BundleError(tuple(problems))


def _broken(why: str) -> PolicyAnswer:
    return PolicyAnswer(effect=Effect.DENY, code=Code.POLICY_ERROR, rules=(), internal=why)


def _uid(entity: tuple[str, str]) -> dict[str, str]:
    return {"type": entity[0], "id": entity[1]}


def _ask_cedar(request: dict[str, Any], policies: Any, entities: PreparedEntities, schema: Any) -> Any:
    try:
        return cedarpy.is_authorized(request, policies, entities, schema=schema)
    except Exception as error:  # noqa: BLE001 - whatever the engine does, the answer is a deny
        return error


def _request(question: Question, reads: Reads) -> dict[str, Any]:
    return {
        "principal": _uid(question.principal),
        "action": _uid(("Action", question.action)),
        "resource": _uid(question.resource[0]),
        "context": question.context(reads),
    }

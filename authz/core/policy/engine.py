"""Evaluation, fail closed: whatever is not a clean answer from Cedar is a deny."""

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import cedarpy

from authz.core.cedar_context import Reads
from authz.core.cedar_schema import Action, evaluation_schema
from authz.core.entities import PreparedEntities
from authz.core.policy.checks import policy_problems
from authz.core.policy.findings import Findings, PolicyAnswer, broken
from authz.core.policy.index import PolicyIndex, names_of
from authz.core.policy.narrow import SCHEMA_INVALID
from authz.core.policy.parsed_entities import ParsedEntities
from authz.core.policy.places import NamedPlaces
from authz.core.policy.rules import Policy, first_line
from authz.core.policy.scopes import Scoped, Uid
from authz.core.policy.slices import Slicer
from authz.core.policy.validation import ValidationCache
from authz.core.steps import Step, go_on, stepwise
from authz.errors import BundleError, BundleProblem
from authz.model.decision import RuleKind, RuleMatch
from authz.model.resource import Entity, PathPattern, Resource

MAX_PREPARED_ACTIONS: Final = 512
"""Their schemas are kept parsed, some 80 kB each."""


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
class CacheStats:
    """How well an engine's caches do; counted since it was made."""

    slice_hits: int
    """Questions for which no set of policies had to be built."""
    slice_misses: int
    sets_built: int
    slices_held: int
    policies_held: int
    """In all sets that Cedar has parsed: what they need of memory goes with this."""
    slices_evicted: int
    entity_hits: int
    """Questions for whose principal and action the entities had been parsed."""
    entity_misses: int
    actions_prepared: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedActions:
    """What an engine was asked about, by the ids of actions."""

    asked: tuple[str, ...]
    """Least recently first."""
    trees: tuple[str, ...]
    """Those of them about which it was asked what lies beneath a place."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _PreparedAction:
    """What all questions about one action share."""

    names: tuple[str, ...]
    types: tuple[str, ...]
    reads: Reads
    schema: Any
    tool: tuple[Uid, bytes]


class PolicyEngine:
    """A validated set of policies against one schema. Evaluation changes nothing but caches.

    One thread at a time; `warm` may run in another one as long as this engine is not yet asked anything.
    """

    def __init__(
        self,
        policies: Sequence[Policy],
        schema_text: str,
        actions: Iterable[Action],
        validations: ValidationCache | None = None,
        *,
        before: "PolicyEngine | None" = None,
        step: Step = go_on,
    ) -> None:
        """Raises `BundleError` for duplicate ids and for every policy that the schema refuses.

        `validations` remembers policies that passed; without it, all of them are validated. What follows
        from the tree of a policy alone is taken from the engine `before` where it has the very same tree.
        """
        self.policies = {policy.id: policy for policy in policies}
        self.schema_text = schema_text
        self._actions = {action.id: action for action in actions}
        self._check(policies, schema_text, validations, step)
        self._index = PolicyIndex(_scoped(policies, before, step), step)
        self._slicer = Slicer(self._index)
        self._entities = ParsedEntities()
        self._places: NamedPlaces = NamedPlaces(policies, before.parts[1] if before else None, step)
        self._prepared: OrderedDict[str, _PreparedAction] = OrderedDict()

    def _check(
        self,
        policies: Sequence[Policy],
        schema_text: str,
        validations: ValidationCache | None,
        step: Step,
    ) -> None:
        try:
            cedarpy.Schema.from_str(schema_text, release_gil=True)
        except ValueError as error:
            message = f"the generated schema is invalid: {first_line(error)}"
            raise BundleError((BundleProblem(message, file="tools", code=SCHEMA_INVALID),)) from None
        unseen = policies if validations is None else validations.unseen(schema_text, policies, step)
        problems = policy_problems(policies, list(self._actions.values()), unseen)
        if problems:
            raise BundleError(tuple(problems))
        if validations is not None:
            validations.remember(schema_text, unseen)

    def evaluate(
        self, questions: Sequence[Question], principal: PreparedEntities, added: str
    ) -> list[PolicyAnswer]:
        """Answer every question over the same entities. Never raises for a request.

        `principal` comes from `EntityDirectory`; `added` is Cedar JSON of what this call adds.

        Anything but a clean Allow or Deny from Cedar is a deny with `policy.error`: an erroring
        forbid, which Cedar skips, must not vanish.
        """
        return [self._answer(question, principal, added) for question in questions]

    def _answer(self, question: Question, principal: PreparedEntities, added: str) -> PolicyAnswer:
        if question.action not in self._actions:
            return broken("the action is not in the schema")
        if question.principal != principal.uid:
            # The policies were chosen by the groups of one principal, and would be asked of another.
            return broken("the entities are those of another principal")
        prepared = self._prepare(question.action)
        chosen = self._slicer.slice_for(prepared.names, question.resource, principal.names)
        # What the call says of its resource stands, also where a rule names that resource: whether a
        # program is `known` depends on its arguments, and Cedar takes no two accounts of one entity.
        literals = chosen.literals
        if question.resource[0] in literals:
            literals -= {question.resource[0]}
        try:
            entities = self._entities.get(
                principal, question.action, prepared.schema, prepared.tool, literals
            ).with_added_json_str(added)
        except ValueError:
            # The text of the error echoes entities, so it goes nowhere.
            return broken("the entities of the call do not fit together")
        try:
            request = _request(question, prepared.reads)
        except (TypeError, ValueError):
            return broken("the arguments could not be encoded")
        findings = Findings(self.policies, approving=self._actions[question.action].is_approval)
        schema = prepared.schema
        for held in chosen.sets:
            findings.add(_ask_cedar(request, held.parsed, entities, schema))
            # The schema has held the request to its types once.
            schema = None
        return findings.answer()

    def places_beneath(
        self, action: str, root: Resource, pattern: PathPattern | None = None
    ) -> Sequence[Resource]:
        """What rules about this action name beneath `root`: a tree is judged there too.

        With a pattern only what it reaches.
        """
        return self._places.beneath(self._names(action), root, pattern)

    def covers_beneath(
        self, action: str, permits: Iterable[str], root: Resource, pattern: PathPattern | None = None
    ) -> bool:
        """Whether these permits, which allow a tree at its root and at every place that is named beneath it,
        allow all of it: no rule about this action looks closer than at where something lies, or what looks
        closer cannot hold for anything that the pattern matches."""
        return self._places.covers(self._names(action), permits, root, pattern)

    def _names(self, action: str) -> frozenset[str]:
        known = self._actions.get(action)
        return frozenset((action, *(known.groups if known is not None else ())))

    def could_allow(
        self, principal: tuple[str, str], action: str, known: PreparedEntities, added: str
    ) -> tuple[bool, tuple[RuleMatch, ...]]:
        """Whether any resource and context could make this action anything but a deny.

        Cedar evaluates with the resource and the context unknown. That is a preview: only its
        certain deny is used, to hide a tool; what is shown is still decided in full.
        """
        if principal != known.uid:
            return True, ()
        prepared = self._prepare(action)
        chosen = self._slicer.preview(prepared.names, prepared.types, known.names)
        # Unlike the others, this function takes entities as Cedar text only.
        request = {
            "principal": Entity(type=principal[0], id=principal[1]).cedar,
            "action": Entity(type="Action", id=action).cedar,
        }
        try:
            entities = self._entities.get(
                known, action, prepared.schema, prepared.tool, chosen.literals
            ).with_added_json_str(added)
            result = cedarpy.is_authorized_partial(
                request, chosen.handle.parsed, entities, schema=prepared.schema
            )
        except ValueError:
            # An id that Cedar's text form cannot carry: shown, and then decided in full.
            return True, ()
        if result.decision is cedarpy.Decision.Deny and not result.diagnostics.errors:
            # Permits that can no longer matter are named too; what denies are the forbids.
            held = sorted(set(result.diagnostics.reasons) & self.policies.keys())
            named = [self.policies[name].match for name in held]
            return False, tuple(rule for rule in named if rule.kind is RuleKind.FORBID)
        return True, ()

    def warm(self, prepared: "PreparedActions", step: Step = go_on) -> int:
        """Prepare what questions about these actions share, before any is asked; how many were prepared.

        For a thread of its own while another engine serves: what holds the interpreter between two steps is
        small. Actions that this engine does not have are passed over.
        """
        known = [action for action in prepared.asked if action in self._actions]
        for action in stepwise(known, step):
            found = self._prepare(action, release_gil=True)
            step()
            self._slicer.warm(found.names, found.types, step)
        for action in prepared.trees:
            self._places.warm(self._names(action), step)
        return len(known)

    @property
    def parts(self) -> tuple[PolicyIndex, NamedPlaces]:
        """What a successor takes of what it has in common with this one. Neither ever changes."""
        return self._index, self._places

    def prepared_actions(self) -> "PreparedActions":
        """The actions that this engine was asked about: what a successor may warm."""
        asked = tuple(self._prepared)
        trees = tuple(action for action in asked if self._places.is_warm(self._names(action)))
        return PreparedActions(asked=asked, trees=trees)

    def cache_stats(self) -> CacheStats:
        """How well the caches do, for metrics and benchmarks."""
        cache = self._slicer.cache
        return CacheStats(
            slice_hits=self._slicer.hits,
            slice_misses=self._slicer.misses,
            sets_built=cache.built,
            slices_held=len(cache),
            policies_held=cache.held,
            slices_evicted=cache.evicted,
            entity_hits=self._entities.hits,
            entity_misses=self._entities.misses,
            actions_prepared=len(self._prepared),
        )

    def _prepare(self, action_id: str, *, release_gil: bool = False) -> _PreparedAction:
        prepared = self._prepared.get(action_id)
        if prepared is not None:
            self._prepared.move_to_end(action_id)
            return prepared
        action = self._actions[action_id]
        names = names_of(action_id, action.groups)
        # Of the whole action and not of a slice, so that one schema fits every slice.
        reads = self._index.reads(names)
        schema = cedarpy.Schema.from_str(evaluation_schema(action, reads), release_gil=release_gil)
        prepared = _PreparedAction(
            names=names,
            types=action.resource_types,
            reads=reads,
            schema=schema,
            tool=(("Tool", action.tool), action.tool_document),
        )
        self._prepared[action_id] = prepared
        if len(self._prepared) > MAX_PREPARED_ACTIONS:
            self._prepared.popitem(last=False)
        return prepared


def _scoped(policies: Sequence[Policy], before: PolicyEngine | None, step: Step) -> Iterator[Scoped]:
    known = {one.policy.id: one for one in before.parts[0].policies} if before else {}
    for number, policy in enumerate(stepwise(policies, step)):
        found = known.get(policy.id)
        if found is not None and found.policy.tree is policy.tree:
            yield found.moved(number, policy)
        else:
            yield Scoped.of(number, policy)


def _uid(entity: tuple[str, str]) -> dict[str, str]:
    return {"type": entity[0], "id": entity[1]}


def _ask_cedar(request: dict[str, Any], policies: Any, entities: Any, schema: Any) -> Any:
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

"""Cedar's validation over as little of the schema as gives the same verdict.

Cedar types a policy once for every action and resource type that its scope allows; with hundreds of tools
that is most of the time that a bundle takes to load. But what the typing of a policy can tell of an action
is only: the types of who acts and of resources, which of the actions that the policy names it is or is in,
and the types of the arguments that the policy reads. Of actions that are alike in these, one stands for all.
So policies that name and read the same are validated together, against a schema with one action of each
kind and the part of `arguments` that they read. A test holds the verdicts to those of the whole schema.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import cedarpy
from cedarpy import pst

from authz.core.cedar_context import Reads, context_type
from authz.core.cedar_schema import APPROVE, PRELUDE, Action
from authz.core.policy.reads import context_reads
from authz.core.policy.rules import Policy, first_line
from authz.core.policy.scopes import action_matches, scope_actions
from authz.core.policy.trees import entity_uids
from authz.errors import BundleError, BundleProblem
from authz.model.resource import Authority, Verb, escape_cedar

ALWAYS_DECLARED: Final = frozenset(
    {*(verb.value for verb in Verb), *(level.name for level in Authority), APPROVE}
)
"""Groups of actions that the schema has whether or not a tool is in them."""
_POSITION: Final = "policy"
_KEYS_IN_A_BATCH: Final = 24
SCHEMA_INVALID: Final = "tool.schema-invalid"
NO_APPLICABLE: Final = "unable to find an applicable action"
"""How Cedar says that no action and resource type fits the scope."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TypeFault:
    """What Cedar's validator says of one policy."""

    policy: Policy
    message: str
    about: tuple[Action, ...]
    """The actions that the policy can be about, as far as one of a kind goes."""


@dataclass(frozen=True, slots=True)
class Key:
    """What two policies must share to be validated against one schema."""

    named: frozenset[str]
    """Ids of all actions that the policy names."""
    scope: frozenset[str] | None
    """Those that its scope names; `None` where it is about all actions."""
    arguments: frozenset[str] | None
    """The arguments that it reads; `None` is all of them."""

    def __or__(self, other: "Key") -> "Key":
        """A key for both: the more a schema tells apart, the more policies it has a verdict on."""
        return Key(
            named=self.named | other.named,
            scope=None if self.scope is None or other.scope is None else self.scope | other.scope,
            arguments=(
                None
                if self.arguments is None or other.arguments is None
                else self.arguments | other.arguments
            ),
        )


@dataclass(frozen=True, slots=True)
class TypeQuestion:
    """A policy that nobody wrote, to be typed by Cedar for what that tells."""

    tree: pst.Template
    key: Key
    """Its key, or that of a policy which names and reads at least as much."""


class NarrowValidator:
    """Validates policies against the schema of a registry. Immutable but for its caches.

    Its methods raise `BundleError` for a registry whose schema Cedar cannot read.
    """

    def __init__(self, actions: Iterable[Action]) -> None:
        self._actions = tuple(actions)
        self._members: dict[str, list[Action]] = {}
        for action in self._actions:
            for name in (action.id, *action.groups):
                self._members.setdefault(name, []).append(action)
        self._types: dict[tuple[str, frozenset[str] | None], str] = {}
        self._schemas: dict[Key, tuple[Any, tuple[Action, ...]]] = {}

    def faults(self, policies: Sequence[Policy]) -> list[TypeFault]:
        """What Cedar's strict validation finds, in the order of `policies`; empty when all of them pass."""
        found: list[tuple[int, TypeFault]] = []
        for key, members in _batches([key_of(policy.tree) for policy in policies]):
            schema, actions = self._schema(key)
            chosen = [policies[index] for index in members]
            for position, message in _validate([policy.text for policy in chosen], schema):
                # What Cedar cannot assign to one policy is told of each: none of them may pass.
                for place in range(len(chosen)) if position is None else (position,):
                    about = tuple(action for action in actions if is_about(chosen[place].tree, action))
                    fault = TypeFault(policy=chosen[place], message=message, about=about)
                    found.append((members[place], fault))
        return [fault for _, fault in sorted(found, key=lambda pair: pair[0])]

    def passing(self, questions: Mapping[str, TypeQuestion]) -> frozenset[str]:
        """The names of those questions that pass: what Cedar can tell of changed policies.

        One whose scope no action fits counts as passing: as with a condition that never holds, there is
        nothing to type.
        """
        names = list(questions)
        passed: set[str] = set()
        for key, members in _batches([question.key for question in questions.values()]):
            schema, _ = self._schema(key)
            chosen = [names[index] for index in members]
            faults = _validate([policy_text(questions[name].tree) for name in chosen], schema)
            failed = {place for place, message in faults if not message.startswith(NO_APPLICABLE)}
            if None not in failed:
                passed |= {name for place, name in enumerate(chosen) if place not in failed}
        return frozenset(passed)

    def kinds(self, key: Key, among: Mapping[str, Action]) -> list[list[Action]]:
        """The actions of `among` (by id) that a policy is about, those together that it cannot tell apart."""
        scoped = among.values() if key.scope is None else self._scoped(key.scope)
        alike: dict[Any, list[Action]] = {}
        for action in scoped:
            if action.id in among:
                alike.setdefault(self._kind(action, key), []).append(action)
        return list(alike.values())

    def _schema(self, wanted: Key) -> tuple[Any, tuple[Action, ...]]:
        known = self._schemas.get(wanted)
        if known is None:
            candidates = self._actions if wanted.scope is None else self._scoped(wanted.scope)
            kinds: dict[Any, Action] = {}
            for action in candidates:
                kinds.setdefault(self._kind(action, wanted), action)
            # An action that a condition names is told apart from all others, so it stands for itself.
            for name in wanted.named:
                for action in self._members.get(name, ()):
                    if action.id == name:
                        kinds.setdefault(self._kind(action, wanted), action)
            actions = tuple(kinds.values())
            schema = _parsed(self._schema_text(actions, wanted))
            known = self._schemas[wanted] = (schema, actions)
        return known

    def _scoped(self, names: frozenset[str]) -> list[Action]:
        found = {action.id: action for name in sorted(names) for action in self._members.get(name, ())}
        return list(found.values())

    def _kind(self, action: Action, wanted: Key) -> tuple[Any, ...]:
        """What a policy of this key can tell about the action."""
        groups = frozenset((action.id, *action.groups)) & wanted.named
        arguments = self._arguments(action, wanted.arguments)
        return action.principal, action.resource_types, groups, arguments, tuple(action.fields)

    def _arguments(self, action: Action, names: frozenset[str] | None) -> str:
        key = (action.tool, names)
        found = self._types.get(key)
        if found is None:
            found = self._types[key] = action.arguments.only(names).cedar_type
        return found

    def _schema_text(self, actions: Sequence[Action], wanted: Key) -> str:
        """The schema of these actions and of the named groups, with what the policies read."""
        declared = wanted.named & (self._members.keys() | ALWAYS_DECLARED)
        groups = sorted(declared - {action.id for action in self._actions})
        lines = [PRELUDE, *(f'action "{escape_cedar(group)}";' for group in groups)]
        names: dict[tuple[str, ...], str] = {}
        declared_actions = []
        for action in actions:
            kind = (self._arguments(action, wanted.arguments), *action.fields)
            name = names.get(kind)
            if name is None:
                name = names[kind] = f"Context{len(names)}"
                reads: Reads = {"arguments": wanted.arguments, **dict.fromkeys(action.fields)}
                told = context_type(action.arguments, reads, action.fields)
                lines.append(f"type {name} = {told};")
            inside = [group for group in action.groups if group in wanted.named]
            parents = ", ".join(f'Action::"{escape_cedar(group)}"' for group in inside)
            declared_actions.append(
                f'action "{escape_cedar(action.id)}" {f"in [{parents}] " if parents else ""}appliesTo {{ '
                f"principal: [{action.principal}], "
                f"resource: [{', '.join(action.resource_types)}], context: {name} }};"
            )
        return "\n".join(lines + declared_actions)


def key_of(tree: pst.Template) -> Key:
    """What the verdict on a policy depends on."""
    named = frozenset(uid.id for uid in entity_uids(tree) if str(uid.type) == "Action")
    scope = scope_actions(tree)
    reads = context_reads([tree])
    arguments = reads["arguments"] if "arguments" in reads else frozenset[str]()
    return Key(named=named, scope=None if scope is None else frozenset(scope), arguments=arguments)


def _batches(keys: Sequence[Key]) -> list[tuple[Key, list[int]]]:
    """Positions in `keys` by the key that they are validated under.

    Reading a schema costs as much as typing a hundred policies. Those about few actions share one, since
    each is typed only for the actions that its scope names, however many others there are.
    """
    grouped: dict[Key, list[int]] = {}
    for index, key in enumerate(keys):
        grouped.setdefault(key, []).append(index)
    batches = [(key, members) for key, members in grouped.items() if not _is_narrow(key)]
    narrow = [(key, members) for key, members in grouped.items() if _is_narrow(key)]
    for start in range(0, len(narrow), _KEYS_IN_A_BATCH):
        chunk = narrow[start : start + _KEYS_IN_A_BATCH]
        together = chunk[0][0]
        for key, _ in chunk[1:]:
            together |= key
        batches.append((together, [index for _, members in chunk for index in members]))
    return batches


def _is_narrow(key: Key) -> bool:
    """Whether the scope names actions and no group that many tools are in."""
    return key.scope is not None and key.arguments is not None and not key.scope & ALWAYS_DECLARED


def is_about(tree: pst.Template, action: Action) -> bool:
    """Whether the action scope of a policy fits an action."""
    return action_matches(tree, frozenset((action.id, *action.groups)))


def _parsed(schema_text: str) -> Any:
    try:
        # Bundles are loaded beside requests, which are not to wait.
        return cedarpy.Schema.from_str(schema_text, release_gil=True)
    except ValueError as error:
        message = f"the generated schema is invalid: {first_line(error)}"
        raise BundleError((BundleProblem(message, file="tools", code=SCHEMA_INVALID),)) from None


def policy_text(tree: pst.Template) -> str:
    """A tree as Cedar text."""
    whole = pst.PolicySet(templates={}, static_policies={tree.id: tree}, template_links=())
    return str(cedarpy.PolicySet.from_pst(whole))


def _validate(texts: Sequence[str], schema: Any) -> list[tuple[int | None, str]]:
    """(position of the policy, what is wrong); the position is `None` where Cedar does not tell it."""
    result = cedarpy.validate_policies("\n".join(texts), schema, release_gil=True)
    if result.validation_passed:
        return []
    found: list[tuple[int | None, str]] = []
    for error in result.errors:
        number = error.policy_id.removeprefix(_POSITION)
        known = number.isdecimal() and int(number) < len(texts)
        message = str(error.error).replace(f"for policy `{error.policy_id}`, ", "")
        found.append((int(number) if known else None, message))
    return found or [(None, "validation failed")]

"""The records of a bundle: that it came into force and what that changed, or that it was refused."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Final, TypeVar

import orjson

from authz.core.entities import PersonOrGroup
from authz.core.ruleset import Ruleset
from authz.core.steps import Step, go_on, stepwise
from authz.errors import BundleProblem
from authz.model.limit import Limit
from authz.model.record import Event, EventType

MAX_NAMES: Final = 100
"""Names of one kind that a record lists; how many there are it says in any case."""
MAX_PROBLEMS: Final = 100

Value = TypeVar("Value")


@dataclass(frozen=True, slots=True, kw_only=True)
class Changed:
    """Names that are only in the new bundle, only in the old one, or in both with other content."""

    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class BundleChanges:
    """What a swap changes, by name."""

    rules: Changed
    tools: Changed
    profiles: Changed
    limits: Changed
    groups: Changed
    users: Changed
    agents: Changed


def changes_between(old: Ruleset, new: Ruleset, step: Step = go_on) -> BundleChanges:
    """What differs between two bundles. A rule that only moved to another line has not changed."""
    return BundleChanges(
        rules=_changed(old.engine.policies, new.engine.policies, lambda policy: policy.text, step),
        tools=_changed(_tools(old), _tools(new), lambda digest: digest),
        profiles=_changed(old.profiles, new.profiles, _whole),
        limits=_changed(_limits(old), _limits(new), _whole),
        groups=_changed(_members(old, "Group"), _members(new, "Group"), _whole),
        users=_changed(_members(old, "User"), _members(new, "User"), _whole),
        agents=_changed(_members(old, "Agent"), _members(new, "Agent"), _whole),
    )


def _whole(value: Value) -> Value:
    return value


def _limits(ruleset: Ruleset) -> dict[str, Limit]:
    return {limit.id: limit for limit in ruleset.limits}


def _members(ruleset: Ruleset, kind: str) -> dict[str, PersonOrGroup]:
    members = ruleset.entities.members
    return {member.uid[1]: member for member in members.values() if member.uid[0] == kind}


def _tools(ruleset: Ruleset) -> dict[str, str]:
    return {tool.descriptor.qualified_name: tool.descriptor.digest for tool in ruleset.tools.values()}


def _changed(
    old: Mapping[str, Value],
    new: Mapping[str, Value],
    content: Callable[[Value], Any],
    step: Step = go_on,
) -> Changed:
    return Changed(
        added=tuple(sorted(new.keys() - old.keys())),
        removed=tuple(sorted(old.keys() - new.keys())),
        changed=tuple(
            name
            for name, value in stepwise(new.items(), step)
            if name in old and content(value) != content(old[name])
        ),
    )


def bundle_event(
    *,
    tenant: str,
    ruleset: Ruleset,
    now_ms: int,
    trigger: str = "start",
    key_id: str | None = None,
    before: str | None = None,
    changes: BundleChanges | None = None,
) -> Event:
    """The record that a bundle now decides: by its content digest, and by what it changed.

    `before` is the version that decided until then: `None` when the service starts.
    """
    body: dict[str, Any] = {
        "policy_version": ruleset.version,
        "previous_version": before,
        "trigger": trigger,
        "caller": {"key_id": key_id} if key_id is not None else None,
        "rules": len(ruleset.engine.policies),
        "tools": len(ruleset.tools),
    }
    if changes is not None:
        body["changes"] = {kind.name: _told(getattr(changes, kind.name)) for kind in fields(changes)}
    return Event(type=EventType.BUNDLE_LOADED, tenant=tenant, occurred_at_ms=now_ms, body=orjson.dumps(body))


def bundle_rejected_event(
    *,
    tenant: str,
    version: str,
    trigger: str,
    key_id: str | None,
    problems: Sequence[BundleProblem],
    now_ms: int,
) -> Event:
    """The record that a bundle's files were refused, where they are at fault, and what decides on.

    Messages quote the files, so they stand in `GET /policies` and not here.
    """
    body = {
        "policy_version": version,
        "trigger": trigger,
        "caller": {"key_id": key_id} if key_id is not None else None,
        "problem_count": len(problems),
        "problems": [
            {"file": problem.file, "line": problem.line, "code": problem.code}
            for problem in problems[:MAX_PROBLEMS]
        ],
    }
    return Event(
        type=EventType.BUNDLE_REJECTED, tenant=tenant, occurred_at_ms=now_ms, body=orjson.dumps(body)
    )


def _told(changed: Changed) -> dict[str, Any]:
    told: dict[str, Any] = {}
    for kind, names in (
        ("added", changed.added),
        ("removed", changed.removed),
        ("changed", changed.changed),
    ):
        told[kind] = {"count": len(names), "names": names[:MAX_NAMES]}
    return told

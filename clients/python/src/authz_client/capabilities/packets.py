"""Task packets: what a main agent hands a subagent, and the narrowest capability that serves it (section 7).

The capability is what the packet names and nothing else: the rights to each input and output, on these
resources, under these conditions, within this budget, until the task's deadline. Resources that need the same
rights under the same conditions share an entry; rights and resources are never multiplied into pairs that the
packet does not name. All entries state the packet's budget, which is one counter (see `budgets`).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from authz_client.capabilities.budgets import Budget
from authz_client.capabilities.constraints import same_json
from authz_client.capabilities.digests import json_digest
from authz_client.capabilities.entries import DETAIL_TYPE, parse_entries
from authz_client.capabilities.objects import Object, parse_object
from authz_client.capabilities.reasons import Reason, Refusal, Refused

Constraints = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskResource:
    """One resource that the task needs, and what for."""

    uri: str
    """Canonical."""
    rights: tuple[str, ...]
    """Verbs, tools, or `tool:verb`."""
    constraints: Constraints = field(default_factory=dict)
    """On the arguments of the calls that use it; see `constraints`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputContract:
    """What the task must bring back, and where it may put it."""

    description: str
    resources: tuple[TaskResource, ...] = ()
    """Empty when the result is only the answer itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Completion:
    """When the task is done, and when it is over in any case."""

    condition: str
    deadline: int
    """Seconds since 1970: the `exp` of the capability."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskPacket:
    """One delegated task."""

    objective: str
    inputs: tuple[TaskResource, ...]
    constraints: Constraints
    """On the arguments of every call of the task. A call without such an argument is refused."""
    output_contract: OutputContract
    budget: Budget | None
    completion: Completion
    child_trace_id: str

    @property
    def expires_at(self) -> int:
        """The `exp` of the capability."""
        return self.completion.deadline

    def entries(self) -> list[dict[str, Any]]:
        """`authorization_details` of the narrowest capability. Raises `Refused` where there is none."""
        groups: dict[str, tuple[list[str], dict[str, Any], list[str]]] = {}
        for resource in (*self.inputs, *self.output_contract.resources):
            rights = sorted(set(resource.rights))
            constraints = _merged(self.constraints, resource.constraints)
            key = json_digest([rights, constraints])
            groups.setdefault(key, (rights, constraints, []))[2].append(resource.uri)
        if not groups:
            raise Refused(
                Refusal(
                    reason=Reason.DETAILS_INVALID, detail="the packet names no resource, so grants nothing"
                )
            )
        entries = [self._entry(*group) for group in groups.values()]
        refused = parse_entries(entries)
        if isinstance(refused, Refusal):
            raise Refused(refused)
        return entries

    def _entry(self, rights: list[str], constraints: dict[str, Any], uris: list[str]) -> dict[str, Any]:
        entry: dict[str, Any] = {"type": DETAIL_TYPE, "actions": rights, "locations": _outermost(uris)}
        if constraints:
            entry["constraints"] = constraints
        if self.budget is not None:
            entry["budget"] = self.budget.as_json
        return entry


def _merged(common: Constraints, own: Constraints) -> dict[str, Any]:
    """Both, where they are about different members; a member that both state is the packet's to settle."""
    merged = {key: dict(members) for key, members in common.items()}
    for key, members in own.items():
        mine = merged.setdefault(key, {})
        for name, value in members.items():
            if name in mine and not same_json(mine[name], value):
                raise Refused(
                    Refusal(
                        reason=Reason.CONSTRAINT_INVALID,
                        detail=f"`{name}` of `{key}` is stated twice, differently",
                    )
                )
            mine[name] = value
    return merged


def _outermost(uris: Iterable[str]) -> list[str]:
    """`uris` without those that lie in another one, each once, in order."""
    unique = list(dict.fromkeys(uris))
    parsed: dict[str, Object] = {}
    for uri in unique:
        item = parse_object(uri)
        if item is None:
            raise Refused(Refusal(reason=Reason.LOCATION_INVALID, detail=f"`{uri}` is not a canonical URI"))
        parsed[uri] = item
    return [
        uri
        for position, uri in enumerate(unique)
        if not any(
            parsed[uri].lies_in(parsed[other])
            # Of two spellings of one location (`…/v1` and `…/v1/`) the first stays.
            and (not parsed[other].lies_in(parsed[uri]) or unique.index(other) < position)
            for other in unique
            if other != uri
        )
    ]

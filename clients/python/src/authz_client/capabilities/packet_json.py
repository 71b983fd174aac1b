"""Task packets as JSON: what a file holds, and a request.

    {"objective": "…",
     "inputs": [{"uri": "file:///srv/work/report", "rights": ["read"], "constraints": {…}}],
     "constraints": {"amount": {"max": 100}},
     "output_contract": {"description": "…", "resources": [{"uri": …, "rights": […]}]},
     "budget": {"calls": 20},
     "completion": {"condition": "…", "deadline": 1800000600},
     "child_trace_id": "t-2"}

`constraints` (both), `budget` and `resources` may be left out. A member that is not of the format refuses the
packet: it may be a bound that its writer relies on.
"""

from collections.abc import Mapping, Set
from typing import Any, Final

from authz_client.capabilities.budgets import BadBudget, Budget, parse_budget
from authz_client.capabilities.claims import is_date, is_name
from authz_client.capabilities.packets import Completion, OutputContract, TaskPacket, TaskResource
from authz_client.capabilities.reasons import Reason, Refusal, Refused

MAX_TEXT_CHARACTERS: Final = 8_192
MAX_RESOURCES: Final = 256
_REQUIRED: Final = frozenset({"objective", "inputs", "output_contract", "completion", "child_trace_id"})
_MEMBERS: Final = _REQUIRED | {"constraints", "budget"}


def parse_packet(value: Any) -> TaskPacket:
    """The packet of a JSON value. Raises `Refused`, and says where; `entries` says what it grants."""
    packet = _object(value, "the packet", _REQUIRED, _MEMBERS)
    contract = _object(
        packet["output_contract"], "`output_contract`", {"description"}, {"description", "resources"}
    )
    completion = _object(
        packet["completion"], "`completion`", {"condition", "deadline"}, {"condition", "deadline"}
    )
    if not is_date(completion["deadline"]):
        raise _refused("`deadline` is an integer, seconds since 1970")
    if not is_name(packet["child_trace_id"]):
        raise _refused("`child_trace_id` is a string of 1 to 256 characters without controls")
    return TaskPacket(
        objective=_text(packet["objective"], "`objective`"),
        inputs=_resources(packet["inputs"], "`inputs`"),
        constraints=_constraints(packet.get("constraints", {}), "the packet"),
        output_contract=OutputContract(
            description=_text(contract["description"], "`description`"),
            resources=_resources(contract.get("resources", []), "`resources`"),
        ),
        budget=_budget(packet),
        completion=Completion(
            condition=_text(completion["condition"], "`condition`"), deadline=completion["deadline"]
        ),
        child_trace_id=packet["child_trace_id"],
    )


def _object(value: Any, what: str, required: Set[str], members: Set[str]) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise _refused(f"{what} is an object")
    for name in sorted(required):
        if name not in value:
            raise _refused(f"{what} has no `{name}`")
    if value.keys() - members:
        raise _refused(f"{what} has an unknown member; known are {', '.join(sorted(members))}")
    return value


def _text(value: Any, what: str) -> str:
    if not isinstance(value, str) or not 0 < len(value) <= MAX_TEXT_CHARACTERS:
        raise _refused(f"{what} is a string of 1 to {MAX_TEXT_CHARACTERS} characters")
    return value


def _resources(value: Any, what: str) -> tuple[TaskResource, ...]:
    if not isinstance(value, list) or len(value) > MAX_RESOURCES:
        raise _refused(f"{what} is a list of at most {MAX_RESOURCES} resources")
    return tuple(_resource(item, f"{what[:-1]}/{index}`") for index, item in enumerate(value))


def _resource(value: Any, what: str) -> TaskResource:
    found = _object(value, what, {"uri", "rights"}, {"uri", "rights", "constraints"})
    rights = found["rights"]
    if not isinstance(rights, list) or not all(isinstance(right, str) for right in rights):
        raise _refused(f"`rights` of {what} is a list of strings")
    return TaskResource(
        uri=_text(found["uri"], f"`uri` of {what}"),
        rights=tuple(rights),
        constraints=_constraints(found.get("constraints", {}), what),
    )


def _constraints(value: Any, what: str) -> Mapping[str, Mapping[str, Any]]:
    # What the members say is for `parse_entries`, whose rules are the only ones.
    if not isinstance(value, dict) or not all(isinstance(members, dict) for members in value.values()):
        raise _refused(f"`constraints` of {what} is an object of objects")
    return value


def _budget(packet: Mapping[str, Any]) -> Budget | None:
    if "budget" not in packet:
        return None
    try:
        return parse_budget(packet["budget"])
    except BadBudget as error:
        raise Refused(Refusal(reason=Reason.BUDGET_INVALID, detail=str(error))) from None


def _refused(detail: str) -> Refused:
    return Refused(Refusal(reason=Reason.DETAILS_INVALID, detail=detail))

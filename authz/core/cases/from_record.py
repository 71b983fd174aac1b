"""A decision of the log as a policy case: the request as logged, the expectation as decided."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from authz.core.cases.redaction import mark, marked, redacted_places
from authz.core.pointer import format_pointer
from authz.errors import AuthzError
from authz.model.decision import Code, RuleKind, Stage

# What was decided by the state of the store, which a case does not state.
_BY_STATE: Final[Mapping[str, str]] = {
    Code.OPERATION_CONFLICT.value: "by another call under the same ids",
    Code.OPERATION_EXPIRED.value: "by an earlier permission for the same call",
}


class NoCase(AuthzError):
    """A record that cannot be stated as a case."""

    code = "case.none"


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedCase:
    """An entry of `cases:`, and which of its values the log does not hold."""

    entry: Mapping[str, Any]
    redacted: tuple[str, ...]
    """JSON Pointers into `call`."""


def case_of_record(record: Mapping[str, Any], name: str) -> RecordedCase:
    """The case that a decision's record is. Raises `NoCase` where no case can be.

    Arguments are those that were decided: canonical and with defaults, or as they were sent where the call
    was denied before they had a canonical form. What the log holds as a digest is marked.
    """
    if "decision_id" not in record or "subject" not in record:
        raise NoCase("the record is of no decision, so it cannot be a case")
    code = str(record["code"])
    because = _BY_STATE.get(code)
    if because is not None:
        raise NoCase(f"it was decided {because} (`{code}`), which a case cannot state")
    call = request_of_record(record)
    places = tuple(format_pointer(tokens) for tokens in redacted_places(call))
    entry: dict[str, Any] = {"name": name, "call": call, "given": _given(record), "expect": _expect(record)}
    return RecordedCase(entry=entry, redacted=places)


def request_of_record(record: Mapping[str, Any]) -> dict[str, Any]:
    """The body of `POST /decide` as far as the log holds it; the rest is marked (`redacted_places`)."""
    tool = _stated(record["tool"], "server", "name", "advertised_digest")
    call: dict[str, Any] = {
        "subject": _stated(record["subject"], "agent", "on_behalf_of", "session", "parent_agent"),
        "tool": tool,
        "arguments": marked(record["arguments"]),
    }
    if isinstance(call["arguments"], str):
        # So many values of an unknown tool that the log has one digest for all of them.
        call["arguments"] = {call["arguments"]: None}
    provenance = {
        marked(pointer): {key: value for key, value in marked(claim).items() if value not in (None, [])}
        for pointer, claim in record["provenance"]["leaves"].items()
    }
    if provenance:
        call["provenance"] = provenance
    call["context"] = _context(record)
    if record.get("dry_run"):
        call["dry_run"] = True
    if record["capability"]["presented"]:
        call["capability"] = [mark("a capability, which the log does not hold")]
    return call


def _context(record: Mapping[str, Any]) -> dict[str, Any]:
    ids = ("trace_id", "turn_id", "tool_call_id", "parent_trace_id", "parent_turn_id")
    claims = record["claims"]
    context = _stated(record, *ids) | _stated(claims, "cwd", "sandbox_root")
    resolved = {
        marked(pointer): {key: value for key, value in marked(place).items() if value is not None}
        for pointer, place in claims["resolved"].items()
    }
    if resolved:
        context["resolved"] = resolved
    if record["ask"]:
        context["ask"] = True
    return context


def _stated(members: Mapping[str, Any], *names: str) -> dict[str, Any]:
    return {name: marked(members[name]) for name in names if members.get(name) is not None}


def _given(record: Mapping[str, Any]) -> dict[str, Any]:
    given: dict[str, Any] = {"profile": record["caller"]["profile"], "now": record["occurred_at"]}
    if record.get("exposed"):
        given["exposed"] = record["exposed"]
    if record["code"] == Code.APPROVAL_GRANTED.value:
        given["approved"] = [rule["rule"] for rule in record["overruled"]]
    reached = [rule["rule"] for rule in record["matched"] if rule["kind"] == RuleKind.LIMIT.value]
    if reached:
        given["reached"] = reached
    if not all(record.get(name) for name in ("trace_id", "turn_id", "tool_call_id")):
        given["fresh_ids"] = False
    return given


def _expect(record: Mapping[str, Any]) -> dict[str, Any]:
    expect: dict[str, Any] = {name: record[name] for name in ("effect", "stage", "code")}
    expect["rules"] = [rule["rule"] for rule in record["matched"]]
    if record["overruled"]:
        expect["overruled"] = [rule["rule"] for rule in record["overruled"]]
    expect["authority"] = record["authority"]
    if record["stage"] in (Stage.POLICY.value, Stage.APPROVAL.value):
        accesses = []
        for access in record["accesses"]:
            stated = _stated(access, "verb", "uri", "scope", "effect")
            if any(redacted_places(stated)) or stated["uri"].startswith("opaque:"):
                # Of the value itself: a case says it once, in the call.
                del stated["uri"]
            accesses.append(stated)
        expect["accesses"] = accesses
    return expect

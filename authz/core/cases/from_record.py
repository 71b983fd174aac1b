"""A decision of the log as a policy case: the request as logged, the expectation as decided."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from authz.core.cases.redaction import (
    Hidden,
    Redactions,
    Restored,
    mark,
    places,
    redacted_places,
    redactions_of,
)
from authz.core.pointer import Tokens, format_pointer
from authz.errors import AuthzError
from authz.model.decision import Code, RuleKind, Stage

# What was decided by the state of the store, which a case does not state.
_BY_STATE: Final[Mapping[str, str]] = {
    Code.OPERATION_CONFLICT.value: "by another call under the same ids",
    Code.OPERATION_EXPIRED.value: "by an earlier permission for the same call",
    Code.OPERATION_IN_PROGRESS.value: "by an earlier permission for the same call",
    Code.OPERATION_SETTLED.value: "by an earlier permission for the same call",
    Code.OPERATION_UNKNOWN.value: "by an earlier permission for the same call",
    Code.OPERATION_CANCEL_REQUESTED.value: "by an earlier permission for the same call",
    Code.APPROVAL_DENIED.value: "by a person who said no",
    Code.APPROVAL_TOO_MANY_PENDING.value: "by what waits for people already",
    Code.APPROVAL_ASKED_TOO_OFTEN.value: "by what people were asked before",
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
    with_defaults: bool = False
    """Whether arguments may be among them that nobody sent: see `RecordedRequest.sent_only`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedRequest:
    """A body of `POST /decide` as far as the log holds it; the rest is marked."""

    body: dict[str, Any]
    hidden: tuple[Hidden, ...]
    """What is marked."""
    redactions: Redactions
    sent_only: bool
    """Whether the arguments are those that were sent: true unless the record does not say which were
    filled in. A default that was not sent counts as of the reviewed descriptor, so it is left out."""


def case_of_record(record: Mapping[str, Any], name: str) -> RecordedCase:
    """The case that a decision's record is. Raises `NoCase` where no case can be.

    Arguments are those that were decided, less the defaults that were filled in: canonical, or as they were
    sent where the call was denied before they had a canonical form. What the log holds as a digest is marked.
    """
    if "decision_id" not in record or "subject" not in record:
        raise NoCase("the record is of no decision, so it cannot be a case")
    code = str(record["code"])
    because = _BY_STATE.get(code)
    if because is not None:
        raise NoCase(f"it was decided {because} (`{code}`), which a case cannot state")
    found = request_of_record(record)
    hidden = dict.fromkeys(one.place for one in found.hidden)
    entry: dict[str, Any] = {"name": name, "call": found.body}
    alike = dict.fromkeys(place for place in redacted_places(found.body) if place not in hidden)
    if alike:
        entry["verbatim"] = [format_pointer(place) for place in alike]
    entry |= {"given": _given(record), "expect": _expect(record, found.redactions)}
    return RecordedCase(
        entry=entry,
        redacted=tuple(format_pointer(place) for place in hidden),
        with_defaults=not found.sent_only,
    )


def request_of_record(record: Mapping[str, Any]) -> RecordedRequest:
    """The request that a record is of, as it was sent as far as the log holds it."""
    redactions, defaulted = redactions_of(record), places(record.get("defaulted"))
    restored = Restored(redactions, defaulted or frozenset())
    arguments = _members(restored, record["arguments"], ("arguments",), ("arguments",))
    body: dict[str, Any] = {
        "subject": _stated(record["subject"], "agent", "on_behalf_of", "session", "parent_agent"),
        "tool": _stated(record["tool"], "server", "name", "advertised_digest"),
        "arguments": arguments,
    }
    claimed = _members(restored, record["provenance"]["leaves"], ("provenance", "leaves"), ("provenance",))
    if claimed:
        body["provenance"] = _by_pointer(claimed)
    body["context"] = _context(record, restored)
    for name in ("dry_run", "ticket"):
        if record.get(name):
            body[name] = True
    hidden = restored.hidden
    if record["capability"]["presented"]:
        body["capability"] = [mark("a capability, which the log does not hold")]
        hidden.append(Hidden(place=("capability", "0"), length=None))
    return RecordedRequest(
        body=body, hidden=tuple(hidden), redactions=redactions, sent_only=defaulted is not None
    )


def _context(record: Mapping[str, Any], restored: Restored) -> dict[str, Any]:
    ids = ("trace_id", "turn_id", "tool_call_id", "parent_trace_id", "parent_turn_id")
    context = _stated(record, *ids)
    claims = record["claims"]
    for name in ("cwd", "sandbox_root"):
        if claims[name] is not None:
            context[name] = restored.take(claims[name], ("claims", name), ("context", name))
    resolved = _members(restored, claims["resolved"], ("claims", "resolved"), ("context", "resolved"))
    if resolved:
        context["resolved"] = _by_pointer(resolved)
    if record["ask"]:
        context["ask"] = True
    return context


def _members(restored: Restored, value: Any, at: Tokens, into: Tokens) -> Mapping[str, Any]:
    """An object of the record. The mark of one that the log does not hold stands in it as a name."""
    told = restored.take(value, at, into)
    if not isinstance(told, str):
        return dict(told)
    restored.hidden[-1] = Hidden(place=(*into, told), length=None)
    return {told: {}}


def _by_pointer(claims: Mapping[str, Any]) -> dict[str, Any]:
    """Claims by their pointers, as far as each says something."""
    return {
        pointer: {name: value for name, value in claim.items() if value not in (None, [])}
        for pointer, claim in claims.items()
    }


def _stated(members: Mapping[str, Any], *names: str) -> dict[str, Any]:
    return {name: members[name] for name in names if members.get(name) is not None}


def _given(record: Mapping[str, Any]) -> dict[str, Any]:
    given: dict[str, Any] = {"profile": record["caller"]["profile"], "now": record["occurred_at"]}
    if record.get("exposed"):
        given["exposed"] = record["exposed"]
    if record.get("delegated"):
        given["delegated"] = True
    if record["code"] == Code.APPROVAL_GRANTED.value:
        given["approved"] = [rule["rule"] for rule in record["overruled"]]
    reached = [rule["rule"] for rule in record["matched"] if rule["kind"] == RuleKind.LIMIT.value]
    if reached:
        given["reached"] = reached
    if not all(record.get(name) for name in ("trace_id", "turn_id", "tool_call_id")):
        given["fresh_ids"] = False
    return given


def _expect(record: Mapping[str, Any], redactions: Redactions) -> dict[str, Any]:
    expect: dict[str, Any] = {name: record[name] for name in ("effect", "stage", "code")}
    expect["rules"] = [rule["rule"] for rule in record["matched"]]
    if record["overruled"]:
        expect["overruled"] = [rule["rule"] for rule in record["overruled"]]
    expect["authority"] = record["authority"]
    if record["stage"] in (Stage.POLICY.value, Stage.APPROVAL.value):
        accesses = []
        for index, access in enumerate(record["accesses"]):
            stated = _stated(access, "verb", "uri", "scope", "effect")
            if redactions.hides(("accesses", str(index), "uri")) or stated["uri"].startswith("opaque:"):
                # Of the value itself: a case says it once, in the call.
                del stated["uri"]
            accesses.append(stated)
        expect["accesses"] = accesses
    return expect

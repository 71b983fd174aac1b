"""A decision of the log explained: what was recorded, and what the bundle in force now makes of it.

The record's own facts are the base: its subject, canonical arguments, claims, exposure and time. What the log
holds only as a digest is never guessed: a text of the recorded length stands in for it so that the stages can
run, and whatever reads it (`explain`'s `unknown`) has no verdict. Where even that could mislead, nothing is
re-evaluated, and the explanation says why.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final

from authz.core.cases.from_record import RecordedRequest, request_of_record
from authz.core.decide import find_tool
from authz.core.explain.document import document
from authz.core.explain.explain import Begun, begin, finish
from authz.core.explain.model import Explanation
from authz.core.facts import Facts
from authz.core.lines import Lines
from authz.core.pointer import Tokens, format_pointer, matches, replace_leaf
from authz.core.requests import parse_decide
from authz.core.ruleset import Ruleset, Tool
from authz.errors import MalformedInput
from authz.model.call import Call
from authz.model.caller import Caller, Profile
from authz.model.decision import Refusal, Stage

_STAND_IN: Final = "x"
_ARGUMENTS: Final = "arguments"
MAX_STAND_INS: Final = 64 * 1024 * 1024
"""Characters of all texts that stand in: no request that was decided can have had more."""
# What a redacted part of a request is, where the call can still be judged without it.
_HARMLESS: Final = frozenset({"uri", "allowed_use"})


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedRecord:
    """A recorded decision, and its call as far as the log holds it."""

    record: Mapping[str, Any]
    found: RecordedRequest
    facts: Facts
    call: Call | None
    """With texts that stand in for what is hidden; `None`: nothing can be re-evaluated."""
    notes: tuple[str, ...]
    """Why something is not re-evaluated."""

    @property
    def hidden(self) -> tuple[Tokens, ...]:
        """Into the arguments: where the log has a digest."""
        return tuple(one.place[1:] for one in self.found.hidden if one.place[0] == _ARGUMENTS)


@dataclass(frozen=True, slots=True, kw_only=True)
class BegunRecord:
    """A recorded decision, re-evaluated as far as the log holds what it takes."""

    prepared: PreparedRecord
    begun: Begun | None
    notes: tuple[str, ...]


def explain_record(record: Mapping[str, Any], facts: Facts, *, every_rule: bool = False) -> dict[str, Any]:
    """The document of a recorded decision.

    `facts` are those of now: the bundle in force and the profile, with the time and the exposure at which to
    re-evaluate. Operation, approvals and counters of then are not in the record, so none are assumed.
    """
    return finish_record(begin_record(prepare_record(record, facts), every_rule=every_rule))


def prepare_record(record: Mapping[str, Any], facts: Facts) -> PreparedRecord:
    """The part of `explain_record` that reads the record. It may run beside decisions in another thread."""
    found = request_of_record(record)
    notes = _unusable(found)
    call = None if notes else _call(found, notes)
    return PreparedRecord(record=record, found=found, facts=facts, call=call, notes=tuple(notes))


def begin_record(
    prepared: PreparedRecord, *, every_rule: bool = False, lines: Lines | None = None
) -> BegunRecord:
    """The part that decides: see `authz.core.explain.begin`. `lines` are long shell lines that were read."""
    call, notes = prepared.call, prepared.notes
    if call is None:
        return BegunRecord(prepared=prepared, begun=None, notes=notes)
    facts = prepared.facts if lines is None else replace(prepared.facts, lines=lines)
    tool = find_tool(call, facts)
    if isinstance(tool, Refusal):
        # Nothing has been read of the arguments.
        return BegunRecord(prepared=prepared, begun=begin(call, facts, every_rule=every_rule), notes=notes)
    misleading = tuple(_misleading(tool, prepared))
    if misleading:
        return BegunRecord(prepared=prepared, begun=None, notes=(*notes, *misleading))
    unknown = frozenset(place[0] for place in prepared.hidden)
    begun = begin(call, facts, every_rule=every_rule, unknown=unknown)
    if unknown and begun.outcome is not None and begun.outcome.decision.stage is Stage.SCHEMA:
        notes = (*notes, "the schema cannot be checked without the redacted values")
        return BegunRecord(prepared=prepared, begun=None, notes=notes)
    return BegunRecord(prepared=prepared, begun=begun, notes=notes)


def finish_record(begun: BegunRecord) -> dict[str, Any]:
    """The rest of `explain_record`: see `authz.core.explain.finish`."""
    notes = list(begun.notes)
    explanation = finish(begun.begun) if begun.begun is not None else None
    if explanation is not None:
        notes += _uncertainty(explanation)
    told = document(explanation) if explanation is not None else _nothing(begun.prepared.facts)
    _hide_stand_ins(told, begun)
    return told | {"recorded": _recorded(begun, explanation, notes)}


def _hide_stand_ins(told: dict[str, Any], begun: BegunRecord) -> None:
    """What was made of texts that stand in for others is not shown: the record's own words are."""
    unknown = begun.begun is not None and bool(begun.begun.unknown)
    record = begun.prepared.record
    digest = record["request_digest"]
    if told["decision"] is not None:
        told["decision"]["request_digest"] = digest if isinstance(digest, str) else None
        if unknown:
            told["decision"]["fingerprint"] = None
    for stage in told["stages"]:
        if "arguments" in stage["input"]:
            stage["input"]["arguments"] = record[_ARGUMENTS]
        if unknown and "fingerprint" in stage["output"]:
            stage["output"]["fingerprint"] = None


def facts_of_record(
    record: Mapping[str, Any],
    ruleset: Ruleset,
    *,
    profile: str | None = None,
    at_ms: int | None = None,
    exposed: frozenset[str] = frozenset(),
) -> Facts:
    """Facts for `explain_record`: the caller's profile, time and exposure as recorded, unless told otherwise.

    A profile that the bundle does not have may assert nothing, as in the service.
    """
    name = profile if profile is not None else str(record["caller"]["profile"])
    moment = datetime.fromisoformat(str(record["occurred_at"]))
    caller = Caller(
        key_id=str(record["caller"]["key_id"]),
        tenant=str(record["tenant"]),
        roles=frozenset(),
        profile=ruleset.profiles.get(name) or Profile(name=name),
    )
    return Facts(
        caller=caller,
        ruleset=ruleset,
        now_ms=at_ms if at_ms is not None else round(moment.timestamp() * 1000),
        decision_id=str(record["decision_id"]),
        operation=None,
        exposed=exposed | frozenset(record.get("exposed", ())),
        delegated=bool(record.get("delegated")),
        # Nothing that this key makes is shown.
        secret=bytes(32),
        ttl_ms=0,
    )


def _unusable(found: RecordedRequest) -> list[str]:
    """What of the request has to be known before anything can be judged, and is not."""
    told = []
    for place in (one.place for one in found.hidden):
        if place[0] == _ARGUMENTS:
            continue
        if not (place[0] == "provenance" and len(place) > 2 and place[2] in _HARMLESS):
            told.append(f"`{format_pointer(place)}` is redacted")
    return told


def _call(found: RecordedRequest, notes: list[str]) -> Call | None:
    """The call with stand-ins. `None`, with a note why, where they could mislead."""
    body = dict(found.body)
    hidden = [one for one in found.hidden if one.place[0] == _ARGUMENTS]
    if hidden and not found.redactions.stated:
        notes.append("the record is of an earlier version, which does not say what was redacted")
        return None
    if sum(one.length or 0 for one in hidden) > MAX_STAND_INS:
        notes.append("the redacted values are longer than a request may be")
        return None
    for one in hidden:
        if one.length is None:
            notes.append(f"`{format_pointer(one.place[1:])}` is redacted in part, or in its name")
            return None
        body[_ARGUMENTS] = replace_leaf(body[_ARGUMENTS], one.place[1:], _STAND_IN * one.length)
    try:
        return parse_decide(body)
    except MalformedInput as error:
        notes.append(f"the recorded request is no request of this version: {error.message}")
        return None


def _misleading(tool: Tool, prepared: PreparedRecord) -> Iterator[str]:
    """What is not known of the arguments and decides what is judged, or how."""
    for place in _access_places(tool, prepared.hidden):
        yield f"`{format_pointer(place)}` is redacted, and it says what is accessed"
    if not prepared.found.sent_only and _has_defaults(tool.descriptor.input_schema):
        yield "the record is of an earlier version, which does not say what was filled in by default"


def _has_defaults(schema: Any) -> bool:
    """Whether anything in a schema is called `default`, whatever it is."""
    if isinstance(schema, Mapping):
        return "default" in schema or any(map(_has_defaults, schema.values()))
    return isinstance(schema, list) and any(map(_has_defaults, schema))


def _uncertainty(explanation: Explanation) -> list[str]:
    rules = {rule.rule: None for report in explanation.accesses for rule in report.uncertain}
    return [f"rule `{name}` reads a redacted value, and the verdict depends on it" for name in rules]


def _access_places(tool: Tool, places: Sequence[Tokens]) -> list[Tokens]:
    """Redacted arguments that say what is accessed, or how far."""
    patterns = [
        pattern
        for spec in tool.descriptor.accesses
        for pattern in (spec.at, spec.tree_if)
        if pattern is not None
    ]
    return [
        place
        for place in places
        if any(matches(pattern, place) or matches(place, pattern) for pattern in patterns)
    ]


def _recorded(begun: BegunRecord, explanation: Explanation | None, notes: Sequence[str]) -> dict[str, Any]:
    prepared = begun.prepared
    record, facts = prepared.record, prepared.facts
    names = (
        "decision_id",
        "occurred_at",
        "policy_version",
        "effect",
        "stage",
        "code",
        "matched",
        "overruled",
    )
    told = {name: record[name] for name in names}
    decision = explanation.decision if explanation is not None else None
    agrees = None
    if decision is not None:
        then, now = ({rule["rule"] for rule in record["matched"]}, {rule.rule for rule in decision.matched})
        # Rules that may have matched by a redacted value are not claimed now.
        same = now <= then if prepared.hidden else now == then
        agrees = same and (decision.effect.value, decision.code.value) == (record["effect"], record["code"])
    return told | {
        "accesses": record["accesses"],
        "arguments": record[_ARGUMENTS],
        "profile": record["caller"]["profile"],
        "same_policy": record["policy_version"] == facts.ruleset.version,
        "agrees": agrees,
        "redacted": list(dict.fromkeys(format_pointer(one.place) for one in prepared.found.hidden)),
        "not_reevaluated": list(notes),
        "not_in_the_record": ["operation", "approvals", "counters of limits"],
    }


def _nothing(facts: Facts) -> dict[str, Any]:
    """The document of a decision that cannot be re-evaluated: its shape, and nothing in it."""
    return document(
        Explanation(
            at_ms=facts.now_ms,
            profile=facts.caller.profile.name,
            policy_version=facts.ruleset.version,
            subject_refused=None,
            decision=None,
            stages=(),
        )
    )

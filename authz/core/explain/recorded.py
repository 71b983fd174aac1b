"""A decision of the log explained: what was recorded, and what the bundle in force now makes of it.

The record's own facts are the base: its subject, canonical arguments, claims, exposure and time. What the log
holds only as a digest is never guessed: a text of the recorded length stands in for it so that the stages can
run, and whatever reads it (`explain`'s `unknown`) has no verdict. Where even that could mislead, nothing is
re-evaluated, and the explanation says why.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final

from authz.core.cases.from_record import request_of_record
from authz.core.cases.redaction import redacted_places
from authz.core.decide import find_tool
from authz.core.explain.document import document
from authz.core.explain.explain import Begun, begin, finish
from authz.core.explain.model import Explanation
from authz.core.facts import Facts
from authz.core.pointer import Tokens, find, format_pointer, leaves, matches, replace_leaf
from authz.core.requests import parse_decide
from authz.core.ruleset import Ruleset, Tool
from authz.errors import MalformedInput
from authz.model.call import Call
from authz.model.caller import Caller, Profile
from authz.model.decision import Refusal, Stage

_STAND_IN: Final = "x"
_ARGUMENTS: Final = "arguments"
# What a redacted part of a request is, where the call can still be judged without it.
_HARMLESS: Final = frozenset({"uri", "allowed_use"})


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reconstructed:
    """A request as far as the log holds it."""

    body: dict[str, Any]
    places: tuple[Tokens, ...]
    """Into `body`: where the log has a digest."""

    @property
    def arguments(self) -> tuple[Tokens, ...]:
        """Into the arguments."""
        return tuple(place[1:] for place in self.places if place[0] == _ARGUMENTS)


@dataclass(frozen=True, slots=True, kw_only=True)
class BegunRecord:
    """A recorded decision, re-evaluated as far as the log holds what it takes."""

    record: Mapping[str, Any]
    found: _Reconstructed
    facts: Facts
    begun: Begun | None
    notes: tuple[str, ...]
    """Why something is not re-evaluated."""


def explain_record(record: Mapping[str, Any], facts: Facts, *, every_rule: bool = False) -> dict[str, Any]:
    """The document of a recorded decision.

    `facts` are those of now: the bundle in force and the profile, with the time and the exposure at which to
    re-evaluate. Operation, approvals and counters of then are not in the record, so none are assumed.
    """
    return finish_record(begin_record(record, facts, every_rule=every_rule))


def begin_record(record: Mapping[str, Any], facts: Facts, *, every_rule: bool = False) -> BegunRecord:
    """The part of `explain_record` that decides: see `authz.core.explain.begin`."""
    body = request_of_record(record)
    found = _Reconstructed(body=body, places=tuple(redacted_places(body)))
    notes = _unusable(found)
    begun = None if notes else _begin(record, found, facts, notes, every_rule=every_rule)
    return BegunRecord(record=record, found=found, facts=facts, begun=begun, notes=tuple(notes))


def finish_record(begun: BegunRecord) -> dict[str, Any]:
    """The rest of `explain_record`: see `authz.core.explain.finish`."""
    notes = list(begun.notes)
    explanation = finish(begun.begun) if begun.begun is not None else None
    if explanation is not None:
        notes += _uncertainty(explanation)
    told = document(explanation) if explanation is not None else _nothing(begun.facts)
    _hide_stand_ins(told, begun)
    return told | {"recorded": _recorded(begun, explanation, notes)}


def _hide_stand_ins(told: dict[str, Any], begun: BegunRecord) -> None:
    """What was made of texts that stand in for others is not shown: the record's own words are."""
    unknown = begun.begun is not None and bool(begun.begun.unknown)
    digest = begun.record["request_digest"]
    if told["decision"] is not None:
        told["decision"]["request_digest"] = digest if isinstance(digest, str) else None
        if unknown:
            told["decision"]["fingerprint"] = None
    for stage in told["stages"]:
        if "arguments" in stage["input"]:
            stage["input"]["arguments"] = begun.record[_ARGUMENTS]
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
        approvals=(),
        # Nothing that this key makes is shown.
        secret=bytes(32),
        ttl_ms=0,
    )


def _unusable(found: _Reconstructed) -> list[str]:
    """What of the request has to be known before anything can be judged, and is not."""
    told = []
    for place in found.places:
        if place[0] == _ARGUMENTS:
            continue
        if not (place[0] == "provenance" and len(place) > 2 and place[2] in _HARMLESS):
            told.append(f"`{format_pointer(place)}` is redacted")
    return told


def _begin(
    record: Mapping[str, Any],
    found: _Reconstructed,
    facts: Facts,
    notes: list[str],
    *,
    every_rule: bool,
) -> Begun | None:
    body = dict(found.body)
    for place in found.arguments:
        values = [value for _, value in find(record[_ARGUMENTS], place)]
        length = values[0].get("length") if values and isinstance(values[0], Mapping) else None
        if not isinstance(length, int):
            notes.append(f"`{format_pointer(place)}` is redacted in part, or in its name")
            return None
        body[_ARGUMENTS] = replace_leaf(body[_ARGUMENTS], place, _STAND_IN * length)
    try:
        call = parse_decide(body)
    except MalformedInput as error:
        notes.append(f"the recorded request is no request of this version: {error.message}")
        return None
    tool = find_tool(call, facts)
    if isinstance(tool, Refusal):
        return begin(call, facts, every_rule=every_rule)
    blocking = _access_places(tool, found.arguments)
    if blocking:
        notes += [
            f"`{format_pointer(place)}` is redacted, and it says what is accessed" for place in blocking
        ]
        return None
    call = _without_defaults(call, tool, record, facts)
    unknown = frozenset(place[0] for place in found.arguments)
    begun = begin(call, facts, every_rule=every_rule, unknown=unknown)
    if unknown and begun.outcome is not None and begun.outcome.decision.stage is Stage.SCHEMA:
        notes.append("the schema cannot be checked without the redacted values")
        return None
    return begun


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


def _without_defaults(call: Call, tool: Tool, record: Mapping[str, Any], facts: Facts) -> Call:
    """The call as it was sent: the record holds its arguments with the defaults filled in.

    A default that nobody said anything about counts as the reviewed descriptor's; one that was sent counts
    as of unknown origin. Which it was shows in the roles that were untrusted then.
    """
    untrusted = set(record["provenance"].get("untrusted", ()))
    by_default = {name for name in call.arguments if _may_be_default(call, tool, name)}
    roles: dict[bool, set[str]] = {True: set(), False: set()}
    for tokens, _ in leaves(call.arguments) if call.arguments else ():
        roles[tokens[0] in by_default].add(tool.roles.role_of(tokens))
    # A role of defaults alone that was untrusted: then it was sent, and nobody said from where.
    sent = roles[True] & untrusted - roles[False]
    kept = {
        name: value
        for name, value in call.arguments.items()
        if name not in by_default or tool.roles.role_of((name,)) in sent
    }
    return replace(call, arguments=kept)


def _may_be_default(call: Call, tool: Tool, name: str) -> bool:
    schema = tool.descriptor.input_schema.get("properties", {}).get(name)
    said = any(tokens[:1] in ((), (name,)) for tokens in call.provenance)
    return (
        isinstance(schema, Mapping)
        and "default" in schema
        and schema["default"] == call.arguments[name]
        and not said
    )


def _recorded(begun: BegunRecord, explanation: Explanation | None, notes: Sequence[str]) -> dict[str, Any]:
    record, found, facts = begun.record, begun.found, begun.facts
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
        same = now <= then if found.arguments else now == then
        agrees = same and (decision.effect.value, decision.code.value) == (record["effect"], record["code"])
    return told | {
        "accesses": record["accesses"],
        "arguments": record[_ARGUMENTS],
        "profile": record["caller"]["profile"],
        "same_policy": record["policy_version"] == facts.ruleset.version,
        "agrees": agrees,
        "redacted": [format_pointer(place) for place in found.places],
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

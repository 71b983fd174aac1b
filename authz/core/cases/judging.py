"""What a case expected held against what it came to: every difference, named."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from difflib import get_close_matches
from typing import Any, Final

from authz.core.approval_use import CALLER_RULE
from authz.core.cases.case import AccessExpectation, Case, Expectation
from authz.core.cases.deciding import Answered, Refused, UnusableCase, answer
from authz.core.judge import TREE_RULE
from authz.core.ruleset import Ruleset
from authz.model.decision import AccessVerdict, Decision

_NONE: Final[frozenset[str]] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One way in which a decision is not what was expected. Values are of JSON's data model."""

    name: str
    """What differs: `effect`, `accesses/0/uri`, `record/claims/cwd`."""
    expected: Any
    got: Any
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """A case that was run."""

    case: Case
    answered: Answered | Refused | None
    """`None`: the bundle cannot decide this case, and `error` says why."""
    differences: tuple[Difference, ...] = ()
    error: str = ""

    @property
    def passed(self) -> bool:
        """Whether all was as expected."""
        return not self.differences and not self.error

    @property
    def reached(self) -> frozenset[str]:
        """Every rule that decided something in this case."""
        return self.answered.reached if isinstance(self.answered, Answered) else frozenset()


def judge(case: Case, ruleset: Ruleset, not_told: frozenset[str] = _NONE) -> Judged:
    """Run one case. Never raises for what a case says.

    Rules of `not_told` decide like all others, but a case need not name them: the loader's own, whose places
    differ from one machine to the next.
    """
    try:
        answered = answer(case, ruleset)
    except UnusableCase as error:
        return Judged(case=case, answered=None, error=error.message)
    return Judged(case=case, answered=answered, differences=differences(case.expected, answered, not_told))


def differences(
    expected: Expectation, answered: Answered | Refused, not_told: frozenset[str] = _NONE
) -> tuple[Difference, ...]:
    """How the decision is not what was expected; empty when all is. For `not_told` see `judge`."""
    if isinstance(answered, Refused):
        if expected.refused == answered.code:
            return ()
        wanted = expected.refused or expected.effect
        name = "refused" if expected.refused else "effect"
        got = answered.code if expected.refused else f"refused before a decision: {answered.code}"
        return (Difference(name=name, expected=wanted, got=got, note=answered.message),)
    decision = answered.outcome.decision
    if expected.refused is not None:
        return (Difference(name="refused", expected=expected.refused, got=f"decided: {decision.effect}"),)
    found: list[Difference] = []
    for name, read in _MEMBERS.items():
        if name in expected.stated:
            stated, found_now = getattr(expected, name), read(answered)
            if isinstance(found_now, frozenset):
                found_now -= not_told - stated
            wanted, got = _plain(stated), _plain(found_now)
            if not _same(wanted, got):
                found.append(
                    Difference(name=name, expected=wanted, got=got, note=_note(name, wanted, answered))
                )
    found += _reason(expected, decision)
    if "accesses" in expected.stated:
        found += _accesses(expected.accesses, decision, not_told)
    found += _approvals(expected, answered, not_told)
    if "record" in expected.stated:
        found += _subset("record", expected.record, answered.record())
    return tuple(found)


def _level(answered: Answered) -> str | None:
    authority = answered.outcome.decision.authority
    return authority.name if authority is not None else None


def _side_effect(answered: Answered) -> str | None:
    side_effect = answered.outcome.decision.side_effect
    return side_effect.value if side_effect is not None else None


# In the order in which differences are told.
_MEMBERS: Final[Mapping[str, Callable[[Answered], Any]]] = {
    "effect": lambda answered: answered.outcome.decision.effect.value,
    "stage": lambda answered: answered.outcome.decision.stage.value,
    "code": lambda answered: answered.outcome.decision.code.value,
    "rules": lambda answered: frozenset(rule.rule for rule in answered.outcome.decision.matched),
    "overruled": lambda answered: frozenset(rule.rule for rule in answered.outcome.decision.overruled),
    "hidden_by": lambda answered: answered.hidden_by,
    "authority": _level,
    "side_effect": _side_effect,
    "uris": lambda answered: tuple(access.resource.uri for access in answered.outcome.decision.accesses),
    "arguments": lambda answered: answered.outcome.decision.arguments,
}


def _note(name: str, wanted: Any, answered: Answered) -> str:
    """What a misspelt rule was probably meant to be."""
    return _unknown_rules(wanted, answered) if name in ("rules", "overruled", "hidden_by") else ""


def _unknown_rules(wanted: Iterable[str], answered: Answered) -> str:
    ruleset = answered.facts.ruleset
    known = {*ruleset.engine.policies, TREE_RULE.rule, CALLER_RULE.rule, *(one.id for one in ruleset.limits)}
    notes = []
    for rule in wanted:
        if rule not in known:
            close = get_close_matches(rule, known, n=1)
            meant = f", did you mean `{close[0]}`?" if close else ""
            notes.append(f"the bundle has no rule `{rule}`{meant}")
    return "; ".join(notes)


def _reason(expected: Expectation, decision: Decision) -> list[Difference]:
    reasons = [rule.reason for rule in decision.matched]
    if "reason" not in expected.stated or expected.reason in reasons:
        return []
    return [Difference(name="reason", expected=expected.reason, got=reasons)]


def _approvals(expected: Expectation, answered: Answered, not_told: frozenset[str]) -> Iterator[Difference]:
    """Who may approve the call and was not to, or the other way round; and other rules that say so."""
    said = {("may_approve", person): (True, rules) for person, rules in expected.may_approve.items()} | {
        ("may_not_approve", person): (False, rules) for person, rules in expected.may_not_approve.items()
    }
    for (name, person), (permitted, rules) in said.items():
        place = f"{name}/{person}"
        found = answered.approvals.get(person)
        wanted = "permitted" if rules is None else _plain(rules)
        if found is None:
            yield Difference(name=place, expected=wanted, got=None, note="nobody is asked")
            continue
        got = frozenset(rule.rule for rule in found.rules) - (not_told - (rules or _NONE))
        if found.permitted is not permitted or (rules is not None and rules != got):
            note = _unknown_rules(rules or (), answered) or found.because
            yield Difference(name=place, expected=wanted, got=_plain(got), note=note)


def _accesses(
    expected: Sequence[AccessExpectation], decision: Decision, not_told: frozenset[str]
) -> list[Difference]:
    verdicts: Sequence[AccessVerdict | None] = decision.verdicts or (None,) * len(decision.accesses)
    if len(expected) != len(decision.accesses):
        there = [f"{access.verb} {access.resource.uri}" for access in decision.accesses]
        return [Difference(name="accesses", expected=f"{len(expected)} accesses", got=there)]
    found: list[Difference] = []
    for index, (wanted, access, verdict) in enumerate(
        zip(expected, decision.accesses, verdicts, strict=True)
    ):
        got: dict[str, Any] = {
            "verb": access.verb.value,
            "uri": access.resource.uri,
            "scope": access.scope.value,
            "authority": access.authority.name,
            "effect": verdict.effect.value if verdict else None,
            "code": verdict.code.value if verdict else None,
            "rules": frozenset(rule.rule for rule in verdict.rules) - (not_told - (wanted.rules or _NONE))
            if verdict
            else None,
        }
        for field in fields(wanted):
            value = getattr(wanted, field.name)
            if value is not None and not _same(value, got[field.name]):
                name = f"accesses/{index}/{field.name}"
                found.append(Difference(name=name, expected=_plain(value), got=_plain(got[field.name])))
    return found


def _subset(name: str, expected: Any, got: Any) -> list[Difference]:
    """Where `got` does not hold what `expected` names: objects by their named members, the rest whole."""
    if isinstance(expected, Mapping) and isinstance(got, Mapping):
        return [
            difference
            for member, value in expected.items()
            for difference in (
                _subset(f"{name}/{member}", value, got[member])
                if member in got
                else [Difference(name=f"{name}/{member}", expected=value, got=None, note="absent")]
            )
        ]
    if isinstance(expected, list) and isinstance(got, list) and len(expected) == len(got):
        pairs = enumerate(zip(expected, got, strict=True))
        return [found for index, (a, b) in pairs for found in _subset(f"{name}/{index}", a, b)]
    return [] if _same(expected, got) else [Difference(name=name, expected=expected, got=got)]


def _same(expected: Any, got: Any) -> bool:
    """Whether two values are equal in JSON: there true is not 1, at whatever depth. 1 is 1.0."""
    if isinstance(expected, Mapping) and isinstance(got, Mapping):
        return expected.keys() == got.keys() and all(_same(expected[name], got[name]) for name in expected)
    if isinstance(expected, list) and isinstance(got, list):
        return len(expected) == len(got) and all(map(_same, expected, got))
    return bool(expected == got) and isinstance(expected, bool) == isinstance(got, bool)


def _plain(value: Any) -> Any:
    """`value` in JSON's data model, sets in order."""
    if isinstance(value, frozenset):
        return sorted(value)
    return list(value) if isinstance(value, tuple) else value

"""What a run of `authz test` looks like: to people, and as JSON."""

import json
import shlex
from collections.abc import Mapping
from typing import IO, Any, Final

from rich.console import Console
from rich.text import Text

from authz.cli.data_location import printable
from authz.cli.test_run import Run
from authz.core.cases.coverage import Coverage
from authz.core.cases.deciding import Answered
from authz.core.cases.judging import Difference, Judged
from authz.core.cases.mutation import MutationResult
from authz.core.policy.mutants import MutationKind
from authz.core.ruleset import Ruleset

_GOOD: Final = "green"
_BAD: Final = "bold red"
_DIM: Final = "dim"
_OF_RULES: Final = frozenset({"rules", "overruled", "hidden_by"})


class Printer:
    """Writes a run for people: colour on a terminal, plain text anywhere else."""

    def __init__(self, output: IO[str]) -> None:
        self._console = Console(file=output, highlight=False, markup=False, emoji=False, soft_wrap=True)

    def show(self, run: Run) -> None:
        """The failures, then what was asked for besides, then one line of counts."""
        folder = str(run.options.folder)
        for judged in run.failed:
            self._failure(judged, run.ruleset, folder)
        if run.coverage is not None:
            self._coverage(run.coverage, folder)
        if run.options.mutate is not None:
            self._mutations(run)
        if run.is_under and run.coverage is not None:
            wanted = f"{run.options.fail_under:g}"
            self._line(
                (f"covered {_percent(run.coverage)} of the rules and limits, which is under {wanted} %", _BAD)
            )
        self._counts(run)

    def _line(self, *parts: str | tuple[str, str]) -> None:
        clean = [
            printable(part) if isinstance(part, str) else (printable(part[0]), part[1]) for part in parts
        ]
        text = Text.assemble(*clean)
        text.rstrip()
        self._console.print(text, soft_wrap=True)

    def _failure(self, judged: Judged, ruleset: Ruleset, folder: str) -> None:
        case = judged.case
        self._line(("FAIL ", _BAD), (case.id, "bold"), f"  {folder}/{case.file}:{case.line}")
        if judged.error:
            self._line(f"     {judged.error}")
        for difference in judged.differences:
            self._difference(difference, ruleset, folder)
        for place in _rules_at_work(judged, folder):
            self._line(("     decided by  ", _DIM), place)
        where = "" if folder == "policies" else f"--policies {shlex.quote(folder)} "
        hint = f"authz explain {where}--test {shlex.quote(case.id)}"
        self._line(("     why:        ", _DIM), hint)
        self._line("")

    def _difference(self, difference: Difference, ruleset: Ruleset, folder: str) -> None:
        self._line(f"     {difference.name}")
        self._line(("       expected  ", _DIM), (_value(difference.expected), _GOOD))
        self._line(("       got       ", _DIM), (_value(difference.got), "red"))
        if difference.note:
            self._line(("       note      ", _DIM), difference.note)
        if difference.name in _OF_RULES:
            missing = set(difference.expected) - set(difference.got)
            for rule in sorted(missing & ruleset.engine.policies.keys()):
                match = ruleset.engine.policies[rule].match
                self._line(("       missing   ", _DIM), f"{rule}  {folder}/{match.file}:{match.line}")

    def _coverage(self, coverage: Coverage, folder: str) -> None:
        covered = sum(rule.is_covered for rule in coverage.rules)
        self._line(
            (f"rules and limits: {covered} of {len(coverage.rules)} reached ({_percent(coverage)})", "bold")
        )
        missed = [rule for rule in coverage.rules if not rule.is_covered]
        width = max((len(rule.rule) for rule in missed), default=0)
        for rule in missed:
            near = f"in scope of {_count(rule.in_scope, 'case')}" if rule.in_scope else "in scope of no case"
            place = f"{folder}/{rule.file}:{rule.line}"
            self._line(("  never  ", _BAD), f"{rule.rule:<{width}}  {near:<20}  ", (place, _DIM))
        self._line("")
        actions = sum(len(tool.actions) for tool in coverage.tools)
        reached = sum(len(tool.reached) for tool in coverage.tools)
        called = sum(bool(tool.allowed or tool.asked or tool.denied) for tool in coverage.tools)
        text = f"tools: {called} of {len(coverage.tools)} called"
        text += f", {reached} of {actions} actions (tool, verb, level) exercised"
        self._line((text, "bold"))
        gaps = {tool: [one for one in tool.actions if one not in tool.reached] for tool in coverage.tools}
        width = max((len(tool.tool) for tool, left in gaps.items() if left), default=0)
        for tool, left in gaps.items():
            if left:
                names = ", ".join(action.removeprefix(f"{tool.tool}:") for action in left)
                self._line(("  never  ", _DIM), f"{tool.tool:<{width}}  {names}")
        self._line("")

    def _mutations(self, run: Run) -> None:
        survivors = run.survivors
        noticed = len(run.mutations) - len(survivors)
        what = "changes to rules" if run.options.mutate == "conditions" else "removals of a rule"
        self._line((f"mutation: {noticed} of {len(run.mutations)} {what} noticed", "bold"))
        for result in survivors:
            self._line(("  survives  ", _BAD), _mutant(result, run))
        for result in run.mutations:
            if result.mutant.kind is MutationKind.REMOVED and result.noticed and not result.changes_effect:
                text = f"{_mutant(result, run)}: another rule is named, but no effect changes"
                self._line(("  weak      ", "yellow"), text)
        self._line("")

    def _counts(self, run: Run) -> None:
        failed = len(run.failed)
        total = len(run.results)
        seconds = sum(timed.seconds for timed in run.results)
        style = _BAD if failed else _GOOD
        self._line((f"{total - failed} of {_count(total, 'case')} passed", style), f" in {seconds:.2f} s")


def _rules_at_work(judged: Judged, folder: str) -> list[str]:
    """The rules that decided instead, with the place where each stands."""
    if not isinstance(judged.answered, Answered):
        return []
    decision = judged.answered.outcome.decision
    places = []
    for rule in decision.matched:
        place = f"{folder}/{rule.file}:{rule.line}" if rule.file else "(the service itself)"
        places.append(f"{rule.kind.value} {rule.rule}  {place}")
    known = judged.answered.facts.ruleset.engine.policies
    for name in sorted(judged.answered.hidden_by):
        match = known[name].match
        places.append(f"hidden by {name}  {folder}/{match.file}:{match.line}")
    return places or [f"{decision.code.value}: {decision.message}"]


def _mutant(result: MutationResult, run: Run) -> str:
    match = result.policy.match
    return f"{result.mutant}  {run.options.folder}/{match.file}:{match.line}"


def _value(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return ", ".join(value) or "none"
    return json.dumps(value, ensure_ascii=False, default=_as_json_value)


def _as_json_value(value: Any) -> Any:
    return dict(value) if isinstance(value, Mapping) else str(value)


def _percent(coverage: Coverage) -> str:
    # Never rounded up to 100: what is missing would not be seen.
    shown = int(coverage.percent * 10) / 10
    return f"{shown:g} %"


def _count(number: int, thing: str) -> str:
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"


def as_json(run: Run) -> dict[str, Any]:
    """The whole run as one JSON object."""
    found: dict[str, Any] = {
        "ok": run.passed,
        "policy_version": run.ruleset.version,
        "cases": len(run.results),
        "failed": len(run.failed),
        "results": [_result(timed.judged, timed.seconds) for timed in run.results],
    }
    if run.coverage is not None:
        found["coverage"] = _coverage(run.coverage)
    if run.options.mutate is not None:
        found["mutations"] = [_mutation(result) for result in run.mutations]
    # Once through text: what a decision holds as mappings of its own becomes plain JSON.
    plain: dict[str, Any] = json.loads(json.dumps(found, default=_as_json_value))
    return plain


def _result(judged: Judged, seconds: float) -> dict[str, Any]:
    case = judged.case
    found: dict[str, Any] = {
        "case": case.id,
        "file": case.file,
        "line": case.line,
        "passed": judged.passed,
        "seconds": round(seconds, 6),
    }
    if judged.error:
        found["error"] = judged.error
    if judged.differences:
        found["differences"] = [
            {"name": one.name, "expected": one.expected, "got": one.got, "note": one.note}
            for one in judged.differences
        ]
    if isinstance(judged.answered, Answered):
        found["rules"] = [
            {"rule": rule.rule, "kind": rule.kind.value, "file": rule.file, "line": rule.line}
            for rule in judged.answered.outcome.decision.matched
        ]
    return found


def _coverage(coverage: Coverage) -> dict[str, Any]:
    return {
        "percent": coverage.percent,
        "rules": [
            {
                "rule": rule.rule,
                "kind": rule.kind.value,
                "file": rule.file,
                "line": rule.line,
                "decided": rule.decided,
                "outranked": rule.outranked,
                "in_scope": rule.in_scope,
                "covered": rule.is_covered,
            }
            for rule in coverage.rules
        ],
        "tools": [
            {
                "tool": tool.tool,
                "allowed": tool.allowed,
                "asked": tool.asked,
                "denied": tool.denied,
                "actions": list(tool.actions),
                "not_exercised": [action for action in tool.actions if action not in tool.reached],
            }
            for tool in coverage.tools
        ],
    }


def _mutation(result: MutationResult) -> dict[str, Any]:
    match = result.policy.match
    return {
        "rule": result.mutant.rule,
        "change": result.mutant.kind.value,
        "clause": result.mutant.clause or None,
        "file": match.file,
        "line": match.line,
        "noticed": result.noticed,
        "changes_effect": result.changes_effect,
    }

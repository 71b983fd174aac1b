"""Findings about a bundle, printed for people (by file and line) or as one JSON document for CI."""

import sys
from collections.abc import Iterable, Sequence
from typing import Any, Final, TextIO

from rich.console import Console
from rich.table import Table
from rich.text import Text

from authz.bundle.check import Report
from authz.core.lint.allow import Accepted
from authz.core.lint.catalogue import CHARACTERS_PER_TOKEN, CatalogueCost
from authz.errors import SEVERITIES, BundleProblem

FORMAT_VERSION: Final = 1
_COLOURS: Final = {"error": "bold red", "warning": "yellow", "info": "cyan"}
_TOKENIZER: Final = f"estimate: one token for {CHARACTERS_PER_TOKEN} characters of compact JSON"
JSON_SHAPE: Final = """\
The JSON document (--json):
  version    1; a change that breaks readers raises it
  folder     the bundle, as it was named
  ok         whether nothing fails: no error, and with --strict no warning
  strict     whether --strict was given
  complete   false when parts could not be read, so that rules were not linted
  summary    {errors, warnings, infos, accepted, rules, tools}
  findings   [{severity, code, file, line, pointer, message, hint}], by file and line; `line` counts from 1
             and is null for a whole file; `pointer` is a JSON Pointer into the tool's schema, or empty
  accepted   the same with `reason`: what @lint_allow or `lint: {allow: …}` accepts
  catalogue  {turns, tokens_per_turn, tokens, tokenizer, tools: [{tool, tokens}]}"""


def as_json(report: Report, *, folder: str, strict: bool) -> dict[str, Any]:
    """The document that `JSON_SHAPE` describes."""
    return {
        "version": FORMAT_VERSION,
        "folder": folder,
        "ok": not report.fails(strict=strict),
        "strict": strict,
        "complete": report.linted,
        "summary": {
            **{f"{severity}s": report.count(severity) for severity in SEVERITIES},
            "accepted": len(report.accepted),
            "rules": report.rules,
            "tools": report.tools,
        },
        "findings": [_finding(problem) for problem in report.findings],
        "accepted": [{**_finding(one.problem), "reason": one.reason} for one in report.accepted],
        "catalogue": {
            "turns": report.cost.turns,
            "tokens_per_turn": report.cost.per_turn,
            "tokens": report.cost.total,
            "tokenizer": _TOKENIZER,
            "tools": [{"tool": name, "tokens": count} for name, count in report.cost.tokens],
        },
    }


def _finding(problem: BundleProblem) -> dict[str, Any]:
    return {
        "severity": str(problem.severity),
        "code": problem.code,
        "file": problem.file,
        "line": problem.line,
        "pointer": problem.pointer,
        "message": problem.message,
        "hint": problem.hint,
    }


class Printer:
    """Prints a report; in colour on a terminal, plain text elsewhere."""

    def __init__(self, out: TextIO | None = None) -> None:
        self._console = Console(file=out or sys.stdout, highlight=False, soft_wrap=True)

    def report(self, report: Report, *, with_infos: bool) -> None:
        """Every finding with its place, then the sum; with infos, what is accepted too."""
        shown = [one for one in report.findings if with_infos or one.severity != "info"]
        self._findings(shown)
        if with_infos and report.accepted:
            self._accepted(report.accepted)
        if not report.linted:
            self._console.print("Rules were not linted: repair the errors first, then check again.")
        self._summary(report, with_infos=with_infos)

    def cost(self, cost: CatalogueCost) -> None:
        """What the catalogue costs a model."""
        table = Table("tool", box=None, pad_edge=False)
        table.add_column("tokens each turn", justify="right")
        table.add_column(f"in {cost.turns} turns", justify="right")
        for name, count in (*cost.tokens, (f"all {len(cost.tokens)} tools", cost.per_turn)):
            table.add_row(Text(_plain(name)), f"{count:,}", f"{count * cost.turns:,}")
        self._console.print(table)
        self._console.print(f"({_TOKENIZER})")

    def _findings(self, findings: Sequence[BundleProblem]) -> None:
        for problem in findings:
            head = Text(_plain(_place(problem)), style="bold")
            head.append("  ", style="not bold")
            head.append(str(problem.severity), style=_COLOURS[problem.severity])
            head.append(f"  {_plain(problem.message)}", style="not bold")
            head.append(f"  [{problem.code}]", style="not bold dim")
            self._console.print(head)
            if problem.pointer:
                self._console.print(Text(f"    at {_plain(problem.pointer)} of its schema"))
            if problem.hint:
                self._console.print(Text(f"    {_plain(problem.hint)}", style="green"))
        if findings:
            self._console.print()

    def _accepted(self, accepted: Iterable[Accepted]) -> None:
        for one in accepted:
            problem = one.problem
            place = _plain(_place(problem))
            self._console.print(Text(f"{place}  accepted  {_plain(problem.message)}  [{problem.code}]"))
            self._console.print(Text(f"    because {_plain(one.reason)}", style="dim"))
        self._console.print()

    def _summary(self, report: Report, *, with_infos: bool) -> None:
        counts = ", ".join(
            _counted(report.count(severity), severity)
            for severity in SEVERITIES
            if severity != "info" or report.count(severity)
        )
        if report.accepted:
            counts += f", {len(report.accepted)} accepted"
        hidden = not with_infos and (report.accepted or report.count("info"))
        self._console.print(
            f"{_counted(report.rules, 'rule')}, {_counted(report.tools, 'tool')}: {counts}"
            f"{' (shown with --info)' if hidden else ''}"
        )


def _place(problem: BundleProblem) -> str:
    return problem.file if problem.line is None else f"{problem.file}:{problem.line}"


def _counted(number: int, word: str) -> str:
    return f"{number} {word}" + ("" if number == 1 else "s")


def _plain(text: str) -> str:
    """`text` without what a terminal would obey: a literal in a rule can hold any character."""
    return "".join(char if char.isprintable() else f"\\u{{{ord(char):x}}}" for char in text)

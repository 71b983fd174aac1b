"""Findings that somebody has looked at and accepts, with the reason, where the finding is.

A rule says `@lint_allow("rule.unasked: the bank asks itself")`, several with `;` between them; a tool says
`lint: {allow: [{code: tool.no-settlement, reason: …}]}`. What is accepted is still told, apart from the
rest; an acceptance that nothing needs is a finding itself, so that none outlives its cause. An error is
never accepted: it keeps the bundle from loading.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Final

from authz.core.lint.table import Finding, Severity
from authz.core.policy.outline import Outline
from authz.errors import BundleProblem

ANNOTATION: Final = "lint_allow"
UNUSED: Final = "lint.unused-allow"
NO_REASON: Final = "lint.allow-without-reason"
UNKNOWN_CODE: Final = "lint.unknown-code"


@dataclass(frozen=True, slots=True, kw_only=True)
class Allowance:
    """One accepted kind of finding about one rule or tool."""

    subject: str
    code: str
    reason: str
    file: str
    line: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Accepted:
    """A finding that is accepted, and why."""

    problem: BundleProblem
    reason: str


def allowed_by_rule(outline: Outline) -> Iterator[Allowance]:
    """What the `@lint_allow` of a rule accepts."""
    text = outline.annotations.get(ANNOTATION, "")
    for part in filter(None, (part.strip() for part in text.split(";"))):
        code, _, reason = part.partition(":")
        yield Allowance(
            subject=outline.id,
            code=code.strip(),
            reason=reason.strip(),
            file=outline.match.file or "",
            line=outline.match.line,
        )


def settle(
    findings: Iterable[Finding], allowances: Sequence[Allowance], codes: frozenset[str]
) -> tuple[list[BundleProblem], list[Accepted]]:
    """(what stands, what is accepted), each in the order found; `codes` are all that there are."""
    usable = {(allowed.subject, allowed.code): allowed for allowed in allowances if allowed.reason}
    used: set[tuple[str, str]] = set()
    standing: list[BundleProblem] = []
    accepted: list[Accepted] = []
    for finding in findings:
        key = (finding.subject, finding.problem.code)
        if key in usable and finding.problem.severity != Severity.ERROR:
            used.add(key)
            accepted.append(Accepted(problem=finding.problem, reason=usable[key].reason))
        else:
            standing.append(finding.problem)
    standing += [problem for allowed in allowances for problem in _doubts(allowed, used=used, codes=codes)]
    return standing, accepted


def _doubts(
    allowed: Allowance, *, used: set[tuple[str, str]], codes: frozenset[str]
) -> Iterator[BundleProblem]:
    def doubt(code: str, message: str, hint: str) -> BundleProblem:
        return BundleProblem(
            f"`{allowed.subject}`: {message}",
            file=allowed.file,
            line=allowed.line,
            hint=hint,
            code=code,
            severity=Severity.WARNING,
        )

    if allowed.code not in codes:
        close = get_close_matches(allowed.code, sorted(codes), n=1)
        hint = f"did you mean `{close[0]}`?" if close else "`authz check --help` lists the codes"
        yield doubt(UNKNOWN_CODE, f"it accepts `{allowed.code}`, which is no code", hint)
    elif not allowed.reason:
        yield doubt(NO_REASON, f"it accepts `{allowed.code}` without a reason", "write why: `code: reason`")
    elif (allowed.subject, allowed.code) not in used:
        yield doubt(UNUSED, f"it accepts `{allowed.code}`, which is not found", "delete what it accepts")

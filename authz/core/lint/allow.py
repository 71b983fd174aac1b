"""Findings that somebody has looked at and accepts, with the reason, where the finding is.

A rule says `@lint_allow("rule.unasked: the bank asks itself")`, several with `;` between them; a tool says
`lint: {allow: [{code: tool.no-settlement, reason: …}]}`. A rule that has several findings of one code names
the one that is accepted, `@lint_allow("rule.undeclared ada: she joins in May")`. What is accepted is still
told, apart from the rest; an acceptance that nothing needs is a finding itself, so that none outlives its
cause. An error is never accepted: it keeps the bundle from loading.
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
COVERS_SEVERAL: Final = "lint.allow-covers-several"


@dataclass(frozen=True, slots=True, kw_only=True)
class Allowance:
    """One accepted kind of finding about one rule or tool."""

    subject: str
    code: str
    reason: str
    file: str
    line: int | None
    value: str = ""
    """Only a finding whose message names this is accepted; empty for every one of the code."""
    is_for_one: bool = False
    """Whether a second finding that it covers is one that nobody may have looked at."""

    def covers(self, finding: Finding) -> bool:
        """Whether it accepts this finding. An error is never accepted."""
        problem = finding.problem
        return (
            bool(self.reason)
            and (self.subject, self.code) == (finding.subject, problem.code)
            and problem.severity != Severity.ERROR
            and (not self.value or any(f"{q}{self.value}{q}" in problem.message for q in '`"'))
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Accepted:
    """A finding that is accepted, and why."""

    problem: BundleProblem
    reason: str


def allowed_by_rule(outline: Outline) -> Iterator[Allowance]:
    """What the `@lint_allow` of a rule accepts."""
    text = outline.annotations.get(ANNOTATION, "")
    for part in filter(None, (part.strip() for part in text.split(";"))):
        named, _, reason = part.partition(":")
        code, _, value = named.strip().partition(" ")
        yield Allowance(
            subject=outline.id,
            code=code,
            reason=reason.strip(),
            file=outline.match.file or "",
            line=outline.match.line,
            value=value.strip(),
            is_for_one=True,
        )


def settle(
    findings: Iterable[Finding], allowances: Sequence[Allowance], codes: frozenset[str]
) -> tuple[list[BundleProblem], list[Accepted]]:
    """(what stands, what is accepted), each in the order found; `codes` are all that there are."""
    by_key: dict[tuple[str, str], list[int]] = {}
    for number, allowed in enumerate(allowances):
        by_key.setdefault((allowed.subject, allowed.code), []).append(number)
    covered = [0] * len(allowances)
    standing: list[BundleProblem] = []
    accepted: list[Accepted] = []
    for finding in findings:
        own = by_key.get((finding.subject, finding.problem.code), ())
        covering = [number for number in own if allowances[number].covers(finding)]
        if not covering:
            standing.append(finding.problem)
        else:
            covered[covering[0]] += 1
            accepted.append(Accepted(problem=finding.problem, reason=allowances[covering[0]].reason))
    for allowed, count in zip(allowances, covered, strict=True):
        standing += _doubts(allowed, count=count, codes=codes)
    return standing, accepted


def _doubts(allowed: Allowance, *, count: int, codes: frozenset[str]) -> Iterator[BundleProblem]:
    """What is wrong with an acceptance that covers so many findings."""

    def doubt(code: str, message: str, hint: str) -> BundleProblem:
        return BundleProblem(
            f"`{allowed.subject}`: {message}",
            file=allowed.file,
            line=allowed.line,
            hint=hint,
            code=code,
            severity=Severity.WARNING,
        )

    named = f"{allowed.code} {allowed.value}".strip()
    if allowed.code not in codes:
        close = get_close_matches(allowed.code, sorted(codes), n=1)
        hint = f"did you mean `{close[0]}`?" if close else "`authz check --help` lists the codes"
        yield doubt(UNKNOWN_CODE, f"it accepts `{allowed.code}`, which is no code", hint)
    elif not allowed.reason:
        yield doubt(NO_REASON, f"it accepts `{allowed.code}` without a reason", "write why: `code: reason`")
    elif not count:
        yield doubt(UNUSED, f"it accepts `{named}`, which is not found", "delete what it accepts")
    elif count > 1 and allowed.is_for_one:
        yield doubt(
            COVERS_SEVERAL,
            f"it accepts `{named}` once, and there are {count}",
            f"name the one that was looked at: `{allowed.code} NAME: reason`",
        )

"""The shape of every lint: a row of a table, and the findings that its function yields."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Generic, TypeVar

from authz.errors import BundleProblem

Facts = TypeVar("Facts")


class Severity(StrEnum):
    """How grave a finding is: what `BundleProblem.severity` says."""

    ERROR = "error"
    WARNING = "warning"
    INFO = "info"


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """One place where something is found."""

    subject: str
    """What the finding is about, for `lint_allow`: the id of a rule, or `server/tool`."""
    message: str
    file: str
    line: int | None
    hint: str = ""
    pointer: str = ""
    """JSON Pointer into the schema of a tool, where that says more than the line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lint(Generic[Facts]):
    """One kind of finding."""

    code: str
    """Stable, dotted: what CI filters by and `lint_allow` names."""
    severity: Severity
    says: str
    """What a finding of this kind means, in one line."""
    find: Callable[[Facts], Iterator[Hit]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A problem, and the rule or tool that may be allowed to have it."""

    problem: BundleProblem
    subject: str


def run(lints: Iterable[Lint[Facts]], facts: Facts) -> list[Finding]:
    """Everything that these lints find, table row by table row."""
    return [
        Finding(
            problem=BundleProblem(
                hit.message,
                file=hit.file,
                line=hit.line,
                hint=hit.hint,
                code=lint.code,
                severity=lint.severity,
                pointer=hit.pointer,
            ),
            subject=hit.subject,
        )
        for lint in lints
        for hit in lint.find(facts)
    ]

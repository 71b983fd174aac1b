"""One run of `authz test`: load, decide every case, and look at what that proves."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final

from authz.bundle.cases import read_cases
from authz.bundle.load import read_sources
from authz.bundle.self_protection import SELF_RULE
from authz.cli.served_bundle import compile_as_served
from authz.core.cases.case import Case
from authz.core.cases.coverage import Coverage, cover
from authz.core.cases.judging import Judged, judge
from authz.core.cases.mutation import MutationResult, mutate
from authz.core.ruleset import Ruleset
from authz.errors import BundleError, BundleProblem, NotFound

NOT_OURS: Final = frozenset({SELF_RULE})
"""The loader's own rule: it decides as in the service, but no case has to name it, nor to cover it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What was asked for."""

    folder: Path
    pattern: str | None = None
    coverage: bool = False
    fail_under: float | None = None
    """Percent of rules."""
    mutate: str | None = None
    """`rules` or `conditions`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Timed:
    """A case that was run, and how long that took."""

    judged: Judged
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """Everything that one run found."""

    options: Options
    ruleset: Ruleset
    results: tuple[Timed, ...]
    coverage: Coverage | None
    mutations: tuple[MutationResult, ...]

    @property
    def failed(self) -> tuple[Judged, ...]:
        """The cases that did not get what they expect."""
        return tuple(timed.judged for timed in self.results if not timed.judged.passed)

    @property
    def survivors(self) -> tuple[MutationResult, ...]:
        """Changes to the rules that no case notices."""
        return tuple(result for result in self.mutations if not result.noticed)

    @property
    def is_under(self) -> bool:
        """Whether fewer rules are covered than was asked for."""
        wanted = self.options.fail_under
        return wanted is not None and self.coverage is not None and self.coverage.percent < wanted

    @property
    def passed(self) -> bool:
        """Whether nothing is to be complained of."""
        return not self.failed and not self.survivors and not self.is_under


def load_cases(folder: Path) -> tuple[Ruleset, tuple[Case, ...]]:
    """A bundle as the service would decide by it, and its cases. Raises `BundleError` and `ConfigError`."""
    sources = read_sources(folder)
    ruleset = compile_as_served(sources, folder)
    problems: list[BundleProblem] = []
    cases = read_cases(sources.files, problems)
    if problems:
        raise BundleError(tuple(problems))
    return ruleset, cases


def run_cases(options: Options) -> Run:
    """Run the cases of a bundle. Raises `BundleError`, and `NotFound` when there are none to run."""
    ruleset, cases = load_cases(options.folder)
    if not cases:
        raise NotFound(f"`{options.folder}` has no cases; write them in tests/*.yaml")
    if options.pattern is not None:
        cases = tuple(case for case in cases if matches(case, options.pattern))
        if not cases:
            raise NotFound(f"no case has `{options.pattern}` in its name, file or rules")
    results = tuple(_timed(case, ruleset) for case in cases)
    judged = [timed.judged for timed in results]
    return Run(
        options=options,
        ruleset=ruleset,
        results=results,
        coverage=cover(judged, ruleset, NOT_OURS) if options.coverage else None,
        mutations=_mutations(options, judged, ruleset),
    )


def _timed(case: Case, ruleset: Ruleset) -> Timed:
    started = time.perf_counter()
    judged = judge(case, ruleset, NOT_OURS)
    return Timed(judged=judged, seconds=time.perf_counter() - started)


def _mutations(options: Options, judged: Sequence[Judged], ruleset: Ruleset) -> tuple[MutationResult, ...]:
    if options.mutate is None:
        return ()
    return tuple(mutate(judged, ruleset, NOT_OURS, conditions=options.mutate == "conditions"))


def matches(case: Case, pattern: str) -> bool:
    """Whether the pattern is in the case's id, file, or a rule that it expects; letter case is ignored."""
    texts = [case.id, case.name, case.file, *case.expected.reaches]
    wanted = pattern.casefold()
    if any(mark in wanted for mark in "*?"):
        # Brackets stand for themselves: the names of a table's rows have them.
        wanted = wanted.replace("[", "[[]")
        return any(fnmatchcase(text.casefold(), wanted) for text in texts)
    return any(wanted in text.casefold() for text in texts)

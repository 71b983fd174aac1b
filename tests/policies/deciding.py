"""The shipped bundle and its cases, and how its tests decide a request of their own."""

from functools import cache
from pathlib import Path
from typing import Final

from authz.bundle.load import compile_bundle, read_sources
from authz.bundle.self_protection import Protected
from authz.cli.test_run import load_cases
from authz.core.cases.case import Case, Expectation, Given
from authz.core.cases.deciding import facts_of
from authz.core.facts import Facts
from authz.core.ruleset import Ruleset

POLICIES: Final = Path(__file__).parents[2] / "policies"


@cache
def sample_ruleset() -> Ruleset:
    """The shipped bundle, compiled once."""
    return compile_bundle(read_sources(POLICIES), Protected())


@cache
def sample_cases() -> tuple[Case, ...]:
    """Every case of the shipped bundle."""
    return load_cases(POLICIES)[1]


@cache
def sample_calls() -> tuple[Case, ...]:
    """Those that are about a call; the others ask for a capability."""
    return tuple(case for case in sample_cases() if case.is_call)


def facts_for(ruleset: Ruleset, profile: str, exposed: frozenset[str] = frozenset()) -> Facts:
    """Facts of a first call: no operation, no approvals."""
    given = Given(profile=profile, exposed=exposed)
    case = Case(file="tests/x.yaml", line=1, name="x", body={}, given=given, expected=Expectation())
    return facts_of(case, ruleset)

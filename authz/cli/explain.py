"""`authz explain`: why a call is decided as it is, stage by stage and rule by rule."""

import argparse
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from rich.console import Console

from authz.app import SystemClock
from authz.bundle.cases import read_cases
from authz.bundle.load import read_sources
from authz.cli.bundle_location import add_bundle_argument, bundle_folder
from authz.cli.decision_source import add_source_arguments, source_of
from authz.cli.explain_view import show
from authz.cli.json_output import JSON_HELP, add_json_argument, print_json
from authz.cli.served_bundle import compile_as_served
from authz.core.cases.case import Case, find_case
from authz.core.cases.deciding import call_of, facts_of
from authz.core.explain import explain
from authz.core.explain.document import document
from authz.core.explain.recorded import explain_record, facts_of_record
from authz.core.facts import Facts
from authz.core.requests import parse_decide
from authz.core.ruleset import Ruleset
from authz.core.strict_json import loads
from authz.errors import AuthzError, BundleError, BundleProblem, MalformedInput, NotFound
from authz.model.call import Call
from authz.model.caller import Caller

HELP = "explain why a call is decided as it is: every stage, every rule that matched or nearly did"

DEFAULT_PROFILE: Final = "runtime"
MAX_ALIKE: Final = 5
EPILOG: Final = (
    "Exit code: 0 whatever the effect, 2 when nothing could be explained. What --json prints has the "
    "shape of the answer of `POST /explain`, as `authz openapi` documents it."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Options:
    """What the command was asked besides the call."""

    bundle: Path
    profile: str | None
    at_ms: int | None
    exposed: frozenset[str]
    every_rule: bool


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.epilog = EPILOG
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument(
        "request", nargs="?", metavar="REQUEST", help="a body of POST /decide in a file; - is standard input"
    )
    what.add_argument("--decision", metavar="ID", help="a decision of the log")
    what.add_argument("--test", metavar="FILE:NAME", help="a case, as `authz test` names it")
    add_bundle_argument(parser)
    parser.add_argument("--profile", metavar="NAME", help="credential profile of the caller")
    parser.add_argument("--at", metavar="TIME", help="decide as at this time (RFC 3339, with an offset)")
    parser.add_argument(
        "--exposed", action="append", default=[], metavar="LABEL", help="a label the session was exposed to"
    )
    parser.add_argument("--all-rules", action="store_true", help="every rule, however far off")
    add_json_argument(parser, help=f"{JSON_HELP}: the whole explanation")
    add_source_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Print the explanation."""
    options = _Options(
        bundle=bundle_folder(args),
        profile=args.profile,
        at_ms=_moment_ms(args.at) if args.at is not None else None,
        exposed=frozenset(args.exposed),
        every_rule=args.all_rules,
    )
    told = _explained(args, options)
    if args.json:
        print_json(told)
    else:
        show(told, Console(highlight=False, markup=False, emoji=False))
    return 0


def _explained(args: argparse.Namespace, options: _Options) -> dict[str, Any]:
    sources = read_sources(options.bundle)
    ruleset = compile_as_served(sources, options.bundle)
    if args.decision is not None:
        record = source_of(args).find(args.tenant, args.decision)
        if options.profile is not None:
            _caller(ruleset, options.profile)
        facts = facts_of_record(
            record, ruleset, profile=options.profile, at_ms=options.at_ms, exposed=options.exposed
        )
        return explain_record(record, facts, every_rule=options.every_rule)
    if args.test is not None:
        call, facts = _case(args.test, sources.files, ruleset, options)
    else:
        call = parse_decide(loads(_read(args.request)))
        facts = _facts(ruleset, options)
    return document(explain(call, facts, every_rule=options.every_rule))


def _case(name: str, files: Mapping[str, bytes], ruleset: Ruleset, options: _Options) -> tuple[Call, Facts]:
    problems: list[BundleProblem] = []
    cases = read_cases(files, problems)
    if problems:
        raise BundleError(tuple(problems))
    file, mark, wanted = name.partition("::")
    if mark:
        stem = file.rpartition("/")[2].removesuffix(".yaml")
        cases = tuple(case for case in cases if case.id.partition(":")[0] == stem)
    case = find_case(cases, wanted if mark else name)
    if case is None:
        raise NotFound(_no_such_case(name, wanted, cases))
    facts = facts_of(case, ruleset)
    changes: dict[str, Any] = {}
    if options.profile is not None:
        changes["caller"] = _caller(ruleset, options.profile)
    if options.at_ms is not None:
        changes["now_ms"] = options.at_ms
    if options.exposed:
        changes["exposed"] = facts.exposed | options.exposed
    return call_of(case, ruleset), replace(facts, **changes)


def _no_such_case(name: str, wanted: str, cases: Sequence[Case]) -> str:
    # A table may be named, but not which of its rows; or a word of the name.
    alike = [case.id for case in cases if case.id.startswith(name)]
    alike = alike or [case.id for case in cases if (wanted or name).rpartition(":")[2] in case.name]
    hint = f"; there are {', '.join(f'`{found}`' for found in alike[:MAX_ALIKE])}" if alike else ""
    return f"no test is named `{name}`{hint or '; `authz test --json` lists them'}"


def _facts(ruleset: Ruleset, options: _Options) -> Facts:
    """Facts of a first call: operations, approvals and counters of limits are a running service's to know."""
    return Facts(
        caller=_caller(ruleset, options.profile or _default_profile(ruleset)),
        ruleset=ruleset,
        now_ms=options.at_ms if options.at_ms is not None else SystemClock().now_ms(),
        decision_id="explained",
        operation=None,
        exposed=options.exposed,
        # Nothing that this key makes is shown.
        secret=bytes(32),
        ttl_ms=300_000,
    )


def _default_profile(ruleset: Ruleset) -> str:
    if len(ruleset.profiles) == 1:
        return next(iter(ruleset.profiles))
    return DEFAULT_PROFILE


def _caller(ruleset: Ruleset, name: str) -> Caller:
    profile = ruleset.profiles.get(name)
    if profile is None:
        known = ", ".join(sorted(ruleset.profiles))
        raise NotFound(f"the bundle has no credential profile `{name}`; send one of {known} as --profile")
    return Caller(key_id="explained", tenant="default", roles=frozenset({"decide"}), profile=profile)


def _read(place: str) -> bytes:
    if place == "-":
        return sys.stdin.buffer.read()
    try:
        return Path(place).read_bytes()
    except OSError as error:
        raise MalformedInput(
            f"the request `{place}` cannot be read: {error.strerror}", code="input.unreadable"
        ) from None


def _moment_ms(text: str) -> int:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None:
        raise AuthzError("`--at` takes RFC 3339 with an offset: 2026-11-30T10:00:00Z")
    return int(moment.timestamp() * 1000)

"""`authz test`: run the cases of a bundle (spec section 6)."""

import argparse
import sys
from pathlib import Path

from authz.cli.bundle_location import add_bundle_argument, bundle_folder
from authz.cli.data_location import CANNOT
from authz.cli.json_output import add_json_argument, print_json
from authz.cli.test_junit import write_junit
from authz.cli.test_report import Printer, as_json
from authz.cli.test_run import Options, Run, run_cases
from authz.cli.test_watch import watch
from authz.errors import AuthzError, BundleError, ConfigError

HELP = "run the cases of a bundle, and say which rules and tools they reach"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of this command."""
    parser.description = (
        "Loads the bundle and decides every case in its tests/*.yaml as the service would, in memory. "
        "Exit code: 0 all as expected, 1 a case failed or what was asked of the coverage is not met, "
        "2 the bundle or a case file cannot be read, or no case was run."
    )
    add_bundle_argument(parser)
    parser.add_argument(
        "--filter",
        metavar="PATTERN",
        help="only cases whose name, file or expected rule holds it; `*` and `?` as in file names",
    )
    parser.add_argument("--junit", type=Path, metavar="FILE", help="write the results as JUnit XML too")
    add_json_argument(parser)
    parser.add_argument("--watch", action="store_true", help="run again at every change, until Ctrl-C")
    parser.add_argument(
        "--coverage",
        action="store_true",
        help="say which rules, tools and actions no case reaches; --json counts all of them",
    )
    parser.add_argument(
        "--fail-under",
        type=_percent,
        metavar="PERCENT",
        help="fail when fewer rules are reached; implies --coverage",
    )
    mutate = parser.add_mutually_exclusive_group()
    mutate.add_argument(
        "--mutate",
        action="store_const",
        const="rules",
        help="remove each rule in turn, and fail when no case notices",
    )
    mutate.add_argument(
        "--mutate-conditions",
        dest="mutate",
        action="store_const",
        const="conditions",
        help="besides, leave out and turn round each `when` and `unless`",
    )


def _percent(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1
    if not 0 <= value <= 100:
        raise argparse.ArgumentTypeError(f"`{text}` is no percentage from 0 to 100")
    return value


def run(args: argparse.Namespace) -> int:
    """Run the cases once, or until Ctrl-C."""
    options = Options(
        folder=bundle_folder(args),
        pattern=args.filter,
        coverage=args.coverage or args.fail_under is not None,
        fail_under=args.fail_under,
        mutate=args.mutate,
    )
    if options.pattern is not None and (options.fail_under is not None or options.mutate is not None):
        raise ConfigError("`--fail-under` and `--mutate` are about all cases; leave `--filter` out")
    if not args.watch:
        return _once(options, args)

    def again() -> int:
        # A bundle that is broken for the moment ends nothing: the next change may mend it.
        try:
            return _once(options, args)
        except BundleError as error:
            for problem in error.problems:
                print(f"authz: {problem}", file=sys.stderr)
        except AuthzError as error:
            print(f"authz: {error.message}", file=sys.stderr)
        return CANNOT

    return watch(options.folder, again, say=_say if not args.json else _say_aside)


def _once(options: Options, args: argparse.Namespace) -> int:
    found = run_cases(options)
    if args.junit is not None:
        write_junit(args.junit, found)
    if args.json:
        print_json(as_json(found))
    else:
        Printer(sys.stdout).show(found)
    sys.stdout.flush()
    return _exit_code(found)


def _exit_code(found: Run) -> int:
    return 0 if found.passed else 1


def _say(text: str) -> None:
    print(text, flush=True)


def _say_aside(text: str) -> None:
    print(text, file=sys.stderr, flush=True)

"""`authz tools lint`: what the descriptors of a bundle's tools leave open (spec section 3)."""

import argparse

from authz.bundle.check import DEFAULT_TURNS, TOOL_LINTS, lint_tools
from authz.cli.bundle_location import add_bundle_argument, bundle_folder
from authz.cli.findings import JSON_SHAPE, Printer, as_json
from authz.cli.json_output import add_json_argument, print_json

HELP = "lint the descriptors of tools, and say what their catalogue costs a model"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of this command."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.description = (
        "Tells what the descriptors in tools/*.yaml leave open, and what it costs to show them to a model.\n"
        "Exit code: 0 nothing fails, 1 an error (with --strict: or a warning), 2 the folder cannot be read."
    )
    add_bundle_argument(parser)
    parser.add_argument("--strict", action="store_true", help="warnings fail too")
    add_json_argument(parser)
    parser.add_argument(
        "--info", action="store_true", help="show infos and accepted findings too (JSON has them)"
    )
    parser.add_argument(
        "--turns",
        type=_turns,
        default=DEFAULT_TURNS,
        metavar="N",
        help=f"turns of a session, each of which shows every tool; default: {DEFAULT_TURNS}",
    )
    width = max(len(lint.code) for lint in TOOL_LINTS)
    codes = "\n".join(f"  {lint.code:{width}}  {lint.says}" for lint in TOOL_LINTS)
    parser.epilog = (
        f"{JSON_SHAPE}\n\nWhat is meant as it is can be accepted in the tool's entry:\n"
        f"`lint: {{allow: [{{code: …, reason: …}}]}}`.\n\nCodes:\n{codes}"
    )


def _turns(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= 100_000:
        raise argparse.ArgumentTypeError("expected a number from 1 to 100000")
    return int(text)


def run(args: argparse.Namespace) -> int:
    """Lint and print; 1 when something fails."""
    folder = bundle_folder(args)
    report = lint_tools(folder, turns=args.turns)
    if args.json:
        print_json(as_json(report, folder=str(folder), strict=args.strict))
    else:
        printer = Printer()
        printer.report(report, with_infos=args.info)
        printer.cost(report.cost)
    return int(report.fails(strict=args.strict))

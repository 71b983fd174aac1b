"""`authz check`: everything a bundle can be told before it bites (spec section 6)."""

import argparse

from authz.bundle.check import CODES, check_folder
from authz.cli.bundle_location import add_bundle_argument, bundle_folder
from authz.cli.findings import JSON_SHAPE, Printer, as_json
from authz.cli.json_output import add_json_argument, print_json

HELP = "check a bundle: what keeps it from loading, and what is surely not meant"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of this command."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.description = (
        "Tells everything that is wrong with a bundle, at once. An error keeps it from loading; a warning\n"
        "loads, but is surely not what was meant; an info is for reading.\n"
        "Exit code: 0 nothing fails, 1 an error (with --strict: or a warning), 2 the folder cannot be read."
    )
    add_bundle_argument(parser)
    parser.add_argument("--strict", action="store_true", help="warnings fail too")
    add_json_argument(parser)
    parser.add_argument(
        "--info", action="store_true", help="show infos and accepted findings too (JSON has them)"
    )
    parser.add_argument(
        "--no-lint", action="store_true", help="without the lint of tools: `authz tools lint`"
    )
    width = max(map(len, CODES))
    codes = "\n".join(f"  {code:{width}}  {says}" for code, says in sorted(CODES.items()))
    parser.epilog = (
        f"{JSON_SHAPE}\n\nWhat is meant as it is can be accepted, with the reason: a rule says\n"
        '@lint_allow("code: reason"), a tool `lint: {allow: [{code: …, reason: …}]}`.\n\n'
        f"Codes of warnings and infos (those of errors are what `authz serve` refuses):\n{codes}"
    )


def run(args: argparse.Namespace) -> int:
    """Check and print; 1 when something fails."""
    folder = bundle_folder(args)
    report = check_folder(folder, with_tools=not args.no_lint)
    if args.json:
        print_json(as_json(report, folder=str(folder), strict=args.strict))
    else:
        Printer().report(report, with_infos=args.info)
    return int(report.fails(strict=args.strict))

"""`authz check`: everything a bundle can be told before it bites (spec section 6)."""

import argparse
import sys
from pathlib import Path

from authz.bundle.check import CODES, check_folder
from authz.cli.findings import JSON_SHAPE, Printer, as_json

HELP = "check a bundle: what keeps it from loading, and what is surely not meant"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of this command."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.description = (
        "Tells everything that is wrong with a bundle, at once. An error keeps it from loading; a warning\n"
        "loads, but is surely not what was meant; an info is for reading.\n"
        "Exit code: 0 nothing fails, 1 an error (with --strict: or a warning), 2 the folder cannot be read."
    )
    parser.add_argument(
        "folder", nargs="?", type=Path, default=Path("policies"), help="the bundle; default: policies"
    )
    parser.add_argument("--strict", action="store_true", help="warnings fail too")
    parser.add_argument("--json", action="store_true", help="print one JSON document instead of text")
    parser.add_argument("--info", action="store_true", help="show infos too (JSON always has them)")
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
    report = check_folder(args.folder, with_tools=not args.no_lint)
    if args.json:
        sys.stdout.write(as_json(report, folder=str(args.folder), strict=args.strict) + "\n")
    else:
        Printer().report(report, with_infos=args.info)
    return int(report.fails(strict=args.strict))

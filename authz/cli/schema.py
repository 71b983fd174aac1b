"""`authz schema`: print the Cedar schema that a bundle's tools generate."""

import argparse
import sys

from authz.bundle.load import SCHEMA_FILE, load_bundle
from authz.bundle.self_protection import Protected
from authz.cli.bundle_location import add_bundle_argument, bundle_folder

HELP = "print the Cedar schema that a bundle generates, for editors and Cedar's own tools"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add_bundle_argument(parser)
    parser.add_argument(
        "--write", action="store_true", help=f"write it to {SCHEMA_FILE} of the bundle instead"
    )


def run(args: argparse.Namespace) -> int:
    """Print or write the schema."""
    folder = bundle_folder(args)
    text = load_bundle(folder, Protected()).schema_text
    if args.write:
        # Written only once the bundle has loaded: a redirection would have emptied the file before.
        (folder / SCHEMA_FILE).write_text(text, encoding="utf-8")
    else:
        sys.stdout.write(text)
    return 0

"""`authz schema`: print the Cedar schema that a bundle's tools generate."""

import argparse
import sys
from pathlib import Path

from authz.bundle.load import load_bundle
from authz.bundle.self_protection import Protected

HELP = "print the Cedar schema that a bundle generates, for editors and Cedar's own tools"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("folder", nargs="?", type=Path, default=Path("policies"), help="default ./policies")


def run(args: argparse.Namespace) -> int:
    """Print the schema."""
    sys.stdout.write(load_bundle(args.folder, Protected()).schema_text)
    return 0

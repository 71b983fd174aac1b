"""What every `--json` prints: one document on one line, escaped so that no terminal obeys what it holds."""

import argparse
import json
import sys
from typing import Any, Final

JSON_HELP: Final = "print JSON instead of text, one document on one line"


def add_json_argument(parser: argparse._ActionsContainer, *, help: str = JSON_HELP) -> None:  # noqa: A002
    """Declare `--json`."""
    parser.add_argument("--json", action="store_true", help=help)


def print_json(document: Any) -> None:
    """One document, one line."""
    sys.stdout.write(json.dumps(document) + "\n")

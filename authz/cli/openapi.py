"""`authz openapi`: print the OpenAPI document of the HTTP API."""

import argparse
import sys

import orjson

from authz.api.document import openapi_document

HELP = "print the OpenAPI document of the HTTP API"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """There are no options."""


def run(args: argparse.Namespace) -> int:
    """Print the document, the same bytes every time."""
    text = orjson.dumps(openapi_document(), option=orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS).decode()
    sys.stdout.write(text + "\n")
    return 0

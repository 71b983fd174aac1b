"""`authz approvals receipts`: what proves every yes (`GET /approvals/{id}/receipts`)."""

import argparse
import re
from typing import Any, Final

from authz.cli.approvals_service import (
    AnswerRefused,
    add_service_arguments,
    approval_path,
    refused,
    service_of,
)
from authz.cli.json_output import add_json_argument, print_json
from authz.errors import NotFound, StoreUnavailable

HELP = "print the signed receipts of an approval, for `verify`"
_JWS: Final = re.compile(r"[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+){2}")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of this command."""
    parser.description = (
        "One line for each yes, in their order; `authz approvals verify -` takes them. For people who may "
        "answer the request, and people with the role `audit`. Keep them like the call itself: of a secret "
        "in it they tell a digest. Exit code: 0 printed, 1 they are not yours to see, 2 there are none."
    )
    parser.add_argument("approval", metavar="ID")
    add_service_arguments(parser)
    add_json_argument(parser)


def run(args: argparse.Namespace) -> int:
    """Fetch and print."""
    try:
        answer = service_of(args).ask("GET", f"{approval_path(args.approval)}/receipts")
    except AnswerRefused as error:
        return refused(args, error)
    receipts = _tokens(answer)
    if not receipts:
        raise NotFound(f"nobody said yes to `{args.approval}`, so there is no receipt")
    if args.json:
        print_json(answer)
    else:
        print("\n".join(receipts))
    return 0


def _tokens(answer: Any) -> list[str]:
    """Of an answer; nothing that is no receipt reaches a terminal. Raises `StoreUnavailable` for others."""
    try:
        tokens = [one["receipt"] for one in answer["receipts"]]
    except (LookupError, TypeError):
        tokens = [""]
    if not all(isinstance(token, str) and _JWS.fullmatch(token) for token in tokens):
        raise StoreUnavailable("the service answered with something else than receipts")
    return tokens

"""`authz approvals wait`: until somebody answers (`GET /approvals/{id}?wait=…`)."""

import argparse
import time
from typing import Final

from authz.cli.approvals_service import (
    AnswerRefused,
    Service,
    add_service_arguments,
    approval_path,
    refused,
    service_of,
)
from authz.cli.approvals_view import standing_lines
from authz.cli.json_output import add_json_argument, print_json
from authz.model.approval import ApprovalState

HELP = "wait until a request is answered"
AT_A_TIME_SECONDS: Final = 25
"""Less than proxies commonly let a request wait."""
SLACK_SECONDS: Final = 30.0
STILL_PENDING: Final = 3


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of this command."""
    parser.description = (
        "Exit code: 0 approved, 1 it ended without a yes that can still be used, 2 no answer of the service, "
        f"{STILL_PENDING} still pending when the time was over."
    )
    parser.add_argument("approval", metavar="ID")
    parser.add_argument(
        "--seconds", type=_seconds, metavar="N", help="at most; default: until it is answered or expires"
    )
    add_service_arguments(parser, role="`decide` (what it asked itself) or `audit`")
    add_json_argument(parser)


def _seconds(text: str) -> int:
    if text.isascii() and text.isdecimal() and len(text) < 9:
        return int(text)
    raise argparse.ArgumentTypeError(f"`{text}` is no number of seconds")


def run(args: argparse.Namespace) -> int:
    """Wait and print where it stands."""
    try:
        approval = _wait(service_of(args), args.approval, args.seconds)
    except AnswerRefused as error:
        return refused(args, error)
    if args.json:
        print_json(approval)
    else:
        print("\n".join(standing_lines(approval)))
    if approval["state"] == ApprovalState.PENDING:
        return STILL_PENDING
    return 0 if approval["state"] == ApprovalState.APPROVED else 1


def _wait(service: Service, approval_id: str, seconds: int | None) -> dict[str, object]:
    until_s = None if seconds is None else time.monotonic() + seconds
    while True:
        left = AT_A_TIME_SECONDS if until_s is None else max(int(until_s - time.monotonic()), 0)
        wait = min(left, AT_A_TIME_SECONDS)
        approval: dict[str, object] = service.ask(
            "GET",
            approval_path(approval_id),
            params={"wait": str(wait)},
            timeout_seconds=wait + SLACK_SECONDS,
        )
        if approval["state"] != ApprovalState.PENDING or (until_s is not None and wait == 0):
            return approval

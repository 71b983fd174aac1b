"""`authz webhooks retry`: have notices that nobody took tried again."""

import argparse
import time
from collections.abc import Sequence

from authz.cli.data_location import add_data_arguments, fail, read_location
from authz.errors import AuthzError
from authz.store.notice_letters import retry_letters

HELP = "have notices tried again that no webhook took"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of this command."""
    parser.description = (
        "The running service tries them again, as often as at first and with the same ids. "
        "Exit code: 0 done, also when there are none, 2 it cannot be done."
    )
    add_letter_arguments(parser)


def add_letter_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare which dead letters are meant."""
    add_data_arguments(parser)
    parser.add_argument("--tenant", metavar="NAME", help="only this tenant's")
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("id", nargs="?", help="as `authz webhooks list` shows it")
    which.add_argument("--all", action="store_true", help="all that there are")


def run(args: argparse.Namespace) -> int:
    """Put them back in the queue."""
    try:
        retried = retry_letters(
            read_location(args).database,
            now_ms=time.time_ns() // 1_000_000,
            tenant=args.tenant,
            message_id=args.id,
        )
    except AuthzError as fault:
        return fail(fault)
    print(f"{counted(retried)} tried again")
    return 0


def counted(letters: Sequence[str]) -> str:
    """How many, in words."""
    return "1 notice is" if len(letters) == 1 else f"{len(letters)} notices are"

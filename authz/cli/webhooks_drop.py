"""`authz webhooks drop`: take away notices that nobody took."""

import argparse

from authz.cli.data_location import fail, read_location
from authz.cli.webhooks_retry import add_letter_arguments, counted
from authz.errors import AuthzError
from authz.store.notice_letters import drop_letters

HELP = "take away notices that no webhook took"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of this command."""
    parser.description = (
        "That nobody took them stays on record. "
        "Exit code: 0 done, also when there are none, 2 it cannot be done."
    )
    add_letter_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Take them away for good."""
    try:
        dropped = drop_letters(read_location(args).database, tenant=args.tenant, message_id=args.id)
    except AuthzError as fault:
        return fail(fault)
    print(f"{counted(dropped)} dropped")
    return 0

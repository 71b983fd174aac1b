"""`authz webhooks list`: notices that nobody took."""

import argparse

from authz.cli.data_location import add_data_arguments, fail, printable, read_location
from authz.cli.json_output import add_json_argument, print_json
from authz.core.log_chain import rfc3339_ms
from authz.errors import AuthzError
from authz.ports.notices import Delivery
from authz.store.notice_letters import list_letters

HELP = "list notices that no webhook took: the dead letters"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of this command."""
    parser.description = "Exit code: 0 there are some, 1 there are none, 2 they cannot be read."
    add_data_arguments(parser)
    parser.add_argument("--tenant", metavar="NAME", help="only this tenant's")
    add_json_argument(parser, help="print JSON instead of text, one notice on one line")


def run(args: argparse.Namespace) -> int:
    """One line a notice, the newest first."""
    try:
        letters = list_letters(read_location(args).database, tenant=args.tenant)
    except AuthzError as fault:
        return fail(fault)
    for letter in letters:
        if args.json:
            print_json(_members(letter))
        else:
            print(printable("  ".join(str(value) for value in _members(letter).values())))
    return 0 if letters else 1


def _members(letter: Delivery) -> dict[str, object]:
    notice = letter.notice
    return {
        "id": letter.message_id,
        "at": rfc3339_ms(notice.at_ms),
        "tenant": notice.tenant,
        "webhook": letter.webhook,
        "kind": notice.kind,
        "approval": notice.approval_id,
        "attempts": letter.attempts,
        "fault": letter.fault,
    }

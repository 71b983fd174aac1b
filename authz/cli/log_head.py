"""`authz log head`: print the HEAD to keep outside (spec section 10)."""

import argparse
import sys

from authz.cli.data_location import add_data_arguments, fail, read_location
from authz.core.log_checkpoint import LogHead, format_head, parse_head
from authz.errors import AuthzError, LogCorrupt, MalformedInput
from authz.store.log_audit import LogSnapshot

HELP = "print the HEAD of the decision log, to keep elsewhere and check with `log verify --expect`"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of this command."""
    parser.description = (
        "Prints `writer:sequence:hash` of every writer's last record, joined by commas. It verifies nothing; "
        "run `authz log verify` first. Exit code: 0 printed, 1 the log is empty, 2 it cannot be read."
    )
    add_data_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Print HEAD; an empty log has none, and an empty text would prove nothing."""
    try:
        with LogSnapshot(read_location(args).database) as snapshot:
            stored = snapshot.stored_heads()
        heads = [
            LogHead(writer=writer, sequence=head.sequence, hash=head.hash)
            for writer, head in stored.items()
            if head.sequence != 0
        ]
        if not heads:
            print("authz: the log is empty", file=sys.stderr)
            return 1
        text = format_head(heads)
        parse_head(text)
    except MalformedInput as fault:
        return fail(LogCorrupt("a stored head is malformed; run `authz log verify`", code=fault.code))
    except AuthzError as fault:
        return fail(fault)
    print(text)
    return 0

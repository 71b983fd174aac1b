"""`authz store status`: the version of the database's schema (spec section 13)."""

import argparse

from authz.cli.data_location import add_data_arguments, fail, read_location
from authz.cli.json_output import add_json_argument, print_json
from authz.errors import AuthzError
from authz.store import migrations
from authz.store.database import find_version

HELP = "print the version of the database's schema"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of this command."""
    parser.description = (
        "Exit code: 0 the schema is what this program needs, 1 `authz store migrate` has something to do, "
        "2 it cannot be read or belongs to a newer program."
    )
    add_data_arguments(parser)
    add_json_argument(parser)


def run(args: argparse.Namespace) -> int:
    """Print where the database is and how far its schema has got."""
    try:
        database = read_location(args).database
        found = find_version(database)
        if found is not None:
            migrations.check_not_newer(found)
    except AuthzError as fault:
        return fail(fault)
    pending = migrations.pending_steps(found) if found is not None else ()
    if args.json:
        steps = [{"version": step.version, "what": step.what} for step in pending]
        print_json(
            {"database": str(database), "version": found, "needed": migrations.CURRENT, "pending": steps}
        )
        return 1 if found is None or pending else 0
    print(f"database: {database}")
    if found is None:
        print(f"schema: none yet; `authz store migrate` or the service makes version {migrations.CURRENT}")
        return 1
    print(f"schema: version {found} of {migrations.CURRENT}")
    for step in pending:
        print(f"to do: version {step.version}, {step.what}")
    return 1 if pending else 0

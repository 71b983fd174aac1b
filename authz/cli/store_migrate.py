"""`authz store migrate`: bring the database's schema up to date (spec section 13)."""

import argparse

from authz.cli.data_location import add_data_arguments, fail, read_location
from authz.errors import AuthzError
from authz.store import migrations
from authz.store.database import find_version, migrate

HELP = "bring the database's schema up to date"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of this command."""
    parser.description = (
        "The service does the same when it starts; this is for a database role that may make tables while "
        "the service's own may not, and to do it before new programs run. All steps are one transaction, "
        "and there is no way back: keep a backup. An SQLite database must not be in use."
    )
    add_data_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Migrate, and say from which version to which."""
    try:
        database = read_location(args).database
        before = find_version(database)
        migrate(database)
    except AuthzError as fault:
        return fail(fault)
    if before == migrations.CURRENT:
        print(f"the schema is at version {migrations.CURRENT} already")
    elif before is None:
        print(f"the schema is made, version {migrations.CURRENT}")
    else:
        print(f"the schema is migrated from version {before} to {migrations.CURRENT}")
    return 0

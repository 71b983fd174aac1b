"""Where the commands find the service's data: the options that several of them share."""

import argparse
import sys
from dataclasses import dataclass
from pathlib import Path

from authz.config import load_config
from authz.errors import AuthzError, StoreUnavailable
from authz.store.anchor_file import AnchorFile
from authz.store.database import ANCHOR_NAME, Database
from authz.store.ledger import DATABASE_NAME, locate_database
from authz.store.postgres_url import PostgresUrl

KEYS_NAME = "keys.json"
CANNOT = 2
"""Exit code of a command that could not do its work."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DataLocation:
    """The database, and the files that belong to it: the service's keys and the anchor of the log."""

    database: Database
    keys: Path
    anchor: AnchorFile


def add_data_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare `--data-dir` and `--database`."""
    group = parser.add_mutually_exclusive_group()
    group.add_argument(
        "--data-dir",
        type=Path,
        metavar="FOLDER",
        help=f"folder of keys and of the SQLite database {DATABASE_NAME}; default: database and folder as "
        "`authz serve` is configured (AUTHZ_DATABASE_URL, AUTHZ_DATA_DIR), else ./var",
    )
    group.add_argument(
        "--database", type=Path, metavar="FILE", help="a SQLite database file; its keys lie beside it"
    )


def read_location(args: argparse.Namespace) -> DataLocation:
    """The location that the options name, or else the configuration of `authz serve`.

    With `--data-dir` a configured PostgreSQL stays the database: the folder then holds its keys and anchor.
    Raises `ConfigError` when the configuration has to be read and is invalid.
    """
    if args.database is not None:
        return _in_folder(args.database.parent, args.database)
    config = load_config(data_dir=args.data_dir)
    return _in_folder(config.data_dir, locate_database(config))


def _in_folder(folder: Path, database: Database) -> DataLocation:
    anchored = folder / ANCHOR_NAME if isinstance(database, PostgresUrl) else database
    return DataLocation(database=database, keys=folder / KEYS_NAME, anchor=AnchorFile(anchored))


def fail(fault: AuthzError) -> int:
    """Say on standard error why a command could not do its work."""
    print(f"authz: {printable(told(fault))}", file=sys.stderr)
    return CANNOT


def told(fault: AuthzError) -> str:
    """What an operator is told: also which database, and the code that it gave."""
    internal = fault.internal if isinstance(fault, StoreUnavailable) else ""
    return f"{fault.message} ({internal})" if internal else fault.message


def printable(text: str) -> str:
    """`text` with what could fool a terminal or break a line written as escapes."""
    return "".join(character if character.isprintable() else ascii(character)[1:-1] for character in text)

"""Where the commands find the service's data: the options that several of them share."""

import argparse
import sys
from dataclasses import dataclass
from pathlib import Path

from authz.config import load_config
from authz.errors import AuthzError

DATABASE_NAME = "authz.db"
KEYS_NAME = "keys.json"
CANNOT = 2
"""Exit code of a command that could not do its work."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DataLocation:
    """The database and, beside it, the service's key file."""

    database: Path
    keys: Path


def add_data_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare `--data-dir` and `--database`."""
    group = parser.add_mutually_exclusive_group()
    group.add_argument("--data-dir", type=Path, help="default: as `authz serve` is configured, else ./var")
    group.add_argument("--database", type=Path, help=f"the database file, by default {DATABASE_NAME} there")


def read_location(args: argparse.Namespace) -> DataLocation:
    """The location that the options name, or else the configuration of `authz serve`.

    Raises `ConfigError` when that has to be read and is invalid.
    """
    if args.database is not None:
        return DataLocation(database=args.database, keys=args.database.parent / KEYS_NAME)
    directory: Path = args.data_dir or load_config().data_dir
    return DataLocation(database=directory / DATABASE_NAME, keys=directory / KEYS_NAME)


def fail(fault: AuthzError) -> int:
    """Say on standard error why a command could not do its work."""
    print(f"authz: {printable(fault.message)}", file=sys.stderr)
    return CANNOT


def printable(text: str) -> str:
    """`text` with what could fool a terminal or break a line written as escapes."""
    return "".join(character if character.isprintable() else ascii(character)[1:-1] for character in text)

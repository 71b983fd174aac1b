"""Where the commands find the policy bundle: the one option that all of them share."""

import argparse
from pathlib import Path
from typing import Final

from authz.config import load_config
from authz.errors import ConfigError

PARTS: Final = ("bundle.yaml", "rules", "tools", "tests")
"""A folder with none of these is another folder, not a bundle with many faults."""


def add_bundle_argument(parser: argparse.ArgumentParser) -> None:
    """Declare `--policies`, as `authz serve` has it."""
    parser.add_argument(
        "--policies",
        type=Path,
        metavar="FOLDER",
        help="the policy bundle; default: as `authz serve` is configured (AUTHZ_POLICIES), else ./policies",
    )


def bundle_folder(args: argparse.Namespace) -> Path:
    """The folder that the option names, or else the configuration of `authz serve`.

    Raises `ConfigError` when there is no such folder, when it is no bundle's, and when an invalid
    configuration has to be read.
    """
    folder: Path = args.policies if args.policies is not None else load_config().policies
    if not folder.is_dir():
        raise ConfigError(f"`{folder}`: there is no such folder; name the bundle's with `--policies FOLDER`")
    if not any((folder / name).exists() for name in PARTS):
        raise ConfigError(f"`{folder}` is no bundle; name the folder that holds bundle.yaml and rules/")
    return folder

"""`authz signing-keys export`: the public keys that the log verifies with where the key file is not."""

import argparse

from authz.cli.data_location import add_data_arguments, fail, read_location
from authz.cli.json_output import print_json
from authz.errors import AuthzError
from authz.store.jwks import log_jwks
from authz.store.key_file import read_key_file

HELP = "print the public part of every key that the log was signed with, for `log verify --jwks`"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of this command."""
    parser.description = (
        "Prints one JWK set. Unlike the set at /.well-known/jwks.json it holds also keys whose tokens have "
        "all ended, and those that were withdrawn, marked `revoked`: not for verifying tokens. Export it "
        "after every rotation, and keep it apart from the service."
    )
    add_data_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Print the set."""
    try:
        keys = read_key_file(read_location(args).keys).material.keys
    except AuthzError as fault:
        return fail(fault)
    print_json(log_jwks(keys))
    return 0

"""`authz keys revoke`: end an API key (spec section 11)."""

import argparse
import time

from authz.cli.data_location import add_data_arguments, fail, read_location
from authz.errors import AuthzError
from authz.store.api_keys import revoke_api_key

HELP = "revoke an API key"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of this command."""
    parser.description = "Running servers refuse the key within one second."
    add_data_arguments(parser)
    parser.add_argument("key_id", help="as `authz keys list` shows it")
    parser.add_argument("--tenant", help="only when it is this tenant's")


def run(args: argparse.Namespace) -> int:
    """Revoke it; a key that is revoked already stays so."""
    try:
        revoke_api_key(
            read_location(args).database,
            args.key_id,
            tenant=args.tenant,
            now_ms=time.time_ns() // 1_000_000,
        )
    except AuthzError as fault:
        return fail(fault)
    print(f"key {args.key_id} is revoked")
    return 0

"""`authz signing-keys withdraw`: throw a compromised signing key out."""

import argparse
import sys
import time

from authz.cli.data_location import add_data_arguments, fail, read_location
from authz.cli.json_output import add_json_argument
from authz.cli.signing_keys_list import print_keys
from authz.config import load_config
from authz.errors import AuthzError
from authz.store.key_rotation import withdraw_key

HELP = "throw a signing key out as compromised: no token verifies with it from now on"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of this command."""
    parser.description = (
        "For good, and for every token that it signed: they are to be issued anew. Running services notice "
        "within two seconds; verifiers elsewhere when they next fetch the key set, at the latest after half "
        "of `key_publish_seconds`. Where the key was in use another takes over at once. Checkpoints of the "
        "log under it hold only as far as a later one covers them, which a running service writes with its "
        "next records. Where replicas have copies of the key file, give them the new one now."
    )
    add_data_arguments(parser)
    parser.add_argument("kid", help="as `authz signing-keys list` shows it")
    add_json_argument(parser, help="print the keys as JSON, one key on one line")


def run(args: argparse.Namespace) -> int:
    """Withdraw it, and print all keys as they then are. A key that is withdrawn already stays so."""
    now_ms = time.time_ns() // 1_000_000
    try:
        config = load_config()
        keys = withdraw_key(read_location(args).keys, args.kid, now_ms=now_ms)
    except AuthzError as fault:
        return fail(fault)
    print_keys(keys, now_ms, lifetime_seconds=config.capability_max_lifetime_seconds, as_json=args.json)
    print(
        "note: the secret in the key file was not changed; who has read the file knows it too, and can "
        "recognize values that are redacted in the log",
        file=sys.stderr,
    )
    return 0

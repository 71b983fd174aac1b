"""`authz signing-keys rotate`: publish the next signing key (publish before use)."""

import argparse
import sys
import time

from authz.cli.data_location import add_data_arguments, fail, read_location
from authz.cli.json_output import add_json_argument
from authz.cli.signing_keys_list import print_keys
from authz.config import load_config
from authz.errors import AuthzError
from authz.store.key_rotation import rotate_keys

HELP = "publish a new signing key, which takes over by itself"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of this command."""
    parser.description = (
        "Makes a key and publishes it in the key set of running services at once. After "
        "`key_publish_seconds` it takes over by itself, and the one before it still verifies until its last "
        "token has ended. Where replicas have copies of the key file, give them the new one within that "
        "time. Reads the configuration of `authz serve`, which should be the service's own."
    )
    add_data_arguments(parser)
    parser.add_argument(
        "--now",
        action="store_true",
        help="let it take over at once, or a key that waits: for an emergency, since verifiers that keep "
        "the old key set refuse its tokens until they fetch the new one",
    )
    add_json_argument(parser, help="print the keys as JSON, one key on one line")


def run(args: argparse.Namespace) -> int:
    """Rotate, and print all keys as they then are."""
    now_ms = time.time_ns() // 1_000_000
    try:
        config = load_config()
        keys = rotate_keys(
            read_location(args).keys,
            now_ms=now_ms,
            publish_seconds=config.key_publish_seconds,
            lifetime_seconds=config.capability_max_lifetime_seconds,
            at_once=args.now,
        )
    except AuthzError as fault:
        return fail(fault)
    print_keys(keys, now_ms, lifetime_seconds=config.capability_max_lifetime_seconds, as_json=args.json)
    if args.now:
        print(
            "warning: the new key was not published before its use; for up to "
            f"{config.key_publish_seconds // 2} seconds verifiers elsewhere may refuse its tokens",
            file=sys.stderr,
        )
    return 0

"""`authz signing-keys list`: the service's signing keys and their states, without private parts."""

import argparse
import time

from authz.cli.data_location import add_data_arguments, fail, read_location
from authz.cli.json_output import add_json_argument, print_json
from authz.config import load_config
from authz.core.log_chain import rfc3339_ms
from authz.errors import AuthzError
from authz.store.key_file import read_key_file
from authz.store.key_set import KeySet, KeyState, KeyStatus

HELP = "list the keys that the service signs with, without their private parts"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of this command."""
    parser.description = (
        "A key is `next` (published, waits to be used), `active` (signs), `retired` (another took over; its "
        "tokens verify until the last has ended), `expired` (kept to verify the log), or `withdrawn` "
        "(verifies no token). Oldest first."
    )
    add_data_arguments(parser)
    add_json_argument(parser, help="print JSON instead of text, one key on one line")


def run(args: argparse.Namespace) -> int:
    """One line a key."""
    try:
        keys = read_key_file(read_location(args).keys).material.keys
        lifetime_seconds = load_config().capability_max_lifetime_seconds
    except AuthzError as fault:
        return fail(fault)
    print_keys(keys, time.time_ns() // 1_000_000, lifetime_seconds=lifetime_seconds, as_json=args.json)
    return 0


def print_keys(keys: KeySet, now_ms: int, *, lifetime_seconds: int, as_json: bool) -> None:
    """Every key with its state at that moment."""
    for status in keys.statuses(now_ms, lifetime_ms=lifetime_seconds * 1000):
        if as_json:
            print_json(_members(status))
        else:
            print(f"{status.key.kid}  {status.state:9}  {_when(status)}")


def _when(status: KeyStatus) -> str:
    key = status.key
    if key.withdrawn_at_ms is not None:
        return f"withdrawn {rfc3339_ms(key.withdrawn_at_ms)}"
    if status.state is KeyState.NEXT:
        return f"published {rfc3339_ms(key.published_at_ms)}, takes over {rfc3339_ms(key.active_from_ms)}"
    since = (
        "signs from the start" if key.active_from_ms == 0 else f"signs since {rfc3339_ms(key.active_from_ms)}"
    )
    if status.retired_at_ms is None or status.verifies_until_ms is None:
        return since
    ends = f"until {rfc3339_ms(status.retired_at_ms)}"
    return f"{since} {ends}, verifies until {rfc3339_ms(status.verifies_until_ms)}"


def _members(status: KeyStatus) -> dict[str, object]:
    key = status.key
    return {
        "kid": key.kid,
        "state": str(status.state),
        "published_at": _time(key.published_at_ms or None),
        "active_from": _time(key.active_from_ms or None),
        "retired_at": _time(status.retired_at_ms),
        "verifies_until": _time(status.verifies_until_ms),
        "withdrawn_at": _time(key.withdrawn_at_ms),
        "jwk": key.public.jwk,
    }


def _time(moment_ms: int | None) -> str | None:
    return None if moment_ms is None else rfc3339_ms(moment_ms)

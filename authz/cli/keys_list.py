"""`authz keys list`: the API keys, without the keys themselves (spec section 11)."""

import argparse

from authz.cli.data_location import add_data_arguments, fail, printable, read_location
from authz.cli.json_output import add_json_argument, print_json
from authz.core.log_chain import rfc3339_ms
from authz.errors import AuthzError
from authz.store.api_keys import ApiKey, list_api_keys

HELP = "list API keys, without the keys themselves"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of this command."""
    add_data_arguments(parser)
    parser.add_argument("--tenant", metavar="NAME", help="only this tenant's")
    add_json_argument(parser, help="print JSON instead of text, one key on one line")


def run(args: argparse.Namespace) -> int:
    """One line a key, oldest first, also of revoked ones."""
    try:
        keys = list_api_keys(read_location(args).database, tenant=args.tenant)
    except AuthzError as fault:
        return fail(fault)
    for key in keys:
        if args.json:
            print_json(_members(key))
        else:
            print(_line(key))
    return 0


def _line(key: ApiKey) -> str:
    state = "live" if key.revoked_at_ms is None else f"revoked {rfc3339_ms(key.revoked_at_ms)}"
    roles = ",".join(sorted(key.roles)) + (" (dev)" if key.dev else "")
    created = rfc3339_ms(key.created_at_ms)
    return printable(f"{key.key_id}  {key.tenant}  {key.name}  {key.profile}  {roles}  {created}  {state}")


def _members(key: ApiKey) -> dict[str, object]:
    return {
        "key_id": key.key_id,
        "tenant": key.tenant,
        "name": key.name,
        "profile": key.profile,
        "roles": sorted(key.roles),
        "dev": key.dev,
        "created_at": rfc3339_ms(key.created_at_ms),
        "revoked_at": None if key.revoked_at_ms is None else rfc3339_ms(key.revoked_at_ms),
    }

"""`authz keys create`: make an API key and print it once (spec section 11)."""

import argparse
import sys
import time

from authz.cli.data_location import add_data_arguments, fail, read_location
from authz.errors import AuthzError
from authz.store.api_keys import ROLES, create_api_key

HELP = "create an API key and print it once"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of this command."""
    parser.description = (
        "Prints the new key on standard output; only its digest is stored, so it cannot be shown again. "
        "A running server knows it at once. The tenant and its profile must exist in the policy bundle; "
        "the store does not know them, so this is not checked."
    )
    add_data_arguments(parser)
    parser.add_argument("--name", required=True, metavar="TEXT", help="who holds it")
    parser.add_argument("--roles", required=True, help=f"joined by commas: {', '.join(sorted(ROLES))}")
    parser.add_argument(
        "--profile", required=True, metavar="NAME", help="a credential profile of the tenant's bundle"
    )
    parser.add_argument("--tenant", default="default", metavar="NAME", help="default: default")


def run(args: argparse.Namespace) -> int:
    """Make the key; its id goes to standard error, so that the key alone can be piped on."""
    try:
        created = create_api_key(
            read_location(args).database,
            name=args.name,
            roles=[role.strip() for role in args.roles.split(",") if role.strip()],
            profile=args.profile,
            tenant=args.tenant,
            now_ms=time.time_ns() // 1_000_000,
        )
    except AuthzError as fault:
        return fail(fault)
    print(created.secret)
    print(f"key {created.key_id} is made; it is not shown again", file=sys.stderr)
    print(
        f"note: the service must have a tenant `{args.tenant}` whose bundle has the profile "
        f"`{args.profile}`; without the tenant the key is refused, without the profile it may assert nothing",
        file=sys.stderr,
    )
    return 0

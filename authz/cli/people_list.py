"""`authz people list`: the accounts of people."""

import argparse

from authz.cli.data_location import add_data_arguments, fail, printable, read_location
from authz.cli.json_output import add_json_argument, print_json
from authz.core.log_chain import rfc3339_ms
from authz.errors import AuthzError
from authz.model.account import Account
from authz.store.person_orders import list_people

HELP = "list the accounts of people"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of this command."""
    add_data_arguments(parser)
    parser.add_argument("--tenant", metavar="NAME", help="only this tenant's")
    add_json_argument(parser, help="print JSON instead of text, one account on one line")


def run(args: argparse.Namespace) -> int:
    """One line an account, also of disabled ones and of those that development runs left."""
    try:
        people = list_people(read_location(args).database, tenant=args.tenant)
    except AuthzError as fault:
        return fail(fault)
    for account, passkeys in people:
        if args.json:
            print_json(_members(account, passkeys))
        else:
            print(_line(account, passkeys))
    return 0


def _line(account: Account, passkeys: int) -> str:
    state = f"disabled {rfc3339_ms(account.disabled_at_ms)}" if account.disabled_at_ms else "live"
    roles = ",".join(sorted(account.roles)) + (" (dev)" if account.dev else "")
    made = rfc3339_ms(account.created_at_ms)
    name = account.display_name or "-"
    return printable(
        f"{account.person}  {account.tenant}  {name}  {roles}  {passkeys} passkeys  {made}  {state}"
    )


def _members(account: Account, passkeys: int) -> dict[str, object]:
    return {
        "account_id": account.account_id,
        "tenant": account.tenant,
        "person": account.person,
        "display_name": account.display_name,
        "roles": sorted(account.roles),
        "dev": account.dev,
        "passkeys": passkeys,
        "created_at": rfc3339_ms(account.created_at_ms),
        "disabled_at": rfc3339_ms(account.disabled_at_ms) if account.disabled_at_ms else None,
    }

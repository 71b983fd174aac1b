"""What the commands share that change something about people: a running service carries them out."""

import argparse
import secrets
import sys
import time
from typing import Final

from authz.cli.data_location import DataLocation, add_data_arguments, printable
from authz.config import DEFAULT_TENANT
from authz.errors import ConfigError
from authz.model.account_writes import DONE, OrderKind, PersonOrder
from authz.service.people import digest_secret
from authz.service.sign_in import LINK_PREFIX
from authz.store.person_orders import find_outcome, leave_order

POLL_SECONDS: Final = 0.05
PATIENCE_SECONDS: Final = 5.0
DEV_LINK_MS: Final = 12 * 3600 * 1000


def add_person_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the person, its tenant, and where the data is."""
    parser.add_argument("person", help="id of the user in the tenant's `entities.yaml`")
    parser.add_argument("--tenant", default=DEFAULT_TENANT, metavar="NAME", help="default: default")
    add_data_arguments(parser)


def new_link() -> str:
    """The secret of a one-time link: 256 random bits."""
    return LINK_PREFIX + secrets.token_urlsafe(32)


def link_url(public_url: str, token: str) -> str:
    """Where its person goes with it."""
    return f"{public_url}/ui/sign-in/link?token={token}"


def now_ms() -> int:
    """Milliseconds since the Unix epoch, UTC."""
    return time.time_ns() // 1_000_000


def make_order(
    args: argparse.Namespace,
    kind: OrderKind,
    *,
    roles: frozenset[str] = frozenset(),
    display_name: str = "",
    token: str = "",
    link_ms: int = 0,
) -> PersonOrder:
    """An order about the person that the options name. Raises `ConfigError` for a name that is none."""
    at_ms = now_ms()
    for text in (args.person, display_name, args.tenant):
        if not text.isprintable() or len(text) > 256:
            raise ConfigError("a name is printable text of at most 256 characters")
    return PersonOrder(
        order_id=secrets.token_hex(12),
        tenant=args.tenant,
        kind=kind,
        person=args.person,
        display_name=display_name,
        roles=roles,
        link_digest=digest_secret(token) if token else "",
        link_expires_at_ms=at_ms + link_ms,
        at_ms=at_ms,
    )


def carry_out(location: DataLocation, order: PersonOrder) -> bool:
    """Leave the order and wait for a service to take it; whether one has within a few seconds.

    Raises `ConfigError` with the reason where it was refused, `StoreUnavailable`.
    """
    leave_order(location.database, order)
    ends_s = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < ends_s:
        outcome = find_outcome(location.database, order.order_id)
        if outcome == DONE:
            return True
        if outcome:
            raise ConfigError(outcome)
        time.sleep(POLL_SECONDS)
    return False


def say_done(done: bool, what: str) -> None:
    """On standard error, so that a link can be piped on."""
    later = "no service took it yet: it is done, and recorded, as soon as one runs"
    print(printable(what if done else f"{what} ({later})"), file=sys.stderr)

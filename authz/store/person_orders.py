"""Orders about people, as the command line leaves them for a service, and what is listed there.

Beside a service that runs nobody else can write its log, and nothing about people changes without its record.
"""

from collections.abc import Sequence

from sqlalchemy import insert, select

from authz.errors import NotFound
from authz.model.account import Account
from authz.model.account_writes import PersonOrder
from authz.store.account_rows import order_row, read_account
from authz.store.account_tables import ACCOUNTS, PASSKEYS, PERSON_ORDERS
from authz.store.database import Database, open_session


def leave_order(database: Database, order: PersonOrder) -> None:
    """Have a service carry it out. Raises `StoreUnavailable`, also where no service ever ran."""
    row = dict(zip(PERSON_ORDERS.columns.keys(), order_row(order), strict=True))
    with open_session(database, "write") as session:
        session.run(insert(PERSON_ORDERS).values(row))


def find_outcome(database: Database, order_id: str) -> str:
    """What became of it; empty while nothing has. Raises `NotFound`, `StoreUnavailable`."""
    outcome = select(PERSON_ORDERS.c.outcome).where(PERSON_ORDERS.c.order_id == order_id)
    with open_session(database, "read") as session:
        rows = session.fetch(outcome)
    if not rows:
        raise NotFound(f"there is no order `{order_id}`")
    return str(rows[0][0])


def list_people(database: Database, *, tenant: str | None = None) -> Sequence[tuple[Account, int]]:
    """Every account with how many passkeys it has, by tenant and person. Raises `StoreUnavailable`."""
    accounts = select(*ACCOUNTS.c).order_by(ACCOUNTS.c.tenant, ACCOUNTS.c.person)
    if tenant is not None:
        accounts = accounts.where(ACCOUNTS.c.tenant == tenant)
    with open_session(database, "read") as session:
        rows = session.fetch(accounts)
        owners = [row[0] for row in session.fetch(select(PASSKEYS.c.account_id))]
    found = [read_account(row) for row in rows]
    return [(account, owners.count(account.account_id)) for account in found]

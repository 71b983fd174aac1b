"""What a unit changes about people: all of it in its order, or nothing of the unit.

Such units are few, so each is written at once, behind a savepoint that it goes back to where one of its
compare-and-sets does not hold.
"""

from collections.abc import Callable, Sequence
from typing import Final

from authz.model.account_writes import (
    AccountMoved,
    AccountPut,
    AccountWrite,
    IdentityAdd,
    LinkAdd,
    LinkUse,
    OrderDone,
    PasskeyAdd,
    PasskeyRemove,
    PasskeyUse,
    SessionEnd,
    SessionOpen,
    SessionsEnd,
)
from authz.store.account_rows import account_row, identity_row, link_row, passkey_row, session_row
from authz.store.account_statements import AccountStatements
from authz.store.write_connection import SqlValue, WriteConnection

Run = Callable[..., bool]
ORDERS_KEPT_MS: Final = 86_400_000
"""How long it can be read what became of an order."""


def write_accounts(
    connection: WriteConnection, sql: AccountStatements, writes: Sequence[AccountWrite]
) -> AccountMoved | None:
    """Write all of them within the open transaction, or nothing. Raises `StoreUnavailable`."""
    if not writes:
        return None
    connection.execute("SAVEPOINT people", ())
    for write in writes:
        if not _write(connection, sql, write):
            connection.execute("ROLLBACK TO SAVEPOINT people", ())
            connection.execute("RELEASE SAVEPOINT people", ())
            return AccountMoved(what=type(write).__name__)
    connection.execute("RELEASE SAVEPOINT people", ())
    return None


def _write(connection: WriteConnection, sql: AccountStatements, write: AccountWrite) -> bool:
    """Whether what it expects held."""

    def run(text: str, *values: SqlValue) -> bool:
        return connection.execute(text, values) == 1

    match write:
        case AccountPut(account=account):
            row = account_row(account, account.version + 1)
            if account.version == 0:
                return run(sql.insert_account, *row)
            changed = (*row[2:5], *row[6:9])
            return run(sql.move_account, *changed, account.account_id, account.tenant, account.version)
        case PasskeyAdd(passkey=passkey):
            return run(sql.insert_passkey, *passkey_row(passkey))
        case PasskeyUse():
            values = (write.sign_count, write.used_at_ms, write.credential_id, write.tenant)
            return run(sql.use_passkey, *values, write.from_sign_count)
        case PasskeyRemove():
            return run(sql.delete_passkey, write.credential_id, write.tenant, write.account_id)
        case _:
            return _write_session(run, sql, write)


def _write_session(run: Run, sql: AccountStatements, write: AccountWrite) -> bool:
    match write:
        case SessionOpen(session=session):
            run(sql.sweep_sessions, session.created_at_ms)
            return run(sql.insert_session, *session_row(session))
        case SessionEnd():
            run(sql.delete_codes, write.tenant, write.session_id)
            return run(sql.delete_session, write.session_id, write.tenant)
        case SessionsEnd():
            run(sql.delete_links, write.tenant, write.account_id)
            run(sql.delete_sessions, write.tenant, write.account_id)
            return True
        case LinkAdd(link=link):
            run(sql.replace_links, link.created_at_ms, link.tenant, link.account_id, link.kind.value)
            return run(sql.insert_link, *link_row(link))
        case LinkUse():
            return run(sql.use_link, write.digest, write.tenant, write.kind.value)
        case IdentityAdd(identity=identity):
            return run(sql.insert_identity, *identity_row(identity))
        case OrderDone():
            run(sql.sweep_orders, "", write.at_ms - ORDERS_KEPT_MS)
            return run(sql.finish_order, write.outcome, write.order_id, "")
        case _:
            raise AssertionError(write)

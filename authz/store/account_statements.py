"""The SQL that a commit writes people with, for every dialect (see `authz.store.statements`)."""

from dataclasses import dataclass

from sqlalchemy import Dialect, Table, bindparam, delete, or_, update
from sqlalchemy.dialects import postgresql, sqlite

from authz.store.account_tables import (
    ACCOUNTS,
    OIDC_IDENTITIES,
    PASSKEYS,
    PERSON_ORDERS,
    PERSON_SESSIONS,
    SIGN_IN_LINKS,
)
from authz.store.sql_parts import Build


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountStatements:
    """SQL texts with positional parameters. Inserts take all columns, in table order, and do nothing where
    there is one already."""

    insert_account: str
    move_account: str
    """person, display_name, roles, disabled_at_ms, dev, version; then account_id, tenant, version before."""
    insert_passkey: str
    use_passkey: str
    """sign_count, used_at_ms; then credential_id, tenant, the sign count before."""
    delete_passkey: str
    """credential_id, tenant, account_id."""
    insert_session: str
    delete_session: str
    """session_id, tenant."""
    delete_sessions: str
    """tenant, account_id."""
    sweep_sessions: str
    """now_ms."""
    insert_link: str
    use_link: str
    """digest, tenant, kind."""
    delete_links: str
    """tenant, account_id."""
    replace_links: str
    """now_ms, tenant, account_id, kind: those that are over, and those of that kind."""
    delete_codes: str
    """tenant, session_id: codes of the command line that it asked for."""
    insert_identity: str
    finish_order: str
    """outcome; then order_id."""
    sweep_orders: str
    """since when the others are kept."""


def compile_account_statements(dialect: Dialect, build: Build) -> AccountStatements:
    """The statements in `dialect`, which must be SQLite's or PostgreSQL's."""
    insert_new = sqlite.insert if dialect.name == "sqlite" else postgresql.insert

    def add(table: Table) -> str:
        return build(insert_new(table).on_conflict_do_nothing(), *table.columns.keys())

    accounts, passkeys, sessions = ACCOUNTS.c, PASSKEYS.c, PERSON_SESSIONS.c
    links, orders = SIGN_IN_LINKS.c, PERSON_ORDERS.c
    changed = ("person", "display_name", "roles", "disabled_at_ms", "dev", "version")
    move = (
        update(ACCOUNTS)
        .where(accounts.account_id == bindparam("at_id"))
        .where(accounts.tenant == bindparam("at_tenant"))
        .where(accounts.version == bindparam("from_version"))
        .values({name: bindparam(name) for name in changed})
    )
    use = (
        update(PASSKEYS)
        .where(passkeys.credential_id == bindparam("at_id"))
        .where(passkeys.tenant == bindparam("at_tenant"))
        .where(passkeys.sign_count == bindparam("from_count"))
        .values(sign_count=bindparam("sign_count"), used_at_ms=bindparam("used_at_ms"))
    )
    remove = delete(PASSKEYS).where(passkeys.credential_id == bindparam("at_id"))
    remove = remove.where(passkeys.tenant == bindparam("at_tenant"))
    remove = remove.where(passkeys.account_id == bindparam("at_account"))
    end = delete(PERSON_SESSIONS).where(sessions.session_id == bindparam("at_id"))
    end_all = delete(PERSON_SESSIONS).where(sessions.tenant == bindparam("at_tenant"))
    use_link = delete(SIGN_IN_LINKS).where(links.digest == bindparam("at_digest"))
    use_link = use_link.where(links.tenant == bindparam("at_tenant"), links.kind == bindparam("at_kind"))
    of_account = (links.tenant == bindparam("at_tenant"), links.account_id == bindparam("at_account"))
    replaced = delete(SIGN_IN_LINKS).where(
        or_(
            links.expires_at_ms <= bindparam("now_ms"),
            (links.tenant == bindparam("at_tenant"))
            & (links.account_id == bindparam("at_account"))
            & (links.kind == bindparam("at_kind")),
        )
    )
    codes = delete(SIGN_IN_LINKS).where(links.tenant == bindparam("at_tenant"))
    codes = codes.where(links.session_id == bindparam("at_session"))
    finish = (
        update(PERSON_ORDERS)
        .where(orders.order_id == bindparam("at_id"), orders.outcome == bindparam("still_open"))
        .values(outcome=bindparam("outcome"))
    )
    swept = delete(PERSON_ORDERS).where(orders.outcome != bindparam("still_open"))
    swept = swept.where(orders.at_ms < bindparam("since_ms"))
    return AccountStatements(
        insert_account=add(ACCOUNTS),
        move_account=build(move, *changed, "at_id", "at_tenant", "from_version"),
        insert_passkey=add(PASSKEYS),
        use_passkey=build(use, "sign_count", "used_at_ms", "at_id", "at_tenant", "from_count"),
        delete_passkey=build(remove, "at_id", "at_tenant", "at_account"),
        insert_session=add(PERSON_SESSIONS),
        delete_session=build(end.where(sessions.tenant == bindparam("at_tenant")), "at_id", "at_tenant"),
        delete_sessions=build(
            end_all.where(sessions.account_id == bindparam("at_account")), "at_tenant", "at_account"
        ),
        sweep_sessions=build(
            delete(PERSON_SESSIONS).where(sessions.expires_at_ms <= bindparam("now_ms")), "now_ms"
        ),
        insert_link=add(SIGN_IN_LINKS),
        use_link=build(use_link, "at_digest", "at_tenant", "at_kind"),
        delete_links=build(delete(SIGN_IN_LINKS).where(*of_account), "at_tenant", "at_account"),
        replace_links=build(replaced, "now_ms", "at_tenant", "at_account", "at_kind"),
        delete_codes=build(codes, "at_tenant", "at_session"),
        insert_identity=add(OIDC_IDENTITIES),
        finish_order=build(finish, "outcome", "at_id", "still_open"),
        sweep_orders=build(swept, "still_open", "since_ms"),
    )

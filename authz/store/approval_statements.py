"""The SQL that a commit reads and writes approvals and the vault with (see `authz.store.statements`)."""

from dataclasses import dataclass

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Dialect,
    Table,
    bindparam,
    case,
    delete,
    func,
    literal_column,
    select,
    update,
)
from sqlalchemy.dialects import postgresql, sqlite

from authz.store.approval_tables import (
    APPROVAL_DENIALS,
    APPROVAL_GRANTS,
    APPROVAL_RESOURCES,
    APPROVAL_VOTES,
    APPROVALS,
    VAULT,
)
from authz.store.sql_parts import NO_OFFSET, Build

IS_PENDING: ColumnElement[bool] = literal_column("state = 'pending'")
"""Written out, as the indexes say it: else they would not be used."""
REQUEST_FIELDS = (
    APPROVALS.c.details,
    APPROVALS.c.state,
    APPROVALS.c.version,
    APPROVALS.c.closed_at_ms,
    APPROVALS.c.closed_by,
)
"""What `approval_rows.read_request` takes."""
GRANT_FIELDS = (
    APPROVAL_GRANTS.c.details,
    APPROVAL_GRANTS.c.uses_left,
    APPROVAL_GRANTS.c.voided_at_ms,
    APPROVAL_GRANTS.c.voided_by,
)
"""What `approval_rows.read_grant` takes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalStatements:
    """SQL texts with positional parameters, in the order that each docstring gives.

    Inserts take all columns, in table order.
    """

    select_request: str
    """tenant, id -> subject_key, and `REQUEST_FIELDS`."""
    select_waiting: str
    """tenant, dedupe_key -> id of the pending request, also of one that is over."""
    select_grant: str
    """tenant, request_id -> `GRANT_FIELDS`."""
    select_denied: str
    """tenant, fingerprint -> session of each denial."""
    count_pending: str
    """subject_key, tenant, now_ms -> how many of the subject, and of the tenant, wait."""
    select_last_change: str
    """tenant -> the highest number; NULL when there is none."""
    insert_request: str
    insert_resource: str
    move_request: str
    """state, version, closed_at_ms, closed_by; then tenant, id, and the version that it moves from."""
    touch_request: str
    """change; then tenant, id."""
    insert_vote: str
    insert_grant: str
    move_grant: str
    """uses_left, voided_at_ms, voided_by; then tenant, request_id, and uses_left that it moves from.

    Only where it is not revoked.
    """
    insert_denial: str
    keep: str
    """All columns of `vault`, and now_ms: one that is there and not over stays as it is."""
    select_over: str
    """until_ms, at most so many -> tenant, ref, until_ms of entries that ended by then, the oldest first."""
    delete_kept: str
    """tenant, ref, until_ms."""


def compile_approval_statements(dialect: Dialect, build: Build) -> ApprovalStatements:
    """The statements in `dialect`, which must be SQLite's or PostgreSQL's."""
    insert_new = sqlite.insert if dialect.name == "sqlite" else postgresql.insert
    requests, grants, denials, vault = APPROVALS.c, APPROVAL_GRANTS.c, APPROVAL_DENIALS.c, VAULT.c
    tenant: ColumnElement[str] = bindparam("at_tenant")

    def add(table: Table) -> str:
        return build(insert_new(table), *table.columns.keys())

    of_subject = func.count(case((requests.subject_key == bindparam("subject_key"), literal_column("1"))))
    pending = (
        select(of_subject, func.count())
        .where(IS_PENDING)
        .where(requests.tenant == tenant)
        .where(requests.expires_at_ms > bindparam("now_ms", type_=BigInteger))
    )
    moved = ("state", "version", "closed_at_ms", "closed_by")
    move_request = (
        update(APPROVALS)
        .where(requests.tenant == tenant)
        .where(requests.id == bindparam("at_id"))
        .where(requests.version == bindparam("from_version"))
        .values({name: bindparam(name) for name in moved})
    )
    touch_request = (
        update(APPROVALS)
        .where(requests.tenant == tenant)
        .where(requests.id == bindparam("at_id"))
        .values(change=bindparam("change"))
    )
    changed = ("uses_left", "voided_at_ms", "voided_by")
    move_grant = (
        update(APPROVAL_GRANTS)
        .where(grants.tenant == tenant)
        .where(grants.request_id == bindparam("at_id"))
        .where(grants.uses_left.is_not_distinct_from(bindparam("from_uses", type_=BigInteger)))
        .where(grants.voided_at_ms == literal_column("0"))
        .values({name: bindparam(name) for name in changed})
    )
    put = insert_new(VAULT)
    keep = put.on_conflict_do_update(
        index_elements=["tenant", "ref"],
        set_={name: put.excluded[name] for name in ("until_ms", "nonce", "sealed")},
        where=vault.until_ms <= bindparam("now_ms"),
    )
    over = (
        select(vault.tenant, vault.ref, vault.until_ms)
        .where(vault.until_ms <= bindparam("until_ms"))
        .order_by(vault.until_ms)
        .limit(bindparam("most", type_=BigInteger))
        .offset(NO_OFFSET)
    )
    by_id = (requests.tenant == tenant, requests.id == bindparam("at_id"))
    waiting = (requests.tenant == tenant, requests.dedupe_key == bindparam("dedupe_key"), IS_PENDING)
    of_call = (denials.tenant == tenant, denials.fingerprint == bindparam("fingerprint"))
    of_grant = (grants.tenant == tenant, grants.request_id == bindparam("at_id"))
    kept = (vault.tenant == tenant, vault.ref == bindparam("at_ref"), vault.until_ms == bindparam("at_ms"))
    return ApprovalStatements(
        select_request=build(
            select(requests.subject_key, *REQUEST_FIELDS).where(*by_id), "at_tenant", "at_id"
        ),
        select_waiting=build(select(requests.id).where(*waiting), "at_tenant", "dedupe_key"),
        select_grant=build(select(*GRANT_FIELDS).where(*of_grant), "at_tenant", "at_id"),
        select_denied=build(select(denials.session).where(*of_call), "at_tenant", "fingerprint"),
        count_pending=build(pending, "subject_key", "at_tenant", "now_ms"),
        select_last_change=build(
            select(func.max(requests.change)).where(requests.tenant == tenant), "at_tenant"
        ),
        insert_request=add(APPROVALS),
        insert_resource=add(APPROVAL_RESOURCES),
        move_request=build(move_request, *moved, "at_tenant", "at_id", "from_version"),
        touch_request=build(touch_request, "change", "at_tenant", "at_id"),
        insert_vote=add(APPROVAL_VOTES),
        insert_grant=add(APPROVAL_GRANTS),
        move_grant=build(move_grant, *changed, "at_tenant", "at_id", "from_uses"),
        insert_denial=add(APPROVAL_DENIALS),
        keep=build(keep, *VAULT.columns.keys(), "now_ms"),
        select_over=build(over, "until_ms", "most"),
        delete_kept=build(delete(VAULT).where(*kept), "at_tenant", "at_ref", "at_ms"),
    )

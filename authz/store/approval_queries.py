"""What is read of approvals and of the vault, as SQL without a driver.

Each is one statement, and so one consistent reading: a request is never told with the votes of one moment and
the grant of another.
"""

from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Dialect,
    FromClause,
    Integer,
    Select,
    Text,
    and_,
    bindparam,
    case,
    cast,
    func,
    literal_column,
    null,
    or_,
    select,
    tuple_,
    union_all,
)

from authz.model.approval import ApprovalState
from authz.model.approval_writes import ApprovalQuery
from authz.store.approval_bounds import clamp_approvals
from authz.store.approval_statements import GRANT_FIELDS, IS_PENDING, REQUEST_FIELDS
from authz.store.approval_tables import (
    APPROVAL_DENIALS,
    APPROVAL_GRANTS,
    APPROVAL_RESOURCES,
    APPROVAL_VOTES,
    APPROVALS,
    VAULT,
)
from authz.store.sql_parts import NO_OFFSET, Build, is_listed

GRANT: Final = "grant"
DENIAL: Final = "denial"
WAITING: Final = "waiting"
PENDING: Final = "pending"
VAIN: Final = "vain"
_requests, _grants, _denials, _votes = APPROVALS.c, APPROVAL_GRANTS.c, APPROVAL_DENIALS.c, APPROVAL_VOTES.c
_STANDING: Final = (*REQUEST_FIELDS, *GRANT_FIELDS, _denials.details, _votes.details)


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalQueries:
    """SQL texts with positional parameters, in the order that each docstring gives."""

    facts: str
    """tenant, fingerprint; tenant, session, server, tool, fingerprint; tenant, fingerprint, session; tenant,
    fingerprint -> (`GRANT`, `GRANT_FIELDS`), (`DENIAL`, details, …), (`WAITING`, details, version,
    closed_at_ms, closed_by)."""
    counts: str
    """subject_key, tenant, now_ms; tenant, subject_key, since_ms, now_ms; tenant, JSON array of resources,
    since_ms, subject_key, since_ms, now_ms, since_ms -> (`PENDING`, of the subject, of the tenant), (`VAIN`,
    number, when the earliest was made), (resource, number, when the earliest ended)."""
    standing: str
    """tenant, id -> created_at_ms, id, `REQUEST_FIELDS`, `GRANT_FIELDS`, details of the denial, and of a
    vote: a row for each vote, in their order."""
    due: str
    """now_ms, at most so many -> tenant, id."""
    since: str
    """tenant; tenant, change, at most so many -> (0, the highest change, ''), (1, change, id)."""
    kept: str
    """tenant, ref, now_ms -> until_ms, nonce, sealed."""


def compile_approval_queries(dialect: Dialect, build: Build) -> ApprovalQueries:
    """The queries in `dialect`, which must be SQLite's or PostgreSQL's."""
    found = (
        select(_requests.created_at_ms, _requests.id, *_STANDING)
        .select_from(_joined())
        .where(_requests.tenant == bindparam("tenant"), _requests.id == bindparam("id"))
        .order_by(_votes.version)
    )
    most = bindparam("most", type_=BigInteger)
    due = (
        select(_requests.tenant, _requests.id)
        .where(IS_PENDING)
        .where(_requests.expires_at_ms <= bindparam("now_ms"))
        .order_by(_requests.expires_at_ms, _requests.tenant, _requests.id)
        .limit(most)
        .offset(NO_OFFSET)
    )
    later = (
        select(literal_column("1", Integer).label("kind"), _requests.change, _requests.id)
        .where(_requests.tenant == bindparam("tenant"))
        .where(_requests.change > bindparam("change"))
        .order_by(_requests.change)
        .limit(most)
        .offset(NO_OFFSET)
        .subquery()
    )
    newest = select(literal_column("0", Integer), func.max(_requests.change), literal_column("''", Text))
    since = union_all(newest.where(_requests.tenant == bindparam("tenant")), select(*later.c))
    kept = (
        select(VAULT.c.until_ms, VAULT.c.nonce, VAULT.c.sealed)
        .where(VAULT.c.tenant == bindparam("tenant"), VAULT.c.ref == bindparam("ref"))
        .where(VAULT.c.until_ms > bindparam("now_ms"))
    )
    by_call = ("tenant", "fingerprint")
    return ApprovalQueries(
        facts=build(
            _facts(),
            *by_call,
            "tenant",
            "session",
            "server",
            "tool",
            "fingerprint",
            *by_call,
            "session",
            *by_call,
        ),
        counts=build(
            _counts(dialect),
            *("subject_key", "tenant", "now_ms"),
            *("tenant", "subject_key", "since_ms", "now_ms"),
            *("tenant", "keys", "since_ms", "subject_key", "since_ms", "now_ms", "since_ms"),
        ),
        standing=build(found, "tenant", "id"),
        due=build(due, "now_ms", "most"),
        since=build(since, "tenant", "tenant", "change", "most"),
        kept=build(kept, "tenant", "ref", "now_ms"),
    )


def build_find_approvals(query: ApprovalQuery) -> Select[Any]:
    """The search as SQL: always within the tenant, newest first, after `query.before`.

    The rows are those of `ApprovalQueries.standing`.
    """
    told = _told(query.now_ms)
    page = (
        select(_requests.tenant, _requests.id)
        .select_from(APPROVALS.outerjoin(APPROVAL_GRANTS, _is_of(_grants)))
        .where(_requests.tenant == query.tenant)
        .order_by(_requests.created_at_ms.desc(), _requests.id.desc())
        .limit(clamp_approvals(query.limit))
    )
    for name in ("agent", "user", "session", "tool", "key_id", "trace_id"):
        if wanted := getattr(query, name):
            page = page.where(_requests[name] == wanted)
    if query.states:
        page = page.where(told.in_(sorted(state.value for state in query.states)))
    if query.only_grants:
        page = page.where(told == ApprovalState.APPROVED.value)
    if query.before is not None:
        page = page.where(tuple_(_requests.created_at_ms, _requests.id) < tuple_(*query.before))
    found = page.subquery()
    is_found = and_(found.c.tenant == _requests.tenant, found.c.id == _requests.id)
    return (
        select(_requests.created_at_ms, _requests.id, *_STANDING)
        .select_from(_joined().join(found, is_found))
        .order_by(_requests.created_at_ms.desc(), _requests.id.desc(), _votes.version)
    )


def _joined() -> FromClause:
    return (
        APPROVALS.outerjoin(APPROVAL_GRANTS, _is_of(_grants))
        .outerjoin(APPROVAL_DENIALS, _is_of(_denials))
        .outerjoin(APPROVAL_VOTES, _is_of(_votes))
    )


def _is_of(columns: Any) -> ColumnElement[bool]:
    return and_(columns.tenant == _requests.tenant, columns.request_id == _requests.id)


def _told(now_ms: int) -> ColumnElement[str]:
    """`authz.core.approval.told_state`. A test holds the two equal."""
    is_spent = and_(_grants.kind != "session", func.coalesce(_grants.uses_left, 0) <= 0)
    is_live = and_(_grants.voided_at_ms == 0, _grants.expires_at_ms > now_ms)
    return case(
        (and_(_requests.state == "pending", _requests.expires_at_ms <= now_ms), _text("expired")),
        (_requests.state != "approved", _requests.state),
        (_grants.request_id.is_(None), _text("void")),
        (is_spent, _text("consumed")),
        (is_live, _text("approved")),
        else_=_text("void"),
    )


def _facts() -> Any:
    tenant: ColumnElement[str] = bindparam("tenant")
    fingerprint: ColumnElement[str] = bindparam("fingerprint")
    session: ColumnElement[str] = bindparam("session")
    grants = select(_text(GRANT), *GRANT_FIELDS).where(_grants.tenant == tenant)
    of_session = (
        # Written out, as the index says it.
        grants.where(literal_column("kind = 'session'"), literal_column("session <> ''"))
        .where(_grants.session == session)
        .where(_grants.server == bindparam("server"), _grants.tool == bindparam("tool"))
        .where(_grants.fingerprint != fingerprint)
    )
    nothing = (cast(null(), BigInteger), literal_column("0", BigInteger), literal_column("''", Text))
    denials = (
        select(_text(DENIAL), _denials.details, *nothing)
        .where(_denials.tenant == tenant, _denials.fingerprint == fingerprint)
        .where(_denials.session.is_not_distinct_from(bindparam("session", type_=Text)))
    )
    waiting = (
        select(
            *(_text(WAITING), _requests.details, _requests.version),
            *(_requests.closed_at_ms, _requests.closed_by),
        )
        .where(IS_PENDING)
        .where(_requests.tenant == tenant, _requests.fingerprint == fingerprint)
    )
    return union_all(grants.where(_grants.fingerprint == fingerprint), of_session, denials, waiting)


def _counts(dialect: Dialect) -> Any:
    subject: ColumnElement[str] = bindparam("subject_key")
    tenant: ColumnElement[str] = bindparam("tenant")
    one: ColumnElement[int] = literal_column("1")
    now_ms, since_ms = bindparam("now_ms", type_=BigInteger), bindparam("since_ms", type_=BigInteger)
    pending = (
        select(
            _text(PENDING),
            func.count(case((_requests.subject_key == subject, one))),
            func.count(),
        )
        .where(IS_PENDING)
        .where(_requests.tenant == tenant, _requests.expires_at_ms > now_ms)
    )
    # `authz.core.approval_limits.came_to_nothing`.
    is_vain = or_(
        _requests.state.in_([_text("denied"), _text("expired"), _text("cancelled")]),
        and_(IS_PENDING, _requests.expires_at_ms <= now_ms),
    )
    vain = (
        select(_text(VAIN), func.count(), func.min(_requests.created_at_ms))
        .where(_requests.tenant == tenant, _requests.subject_key == subject)
        .where(_requests.created_at_ms > since_ms)
        .where(is_vain)
    )
    about = APPROVAL_RESOURCES.c
    ended_at = case(
        (_requests.state == _text("denied"), _requests.closed_at_ms), else_=_requests.expires_at_ms
    )
    # `authz.core.approval_limits.is_refused_since`.
    is_refused = or_(
        and_(_requests.state == _text("denied"), _requests.closed_at_ms > since_ms),
        and_(
            or_(
                _requests.state == _text("expired"),
                and_(IS_PENDING, _requests.expires_at_ms <= now_ms),
            ),
            _requests.expires_at_ms > since_ms,
        ),
    )
    is_about = and_(about.tenant == _requests.tenant, about.request_id == _requests.id)
    refused = (
        select(about.resource, func.count(), func.min(ended_at))
        .select_from(APPROVAL_RESOURCES.join(APPROVALS, is_about))
        .where(about.tenant == tenant)
        .where(is_listed(about.resource, dialect))
        .where(about.expires_at_ms > since_ms)
        .where(_requests.subject_key == subject)
        .where(is_refused)
        .group_by(about.resource)
    )
    return union_all(pending, vain, refused)


def _text(text: str) -> ColumnElement[str]:
    """A word of this program, written out: no parameter whose type a server would have to guess."""
    return literal_column(f"'{text}'", Text)

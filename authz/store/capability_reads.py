"""What is read of links, revocations and counters, as SQL without a driver."""

from typing import Any, Final

from sqlalchemy import BigInteger, Select, bindparam, literal_column, select, tuple_

from authz.model.capability import LinkQuery
from authz.store.sql_parts import NO_OFFSET
from authz.store.tables import CAPABILITY_LINKS, LIMIT_COUNTERS, REVOCATIONS

MAX_LINKS: Final = 1000
"""Links that one search returns at most, whatever it asks for."""
REVOCATIONS_AT_ONCE: Final = 500
"""Revocations that one look returns at most."""

FIND_LINK: Final = (
    select(*CAPABILITY_LINKS.c)
    .where(CAPABILITY_LINKS.c.link_hash == bindparam("link_hash"))
    .where(CAPABILITY_LINKS.c.tenant == bindparam("tenant"))
)
FIND_COUNTER: Final = select(LIMIT_COUNTERS.c.used).where(LIMIT_COUNTERS.c.key == bindparam("key"))
FIND_REVOCATIONS: Final = (
    select(*REVOCATIONS.c)
    .where(REVOCATIONS.c.sequence > bindparam("after", type_=BigInteger))
    .order_by(REVOCATIONS.c.sequence)
    .limit(bindparam("most", type_=BigInteger))
    .offset(NO_OFFSET)
)


def clamp_links(limit: int) -> int:
    """How many links a search that asks for `limit` returns at most."""
    return max(1, min(limit, MAX_LINKS))


def build_find_links(query: LinkQuery) -> Select[Any]:
    """The search as SQL: always within the tenant, newest first, after `query.after`."""
    columns = CAPABILITY_LINKS.c
    statement = (
        select(*columns)
        .where(columns.tenant == query.tenant)
        .order_by(columns.issued_at_ms.desc(), columns.link_hash.desc())
        .limit(clamp_links(query.limit))
    )
    for name in ("link_hash", "root_hash", "jti", "holder", "agent", "subject"):
        if wanted := getattr(query, name):
            statement = statement.where(columns[name] == wanted)
    if query.only_roots:
        # Written out, as the index says it: else it would not be used.
        statement = statement.where(literal_column("origin <> 'seen'"))
    if query.live_at_ms is not None:
        statement = statement.where(columns.expires_at_ms > query.live_at_ms)
    if query.after is not None:
        statement = statement.where(tuple_(columns.issued_at_ms, columns.link_hash) < tuple_(*query.after))
    return statement

"""The SQL of the limits' counters, for every dialect (see `authz.store.statements`)."""

from dataclasses import dataclass
from typing import Final, Protocol

from sqlalchemy import (
    BigInteger,
    ClauseElement,
    Dialect,
    bindparam,
    delete,
    insert,
    literal_column,
    select,
    update,
)
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.sql.elements import ColumnElement
from sqlalchemy.sql.expression import tuple_

from authz.store.tables import LIMIT_COUNTERS, LIMIT_RESERVATIONS

NO_OFFSET: Final[ColumnElement[int]] = literal_column("0", type_=BigInteger)
"""Written out: SQLite's compiler would add a parameter for it."""


class Build(Protocol):
    """Compiles a statement and checks the order of its parameters."""

    def __call__(self, statement: ClauseElement, *order: str) -> str: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitStatements:
    """SQL texts with positional parameters, in the order that each docstring gives."""

    lock_counter: str
    """key, tenant, limit_id, used, until_ms, seen_ms of a new one -> used, until_ms, seen_ms of this one.

    Nobody else changes the counter until the transaction ends.
    """
    move_counter: str
    """used, until_ms, seen_ms; then key."""
    insert_reservation: str
    """key, until_ms, decision_id, amount."""
    select_ended: str
    """key, now_ms, at most so many -> until_ms, decision_id, amount, first ended first."""
    delete_ended: str
    """key, until_ms, decision_id of the last one to go."""
    shorten: str
    """until_ms; then key and the same until_ms: those that end later end then."""
    select_next: str
    """key, until_ms, decision_id after which, at most so many -> until_ms, decision_id, amount."""
    select_sweep: str
    """after which key, at most so many -> key, used, until_ms of counters that nobody else has locked."""
    delete_counter: str
    """key."""


def compile_limit_statements(dialect: Dialect, build: Build) -> LimitStatements:
    """The statements in `dialect`, which must be SQLite's or PostgreSQL's."""
    insert_new = sqlite.insert if dialect.name == "sqlite" else postgresql.insert
    counters, reservations = LIMIT_COUNTERS.c, LIMIT_RESERVATIONS.c
    # An update that changes nothing: it takes the row's lock and reads what is there under it.
    lock = (
        insert_new(LIMIT_COUNTERS)
        .on_conflict_do_update(index_elements=["key"], set_={"used": counters.used})
        .returning(counters.used, counters.until_ms, counters.seen_ms)
    )
    moved = ("used", "until_ms", "seen_ms")
    move = (
        update(LIMIT_COUNTERS)
        .where(counters.key == bindparam("at_key"))
        .values({name: bindparam(name) for name in moved})
    )
    at_key = reservations.key == bindparam("key")
    ended = (
        select(reservations.until_ms, reservations.decision_id, reservations.amount)
        .where(at_key)
        .where(reservations.until_ms <= bindparam("now_ms"))
        .order_by(reservations.until_ms, reservations.decision_id)
        .limit(bindparam("most", type_=BigInteger))
        .offset(NO_OFFSET)
    )
    position: ColumnElement[bool] = tuple_(reservations.until_ms, reservations.decision_id) <= tuple_(
        bindparam("to_until_ms", type_=BigInteger), bindparam("to_decision_id")
    )
    shorten = (
        update(LIMIT_RESERVATIONS)
        .where(reservations.key == bindparam("at_key"))
        .where(reservations.until_ms > bindparam("later_than_ms"))
        .values(until_ms=bindparam("until_ms"))
    )
    # In pages, and not by a running sum in SQL: SQLite would sort the whole counter for each refusal.
    following = (
        select(reservations.until_ms, reservations.decision_id, reservations.amount)
        .where(at_key)
        .where(
            tuple_(reservations.until_ms, reservations.decision_id)
            > tuple_(bindparam("after_until_ms", type_=BigInteger), bindparam("after_decision_id"))
        )
        .order_by(reservations.until_ms, reservations.decision_id)
        .limit(bindparam("most", type_=BigInteger))
        .offset(NO_OFFSET)
    )
    sweep = (
        select(counters.key, counters.used, counters.until_ms)
        .where(counters.key > bindparam("after_key"))
        .order_by(counters.key)
        .limit(bindparam("most", type_=BigInteger))
        .offset(NO_OFFSET)
        .with_for_update(skip_locked=True)
    )
    return LimitStatements(
        lock_counter=build(lock, *LIMIT_COUNTERS.columns.keys()),
        move_counter=build(move, *moved, "at_key"),
        insert_reservation=build(insert(LIMIT_RESERVATIONS), *LIMIT_RESERVATIONS.columns.keys()),
        select_ended=build(ended, "key", "now_ms", "most"),
        delete_ended=build(
            delete(LIMIT_RESERVATIONS).where(at_key).where(position), "key", "to_until_ms", "to_decision_id"
        ),
        shorten=build(shorten, "until_ms", "at_key", "later_than_ms"),
        select_next=build(following, "key", "after_until_ms", "after_decision_id", "most"),
        select_sweep=build(sweep, "after_key", "most"),
        delete_counter=build(delete(LIMIT_COUNTERS).where(counters.key == bindparam("at_key")), "at_key"),
    )

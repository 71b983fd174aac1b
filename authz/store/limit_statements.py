"""The SQL of the limits' counters, for every dialect (see `authz.store.statements`)."""

from dataclasses import dataclass
from typing import Final, Protocol

from sqlalchemy import (
    JSON,
    BigInteger,
    ClauseElement,
    Dialect,
    Text,
    any_,
    bindparam,
    cast,
    delete,
    func,
    insert,
    literal_column,
    select,
    update,
)
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

    lock_counters: str
    """JSON array of keys -> key, used, until_ms, seen_ms of those that exist.

    Nobody else changes them until the transaction ends.
    """
    insert_counter: str
    """key, tenant, limit_id, used, until_ms, seen_ms. Fails when there is one."""
    move_counter: str
    """used, until_ms, seen_ms; then key."""
    insert_reservation: str
    """key, until_ms, decision_id, amount."""
    select_some_ended: str
    """JSON array of keys, now_ms, at most so many -> key, until_ms, decision_id, amount, in no order."""
    remove_reservation: str
    """key, until_ms, decision_id."""
    select_ended: str
    """key, now_ms, at most so many -> until_ms, decision_id, amount, first ended first."""
    delete_ended: str
    """key, until_ms, decision_id of the last one to go."""
    shorten: str
    """until_ms; then key and the same until_ms: those that end later end then."""
    shift: str
    """by how many ms; then key: all of its reservations end so much earlier."""
    select_next: str
    """key, until_ms, decision_id after which, at most so many -> until_ms, decision_id, amount."""
    select_sweep: str
    """after which key, at most so many -> key, used, until_ms of counters that nobody else has locked."""
    delete_counter: str
    """key."""


def compile_limit_statements(dialect: Dialect, build: Build) -> LimitStatements:
    """The statements in `dialect`, which must be SQLite's or PostgreSQL's."""
    counters, reservations = LIMIT_COUNTERS.c, LIMIT_RESERVATIONS.c
    lock = (
        select(counters.key, counters.used, counters.until_ms, counters.seen_ms)
        .where(_is_listed(counters.key, dialect))
        .order_by(counters.key)
        .with_for_update()
    )
    moved = ("used", "until_ms", "seen_ms")
    move = (
        update(LIMIT_COUNTERS)
        .where(counters.key == bindparam("at_key"))
        .values({name: bindparam(name) for name in moved})
    )
    some_ended = (
        select(reservations.key, reservations.until_ms, reservations.decision_id, reservations.amount)
        .where(_is_listed(reservations.key, dialect))
        .where(reservations.until_ms <= bindparam("now_ms"))
        .limit(bindparam("most", type_=BigInteger))
        .offset(NO_OFFSET)
    )
    # In a statement of its own for each: within the other's, databases look through the whole table.
    remove = (
        delete(LIMIT_RESERVATIONS)
        .where(reservations.key == bindparam("key"))
        .where(reservations.until_ms == bindparam("until_ms"))
        .where(reservations.decision_id == bindparam("decision_id"))
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
    shift = (
        update(LIMIT_RESERVATIONS)
        .where(reservations.key == bindparam("at_key"))
        .values(until_ms=reservations.until_ms - bindparam("by_ms", type_=BigInteger))
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
        lock_counters=build(lock, "keys"),
        insert_counter=build(insert(LIMIT_COUNTERS), *LIMIT_COUNTERS.columns.keys()),
        move_counter=build(move, *moved, "at_key"),
        insert_reservation=build(insert(LIMIT_RESERVATIONS), *LIMIT_RESERVATIONS.columns.keys()),
        select_some_ended=build(some_ended, "keys", "now_ms", "most"),
        remove_reservation=build(remove, "key", "until_ms", "decision_id"),
        select_ended=build(ended, "key", "now_ms", "most"),
        delete_ended=build(
            delete(LIMIT_RESERVATIONS).where(at_key).where(position), "key", "to_until_ms", "to_decision_id"
        ),
        shorten=build(shorten, "until_ms", "at_key", "later_than_ms"),
        shift=build(shift, "by_ms", "at_key"),
        select_next=build(following, "key", "after_until_ms", "after_decision_id", "most"),
        select_sweep=build(sweep, "after_key", "most"),
        delete_counter=build(delete(LIMIT_COUNTERS).where(counters.key == bindparam("at_key")), "at_key"),
    )


def _is_listed(column: ColumnElement[str], dialect: Dialect) -> ColumnElement[bool]:
    """Whether a key is in the JSON array `keys`: one parameter, however many keys there are."""
    keys = bindparam("keys", type_=Text)
    if dialect.name == "sqlite":
        return column.in_(select(func.json_each(keys).table_valued("value").c.value))
    # As an array, which PostgreSQL looks up in the index one by one.
    listed = select(func.json_array_elements_text(cast(keys, JSON)))
    return column == any_(func.array(listed.scalar_subquery()))

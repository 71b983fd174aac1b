"""The SQL of the limits' counters, for every dialect (see `authz.store.statements`)."""

from dataclasses import dataclass

from sqlalchemy import BigInteger, Dialect, bindparam, case, delete, insert, select, update
from sqlalchemy.sql.elements import ColumnElement
from sqlalchemy.sql.expression import tuple_

from authz.store.sql_parts import NO_OFFSET, Build, is_listed
from authz.store.tables import LIMIT_COUNTERS, LIMIT_RESERVATIONS


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
    """by how many ms, until_ms, by how many ms, until_ms; then key and until_ms.

    Those that end later than that end so much earlier, but no earlier than then.
    """
    select_held: str
    """JSON array of decision ids -> tenant, key, until_ms, decision_id, amount of what they hold."""
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
        .where(is_listed(counters.key, dialect))
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
        .where(is_listed(reservations.key, dialect))
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
    latest = bindparam("latest_ms", type_=BigInteger)
    earlier = reservations.until_ms - bindparam("by_ms", type_=BigInteger)
    shift = (
        update(LIMIT_RESERVATIONS)
        .where(reservations.key == bindparam("at_key"))
        .where(reservations.until_ms > latest)
        .values(until_ms=case((earlier > latest, earlier), else_=latest))
    )
    held = (
        select(
            *(counters.tenant, reservations.key, reservations.until_ms),
            *(reservations.decision_id, reservations.amount),
        )
        .join_from(LIMIT_RESERVATIONS, LIMIT_COUNTERS, counters.key == reservations.key)
        .where(is_listed(reservations.decision_id, dialect))
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
        shift=build(shift, "by_ms", "latest_ms", "by_ms", "latest_ms", "at_key", "latest_ms"),
        select_held=build(held, "keys"),
        select_next=build(following, "key", "after_until_ms", "after_decision_id", "most"),
        select_sweep=build(sweep, "after_key", "most"),
        delete_counter=build(delete(LIMIT_COUNTERS).where(counters.key == bindparam("at_key")), "at_key"),
    )

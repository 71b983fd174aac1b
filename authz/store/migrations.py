"""The schema and its versions: numbered steps, forward only, in one transaction, under a lock.

A new database gets the present tables at once; an older one gets the steps that it lacks. Both end with
the same schema (a test compares them), and `store_meta` says which version that is. What a step once did
stays as it is: a later change is another step.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from sqlalchemy import Dialect, MetaData, Table
from sqlalchemy.schema import CreateColumn, CreateIndex, CreateTable

from authz.errors import StoreUnavailable
from authz.store.account_tables import ACCOUNT_TABLES
from authz.store.approval_tables import APPROVAL_TABLES
from authz.store.notice_tables import NOTICES
from authz.store.tables import METADATA, SCHEMA_VERSION

Execute = Callable[[str], object]
_BY_DECISION: Final = "limit_reservations_by_decision"
_ROOTS: Final = "capability_links_roots"
_SETTLEMENT: Final = (
    *("settles", "cancel_requested", "attempt", "first_at_ms", "settled_at_ms", "external_id"),
    *("result_digest", "due_ms"),
)


class SchemaDialect(Protocol):
    """What differs between the databases in how a schema is made."""

    @property
    def dialect(self) -> Dialect:
        """Compiles the table models."""
        ...

    def append_only(self, table: str) -> Sequence[str]:
        """Statements after which rows of `table` can only be added."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """Brings a database from the version before to `version`."""

    version: int
    what: str
    apply: Callable[[SchemaDialect, Execute], None]


def _create_tables(*names: str, later: Collection[str] = ()) -> Callable[[SchemaDialect, Execute], None]:
    """`later` names indexes of them that belong to a later step."""

    def apply(schema: SchemaDialect, execute: Execute) -> None:
        for name in names:
            _create_table(schema, execute, METADATA.tables[name], later)

    return apply


def _add_capabilities(schema: SchemaDialect, execute: Execute) -> None:
    # As they were then: a column that is said to be the database's own is not in `CREATE TABLE`.
    links = METADATA.tables["capability_links"].to_metadata(MetaData())
    links.c.kid.system = True
    _create_table(schema, execute, links, {_ROOTS})
    _create_tables("revocations", "proof_uses")(schema, execute)
    _create_indexes(schema, execute, METADATA.tables["limit_reservations"], {_BY_DECISION})


def _add_columns(schema: SchemaDialect, execute: Execute, table: str, names: Collection[str]) -> None:
    for name in names:
        column = CreateColumn(METADATA.tables[table].c[name]).compile(dialect=schema.dialect)
        execute(f"ALTER TABLE {table} ADD COLUMN {column}")


def _add_settlement(schema: SchemaDialect, execute: Execute) -> None:
    _add_columns(schema, execute, "operations", _SETTLEMENT)
    _create_indexes(schema, execute, METADATA.tables["operations"], {"operations_by_due"})


def _add_basis(schema: SchemaDialect, execute: Execute) -> None:
    _add_columns(schema, execute, "operations", ("ticketed", "basis"))
    _add_columns(schema, execute, "capability_links", ("kid",))
    _create_indexes(schema, execute, METADATA.tables["capability_links"], {_ROOTS})


def _add_approvals(schema: SchemaDialect, execute: Execute) -> None:
    _create_tables(*APPROVAL_TABLES)(schema, execute)
    _add_columns(schema, execute, "operations", ("approval",))


STEPS: Final[tuple[Step, ...]] = (
    Step(
        version=2,
        what="tables of the bundle's limits",
        apply=_create_tables("limit_counters", "limit_reservations", later={_BY_DECISION}),
    ),
    Step(version=3, what="tables of capabilities", apply=_add_capabilities),
    Step(version=4, what="settlement of operations", apply=_add_settlement),
    Step(version=5, what="what operations rest on", apply=_add_basis),
    Step(version=6, what="approvals, and the vault of what they show", apply=_add_approvals),
    Step(version=7, what="people, their passkeys and sessions", apply=_create_tables(*ACCOUNT_TABLES)),
    Step(version=8, what="the outbox of notices", apply=_create_tables(NOTICES.name)),
)
CURRENT: Final = int(SCHEMA_VERSION)
APPEND_ONLY: Final = ("events", "log_checkpoints")


def create_schema(schema: SchemaDialect, execute: Execute) -> None:
    """Make the present tables in an empty database. The caller holds the transaction and the lock."""
    for table in METADATA.sorted_tables:
        _create_table(schema, execute, table)
    for name in APPEND_ONLY:
        for statement in schema.append_only(name):
            execute(statement)


def migrate_schema(schema: SchemaDialect, execute: Execute, found: int) -> list[Step]:
    """Apply the steps after version `found`, and return them. Caller as for `create_schema`."""
    steps = pending_steps(found)
    for step in steps:
        step.apply(schema, execute)
    return steps


def pending_steps(found: int) -> list[Step]:
    """The steps that a database of version `found` lacks."""
    return [step for step in STEPS if step.version > found]


def read_version(found: str | None) -> int:
    """The version that `store_meta` names. Raises `StoreUnavailable` (`store.schema`) when that is none."""
    if found is None or not found.isascii() or not found.isdigit() or int(found) < 1:
        said = "none" if found is None else f"`{found}`"
        raise StoreUnavailable(
            f"the database's schema version is {said}, so it is not one of this program", code="store.schema"
        )
    return int(found)


def check_not_newer(found: int) -> None:
    """Refuse (`StoreUnavailable`, `store.schema`) a database that a newer program has migrated."""
    if found > CURRENT:
        raise StoreUnavailable(
            f"the database's schema version is `{found}` and this program knows `{CURRENT}`; run the newer "
            "program, since there is no way back",
            code="store.schema",
        )


def check_current(found: int) -> None:
    """Refuse (`StoreUnavailable`, `store.schema`) a database of any other version than this program's."""
    check_not_newer(found)
    if found < CURRENT:
        raise StoreUnavailable(
            f"the database's schema version is `{found}` and this program needs `{CURRENT}`; run "
            "`authz store migrate`, or start the service",
            code="store.schema",
        )


def _create_table(schema: SchemaDialect, execute: Execute, table: Table, later: Collection[str] = ()) -> None:
    execute(str(CreateTable(table).compile(dialect=schema.dialect)))
    _create_indexes(schema, execute, table, {str(index.name) for index in table.indexes} - {*later})


def _create_indexes(schema: SchemaDialect, execute: Execute, table: Table, names: Collection[str]) -> None:
    for index in sorted(table.indexes, key=lambda index: str(index.name)):
        if index.name in names:
            execute(str(CreateIndex(index).compile(dialect=schema.dialect)))

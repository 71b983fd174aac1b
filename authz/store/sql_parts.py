"""What the modules that compile SQL share."""

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
    func,
    literal_column,
    select,
)
from sqlalchemy.sql.elements import ColumnElement

NO_OFFSET: Final[ColumnElement[int]] = literal_column("0", type_=BigInteger)
"""Written out: SQLite's compiler would add a parameter for it."""


class Build(Protocol):
    """Compiles a statement and checks the order of its parameters."""

    def __call__(self, statement: ClauseElement, *order: str) -> str: ...


def is_listed(column: ColumnElement[str], dialect: Dialect) -> ColumnElement[bool]:
    """Whether a key is in the JSON array `keys`: one parameter, however many keys there are."""
    keys = bindparam("keys", type_=Text)
    if dialect.name == "sqlite":
        return column.in_(select(func.json_each(keys).table_valued("value").c.value))
    # As an array, which PostgreSQL looks up in the index one by one.
    listed = select(func.json_array_elements_text(cast(keys, JSON)))
    return column == any_(func.array(listed.scalar_subquery()))

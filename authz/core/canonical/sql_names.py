"""What tables, schemas and databases are called: `prod/shop/orders`, `prod/shop`, `prod` (spec section 4)."""

import re
from typing import Final
from urllib.parse import unquote

from authz.core.canonical.spelling import percent_encoded
from authz.model.resource import Entity, NotCanonical, Resource

_DATABASE: Final = re.compile(r"[a-z][a-z0-9_-]{0,63}")


def table_resource(database: str, names: tuple[str, ...]) -> Resource:
    """The table (or schema, with one name; or database, with none) behind a connection."""
    path = (database, *(percent_encoded(name).replace("/", "%2F") for name in names))
    types = ("Database", "Schema", "Table")
    chain = tuple(
        Entity(type=types[length - 1], id="/".join(path[:length])) for length in range(len(path), 0, -1)
    )
    return Resource(kind="sql", uri=f"sql:{chain[0].id}", value=chain[0].id, chain=chain)


def sql_resource(text: str) -> Resource | NotCanonical:
    """The table, schema or database of a canonical id: `prod/shop/orders`, `prod/shop`, `prod`."""
    database, *names = text.split("/")
    if len(names) > 2 or not _DATABASE.fullmatch(database) or not all(names):
        return NotCanonical(code="sql.name", message="write `database/schema/table`, each percent-encoded")
    return table_resource(database, tuple(unquote(name) for name in names))


def sql_id(text: str, parts: int) -> str | NotCanonical:
    """The id of a `Table` (3 parts), `Schema` (2) or `Database` (1) as rules write it."""
    found = sql_resource(text)
    if isinstance(found, NotCanonical):
        return found
    if len(found.chain) != parts:
        return NotCanonical(code="sql.name", message=f"this type has {parts} parts: `database/schema/table`")
    return found.entity.id

"""Kind `sql`: which accesses statements make, and what is not understood."""

import gc

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlglot import exp

from authz.core.canonical.sql import DIALECTS, Connection, analyse_sql
from authz.core.canonical.sql_nodes import UNDERSTOOD
from authz.model.resource import NotCanonical

PROD = Connection(database="prod", dialect="postgres", default_schema="public")


def accesses(text: str, connection: Connection = PROD) -> set[str]:
    found = analyse_sql(text, connection)
    assert not isinstance(found, NotCanonical), (text, found)
    return {f"{one.verb} {one.resource.uri}{'/**' if one.scope == 'tree' else ''}" for one in found}


READS = "read sql:prod/shop/orders"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT * FROM shop.orders", {READS}),
        ("select count(*), lower(a) from SHOP.Orders where b like 'x%' order by 1 limit 3;", {READS}),
        ("SELECT 1", {"read sql:prod"}),
        ("BEGIN; SELECT * FROM shop.orders; COMMIT", {READS}),
        ("SELECT * FROM orders", {"read sql:prod/public/orders"}),
        ('SELECT * FROM "Shop"."Orders"', {"read sql:prod/Shop/Orders"}),
        ('SELECT * FROM shop."a/b"', {"read sql:prod/shop/a%2Fb"}),
        ("SELECT * FROM shop.orders o JOIN shop.users u ON o.u = u.id", {READS, "read sql:prod/shop/users"}),
        ("SELECT * FROM a WHERE x IN (SELECT y FROM shop.orders)", {READS, "read sql:prod/public/a"}),
        ("SELECT (SELECT max(x) FROM shop.orders)", {READS}),
        ("SELECT 1 UNION ALL SELECT x FROM shop.orders", {READS}),
        ("WITH a AS (SELECT * FROM shop.orders) SELECT * FROM a", {READS}),
        ("WITH orders AS (SELECT * FROM orders) SELECT * FROM orders", {"read sql:prod/public/orders"}),
        ("WITH a AS (SELECT * FROM b), b AS (SELECT 1) SELECT * FROM a, b", {"read sql:prod/public/b"}),
        ("WITH a AS (SELECT 1) SELECT * FROM shop.a", {"read sql:prod/shop/a"}),
        (
            "WITH gone AS (DELETE FROM shop.orders RETURNING *) SELECT * FROM gone",
            {"delete sql:prod/shop/orders"},
        ),
        ("INSERT INTO shop.orders (a) VALUES (1) ON CONFLICT DO NOTHING", {"write sql:prod/shop/orders"}),
        (
            "INSERT INTO shop.copy SELECT * FROM shop.orders",
            {"write sql:prod/shop/copy", READS},
        ),
        (
            "UPDATE shop.orders SET a = 1 FROM shop.users u WHERE u.id = 1",
            {"write sql:prod/shop/orders", "read sql:prod/shop/users"},
        ),
        ("DELETE FROM shop.orders", {"delete sql:prod/shop/orders"}),
        ("TRUNCATE shop.orders, shop.users", {"delete sql:prod/shop/orders", "delete sql:prod/shop/users"}),
        (
            "SELECT 1; DROP TABLE shop.orders",
            {"administer sql:prod/shop/orders", "delete sql:prod/shop/orders"},
        ),
        (
            "DROP TABLE IF EXISTS a, shop.b",
            {
                *("administer sql:prod/public/a", "delete sql:prod/public/a"),
                *("administer sql:prod/shop/b", "delete sql:prod/shop/b"),
            },
        ),
        ("DROP SCHEMA shop CASCADE", {"administer sql:prod/shop/**", "delete sql:prod/shop/**"}),
        (
            "CREATE TABLE shop.copy AS SELECT * FROM shop.orders",
            {"administer sql:prod/shop/copy", READS},
        ),
        ("SELECT * INTO shop.copy FROM shop.orders", {"administer sql:prod/shop/copy", READS}),
        ("ALTER TABLE shop.orders ADD COLUMN c int", {"administer sql:prod/shop/orders"}),
        ("SELECT 'DROP TABLE x; -- y' FROM shop.orders -- a note\n", {READS}),
        (
            "MERGE INTO shop.orders USING shop.users ON true WHEN MATCHED THEN DELETE",
            {"write sql:prod/shop/orders", "delete sql:prod/shop/orders", "read sql:prod/shop/users"},
        ),
    ],
)
def test_accesses(text: str, expected: set[str]) -> None:
    assert accesses(text) == expected


@pytest.mark.parametrize(
    ("dialect", "text", "expected"),
    [
        ("mysql", "SELECT * FROM shop.Orders", {"read sql:prod/shop/Orders"}),
        ("mysql", "UPDATE a JOIN b ON 1 SET a.x = 1", {"write sql:prod/public/a", "write sql:prod/public/b"}),
        ("sqlite", "SELECT * FROM Main.Orders", {"read sql:prod/main/orders"}),
        ("snowflake", "SELECT * FROM shop.orders", {"read sql:prod/SHOP/ORDERS"}),
    ],
)
def test_names_fold_as_the_dialect_folds_them(dialect: str, text: str, expected: set[str]) -> None:
    connection = Connection(database="prod", dialect=dialect, default_schema="public")
    assert accesses(text, connection) == expected


@pytest.mark.parametrize(
    ("dialect", "text"),
    [
        ("postgres", "SELECT pg_read_file('/etc/passwd')"),
        ("postgres", "SELECT * FROM dblink('x', 'y')"),
        ("postgres", "COPY shop.orders TO PROGRAM 'cat'"),
        ("postgres", "COPY shop.orders FROM '/tmp/x'"),
        ("postgres", "DO $$ BEGIN DELETE FROM shop.orders; END $$"),
        ("postgres", "CALL f(1)"),
        ("postgres", "SELECT * FROM generate_series(1, 3)"),
        ("postgres", "DROP FUNCTION f"),
        ("postgres", "SET ROLE admin"),
        ("postgres", "EXPLAIN ANALYZE DELETE FROM shop.orders"),
        ("postgres", "GRANT ALL ON shop.orders TO bob"),
        ("postgres", "CREATE FUNCTION f() RETURNS int AS $$ select 1 $$ LANGUAGE sql"),
        ("postgres", "CREATE EXTENSION dblink"),
        ("postgres", "SELECT /* a comment /* that nests */ 1 */ 2"),
        ("postgres", "SELECT 'a\\'; DROP TABLE shop.orders; SELECT 'b'"),
        ("postgres", "SELECT * FROM other.shop.orders"),
        ("postgres", "SELECT * FROM shop.orders WHERE"),
        ("postgres", "not sql at all"),
        ("postgres", ""),
        ("postgres", ";"),
        ("postgres", "SELECT 1" * 3000),
        ("postgres", "SELECT " + "(" * 65 + "1" + ")" * 65),
        ("postgres", "SELECT 1 " + "; SELECT 1" * 33),
        ("postgres", "SELECT a\u0000b"),
        ("postgres", 'SELECT * FROM "a\u200bb"'),
        ("mysql", "SELECT /*! 1; DROP TABLE x */ 2"),
        ("mysql", "SELECT 1 --1"),
        ("mysql", "SELECT * FROM t INTO OUTFILE '/tmp/x'"),
        ("mysql", "LOAD DATA INFILE 'x' INTO TABLE t"),
        ("mysql", "USE other"),
        ("sqlite", "ATTACH DATABASE 'x' AS y"),
        ("sqlite", "PRAGMA writable_schema = 1"),
        ("sqlite", "SELECT load_extension('x')"),
        ("tsql", "EXEC xp_cmdshell 'dir'"),
        # More than what they name.
        ("postgres", "DROP TABLE a CASCADE"),
        ("postgres", "TRUNCATE a CASCADE"),
        ("postgres", "DROP DATABASE x"),
        ("bigquery", "SELECT * FROM d.`t*`"),
        ("tsql", "INSERT INTO a OUTPUT inserted.x INTO b VALUES (1)"),
        ("tsql", "UPDATE a SET x = 1 OUTPUT deleted.x INTO b"),
        # Statements that a parser takes for columns and for other names.
        *(("postgres", text) for text in ("LISTEN x", "NOTIFY x", "DISCARD ALL", "SAVEPOINT x")),
        *(("sqlite", text) for text in ("REINDEX", "REINDEX a")),
        *(("tsql", text) for text in ("SELECT 1 SHUTDOWN", "SELECT * FROM a CHECKPOINT", "sp_who")),
        ("bigquery", "ASSERT TRUE"),
        # Targets that are no table's name.
        ("tsql", "DELETE TOP (1) FROM a"),
        ("tsql", "WITH x AS (SELECT * FROM a) DELETE FROM x"),
        ("tsql", "WITH x AS (SELECT * FROM a) UPDATE x SET y = 1"),
    ],
)
def test_not_understood(dialect: str, text: str) -> None:
    found = analyse_sql(text, Connection(database="prod", dialect=dialect, default_schema="public"))
    assert isinstance(found, NotCanonical), found
    assert not found.understood


@pytest.mark.parametrize(
    ("dialect", "text", "expected"),
    [
        ("mysql", "DELETE x FROM a AS x JOIN b", {"delete sql:prod/public/a"}),
        ("mysql", "DELETE FROM x USING a AS x JOIN b", {"delete sql:prod/public/a"}),
        ("tsql", "DELETE x FROM a x JOIN b ON 1 = 1", {"delete sql:prod/public/a"}),
        ("tsql", "UPDATE x SET y = 1 FROM a x JOIN b ON 1 = 1", {"write sql:prod/public/a"}),
        (
            "sqlite",
            "INSERT OR REPLACE INTO a VALUES (1)",
            {"write sql:prod/public/a", "delete sql:prod/public/a"},
        ),
        (
            "postgres",
            "ALTER TABLE a RENAME TO b",
            {"administer sql:prod/public/a", "administer sql:prod/public/b"},
        ),
        ("postgres", "SELECT * FROM pg_shadow", {"read sql:prod/pg_catalog/pg_shadow"}),
        ("postgres", "SELECT * FROM PG_SHADOW", {"read sql:prod/pg_catalog/pg_shadow"}),
    ],
)
def test_what_is_changed_is_what_a_name_stands_for(dialect: str, text: str, expected: set[str]) -> None:
    found = analyse_sql(text, Connection(database="prod", dialect=dialect, default_schema="public"))
    assert not isinstance(found, NotCanonical), found
    assert expected <= {f"{one.verb} {one.resource.uri}" for one in found}


def test_without_a_default_schema_a_bare_name_is_not_understood() -> None:
    found = analyse_sql("SELECT * FROM orders", Connection(database="prod", dialect="postgres"))
    assert isinstance(found, NotCanonical)
    assert found.code == "sql.schema"


def test_every_name_on_the_list_is_a_class_of_the_parser() -> None:
    """A name that the parser lost would silently make what it stood for opaque."""
    known = {name for name in dir(exp) if isinstance(getattr(exp, name), type)}
    assert sorted(UNDERSTOOD - known) == []


@given(
    st.text(alphabet="SELECT FROM shop.orders WHERE ()';--\"1,*x\n", max_size=60),
    st.sampled_from(sorted(DIALECTS)),
)
def test_total_and_the_same_every_time(text: str, dialect: str) -> None:
    connection = Connection(database="prod", dialect=dialect, default_schema="public")
    assert analyse_sql(text, connection) == analyse_sql(text, connection)


def test_a_statement_leaves_nothing_to_the_garbage_collector() -> None:
    accesses("SELECT 0 FROM shop.orders")  # what the parser makes once for each dialect
    gc.collect()
    gc.disable()
    try:
        accesses("WITH a AS (SELECT * FROM b) DELETE FROM shop.orders WHERE x IN (SELECT x FROM a)")
        assert gc.collect() == 0
    finally:
        gc.enable()

"""One literal or more of every type that a rule can name, and what rules ask of literals.

The yardstick gets its entities from here by other ways than the engine does: by kind, not by type.
"""

from collections.abc import Iterable, Mapping
from random import Random
from typing import Final

from authz.core.canonical import canonicalize
from authz.core.canonical.host import domain_resource
from authz.core.canonical.program import program_resource
from authz.core.canonical.repo import named_repo
from authz.core.canonical.sql_names import table_resource
from authz.core.cedar_schema import ENTITY_ATTRIBUTES
from authz.model.resource import Base, NotCanonical, Resource
from tests.cases.served import SHELL
from tests.support.world import TEXT, TOOLS, tool, tool_file

GIT: Final = tool_file(
    "git",
    tool("pull", [{"verb": "read", "kind": "repo", "at": "/remote"}], {"remote": TEXT}),
    tool("push", [{"verb": "write", "kind": "repo", "at": "/remote"}], {"remote": TEXT}),
)
_SQL: Final = {"verb": "execute", "kind": "sql", "at": "/sql", "database": "prod", "dialect": "postgres"}
DB: Final = tool_file(
    "db",
    tool(
        "execute",
        [{**_SQL, "default_schema": "shop"}],
        {"sql": TEXT},
        roles={"/sql": "command"},
        side_effect="cumulative",
    ),
)
ALL_TOOLS: Final[Mapping[str, str]] = {**TOOLS, "shell": SHELL, "git": GIT, "db": DB}
"""Tools whose accesses are of every type of resources."""

LITERALS: Final[Mapping[str, tuple[str, ...]]] = {
    "File": ("/workspace", "/workspace/p0/f0", "/etc/f1"),
    "Directory": ("/", "/workspace", "/workspace/p0", "/etc"),
    "Endpoint": ("https://example.com/a", "https://example.com/a/b?x=1", "http://s0.example.com:8080/"),
    "UrlPath": ("https://example.com/", "https://example.com/a", "https://example.com/a/b"),
    "Host": ("example.com", "example.com:443", "git.example.com", "10.0.0.1", "::1"),
    "Domain": ("com", "example.com", "git.example.com"),
    "Mailbox": ("ada@example.com", "ops@mail.example.com"),
    "Object": ("account:acct-0", "iban:DE89370400440532013000"),
    "ObjectType": ("account", "iban"),
    "Program": ("git", "git/push", "git/status", "curl", "unheard-of"),
    "Repo": ("git.example.com", "git.example.com/team", "git.example.com/team/app"),
    "Branch": ("git.example.com/team/app#main", "git.example.com/team/app#refs/tags/v1"),
    "Table": ("prod/shop/orders", "prod/shop/users", "prod/hr/people"),
    "Schema": ("prod/shop", "prod/hr"),
    "Database": ("prod", "dev"),
}
"""Ids by type; many lie in others."""
COMMANDS: Final = (
    "git push https://git.example.com/team/app main",
    "git status",
    "git unheard-of",
    "unheard-of --now",
    "curl https://example.com/a",
    "rm -r /workspace/p0",
)
STATEMENTS: Final = (
    "SELECT id FROM orders",
    "DELETE FROM users WHERE id = 1",
    "UPDATE hr.people SET a = 1",
    "DROP TABLE orders",
)
REMOTES: Final = (
    "https://git.example.com/team/app",
    "git@git.example.com:team/app.git#main",
    "https://git.example.com/other",
)


def pairs() -> Iterable[tuple[str, str]]:
    """Every literal of `LITERALS` as type and id."""
    return ((kind, name) for kind, names in LITERALS.items() for name in names)


def cedar(kind: str, name: str) -> str:
    """A literal as rules write it."""
    return f'{kind}::"{name}"'


def questions(kind: str, name: str) -> list[str]:
    """Conditions that look at every attribute of a literal: each holds, does not hold, or errs."""
    one = cedar(kind, name)
    found = []
    for attribute, of in ENTITY_ATTRIBUTES[kind].items():
        match of:
            case "Bool":
                found.append(f"{one}.{attribute}")
            case "Long":
                found.append(f"{one}.{attribute} > 80")
            case "String":
                found.append(f'{one}.{attribute} like "*o*"')
            case _:
                found.append(f'{one}.{attribute}.contains("workspace")')
    return found


def random_condition(random: Random) -> str:
    """One condition that looks into a literal of any type."""
    every = list(pairs())
    one = random.choice(every)
    asked = questions(*one)
    if asked and random.random() < 0.4:
        return random.choice(asked)
    # Mostly of a type that it can be in: the others are false whatever is loaded.
    near = [other for other in every if other != one and other[0] in _ABOVE[one[0]]]
    other = random.choice(near if near and random.random() < 0.9 else every)
    return f"{cedar(*one)} in {cedar(*other)}"


_ABOVE: Final[Mapping[str, frozenset[str]]] = {
    "File": frozenset({"Directory"}),
    "Directory": frozenset({"Directory"}),
    "Endpoint": frozenset({"UrlPath", "Host", "Domain"}),
    "UrlPath": frozenset({"UrlPath", "Host", "Domain"}),
    "Host": frozenset({"Host", "Domain"}),
    "Domain": frozenset({"Domain"}),
    "Mailbox": frozenset({"Domain"}),
    "Object": frozenset({"ObjectType"}),
    "ObjectType": frozenset(),
    "Program": frozenset({"Program"}),
    "Repo": frozenset({"Repo", "Host", "Domain"}),
    "Branch": frozenset({"Repo", "Host", "Domain"}),
    "Table": frozenset({"Schema", "Database"}),
    "Schema": frozenset({"Database"}),
    "Database": frozenset(),
}


def resources() -> Iterable[Resource]:
    """A resource around every literal of `LITERALS`: it is in the chain of one of these."""
    ids = LITERALS
    for kind, type_ in (("path", "File"), ("path", "Directory"), ("url", "Endpoint"), ("url", "UrlPath")):
        yield from (_one(canonicalize(kind, name, Base())) for name in ids[type_])
    for kind, type_ in (("host", "Host"), ("email", "Mailbox")):
        yield from (_one(canonicalize(kind, name, Base())) for name in ids[type_])
    for name in ids["Object"]:
        object_type, _, value = name.partition(":")
        yield _one(canonicalize("id", value, Base(), object_type=object_type))
    yield from (_one(domain_resource(name)) for name in ids["Domain"])
    yield from (_one(program_resource(name)) for name in ids["Program"])
    yield from (_one(named_repo(name)) for name in (*ids["Repo"], *ids["Branch"]))
    for name in (*ids["Table"], *ids["Schema"], *ids["Database"]):
        database, *below = name.split("/")
        yield table_resource(database, tuple(below))


def _one(found: tuple[Resource, ...] | Resource | NotCanonical) -> Resource:
    assert not isinstance(found, NotCanonical)
    if isinstance(found, Resource):
        return found
    (resource,) = found
    return resource

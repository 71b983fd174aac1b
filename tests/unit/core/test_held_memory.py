"""What is remembered is bounded by what it takes of memory, whoever asks for what (spec section 4)."""

import gc
import importlib
import pkgutil
import string
import sys
from collections.abc import Iterator
from functools import _lru_cache_wrapper
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any

import pytest

import authz.core
from authz.core.canonical import canonicalize
from authz.core.canonical.shell import MAX_REMEMBERED_BYTES, ShellAccess, analyse_shell
from authz.core.canonical.shell import _remembered as lines
from authz.core.canonical.sql import Connection, analyse_sql
from authz.core.canonical.sql import _remembered as statements
from authz.core.claims import check_claims
from authz.core.lines import Line
from authz.core.pointer import parse_pointer
from authz.core.policy import places
from authz.core.remembered import Remembered
from authz.model.call import Claims
from authz.model.caller import Profile
from authz.model.resource import Base, Entity
from authz.workers.shell_wire import decode_accesses, encode_accesses
from tests.support.world import world

MEGABYTE = 1024 * 1024
NAMES = [*string.ascii_letters, *(a + b for a in string.ascii_lowercase for b in string.ascii_lowercase)]
LONG = "/".join("abcdefghijklmno" for _ in range(240))
DEEP = "/".join("a" for _ in range(95))
SHOP = Connection(database="shop", dialect="postgres", default_schema="public")
NO_DATA = (type, FunctionType, BuiltinFunctionType, ModuleType, _lru_cache_wrapper)


def caches() -> dict[str, Any]:
    """Everything in the core that remembers results, by name."""
    found: dict[int, tuple[str, Any]] = {}
    for info in pkgutil.walk_packages(authz.core.__path__, "authz.core."):
        for name, value in vars(importlib.import_module(info.name)).items():
            if isinstance(value, _lru_cache_wrapper | Remembered):
                found.setdefault(id(value), (f"{info.name}.{name}", value))
    return dict(found.values())


def held(cache: Any) -> Iterator[Any]:
    """Every piece of data that a cache holds, once."""
    pending = [cache]
    seen: set[int] = set()
    while pending:
        one = pending.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        if one is not cache:
            yield one
        pending += [part for part in gc.get_referents(one) if not isinstance(part, NO_DATA)]


def attack(number: int) -> None:
    """One request of somebody who wants the service to run out of memory."""
    # The longest take a megabyte each. Others are the deepest that are short, and usual ones.
    longest = [LONG] if number % 20 == 0 else []
    for cwd in (f"/{place}/{number}" for place in (*longest, DEEP, DEEP[:39])):
        base = Base(cwd=cwd, root=cwd, home=cwd)
        analyse_shell(f"cat {' '.join(NAMES[:2])} *.x{number}; p{number}", base)
        canonicalize("path", f"x{number}", base)
        check_claims(Claims(cwd=cwd, sandbox_root=cwd), Profile(name="p", sandboxes=("/",)))
    for segments in (*longest, DEEP[:150], "a/b/c/d"):
        canonicalize("url", f"https://h{number}.{'a.' * 40}example.com/{number}/{segments}", Base())
        canonicalize("url", f"https://h{number}.example.com/{number}/{segments}", Base())
    canonicalize("host", f"{'a.' * 12}h{number}.example.com", Base())
    analyse_sql(f"select a from {', '.join(f't{number}_{table}' for table in range(9))}", SHOP)
    analyse_sql(f"select a from t{number}", SHOP)
    parse_pointer(f"/{number}/{LONG}")
    parse_pointer(f"/{number}/{DEEP[:100]}")


def test_nothing_that_is_asked_for_fills_memory() -> None:
    for number in range(1100):
        attack(number)
    found = caches()
    assert len(found) > 15
    sizes = {
        name: sum(map(sys.getsizeof, held(cache))) / MEGABYTE
        for name, cache in found.items()
        # By what is in the program or a bundle, never by what is asked for.
        if not name.endswith((".options.spec", ".sql_statement.dialect_of"))
    }
    assert {name: size for name, size in sizes.items() if size > 20} == {}
    assert sum(sizes.values()) < 64
    # It was worth the trouble: each of these is full.
    assert sizes["authz.core.canonical.shell._remembered"] > 0.5
    assert sizes["authz.core.canonical.path._known_chain"] > 0.4


def test_what_a_line_is_said_to_take_is_no_less_than_it_takes() -> None:
    """What lines share would be counted for each of them, so it is one at a time."""
    for text, cwd in (
        ("ls", "/w"),
        ("cat a b c *.md; git push https://git.example.com/a/b main; curl https://x.example.com/é", "/w/é/b"),
        (f"cat {' '.join(NAMES[:5])}", f"/{DEEP[:30]}"),
    ):
        lines.clear()
        analyse_shell(text, Base(cwd=cwd))
        assert len(lines) == 1
        assert lines.held_bytes >= sum(map(sys.getsizeof, held(lines))), text


def test_a_long_directory_is_not_remembered_and_a_short_one_is() -> None:
    lines.clear()
    analyse_shell("ls", Base(cwd="/w"))
    assert len(lines) == 1
    analyse_shell(f"cat {' '.join(NAMES[:80])}", Base(cwd=f"/{LONG}"))
    assert len(lines) == 1
    assert analyse_shell("ls", Base(cwd="/w")) is analyse_shell("ls", Base(cwd="/w"))


def test_a_statement_with_many_tables_is_not_remembered() -> None:
    statements.clear()
    analyse_sql("select 1", SHOP)
    assert len(statements) == 1
    analyse_sql(f"select 1 from {', '.join(f't{table}' for table in range(300))}", SHOP)
    assert len(statements) == 1


def entities(accesses: tuple[ShellAccess, ...]) -> set[int]:
    return {id(entity) for access in accesses for entity in access.resource.chain}


def test_the_files_of_a_line_share_the_folders_that_they_lie_in() -> None:
    base = Base(cwd=f"/{LONG}")
    text = f"cat {' '.join(NAMES[:85])}"
    found = analyse_shell(text, base)
    assert isinstance(found, tuple)
    assert len(found) > 85
    # Two for each file, those above all of them, and the program.
    assert len(entities(found)) <= 2 * 85 + 241 + 2
    again = decode_accesses(encode_accesses(found), Line(text=text, base=base, confined=False))
    assert again == found
    assert len(entities(again)) <= 2 * 85 + 241 + 2


@pytest.mark.parametrize("size", [1, 7, 49])
def test_the_bound_holds_whatever_comes(size: int) -> None:
    kept: Remembered[int] = Remembered(max_bytes=100, max_entry_bytes=49)
    for number in range(1000):
        kept.put(number, number, size)
        assert kept.held_bytes <= 100
        assert kept.get(number) == number
    kept.put("big", 1, 51)
    assert kept.get("big") is None
    assert len(kept) >= 100 // size // 2


def test_what_is_used_stays() -> None:
    kept: Remembered[str] = Remembered(max_bytes=100, max_entry_bytes=10)
    kept.put("used", "x", 10)
    for number in range(1000):
        kept.put(number, "y", 10)
        assert kept.get("used") == "x"
    assert kept.get(0) is None


def test_the_bound_on_lines_is_one_on_bytes() -> None:
    lines.clear()
    for number in range(3000):
        analyse_shell(f"cat {' '.join(NAMES[:4])}", Base(cwd=f"/{DEEP[:30]}/{number}"))
        if number % 500 == 0:
            assert lines.held_bytes <= MAX_REMEMBERED_BYTES
    assert lines.held_bytes <= MAX_REMEMBERED_BYTES
    assert sum(isinstance(one, Entity) for one in held(lines)) < 100_000


def test_places_beneath_a_long_root_are_not_remembered() -> None:
    engine = world('@id("a") forbid (principal, action, resource in Directory::"/w/a");').engine
    known: places.NamedPlaces = engine._places
    names = frozenset({"read"})
    for root in ("/w", f"/{LONG}"):
        found = canonicalize("path", root, Base())
        assert isinstance(found, tuple)
        known.beneath(names, found[0])
    assert [key[2][1] for key in known._beneath] == ["/w"]

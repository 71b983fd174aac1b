"""What holds of every log: one line under concurrency, and whatever is done to it is noticed (AU2).

The chain by itself (any change of any field is found, a valid log is never accused) is in
`tests/unit/core/test_log_chain.py`; that nothing is reported while a server writes, in
`tests/store/test_log_verify.py`. Here it is the database of a service that many callers used at once.
"""

import asyncio
import contextlib
import io
import json
import shutil
import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from authz.cli import log_verify
from authz.core.log_chain import record_hash
from tests.support.command import run_command
from tests.support.service import Service
from tests.support.world import world

RULES: Final = """
@id("work") permit (principal, action, resource in Directory::"/workspace");
@id("money") permit (principal, action in Action::"transact", resource);
@id("money-asks") @requires("approval") forbid (principal, action in Action::"transact", resource);
"""
ASKED: Final[tuple[tuple[str, dict[str, Any]], ...]] = (
    ("fs/file_edit", {"path": "/workspace/a", "text": "x"}),
    ("fs/file_read", {"path": "/etc/a"}),
    ("bank/transfer", {"to": "a", "amount": 1}),
    ("fs/nothing", {}),
    ("fs/file_edit", {"path": 1}),
)


def verified(folder: Path) -> dict[str, Any]:
    """What `authz log verify` says of the log in a data directory."""
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        arguments = ("--data-dir", str(folder), "--jwks", str(folder / "jwks.json"), "--json")
        code = run_command(log_verify, *arguments)
    report: dict[str, Any] = json.loads(said.getvalue())
    assert code == (1 if report["findings"] else 0)
    return report


CALLERS: Final = 8


@dataclass(frozen=True)
class Log:
    """A log that a service wrote for many callers at once, and that nobody writes any more."""

    folder: Path
    records: int


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Log:
    folder = tmp_path_factory.mktemp("log")

    async def write() -> None:
        async with Service.running(folder, {"default": world(RULES)}) as service:
            keys = [await service.add_key(f"k{number}", "decide") for number in range(CALLERS)]

            async def ask(headers: dict[str, str]) -> None:
                for name, arguments in ASKED:
                    await service.decide(service.body(name, arguments), headers)

            await asyncio.gather(*(ask(headers) for headers in keys))
            jwks = await service.client.get("/.well-known/jwks.json")
            (folder / "jwks.json").write_bytes(jwks.content)

    asyncio.run(write())
    return Log(folder, CALLERS * len(ASKED))


def test_au2_many_callers_leave_one_line(log: Log) -> None:
    report = verified(log.folder)
    assert (report["findings"], report["records"]) == ([], log.records)
    with contextlib.closing(sqlite3.connect(log.folder / "authz.db")) as database:
        rows = database.execute("SELECT sequence, hash, text FROM events ORDER BY sequence").fetchall()
    assert [sequence for sequence, _, _ in rows] == list(range(1, log.records + 1))
    previous = [json.loads(text)["previous"] for _, _, text in rows]
    assert previous[1:] == [stored for _, stored, _ in rows[:-1]]


Change = Callable[[sqlite3.Connection], object]


def changed_text(database: sqlite3.Connection, sequence: int, place: int, new: str) -> None:
    ((text,),) = database.execute("SELECT text FROM events WHERE sequence = ?", (sequence,)).fetchall()
    place %= len(text)
    other = new if text[place] != new else "~"
    database.execute(
        "UPDATE events SET text = ? WHERE sequence = ?", (text[:place] + other + text[place + 1 :], sequence)
    )


def hashed_again(database: sqlite3.Connection, first: int) -> None:
    """Another effect in one record, and every hash after it as if it had always been so; the head as well."""
    rows = database.execute("SELECT sequence, text, hash FROM events ORDER BY sequence").fetchall()
    previous = rows[first - 2][2] if first > 1 else json.loads(rows[0][1])["previous"]
    for sequence, text, _ in rows[first - 1 :]:
        body = json.loads(text)
        new = text.replace(body["previous"], previous)
        if sequence == first:
            new = new.replace('"dry_run":false', '"dry_run":true')
        previous = record_hash(previous, new)
        database.execute("UPDATE events SET text = ?, hash = ? WHERE sequence = ?", (new, previous, sequence))
    database.execute("UPDATE log_heads SET hash = ?", (previous,))


def cut_off(database: sqlite3.Connection, kept: int) -> None:
    """The newest records gone, with the heads set back and no checkpoint left."""
    database.execute("DELETE FROM events WHERE sequence > ?", (kept,))
    found = database.execute("SELECT hash FROM events WHERE sequence = ?", (kept,)).fetchone()
    if found is None:
        database.execute("DELETE FROM log_heads")
    else:
        database.execute("UPDATE log_heads SET sequence = ?, hash = ?", (kept, found[0]))
    database.execute("DELETE FROM log_checkpoints")


def swapped(database: sqlite3.Connection, one: int, other: int) -> None:
    database.execute("UPDATE events SET sequence = -1 WHERE sequence = ?", (one,))
    database.execute("UPDATE events SET sequence = ? WHERE sequence = ?", (one, other))
    database.execute("UPDATE events SET sequence = ? WHERE sequence = -1", (other,))


@st.composite
def changes(draw: st.DrawFn, records: int) -> Change:
    """Something that whoever may write the file can do to the log."""
    one = draw(st.integers(1, records))
    match draw(st.sampled_from(["text", "hash", "gone", "swap", "cut", "again", "column", "checkpoint"])):
        case "text":
            place, new = draw(st.integers(0, 5000)), draw(st.sampled_from([*'a0"}{ \n', "é", ""]))
            return lambda database: changed_text(database, one, place, new)
        case "hash":
            return lambda database: database.execute(
                "UPDATE events SET hash = replace(hash, substr(hash, 9, 1), '~') WHERE sequence = ?", (one,)
            )
        case "gone":
            some = draw(st.sets(st.integers(1, records), min_size=1, max_size=4))
            return lambda database: database.executemany(
                "DELETE FROM events WHERE sequence = ?", [(each,) for each in some]
            )
        case "swap":
            other = draw(st.integers(1, records).filter(lambda number: number != one))
            return lambda database: swapped(database, one, other)
        case "cut":
            return lambda database: cut_off(database, one - 1)
        case "again":
            return lambda database: hashed_again(database, one)
        case "column":
            column = draw(
                st.sampled_from(["agent", "effect", "tool", "decision_id", "tenant", "rules", "writer"])
            )
            return lambda database: database.execute(
                f"UPDATE events SET {column} = 'other' WHERE sequence = ?",
                (one,),
            )
        case _:
            return lambda database: database.execute("UPDATE log_checkpoints SET token = token || 'A'")


TRIGGERS: Final = [
    f"{table}_no_{verb}" for table in ("events", "log_checkpoints") for verb in ("update", "delete")
]


@contextlib.contextmanager
def copied(log: Log) -> Iterator[tuple[Path, sqlite3.Connection]]:
    """A copy of the log that can be written."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "copy"
        shutil.copytree(log.folder, folder)
        with contextlib.closing(sqlite3.connect(folder / "authz.db", isolation_level=None)) as database:
            for trigger in TRIGGERS:
                database.execute(f"DROP TRIGGER {trigger}")
            yield folder, database


@settings(max_examples=60)
@given(data=st.data())
def test_au2_whatever_is_done_to_a_log_is_noticed(log: Log, data: st.DataObject) -> None:
    """By the chain, by the checkpoints, or by the anchor beside the database."""
    done = data.draw(st.lists(changes(log.records), min_size=1, max_size=2))
    with copied(log) as (folder, database):
        before = "\n".join(database.iterdump())
        # The second of two may find nothing left to change.
        with contextlib.suppress(TypeError, ValueError, IndexError, sqlite3.Error):
            for change in done:
                change(database)
        # Two changes can undo each other.
        assume("\n".join(database.iterdump()) != before)
        assert verified(folder)["findings"]


def test_au2_a_copy_that_was_left_alone_is_not_accused(log: Log) -> None:
    with copied(log) as (folder, _):
        assert verified(folder)["findings"] == []

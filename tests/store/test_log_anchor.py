"""A log whose checkpoints were taken away is not called whole, and a clean copy of it verifies alone."""

import asyncio
import contextlib
import json
import os
import shutil
import sqlite3
import stat
from collections.abc import Sequence
from pathlib import Path

import pytest

from authz.cli import log_verify
from authz.core.log_verify import MAX_UNCOVERED_MS, MAX_UNCOVERED_RECORDS
from authz.errors import LogCorrupt
from authz.store.anchor_file import AnchorFile
from authz.store.group_commit import CommitLimits
from authz.store.keys import ServiceKeys
from authz.store.sqlite import DEFAULT_LIMITS, SqliteLedger
from tests.store.world import QUIET, Clock, unit
from tests.support.command import run_command

EMPTY = (
    "DELETE FROM log_checkpoints",
    "DELETE FROM events",
    "UPDATE log_heads SET sequence = 0, hash = 'x'",
)


async def write(
    directory: Path, records: int, *, step_ms: int = 1, limits: CommitLimits = QUIET
) -> ServiceKeys:
    """A log in `directory`, closed cleanly."""
    keys = ServiceKeys.load_or_create(directory / "keys.json")
    clock = Clock(step_ms=step_ms)
    async with SqliteLedger.open(directory / "authz.db", clock=clock, signer=keys, limits=limits) as ledger:
        await asyncio.gather(*(ledger.commit(unit(number)) for number in range(records // 2)))
        await asyncio.gather(*(ledger.commit(unit(number)) for number in range(records // 2, records)))
    return keys


def tamper(directory: Path, *statements: str) -> None:
    with contextlib.closing(sqlite3.connect(directory / "authz.db", isolation_level=None)) as connection:
        for table in ("events", "log_checkpoints"):
            for verb in ("update", "delete"):
                connection.execute(f"DROP TRIGGER IF EXISTS {table}_no_{verb}")
        for statement in statements:
            connection.execute(statement)


def verify(directory: Path, capsys: pytest.CaptureFixture[str], *arguments: str) -> list[tuple[int, str]]:
    code = run_command(log_verify, "--data-dir", str(directory), "--json", *arguments)
    output = json.loads(capsys.readouterr().out)
    assert code == (1 if output["findings"] else 0)
    return [(finding["sequence"], finding["kind"]) for finding in output["findings"]]


async def test_a_clean_stop_leaves_all_in_one_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    await write(tmp_path, 20)
    assert not (tmp_path / "authz.db-wal").exists()
    copy = tmp_path / "copy"
    copy.mkdir()
    for name in ("authz.db", "keys.json"):
        shutil.copy(tmp_path / name, copy / name)
    assert verify(copy, capsys) == []
    assert run_command(log_verify, "--data-dir", str(copy)) == 0
    said = capsys.readouterr().out
    assert "20 records by 1 writer: whole and in order." in said
    assert "There is no anchor file" in said


@pytest.mark.parametrize(
    ("records", "step_ms", "expected"),
    [
        pytest.param(20, 1, [], id="a few of the last seconds"),
        pytest.param(20, MAX_UNCOVERED_MS, [(1, "checkpoint_missing")], id="written over a long time"),
        pytest.param(MAX_UNCOVERED_RECORDS, 1, [], id="as many as may be"),
        pytest.param(MAX_UNCOVERED_RECORDS + 1, 1, [(1, "checkpoint_missing")], id="too many"),
        pytest.param(20, -MAX_UNCOVERED_MS, [], id="a clock that goes back"),
    ],
)
async def test_records_without_a_checkpoint(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    records: int,
    step_ms: int,
    expected: Sequence[tuple[int, str]],
) -> None:
    limits = CommitLimits(max_waiting=10**5, checkpoint_records=10**9, checkpoint_seconds=1e9)
    # Two batches at least, so that there are two times; each look at the clock is a step.
    await write(tmp_path, records, step_ms=step_ms * 4, limits=limits)
    tamper(tmp_path, "DELETE FROM log_checkpoints")
    AnchorFile(tmp_path / "authz.db").path.unlink()
    assert verify(tmp_path, capsys) == expected


def test_the_bounds_leave_room_for_a_service() -> None:
    assert DEFAULT_LIMITS.checkpoint_records + DEFAULT_LIMITS.max_batch < MAX_UNCOVERED_RECORDS
    assert DEFAULT_LIMITS.checkpoint_seconds * 1000 < MAX_UNCOVERED_MS


async def test_what_a_killed_service_left_is_covered_before_anything_new(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    keys = await write(tmp_path, 4)
    tamper(tmp_path, "DELETE FROM log_checkpoints")  # as if it had been killed before the first
    database = tmp_path / "authz.db"
    AnchorFile(database).path.unlink()
    clock = Clock()
    clock.at_ms += 10 * MAX_UNCOVERED_MS
    async with SqliteLedger.open(database, clock=clock, signer=keys, limits=QUIET) as ledger:
        await ledger.commit(unit(5))
        assert await asyncio.to_thread(verify, tmp_path, capsys) == []


async def test_a_wiped_log_with_an_anchor(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    await write(tmp_path, 6)
    tamper(tmp_path, *EMPTY, "DELETE FROM log_heads")
    assert verify(tmp_path, capsys) == [(1, "checkpoint_missing"), (1, "truncated")]
    (tmp_path / "authz.db").unlink()
    new = ServiceKeys.load(tmp_path / "keys.json")
    with pytest.raises(LogCorrupt, match="remove that file"):
        SqliteLedger.open(tmp_path / "authz.db", clock=Clock(), signer=new)
    assert (1, "truncated") in verify(tmp_path, capsys), "the anchor outlives a new database"


async def test_the_anchor_is_the_newest_checkpoint(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    anchor = AnchorFile(tmp_path / "authz.db")
    keys = await write(tmp_path, 2)
    assert sorted(os.listdir(tmp_path)) == ["authz.db", "authz.db.anchor.json", "authz.db.lock", "keys.json"]
    first = anchor.path.read_bytes()
    assert stat.S_IMODE(anchor.path.stat().st_mode) == 0o600
    await write(tmp_path, 2)
    assert anchor.path.read_bytes() != first
    assert verify(tmp_path, capsys) == []

    anchor.path.write_bytes(first)
    assert verify(tmp_path, capsys) == [], "an older one of the same log holds too"

    stranger = ServiceKeys.generate()
    payload = {"schema": 1, "number": 1, "previous": "0", "at": "", "heads": []}
    foreign = stranger.sign({"typ": "log-checkpoint+jwt"}, payload)
    headless = keys.sign({"typ": "log-checkpoint+jwt"}, payload)
    contents = [b"", b"[]", b"\xff", b"{}", b'{"version": 1, "checkpoint": 1}', b'{"version": 2}']
    contents += [json.dumps({"version": 1, "checkpoint": token}).encode() for token in (foreign, headless)]
    for content in contents:
        anchor.path.write_bytes(content)
        assert verify(tmp_path, capsys) == [(0, "anchor_invalid")], content
        with pytest.raises(LogCorrupt):
            SqliteLedger.open(tmp_path / "authz.db", clock=Clock(), signer=keys)


async def test_another_logs_anchor(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    await write(tmp_path / "one", 3)
    shutil.copy(tmp_path / "one" / "keys.json", tmp_path / "two" / "keys.json")
    await write(tmp_path / "two", 3)
    shutil.copy(
        AnchorFile(tmp_path / "one" / "authz.db").path, AnchorFile(tmp_path / "two" / "authz.db").path
    )
    assert verify(tmp_path / "two", capsys) == [(1, "checkpoint_missing"), (1, "truncated")]


async def test_an_anchor_that_cannot_be_written_stops_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    keys = ServiceKeys.load_or_create(tmp_path / "keys.json")
    database = tmp_path / "authz.db"
    async with SqliteLedger.open(database, clock=Clock(), signer=keys, limits=QUIET) as ledger:
        AnchorFile(database).path.mkdir()
        await ledger.commit(unit(1))
    assert "the anchor file could not be written" in caplog.text
    AnchorFile(database).path.rmdir()
    assert verify(tmp_path, capsys) == []


def forbid_shared_memory(directory: Path) -> None:
    """As in a directory without write access: SQLite neither follows this link nor makes the file."""
    (directory / "authz.db-shm").symlink_to(directory / "absent" / "absent")


async def test_a_copy_that_cannot_be_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    await write(tmp_path, 5)
    forbid_shared_memory(tmp_path)
    assert verify(tmp_path, capsys) == []


async def test_a_copy_that_cannot_be_written_with_records_in_the_wal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copy = tmp_path / "copy"
    copy.mkdir()
    keys = ServiceKeys.load_or_create(copy / "keys.json")
    async with SqliteLedger.open(tmp_path / "authz.db", clock=Clock(), signer=keys, limits=QUIET) as ledger:
        await ledger.commit(unit(1))
        for name in ("authz.db", "authz.db-wal"):
            shutil.copy(tmp_path / name, copy / name)
    forbid_shared_memory(copy)
    assert run_command(log_verify, "--data-dir", str(copy)) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert "copy both files" in said.err

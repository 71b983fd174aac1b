"""A log that was signed by several keys in turn verifies offline; a withdrawn key proves nothing alone."""

import asyncio
import contextlib
import json
import shutil
import sqlite3
from pathlib import Path

import jwt
import pytest

from authz.cli import log_verify, signing_keys_export
from authz.core.log_chain import rfc3339_ms
from authz.core.log_checkpoint import CHECKPOINT_TYPE, checkpoint_hash, unverified_heads
from authz.store.key_file import read_key_file
from authz.store.key_rotation import rotate_keys, withdraw_key
from authz.store.keys import ServiceKeys
from authz.store.sqlite import SqliteLedger
from tests.store.world import QUIET, Clock, unit
from tests.support.command import run_command

YEAR_MS = 365 * 86_400_000


async def write(directory: Path, clock: Clock) -> str:
    """Two more records and, as the service ends, a checkpoint; the `kid` that it is signed by."""
    keys = ServiceKeys.load_or_create(directory / "keys.json", clock=lambda: clock.at_ms)
    async with SqliteLedger.open(directory / "authz.db", clock=clock, signer=keys, limits=QUIET) as ledger:
        await asyncio.gather(*(ledger.commit(unit(clock.at_ms + number)) for number in range(2)))
    token = checkpoints(directory)[-1][1]
    kid: str = jwt.get_unverified_header(token)["kid"]
    assert kid == keys.kid
    return kid


def checkpoints(directory: Path) -> list[tuple[int, str]]:
    with contextlib.closing(sqlite3.connect(directory / "authz.db")) as connection:
        return connection.execute("SELECT number, token FROM log_checkpoints ORDER BY number").fetchall()


def rotate(directory: Path, clock: Clock, *, at_once: bool = False) -> None:
    rotate_keys(
        directory / "keys.json",
        now_ms=clock.at_ms,
        publish_seconds=300,
        lifetime_seconds=86_400,
        at_once=at_once,
    )


def verify(directory: Path, capsys: pytest.CaptureFixture[str], *arguments: str) -> list[tuple[int, str]]:
    capsys.readouterr()
    code = run_command(log_verify, "--data-dir", str(directory), "--json", *arguments)
    output = json.loads(capsys.readouterr().out)
    assert code == (1 if output["findings"] else 0)
    return [(finding["sequence"], finding["kind"]) for finding in output["findings"]]


def export(directory: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    capsys.readouterr()
    assert run_command(signing_keys_export, "--data-dir", str(directory)) == 0
    path = directory / "exported.json"
    path.write_text(capsys.readouterr().out)
    return path


async def test_a_log_of_many_keys_verifies_years_later(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    clock, kids = Clock(step_ms=1), []
    for _ in range(3):
        kids.append(await write(tmp_path, clock))
        rotate(tmp_path, clock)
        assert await write(tmp_path, clock) == kids[-1], "published, and not yet used"
        clock.at_ms += YEAR_MS
    kids.append(await write(tmp_path, clock))
    assert len(set(kids)) == 4
    assert verify(tmp_path, capsys) == []

    exported = export(tmp_path, capsys)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    for name in ("authz.db", "authz.db.anchor.json"):
        shutil.copy(tmp_path / name, elsewhere / name)
    assert verify(elsewhere, capsys, "--jwks", str(exported)) == [], "without the key file"
    assert [key["kid"] for key in json.loads(exported.read_text())["keys"]] == kids
    held = [key.signing is not None for key in read_key_file(tmp_path / "keys.json").material.keys.keys]
    assert held == [False, False, False, True], "old keys verify, and can sign no more"

    service = ServiceKeys.load(tmp_path / "keys.json")
    current = tmp_path / "jwks.json"
    current.write_text(json.dumps(service.jwks(clock.at_ms)))
    assert (1, "checkpoint_invalid") in verify(tmp_path, capsys, "--jwks", str(current))


async def test_a_withdrawn_key_holds_only_where_a_later_key_covers_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    clock = Clock(step_ms=1)
    stolen = await write(tmp_path, clock)
    withdraw_key(tmp_path / "keys.json", stolen, now_ms=clock.at_ms)
    for arguments in ((), ("--jwks", str(export(tmp_path, capsys)))):
        assert verify(tmp_path, capsys, *arguments) == [(1, "checkpoint_invalid")]
    clock.at_ms += 1
    assert await write(tmp_path, clock) != stolen
    for arguments in ((), ("--jwks", str(export(tmp_path, capsys)))):
        assert verify(tmp_path, capsys, *arguments) == []


async def test_whoever_has_the_stolen_key_can_neither_rewrite_nor_continue_the_log(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    clock = Clock(step_ms=1)
    await write(tmp_path, clock)
    stolen = ServiceKeys.load(tmp_path / "keys.json", clock=lambda: clock.at_ms)
    withdraw_key(tmp_path / "keys.json", stolen.kid, now_ms=clock.at_ms)
    clock.at_ms += 1
    await write(tmp_path, clock)
    assert verify(tmp_path, capsys) == []
    (_, first), (_, second) = checkpoints(tmp_path)
    at = clock.at_ms

    def forged(number: int, previous: str, of: str) -> str:
        heads = [
            {"writer": head.writer, "sequence": head.sequence, "hash": head.hash}
            for head in unverified_heads(of)
        ]
        payload = {"schema": 1, "number": number, "previous": previous, "heads": heads, "at": rfc3339_ms(at)}
        return stolen.sign({"typ": CHECKPOINT_TYPE}, payload)

    again = forged(1, "0" * 64, first)
    more = forged(3, checkpoint_hash(second), second)
    for number, token, statement, expected in (
        # In the place of an old one: the one after it names another.
        (1, again, "UPDATE log_checkpoints SET token = ?, hash = ?, at_ms = ? WHERE number = ?", 2),
        # After the newest: nothing vouches for it.
        (3, more, "INSERT INTO log_checkpoints (token, hash, at_ms, number) VALUES (?, ?, ?, ?)", 3),
    ):
        copy = tmp_path / f"copy-{number}"
        copy.mkdir()
        for file in ("authz.db", "keys.json", "authz.db.anchor.json"):
            shutil.copy(tmp_path / file, copy / file)
        with contextlib.closing(sqlite3.connect(copy / "authz.db", isolation_level=None)) as connection:
            connection.execute("DROP TRIGGER log_checkpoints_no_update")
            connection.execute(statement, (token, checkpoint_hash(token), at, number))
        assert (expected, "checkpoint_invalid") in verify(copy, capsys)


async def test_a_service_changes_its_key_while_it_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    clock = Clock(step_ms=1)
    keys = ServiceKeys.load_or_create(tmp_path / "keys.json", clock=lambda: clock.at_ms)
    limits = type(QUIET)(checkpoint_records=1, checkpoint_seconds=1e9)
    async with SqliteLedger.open(tmp_path / "authz.db", clock=clock, signer=keys, limits=limits) as ledger:
        for number in range(6):
            if number == 3:
                rotate(tmp_path, clock, at_once=True)
                keys.refresh()
                clock.at_ms += 2
            await ledger.commit(unit(number))
    assert len({jwt.get_unverified_header(token)["kid"] for _, token in checkpoints(tmp_path)}) == 2
    assert verify(tmp_path, capsys) == []

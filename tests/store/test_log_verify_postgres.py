"""`authz log verify` on PostgreSQL: offline over a connection url, with the same findings as on SQLite."""

import asyncio
import contextlib
import json
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pytest

from authz.cli import log_head, log_verify
from authz.model.record import Committed
from authz.ports import CommitUnit
from authz.store.group_commit import CommitLimits
from authz.store.keys import ServiceKeys
from authz.store.log_audit import LogSnapshot, verify_log
from authz.store.postgres import PostgresLedger
from authz.store.postgres_url import PostgresUrl
from tests.store.world import Clock, event, unit
from tests.support.command import run_command

RECORDS = 12


@dataclass(frozen=True)
class Log:
    """A log of 12 records and 3 checkpoints (at 5, 10 and 12) that nobody writes any more."""

    url: str
    directory: Path
    head: str

    def run(self, statement: str) -> None:
        """Tamper, as whoever runs the server can."""
        with contextlib.closing(psycopg.connect(self.url, autocommit=True)) as connection:
            connection.execute("SET session_replication_role = replica")  # no trigger fires
            connection.execute(statement.encode())


@pytest.fixture
def log(postgres_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Log:
    monkeypatch.setenv("AUTHZ_DATABASE_URL", postgres_url)
    monkeypatch.setenv("AUTHZ_DATA_DIR", str(tmp_path))
    return asyncio.run(write_log(postgres_url, tmp_path))


async def write_log(postgres_url: str, tmp_path: Path) -> Log:
    signer = ServiceKeys.load_or_create(tmp_path / "keys.json")
    limits = CommitLimits(checkpoint_records=5, checkpoint_seconds=1e9)
    url = PostgresUrl.parse(postgres_url)
    async with PostgresLedger.open(url, tmp_path, clock=Clock(), signer=signer, limits=limits) as ledger:
        for number in range(1, RECORDS):
            await ledger.commit(CommitUnit(event=event(number, rules=("a", f"b|{number}"))))
        last = await ledger.commit(CommitUnit(event=event(RECORDS)))
        assert isinstance(last, Committed)
    return Log(postgres_url, tmp_path, head=f"{last.writer}:{RECORDS}:{last.hash}")


def verify(capsys: pytest.CaptureFixture[str], *arguments: str) -> set[tuple[int, str]]:
    """(sequence, kind) of what was found, after checking that exit code and output agree."""
    code = run_command(log_verify, "--json", *arguments)
    output = json.loads(capsys.readouterr().out)
    assert code == (1 if output["findings"] else 0)
    return {(finding["sequence"], finding["kind"]) for finding in output["findings"]}


def test_a_log_that_was_left_alone(log: Log, capsys: pytest.CaptureFixture[str]) -> None:
    assert verify(capsys) == set()
    assert verify(capsys, "--expect", log.head) == set()
    assert run_command(log_verify) == 0
    said = capsys.readouterr().out
    assert "12 records by 1 writer: whole and in order." in said
    assert "3 signed checkpoints checked; 0 records since the last." in said
    assert "The anchor file agrees." in said
    assert run_command(log_head) == 0
    assert capsys.readouterr().out == f"{log.head}\n"


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        pytest.param(
            "UPDATE events SET text = replace(text, 'workspace', 'w0rkspace') WHERE sequence = 4",
            {(4, "changed")},
            id="text changed",
        ),
        pytest.param(
            "UPDATE events SET agent = 'somebody' WHERE sequence = 4",
            {(4, "index_disagrees")},
            id="a column that searches select by",
        ),
        pytest.param("DELETE FROM events WHERE sequence = 4", {(4, "missing")}, id="a record is gone"),
        pytest.param(
            "UPDATE events SET sequence = CASE sequence WHEN 3 THEN -3 ELSE sequence END; "
            "UPDATE events SET sequence = 3 WHERE sequence = 4; "
            "UPDATE events SET sequence = 4 WHERE sequence = -3",
            {(3, "reordered"), (4, "reordered")},
            id="two records swapped",
        ),
        pytest.param(
            "UPDATE log_checkpoints SET token = token || 'x' WHERE number = 2",
            {(2, "checkpoint_invalid")},
            id="a checkpoint changed",
        ),
        pytest.param(
            "DELETE FROM log_checkpoints WHERE number = 3",
            {(3, "checkpoint_missing")},
            id="the newest checkpoint is gone",
        ),
        pytest.param(
            "UPDATE log_heads SET sequence = 11", {(12, "head_disagrees")}, id="the stored head goes back"
        ),
    ],
)
def test_what_was_done_is_found(
    log: Log, capsys: pytest.CaptureFixture[str], statement: str, expected: set[tuple[int, str]]
) -> None:
    log.run(statement)
    assert expected <= verify(capsys)


def test_a_tail_that_was_cut_off_everywhere(log: Log, capsys: pytest.CaptureFixture[str]) -> None:
    log.run(
        "DELETE FROM events WHERE sequence > 8; DELETE FROM log_checkpoints WHERE number > 1; "
        "UPDATE log_heads SET sequence = 8, hash = (SELECT hash FROM events WHERE sequence = 8)"
    )
    assert verify(capsys), "the anchor file knows that there was more"
    (log.directory / "postgres.anchor.json").unlink()
    assert verify(capsys) == set(), "without it nothing in the database does"
    assert (12, "truncated") in verify(capsys, "--expect", log.head)


async def test_no_false_alarm_while_two_processes_write(postgres_url: str, tmp_path: Path) -> None:
    url, signer = PostgresUrl.parse(postgres_url), ServiceKeys.generate()
    limits = CommitLimits(checkpoint_records=7, checkpoint_seconds=1e9)

    def opened() -> PostgresLedger:
        return PostgresLedger.open(url, tmp_path, clock=Clock(), signer=signer, limits=limits)

    async with opened() as one, opened() as other:
        stop = asyncio.Event()

        async def write(ledger: PostgresLedger) -> int:
            number = 0
            while not stop.is_set():
                await ledger.commit(unit(number))
                number += 1
            return number

        def audit() -> int:
            with LogSnapshot(url) as snapshot:
                report = verify_log(snapshot, signer.public_keys())
            assert report.findings == ()
            return report.records

        writing = [asyncio.create_task(write(ledger)) for ledger in (one, other)]
        seen = [await asyncio.to_thread(audit) for _ in range(12)]
        stop.set()
        written = sum(await asyncio.gather(*writing))
        assert seen == sorted(seen)
        assert await asyncio.to_thread(audit) == written


def test_what_cannot_be_read(
    postgres_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("AUTHZ_DATA_DIR", str(tmp_path))
    monkeypatch.setenv("AUTHZ_DATABASE_URL", postgres_url)
    for command in (log_verify, log_head):
        assert run_command(command) == 2
        assert "there is no authz database" in capsys.readouterr().err
    monkeypatch.setenv("AUTHZ_DATABASE_URL", "postgresql://ada:correct-horse@127.0.0.1:1/x?connect_timeout=2")
    assert run_command(log_verify) == 2
    said = capsys.readouterr().err
    assert "the store cannot be reached (`postgresql://127.0.0.1:1/x`: `" in said
    assert "correct-horse" not in said

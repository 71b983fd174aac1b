"""`authz log verify` finds what was done to a log, and finds nothing in one that was left alone."""

import asyncio
import contextlib
import json
import shutil
import sqlite3
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from authz.cli import log_head, log_verify
from authz.core.log_chain import record_hash, rfc3339_ms
from authz.core.log_checkpoint import CHECKPOINT_TYPE, checkpoint_hash, unverified_heads
from authz.model.record import Committed
from authz.ports import CommitUnit
from authz.store.group_commit import CommitLimits
from authz.store.keys import ServiceKeys
from authz.store.sqlite import SqliteLedger
from tests.store.world import Clock, event, unit
from tests.support.command import run_command

ROOT = Path(__file__).parents[2]
TRIGGERS = [f"{table}_no_{verb}" for table in ("events", "log_checkpoints") for verb in ("update", "delete")]
RECORDS = 12


@dataclass(frozen=True)
class Log:
    """A log of 12 records and 3 checkpoints (at 5, 10 and 12) that nobody writes any more."""

    directory: Path
    head: str
    """HEAD when record 12 was the last."""

    @property
    def database(self) -> Path:
        return self.directory / "authz.db"

    @property
    def anchor(self) -> Path:
        return self.directory / "authz.db.anchor.json"

    def run(self, *statements: str) -> None:
        """Tamper, as someone who may write the file can."""
        with contextlib.closing(sqlite3.connect(self.database, isolation_level=None)) as connection:
            for trigger in TRIGGERS:
                connection.execute(f"DROP TRIGGER IF EXISTS {trigger}")
            for statement in statements:
                connection.execute(statement)

    def fetch_bytes(self, sql: str) -> list[tuple[object, ...]]:
        """As `fetch`, also of what is no text."""
        with contextlib.closing(sqlite3.connect(self.database)) as connection:
            connection.text_factory = lambda data: data.decode("utf-8", "surrogateescape")
            return connection.execute(sql).fetchall()

    def fetch(self, sql: str) -> list[tuple[object, ...]]:
        with contextlib.closing(sqlite3.connect(self.database)) as connection:
            return connection.execute(sql).fetchall()


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Log:
    return asyncio.run(write_log(tmp_path_factory.mktemp("log")))


async def write_log(directory: Path) -> Log:
    keys = ServiceKeys.load_or_create(directory / "keys.json")
    limits = CommitLimits(checkpoint_records=5, checkpoint_seconds=1e9)
    database = directory / "authz.db"
    async with SqliteLedger.open(database, clock=Clock(), signer=keys, limits=limits) as ledger:
        for number in range(1, RECORDS):
            await ledger.commit(CommitUnit(event=event(number, rules=("a", f"b|{number}"))))
        last = await ledger.commit(CommitUnit(event=event(RECORDS)))
        assert isinstance(last, Committed)
    return Log(directory, head=f"{last.writer}:{RECORDS}:{last.hash}")


@pytest.fixture
def log(template: Log, tmp_path: Path) -> Log:
    directory = tmp_path / "copy"
    shutil.copytree(template.directory, directory)
    return Log(directory, template.head)


def verify(log: Log, capsys: pytest.CaptureFixture[str], *arguments: str) -> list[tuple[int, str]]:
    """(sequence, kind) of what was found, after checking that exit code and output agree."""
    code = run_command(log_verify, "--data-dir", str(log.directory), "--json", *arguments)
    output = json.loads(capsys.readouterr().out)
    assert code == (1 if output["findings"] else 0)
    assert output["ok"] is (code == 0)
    return [(finding["sequence"], finding["kind"]) for finding in output["findings"]]


def test_a_log_that_was_left_alone(log: Log, capsys: pytest.CaptureFixture[str]) -> None:
    assert verify(log, capsys) == []
    assert verify(log, capsys, "--expect", log.head) == []

    assert run_command(log_verify, "--data-dir", str(log.directory)) == 0
    said = capsys.readouterr().out
    assert "12 records by 1 writer: whole and in order." in said
    assert "3 signed checkpoints checked; 0 records since the last." in said
    assert "The anchor file agrees." in said
    assert "Not proven: that nobody who holds the key file signed it again." in said
    assert said.rstrip().endswith(f"HEAD {log.head}")

    assert run_command(log_head, "--data-dir", str(log.directory)) == 0
    assert capsys.readouterr().out == f"{log.head}\n"


SWAP_TEXTS = (
    "CREATE TEMP TABLE old AS SELECT 7 - sequence AS place, text, hash FROM events WHERE sequence IN (3, 4); "
    "UPDATE events SET text = old.text, hash = old.hash FROM old WHERE sequence = old.place"
)


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        pytest.param(
            "UPDATE events SET text = replace(text, 'allow', 'deny!') WHERE sequence = 4",
            {(4, "changed"), (4, "index_disagrees")},
            id="text changed",
        ),
        pytest.param(
            "UPDATE events SET text = replace(text, 'workspace', 'w0rkspace') WHERE sequence = 4",
            {(4, "changed")},
            id="one byte changed where no column looks",
        ),
        pytest.param(
            "UPDATE events SET text = text || ' ' WHERE sequence = 12", {(12, "changed")}, id="last text"
        ),
        pytest.param(
            "UPDATE events SET text = CAST(replace(text, 'default', x'ff') AS TEXT) WHERE sequence = 4",
            {(4, "malformed")},
            id="not UTF-8",
        ),
        pytest.param("UPDATE events SET text = x'00' WHERE sequence = 4", {(4, "malformed")}, id="a blob"),
        pytest.param("UPDATE events SET text = '{}' WHERE sequence = 4", {(4, "malformed")}, id="emptied"),
        pytest.param(
            "UPDATE events SET hash = upper(hash) WHERE sequence = 4",
            {(4, "changed"), (5, "unlinked")},
            id="hash changed",
        ),
        pytest.param("DELETE FROM events WHERE sequence = 4", {(4, "missing")}, id="removed"),
        pytest.param("DELETE FROM events WHERE sequence IN (4, 5, 6, 8)", {(4, "missing"), (8, "missing")}),
        pytest.param("DELETE FROM events WHERE sequence = 1", {(1, "missing")}, id="first removed"),
        pytest.param("DELETE FROM events WHERE sequence > 10", {(11, "truncated")}, id="tail cut off"),
        pytest.param("DELETE FROM events", {(1, "truncated")}, id="all removed"),
        pytest.param(
            SWAP_TEXTS,
            {(3, "reordered"), (4, "reordered"), (3, "unlinked"), (4, "unlinked"), (5, "unlinked")},
            id="reordered",
        ),
        pytest.param(
            "UPDATE events SET sequence = CASE sequence WHEN 3 THEN -3 ELSE 3 END WHERE sequence IN (3, 4)",
            {(-3, "duplicated"), (-3, "reordered"), (3, "reordered"), (3, "unlinked"), (4, "missing")},
            id="moved",
        ),
        pytest.param(
            "INSERT INTO events SELECT writer, 13, tenant, type, decision_id, trace_id, agent, user, tool, "
            "effect, rules, recorded_at_ms, occurred_at_ms, text, hash FROM events WHERE sequence = 12",
            {(13, "reordered"), (13, "unlinked"), (13, "head_disagrees")},
            id="duplicated",
        ),
        pytest.param(
            "UPDATE events SET writer = 'other' WHERE sequence = 4", {(4, "missing")}, id="given away"
        ),
        pytest.param("UPDATE log_heads SET sequence = 11", {(12, "head_disagrees")}, id="head moved back"),
        pytest.param("UPDATE log_heads SET sequence = 'x'", {(12, "head_disagrees")}, id="head malformed"),
        pytest.param("UPDATE log_heads SET hash = ''", {(12, "head_disagrees")}, id="head's hash changed"),
        pytest.param("DELETE FROM log_heads", {(12, "head_disagrees")}, id="head removed"),
        pytest.param(
            "UPDATE log_checkpoints SET at_ms = 0 WHERE number = 2",
            {(2, "checkpoint_invalid")},
            id="its time",
        ),
        pytest.param(
            "UPDATE log_checkpoints SET hash = '' WHERE number = 2",
            {(2, "checkpoint_invalid")},
            id="its hash",
        ),
        pytest.param(
            "DELETE FROM log_checkpoints WHERE number = 2", {(3, "checkpoint_invalid")}, id="one removed"
        ),
        pytest.param(
            "UPDATE log_checkpoints SET number = 20 WHERE number = 2",
            {(20, "checkpoint_invalid")},
            id="moved on",
        ),
        pytest.param(
            "UPDATE log_checkpoints SET token = 'a.b.c'", {(n, "checkpoint_invalid") for n in (1, 2, 3)}
        ),
    ],
)
def test_what_was_done_is_found(
    log: Log, capsys: pytest.CaptureFixture[str], statement: str, expected: set[tuple[int, str]]
) -> None:
    log.run(*statement.split("; "))
    assert expected <= set(verify(log, capsys))

    assert run_command(log_verify, "--data-dir", str(log.directory)) == 1
    said = capsys.readouterr().out
    assert "writer" in said or "Checkpoint" in said
    assert said.isascii()


@pytest.mark.parametrize(
    "column",
    [
        *("tenant", "type", "decision_id", "trace_id", "agent", "user", "tool", "effect", "rules"),
        *("recorded_at_ms", "occurred_at_ms"),
    ],
)
def test_an_index_column_that_was_changed(log: Log, capsys: pytest.CaptureFixture[str], column: str) -> None:
    value = "1" if column.endswith("_ms") else "'|b|'"
    log.run(f"UPDATE events SET {column} = {value} WHERE sequence = 7")
    assert verify(log, capsys) == [(7, "index_disagrees")]


def test_all_faults_are_listed(log: Log, capsys: pytest.CaptureFixture[str]) -> None:
    log.run(
        "UPDATE events SET effect = 'deny' WHERE sequence IN (2, 6)",
        "DELETE FROM events WHERE sequence = 4",
        "UPDATE log_checkpoints SET at_ms = 0 WHERE number = 1",
        "DELETE FROM events WHERE sequence = 12",
    )
    found = set(verify(log, capsys))
    assert found >= {
        *((2, "index_disagrees"), (4, "missing"), (6, "index_disagrees")),
        *((1, "checkpoint_invalid"), (12, "truncated")),
    }


CUT_TO_11 = (
    "DELETE FROM events WHERE sequence > 11",
    "UPDATE log_heads SET sequence = 11, hash = (SELECT hash FROM events WHERE sequence = 11)",
)


def test_a_tail_that_was_cut_off_with_its_head(log: Log, capsys: pytest.CaptureFixture[str]) -> None:
    log.run(*CUT_TO_11)
    assert verify(log, capsys) == [(12, "truncated")], "the checkpoint remembers"
    log.run("DELETE FROM log_checkpoints WHERE number = 3")
    assert verify(log, capsys) == [(3, "checkpoint_missing"), (12, "truncated")], "the anchor remembers"
    log.anchor.unlink()
    assert verify(log, capsys) == [], "nothing here remembers any more"
    assert verify(log, capsys, "--expect", log.head) == [(12, "truncated")], "but whoever kept HEAD does"


def rewrite(log: Log, start: int, end: int = RECORDS) -> None:
    """Change record `start` and hash everything after it again, heads included."""
    rows = log.fetch("SELECT sequence, text, hash FROM events ORDER BY sequence")
    texts = {int(str(sequence)): str(text) for sequence, text, _ in rows}
    hashes = {int(str(sequence)): str(stored) for sequence, _, stored in rows}
    texts[start] = texts[start].replace("workspace", "w0rkspace")
    statements = []
    previous = hashes[start - 1]
    for sequence in range(start, end + 1):
        old = json.loads(texts[sequence])["previous"]
        text = texts[sequence].replace(old, previous)
        previous = record_hash(previous, text)
        quoted = text.replace("'", "''")
        statements.append(
            f"UPDATE events SET text = '{quoted}', hash = '{previous}' WHERE sequence = {sequence}"
        )
    log.run(*statements, f"UPDATE log_heads SET hash = '{previous}'")


def test_a_log_that_was_hashed_again(log: Log, capsys: pytest.CaptureFixture[str]) -> None:
    rewrite(log, start=8)
    assert verify(log, capsys) == [(10, "head_disagrees"), (12, "head_disagrees")]
    log.run("DELETE FROM log_checkpoints")
    assert verify(log, capsys) == [(3, "checkpoint_missing"), (12, "head_disagrees")]
    log.anchor.unlink()
    assert verify(log, capsys) == []
    assert verify(log, capsys, "--expect", log.head) == [(12, "head_disagrees")]


def sign_again(log: Log, keys: ServiceKeys, *, typ: str = CHECKPOINT_TYPE) -> None:
    """Replace the last checkpoint by one over the same heads, signed by `keys`."""
    ((previous,),) = log.fetch("SELECT hash FROM log_checkpoints WHERE number = 2")
    ((token, at),) = log.fetch("SELECT token, at_ms FROM log_checkpoints WHERE number = 3")
    heads = [
        {"writer": head.writer, "sequence": head.sequence, "hash": head.hash}
        for head in unverified_heads(str(token))
    ]
    payload = {"schema": 1, "number": 3, "previous": previous, "heads": heads, "at": rfc3339_ms(int(str(at)))}
    forged = keys.sign({"typ": typ}, payload)
    log.run(
        f"UPDATE log_checkpoints SET token = '{forged}', hash = '{checkpoint_hash(forged)}' WHERE number = 3"
    )


def test_signatures(log: Log, capsys: pytest.CaptureFixture[str]) -> None:
    log.anchor.unlink()
    own = ServiceKeys.load(log.directory / "keys.json")
    sign_again(log, own)
    assert verify(log, capsys) == [], "the forgery below fails for its key alone"

    sign_again(log, own, typ="ticket+jwt")
    assert verify(log, capsys) == [(3, "checkpoint_invalid")]

    stranger = ServiceKeys.generate()
    sign_again(log, stranger)
    assert verify(log, capsys) == [(3, "checkpoint_invalid")]

    jwks = log.directory / "jwks.json"
    jwks.write_text(json.dumps(stranger.public_jwks()))
    assert verify(log, capsys, "--jwks", str(jwks)) == [(1, "checkpoint_invalid"), (2, "checkpoint_invalid")]

    named_like_own = {**stranger.public_jwks()["keys"][0], "kid": own.kid}
    jwks.write_text(json.dumps({"keys": [named_like_own]}))
    assert (1, "checkpoint_invalid") in verify(log, capsys, "--jwks", str(jwks)), "a name proves nothing"


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param(["--expect", ""], id="an empty HEAD proves nothing"),
        pytest.param(["--expect", "x"], id="malformed HEAD"),
        pytest.param(["--expect", f"w:0:{'0' * 64}"], id="HEAD before the first record"),
        pytest.param(["--jwks", "absent.json"], id="no such key set"),
    ],
)
def test_what_cannot_be_checked(log: Log, capsys: pytest.CaptureFixture[str], arguments: list[str]) -> None:
    assert run_command(log_verify, "--data-dir", str(log.directory), *arguments) == 2
    assert capsys.readouterr().out == ""


def test_logs_that_cannot_be_read(log: Log, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for command in (log_verify, log_head):
        assert run_command(command, "--data-dir", str(tmp_path)) == 2
        (tmp_path / "text.db").write_text("not a database at all" * 50)
        assert run_command(command, "--database", str(tmp_path / "text.db")) == 2
    (log.directory / "keys.json").unlink()
    assert run_command(log_verify, "--data-dir", str(log.directory)) == 2
    assert "--jwks" in capsys.readouterr().err


def test_a_damaged_index_is_found(log: Log, capsys: pytest.CaptureFixture[str]) -> None:
    # The index that searches use forgets a record that the table still has.
    with contextlib.closing(sqlite3.connect(log.database, isolation_level=None)) as connection:
        connection.execute("DROP TRIGGER events_no_delete")
        connection.execute("PRAGMA writable_schema = ON")
        connection.execute(
            "UPDATE sqlite_schema SET sql = replace(sql, '(tenant,', '(user,') WHERE name = 'events_by_time'"
        )
    assert (0, "database_damaged") in verify(log, capsys)


async def test_an_empty_log(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    keys = ServiceKeys.load_or_create(tmp_path / "keys.json")
    await SqliteLedger.open(tmp_path / "authz.db", clock=Clock(), signer=keys).close()
    where = ["--data-dir", str(tmp_path)]
    assert run_command(log_verify, *where) == 0
    said = capsys.readouterr().out
    assert said.startswith("The log is empty.\nThere is no anchor file")
    assert run_command(log_verify, *where, "--expect", f"w:1:{'0' * 64}") == 1
    capsys.readouterr()
    assert run_command(log_head, *where) == 1
    assert capsys.readouterr().out == ""


TAMPERED_TYPES = [
    pytest.param(
        "UPDATE events SET writer = CAST(x'ff' AS TEXT)",
        {(1, "truncated"), (1, "index_disagrees")},
        id="writer",
    ),
    pytest.param(
        "UPDATE events SET writer = x'ff' WHERE sequence = 4",
        {(4, "reordered"), (4, "missing")},
        id="blob writer",
    ),
    pytest.param(
        "UPDATE log_heads SET writer = CAST(x'ff' AS TEXT)", {(12, "head_disagrees")}, id="head's writer"
    ),
    pytest.param(
        "UPDATE log_heads SET writer = x'ff'", {(12, "head_disagrees"), (1, "truncated")}, id="blob head"
    ),
    pytest.param("UPDATE log_heads SET hash = x'ff'", {(12, "head_disagrees")}, id="head's hash"),
    pytest.param("UPDATE events SET recorded_at_ms = 'abc' WHERE sequence = 4", {(4, "index_disagrees")}),
    pytest.param("UPDATE events SET sequence = 'abc' WHERE sequence = 4", {(0, "malformed"), (4, "missing")}),
    pytest.param(
        'UPDATE events SET text = replace(text, \'"recorded_at":"2027-01-15T08:00:00.004Z"\', '
        '\'"recorded_at":"0001-01-01T00:00:00.000+23:59"\') WHERE sequence = 4',
        {(4, "malformed")},
        id="a time before the first year",
    ),
    *(
        pytest.param(
            f"UPDATE log_checkpoints SET at_ms = {value} WHERE number = 2",
            {(2, "checkpoint_invalid")},
            id=value,
        )
        for value in ("'abc'", str(2**63 - 1), str(-(2**63)), "x'ff'", "1.5")
    ),
    pytest.param("UPDATE log_checkpoints SET number = 'abc' WHERE number = 2", {(0, "checkpoint_invalid")}),
    pytest.param("UPDATE log_checkpoints SET number = x'ff' WHERE number = 2", {(0, "checkpoint_invalid")}),
    pytest.param(
        "UPDATE log_checkpoints SET token = CAST(x'ff' AS TEXT) WHERE number = 2", {(2, "checkpoint_invalid")}
    ),
    pytest.param("UPDATE log_checkpoints SET hash = x'ff' WHERE number = 2", {(2, "checkpoint_invalid")}),
]


@pytest.mark.parametrize(("statement", "expected"), TAMPERED_TYPES)
def test_a_value_of_another_type_is_a_finding(
    log: Log, capsys: pytest.CaptureFixture[str], statement: str, expected: set[tuple[int, str]]
) -> None:
    before = log.fetch("SELECT * FROM events, log_heads, log_checkpoints")
    log.run(statement)
    assert log.fetch_bytes("SELECT * FROM events, log_heads, log_checkpoints") != before, "it did something"
    assert expected <= set(verify(log, capsys))

    assert run_command(log_verify, "--data-dir", str(log.directory)) == 1
    assert capsys.readouterr().out.isascii()


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE log_heads SET writer = CAST(x'ff' AS TEXT)",
        "UPDATE log_heads SET writer = x'ff'",
        "UPDATE log_heads SET sequence = 'abc'",
        "UPDATE log_heads SET hash = x'ff'",
    ],
)
def test_a_malformed_head_is_not_printed(
    log: Log, capsys: pytest.CaptureFixture[str], statement: str
) -> None:
    log.run(statement)
    assert run_command(log_head, "--data-dir", str(log.directory)) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert "run `authz log verify`" in said.err


def test_an_expected_head_beyond_every_number(log: Log, capsys: pytest.CaptureFixture[str]) -> None:
    expected = f"w:{10**19 - 1}:{'0' * 64}"
    assert verify(log, capsys, "--expect", expected) == [(10**19 - 1, "truncated")]


@pytest.mark.slow
async def test_no_false_alarm_while_a_server_writes(tmp_path: Path) -> None:
    keys = ServiceKeys.load_or_create(tmp_path / "keys.json")
    limits = CommitLimits(checkpoint_records=40, checkpoint_seconds=1e9)
    ledger = SqliteLedger.open(tmp_path / "authz.db", clock=Clock(), signer=keys, limits=limits)
    verified = asyncio.Event()
    written = [0]

    async def write(start: int) -> None:
        for number in range(start, start + 1_000_000):
            if verified.is_set():
                return
            await ledger.commit(unit(number))
            written[0] += 1

    program = (
        "import argparse, sys\n"
        "from authz.cli import log_verify\n"
        "parser = argparse.ArgumentParser()\n"
        "log_verify.add_arguments(parser)\n"
        "args = parser.parse_args()\n"
        "codes = [log_verify.run(args) for _ in range(8)]\n"
        "sys.exit(max(codes))\n"
    )
    command = (sys.executable, "-c", program, "--data-dir", str(tmp_path), "--json")
    async with ledger:
        writers = [asyncio.create_task(write(start * 1_000_000)) for start in range(20)]
        process = await asyncio.create_subprocess_exec(
            *command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        stdout, stderr = await process.communicate()
        verified.set()
        await asyncio.gather(*writers)

    reports = [json.loads(line) for line in stdout.splitlines()]
    assert process.returncode == 0, stderr
    assert len(reports) == 8
    assert all(report["ok"] for report in reports)
    counts = [report["records"] for report in reports]
    assert counts == sorted(counts)
    assert counts[0] < counts[-1] <= written[0], "the log grew while it was verified"

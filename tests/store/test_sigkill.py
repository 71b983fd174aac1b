"""A killed process loses nothing that it acknowledged, and its log can be continued: on every database."""

import random
import subprocess
import sys
from pathlib import Path

import pytest
from sqlalchemy import select

from authz.store.database import Database, open_session
from authz.store.keys import ServiceKeys
from authz.store.log_audit import LogSnapshot, verify_log
from authz.store.postgres_url import PostgresUrl
from authz.store.tables import OPERATIONS, PROOF_USES, REVOCATIONS

ROOT = Path(__file__).parents[2]
ROUNDS = 6

Acknowledged = dict[tuple[str, int], tuple[str, str]]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_whatever_was_acknowledged_is_there(
    tmp_path: Path, kind: str, request: pytest.FixtureRequest
) -> None:
    chance = random.Random(20_261)
    keys = tmp_path / "keys.json"
    name = request.getfixturevalue("postgres_url") if kind == "postgres" else str(tmp_path / "authz.db")
    database: Database = PostgresUrl.parse(name) if kind == "postgres" else Path(name)
    acknowledged: Acknowledged = {}
    for _ in range(ROUNDS):
        acknowledged |= run_and_kill(name, keys, after_answers=chance.randrange(1, 1500))
        check(database, keys, acknowledged)
    # On PostgreSQL the killed process's session may outlast it by a moment, and its chain be taken up later.
    assert len({writer for writer, _ in acknowledged}) <= (1 if kind == "sqlite" else 2)


def run_and_kill(database: str, keys: Path, *, after_answers: int) -> Acknowledged:
    """Kill the child after so many answers, in the middle of whatever it does then."""
    command = (sys.executable, "-m", "tests.store.sigkill_child", database, str(keys))
    acknowledged: Acknowledged = {}
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        for line in child.stdout:  # also what it still said until it died
            if not line.endswith(b"\n"):
                break
            writer, sequence, record_hash, number = line.decode().split()
            assert (writer, int(sequence)) not in acknowledged
            acknowledged[writer, int(sequence)] = (record_hash, number)
            if len(acknowledged) == after_answers:
                child.kill()
    assert child.returncode == -9
    assert len(acknowledged) >= after_answers
    return acknowledged


def check(database: Database, keys: Path, acknowledged: Acknowledged) -> None:
    with LogSnapshot(database) as snapshot:
        report = verify_log(snapshot, ServiceKeys.load(keys).public_keys())
        assert report.findings == ()
        assert report.records >= len(acknowledged)
        for (writer, sequence), (record_hash, _) in acknowledged.items():
            assert snapshot.find_hash(writer, sequence) == record_hash
    with open_session(database, "read") as session:
        decided = dict(session.fetch(select(OPERATIONS.c.key, OPERATIONS.c.decision_id)))
        used = {key for (key,) in session.fetch(select(PROOF_USES.c.key))}
        stopped = session.fetch(select(REVOCATIONS.c.value, REVOCATIONS.c.sequence))
    for _, number in acknowledged.values():
        assert decided[f"k-{number}"] == f"d-{number}", "the operation came with its record"
    numbers = {key.removeprefix("k-") for key in decided}
    assert used == {f"p-{number}" for number in numbers}, "and so did the proof, or neither"
    assert {value for value, _ in stopped} == {f"l-{number}" for number in numbers}
    assert sorted(sequence for _, sequence in stopped) == list(range(1, len(numbers) + 1))

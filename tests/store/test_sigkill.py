"""A killed process loses nothing that it acknowledged, and its log can be continued."""

import random
import subprocess
import sys
from pathlib import Path

import pytest

from authz.store.keys import ServiceKeys
from authz.store.log_audit import LogSnapshot, verify_log
from authz.store.sqlite_reads import SqliteReader

ROOT = Path(__file__).parents[2]
ROUNDS = 6


@pytest.mark.slow
def test_whatever_was_acknowledged_is_there(tmp_path: Path) -> None:
    chance = random.Random(20_261)
    database, keys = tmp_path / "authz.db", tmp_path / "keys.json"
    acknowledged: dict[tuple[str, int], tuple[str, str]] = {}
    for _ in range(ROUNDS):
        acknowledged |= run_and_kill(database, keys, after_answers=chance.randrange(1, 1500))
        check(database, keys, acknowledged)
    assert len({writer for writer, _ in acknowledged}) == 1


def run_and_kill(database: Path, keys: Path, *, after_answers: int) -> dict[tuple[str, int], tuple[str, str]]:
    """Kill the child after so many answers, in the middle of whatever it does then."""
    command = (sys.executable, "-m", "tests.store.sigkill_child", str(database), str(keys))
    acknowledged: dict[tuple[str, int], tuple[str, str]] = {}
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        for line in child.stdout:  # also what it still said until it died
            if not line.endswith(b"\n"):
                break
            writer, sequence, record_hash, number = line.decode().split()
            acknowledged[writer, int(sequence)] = (record_hash, number)
            if len(acknowledged) == after_answers:
                child.kill()
    assert child.returncode == -9
    assert len(acknowledged) >= after_answers
    return acknowledged


def check(database: Path, keys: Path, acknowledged: dict[tuple[str, int], tuple[str, str]]) -> None:
    with LogSnapshot(database) as snapshot:
        report = verify_log(snapshot, ServiceKeys.load(keys).public_keys())
        assert report.findings == ()
        assert report.records >= len(acknowledged)
        for (writer, sequence), (record_hash, _) in acknowledged.items():
            assert snapshot.find_hash(writer, sequence) == record_hash
    reader = SqliteReader(database)
    for _, number in acknowledged.values():
        operation = reader.find_operation(f"k-{number}")
        assert operation is not None
        assert operation.decision_id == f"d-{number}", "the operation came with its record"
    reader.close()

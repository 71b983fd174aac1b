"""Approvals under processes of their own: killed between writing and answering, and two at once."""

import contextlib
import json
import random
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from authz.model.approval import ApprovalState
from authz.model.approval_writes import ApprovalMoved, ApprovalStanding
from authz.model.record import Committed, Conflict
from authz.store.keys import ServiceKeys
from authz.store.ledger import DurableLedger
from authz.store.log_audit import LogSnapshot, verify_log
from authz.store.postgres_url import PostgresUrl
from tests.store.approval_child import RACES, STEPS, USES, life_of, open_ledger
from tests.store.approval_world import NOW_MS, TENANT

ROOT = Path(__file__).parents[2]
ROUNDS = 4


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
async def test_who_is_killed_leaves_whole_approvals_and_none_is_used_twice(
    tmp_path: Path, kind: str, request: pytest.FixtureRequest
) -> None:
    chance = random.Random(811)
    keys = tmp_path / "keys.json"
    name = request.getfixturevalue("postgres_url") if kind == "postgres" else str(tmp_path / "authz.db")
    answered: set[tuple[str, int]] = set()
    for _ in range(ROUNDS):
        answered |= run_and_kill(name, keys, after_answers=chance.randrange(1, 400))
    numbers = {number for _, number in answered}
    async with open_ledger(name, keys) as ledger:
        for number in numbers:
            await check_whole(ledger, number, {step for step, of in answered if of == number})
        changes = await all_changes(ledger)
    assert set(changes) >= {f"ap-{number}" for number in numbers}
    assert max(Counter(changes).values()) == 1, "each request has one place among the changes"
    database = PostgresUrl.parse(name) if kind == "postgres" else Path(name)
    with LogSnapshot(database) as snapshot:
        report = verify_log(snapshot, ServiceKeys.load(keys).public_keys())
    assert report.findings == ()
    assert report.records >= len(answered)


def run_and_kill(database: str, keys: Path, *, after_answers: int) -> set[tuple[str, int]]:
    """Kill the child after so many answers, in the middle of whatever it does then."""
    command = (sys.executable, "-m", "tests.store.approval_child", database, str(keys))
    answered: set[tuple[str, int]] = set()
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        for line in child.stdout:  # also what it still said until it died
            if not line.endswith(b"\n"):
                break
            step, number = line.decode().split()
            answered.add((step, int(number)))
            if len(answered) == after_answers:
                child.kill()
    assert child.returncode == -9
    assert len(answered) >= after_answers
    return answered


async def check_whole(ledger: DurableLedger, number: int, answered: set[str]) -> None:
    """Everything that was answered is there; each step is there whole, and cannot be done a second time."""
    standing = await ledger.find_approval(TENANT, f"ap-{number}")
    assert standing is not None
    reached = reached_by(standing)
    assert reached >= max(STEPS.index(step) for step in answered)
    assert await ledger.find_kept(TENANT, f"shown:ap-{number}", NOW_MS) == b"%d" % number
    operation = await ledger.find_operation(f"op-{number}")
    assert (operation is not None) is (reached == 2), "the use and the permission that rests on it"
    if operation is not None:
        assert operation.approval == f"ap-{number}"
    units = life_of(number)
    for unit in units[: reached + 1]:
        again = await ledger.commit(unit)
        assert isinstance(again, (ApprovalMoved, Conflict)), "who got no answer and tries again does nothing"
    for unit in units[reached + 1 :]:
        assert isinstance(await ledger.commit(unit), Committed), "and what was not done can be"


def reached_by(standing: ApprovalStanding) -> int:
    """The last of `STEPS` that is on record. Fails where a part of one is missing."""
    request, grant = standing.request, standing.grant
    is_approved = request.state is ApprovalState.APPROVED
    assert request.state in (ApprovalState.PENDING, ApprovalState.APPROVED)
    assert (request.version, len(standing.votes), grant is not None) == (
        int(is_approved),
        int(is_approved),
        is_approved,
    )
    if grant is None:
        return 0
    return 1 if grant.uses_left else 2


async def all_changes(ledger: DurableLedger) -> list[str]:
    found: list[str] = []
    seen = 0
    while True:
        seen, ids = await ledger.approvals_since(TENANT, seen)
        if not ids:
            return found
        found += ids


@pytest.mark.slow
async def test_two_processes_ask_answer_and_use_each_thing_once(tmp_path: Path, postgres_url: str) -> None:
    keys = tmp_path / "keys.json"
    ServiceKeys.load_or_create(keys)
    won = won_by_two(postgres_url, keys)
    assert (won["asked"], won["answered"]) == (RACES, RACES)
    async with open_ledger(postgres_url, keys) as ledger:
        for number in range(RACES):
            standing = await ledger.find_approval(TENANT, f"ap-{number}")
            assert standing is not None
            is_approved = standing.request.state is ApprovalState.APPROVED
            assert is_approved is not (standing.denial is not None)
            left = standing.grant.uses_left if standing.grant is not None else None
            assert won[f"used {number}"] == (USES - left if left is not None else 0)


def won_by_two(database: str, keys: Path) -> Counter[str]:
    """Let two children race; what both won together."""
    command = (sys.executable, "-m", "tests.store.approval_child", database, str(keys))
    won: Counter[str] = Counter()
    with contextlib.ExitStack() as stack:
        children = [
            stack.enter_context(
                subprocess.Popen(
                    (*command, str(index)), cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE
                )
            )
            for index in range(2)
        ]
        for child in children:
            assert child.stdin is not None
            child.stdin.write(b"\n")
            child.stdin.flush()
        for child in children:
            said, _ = child.communicate(timeout=120)
            assert child.returncode == 0
            won.update(json.loads(said))
    return won

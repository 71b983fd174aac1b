"""The ban on clock, randomness, environment and I/O bites in the core, and only there.

The ban itself is a lint rule (pyproject.toml, `banned-api`). A pattern that stopped matching would lift
it without a word, so this asks ruff.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

IMPURE = """\
import os
import random
import secrets
import socket
import time
import uuid
from datetime import UTC, date, datetime
from pathlib import Path

now = datetime.now(UTC)
today = date.today()
"""
BANNED_LINES = {1, 2, 3, 4, 5, 6, 8, 10, 11}


def banned_lines(path: str) -> set[int]:
    """The lines of IMPURE that the ban finds, if that text stood at `path`."""
    command = [sys.executable, "-m", "ruff", "check", "--no-cache", "--select", "TID251"]
    answer = subprocess.run(
        [*command, "--output-format", "json", "--stdin-filename", path, "-"],
        input=IMPURE,
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    return {found["location"]["row"] for found in json.loads(answer.stdout)}


@pytest.mark.parametrize(
    "path",
    ["authz/core/x.py", "authz/core/canonical/x.py", "authz/core/policy/deep/x.py", "authz/model/x.py"],
)
def test_banned_in_the_core(path: str) -> None:
    assert banned_lines(path) == BANNED_LINES


@pytest.mark.parametrize(
    "path", ["authz/app.py", "authz/service/x.py", "clients/python/src/authz_client/x.py"]
)
def test_free_elsewhere(path: str) -> None:
    assert banned_lines(path) == set()


def test_the_core_does_not_lift_the_ban_by_comment() -> None:
    files = [*ROOT.glob("authz/core/**/*.py"), *ROOT.glob("authz/model/**/*.py")]
    assert files
    lifted = [
        f"{file.relative_to(ROOT)}:{number}"
        for file in files
        for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), start=1)
        if "noqa" in line and ("TID251" in line or "PTH123" in line or "noqa:" not in line)
    ]
    assert lifted == []

"""README's hour of a security engineer, run as it stands in one shell.

Only the port, the place of the environment and the folder that stands for the clone are others.
"""

import shutil
from pathlib import Path

import pytest

from tests.support.readme import Shell, make_clone, missing, steps
from tests.support.server import free_port

ROOT = Path(__file__).resolve().parents[2]

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed"),
]


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """What the commands need of a clone: the sample bundle and the environment."""
    folder = make_clone(tmp_path / "clone")
    shutil.copytree(ROOT / "policies", folder / "policies")
    return folder


def test_a_missing_line_is_noticed() -> None:
    assert missing(["a …", "c"], "a 1  \nb\nc\n") is None
    assert missing(["c", "a …"], "a 1\nb\nc\n") == "a …"
    assert missing(["a"], "a 1\n") == "a"


def test_the_hour_goes_as_readme_shows_it(clone: Path) -> None:
    blocks = list(steps("A security engineer's hour"))
    assert len(blocks) > 6
    assert sum(bool(shown) for _, shown in blocks) >= 6
    with Shell(clone, free_port(), log=clone / "hour" / "serve.log") as shell:
        for block, shown in blocks:
            said = shell.run(block)
            assert missing(shown, said) is None, f"{block}\nprinted:\n{said}"
    answers = (clone / "hour" / "answers.jsonl").read_text(encoding="utf-8").splitlines()
    # Nothing but decisions, whatever happened to the bundle meanwhile.
    assert answers
    assert all(line.startswith('{"decision_id":"') for line in answers)
    assert "notes-stay-inside" in (clone / "hour" / "case.yaml").read_text(encoding="utf-8")

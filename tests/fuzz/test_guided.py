"""A short coverage-guided run over every target, the same in every run. `make fuzz` runs them for longer."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fuzz.targets import TARGETS, seeds

ROOT = Path(__file__).resolve().parents[2]
RUNS = {
    **dict.fromkeys(("canonical", "repo"), 20_000),
    **dict.fromkeys(("json", "shell"), 5_000),
    **dict.fromkeys(("rules", "yaml"), 2_000),
    "sql": 1_000,
    **dict.fromkeys(("descriptors", "bundle"), 200),
}


@pytest.mark.parametrize("target", TARGETS)
def test_seeds_hold(target: str) -> None:
    given = list(seeds(target))
    assert given
    for data in given:
        TARGETS[target](data)


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS)
def test_guided(target: str, tmp_path: Path) -> None:
    pytest.importorskip("atheris", reason="the coverage-guided fuzzer has no build for this system")
    ended = subprocess.run(
        [
            *(sys.executable, "-m", "tests.fuzz.guided", target),
            *("--runs", str(RUNS[target]), "--corpus", str(tmp_path)),
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
        timeout=300,
    )
    assert ended.returncode == 0, ended.stderr[-4000:]
    done = re.search(r"Done (\d+) runs", ended.stderr)
    assert done is not None
    assert int(done[1]) >= RUNS[target]
    assert not list(tmp_path.glob("crash-*"))

"""What bash does with odd lines is among what was predicted: everything that its grammar has, at random.

The lines of `test_shell_oracle` are those of everyday work; these are for getting one past. `python -m
tests.property.test_shell_oracle_odd 5000` runs that many by hand and counts what was understood.
"""

import shutil
import sys
import tempfile
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import HealthCheck, event, given, settings

from tests.property.odd_lines import LINE
from tests.property.shell_oracle import BashOracle, check_predicted

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed"),
]


@pytest.fixture(scope="module")
def bash(tmp_path_factory: pytest.TempPathFactory) -> BashOracle:
    return BashOracle(tmp_path_factory.mktemp("bash"))


_CHECKS = [HealthCheck.too_slow, HealthCheck.function_scoped_fixture, HealthCheck.filter_too_much]


@settings(max_examples=300, suppress_health_check=_CHECKS)
@given(line=LINE)
def test_what_bash_does_with_odd_lines_was_predicted(line: str, bash: BashOracle) -> None:
    event("opaque" if check_predicted(line, bash) else "understood")


def _by_hand(count: int) -> None:
    counts: Counter[bool] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        oracle = BashOracle(Path(folder))

        @settings(max_examples=count, suppress_health_check=list(HealthCheck), deadline=None, database=None)
        @given(line=LINE)
        def run(line: str) -> None:
            counts[check_predicted(line, oracle)] += 1

        run()
    print(f"{counts[False]} understood and run, {counts[True]} not understood")


if __name__ == "__main__":
    _by_hand(int(sys.argv[1]))

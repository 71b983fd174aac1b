"""The process of a trial and what it is told: nothing of it is left, however it ends."""

import sys
import threading
from pathlib import Path

import psutil
import pytest

from authz.bundle.trial_process import TrialLimits, TrialProcess
from authz.errors import BundleError
from tests.support.waiting import wait_until


@pytest.mark.parametrize(
    "program",
    [
        pytest.param("import os; os._exit(3)", id="ends at once"),
        pytest.param("import os; os.read(0, 10); os._exit(3)", id="ends early"),
        pytest.param("import os, time; os.close(0); time.sleep(60)", id="does not listen"),
        pytest.param("import time; time.sleep(60)", id="reads nothing"),
    ],
)
def test_nothing_is_left_of_a_process_that_does_not_take_what_it_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, program: str
) -> None:
    monkeypatch.setattr("authz.bundle.trial_process.command", lambda *_: [sys.executable, "-c", program])
    trial = TrialProcess(tmp_path, TrialLimits(seconds=2))
    before = children(), open_files()
    with pytest.raises(BundleError):
        trial.run(b" " * 2**24)
    wait_until(lambda: "trial-input" not in {thread.name for thread in threading.enumerate()})
    assert (children(), open_files()) == before


def test_nothing_is_left_of_a_process_that_nobody_can_tell_anything(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none_to_be_had(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    trial = TrialProcess(tmp_path, TrialLimits(seconds=60))
    before = children()
    with monkeypatch.context() as short:
        short.setattr(threading.Thread, "start", none_to_be_had)
        with pytest.raises(RuntimeError):
            trial.run(b" " * 2**24)
    assert children() == before


def open_files() -> int:
    return psutil.Process().num_fds()


def children() -> set[int]:
    return {child.pid for child in psutil.Process().children()}

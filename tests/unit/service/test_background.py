"""Long computations beside requests: they rest, and leave the interpreter as it was."""

import gc
import sys
import weakref

import pytest

from authz.service import background
from authz.service.background import SWEEP_EVERY, SWITCH_SECONDS, Pace, quietly, sweep


def test_a_computation_rests_after_each_slice_and_no_sooner() -> None:
    now = 0.0
    rests: list[tuple[float, float]] = []

    def rest(seconds: float) -> None:
        nonlocal now
        rests.append((round(now, 6), seconds))
        now += seconds

    pace = Pace(slice_seconds=0.001, rest_seconds=0.002, monotonic=lambda: now, rest=rest)
    for _ in range(10):
        now += 0.0004
        pace()
    assert rests == [(0.0012, 0.002), (0.0044, 0.002), (0.0076, 0.002)]
    assert pace.rests == 3


def test_the_interpreter_is_as_before_when_the_last_of_several_has_ended() -> None:
    before = sys.getswitchinterval()
    with quietly():
        with quietly():
            assert not gc.isenabled()
        assert not gc.isenabled()
        assert sys.getswitchinterval() == pytest.approx(SWITCH_SECONDS)
    assert gc.isenabled()
    assert sys.getswitchinterval() == pytest.approx(before)


def test_a_fault_leaves_the_interpreter_as_before() -> None:
    def fail() -> None:
        with quietly():
            raise KeyError(0)

    with pytest.raises(KeyError):
        fail()
    assert gc.isenabled()


def test_an_interpreter_that_collects_no_garbage_goes_on_collecting_none() -> None:
    gc.disable()
    try:
        with quietly():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_only_what_stays_is_left_out_of_later_collections() -> None:
    frozen = gc.get_freeze_count()
    with quietly():
        dropped = [[number] for number in range(1000)]
    assert gc.get_freeze_count() < frozen + len(dropped)
    with quietly() as step:
        kept = [[number] for number in range(1000)]
        step.keeps = True
    assert gc.get_freeze_count() >= frozen + len(kept)
    gc.unfreeze()


def test_garbage_that_was_kept_is_freed_once_in_so_many_reloads(monkeypatch: pytest.MonkeyPatch) -> None:
    class Part:
        """One of two that know each other."""

        other: "Part"

    monkeypatch.setattr(background, "_settings", background._Settings())
    garbage: list[weakref.ref[Part]] = []
    for number in range(SWEEP_EVERY):
        with quietly() as step:
            one, other = Part(), Part()
            one.other, other.other = other, one
            garbage.append(weakref.ref(one))
            del one, other
            step.keeps = True
        gc.collect()
        assert garbage[-1]() is not None  # no collection looks at it
        with quietly():
            assert not sweep()  # nor while something is computed
        if number < SWEEP_EVERY - 1:
            assert not sweep()
    assert sweep()
    assert [one() for one in garbage] == [None] * SWEEP_EVERY
    assert not sweep()
    gc.unfreeze()

"""Waiting for a condition, with a bound: instead of sleeping and hoping."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

POLL_SECONDS = 0.02
BOUND_SECONDS = 60
"""A loaded machine is slow, not broken."""

Value = TypeVar("Value")


def wait_until(condition: Callable[[], Value], *, seconds: float = BOUND_SECONDS) -> Value:
    """The first true value of `condition`. Fails when there is none in time."""
    ends = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < ends, f"still {value!r} after {seconds} s"
        time.sleep(POLL_SECONDS)
    return value


async def until(condition: Callable[[], Awaitable[Value]], *, seconds: float = BOUND_SECONDS) -> Value:
    """`wait_until` for a coroutine function."""
    ends = time.monotonic() + seconds
    while not (value := await condition()):
        assert time.monotonic() < ends, f"still {value!r} after {seconds} s"
        await asyncio.sleep(POLL_SECONDS)
    return value

"""Whether a store takes records now, asked of it at most once a second, whoever asks."""

import asyncio
from collections.abc import Awaitable, Callable

from authz.errors import StoreUnavailable
from authz.store.group_commit import GroupCommitter

_CACHE_SECONDS = 1.0
_TIMEOUT_SECONDS = 2.0


class Readiness:
    """Remembers the last answer for a second, but no longer than the store lives up to it."""

    def __init__(
        self,
        committer: GroupCommitter,
        read: Callable[[], Awaitable[object]],
        monotonic: Callable[[], float],
    ) -> None:
        """`read` makes one look-up and raises `StoreUnavailable` when that fails."""
        self._committer = committer
        self._read = read
        self._monotonic = monotonic
        self._known: tuple[bool, float] | None = None

    async def check(self) -> bool:
        """Whether the store can be read and takes records. Never raises."""
        now = self._monotonic()
        if self._committer.is_closed:
            return False
        # A failed batch ends what was remembered: until it, the store looked ready.
        was_ready, until = self._known or (True, now)
        if now < until and not (was_ready and self._committer.is_failing):
            return was_ready
        try:
            async with asyncio.timeout(_TIMEOUT_SECONDS):
                is_ready = await self._committer.is_ready()
                await self._read()
        except (StoreUnavailable, TimeoutError):
            is_ready = False
        self._known = (is_ready, now + _CACHE_SECONDS)
        return is_ready

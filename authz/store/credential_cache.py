"""A short memory of credentials, so that a busy caller costs no look-up for each request."""

import threading
from collections.abc import Awaitable, Callable

from authz.ports import Credential

CREDENTIAL_CACHE_SECONDS = 0.5
"""Half of the second within which a revocation must work everywhere (`ports.CredentialSource`)."""


class CredentialCache:
    """Remembers found credentials only: an unknown key costs its sender a look-up, not us memory."""

    def __init__(self, monotonic: Callable[[], float], *, max_entries: int = 1024) -> None:
        """`monotonic` is a clock in seconds that never goes back."""
        self._monotonic = monotonic
        self._max_entries = max_entries
        self._entries: dict[str, tuple[Credential, float]] = {}
        self._generation = 0
        self._lock = threading.Lock()

    def find(self, key_digest: str, load: Callable[[str], Credential | None]) -> Credential | None:
        """The credential, from memory while that is fresh, else by `load`, whose errors pass through."""
        asked_at, generation = self._monotonic(), self._generation
        known = self._fresh(key_digest, asked_at)
        if known is not None:
            return known
        return self._keep(key_digest, load(key_digest), asked_at, generation)

    async def find_async(
        self, key_digest: str, load: Callable[[str], Awaitable[Credential | None]]
    ) -> Credential | None:
        """The same where the look-up is waited for: what is remembered is as old as the question."""
        asked_at, generation = self._monotonic(), self._generation
        known = self._fresh(key_digest, asked_at)
        if known is not None:
            return known
        return self._keep(key_digest, await load(key_digest), asked_at, generation)

    def _fresh(self, key_digest: str, now: float) -> Credential | None:
        entry = self._entries.get(key_digest)
        return entry[0] if entry is not None and now < entry[1] else None

    def _keep(
        self, key_digest: str, credential: Credential | None, asked_at: float, generation: int
    ) -> Credential | None:
        with self._lock:
            if credential is None:
                self._entries.pop(key_digest, None)
            # What was read before a revocation must not be remembered after it.
            elif generation == self._generation:
                if len(self._entries) >= self._max_entries:
                    self._entries.clear()
                self._entries[key_digest] = (credential, asked_at + CREDENTIAL_CACHE_SECONDS)
        return credential

    def invalidate(self) -> None:
        """Forget everything; for revocations made in this process."""
        with self._lock:
            self._generation += 1
            self._entries.clear()

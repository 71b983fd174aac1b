"""A short memory of credentials, so that a busy caller costs no look-up for each request."""

import threading
from collections.abc import Callable

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
        now = self._monotonic()
        entry = self._entries.get(key_digest)
        if entry is not None and now < entry[1]:
            return entry[0]
        generation = self._generation
        credential = load(key_digest)
        with self._lock:
            if credential is None:
                self._entries.pop(key_digest, None)
            # What was read before a revocation must not be remembered after it.
            elif generation == self._generation:
                if len(self._entries) >= self._max_entries:
                    self._entries.clear()
                self._entries[key_digest] = (credential, now + CREDENTIAL_CACHE_SECONDS)
        return credential

    def invalidate(self) -> None:
        """Forget everything; for revocations made in this process."""
        with self._lock:
            self._generation += 1
            self._entries.clear()

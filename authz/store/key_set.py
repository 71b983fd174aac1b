"""The service's signing keys as a set: which one signs, which verify, and what a rotation does to them.

Every key has times, and its state at a moment follows from them, so all replicas that read the same set
change keys at the same moment, and no process has to be alive for it:

- `next`: published, not yet used. It signs from `active_from_ms` on.
- `active`: signs. The one with the latest `active_from_ms` that has come.
- `retired`: another took its place. Its tokens verify until the last of them has ended: `retired_at_ms` plus
  the longest lifetime plus `MARGIN_MS`.
- `expired`: no token of it can be alive. Its public part is kept for good, to verify the log that it signed.
- `withdrawn`: thrown out as compromised. No token verifies with it, however long it would have lived.
"""

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from authz_client.capabilities import PublicKey, SigningKey
from authz_client.capabilities.keys import MAX_KEYS

from authz.errors import ConfigError

MARGIN_MS: Final = 300_000
"""For clocks that differ, and for replicas that notice a rotation late."""


class KeyState(StrEnum):
    """Of a key at a moment."""

    NEXT = "next"
    ACTIVE = "active"
    RETIRED = "retired"
    EXPIRED = "expired"
    WITHDRAWN = "withdrawn"


_VERIFYING: Final = frozenset({KeyState.NEXT, KeyState.ACTIVE, KeyState.RETIRED})
# `next` too: a replica whose clock is ahead signs with it already.


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceKey:
    """One key. Times are milliseconds since the Unix epoch; 0 is "from the start"."""

    public: PublicKey
    signing: SigningKey | None
    """`None` once it has no more to sign: the private part is then forgotten."""
    published_at_ms: int = 0
    active_from_ms: int = 0
    withdrawn_at_ms: int | None = None

    @property
    def kid(self) -> str:
        """RFC 7638 thumbprint."""
        return self.public.thumbprint


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyStatus:
    """A key at a moment."""

    key: ServiceKey
    state: KeyState
    retired_at_ms: int | None = None
    """When its successor takes over, also before that moment."""
    verifies_until_ms: int | None = None
    """When the last of its tokens has surely ended; `None` for a key without a successor."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeySet:
    """All keys that there ever were, by `active_from_ms`, which no two share."""

    keys: tuple[ServiceKey, ...]

    def __post_init__(self) -> None:
        starts = [key.active_from_ms for key in self.keys]
        if not starts or starts != sorted(set(starts)) or len({key.kid for key in self.keys}) != len(starts):
            raise ValueError("a key set has keys, each of them once, in the order of their use")

    @classmethod
    def of(cls, first: SigningKey) -> "KeySet":
        """The set of a new service: one key, in use from the start whatever the clock says."""
        return cls(keys=(ServiceKey(public=first.public, signing=first),))

    def active(self, now_ms: int) -> SigningKey | None:
        """The key that signs at this moment.

        Where it was withdrawn, or is forgotten because this clock is behind, the next that signs. Never an
        earlier one: verifiers may have dropped it.
        """
        begun = [place for place, key in enumerate(self.keys) if key.active_from_ms <= now_ms]
        in_use = next((place for place in reversed(begun) if _takes_over(self.keys[place])), len(self.keys))
        return next((key.signing for key in self.keys[in_use:] if key.signing is not None), None)

    def statuses(self, now_ms: int, *, lifetime_ms: int) -> list[KeyStatus]:
        """Every key at this moment, oldest first. `lifetime_ms`: the longest that a token may live."""
        found = []
        successor_ms: int | None = None
        for key in reversed(self.keys):
            until_ms = None if successor_ms is None else successor_ms + lifetime_ms + MARGIN_MS
            state = _state(key, now_ms, retired_at_ms=successor_ms, until_ms=until_ms)
            found.append(
                KeyStatus(key=key, state=state, retired_at_ms=successor_ms, verifies_until_ms=until_ms)
            )
            if _takes_over(key):
                successor_ms = key.active_from_ms
        return found[::-1]

    def moments(self, *, lifetime_ms: int) -> list[int]:
        """When states change by themselves, in order: between two moments every answer stays the same."""
        return sorted(
            {
                moment
                for status in self.statuses(0, lifetime_ms=lifetime_ms)
                for moment in (status.key.active_from_ms, status.retired_at_ms, status.verifies_until_ms)
                if moment is not None
            }
        )

    def verifying(self, now_ms: int, *, lifetime_ms: int) -> dict[str, PublicKey]:
        """The keys that verify tokens at this moment, by `kid`: next, active and retired."""
        return {
            status.key.kid: status.key.public
            for status in self.statuses(now_ms, lifetime_ms=lifetime_ms)
            if status.state in _VERIFYING
        }

    def withdrawn(self) -> frozenset[str]:
        """The `kid` of every key that was thrown out."""
        return frozenset(key.kid for key in self.keys if key.withdrawn_at_ms is not None)

    def find(self, kid: str) -> ServiceKey | None:
        """The key of that name, in whatever state."""
        return next((key for key in self.keys if key.kid == kid), None)

    def rotated(
        self, new: SigningKey, now_ms: int, *, publish_ms: int, lifetime_ms: int, at_once: bool = False
    ) -> "KeySet":
        """The set with a next key, which is in use `publish_ms` from now, or `at_once`.

        A key that is waiting already is brought forward by `at_once` in the place of `new`, and without it
        stands in the way. Raises `ConfigError` for that, and when more keys verify than verifiers read.
        """
        waiting = self._waiting(now_ms)
        if waiting is not None and not at_once:
            raise ConfigError(
                f"the key `{waiting.kid}` is published and waits to take over; wait for it, or withdraw it"
            )
        if len(self.verifying(now_ms, lifetime_ms=lifetime_ms)) >= MAX_KEYS and waiting is None:
            raise ConfigError(
                f"there are {MAX_KEYS} keys whose tokens may still live, and verifiers read no more; wait "
                "until the oldest of them has expired, or withdraw it"
            )
        return self._with_next(new, now_ms, delay_ms=0 if at_once else publish_ms)

    def without(self, kid: str, new: SigningKey, now_ms: int) -> "KeySet":
        """The set with that key withdrawn, and its private part forgotten.

        Where it is the one in use, the key that waits takes over at once, or else `new`. Withdrawing is for
        good: again it changes nothing. Raises `ConfigError` for a key that is not there.
        """
        found = self.find(kid)
        if found is None:
            raise ConfigError(f"there is no key `{kid}`; `authz signing-keys list` shows them")
        if found.withdrawn_at_ms is not None:
            return self
        active = self.active(now_ms)
        gone = replace(found, signing=None, withdrawn_at_ms=now_ms)
        rest = KeySet(keys=tuple(gone if key.kid == kid else key for key in self.keys))
        return rest._with_next(new, now_ms, delay_ms=0) if active is None or active.kid == kid else rest

    def tidied(self, now_ms: int) -> "KeySet":
        """The set without the private parts that have no more to sign.

        Not at the moment of their retirement: a replica whose clock is behind still signs with them.
        """
        # The lifetime plays no part in when a key retires.
        idle = {
            status.key.kid
            for status in self.statuses(now_ms, lifetime_ms=0)
            if status.retired_at_ms is not None and now_ms > status.retired_at_ms + MARGIN_MS
        }
        return KeySet(keys=tuple(replace(key, signing=None) if key.kid in idle else key for key in self.keys))

    def _waiting(self, now_ms: int) -> ServiceKey | None:
        return next(
            (key for key in self.keys if key.withdrawn_at_ms is None and key.active_from_ms > now_ms), None
        )

    def _with_next(self, new: SigningKey, now_ms: int, *, delay_ms: int) -> "KeySet":
        waiting = self._waiting(now_ms)
        others = [key for key in self.keys if waiting is None or key.kid != waiting.kid]
        # At a moment of its own, after those that are in use already.
        start_ms = now_ms + delay_ms
        taken = {key.active_from_ms for key in others}
        while start_ms in taken:
            start_ms += 1
        if waiting is None:
            key = ServiceKey(public=new.public, signing=new, published_at_ms=now_ms, active_from_ms=start_ms)
        else:
            key = replace(waiting, active_from_ms=start_ms)
        return KeySet(keys=tuple(sorted([*others, key], key=lambda each: each.active_from_ms)))


def _takes_over(key: ServiceKey) -> bool:
    """Whether it is ever in use: it was not withdrawn before its time."""
    return key.withdrawn_at_ms is None or key.withdrawn_at_ms > key.active_from_ms


def _state(key: ServiceKey, now_ms: int, *, retired_at_ms: int | None, until_ms: int | None) -> KeyState:
    if key.withdrawn_at_ms is not None:
        return KeyState.WITHDRAWN
    if now_ms < key.active_from_ms:
        return KeyState.NEXT
    if retired_at_ms is None or until_ms is None or now_ms < retired_at_ms:
        return KeyState.ACTIVE
    return KeyState.RETIRED if now_ms < until_ms else KeyState.EXPIRED

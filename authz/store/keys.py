"""The service's own keys, in use: what signs at a moment, what verifies, and the secret of keyed digests.

`authz.ports.CapabilityKeys` over the key file (`key_file`), and the signer of the log's checkpoints. A change
of the file by another process is noticed by looking at it every second, and by an unknown `kid`.
"""

import asyncio
import json
import logging
import threading
import time
from bisect import bisect_right
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, Self

import jwt
from authz_client.capabilities import PublicKey, SigningKey
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from authz.errors import ConfigError, StoreUnavailable
from authz.store.jwks import LogKeys, log_jwks, token_jwks
from authz.store.key_file import KeyMaterial, find_signature, read_key_file, write_new_key_file
from authz.store.key_rotation import tidy_keys

LIFETIME_SECONDS: Final = 86_400
"""The longest life of a token where none is told."""
LOOK_SECONDS: Final = 1.0
"""Between two looks at the file by themselves, and at least between two that unknown `kid`s cause."""
_ALGORITHM = "EdDSA"
_log = logging.getLogger("authz.keys")


class _Held:
    """One content of the key file, and what verifies between any two moments at which that changes."""

    __slots__ = ("_lifetime_ms", "_moments", "_verifying", "material", "signature")

    def __init__(self, material: KeyMaterial, lifetime_ms: int, signature: object) -> None:
        self.material = material
        self.signature = signature
        self._lifetime_ms = lifetime_ms
        self._moments = material.keys.moments(lifetime_ms=lifetime_ms)
        self._verifying: dict[int, Mapping[str, PublicKey]] = {}

    def verifying(self, now_ms: int) -> Mapping[str, PublicKey]:
        place = bisect_right(self._moments, now_ms)
        if place not in self._verifying:
            self._verifying[place] = self.material.keys.verifying(now_ms, lifetime_ms=self._lifetime_ms)
        return self._verifying[place]


class ServiceKeys:
    """The signing keys and a 32-byte secret. No private part shows in `repr`."""

    __slots__ = (
        "_clock",
        "_fault",
        "_held",
        "_lifetime_ms",
        "_look",
        "_looked_s",
        "_path",
        "_swap",
        "failures",
    )

    def __init__(
        self,
        material: KeyMaterial,
        *,
        path: Path | None = None,
        signature: object = None,
        lifetime_seconds: int = LIFETIME_SECONDS,
        clock: Callable[[], int] | None = None,
    ) -> None:
        """`path` is where changes are looked for. `clock` tells milliseconds, for the log's checkpoints."""
        self._path = path
        self._lifetime_ms = lifetime_seconds * 1000
        self._clock = clock or _now_ms
        # Replaced whole, so that whoever reads it, in any thread, has one state of things.
        self._held = _Held(material, self._lifetime_ms, signature)
        self._swap = threading.Lock()
        self._look: asyncio.Task[None] | None = None
        self._looked_s = float("-inf")  # for an unknown name
        self._fault = ""
        self.failures = 0
        """How often the file could not be read again, or was no continuation of what is in hand."""

    @classmethod
    def generate(cls) -> Self:
        """New random keys, in memory only."""
        return cls(KeyMaterial.generate())

    @classmethod
    def load(
        cls,
        path: Path,
        *,
        lifetime_seconds: int = LIFETIME_SECONDS,
        clock: Callable[[], int] | None = None,
    ) -> Self:
        """Read the key file. Raises `ConfigError` when it is absent, malformed, or open to others.

        `lifetime_seconds` is the longest that a token may live: so long, and a margin, retired keys verify.
        """
        read = read_key_file(path)
        return cls(
            read.material,
            path=path,
            signature=read.signature,
            lifetime_seconds=lifetime_seconds,
            clock=clock,
        )

    @classmethod
    def load_or_create(
        cls,
        path: Path,
        *,
        lifetime_seconds: int = LIFETIME_SECONDS,
        clock: Callable[[], int] | None = None,
    ) -> Self:
        """Read the key file, or make it where there is none; an older one is brought up to date.

        Two processes at once end with one file. Raises `ConfigError`.
        """
        if not path.exists():
            try:
                write_new_key_file(path, KeyMaterial.generate())
            except FileExistsError:
                pass  # another process was first: its keys are the keys
            except OSError as fault:
                raise ConfigError(f"the key file `{path}` cannot be made: {fault.strerror}") from fault
        found = read_key_file(path)
        now_ms = (clock or _now_ms)()
        if not found.is_newest or found.material.keys.tidied(now_ms) != found.material.keys:
            try:
                tidy_keys(path, now_ms=now_ms)
            except ConfigError as fault:
                # A mount that is only read is a good place for keys: another process tidies it.
                _log.warning("the key file stays as it is", extra={"fault": fault.message})
        return cls.load(path, lifetime_seconds=lifetime_seconds, clock=clock)

    def write_new(self, path: Path) -> None:
        """Write a new key file (0600, in a directory made 0700). Raises `FileExistsError`, `OSError`."""
        write_new_key_file(path, self._held.material)

    @property
    def identity(self) -> str:
        """Names the key file, the same through all rotations: `log_checkpoint.Signer`."""
        return self._held.material.identity

    @property
    def kid(self) -> str:
        """RFC 7638 thumbprint of the key in use. Raises `StoreUnavailable`."""
        return self.signer(self._clock()).kid

    def signer(self, now_ms: int) -> SigningKey:
        """The key that signs tokens at this moment: `ports.CapabilityKeys`."""
        active = self._held.material.keys.active(now_ms)
        if active is None:
            raise StoreUnavailable(
                "no signing key is in use at this time; check the clock and the key file",
                code="keys.none_active",
            )
        return active

    def verifying(self, now_ms: int) -> Mapping[str, PublicKey]:
        """The keys that verify tokens at this moment: `ports.CapabilityKeys`."""
        return self._held.verifying(now_ms)

    def jwks(self, now_ms: int) -> Mapping[str, Any]:
        """The set to publish: `ports.CapabilityKeys`."""
        return token_jwks(self._held.verifying(now_ms).values())

    async def find(self, kid: str, now_ms: int) -> PublicKey | None:
        """The key of that name that verifies: `ports.CapabilityKeys`.

        Only a name that no key ever had causes a look at the file, at most one every `LOOK_SECONDS`.
        """
        held = self._held
        if held.material.keys.find(kid) is None:
            if self._look is None and time.monotonic() - self._looked_s >= LOOK_SECONDS:
                self._looked_s = time.monotonic()
                self._look = asyncio.get_running_loop().create_task(asyncio.to_thread(self.refresh))
                self._look.add_done_callback(self._looked)
            if self._look is not None:
                # Not ended by whoever stops waiting for it: others wait too.
                await asyncio.shield(self._look)
        return self.verifying(now_ms).get(kid)

    def refresh(self) -> None:
        """Read the file if it changed. Never raises: when it cannot be read, what is in hand stays in use.

        A file of another secret, or one that takes back a withdrawal, is no continuation and is not used.
        """
        with self._swap:
            if self._path is None or find_signature(self._path) == self._held.signature:
                return
            try:
                read = read_key_file(self._path)
                _check_continues(self._held.material, read.material)
            except ConfigError as fault:
                self._failed(fault.message)
                return
            self._fault = ""
            self._held = _Held(read.material, self._lifetime_ms, read.signature)
            statuses = read.material.keys.statuses(self._clock(), lifetime_ms=self._lifetime_ms)
            _log.info(
                "the signing keys were read again",
                extra={"keys": {status.key.kid: str(status.state) for status in statuses}},
            )

    async def watch(self) -> None:
        """Look at the file every `LOOK_SECONDS`, until cancelled."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            await asyncio.to_thread(self.refresh)

    def sign(self, header: Mapping[str, object], payload: Mapping[str, object]) -> str:
        """A compact JWS (RFC 7515) by the key in use. `header` must name a `typ`; `alg`, `kid` are added.

        Raises `StoreUnavailable` when no key is in use.
        """
        if not header.get("typ") or {"alg", "kid"} & header.keys():
            raise ValueError("a header names a `typ`, and neither `alg` nor `kid`")
        key = self.signer(self._clock())
        text = json.dumps(payload, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
        headers = {**header, "kid": key.kid}
        return jwt.PyJWS().encode(text.encode("utf-8"), key.private, _ALGORITHM, headers)

    def log_keys(self) -> LogKeys:
        """Every key that there ever was: what the checkpoints of the log verify with."""
        keys = self._held.material.keys
        return LogKeys(keys={key.kid: key.public.key for key in keys.keys}, withdrawn=keys.withdrawn())

    def public_keys(self) -> dict[str, Ed25519PublicKey]:
        """The keys of `log_keys`, by `kid`."""
        return self.log_keys().keys

    def public_jwks(self) -> dict[str, list[dict[str, Any]]]:
        """The JWK set of `log_keys`: what verifies the log elsewhere. Not for tokens."""
        return log_jwks(self._held.material.keys)

    def derive(self, purpose: str) -> bytes:
        """32 bytes for one purpose (HKDF, RFC 5869, SHA-256); different purposes share nothing."""
        if not purpose:
            raise ValueError("a derived key needs a purpose")
        info = b"authz/1/" + purpose.encode("utf-8")
        return HKDF(algorithm=hashes.SHA256(), length=32, salt=None, info=info).derive(
            self._held.material.secret
        )

    def __repr__(self) -> str:
        return f"ServiceKeys(identity={self.identity!r})"

    def __reduce__(self) -> tuple[object, ...]:
        raise TypeError("service keys are not to be copied or pickled")

    def _looked(self, _: asyncio.Task[None]) -> None:
        self._look = None

    def _failed(self, fault: str) -> None:
        self.failures += 1
        if fault != self._fault:
            # Once for each fault: it is looked at every second.
            _log.error(
                "the key file was not read again; the keys in hand stay in use", extra={"fault": fault}
            )
        self._fault = fault


def _check_continues(held: KeyMaterial, read: KeyMaterial) -> None:
    if (read.identity, read.secret) != (held.identity, held.secret):
        raise ConfigError("the key file is of another service now; restart to use it")
    if not held.keys.withdrawn() <= read.keys.withdrawn():
        raise ConfigError("the key file takes back a withdrawal, as an old backup does; restart to use it")


def _now_ms() -> int:
    return time.time_ns() // 1_000_000

"""The key file: the signing keys and the secret, in one file that nobody else can read.

Replicas share it (a mounted folder), or each has a copy. It is replaced whole, under a lock, so that of two
who change it at once each builds on the other's result. Version 1 held one key; it is read for good, and
rewritten as version 2 when a service starts with it.
"""

import contextlib
import fcntl
import json
import os
import secrets
import stat
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from authz_client.capabilities import BadKey, generate_key, public_key, signing_key_from_jwk
from authz_client.capabilities.digests import base64url, from_base64url

from authz.core.log_chain import LAST_MS
from authz.errors import ConfigError
from authz.store.key_set import KeySet, ServiceKey

SECRET_BYTES: Final = 32
_VERSION: Final = 2
_MAX_BYTES: Final = 4 * 1024 * 1024
"""Room for about ten thousand keys."""
_LOCK_SECONDS: Final = 10
_KEY_MEMBERS: Final = frozenset({"jwk", "published_at_ms", "active_from_ms", "withdrawn_at_ms"})

FileSignature = tuple[int, ...]
"""What changes when the file does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyMaterial:
    """What the file holds. Its secret is in no `repr`."""

    identity: str
    """The `kid` of its first key. It names the file, through all rotations."""
    secret: bytes = field(repr=False)
    keys: KeySet

    def __post_init__(self) -> None:
        if len(self.secret) != SECRET_BYTES:
            raise ConfigError(f"the secret of the service must have {SECRET_BYTES} bytes")

    @classmethod
    def generate(cls) -> "KeyMaterial":
        """A new random key and secret, in memory only."""
        first = generate_key()
        return cls(identity=first.kid, secret=secrets.token_bytes(SECRET_BYTES), keys=KeySet.of(first))


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadFile:
    """A key file as it was read."""

    material: KeyMaterial
    is_newest: bool
    """Whether it is of the version that is written today."""
    signature: FileSignature


def read_key_file(path: Path) -> ReadFile:
    """Read the key file. Raises `ConfigError` when it is absent, malformed, or open to others."""
    try:
        # Opening a pipe would wait for whoever writes into it, before anything could be said of it.
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        with os.fdopen(descriptor, "rb") as file:
            # On the open file and not on the path, which could be another file by then; and before its
            # content, so that what is written meanwhile is seen to have changed.
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode) or status.st_mode & 0o077:
                raise ConfigError(f"the key file `{path}` is open to others; run `chmod 600` on it")
            content = file.read(_MAX_BYTES + 1)
    except OSError as fault:
        raise ConfigError(f"the key file `{path}` cannot be read: {fault.strerror}") from fault
    try:
        is_newest, material = _parse(content)
    except (BadKey, ValueError, KeyError, TypeError, AttributeError, RecursionError, ConfigError):
        # `from None`: the causes quote the file.
        raise ConfigError(f"the key file `{path}` is damaged; restore it from a backup") from None
    return ReadFile(material=material, is_newest=is_newest, signature=_signature(status))


def find_signature(path: Path) -> FileSignature | None:
    """The signature of the file as it is now, without reading it; `None` when it cannot be told."""
    try:
        return _signature(path.stat())
    except OSError:
        return None


def write_new_key_file(path: Path, material: KeyMaterial) -> None:
    """Write a new key file (0600, in a directory made 0700). Raises `FileExistsError`, `OSError`.

    The file appears whole or not at all: it is written under another name and then linked, which, unlike
    a rename, fails when the name is taken.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    draft = path.parent / f".{path.name}.{secrets.token_hex(8)}"
    try:
        _write_draft(draft, material)
        os.link(draft, path)
    finally:
        draft.unlink(missing_ok=True)
    _sync_directory(path.parent)


def change_key_file(path: Path, change: Callable[[KeyMaterial], KeyMaterial]) -> KeyMaterial:
    """Replace the file by what `change` makes of it, and return that. Raises `ConfigError`, also `change`'s.

    One at a time: `change` gets what the one before left. It is durable when this returns, and whoever
    reads meanwhile gets the whole old or the whole new file. Without a change it is only brought to the
    newest version.
    """
    # Where the name is a link to a mounted file, that is replaced, and not the link.
    real = Path(os.path.realpath(path))
    try:
        with _locked(real):
            before = read_key_file(real)
            after = change(before.material)
            if after != before.material or not before.is_newest:
                _replace(real, after)
    except OSError as fault:
        raise ConfigError(f"the key file `{path}` cannot be changed: {fault.strerror}") from fault
    return after


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    owner = path.stat()  # first: where there is no key file there is nothing to lock
    lock = path.with_name(f".{path.name}.lock")
    # It stays: to remove a lock is to let two in.
    descriptor = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        if os.geteuid() == 0 and os.fstat(descriptor).st_uid != owner.st_uid:
            os.fchown(descriptor, owner.st_uid, owner.st_gid)
        deadline_s = time.monotonic() + _LOCK_SECONDS
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline_s:
                    raise ConfigError(
                        f"another process is changing the key file `{path}`; try again"
                    ) from None
                time.sleep(0.02)
        yield
    finally:
        os.close(descriptor)


def _replace(path: Path, material: KeyMaterial) -> None:
    owner = path.stat()
    # One name, since only one writes at a time: what a killed one left behind is private keys, and goes.
    draft = path.with_name(f".{path.name}.next")
    draft.unlink(missing_ok=True)
    try:
        _write_draft(draft, material)
        if owner.st_uid != os.geteuid():
            # An administrator must not take the file away from the service's own user.
            os.chown(draft, owner.st_uid, owner.st_gid)
        os.replace(draft, path)
    finally:
        draft.unlink(missing_ok=True)
    _sync_directory(path.parent)


def _write_draft(draft: Path, material: KeyMaterial) -> None:
    descriptor = os.open(draft, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        os.fchmod(descriptor, 0o600)  # whatever the umask took away, the owner needs
        file.write(_serialize(material))
        file.flush()
        # Before it gets its name, or losing power could leave an empty file there.
        os.fsync(descriptor)


def _sync_directory(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _signature(status: os.stat_result) -> FileSignature:
    return (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)


def _serialize(material: KeyMaterial) -> bytes:
    keys = [
        {
            "jwk": key.public.jwk if key.signing is None else key.signing.private_jwk,
            "published_at_ms": key.published_at_ms,
            "active_from_ms": key.active_from_ms,
            "withdrawn_at_ms": key.withdrawn_at_ms,
        }
        for key in material.keys.keys
    ]
    secret = base64url(material.secret)
    content = {"version": _VERSION, "id": material.identity, "secret": secret, "keys": keys}
    data = json.dumps(content, indent=2).encode() + b"\n"
    if len(data) > _MAX_BYTES:
        raise ConfigError("the key file is full; it keeps every key that the log was signed with")
    return data


def _parse(content: bytes) -> tuple[bool, KeyMaterial]:
    """(whether it is of the newest version, what it holds)."""
    if len(content) > _MAX_BYTES:
        raise ValueError("the file is too large")
    members = json.loads(content)
    secret = from_base64url(members["secret"])
    if secret is None:
        raise ValueError("the secret is not base64url")
    version = members["version"]
    if version == 1 and members.keys() == {"version", "signing_key", "secret"}:
        first = signing_key_from_jwk(members["signing_key"])
        return False, KeyMaterial(identity=first.kid, secret=secret, keys=KeySet.of(first))
    if version != _VERSION or members.keys() != {"version", "id", "secret", "keys"}:
        raise ValueError("unknown version")
    keys = KeySet(keys=tuple(_parse_key(item) for item in members["keys"]))
    if keys.find(members["id"]) is None or all(key.signing is None for key in keys.keys):
        raise ValueError("the file is not named by a key of its own, or nothing in it signs")
    return True, KeyMaterial(identity=members["id"], secret=secret, keys=keys)


def _parse_key(members: Mapping[str, Any]) -> ServiceKey:
    jwk, withdrawn_at_ms = members["jwk"], members["withdrawn_at_ms"]
    if members.keys() != _KEY_MEMBERS or ("d" in jwk and withdrawn_at_ms is not None):
        raise ValueError("a key has other members, or was withdrawn and could still sign")
    signing = signing_key_from_jwk(jwk) if "d" in jwk else None
    return ServiceKey(
        public=public_key(jwk) if signing is None else signing.public,
        signing=signing,
        published_at_ms=_milliseconds(members["published_at_ms"]),
        active_from_ms=_milliseconds(members["active_from_ms"]),
        withdrawn_at_ms=None if withdrawn_at_ms is None else _milliseconds(withdrawn_at_ms),
    )


def _milliseconds(value: Any) -> int:
    # A time that a calendar has, so that it can be shown.
    if type(value) is not int or not 0 <= value <= LAST_MS:
        raise ValueError("a time is no number of milliseconds")
    return value

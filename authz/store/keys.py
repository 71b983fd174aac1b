"""The service's own keys: one file with the signing key and the secret behind every keyed digest."""

import base64
import json
import os
import secrets
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Self

import jwt
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from authz.errors import ConfigError
from authz.store.jwks import thumbprint

SECRET_BYTES = 32
_FILE_VERSION = 1
_ALGORITHM = "EdDSA"


class ServiceKeys:
    """An Ed25519 signing key and a 32-byte secret. Neither shows in `repr`, nor leaves by an attribute."""

    __slots__ = ("_secret", "_signing_key", "kid")

    def __init__(self, *, signing_key: Ed25519PrivateKey, secret: bytes) -> None:
        if len(secret) != SECRET_BYTES:
            raise ConfigError(f"the secret of the service must have {SECRET_BYTES} bytes")
        self._signing_key = signing_key
        self._secret = secret
        self.kid = thumbprint(self._public_jwk())
        """RFC 7638 thumbprint of the signing key."""

    @classmethod
    def generate(cls) -> Self:
        """New random keys, in memory only."""
        return cls(signing_key=Ed25519PrivateKey.generate(), secret=secrets.token_bytes(SECRET_BYTES))

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read the key file. Raises `ConfigError` when it is absent, malformed, or open to others."""
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError as fault:
            raise ConfigError(f"the key file `{path}` cannot be read: {fault.strerror}") from fault
        with os.fdopen(descriptor, "rb") as file:
            # On the open file and not on the path, which could be another file by then.
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode) or status.st_mode & 0o077:
                raise ConfigError(f"the key file `{path}` is open to others; run `chmod 600` on it")
            content = file.read(64 * 1024)
        return cls._parse(path, content)

    @classmethod
    def load_or_create(cls, path: Path) -> Self:
        """Read the key file, or make it where there is none. Two processes at once end with one file."""
        if not path.exists():
            try:
                cls.generate().write_new(path)
            except FileExistsError:
                pass  # another process was first: its keys are the keys
            except OSError as fault:
                raise ConfigError(f"the key file `{path}` cannot be made: {fault.strerror}") from fault
        return cls.load(path)

    def write_new(self, path: Path) -> None:
        """Write a new key file (0600, in a directory made 0700). Raises `FileExistsError`, `OSError`.

        The file appears whole or not at all: it is written under another name and then linked, which,
        unlike a rename, fails when the name is taken.
        """
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        draft = path.parent / f".{path.name}.{secrets.token_hex(8)}"
        descriptor = os.open(draft, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600)
        try:
            with os.fdopen(descriptor, "wb") as file:
                os.fchmod(descriptor, 0o600)  # whatever the umask took away, the owner needs
                file.write(self._serialize())
                file.flush()
                os.fsync(file.fileno())
            os.link(draft, path)
        finally:
            os.unlink(draft)
        directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)

    def sign(self, header: Mapping[str, object], payload: Mapping[str, object]) -> str:
        """A compact JWS (RFC 7515) with EdDSA. `header` must name a `typ`; `alg` and `kid` are added."""
        if not header.get("typ") or {"alg", "kid"} & header.keys():
            raise ValueError("a header names a `typ`, and neither `alg` nor `kid`")
        text = json.dumps(payload, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
        headers = {**header, "kid": self.kid}
        return jwt.PyJWS().encode(text.encode("utf-8"), self._signing_key, _ALGORITHM, headers)

    def public_keys(self) -> dict[str, Ed25519PublicKey]:
        """The public key by its `kid`."""
        return {self.kid: self._signing_key.public_key()}

    def public_jwks(self) -> dict[str, list[dict[str, str]]]:
        """The JWK set (RFC 7517) to publish."""
        return {"keys": [{**self._public_jwk(), "kid": self.kid, "use": "sig", "alg": _ALGORITHM}]}

    def derive(self, purpose: str) -> bytes:
        """32 bytes for one purpose (HKDF, RFC 5869, SHA-256); different purposes share nothing."""
        if not purpose:
            raise ValueError("a derived key needs a purpose")
        info = b"authz/1/" + purpose.encode("utf-8")
        return HKDF(algorithm=hashes.SHA256(), length=32, salt=None, info=info).derive(self._secret)

    def __repr__(self) -> str:
        return f"ServiceKeys(kid={self.kid!r})"

    def __reduce__(self) -> tuple[object, ...]:
        raise TypeError("service keys are not to be copied or pickled")

    def _public_jwk(self) -> dict[str, str]:
        public = self._signing_key.public_key().public_bytes_raw()
        return {"kty": "OKP", "crv": "Ed25519", "x": _encode(public)}

    def _serialize(self) -> bytes:
        private_jwk = {**self._public_jwk(), "d": _encode(self._signing_key.private_bytes_raw())}
        content = {"version": _FILE_VERSION, "signing_key": private_jwk, "secret": _encode(self._secret)}
        return json.dumps(content, indent=2).encode() + b"\n"

    @classmethod
    def _parse(cls, path: Path, content: bytes) -> Self:
        # `from None`: the causes quote the file.
        try:
            members = json.loads(content)
            jwk = members["signing_key"]
            if members["version"] != _FILE_VERSION or (jwk["kty"], jwk["crv"]) != ("OKP", "Ed25519"):
                raise ValueError("unknown version or kind of key")
            keys = cls(
                signing_key=Ed25519PrivateKey.from_private_bytes(_decode(jwk["d"])),
                secret=_decode(members["secret"]),
            )
            if keys._public_jwk()["x"] != jwk["x"]:
                raise ValueError("the public and private parts do not belong together")
        except (ValueError, KeyError, TypeError, RecursionError, ConfigError):
            raise ConfigError(f"the key file `{path}` is damaged; restore it from a backup") from None
        return keys


def _encode(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode("ascii")


def _decode(text: str) -> bytes:
    return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)

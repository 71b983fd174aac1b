"""Public keys of a JWK set (RFC 7517), named by their thumbprints (RFC 7638)."""

import base64
import hashlib
import json
from collections.abc import Mapping
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from authz.errors import ConfigError


def thumbprint(jwk: Mapping[str, str]) -> str:
    """RFC 7638 section 3 for an OKP key (RFC 8037 section 2): base64url of SHA-256 over its members."""
    members = {name: jwk[name] for name in ("crv", "kty", "x")}
    text = json.dumps(members, separators=(",", ":"), sort_keys=True)
    digest = hashlib.sha256(text.encode("utf-8")).digest()
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode("ascii")


def load_jwks(path: Path) -> dict[str, Ed25519PublicKey]:
    """The Ed25519 keys of a JWK set file, by thumbprint; a `kid` in the file is not believed.

    Raises `ConfigError` when the file cannot be read, is malformed, or holds no such key.
    """
    try:
        content = json.loads(path.read_bytes())
        jwks = [jwk for jwk in content["keys"] if (jwk.get("kty"), jwk.get("crv")) == ("OKP", "Ed25519")]
        keys = {thumbprint(jwk): _public_key(jwk["x"]) for jwk in jwks}
    except OSError as fault:
        raise ConfigError(f"the key set `{path}` cannot be read: {fault.strerror}") from fault
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as fault:
        raise ConfigError(f"the key set `{path}` is not a JWK set") from fault
    if not keys:
        raise ConfigError(f"the key set `{path}` holds no Ed25519 key")
    return keys


def _public_key(x: str) -> Ed25519PublicKey:
    data = base64.b64decode(x + "=" * (-len(x) % 4), altchars=b"-_", validate=True)
    return Ed25519PublicKey.from_public_bytes(data)

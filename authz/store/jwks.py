"""Key sets (RFC 7517) of this service: what it publishes, and what verifies its log elsewhere.

The set for the log tells of each key whether it was withdrawn, by the member `revoked` of historical keys
(OpenID Federation 1.0).
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from authz_client.capabilities import BadKey, PublicKey, public_key
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from authz.errors import ConfigError
from authz.store.key_set import KeySet


@dataclass(frozen=True, slots=True, kw_only=True)
class LogKeys:
    """What the checkpoints of a log are verified with, by thumbprint (RFC 7638)."""

    keys: dict[str, Ed25519PublicKey]
    withdrawn: frozenset[str] = frozenset()
    """Those that prove nothing by themselves any more."""


def token_jwks(keys: Iterable[PublicKey]) -> dict[str, list[dict[str, str]]]:
    """The set that verifiers of tokens read."""
    return {"keys": [_published(key) for key in keys]}


def log_jwks(keys: KeySet) -> dict[str, list[dict[str, Any]]]:
    """Every key that there ever was, for `authz log verify --jwks` where the key file is not."""
    found: list[dict[str, Any]] = []
    for key in keys.keys:
        jwk: dict[str, Any] = dict(_published(key.public))
        if key.withdrawn_at_ms is not None:
            jwk["revoked"] = {"revoked_at": key.withdrawn_at_ms // 1000, "reason": "compromised"}
        found.append(jwk)
    return {"keys": found}


def load_log_keys(path: Path) -> LogKeys:
    """The Ed25519 keys of a JWK set file; a `kid` in the file is not believed.

    Raises `ConfigError` when the file cannot be read, is malformed, or holds no such key.
    """
    try:
        content = json.loads(path.read_bytes())
        jwks = [jwk for jwk in content["keys"] if (jwk.get("kty"), jwk.get("crv")) == ("OKP", "Ed25519")]
        keys = [
            (public_key({name: jwk[name] for name in ("kty", "crv", "x")}), "revoked" in jwk) for jwk in jwks
        ]
    except OSError as fault:
        raise ConfigError(f"the key set `{path}` cannot be read: {fault.strerror}") from fault
    except (BadKey, ValueError, KeyError, TypeError, AttributeError, RecursionError) as fault:
        raise ConfigError(f"the key set `{path}` is not a JWK set") from fault
    if not keys:
        raise ConfigError(f"the key set `{path}` holds no Ed25519 key")
    return LogKeys(
        keys={key.thumbprint: key.key for key, _ in keys},
        withdrawn=frozenset(key.thumbprint for key, is_revoked in keys if is_revoked),
    )


def _published(key: PublicKey) -> dict[str, str]:
    return {**key.jwk, "kid": key.thumbprint, "use": "sig", "alg": "EdDSA"}

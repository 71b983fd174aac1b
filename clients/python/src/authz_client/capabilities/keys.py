"""Ed25519 keys: those that verify, those that sign, their JWKs (RFC 8037) and thumbprints (RFC 7638).

A JWK is read member by member before any library sees it, so that one key has one spelling: a thumbprint is
the handle by which a holder is revoked.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final, Protocol

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from authz_client.capabilities.digests import base64url, from_base64url, sha256_base64url

THUMBPRINT_URN: Final = "urn:ietf:params:oauth:jwk-thumbprint:sha-256:"
"""RFC 9278: what a derived link names its issuer by."""
_JWK_MEMBERS: Final = frozenset({"kty", "crv", "x"})
# What a published key may say of itself besides; each must say what it is for here.
_PUBLISHED: Final[Mapping[str, Any]] = {
    "use": ("sig",),
    "alg": ("EdDSA", "Ed25519"),
    "key_ops": (["verify"],),
}
MAX_KEYS: Final = 64
_FIELD_PRIME: Final = 2**255 - 19
_ORDER_8_Y: Final = 0x7A03AC9277FDC74EC6CC392CFA53202A0F67100D760B3CBA4FD84D3D706A17C7
# y of the eight points of small order: with such a key anybody can sign (RFC 8032, section 7; Wycheproof).
_SMALL_ORDER: Final = frozenset({0, 1, _FIELD_PRIME - 1, _ORDER_8_Y, _FIELD_PRIME - _ORDER_8_Y})


class BadKey(ValueError):
    """A key that is no Ed25519 key in its one spelling. Never echoes the key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PublicKey:
    """A key that verifies. Two are equal when their `x` is."""

    x: str
    """The public key, base64url (RFC 8037, section 2)."""
    thumbprint: str
    """RFC 7638, SHA-256, base64url."""
    key: Ed25519PublicKey = field(compare=False, repr=False)

    @property
    def jwk(self) -> dict[str, str]:
        """Exactly `kty`, `crv` and `x`."""
        return {"kty": "OKP", "crv": "Ed25519", "x": self.x}

    @property
    def urn(self) -> str:
        """The key as an issuer (RFC 9278)."""
        return THUMBPRINT_URN + self.thumbprint


class Signer(Protocol):
    """What signs: a key in hand (`SigningKey`), or one that stays elsewhere, as in a KMS."""

    @property
    def kid(self) -> str:
        """How headers name the key. Opaque to verifiers."""
        ...

    @property
    def public(self) -> PublicKey:
        """What verifies it."""
        ...

    def sign(self, signing_input: bytes) -> bytes:
        """The 64 bytes of an Ed25519 signature (RFC 8032), over `signing_input` itself and no digest."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class SigningKey:
    """A key that signs. Its private part is in no `repr`."""

    private: Ed25519PrivateKey = field(compare=False, repr=False)
    public: PublicKey

    @property
    def kid(self) -> str:
        """The thumbprint."""
        return self.public.thumbprint

    def sign(self, signing_input: bytes) -> bytes:
        """`Signer`."""
        return self.private.sign(signing_input)

    @property
    def private_jwk(self) -> dict[str, str]:
        """The key with its private part `d`: for a key store only."""
        return {**self.public.jwk, "d": base64url(self.private.private_bytes_raw())}

    @property
    def private_pem(self) -> bytes:
        """PKCS #8, unencrypted: for a key store only."""
        return self.private.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )


def public_key(jwk: Any) -> PublicKey:
    """The key of a `cnf.jwk`: exactly `kty`, `crv` and `x`. Raises `BadKey`."""
    if not isinstance(jwk, dict) or jwk.keys() != _JWK_MEMBERS:
        raise BadKey("a key is an object of exactly `kty`, `crv` and `x`")
    if jwk["kty"] != "OKP" or jwk["crv"] != "Ed25519":
        raise BadKey("a key has `kty` `OKP` and `crv` `Ed25519`")
    x = jwk["x"]
    if not isinstance(x, str) or len(x) != 43:
        raise BadKey("`x` is 32 bytes in unpadded base64url")
    return _known_key(x)


@lru_cache(maxsize=1024)
def _known_key(x: str) -> PublicKey:
    raw = from_base64url(x)
    if raw is None:
        raise BadKey("`x` is 32 bytes in unpadded base64url")
    # RFC 8032, section 5.1.3: y has one encoding below p. Libraries take y + p for y, which would be a
    # second thumbprint for one key, and with it a way around a revocation.
    y = int.from_bytes(raw, "little") & (2**255 - 1)
    if y >= _FIELD_PRIME or y in _SMALL_ORDER:
        raise BadKey("`x` is no public key: not reduced, or of small order")
    # RFC 7638, section 3.2: the required members in lexicographic order, without white space.
    thumbprint = sha256_base64url(b'{"crv":"Ed25519","kty":"OKP","x":"%s"}' % x.encode())
    return PublicKey(x=x, thumbprint=thumbprint, key=Ed25519PublicKey.from_public_bytes(raw))


def published_keys(jwks: Any) -> dict[str, PublicKey]:
    """The Ed25519 keys of a JWK Set by `kid`. Raises `BadKey` for a set that can be read in two ways.

    Keys of other types and for other uses are not loaded (RFC 7517, section 5): nothing verifies under them.
    """
    if not isinstance(jwks, dict) or not isinstance(jwks.get("keys"), list) or len(jwks["keys"]) > MAX_KEYS:
        raise BadKey(f"a key set is an object with `keys`, a list of at most {MAX_KEYS}")
    seen: set[str] = set()
    found: dict[str, PublicKey] = {}
    for jwk in jwks["keys"]:
        kid = jwk.get("kid") if isinstance(jwk, dict) else None
        if not isinstance(kid, str) or not 0 < len(kid) <= 256:
            raise BadKey("every key of a set has a `kid`")
        if kid in seen:
            raise BadKey("two keys of the set have one `kid`")
        seen.add(kid)
        if (key := published_key(jwk)) is not None:
            found[kid] = key
    return found


def published_key(jwk: Any) -> PublicKey | None:
    """The key of a published JWK, which may say what it is for; `None` when that is something else here.

    Raises `BadKey` for an Ed25519 key that is malformed, or comes with its private part.
    """
    if not isinstance(jwk, dict):
        raise BadKey("a key is an object")
    if jwk.get("kty") != "OKP" or jwk.get("crv") != "Ed25519":
        return None
    if any(name in jwk and jwk[name] not in allowed for name, allowed in _PUBLISHED.items()):
        return None
    return public_key({name: jwk[name] for name in jwk if name != "kid" and name not in _PUBLISHED})


def signing_key(raw: bytes) -> SigningKey:
    """The key of a 32-byte seed (RFC 8032, section 5.1.5). Raises `BadKey`."""
    if len(raw) != 32:
        raise BadKey("a private key is 32 bytes")
    return _with_public(Ed25519PrivateKey.from_private_bytes(raw))


def generate_key() -> SigningKey:
    """A new key, from the system's randomness."""
    return _with_public(Ed25519PrivateKey.generate())


def signing_key_from_jwk(jwk: Any) -> SigningKey:
    """The key of a private JWK: `kty`, `crv`, `x` and `d`, where `x` must belong to `d`. Raises `BadKey`."""
    if not isinstance(jwk, dict) or jwk.keys() != _JWK_MEMBERS | {"d"} or not isinstance(jwk["d"], str):
        raise BadKey("a private key is an object of exactly `kty`, `crv`, `x` and `d`")
    raw = from_base64url(jwk["d"])
    if raw is None:
        raise BadKey("`d` is 32 bytes in unpadded base64url")
    key = signing_key(raw)
    if key.public != public_key({name: jwk[name] for name in _JWK_MEMBERS}):
        raise BadKey("`x` is not the public key of `d`")
    return key


def signing_key_from_pem(pem: bytes) -> SigningKey:
    """The key of an unencrypted PKCS #8 PEM. Raises `BadKey`."""
    try:
        private = serialization.load_pem_private_key(pem, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise BadKey("the text is no unencrypted private key in PEM") from None
    if not isinstance(private, Ed25519PrivateKey):
        raise BadKey("the private key is not an Ed25519 key")
    return _with_public(private)


def _with_public(private: Ed25519PrivateKey) -> SigningKey:
    x = base64url(private.public_key().public_bytes_raw())
    return SigningKey(private=private, public=_known_key(x))

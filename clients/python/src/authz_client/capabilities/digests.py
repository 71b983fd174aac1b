"""Digests and encodings of the profile: base64url, SHA-256, and RFC 8785 forms.

`sha256:` + hex for what stands in decisions (`request_digest`, the digest of arguments), unpadded base64url
for what stands in tokens (`par_hash`, `ath`, thumbprints).
"""

import base64
import binascii
import hashlib
import re
from collections.abc import Mapping
from typing import Any, Final

import rfc8785

_ALPHABET: Final = re.compile(r"[A-Za-z0-9_-]*")


def base64url(data: bytes) -> str:
    """RFC 7515, section 2: the URL-safe alphabet without padding."""
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode("ascii")


def from_base64url(text: str) -> bytes | None:
    """The bytes of `text`, or `None` where another text would have the same ones.

    Refused: padding, white space, the standard alphabet, a length that no bytes have, and unused trailing
    bits that are not zero (RFC 4648, section 3.5), so that one token has one spelling.
    """
    if len(text) % 4 == 1 or _ALPHABET.fullmatch(text) is None:
        return None
    try:
        data = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except (ValueError, binascii.Error):
        return None
    return data if base64url(data) == text else None


def sha256_base64url(data: bytes) -> str:
    """The digest of `data` as tokens write it: 43 characters."""
    return base64url(hashlib.sha256(data).digest())


def canonical_json(value: Any) -> bytes:
    """The RFC 8785 form of a JSON value. Raises `ValueError` for what has none (NaN, ±2^53 and over)."""
    try:
        return rfc8785.dumps(value)
    except (rfc8785.CanonicalizationError, UnicodeEncodeError, RecursionError) as error:
        raise ValueError(f"the value has no canonical form ({type(error).__name__})") from None


def json_digest(value: Any) -> str:
    """`sha256:` + the hex SHA-256 of the RFC 8785 form of `value`. Raises `ValueError`."""
    return "sha256:" + hashlib.sha256(canonical_json(value)).hexdigest()


def request_digest(body: Mapping[str, Any]) -> str:
    """What a proof of possession signs: the request body less `capability` and `proof` (spec section 1).

    The body as it is sent: the service digests what arrives, with no defaults filled in.
    """
    return json_digest({name: value for name, value in body.items() if name not in ("capability", "proof")})


def arguments_digest(arguments: Mapping[str, Any]) -> str:
    """What a ticket binds: the canonical arguments of the decision, with defaults."""
    return json_digest(dict(arguments))

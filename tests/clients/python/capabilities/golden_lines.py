"""Lines for `authz capabilities verify`, and the chains that golden cases begin with."""

from collections.abc import Mapping, Sequence
from typing import Any

from authz_client.capabilities import VerifiedChain, verify_structure

from tests.clients.python.capabilities.golden_tables import NARROW, WIDE
from tests.clients.python.capabilities.making import (
    AUDIENCE,
    ISSUER,
    KEYS,
    KID,
    NOW,
    ROOT,
    child,
    opened,
    root,
)

Case = tuple[str, dict[str, Any], str]


def line(chain: Sequence[Any], **changes: Any) -> dict[str, Any]:
    """A line of input."""
    return {
        "chain": list(chain),
        "verify_at": NOW + 10,
        "aud": AUDIENCE,
        "iss": ISSUER,
        "keys": {KID: ROOT.public.jwk},
        "revoked_jti": [],
        **changes,
    }


def token(text: Any, **changes: Any) -> dict[str, Any]:
    """A line of input for an envelope alone."""
    found = line([], **changes)
    del found["chain"]
    return {"token": text, **found}


def down_to(depth: int, *entries: Mapping[str, Any]) -> tuple[str, ...]:
    """A chain whose leaf has `del_depth` `depth`, all links with the same entries."""
    chain: tuple[str, ...] = root(list(entries) or [WIDE])
    for _ in range(depth):
        chain = child(chain)
    return chain


def bare() -> dict[str, Any]:
    return {"iss": ISSUER, "aud": AUDIENCE, "sub": "ada", "jti": "j", "iat": NOW, "exp": NOW + 60}


def with_ancestors(chain: Sequence[str]) -> tuple[dict[str, Any], dict[str, Any]]:
    found = verify_structure(chain, audience=AUDIENCE, issuer=ISSUER, keys=KEYS)
    assert isinstance(found, VerifiedChain), found
    header, claims = opened(root([NARROW])[0])
    return header, claims | {"anc": [item.as_json for item in found.handles]}

"""Keys, links and chains for tests: from fixed seeds, so that every run makes the same bytes.

The keys guard nothing: each is the SHA-256 of a sentence that stands here.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from authz_client.capabilities import (
    NOTHING_REVOKED,
    PublicKey,
    Reason,
    Refusal,
    Revocations,
    SigningKey,
    VerifiedChain,
    issue_root,
    narrow,
    signing_key,
    verify_chain,
)
from authz_client.capabilities.digests import base64url
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

NOW: Final = 1_800_000_000
ISSUER: Final = "https://issuer.example.com"
AUDIENCE: Final = "https://pdp.example.com"


def key(name: str) -> SigningKey:
    """The test key of this name."""
    return signing_key(hashlib.sha256(f"a key for tests only: {name}".encode()).digest())


ROOT: Final = key("issuer")
KID: Final = "root-1"
KEYS: Final[Mapping[str, PublicKey]] = {KID: ROOT.public}
HOLDERS: Final = tuple(key(f"holder {number}") for number in range(10))


def entry(
    *,
    actions: Sequence[str] = ("fs/file_read", "write"),
    locations: Sequence[str] = ("file:///srv/work",),
    constraints: Mapping[str, Any] | None = None,
    budget: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """One element of `authorization_details`."""
    found: dict[str, Any] = {
        "type": "agent_tool_call",
        "actions": list(actions),
        "locations": list(locations),
    }
    if constraints is not None:
        found["constraints"] = dict(constraints)
    if budget is not None:
        found["budget"] = dict(budget)
    return found


def root(entries: Sequence[Mapping[str, Any]] | None = None, **changes: Any) -> tuple[str]:
    """A chain of one link, held by `HOLDERS[0]`."""
    given: dict[str, Any] = {
        "kid": KID,
        "issuer": ISSUER,
        "audience": AUDIENCE,
        "subject": "ada",
        "agent": "coder-1",
        "holder": HOLDERS[0].public,
        "jti": "j-0",
        "iat": NOW,
        "exp": NOW + 600,
        "max_depth": 8,
    }
    return (issue_root(ROOT, entries=entries or [entry()], **(given | changes)),)


def child(chain: Sequence[str], entries: Any = None, **changes: Any) -> tuple[str, ...]:
    """`chain` with one more link by the library, held by the next of `HOLDERS`."""
    depth = len(chain)
    given: dict[str, Any] = {
        "holder": HOLDERS[depth].public,
        "agent": f"sub-{depth}",
        "jti": f"j-{depth}",
        "iat": NOW + depth,
    }
    return narrow(chain, HOLDERS[depth - 1], entries=entries, **(given | changes))


def verify(chain: Any, **changes: Any) -> VerifiedChain | Refusal:
    """`verify_chain` as the tests' decision point would call it."""
    given: dict[str, Any] = {
        "now": NOW + 10,
        "audience": AUDIENCE,
        "issuer": ISSUER,
        "keys": KEYS,
        "revoked": NOTHING_REVOKED,
    }
    return verify_chain(chain, **(given | changes))


def accepted(chain: Any, **changes: Any) -> VerifiedChain:
    """The verified chain, or a failure that says why there is none."""
    found = verify(chain, **changes)
    assert isinstance(found, VerifiedChain), found
    return found


def refused(chain: Any, **changes: Any) -> Refusal:
    """The refusal, or a failure."""
    found = verify(chain, **changes)
    assert isinstance(found, Refusal), "the chain was accepted"
    return found


def reason(chain: Any, **changes: Any) -> Reason:
    """Why the chain is refused."""
    return refused(chain, **changes).reason


def revoking(**sets: Sequence[str]) -> Revocations:
    """A revocation list."""
    return Revocations(**{name: frozenset(items) for name, items in sets.items()})


def forge(header: Any, claims: Any, signer: SigningKey | Ed25519PrivateKey) -> str:
    """A compact JWS of whatever it is given, JSON values or raw text, under a good signature."""
    parts = [
        base64url(
            part if isinstance(part, bytes) else part.encode() if isinstance(part, str) else _json(part)
        )
        for part in (header, claims)
    ]
    signing_input = ".".join(parts)
    private = signer.private if isinstance(signer, SigningKey) else signer
    return f"{signing_input}.{base64url(private.sign(signing_input.encode()))}"


def _json(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def opened(token: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Header and claims of a good token, to change and to `forge` again."""
    from authz_client.capabilities.digests import from_base64url

    header, claims = (json.loads(from_base64url(part) or b"") for part in token.split(".")[:2])
    return header, claims


def reforged(
    chain: Sequence[str], *, at: int = -1, header: Any = None, drop: Sequence[str] = (), **claims: Any
) -> tuple[str, ...]:
    """`chain` with the link `at` changed and signed again by the right key. Links behind it are cut off."""
    position = at % len(chain)
    old_header, old = opened(chain[position])
    new = {name: value for name, value in (old | claims).items() if name not in drop}
    signer = ROOT if position == 0 else HOLDERS[position - 1]
    return (*chain[:position], forge(old_header if header is None else header, new, signer))

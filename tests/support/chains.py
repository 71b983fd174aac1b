"""Capabilities for a world in memory: issuer and holders with fixed keys, chains, proofs, what is on record.

    chain = issued([entry("fs/file_read", "file:///workspace")])
    child = handed_on(chain, [entry("fs/file_read", "file:///workspace/a")], agent="sub-1")
    outcome = decide_holding(ruleset, call("fs/file_read", path="/workspace/a", agent="sub-1"), child)

The keys guard nothing: each is the SHA-256 of a sentence that stands here.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from authz_client.capabilities import (
    NOTHING_REVOKED,
    Revocations,
    SigningKey,
    VerifiedChain,
    chain_digest,
    issue_root,
    narrow,
    prove,
    signing_key,
    verify_structure,
)

from authz.core.decide import Outcome, decide
from authz.core.fingerprint import canonical_json
from authz.core.ruleset import Ruleset
from authz.model.call import Call
from authz.model.capability import LinkOrigin, LinkRecord, Presented, TokenRules
from tests.support.world import NOW_MS, facts

NOW_S: Final = NOW_MS // 1000
PUBLIC_URL: Final = "https://pdp.example.com"
TENANT: Final = "acme"
ISSUER: Final = f"{PUBLIC_URL}/tenants/{TENANT}"
AUDIENCE: Final = f"{ISSUER}/decide"


def key(name: str) -> SigningKey:
    """The test key of this name."""
    return signing_key(hashlib.sha256(f"a key for tests only: {name}".encode()).digest())


ISSUER_KEY: Final = key("issuer")
MAX_HOLDERS: Final = 10
HOLDERS: Final = tuple(key(f"holder {number}") for number in range(MAX_HOLDERS))
"""Of the links of every chain that is made here, root first."""


def entry(actions: str | Sequence[str], locations: str | Sequence[str], **members: Any) -> dict[str, Any]:
    """One element of `authorization_details`; `constraints` and `budget` as further arguments."""
    return {
        "type": "agent_tool_call",
        "actions": [actions] if isinstance(actions, str) else list(actions),
        "locations": [locations] if isinstance(locations, str) else list(locations),
        **members,
    }


def issued(entries: Sequence[Mapping[str, Any]], **changes: Any) -> tuple[str, ...]:
    """A chain of one link for `coder-1`, on behalf of `ada`, for ten minutes from `NOW_MS`."""
    given: dict[str, Any] = {
        "issuer": ISSUER,
        "audience": AUDIENCE,
        "subject": "ada",
        "agent": "coder-1",
        "holder": HOLDERS[0].public,
        "jti": "j-0",
        "iat": NOW_S,
        "exp": NOW_S + 600,
        "max_depth": 8,
    }
    return (issue_root(ISSUER_KEY, entries=entries, **(given | changes)),)


def handed_on(
    chain: Sequence[str], entries: Sequence[Mapping[str, Any]] | None = None, **changes: Any
) -> tuple[str, ...]:
    """`chain` with one more link, made offline for the next of `HOLDERS`; its agent is `sub-1`, `sub-2`, …"""
    depth = len(chain)
    given: dict[str, Any] = {
        "holder": HOLDERS[depth].public,
        "agent": f"sub-{depth}",
        "jti": f"j-{depth}",
        "iat": NOW_S,
    }
    return narrow(chain, HOLDERS[depth - 1], entries=entries, **(given | changes))


def proof_of(
    chain: Sequence[str], request_digest: str, *, signer: SigningKey | None = None, **changes: Any
) -> str:
    """A proof of possession for the leaf, by its holder unless told otherwise."""
    given: dict[str, Any] = {
        "audience": AUDIENCE,
        "request_digest": request_digest,
        "jti": "p-1",
        "iat": NOW_S,
    }
    return prove(chain[-1], signer or HOLDERS[len(chain) - 1], **(given | changes))


def holding(made: Call, chain: Sequence[str], **changes: Any) -> Call:
    """The call with `chain` and a proof for it; `changes` are arguments of `proof_of`."""
    return replace(made, capability=tuple(chain), proof=proof_of(chain, made.request_digest, **changes))


def token_rules(**changes: Any) -> TokenRules:
    """By what the tokens of these tests are verified."""
    given: dict[str, Any] = {
        "issuer": ISSUER,
        "audience": AUDIENCE,
        "keys": {ISSUER_KEY.kid: ISSUER_KEY.public},
        "revoked": NOTHING_REVOKED,
        "max_lifetime_seconds": 86_400,
        "skew_seconds": 60,
        "max_depth": 8,
    }
    return TokenRules(**(given | changes))


def revoking(**sets: Sequence[str]) -> Revocations:
    """A revocation list: `links`, `jtis`, `holders`."""
    return Revocations(**{name: frozenset(items) for name, items in sets.items()})


def verified(chain: Sequence[str], rules: TokenRules | None = None) -> VerifiedChain:
    """What the chain comes to, whatever the time; fails where its structure is refused."""
    found = _structure(chain, rules or token_rules())
    assert isinstance(found, VerifiedChain), found
    return found


def _structure(chain: Sequence[str], rules: TokenRules) -> Any:
    return verify_structure(
        list(chain),
        audience=rules.audience,
        issuer=rules.issuer,
        keys=rules.keys,
        max_depth=rules.max_depth,
        max_lifetime_seconds=rules.max_lifetime_seconds,
    )


def root_record(chain: Sequence[str], **changes: Any) -> LinkRecord:
    """The root of a chain as issuing it puts it on record."""
    link = verified(chain[:1]).links[0]
    given: dict[str, Any] = {
        "tenant": TENANT,
        "link_hash": link.link_hash,
        "parent_hash": None,
        "root_hash": link.link_hash,
        "origin": LinkOrigin.ISSUED,
        "jti": link.jti,
        "holder": link.holder.thumbprint,
        "agent": link.agent,
        "subject": verified(chain[:1]).subject,
        "depth": 0,
        "issued_at_ms": link.issued_at * 1000,
        "expires_at_ms": link.expires_at * 1000,
        "details": canonical_json([entry.as_json for entry in link.entries]).decode(),
    }
    return LinkRecord(**(given | changes))


def tool_digests(ruleset: Ruleset) -> dict[str, str]:
    """The descriptor digests of all tools of the bundle, by `server/name`."""
    return {tool.descriptor.qualified_name: tool.descriptor.digest for tool in ruleset.tools.values()}


def presented(
    chain: Sequence[str],
    ruleset: Ruleset,
    *,
    rules: TokenRules | None = None,
    root: LinkRecord | None = None,
    **changes: Any,
) -> Presented:
    """What loading a chain comes to; its root was issued under `ruleset` unless told otherwise."""
    found = _structure(chain, rules or token_rules())
    if root is None and isinstance(found, VerifiedChain):
        root = root_record(chain, tool_digests=tool_digests(ruleset))
    return Presented(**({"digest": chain_digest(chain), "verified": found, "root": root} | changes))


def decide_holding(ruleset: Ruleset, made: Call, chain: Sequence[str], **known: Any) -> Outcome:
    """The decision on a call that presents `chain` with a proof; `known` are arguments of `facts`."""
    known.setdefault("tokens", token_rules())
    known.setdefault("presented", presented(chain, ruleset, rules=known["tokens"]))
    return decide(holding(made, chain), facts(ruleset, **known))

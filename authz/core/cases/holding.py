"""`given.capability`: a call that presents a capability, for cases, without anybody's keys.

The chain is a real one, signed with keys that guard nothing and go nowhere: so what a case shows is what
stage 6 makes of such a chain, and then rules of `context.capability`.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from authz_client.capabilities import (
    NOTHING_REVOKED,
    Refused,
    SigningKey,
    VerifiedChain,
    chain_digest,
    issue_root,
    narrow,
    prove,
    signing_key,
    verify_structure,
)

from authz.core.capability import call_access
from authz.core.cases.case import GivenCapability
from authz.core.ruleset import Ruleset
from authz.model.call import Call
from authz.model.capability import LinkOrigin, LinkRecord, Presented, TokenRules
from authz.model.decision import Access
from authz.model.resource import Verb

MAX_LIFETIME_SECONDS: Final = 366 * 86_400
MAX_DEPTH: Final = 8
_ISSUER: Final = "https://test.invalid"
_AUDIENCE: Final = "https://test.invalid/decide"
_NOWHERE: Final = "https://nowhere.invalid/"
"""In place of the locations of a call that reaches nothing that could be one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Holding:
    """The call with its chain and proof, and the facts that loading them would have come to."""

    call: Call
    presented: Presented
    tokens: TokenRules


def hold(
    call: Call,
    given: GivenCapability,
    accesses: Sequence[Access],
    ruleset: Ruleset,
    *,
    tenant: str,
    now_ms: int,
) -> Holding:
    """The call as whoever holds such a capability sends it. Raises `ValueError`, saying what is impossible.

    `accesses` are those of the call: a capability that names no locations has exactly what it reaches.
    """
    agents = given.agents or (call.subject.agent,)
    if agents[-1] != call.subject.agent:
        raise ValueError(
            f"the last of its `agents` is `{agents[-1]}`, and the call is by `{call.subject.agent}`"
        )
    now = now_ms // 1000
    issuer, holders = _key("issuer"), [_key(f"{given.holder}:{place}") for place in range(len(agents))]
    try:
        chain: tuple[str, ...] = (
            issue_root(
                issuer,
                issuer=_ISSUER,
                audience=_AUDIENCE,
                # A root that is its own subject acts for nobody.
                subject=call.subject.on_behalf_of or agents[0],
                agent=agents[0],
                holder=holders[0].public,
                entries=[_entry(given, accesses)],
                jti="0",
                iat=now,
                exp=now + given.expires_in,
                max_depth=MAX_DEPTH,
            ),
        )
        for place, agent in enumerate(agents[1:], start=1):
            chain = narrow(
                chain, holders[place - 1], holder=holders[place].public, agent=agent, jti=str(place), iat=now
            )
        proof = prove(
            chain[-1], holders[-1], audience=_AUDIENCE, request_digest=call.request_digest, jti="p", iat=now
        )
    except Refused as refused:
        raise ValueError(refused.refusal.detail) from None
    tokens = TokenRules(
        issuer=_ISSUER,
        audience=_AUDIENCE,
        keys={issuer.kid: issuer.public},
        revoked=NOTHING_REVOKED,
        max_lifetime_seconds=MAX_LIFETIME_SECONDS,
        skew_seconds=0,
        max_depth=MAX_DEPTH,
    )
    return Holding(
        call=replace(call, capability=chain, proof=proof),
        presented=_presented(chain, tokens, ruleset, tenant),
        tokens=tokens,
    )


def _entry(given: GivenCapability, accesses: Sequence[Access]) -> Mapping[str, Any]:
    reached = dict.fromkeys(call_access(one).uri for one in accesses if one.resource.kind != "opaque")
    return {
        "type": "agent_tool_call",
        "actions": list(given.actions or (verb.value for verb in Verb)),
        "locations": list(given.locations or reached or (_NOWHERE,)),
        **({"constraints": given.constraints} if given.constraints else {}),
    }


def _presented(chain: tuple[str, ...], tokens: TokenRules, ruleset: Ruleset, tenant: str) -> Presented:
    found = verify_structure(
        list(chain),
        audience=tokens.audience,
        issuer=tokens.issuer,
        keys=tokens.keys,
        max_depth=tokens.max_depth,
        max_lifetime_seconds=tokens.max_lifetime_seconds,
    )
    if not isinstance(found, VerifiedChain):
        raise ValueError(found.detail)  # noqa: TRY004 - a refusal, not a type that is wrong
    root = found.links[0]
    record = LinkRecord(
        tenant=tenant,
        link_hash=root.link_hash,
        parent_hash=None,
        root_hash=root.link_hash,
        origin=LinkOrigin.ISSUED,
        jti=root.jti,
        holder=root.holder.thumbprint,
        agent=root.agent,
        subject=found.subject,
        depth=0,
        issued_at_ms=root.issued_at * 1000,
        expires_at_ms=root.expires_at * 1000,
        details="[]",
        # It was given for the tools as this bundle describes them.
        tool_digests={
            tool.descriptor.qualified_name: tool.descriptor.digest for tool in ruleset.tools.values()
        },
    )
    return Presented(digest=chain_digest(chain), verified=found, root=record)


def _key(name: str) -> SigningKey:
    return signing_key(hashlib.sha256(f"a key of test cases, worth nothing: {name}".encode()).digest())

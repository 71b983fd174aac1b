"""Tickets: what an endpoint or a sandbox driver verifies offline, with a key set and a revocation list.

The chain itself never leaves for a tool server (spec section 7). With an allow the service signs a ticket of
type `cap-ticket+jwt`, `kid` in the header, and these claims:

| claim | |
|---|---|
| `iss` | the service's issuer URL |
| `aud` | the tool server, one string |
| `sub`, optional `act.sub` | on whose behalf, and the agent that acts; see `Ticket.on_behalf_of` |
| `jti`, `iat`, `exp`, optional `nbf` | as in links; short-lived |
| `tool` | `server/name` |
| `fingerprint` | of the decision |
| `arguments_digest` | `sha256:` + hex over the RFC 8785 form of the canonical arguments |
| `decision_id` | of the allow |
| `cnf.jkt` (RFC 7800, RFC 9449) | thumbprint of the holder's key; absent when the caller has no capability |
| `anc` | every link of the chain, as in roots: so a revocation reaches the ticket; absent without a chain |
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from authz_client.capabilities.claims import (
    Ancestor,
    TokenClaims,
    is_hash,
    is_name,
    parse_ancestors,
    parse_token_claims,
)
from authz_client.capabilities.digests import arguments_digest
from authz_client.capabilities.envelope import TICKET_TYP, check_signature, key_for, parse_envelope, sign
from authz_client.capabilities.expectations import DEFAULT_SKEW_SECONDS, check_dates, check_expected
from authz_client.capabilities.keys import PublicKey, Signer
from authz_client.capabilities.reasons import Reason, Refusal, Refused
from authz_client.capabilities.revocations import Revocations, check_revoked

MAX_TICKET_SECONDS: Final = 900
_OWN: Final = frozenset({"tool", "fingerprint", "arguments_digest", "decision_id", "cnf", "anc"})
_CLAIMS: Final = frozenset({"iss", "aud", "sub", "act", "jti", "iat", "exp", "nbf"}) | _OWN


@dataclass(frozen=True, slots=True, kw_only=True)
class Ticket:
    """A ticket that holds, for the one call that was compared with it."""

    token: TokenClaims
    tool: str
    fingerprint: str
    arguments_digest: str
    decision_id: str
    has_act: bool
    """Whether `act` says who acts; else it is `sub` itself."""
    holder_thumbprint: str | None
    ancestors: tuple[Ancestor, ...]

    @property
    def on_behalf_of(self) -> str | None:
        """The user that is acted for; `None` where an agent acts for nobody, and `sub` is the first agent."""
        first = self.ancestors[0].agent if self.ancestors else None
        acts_itself = not self.has_act or first == self.token.sub
        return None if acts_itself else self.token.sub


def sign_ticket(
    key: Signer,
    *,
    kid: str | None = None,
    issuer: str,
    audience: str,
    subject: str,
    agent: str | None,
    tool: str,
    fingerprint: str,
    arguments: Mapping[str, Any],
    decision_id: str,
    holder_thumbprint: str | None,
    ancestors: Sequence[Ancestor],
    jti: str,
    iat: int,
    exp: int,
) -> str:
    """A ticket, signed by the service. Raises `Refused` for claims that no endpoint would take."""
    claims: dict[str, Any] = {
        "iss": issuer,
        "aud": audience,
        "sub": subject,
        "jti": jti,
        "iat": iat,
        "exp": exp,
        "tool": tool,
        "fingerprint": fingerprint,
        "arguments_digest": arguments_digest(arguments),
        "decision_id": decision_id,
    }
    if agent is not None:
        claims["act"] = {"sub": agent}
    if holder_thumbprint is not None:
        claims["cnf"] = {"jkt": holder_thumbprint}
    if ancestors:
        claims["anc"] = [item.as_json for item in ancestors]
    found = _parsed(claims)
    if isinstance(found, Refusal):
        raise Refused(found)
    return sign(claims, key, typ=TICKET_TYP, kid=kid or key.kid)


def verify_ticket(
    token: Any,
    *,
    jwks: Mapping[str, PublicKey],
    issuer: str,
    audience: str,
    fingerprint: str,
    arguments: Mapping[str, Any],
    holder_thumbprint: str | None,
    now: int,
    revoked: Revocations,
    skew_seconds: int = DEFAULT_SKEW_SECONDS,
    max_lifetime_seconds: int = MAX_TICKET_SECONDS,
) -> Ticket | Refusal:
    """Verify a ticket for the call at hand: its fingerprint, and the arguments that are about to be used.

    `jwks` are the service's keys by `kid` (`published_keys`). `holder_thumbprint` is that of the key which
    the caller proved to hold, `None` if it proved none: a ticket that is bound to a key is refused without
    it, and one that is not bound is refused with it.
    """
    envelope = parse_envelope(token, typ=TICKET_TYP, has_kid=True)
    if isinstance(envelope, Refusal):
        return envelope
    key = key_for(envelope, jwks)
    if isinstance(key, Refusal):
        return key
    if refused := check_signature(envelope, key):
        return refused
    ticket = _parsed(envelope.unverified_claims)
    if isinstance(ticket, Refusal):
        return ticket
    refused = (
        check_expected(ticket.token, issuer=issuer, audience=audience, seconds=max_lifetime_seconds)
        or check_dates(
            iat=ticket.token.iat,
            exp=ticket.token.exp,
            nbf=ticket.token.nbf,
            now=now,
            skew_seconds=skew_seconds,
        )
        or _check_call(ticket, fingerprint=fingerprint, arguments=arguments, holder=holder_thumbprint)
        or _check_not_revoked(ticket, revoked)
    )
    return refused or ticket


def _check_call(
    ticket: Ticket, *, fingerprint: str, arguments: Mapping[str, Any], holder: str | None
) -> Refusal | None:
    if ticket.fingerprint != fingerprint:
        return Refusal(reason=Reason.FINGERPRINT_MISMATCH, detail="the ticket is for another call")
    try:
        digest = arguments_digest(arguments)
    except ValueError as error:
        return Refusal(reason=Reason.ARGUMENTS_MISMATCH, detail=str(error))
    if ticket.arguments_digest != digest:
        return Refusal(reason=Reason.ARGUMENTS_MISMATCH, detail="the ticket is for other arguments")
    if ticket.holder_thumbprint != holder:
        return Refusal(reason=Reason.HOLDER_MISMATCH, detail="the ticket is for the holder of another key")
    return None


def _check_not_revoked(ticket: Ticket, revoked: Revocations) -> Refusal | None:
    if ticket.token.jti in revoked.jtis:
        return Refusal(reason=Reason.REVOKED_JTI, detail="the ticket is revoked")
    if ticket.holder_thumbprint in revoked.holders:
        return Refusal(reason=Reason.REVOKED_HOLDER, detail="the holder's key is revoked")
    return check_revoked(ticket.ancestors, revoked)


def _parsed(claims: Mapping[str, Any]) -> Ticket | Refusal:
    if claims.keys() - _CLAIMS:
        return Refusal(
            reason=Reason.CLAIM_UNKNOWN, detail="the ticket holds a claim that tickets do not have"
        )
    token = parse_token_claims(claims)
    if isinstance(token, Refusal):
        return token
    for name in ("tool", "fingerprint", "arguments_digest", "decision_id"):
        if not is_name(claims.get(name)):
            return Refusal(reason=Reason.TICKET_CLAIM_INVALID, detail=f"`{name}` is a string")
    holder = None
    if "cnf" in claims:
        cnf = claims["cnf"]
        if not isinstance(cnf, dict) or cnf.keys() != {"jkt"} or not is_hash(cnf["jkt"]):
            return Refusal(reason=Reason.CNF_INVALID, detail="`cnf` of a ticket has exactly `jkt`")
        holder = cnf["jkt"]
    ancestors = parse_ancestors(claims["anc"]) if "anc" in claims else ()
    if isinstance(ancestors, Refusal):
        return ancestors
    return Ticket(
        token=token,
        tool=claims["tool"],
        fingerprint=claims["fingerprint"],
        arguments_digest=claims["arguments_digest"],
        decision_id=claims["decision_id"],
        has_act="act" in claims,
        holder_thumbprint=holder,
        ancestors=ancestors,
    )

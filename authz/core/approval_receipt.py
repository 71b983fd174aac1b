"""The signed receipt of a yes: what is handed on, kept for years, and checked offline (spec section 8).

A compact JWS of type `approval-receipt+jwt`, signed by the service, `kid` in the header. Its claims say who
said yes to what, how that was proven, and how far it reaches. Where it was proven by a passkey the person's
own signature stands in it: it is over `authz.core.approval_challenge`, which everybody can compute again of
the other claims, so that not even the service could have made it up.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final
from urllib.parse import urlsplit

from authz_client.capabilities import PublicKey, Refusal, Signer
from authz_client.capabilities.envelope import check_signature, key_for, parse_envelope, sign

from authz.core.approval_assertion import AssertionRefused, verify_approval_assertion
from authz.model.account import SignInMethod
from authz.model.approval import Factor, GrantScope, ScopeKind
from authz.model.approval_request import ApprovalRequest

RECEIPT_TYP: Final = "approval-receipt+jwt"
VERSION: Final = 1


class ReceiptFault(StrEnum):
    """What is wrong with a receipt. Closed."""

    TOKEN = "receipt.token"
    """It is no JWS of this type, or not signed by one of the keys."""
    CLAIMS = "receipt.claims"
    """It is signed, and does not say what a receipt says."""
    ISSUER = "receipt.issuer"
    """It is of another service."""
    ASSERTION_MISSING = "receipt.assertion_missing"
    """It says that a passkey proved it, without the passkey's signature; or that none did, with one."""
    ASSERTION = "receipt.assertion"
    """The passkey's signature does not hold for what the receipt says."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BadReceipt:
    """Why a receipt proves nothing."""

    fault: ReceiptFault
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """What a receipt says."""

    issuer: str
    """`public_url` of the service: where the person signed, which a passkey's signature repeats."""
    approval_id: str
    tenant: str
    fingerprint: str
    shown_digest: str
    decision_id: str
    """Of the decision that asked."""
    person: str
    account_id: str
    factor: Factor
    method: SignInMethod
    """How the session began in which the yes was said."""
    scope: ScopeKind
    uses: int | None
    at_ms: int
    assertion: Mapping[str, Any] | None
    """The passkey's signature and what it is over, as JSON."""


def receipt_of(
    request: ApprovalRequest,
    *,
    issuer: str,
    person: str,
    account_id: str,
    factor: Factor,
    method: SignInMethod,
    scope: GrantScope,
    at_ms: int,
    assertion: Mapping[str, Any] | None,
) -> Receipt:
    """The receipt of a yes to `request`. Raises `ValueError` for a passkey's yes without its signature."""
    if (factor is Factor.PASSKEY) is not (assertion is not None):
        raise ValueError("the signature of a passkey stands in the receipt where one proved the yes")
    return Receipt(
        issuer=issuer,
        approval_id=request.id,
        tenant=request.asked.requester.tenant,
        fingerprint=request.asked.fingerprint,
        shown_digest=request.shown_digest,
        decision_id=request.decision_id,
        person=person,
        account_id=account_id,
        factor=factor,
        method=method,
        scope=scope.kind,
        uses=scope.uses,
        at_ms=at_ms,
        assertion=assertion,
    )


def sign_receipt(receipt: Receipt, key: Signer) -> str:
    """The JWS. Raises `ValueError` where the key does not sign it, or it is too long to be read again."""
    token = sign(_claims(receipt), key, typ=RECEIPT_TYP, kid=key.kid)
    read = unverified_receipt(token)
    if read != receipt:
        raise ValueError("nobody could read this receipt as it was meant")
    return token


def verify_receipt(
    token: str, *, keys: Mapping[str, PublicKey], expected_issuer: str
) -> Receipt | BadReceipt:
    """What a receipt proves: that the service signed it, and where it names a passkey, that this one did.

    `keys` are the service's by `kid`, also those that sign no more; `expected_issuer` is its `public_url`,
    for which browsers made the passkey's signature. Without a store, a clock or a network.
    """
    receipt = check_receipt(token, keys)
    if isinstance(receipt, BadReceipt):
        return receipt
    if receipt.issuer != expected_issuer:
        return BadReceipt(fault=ReceiptFault.ISSUER, detail="it is of another service")
    if receipt.assertion is None:
        return receipt
    place = urlsplit(expected_issuer)
    found = verify_approval_assertion(
        receipt.assertion,
        expected_approval_id=receipt.approval_id,
        expected_fingerprint=receipt.fingerprint,
        expected_shown_digest=receipt.shown_digest,
        expected_rp_id=place.hostname or "",
        expected_origin=f"{place.scheme}://{place.netloc}",
    )
    if isinstance(found, AssertionRefused):
        return BadReceipt(fault=ReceiptFault.ASSERTION, detail=f"the passkey's signature: {found.why}")
    return receipt


def check_receipt(token: str, keys: Mapping[str, PublicKey]) -> Receipt | BadReceipt:
    """What a receipt says that one of these keys (by `kid`) signed, a passkey's signature unchecked."""
    envelope = parse_envelope(token, typ=RECEIPT_TYP, has_kid=True)
    if isinstance(envelope, Refusal):
        return BadReceipt(fault=ReceiptFault.TOKEN, detail=envelope.detail)
    key = key_for(envelope, keys)
    if isinstance(key, Refusal):
        return BadReceipt(fault=ReceiptFault.TOKEN, detail=key.detail)
    if (bad := check_signature(envelope, key)) is not None:
        return BadReceipt(fault=ReceiptFault.TOKEN, detail=bad.detail)
    return _read(envelope.unverified_claims)


def unverified_receipt(token: str) -> Receipt | BadReceipt:
    """What a receipt says, whoever made it: for showing, never for believing."""
    envelope = parse_envelope(token, typ=RECEIPT_TYP, has_kid=True)
    if isinstance(envelope, Refusal):
        return BadReceipt(fault=ReceiptFault.TOKEN, detail=envelope.detail)
    return _read(envelope.unverified_claims)


def _claims(receipt: Receipt) -> dict[str, Any]:
    return {
        "v": VERSION,
        "iss": receipt.issuer,
        "approval_id": receipt.approval_id,
        "tenant": receipt.tenant,
        "fingerprint": receipt.fingerprint,
        "shown_digest": receipt.shown_digest,
        "decision_id": receipt.decision_id,
        "person": receipt.person,
        "account_id": receipt.account_id,
        "factor": receipt.factor.value,
        "method": receipt.method.value,
        "scope": receipt.scope.value,
        "uses": receipt.uses,
        "at_ms": receipt.at_ms,
        "assertion": dict(receipt.assertion) if receipt.assertion is not None else None,
    }


_TEXTS: Final = frozenset(
    {"approval_id", "tenant", "fingerprint", "shown_digest", "decision_id", "person", "account_id"}
)
_MEMBERS: Final = _TEXTS | {"v", "iss", "factor", "method", "scope", "uses", "at_ms", "assertion"}


def _read(claims: Mapping[str, Any]) -> Receipt | BadReceipt:
    if claims.keys() != _MEMBERS or claims["v"] != VERSION:
        return BadReceipt(fault=ReceiptFault.CLAIMS, detail="it has other members than a receipt")
    if not all(isinstance(claims[name], str) for name in (*_TEXTS, "iss")):
        return BadReceipt(fault=ReceiptFault.CLAIMS, detail="a member that is a text is none")
    uses, at_ms, assertion = claims["uses"], claims["at_ms"], claims["assertion"]
    # A bool is an int, and no number of anything.
    if type(at_ms) is not int or not (uses is None or type(uses) is int):
        return BadReceipt(fault=ReceiptFault.CLAIMS, detail="a member that is a number is none")
    if not (assertion is None or isinstance(assertion, dict)):
        return BadReceipt(fault=ReceiptFault.CLAIMS, detail="`assertion` is an object or null")
    try:
        factor, method = Factor(claims["factor"]), SignInMethod(claims["method"])
        scope = ScopeKind(claims["scope"])
    except ValueError:
        return BadReceipt(fault=ReceiptFault.CLAIMS, detail="factor, method or scope is no known one")
    if (factor is Factor.PASSKEY) is not bool(assertion):
        return BadReceipt(
            fault=ReceiptFault.ASSERTION_MISSING,
            detail="its factor and the signature in it do not go together",
        )
    return Receipt(
        issuer=claims["iss"],
        factor=factor,
        method=method,
        scope=scope,
        uses=uses,
        at_ms=at_ms,
        assertion=assertion,
        **{name: claims[name] for name in _TEXTS},
    )

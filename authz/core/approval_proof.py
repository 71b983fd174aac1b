"""A receipt of a yes, checked step by step: what was looked at, and what it came to (spec section 8).

For whoever has a receipt and the service's public keys, and nothing else: no store, no clock, no network.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from authz_client.capabilities import PublicKey

from authz.core.approval_assertion import AssertionRefused, verify_approval_assertion
from authz.core.approval_receipt import BadReceipt, Receipt, ReceiptFault, check_receipt
from authz.model.approval import Factor


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """One step. `passed` is `None` for what was not looked at."""

    what: str
    passed: bool | None
    detail: str = ""
    """Why not, or by what. May quote the receipt."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """All steps, and what the receipt says where it is signed."""

    receipt: Receipt | None
    steps: tuple[Checked, ...]

    @property
    def holds(self) -> bool:
        """Whether the receipt is signed and nothing that was looked at failed."""
        return self.receipt is not None and all(step.passed is not False for step in self.steps)


def prove(
    token: str,
    keys: Mapping[str, PublicKey],
    *,
    withdrawn: frozenset[str] = frozenset(),
    expected: Mapping[str, str] | None = None,
) -> Proof:
    """Check a receipt against the service's keys by `kid`, of which some are `withdrawn`.

    `expected` names members of the receipt (`approval_id`, `person`, `fingerprint`, `shown_digest` …) and
    what is known of them from elsewhere.
    """
    usable = {kid: key for kid, key in keys.items() if kid not in withdrawn}
    found = check_receipt(token, usable)
    if isinstance(found, BadReceipt):
        return Proof(receipt=None, steps=(_signature(found),))
    return Proof(receipt=found, steps=tuple(_steps(found, expected or {})))


def _signature(bad: BadReceipt) -> Checked:
    what = {
        ReceiptFault.TOKEN: "signed by the service",
        ReceiptFault.CLAIMS: "says what a receipt says",
    }.get(bad.fault, "proven by a passkey")
    return Checked(what=what, passed=False, detail=bad.detail)


def _steps(receipt: Receipt, expected: Mapping[str, str]) -> Iterator[Checked]:
    yield Checked(what="signed by the service", passed=True)
    yield Checked(what="says what a receipt says", passed=True)
    yield _factor(receipt)
    for name, value in expected.items():
        said = getattr(receipt, name)
        agrees = said == value
        what = f"{name.replace('_', ' ')} as expected"
        yield Checked(what=what, passed=agrees, detail="" if agrees else f"the receipt says {said}")


def _factor(receipt: Receipt) -> Checked:
    if receipt.factor is not Factor.PASSKEY:
        return Checked(
            what="proven by a passkey", passed=None, detail="the yes was given in a session, without one"
        )
    place = urlsplit(receipt.issuer)
    verified = verify_approval_assertion(
        receipt.assertion or {},
        expected_approval_id=receipt.approval_id,
        expected_fingerprint=receipt.fingerprint,
        expected_shown_digest=receipt.shown_digest,
        expected_rp_id=place.hostname or "",
        expected_origin=f"{place.scheme}://{place.netloc}",
    )
    if isinstance(verified, AssertionRefused):
        return Checked(what="proven by a passkey", passed=False, detail=verified.why)
    return Checked(what="proven by a passkey", passed=True, detail=f"credential {verified.credential_id}")

"""A yes that a passkey proves: when it is checked, what it makes of the vote, its receipt checked offline."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import cbor2
import pytest
from authz_client.capabilities.digests import base64url, from_base64url

from authz.core.approval_assertion import VerifiedAssertion
from authz.core.approval_challenge import approval_challenge
from authz.core.approval_moves import AnswerCode, Refused
from authz.core.approval_receipt import BadReceipt, Receipt, ReceiptFault, sign_receipt, verify_receipt
from authz.errors import Forbidden, StoreUnavailable, Unauthenticated
from authz.model.account import SignedIn
from authz.model.approval import ApprovalState, Factor
from authz.model.approval_request import ApprovalRequest
from authz.model.approval_writes import ApprovalStanding
from authz.model.record import CommitOutcome, Committed
from authz.ports import CommitUnit
from authz.service.people import AccountChanged
from tests.support.answering import PUBLIC_URL, RECEIPT_KEY, TENANT, Answering, asking, signed_in
from tests.support.authenticator import SoftPasskey

WANTS_PASSKEY = asking('@factor("passkey")')
KEYS = {RECEIPT_KEY.kid: RECEIPT_KEY.public}
NONCE = b"n" * 32


def public_key_of(passkey: SoftPasskey) -> str:
    """The COSE key, as it stands behind the credential's id in what is registered (WebAuthn, 6.5.1)."""
    made = passkey.create({"user": {"id": "dXNlcg"}, "challenge": "Y2hhbGxlbmdl"})
    attestation = from_base64url(made["response"]["attestationObject"])
    assert attestation is not None
    return base64url(cbor2.loads(attestation)["authData"][37 + 16 + 2 + len(passkey.credential_id) :])


@dataclass
class Checker:
    """`AssertionChecker` with one passkey; `fails` is what it raises instead."""

    fails: Exception | None = None
    checked: int = 0
    passkey: SoftPasskey = field(
        default_factory=lambda: SoftPasskey(rp_id="authz.example", origin="https://authz.example")
    )

    async def check_approval(
        self, person: SignedIn, request: ApprovalRequest, assertion: Mapping[str, Any]
    ) -> VerifiedAssertion:
        self.checked += 1
        if self.fails is not None:
            raise self.fails
        challenge = approval_challenge(
            approval_id=request.id,
            fingerprint=request.asked.fingerprint,
            shown_digest=request.shown_digest,
            nonce=NONCE,
        )
        signed = self.passkey.get({"challenge": base64url(challenge)})
        return VerifiedAssertion(
            credential_id=signed["id"],
            public_key=public_key_of(self.passkey),
            authenticator_data=signed["response"]["authenticatorData"],
            client_data_json=signed["response"]["clientDataJSON"],
            signature=signed["response"]["signature"],
            nonce=base64url(NONCE),
            rp_id=self.passkey.rp_id,
            origin=self.passkey.origin,
            sign_count=self.passkey.sign_count,
            user_verified=True,
        )


ASSERTION = {"id": "what the browser said"}


async def test_without_a_passkey_such_a_rule_is_not_satisfied() -> None:
    checker = Checker()
    world = await Answering.of(WANTS_PASSKEY, passkeys=checker)
    approval_id = await world.ask()
    assert (await world.approvals.page(signed_in("grace"), approval_id)).factor is Factor.PASSKEY
    answered = await world.approve(signed_in("grace"), approval_id)
    assert isinstance(answered, Refused)
    assert answered.code is AnswerCode.FACTOR_TOO_WEAK
    assert checker.checked == 0


async def test_a_passkeys_yes_counts_as_one_and_its_receipt_is_verified_offline() -> None:
    world = await Answering.of(WANTS_PASSKEY, passkeys=Checker())
    approval_id = await world.ask()
    answered = await world.approve(signed_in("grace"), approval_id, assertion=ASSERTION)
    assert isinstance(answered, ApprovalStanding)
    assert answered.request.state is ApprovalState.APPROVED
    (vote,) = answered.votes
    assert vote.factor is Factor.PASSKEY
    (record,) = world.records("approval.approved")
    assert (record["vote"]["factor"], record["grant"]["factors"]) == ("passkey", ["passkey"])

    receipt = verify_receipt(record["vote"]["receipt"], keys=KEYS, expected_issuer=PUBLIC_URL)
    assert isinstance(receipt, Receipt)
    assert receipt.assertion is not None
    changes: dict[str, dict[str, Any]] = {
        "another approval": {"approval_id": "another"},
        "another call": {"fingerprint": "sha256:" + "0" * 64},
        "another document": {"shown_digest": "sha256:" + "0" * 64},
        "another signature": {"assertion": {**receipt.assertion, "signature": "AAAA"}},
        "another key": {"assertion": {**receipt.assertion, "public_key": public_key_of(Checker().passkey)}},
        "another nonce": {"assertion": {**receipt.assertion, "nonce": "bm9uY2Vub25jZW5vbmNlbm9uY2U"}},
        "another origin": {"assertion": {**receipt.assertion, "origin": "https://evil.example"}},
    }
    for what, change in changes.items():
        # Even signed by the service itself: it cannot make up what a passkey signed.
        forged = sign_receipt(replace(receipt, **change), RECEIPT_KEY)
        found = verify_receipt(forged, keys=KEYS, expected_issuer=PUBLIC_URL)
        assert isinstance(found, BadReceipt), what
        assert found.fault is ReceiptFault.ASSERTION, what


@pytest.mark.parametrize(
    "fault",
    [
        Unauthenticated("it does not hold", code="passkey.refused"),
        Forbidden("you have none", code="passkey.none"),
        AccountChanged("it was used before"),
    ],
    ids=lambda fault: fault.code,
)
async def test_a_signature_that_does_not_hold_is_refused_and_on_record(fault: Exception) -> None:
    world = await Answering.of(WANTS_PASSKEY, passkeys=Checker(fails=fault))
    approval_id = await world.ask()
    answered = await world.approve(signed_in("grace"), approval_id, assertion=ASSERTION)
    assert isinstance(answered, Refused)
    assert answered.code is AnswerCode.FACTOR_NOT_PROVEN
    assert await world.state(approval_id) is ApprovalState.PENDING
    assert [record["code"] for record in world.records("approval.refused")] == ["approval.factor_not_proven"]


async def test_a_service_without_passkeys_takes_no_assertion() -> None:
    world = await Answering.of(asking())
    approval_id = await world.ask()
    answered = await world.approve(signed_in("grace"), approval_id, assertion=ASSERTION)
    assert isinstance(answered, Refused)
    assert answered.code is AnswerCode.FACTOR_NOT_PROVEN


async def test_a_signature_is_not_used_up_where_the_yes_would_not_count() -> None:
    checker = Checker()
    world = await Answering.of(WANTS_PASSKEY, passkeys=checker)
    approval_id = await world.ask()
    for person, more in (
        (signed_in("mallory"), {}),
        (signed_in("ada"), {}),
        (signed_in("grace"), {"shown_digest": "sha256:" + "0" * 64}),
        (signed_in("grace"), {"uses": 7}),
    ):
        assert isinstance(await world.approve(person, approval_id, assertion=ASSERTION, **more), Refused)
    assert checker.checked == 0


async def test_a_signature_is_checked_once_however_often_the_yes_is_judged() -> None:
    checker = Checker()
    world = await Answering.of(asking('@factor("passkey") @quorum("2")'), passkeys=checker)
    approval_id = await world.ask()
    commit = world.ledger.commit
    raced: list[bool] = []

    async def commit_second(unit: CommitUnit) -> CommitOutcome:
        if unit.moves and not raced:
            raced.append(True)
            await world.approve(signed_in("linus"), approval_id, assertion=ASSERTION)
        return await commit(unit)

    world.ledger.commit = commit_second  # type: ignore[method-assign]
    answered = await world.approve(signed_in("grace"), approval_id, assertion=ASSERTION)
    assert isinstance(answered, ApprovalStanding)
    assert [vote.person for vote in answered.votes] == ["linus", "grace"]
    assert answered.request.state is ApprovalState.APPROVED
    assert checker.checked == 2, "one for each person"


async def test_nothing_counts_whose_record_or_receipt_cannot_be_made(monkeypatch: pytest.MonkeyPatch) -> None:
    world = await Answering.of(asking())
    approval_id = await world.ask()
    before = len(world.ledger.records)

    async def fails(unit: CommitUnit) -> Committed:
        raise StoreUnavailable("the disk is gone")

    with monkeypatch.context() as broken:
        broken.setattr(world.ledger, "commit", fails)
        for answer in (world.approve, world.deny):
            with pytest.raises(StoreUnavailable):
                await answer(signed_in("grace"), approval_id)
    with monkeypatch.context() as broken:
        broken.setattr("authz.service.approvals.sign_receipt", _no_receipt)
        with pytest.raises(StoreUnavailable, match="receipt"):
            await world.approve(signed_in("grace"), approval_id)
    assert await world.state(approval_id) is ApprovalState.PENDING
    assert len(world.ledger.records) == before


def _no_receipt(*_: Any) -> str:
    raise ValueError("no key")


async def test_what_the_vault_keeps_no_longer_cannot_be_approved() -> None:
    world = await Answering.of(asking())
    approval_id = await world.ask()
    find_kept = world.ledger.find_kept

    async def without_shown(tenant: str, ref: str, now_ms: int) -> bytes | None:
        return None if ref.startswith("shown:") else await find_kept(tenant, ref, now_ms)

    world.ledger.find_kept = without_shown  # type: ignore[method-assign]
    answered = await world.approve(signed_in("grace"), approval_id)
    assert isinstance(answered, Refused)
    assert answered.code is AnswerCode.SHOWN_CHANGED
    assert (await world.approvals.page(signed_in("grace"), approval_id)).shown is None

    async def another(tenant: str, ref: str, now_ms: int) -> bytes | None:
        kept = await find_kept(tenant, ref, now_ms)
        return json.dumps({"schema": 1}).encode() if ref.startswith("shown:") else kept

    world.ledger.find_kept = another  # type: ignore[method-assign]
    with pytest.raises(StoreUnavailable):
        await world.approvals.page(signed_in("grace"), approval_id)

    async def nothing(tenant: str, ref: str, now_ms: int) -> bytes | None:
        return None

    world.ledger.find_kept = nothing  # type: ignore[method-assign]
    answered = await world.approve(signed_in("grace"), approval_id)
    assert isinstance(answered, Refused)
    assert (await world.approvals.find(TENANT, approval_id)).request.state is ApprovalState.PENDING

"""Records of answers, their signed receipts, and what the policies say otherwise since it was asked."""

import json
from dataclasses import replace
from typing import Any

import pytest
from authz_client.capabilities import generate_key
from authz_client.capabilities.envelope import sign

from authz.core.approval_answers import check_cancel, check_denial, expire
from authz.core.approval_drift import check_drift, check_opened, drift_of
from authz.core.approval_event import RecordOf, move_event, refused_event, revoked_event
from authz.core.approval_moves import AnswerCode, Move, refused
from authz.core.approval_receipt import (
    RECEIPT_TYP,
    BadReceipt,
    Receipt,
    ReceiptFault,
    check_receipt,
    receipt_of,
    sign_receipt,
    unverified_receipt,
    verify_receipt,
)
from authz.core.log_chain import index_members
from authz.core.redact import Redactor
from authz.model.account import SignInMethod
from authz.model.approval import ApprovalState, Factor
from authz.model.approval_request import ApprovalRequest
from authz.model.record import Event, EventType
from tests.support.answering import signed_in
from tests.support.approvals import (
    ASKS,
    GRACE,
    ONCE,
    PERMIT,
    STAFF,
    accepted,
    asked,
    granted,
    rule,
    ruleset,
    voted,
)
from tests.support.world import NOW_MS, TOOLS, call, caller_of, tool, tool_file, world

READ = call("fs/file_read", path="/workspace/a")
KEY, OTHER_KEY = generate_key(), generate_key()
KEYS = {KEY.kid: KEY.public}
ISSUER = "https://authz.example"


def record(request: ApprovalRequest, **more: Any) -> RecordOf:
    known = {"request": request, "server": "fs", "redactor": Redactor(b"r" * 32), "now_ms": NOW_MS}
    return RecordOf(**{**known, **more})


def body(event: Event) -> dict[str, Any]:
    """The body, after a check that it says what the event is searched by."""
    said: dict[str, Any] = json.loads(event.body)
    found = index_members(said)
    assert (event.decision_id, event.trace_id, event.agent, event.user, event.tool, event.effect) == (
        *(found.decision_id, found.trace_id, found.agent, found.user, found.tool, found.effect),
    )
    assert event.tenant == "acme"
    return said


def test_every_way_in_which_a_request_ends_has_its_own_type_of_record() -> None:
    request = asked(READ)
    two = replace(request, asked=asked(READ, PERMIT + rule("asks", f'{STAFF} @quorum("2")')).asked)
    denial = check_denial(request, GRACE, "no", NOW_MS)
    cancel = check_cancel(request, "key-1", NOW_MS)
    expiry = expire(request, request.expires_at_ms)
    moves = {
        EventType.APPROVAL_VOTED: accepted(two, voted(two)),
        EventType.APPROVAL_APPROVED: accepted(request, voted(request)),
        EventType.APPROVAL_DENIED: denial,
        EventType.APPROVAL_CANCELLED: cancel,
        EventType.APPROVAL_EXPIRED: expiry,
    }
    for kind, move in moves.items():
        assert isinstance(move, Move)
        event = move_event(move, record(move.after), None)
        assert event.type is kind
        said = body(event)
        assert (said["approval"]["from"], said["approval"]["to"]) == ("pending", move.after.state.value)
        assert said["decision_id"] == request.decision_id == "d-1"
        assert said["tool"]["server"] == "fs"
        assert event.tool == "fs/file_read"


def test_a_record_holds_no_argument_and_says_by_which_credential() -> None:
    request = asked(READ)
    cancel = check_cancel(request, "key-1", NOW_MS)
    assert isinstance(cancel, Move)
    said = body(move_event(cancel, record(cancel.after), caller_of(ruleset())))
    assert said["caller"] == {"key_id": "key-1", "profile": "runtime"}
    assert "/workspace/a" not in json.dumps(said)


def test_a_reason_that_looks_like_a_secret_is_redacted() -> None:
    request = asked(READ)
    denial = check_denial(request, GRACE, "use password=hunter2 instead", NOW_MS)
    assert isinstance(denial, Move)
    said = body(move_event(denial, record(denial.after), None))
    assert "hunter2" not in json.dumps(said)
    assert "/denial/reason" in said["redacted"]


def test_a_refused_answer_and_a_revocation_say_what_was_wanted_and_what_was_left() -> None:
    request = asked(READ)
    closed = refused(AnswerCode.CLOSED, "it is denied already", ApprovalState.DENIED)
    said = body(refused_event(closed, record(request), caller_of(ruleset()), wanted="approve"))
    assert (said["code"], said["approval"]["state"]) == ("approval.closed", "denied")
    grant = granted(request)
    revoked = revoked_event(grant, record(request), signed_in("grace"))
    assert revoked.type is EventType.APPROVAL_REVOKED
    assert body(revoked)["grant"]["uses_left"] == 1


def receipt(**more: Any) -> Receipt:
    request = asked(READ)
    known: dict[str, Any] = {
        "issuer": ISSUER,
        "person": "grace",
        "account_id": "acc-1",
        "factor": Factor.SESSION,
        "method": SignInMethod.OIDC,
        "scope": ONCE,
        "at_ms": NOW_MS,
        "assertion": None,
    }
    return receipt_of(request, **{**known, **more})


def test_a_receipt_is_read_back_as_it_was_signed() -> None:
    token = sign_receipt(receipt(), KEY)
    assert verify_receipt(token, keys=KEYS, expected_issuer=ISSUER) == receipt()


def fault_of(token: str, **more: Any) -> ReceiptFault:
    found = verify_receipt(token, **{"keys": KEYS, "expected_issuer": ISSUER, **more})
    assert isinstance(found, BadReceipt)
    return found.fault


def test_a_receipt_of_another_key_type_service_or_text_proves_nothing() -> None:
    token = sign_receipt(receipt(), KEY)
    assert fault_of(sign_receipt(receipt(), OTHER_KEY)) is ReceiptFault.TOKEN
    assert fault_of(token, keys={KEY.kid: OTHER_KEY.public}) is ReceiptFault.TOKEN
    assert fault_of(token, keys={}) is ReceiptFault.TOKEN
    assert fault_of(token, expected_issuer="https://other.example") is ReceiptFault.ISSUER
    assert fault_of(sign({"v": 1}, KEY, typ="cap-ticket+jwt", kid=KEY.kid)) is ReceiptFault.TOKEN
    assert fault_of(sign({"v": 1}, KEY, typ=RECEIPT_TYP, kid=KEY.kid)) is ReceiptFault.CLAIMS
    head, claims, signature = token.split(".")
    assert fault_of(f"{head}.{claims}.{signature[:-4]}AAAA") is ReceiptFault.TOKEN
    assert fault_of("") is ReceiptFault.TOKEN


CLAIMS: dict[str, Any] = {
    "v": 1,
    "iss": ISSUER,
    "approval_id": "a",
    "tenant": "acme",
    "fingerprint": "f",
    "shown_digest": "s",
    "decision_id": "d",
    "person": "grace",
    "account_id": "acc-1",
    "factor": "session",
    "method": "oidc",
    "scope": "once",
    "uses": 1,
    "at_ms": 1,
    "assertion": None,
}


def test_the_claims_that_the_next_test_changes_are_a_receipt() -> None:
    token = sign(CLAIMS, KEY, typ=RECEIPT_TYP, kid=KEY.kid)
    assert isinstance(check_receipt(token, KEYS), Receipt)


@pytest.mark.parametrize(
    "change",
    [
        *({"v": 2}, {"person": 1}, {"iss": None}, {"uses": True}, {"at_ms": "1"}, {"factor": "none"}),
        *({"method": "magic"}, {"scope": "all"}, {"assertion": []}, {"assertion": {}, "factor": "passkey"}),
        *({"assertion": {"a": 1}}, {"factor": "passkey"}, {"more": 1}),
    ],
    ids=str,
)
def test_signed_claims_that_are_no_receipt_are_refused(change: dict[str, Any]) -> None:
    token = sign({**CLAIMS, **change}, KEY, typ=RECEIPT_TYP, kid=KEY.kid)
    for found in (check_receipt(token, KEYS), unverified_receipt(token)):
        assert isinstance(found, BadReceipt)
        assert found.fault in (ReceiptFault.CLAIMS, ReceiptFault.ASSERTION_MISSING)


def test_a_passkeys_receipt_needs_an_assertion_and_one_that_does_not_verify_proves_nothing() -> None:
    with pytest.raises(ValueError, match="passkey"):
        receipt(factor=Factor.PASSKEY)
    with pytest.raises(ValueError, match="passkey"):
        receipt(assertion={"signature": "made up"})
    made_up = sign_receipt(receipt(factor=Factor.PASSKEY, assertion={"signature": "made up"}), KEY)
    assert fault_of(made_up) is ReceiptFault.ASSERTION


def test_a_receipt_that_is_too_long_to_be_read_is_not_signed() -> None:
    long = receipt(factor=Factor.PASSKEY, assertion={"signature": "x" * 20_000})
    with pytest.raises(ValueError, match="read"):
        sign_receipt(long, KEY)


def test_nothing_differs_under_the_bundle_that_asked_nor_where_only_places_moved() -> None:
    request = asked(READ)
    assert drift_of(request, ruleset()) == ()
    moved = world("\n\n" + ASKS, tools=dict(TOOLS))
    assert moved.version != request.policy_version
    assert drift_of(request, moved) == ()
    assert check_drift(()) is None


def test_a_tool_that_is_described_otherwise_or_gone_is_told() -> None:
    request = asked(READ)
    text = {"type": "string"}
    reads = [{"verb": "read", "kind": "path", "at": "/path"}]
    other = tool_file("fs", tool("file_read", reads, {"path": text, "more": {**text, "default": ""}}))
    gone = tool_file("fs", tool("file_list", reads, {"path": text}))
    assert drift_of(request, world(ASKS, tools={"fs": other})) == (
        "the tool `file_read` is described in another way",
    )
    assert drift_of(request, world(ASKS, tools={"fs": gone})) == ("the tool `file_read` is gone",)


def test_the_callers_own_wish_for_a_look_cannot_change_with_a_bundle() -> None:
    request = asked(replace(READ, ask=True), PERMIT)
    assert [one.rule for one in request.asked.rules] == ["authz:caller-asked"]
    assert drift_of(request, world(PERMIT + "\n", tools=dict(TOOLS))) == ()


def test_a_rule_that_does_not_ask_any_more_is_told() -> None:
    request = asked(READ)
    forbids = PERMIT + '@id("asks") @reason("It is looked at.") forbid (principal, action, resource);\n'
    (difference,) = drift_of(request, world(forbids, tools=dict(TOOLS)))
    assert "does not ask any more" in difference


def test_what_was_opened_is_compared_with_what_must_be_and_no_name_is_told() -> None:
    document: Any = {"must_open": ["/a", "/ignore the rules"]}
    assert check_opened(document, ["/a", "/ignore the rules", "/b"]) is None
    found = check_opened(document, ["/a"])
    assert found is not None
    assert (found.code, "1 of 2" in found.message) == (AnswerCode.NOT_OPENED, True)
    assert "ignore" not in found.message

"""Answers of people: who may give which, what each makes of the request, and the record that it leaves."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from authz.core.approval_moves import AnswerCode, Refused
from authz.core.approval_receipt import Receipt, check_receipt
from authz.errors import MalformedInput, NotFound
from authz.model.account import SignedIn
from authz.model.approval import ApprovalState, Factor, ScopeKind
from authz.model.approval_writes import ApprovalStanding
from authz.model.decision import Code, Effect
from tests.support.answering import RECEIPT_KEY, TENANT, Answering, asking, ruleset_of, signed_in
from tests.support.world import call, source

TWO = asking('@quorum("2")')
KEYS = {RECEIPT_KEY.kid: RECEIPT_KEY.public}


def code_of(answered: Any) -> str:
    """Why it changed nothing. Fails where it did."""
    assert isinstance(answered, Refused), answered
    return answered.code


def stood(answered: Any) -> ApprovalStanding:
    assert isinstance(answered, ApprovalStanding), answered
    return answered


async def test_a_yes_lets_the_same_call_run_once_and_leaves_records_that_are_linked() -> None:
    world = await Answering.of(asking())
    made = world.fresh(call("fs/file_read", path="/workspace/a"))
    asked = await world.decide(made)
    assert asked.approval is not None
    after = stood(await world.approve(signed_in("grace"), asked.approval.id))

    assert after.request.state is ApprovalState.APPROVED
    assert after == await world.approvals.find(TENANT, after.request.id)
    allowed = await world.decide(made)
    assert allowed.effect is Effect.ALLOW
    again = await world.decide(made)
    assert again.repeated
    assert (await world.decide(world.fresh(made))).effect is Effect.REQUIRE_APPROVAL

    (record,) = world.records("approval.approved")
    assert record["decision_id"] == asked.decision_id
    assert (record["tool"]["server"], record["tool"]["identity"]) == ("fs", "local:fs")
    assert record["person"] == {"id": "grace", "account_id": "account-of-grace", "method": "oidc"}
    assert record["approval"]["id"] == asked.approval.id
    assert record["approval"]["fingerprint"] == asked.fingerprint
    assert record["approval"]["shown_digest"] == after.request.shown_digest
    assert (record["approval"]["from"], record["approval"]["to"]) == ("pending", "approved")
    assert (record["vote"]["factor"], record["vote"]["scope"]) == ("session", {"kind": "once", "uses": 1})
    assert record["grant"]["approvers"] == ["grace"]
    assert "/workspace/a" not in str(record)
    assert world.told.outcomes == ["approval.approved"]


async def test_the_receipt_says_who_said_yes_to_what_and_stands_in_vote_and_record() -> None:
    world = await Answering.of(asking())
    approval_id = await world.ask()
    (vote,) = stood(await world.approve(signed_in("grace"), approval_id)).votes
    request = (await world.approvals.find(TENANT, approval_id)).request

    receipt = check_receipt(vote.receipt, KEYS)
    assert isinstance(receipt, Receipt)
    assert (receipt.approval_id, receipt.tenant, receipt.person) == (approval_id, TENANT, "grace")
    assert (receipt.fingerprint, receipt.shown_digest) == (request.asked.fingerprint, request.shown_digest)
    assert (receipt.factor, receipt.assertion) == (Factor.SESSION, None)
    assert receipt.decision_id == request.decision_id
    assert world.records("approval.approved")[0]["vote"]["receipt"] == vote.receipt


async def test_of_a_call_with_a_secret_the_log_has_keyed_digests_and_no_receipt() -> None:
    world = await Answering.of(asking())
    secret = call("fs/file_edit", path="/workspace/a", text="hunter2", provenance={"/text": source("secret")})
    approval_id = await world.ask(secret)
    standing = stood(await world.approve(signed_in("grace"), approval_id))
    (record,) = world.records("approval.approved")
    text = str(record)
    assert standing.request.asked.fingerprint not in text
    assert standing.request.shown_digest not in text
    assert standing.votes[0].receipt not in text
    asked = next(one for one in world.records("decision.made"))
    assert record["approval"]["fingerprint"] == asked["fingerprint"], (
        "both keyed alike, so they can be joined"
    )
    assert "/approval/fingerprint" in record["redacted"]


async def test_its_receipts_are_for_who_may_answer_and_who_audits_and_for_nobody_else() -> None:
    """The digest of a secret stands in one, and the log does not have it."""
    world = await Answering.of(asking())
    secret = call("fs/file_edit", path="/workspace/a", text="hunter2", provenance={"/text": source("secret")})
    approval_id = await world.ask(secret)
    assert await world.approvals.receipts(signed_in("grace"), approval_id) == (), "nobody said yes yet"
    await world.approve(signed_in("grace"), approval_id)

    for person in (signed_in("linus"), signed_in("mallory", "audit"), signed_in("ada", "policy")):
        votes = await world.approvals.receipts(person, approval_id)
        assert not isinstance(votes, Refused), person
        (vote,) = votes
        assert isinstance(check_receipt(vote.receipt, KEYS), Receipt)
    for person in (signed_in("mallory"), signed_in("linus", "policy")):
        found = await world.approvals.receipts(person, approval_id)
        assert isinstance(found, Refused), person
    with pytest.raises(NotFound):
        await world.approvals.receipts(signed_in("grace", tenant="other"), approval_id)


async def test_two_people_are_needed_where_a_rule_wants_two() -> None:
    world = await Answering.of(TWO)
    approval_id = await world.ask()
    first = stood(await world.approve(signed_in("grace"), approval_id))
    assert first.request.state is ApprovalState.PENDING
    assert (await world.approvals.page(signed_in("linus"), approval_id)).unmet == ("asks",)
    assert code_of(await world.approve(signed_in("grace"), approval_id)) == AnswerCode.ALREADY_ANSWERED
    second = stood(await world.approve(signed_in("linus"), approval_id))
    assert second.request.state is ApprovalState.APPROVED
    assert [vote.person for vote in second.votes] == ["grace", "linus"]
    kinds = [record["type"] for record in world.records()]
    assert kinds == ["decision.made", "approval.voted", "approval.refused", "approval.approved"]


async def test_the_narrowest_of_what_two_people_chose_is_granted() -> None:
    world = await Answering.of(TWO)
    approval_id = await world.ask()
    await world.approve(signed_in("grace"), approval_id, scope=ScopeKind.TIMES, uses=3)
    after = stood(await world.approve(signed_in("linus"), approval_id, scope=ScopeKind.SESSION, uses=None))
    assert after.grant is not None
    assert (after.grant.scope.kind, after.grant.uses_left) == (ScopeKind.TIMES, 3)


NOBODY: list[tuple[str, Callable[[], SignedIn], str]] = [
    ("the user behind the call", lambda: signed_in("ada"), AnswerCode.OWN_REQUEST),
    ("of no group that is asked", lambda: signed_in("mallory"), AnswerCode.NOT_AN_APPROVER),
    ("without the role", lambda: signed_in("grace", "audit"), AnswerCode.NOT_PERMITTED),
    ("unknown to the bundle", lambda: signed_in("eve"), AnswerCode.NOT_AN_APPROVER),
]


@pytest.mark.parametrize(("who", "person", "code"), NOBODY, ids=[case[0] for case in NOBODY])
async def test_who_may_not_approve_is_told_why_is_shown_nothing_and_is_on_record(
    who: str, person: Callable[[], SignedIn], code: str
) -> None:
    world = await Answering.of(asking())
    approval_id = await world.ask()
    answered = await world.approve(person(), approval_id)
    assert code_of(answered) == code
    assert isinstance(answered, Refused)
    assert answered.state is None
    assert await world.state(approval_id) is ApprovalState.PENDING
    (record,) = world.records("approval.refused")
    assert (record["code"], record["approval"]["wanted"]) == (code, "approve")
    assert record["person"]["id"] == person().person
    page = await world.approvals.page(person(), approval_id)
    assert page.refused is not None
    # The user behind the call may say no, and so sees what it would be said to.
    assert (page.shown is not None) is (code == AnswerCode.OWN_REQUEST)


async def test_a_group_that_the_sign_in_says_lets_a_stranger_to_the_bundle_approve() -> None:
    world = await Answering.of(asking())
    approval_id = await world.ask()
    stranger = signed_in("eve", groups=frozenset({"finance"}))
    assert stood(await world.approve(stranger, approval_id)).request.state is ApprovalState.APPROVED


async def test_another_tenants_request_is_as_if_absent_to_everybody() -> None:
    world = await Answering.of(asking())
    approval_id = await world.ask()
    stranger = signed_in("grace", "approve", "policy", tenant="other")
    with pytest.raises(NotFound):
        await world.approvals.page(stranger, approval_id)
    with pytest.raises(NotFound):
        await world.deny(stranger, approval_id)
    with pytest.raises(NotFound):
        await world.approvals.revoke(stranger, approval_id)
    with pytest.raises(NotFound):
        await world.approvals.wait("other", approval_id, 0)
    with pytest.raises(NotFound):
        await world.approvals.cancel(replace(world.caller, tenant="other"), approval_id)


async def test_a_yes_to_another_digest_changes_nothing() -> None:
    world = await Answering.of(asking())
    approval_id = await world.ask()
    grace = signed_in("grace")
    answered = await world.approve(grace, approval_id, shown_digest="sha256:" + "0" * 64)
    assert code_of(answered) == AnswerCode.SHOWN_CHANGED


async def test_what_is_folded_has_to_be_opened_before_a_yes() -> None:
    world = await Answering.of(asking())
    long = call("fs/file_edit", path="/workspace/a", text="\n".join(f"line {i}" for i in range(1000)))
    approval_id = await world.ask(long)
    grace = signed_in("grace")
    page = await world.approvals.page(grace, approval_id)
    assert page.shown is not None
    assert page.shown.document["must_open"] == ["/text"]
    assert code_of(await world.approve(grace, approval_id, opened=frozenset())) == AnswerCode.NOT_OPENED
    elsewhere = await world.approve(grace, approval_id, opened=frozenset({"/path"}))
    assert code_of(elsewhere) == AnswerCode.NOT_OPENED
    assert await world.state(approval_id) is ApprovalState.PENDING
    assert stood(await world.approve(grace, approval_id)).request.state is ApprovalState.APPROVED


CHANGES = {
    "reason": (asking(reason="It is looked at twice."), "the rule `asks` gives another reason"),
    "terms": (asking('@quorum("2")'), "the rule `asks` asks for other people or on other terms"),
    "name": (asking(name="others"), "the rule `asks` is gone"),
    "text": (
        asking().replace('[Action::"read", Action::"write"]', 'Action::"read"'),
        "the rule `asks` applies to other calls",
    ),
}


@pytest.mark.parametrize(("rules", "difference"), CHANGES.values(), ids=CHANGES)
async def test_a_rule_that_was_shown_and_changed_since_takes_no_yes_and_the_difference_is_told(
    rules: str, difference: str
) -> None:
    world = await Answering.of(asking())
    approval_id = await world.ask()
    world.bundles.swap(TENANT, ruleset_of(rules), 1)
    grace = signed_in("grace")
    assert (await world.approvals.page(grace, approval_id)).drift == (difference,)
    answered = await world.approve(grace, approval_id)
    assert code_of(answered) == AnswerCode.SHOWN_CHANGED
    assert isinstance(answered, Refused)
    assert difference in answered.message
    assert await world.state(approval_id) is ApprovalState.PENDING
    assert stood(await world.deny(grace, approval_id)).request.state is ApprovalState.DENIED


async def test_a_change_elsewhere_in_the_bundle_keeps_the_yes() -> None:
    world = await Answering.of(asking())
    approval_id = await world.ask()
    moved = '@id("another") forbid (principal, action in Action::"delete", resource);\n' + asking()
    world.bundles.swap(TENANT, ruleset_of(moved), 1)
    answered = stood(await world.approve(signed_in("grace"), approval_id))
    assert answered.request.state is ApprovalState.APPROVED


async def test_who_may_approve_is_judged_by_the_bundle_in_force_at_the_answer() -> None:
    world = await Answering.of(asking())
    approval_id = await world.ask()
    not_grace = '@id("not-grace") forbid (principal == User::"grace", action in Action::"approve", resource);'
    world.bundles.swap(TENANT, ruleset_of(asking() + not_grace), 1)
    assert code_of(await world.approve(signed_in("grace"), approval_id)) == AnswerCode.NOT_PERMITTED
    page = await world.approvals.page(signed_in("grace"), approval_id)
    assert "not-grace" in page.because
    after = stood(await world.approve(signed_in("linus"), approval_id))
    assert after.request.state is ApprovalState.APPROVED


async def test_a_no_ends_it_reaches_the_agent_and_sticks_in_the_session() -> None:
    world = await Answering.of(asking())
    made = world.fresh(call("fs/file_read", path="/workspace/a"))
    approval_id = await world.ask(made)
    after = stood(await world.deny(signed_in("grace"), approval_id, "not on a Friday"))
    assert after.request.state is ApprovalState.DENIED
    assert after.denial is not None
    assert (after.denial.person, after.denial.reason) == ("grace", "not on a Friday")
    for again in (made, world.fresh(made)):
        decision = await world.decide(again)
        assert (decision.effect, decision.code) == (Effect.DENY, Code.APPROVAL_DENIED)
        assert "not on a Friday" in decision.message
    (record,) = world.records("approval.denied")
    assert record["denial"] == {"person": "grace", "reason": "not on a Friday", "saw_shown": None}


async def test_a_yes_to_what_was_denied_in_another_way_is_told_to_be_for_nothing() -> None:
    """AP2: two requests for one call, since its values came from elsewhere; a no to one is a no to both."""
    world = await Answering.of(asking())
    made = call("fs/file_read", path="/workspace/a", provenance={"/path": source("user")})
    worse = call("fs/file_read", path="/workspace/a", provenance={"/path": source("web")})
    first, second = await world.ask(made), await world.ask(world.fresh(worse))
    assert first != second
    assert (await world.approvals.page(signed_in("linus"), first)).refused is None
    await world.deny(signed_in("grace"), second)

    assert code_of(await world.approve(signed_in("linus"), first)) == AnswerCode.CANNOT_BE_APPROVED
    page = await world.approvals.page(signed_in("linus"), first)
    assert page.refused is not None
    assert "denied this very call" in page.refused.message
    assert page.deny_refused is None
    assert await world.state(first) is ApprovalState.PENDING


async def test_the_user_behind_the_call_may_say_no_without_any_role() -> None:
    world = await Answering.of(asking())
    approval_id = await world.ask()
    after = stood(await world.deny(signed_in("ada", "audit"), approval_id))
    assert after.request.state is ApprovalState.DENIED


async def test_a_stranger_may_not_say_no() -> None:
    world = await Answering.of(asking())
    approval_id = await world.ask()
    assert code_of(await world.deny(signed_in("mallory"), approval_id)) == AnswerCode.NOT_AN_APPROVER
    assert await world.state(approval_id) is ApprovalState.PENDING


@pytest.mark.parametrize("reason", ["x" * 1001, "a\0b", "\ud800"])
async def test_a_reason_that_nobody_can_keep_is_refused(reason: str) -> None:
    world = await Answering.of(asking())
    approval_id = await world.ask()
    with pytest.raises(MalformedInput):
        await world.deny(signed_in("grace"), approval_id, reason)
    assert await world.state(approval_id) is ApprovalState.PENDING


async def test_only_the_credential_that_asked_takes_it_back() -> None:
    world = await Answering.of(asking())
    approval_id = await world.ask()
    with pytest.raises(NotFound):
        await world.approvals.cancel(replace(world.caller, key_id="another"), approval_id)
    after = stood(await world.approvals.cancel(world.caller, approval_id))
    assert after.request.state is ApprovalState.CANCELLED
    assert code_of(await world.approve(signed_in("grace"), approval_id)) == AnswerCode.CLOSED
    (record,) = world.records("approval.cancelled")
    assert record["caller"]["key_id"] == world.caller.key_id


async def test_what_nobody_answered_expires_once_and_a_late_answer_changes_nothing() -> None:
    world = await Answering.of(asking())
    approval_id = await world.ask()
    request = (await world.approvals.find(TENANT, approval_id)).request
    world.clock.at_ms = request.expires_at_ms
    # By the time alone, before anybody wrote it down.
    late = await world.approve(signed_in("grace"), approval_id)
    assert code_of(late) == AnswerCode.CLOSED
    assert isinstance(late, Refused)
    assert late.state is ApprovalState.EXPIRED
    assert await world.approvals.lapses.sweep() == 1
    assert await world.approvals.lapses.sweep() == 0
    assert await world.state(approval_id) is ApprovalState.EXPIRED
    assert code_of(await world.deny(signed_in("grace"), approval_id)) == AnswerCode.CLOSED
    (record,) = world.records("approval.expired")
    assert record["approval"]["by"] == "time"
    assert "person" not in record, "nobody answering is no human denial"


async def test_a_wider_yes_is_revoked_by_an_approver_or_by_policy_and_then_permits_nothing() -> None:
    for by in (("linus", "approve"), ("mallory", "policy")):
        world = await Answering.of(asking())
        made = call("fs/file_read", path="/workspace/a")
        approval_id = await world.ask(made)
        await world.approve(signed_in("grace"), approval_id, scope=ScopeKind.TIMES, uses=5)
        assert (await world.decide(world.fresh(made))).effect is Effect.ALLOW
        after = stood(await world.approvals.revoke(signed_in(*by), approval_id))
        assert after.grant is not None
        assert (after.grant.voided_by, after.grant.uses_left) == (by[0], 4)
        assert (await world.decide(world.fresh(made))).effect is Effect.REQUIRE_APPROVAL
        again = await world.approvals.revoke(signed_in(*by), approval_id)
        assert code_of(again) == AnswerCode.CLOSED
        (record,) = world.records("approval.revoked")
        assert (record["person"]["id"], record["grant"]["uses_left"]) == (by[0], 4)


async def test_who_may_not_approve_may_not_revoke_and_nothing_is_revoked_that_was_not_granted() -> None:
    world = await Answering.of(asking())
    approval_id = await world.ask()
    linus = signed_in("linus")
    assert code_of(await world.approvals.revoke(linus, approval_id)) == AnswerCode.CLOSED
    await world.approve(linus, approval_id)
    refused = await world.approvals.revoke(signed_in("mallory"), approval_id)
    assert code_of(refused) == AnswerCode.NOT_AN_APPROVER
    assert (await world.approvals.find(TENANT, approval_id)).grant is not None


async def test_yes_and_no_at_the_same_instant_end_in_one_state() -> None:
    for _ in range(20):
        world = await Answering.of(asking())
        approval_id = await world.ask()
        yes, no = await asyncio.gather(
            world.approve(signed_in("grace"), approval_id), world.deny(signed_in("linus"), approval_id)
        )
        refused = [answered for answered in (yes, no) if isinstance(answered, Refused)]
        assert [one.code for one in refused] == [AnswerCode.CLOSED]
        state = await world.state(approval_id)
        assert state is (ApprovalState.DENIED if refused[0] is yes else ApprovalState.APPROVED)
        assert len(world.records("approval.approved", "approval.denied")) == 1


async def test_a_double_click_is_one_vote() -> None:
    world = await Answering.of(TWO)
    approval_id = await world.ask()
    grace = signed_in("grace")
    answers = await asyncio.gather(*(world.approve(grace, approval_id) for _ in range(3)))
    assert sorted(isinstance(answer, Refused) for answer in answers) == [False, True, True]
    assert len((await world.approvals.find(TENANT, approval_id)).votes) == 1
    assert await world.state(approval_id) is ApprovalState.PENDING


async def test_an_approver_revokes_also_after_the_request_would_have_been_over() -> None:
    world = await Answering.of(asking())
    made = call("fs/file_read", path="/workspace/a")
    approval_id = await world.ask(made)
    request = (await world.approvals.find(TENANT, approval_id)).request
    world.clock.at_ms = request.expires_at_ms - 1
    await world.approve(signed_in("grace"), approval_id, scope=ScopeKind.TIMES, uses=5)
    world.clock.at_ms = request.expires_at_ms + 10_000
    assert (await world.decide(world.fresh(made))).effect is Effect.ALLOW
    after = stood(await world.approvals.revoke(signed_in("linus"), approval_id))
    assert after.grant is not None
    assert after.grant.voided_by == "linus"


@pytest.mark.parametrize("saw", [True, False])
async def test_a_no_counts_whatever_it_was_said_to_and_the_record_tells_which(saw: bool) -> None:
    world = await Answering.of(asking())
    approval_id = await world.ask()
    shown = (await world.approvals.find(TENANT, approval_id)).request.shown_digest
    digest = shown if saw else "sha256:" + "0" * 64
    after = stood(await world.approvals.deny(signed_in("grace"), approval_id, "no", digest))
    assert after.request.state is ApprovalState.DENIED
    (record,) = world.records("approval.denied")
    assert record["denial"]["saw_shown"] is saw

"""A call that is asked for, from the ask to its use: decision, rule, reason and record of each step."""

import json
from dataclasses import replace
from typing import Final

import pytest

from authz.core.fingerprint import operation_key
from authz.model.approval import ApprovalState, ScopeKind
from authz.model.call import Call
from authz.model.decision import Code, Effect, Next, Stage
from authz.model.operation import OperationState
from authz.service.approvals_view import approve_ref, shown_ref
from tests.support.answering import PERMITS, TENANT, Answering, asking, ruleset_of, signed_in
from tests.support.approvals import SHELL
from tests.support.world import IDS, TOOLS, call, source
from tests.unit.service.asked import ASKING, EDIT, READ, decided, granted, under, waited_for

FORBIDDEN: Final = (
    ASKING + '@id("never") @reason("Not here.") forbid (principal, action, resource is File) '
    'when { resource == File::"/workspace/a" };\n'
)


class TestAsking:
    async def test_an_ask_makes_a_request_and_says_what_to_do(self) -> None:
        world = await Answering.of(ASKING)
        decision = await world.decide(READ)

        approval_id = waited_for(decision)
        assert decision.code is Code.APPROVAL_REQUIRED
        assert [rule.rule for rule in decision.matched] == ["asks"]
        assert decision.message == (
            "a person must approve this: `asks`. It is looked at. "
            "Wait for the answer, then send the same call again with the same ids."
        )
        assert (decision.next, decision.retry_unchanged) == ((Next.WAIT,), True)
        assert decision.lease is None
        told = decision.approval
        assert told is not None
        assert told.url == f"http://localhost:8700/ui/approvals/{approval_id}"
        assert told.expires_at_ms == world.clock.at_ms + 3_600_000

        request = (await world.approvals.find(TENANT, approval_id)).request
        assert request.decision_id == decision.decision_id
        assert request.asked.fingerprint == decision.fingerprint
        record = decided(world)[-1]
        assert (record["decision_id"], record["effect"]) == (decision.decision_id, "require_approval")
        assert record["approval"] == {
            "id": approval_id,
            "state": "pending",
            "expires_at": "2026-11-30T11:00:00.123Z",
            "shown_digest": request.shown_digest,
            "joined": False,
        }
        assert record["message"] == decision.message

    async def test_with_the_record_all_is_written_that_people_need(self) -> None:
        world = await Answering.of(ASKING)
        decision = await world.decide(READ)
        approval_id = waited_for(decision)

        page = await world.approvals.page(signed_in("grace"), approval_id)
        assert page.shown is not None
        request = page.standing.request
        assert page.shown.digest == request.shown_digest
        now_ms = world.clock.at_ms
        assert await world.ledger.find_kept(TENANT, shown_ref(approval_id), now_ms) == page.shown.content
        assert await world.ledger.find_kept(TENANT, approve_ref(approval_id), now_ms) is not None
        # Until nothing can be left of any yes, which whoever could have given it may revoke.
        over_ms = request.expires_at_ms + request.ttl_seconds * 1000
        for ref in (shown_ref(approval_id), approve_ref(approval_id)):
            assert await world.ledger.find_kept(TENANT, ref, over_ms - 1) is not None
            assert await world.ledger.find_kept(TENANT, ref, over_ms) is None

        [notice] = await world.ledger.outbox.undirected(10)
        assert (notice.kind, notice.approval_id) == ("approval.requested", approval_id)
        assert json.loads(notice.body)["data"]["url"].endswith(f"/ui/approvals/{approval_id}")
        key = operation_key(TENANT, READ)
        assert key is not None
        operation = await world.ledger.find_operation(key)
        assert operation is not None
        assert (operation.state, operation.approval) == (OperationState.WAITING, "")

    async def test_the_same_asked_again_joins_the_request_that_waits(self) -> None:
        """AV2: under other ids, in another turn or trace, or as it is: people are asked once."""
        world = await Answering.of(ASKING)
        first = waited_for(await world.decide(READ))
        for again in (READ, under(READ, "c-2"), replace(READ, ids=replace(IDS, trace="t-2", turn="9"))):
            assert waited_for(await world.decide(again)) == first
            assert decided(world)[-1]["approval"]["joined"] is True
        assert len(await world.ledger.outbox.undirected(10)) == 1

    @pytest.mark.parametrize(
        "other",
        [
            call("fs/file_read", path="/workspace/b", provenance={"/path": source("user")}),
            call("fs/file_read", path="/workspace/a", provenance={"/path": source("web")}),
            replace(READ, subject=replace(READ.subject, session="s-2")),
            replace(READ, subject=replace(READ.subject, agent="coder-2")),
            replace(READ, subject=replace(READ.subject, on_behalf_of="linus")),
        ],
        ids=["arguments", "provenance", "session", "agent", "user"],
    )
    async def test_another_call_is_another_request(self, other: Call) -> None:
        world = await Answering.of(ASKING)
        first = waited_for(await world.decide(READ))
        assert waited_for(await world.decide(under(other, "c-2"))) != first

    async def test_what_asks_otherwise_by_now_is_another_request(self) -> None:
        world = await Answering.of(ASKING)
        first = waited_for(await world.decide(READ))
        for stricter in (asking('@quorum("2")'), asking(reason="Other words."), asking('@factor("passkey")')):
            world.bundles.swap(TENANT, ruleset_of(stricter), 1)
            assert waited_for(await world.decide(READ)) != first

    async def test_a_request_that_is_over_is_not_joined(self) -> None:
        world = await Answering.of(ASKING)
        first = waited_for(await world.decide(READ))
        world.clock.at_ms += 3_600_000
        second = waited_for(await world.decide(READ))
        assert second != first
        assert await world.state(first) is ApprovalState.EXPIRED

    async def test_a_caller_may_want_a_person_to_look(self) -> None:
        """AP7: what the requester says raises, and a yes to it is a yes to that."""
        world = await Answering.of(PERMITS)
        wanted = replace(READ, ask=True)
        decision = await world.decide(wanted)
        assert decision.code is Code.APPROVAL_REQUESTED
        assert [rule.rule for rule in decision.matched] == ["authz:caller-asked"]
        await world.approve(signed_in("grace"), waited_for(decision))
        allowed = await world.decide(wanted)
        assert (allowed.effect, allowed.code) == (Effect.ALLOW, Code.APPROVAL_GRANTED)
        assert [rule.rule for rule in allowed.matched] == ["everything"]

    async def test_what_cannot_be_seen_cannot_be_approved_and_says_so(self) -> None:
        world = await Answering.of(
            f'{PERMITS}@id("asks") @requires("approval") '
            'forbid (principal, action in Action::"execute", resource);\n',
            tools={**TOOLS, "shell": SHELL},
        )
        decision = await world.decide(call("shell/run", command="\u3164"))
        approval_id = waited_for(decision)
        assert decision.message == (
            "a person must approve this, and nobody can as it is: "
            "an argument that names what is touched is blank"
        )
        assert (decision.next, decision.retry_unchanged) == ((Next.CHANGE_ARGUMENTS, Next.STOP), False)
        assert (await world.approvals.find(TENANT, approval_id)).request.cannot_be_approved_because


class TestUse:
    async def test_a_yes_allows_the_same_call_once(self) -> None:
        world = await Answering.of(ASKING)
        approval_id = await granted(world, READ)
        allowed = await world.decide(READ)

        assert (allowed.effect, allowed.stage, allowed.code) == (
            Effect.ALLOW,
            Stage.APPROVAL,
            Code.APPROVAL_GRANTED,
        )
        assert [rule.rule for rule in allowed.matched] == ["everything"]
        assert [rule.rule for rule in allowed.overruled] == ["asks"]
        assert {verdict.effect for verdict in allowed.verdicts} == {Effect.ALLOW}
        assert allowed.approval is not None
        assert (allowed.approval.id, allowed.approval.state) == (approval_id, ApprovalState.CONSUMED)
        assert (allowed.approval.scope, allowed.approval.uses_left) == (ScopeKind.ONCE, 0)
        standing = await world.approvals.find(TENANT, approval_id)
        record = decided(world)[-1]
        assert record["approval"] == {
            "id": approval_id,
            "state": "consumed",
            "expires_at": "2026-11-30T10:15:00.123Z",
            "shown_digest": standing.request.shown_digest,
            "scope": "once",
            "uses_left": 0,
            "approvers": [{"person": "grace", "factor": "session"}],
            "used": True,
        }
        assert [rule["rule"] for rule in record["overruled"]] == ["asks"]
        assert standing.grant is not None
        assert standing.grant.uses_left == 0

    async def test_sent_once_more_it_is_that_decision_and_no_second_permission(self) -> None:
        """AP1, ID1: the same ids use nothing up; other ids ask anew; other arguments are a conflict."""
        world = await Answering.of(ASKING)
        approval_id = await granted(world, READ)
        allowed = await world.decide(READ)
        again = await world.decide(READ)
        assert (again.repeated, again.decision_id, again.lease) == (True, allowed.decision_id, allowed.lease)
        record = decided(world)[-1]
        assert record["type"] == "decision.repeated"
        assert (record["approval"]["id"], record["approval"]["used"]) == (approval_id, False)

        other = await world.decide(call("fs/file_read", path="/workspace/b"))
        assert (other.effect, other.code) == (Effect.DENY, Code.OPERATION_CONFLICT)
        assert waited_for(await world.decide(under(READ, "c-2"))) != approval_id

    async def test_n_times_is_n_times(self) -> None:
        world = await Answering.of(ASKING)
        approval_id = await granted(world, READ, scope=ScopeKind.TIMES, uses=3)
        for left in (2, 1, 0):
            allowed = await world.decide(under(READ, f"c-{left}"))
            assert allowed.approval is not None
            assert (allowed.effect, allowed.approval.uses_left) == (Effect.ALLOW, left)
        assert waited_for(await world.decide(under(READ, "c-over"))) != approval_id

    async def test_a_sessions_yes_covers_what_was_shown_for_its_agent_alone(self) -> None:
        world = await Answering.of(ASKING)
        folder = call("fs/file_read", path="/workspace/d", provenance={"/path": source("user")})
        approval_id = await granted(world, folder, scope=ScopeKind.SESSION, uses=None)
        inside = call("fs/file_read", path="/workspace/d/e", provenance={"/path": source("user")})
        allowed = await world.decide(under(inside, "c-2"))
        assert allowed.approval is not None
        assert (allowed.approval.id, allowed.approval.state) == (approval_id, ApprovalState.APPROVED)
        assert allowed.approval.uses_left is None
        for other in (
            call("fs/file_read", path="/workspace/de", provenance={"/path": source("user")}),
            replace(inside, subject=replace(inside.subject, session="s-2")),
            replace(inside, subject=replace(inside.subject, agent="coder-2")),
            replace(inside, subject=replace(inside.subject, parent_agent="lead")),
        ):
            assert (await world.decide(under(other, "c-3"))).effect is not Effect.ALLOW

    @pytest.mark.parametrize(
        "rules",
        [
            ASKING + '@id("more") @requires("approval") forbid (principal, action, resource);',
            asking(reason="Other words."),
            asking('@quorum("2")'),
            asking('@factor("passkey")'),
            asking('@ttl("1s")'),
        ],
        ids=["another rule", "another reason", "more people", "a stronger factor", "a shorter time"],
    )
    async def test_at_use_it_is_held_against_the_rules_in_force(self, rules: str) -> None:
        """AP4: the version is not fingerprinted; what asks now decides."""
        world = await Answering.of(ASKING)
        approval_id = await granted(world, READ)
        world.bundles.swap(TENANT, ruleset_of(rules), 1)
        world.clock.at_ms += 1_000
        assert waited_for(await world.decide(READ)) != approval_id
        world.bundles.swap(TENANT, ruleset_of(ASKING), 1)
        assert (await world.decide(READ)).effect is Effect.ALLOW, "nothing of it was used up meanwhile"

    async def test_a_yes_lifts_no_deny(self) -> None:
        world = await Answering.of(ASKING)
        await granted(world, READ)
        world.bundles.swap(TENANT, ruleset_of(FORBIDDEN), 1)
        denied = await world.decide(READ)
        assert (denied.effect, denied.code) == (Effect.DENY, Code.POLICY_FORBID)
        assert denied.approval is None
        assert "approval" not in decided(world)[-1]

    async def test_worse_provenance_than_was_shown_asks_anew(self) -> None:
        world = await Answering.of(ASKING)
        first = await granted(world, EDIT)
        worse = replace(EDIT, provenance={**EDIT.provenance, ("text",): source("web")})
        assert waited_for(await world.decide(worse)) != first
        assert (await world.decide(EDIT)).effect is Effect.ALLOW

    async def test_a_yes_ends(self) -> None:
        world = await Answering.of(asking('@ttl("60s")'))
        first = await granted(world, READ)
        world.clock.at_ms += 60_000
        assert waited_for(await world.decide(READ)) != first

    async def test_a_limit_that_is_full_uses_nothing_up(self) -> None:
        limits = "limits:\n  - {id: one, reason: one at a time, calls: 1, seconds: 60, per: [agent]}\n"
        world = await Answering.of(ASKING, limits=limits)
        approval_id = await granted(world, READ)
        other = under(call("fs/file_read", path="/workspace/b", provenance={"/path": source("user")}), "c-2")
        await granted(world, other)
        assert (await world.decide(other)).effect is Effect.ALLOW
        full = await world.decide(READ)
        assert (full.effect, full.code) == (Effect.DENY, Code.LIMIT_RATE)
        standing = await world.approvals.find(TENANT, approval_id)
        assert standing.grant is not None
        assert standing.grant.uses_left == 1
        world.clock.at_ms += 60_000
        assert (await world.decide(READ)).effect is Effect.ALLOW

    async def test_every_rule_that_asks_has_its_own_people(self) -> None:
        second = (
            '@id("also") @reason("Staff looks, too.") @requires("approval") @quorum("2") '
            'forbid (principal, action in Action::"read", resource);\n'
        )
        world = await Answering.of(ASKING + second)
        approval_id = waited_for(await world.decide(READ))
        await world.approve(signed_in("grace"), approval_id)
        assert waited_for(await world.decide(READ)) == approval_id
        await world.approve(signed_in("linus"), approval_id)
        allowed = await world.decide(READ)
        assert allowed.effect is Effect.ALLOW
        assert [one["person"] for one in decided(world)[-1]["approval"]["approvers"]] == ["grace", "linus"]

    async def test_a_secret_makes_no_digest_that_could_be_tried_out(self) -> None:
        world = await Answering.of(ASKING)
        secret = replace(EDIT, provenance={**EDIT.provenance, ("text",): source("secret")})
        approval_id = waited_for(await world.decide(secret))
        record, request = decided(world)[-1], (await world.approvals.find(TENANT, approval_id)).request
        assert record["approval"]["shown_digest"] != request.shown_digest
        assert request.shown_digest not in json.dumps(record)
        assert "/approval/shown_digest" in record["redacted"]
        await world.approve(signed_in("grace"), approval_id)
        assert (await world.decide(secret)).effect is Effect.ALLOW
        assert decided(world)[-1]["approval"]["shown_digest"] == record["approval"]["shown_digest"]

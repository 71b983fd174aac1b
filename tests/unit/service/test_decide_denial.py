"""What a no keeps from running, what revoking undoes, and what recovery may use again."""

from dataclasses import replace

import pytest

from authz.core.fingerprint import operation_key, session_key_of
from authz.core.settlement import Outcome
from authz.model.approval import DENIED_MARK, ScopeKind
from authz.model.decision import Code, Decision, Effect, Next, Stage
from authz.model.operation import OperationState
from authz.service.operations import OperationService
from tests.support.answering import PERMITS, TENANT, Answering, ruleset_of, signed_in
from tests.support.world import call, source
from tests.unit.service.asked import ASKING, EDIT, READ, decided, denied, granted, under, waited_for

S = OperationState


class TestNo:
    async def test_a_no_sticks_for_that_call_in_that_session(self) -> None:
        """AP2: on every path, in the person's words; and people are not asked about it again."""
        world = await Answering.of(ASKING)
        approval_id = await denied(world, READ)
        for again in (READ, under(READ, "c-2"), replace(READ, ask=True)):
            decision = await world.decide(again)
            assert (decision.effect, decision.stage, decision.code) == (
                Effect.DENY,
                Stage.APPROVAL,
                Code.APPROVAL_DENIED,
            )
            assert decision.message == "a person denied this call in this session: not this one"
            assert (decision.next, decision.retry_unchanged) == ((Next.CHANGE_ARGUMENTS, Next.STOP), False)
            record = decided(world)[-1]
            assert record["approval"] == {"id": approval_id, "state": "denied", "denied_by": "grace"}
            assert record["message"] == decision.message
            assert (record["effect"], record["code"]) == ("deny", "approval.denied")
        other = replace(READ, subject=replace(READ.subject, session="s-2"))
        assert waited_for(await world.decide(under(other, "c-3"))) != approval_id
        changed = call("fs/file_read", path="/workspace/b", provenance={"/path": source("user")})
        assert waited_for(await world.decide(under(changed, "c-4"))) != approval_id

    async def test_a_no_stands_where_no_rule_asks_any_more(self) -> None:
        world = await Answering.of(ASKING)
        approval_id = await denied(world, READ)
        world.bundles.swap(TENANT, ruleset_of(PERMITS), 1)
        decision = await world.decide(under(READ, "c-2"))
        assert (decision.effect, decision.code) == (Effect.DENY, Code.APPROVAL_DENIED)
        assert decision.approval is not None
        assert decision.approval.id == approval_id
        # Nothing else of that session is held up by it.
        changed = call("fs/file_read", path="/workspace/b", provenance={"/path": source("user")})
        assert (await world.decide(under(changed, "c-3"))).code is Code.POLICY_PERMIT

    async def test_a_no_beats_every_yes(self) -> None:
        world = await Answering.of(ASKING)
        folder = call("fs/file_read", path="/workspace/d", provenance={"/path": source("user")})
        await granted(world, folder, scope=ScopeKind.SESSION, uses=None)
        inside = call("fs/file_read", path="/workspace/d/e", provenance={"/path": source("web")})
        await denied(world, under(inside, "c-2"))
        trusted = replace(inside, provenance={("path",): source("user")})
        assert (await world.decide(under(trusted, "c-3"))).code is Code.APPROVAL_DENIED
        sibling = call("fs/file_read", path="/workspace/d/f", provenance={"/path": source("user")})
        assert (await world.decide(under(sibling, "c-4"))).effect is Effect.ALLOW

    async def test_a_no_without_a_session_holds_for_calls_without_one(self) -> None:
        world = await Answering.of(ASKING)
        nameless = replace(READ, subject=replace(READ.subject, session=None))
        await denied(world, nameless)
        world.bundles.swap(TENANT, ruleset_of(PERMITS), 1)
        assert (await world.decide(under(nameless, "c-2"))).code is Code.APPROVAL_DENIED
        assert (await world.decide(under(READ, "c-3"))).code is Code.POLICY_PERMIT

    async def test_a_deny_by_policy_stays_one(self) -> None:
        world = await Answering.of(ASKING)
        await denied(world, READ)
        never = '@id("never") forbid (principal, action, resource is File) '
        world.bundles.swap(
            TENANT, ruleset_of(PERMITS + never + 'when { resource == File::"/workspace/a" };'), 1
        )
        assert (await world.decide(READ)).code is Code.POLICY_FORBID

    async def test_the_mark_of_a_no_is_no_label(self) -> None:
        """Policies, records and approvers see what a session has read, and never what is noted of it."""
        seen = '@id("marked") forbid (principal, action, resource) when { '
        marked = f'{seen}context.session.exposed.contains("{DENIED_MARK}") }};\n'
        world = await Answering.of(ASKING + marked)
        await denied(world, READ)
        key = session_key_of(TENANT, "s-1")
        assert DENIED_MARK in await world.ledger.session_exposure(key)
        other = call("fs/file_read", path="/workspace/b", provenance={"/path": source("user")})
        approval_id = waited_for(await world.decide(under(other, "c-2")))
        assert decided(world)[-1]["exposed"] == []
        page = await world.approvals.page(signed_in("grace"), approval_id)
        assert page.shown is not None
        assert page.shown.document["data"]["session_has_read"] == []


class TestRevoked:
    async def test_before_its_use_it_is_not_used(self) -> None:
        world = await Answering.of(ASKING)
        approval_id = await granted(world, READ)
        await world.approvals.revoke(signed_in("grace"), approval_id)
        assert waited_for(await world.decide(READ)) != approval_id

    async def test_after_its_use_it_undoes_nothing_and_permits_nothing_new(self) -> None:
        world = await Answering.of(ASKING)
        approval_id = await granted(world, READ, scope=ScopeKind.TIMES, uses=2)
        allowed = await world.decide(READ)
        await world.approvals.revoke(signed_in("grace"), approval_id)
        again = await world.decide(READ)
        assert (again.repeated, again.decision_id) == (True, allowed.decision_id)
        assert waited_for(await world.decide(under(READ, "c-2"))) != approval_id


class Settled:
    """The world with a runtime that settles what it was allowed."""

    def __init__(self, world: Answering) -> None:
        self.world = world
        self.operations = OperationService(
            ledger=world.ledger,
            clock=world.clock,
            redactor=world.decisions._redactor,
            operation_secret=b"k" * 32,
            bundles=world.bundles,
        )

    async def settle(self, decision: Decision, state: OperationState) -> None:
        assert decision.lease is not None
        token, made = decision.lease.token, (self.world.caller, decision.decision_id)
        await self.operations.start(*made, token, "a-1", None)
        await self.operations.settle(*made, token, Outcome(state=state), "")


class TestRecovery:
    """Spec section 9: recovery uses the key again, and does not ask for the same approval again."""

    async def test_what_failed_is_tried_again_on_the_same_yes(self) -> None:
        world = await Answering.of(ASKING)
        made = replace(EDIT, settles=True)
        approval_id = await granted(world, made)
        first = await world.decide(made)
        await Settled(world).settle(first, S.FAILED_RETRYABLE)
        second = await world.decide(made)
        assert (second.effect, second.code) == (Effect.ALLOW, Code.APPROVAL_GRANTED)
        assert second.decision_id != first.decision_id
        assert second.idempotency_key == first.idempotency_key
        record = decided(world)[-1]
        assert (record["approval"]["id"], record["approval"]["used"]) == (approval_id, False)
        # Once it succeeded it is over, and under other ids it is another effect.
        await Settled(world).settle(second, S.SUCCEEDED)
        assert (await world.decide(made)).code is Code.OPERATION_SETTLED
        assert waited_for(await world.decide(under(made, "c-2"))) != approval_id

    async def test_what_never_began_before_its_lease_ended_is_given_again(self) -> None:
        world = await Answering.of(ASKING)
        made = replace(EDIT, settles=True)
        approval_id = await granted(world, made)
        await world.decide(made)
        world.clock.at_ms += 3_600_000
        again = await world.decide(made)
        assert (again.effect, again.repeated) == (Effect.ALLOW, False)
        assert again.approval is not None
        assert (again.approval.id, again.approval.uses_left) == (approval_id, 0)

    @pytest.mark.parametrize("why", ["revoked", "another rule", "worse provenance"])
    async def test_recovery_is_held_against_all_that_may_have_changed(self, why: str) -> None:
        world = await Answering.of(ASKING)
        made = replace(EDIT, settles=True)
        approval_id = await granted(world, made, scope=ScopeKind.TIMES, uses=2)
        await Settled(world).settle(await world.decide(made), S.FAILED_RETRYABLE)
        if why == "revoked":
            await world.approvals.revoke(signed_in("grace"), approval_id)
        elif why == "another rule":
            more = (
                '@id("more") @requires("approval") forbid (principal, action in Action::"write", resource);'
            )
            world.bundles.swap(TENANT, ruleset_of(ASKING + more), 1)
        else:
            made = replace(made, provenance={**made.provenance, ("text",): source("web")})
        assert waited_for(await world.decide(made)) != approval_id
        key = operation_key(TENANT, made)
        assert key is not None
        operation = await world.ledger.find_operation(key)
        assert operation is not None
        assert operation.state is S.FAILED_RETRYABLE, "what was once allowed stays on record"

    async def test_what_is_spent_cannot_be_revoked_from_under_it(self) -> None:
        world = await Answering.of(ASKING)
        made = replace(EDIT, settles=True)
        first = await granted(world, made)
        await Settled(world).settle(await world.decide(made), S.FAILED_RETRYABLE)
        await world.approvals.revoke(signed_in("grace"), first)
        # Nothing of it was left to revoke: what used it may use it again.
        assert (await world.decide(made)).effect is Effect.ALLOW

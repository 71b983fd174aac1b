"""Capabilities in the service: proofs are good once, budgets hold, links are seen, children remembered."""

import asyncio
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from authz.core.delegation import delegated_label, delegated_trace_label
from authz.core.fingerprint import session_key, trace_key
from authz.errors import AuthzError, RevocationsStale
from authz.model.call import Call
from authz.model.capability import DELEGATED, LinkOrigin, RevocationKind
from authz.model.decision import Code, Effect, Stage
from authz.service.bundles import Admitted
from tests.support.chains import (
    HOLDERS,
    NOW_S,
    TENANT,
    entry,
    handed_on,
    issued,
    verified,
)
from tests.support.world import NO_IDS, caller_of, world
from tests.unit.service.deciding import Deciding, fresh, proved, reading

W = "file:///workspace"
WORLD = world()
DELEGATION = world(
    """
@id("all") permit (principal, action, resource);
@id("needs-one") forbid (principal, action, resource)
when { context.session.delegated && !context.capability.presented };
@id("nothing-read") forbid (principal, action, resource)
when { context.session.exposed.contains("authz:delegated") };
"""
)
ROOT = issued([entry("read", W)])
CHILD = handed_on(ROOT, [entry("read", f"{W}/a")])


async def deciding(ruleset: Any = WORLD, *chains: tuple[str, ...], **parts: Any) -> Deciding:
    found = await Deciding.of(ruleset, **parts)
    for chain in chains or (ROOT,):
        await found.issue(chain)
    return found


async def code_of(world_: Deciding, made: Call) -> Code:
    return (await world_.decide(made)).decision.code


# Proofs


@pytest.mark.parametrize(
    ("path", "dry_run", "code"),
    [
        ("/workspace/a", False, Code.POLICY_PERMIT),
        ("/workspace/a", True, Code.POLICY_PERMIT),
        ("/workspace/b", False, Code.CAPABILITY_OBJECT_OUTSIDE),
    ],
)
async def test_a_proof_is_good_once_whatever_came_of_the_call(path: str, dry_run: bool, code: Code) -> None:
    running = await deciding()
    made = proved(replace(reading(path, agent="sub-1"), dry_run=dry_run), CHILD, jti="p")
    assert await code_of(running, made) is code
    again = (await running.decide(made)).decision
    assert (again.effect, again.stage, again.code) == (Effect.DENY, Stage.CAPABILITY, Code.CAPABILITY_PROOF)
    assert again.capability is not None
    assert again.capability.reason == "proof_replayed"
    # Each has its record, and a fresh proof is as good as the first was.
    assert [record["code"] for record in running.records] == [code.value, "capability.proof"]
    assert await code_of(running, proved(made, CHILD)) is code


async def test_of_many_who_use_a_proof_at_once_one_is_answered() -> None:
    running = await deciding()
    calls = [proved(reading("/workspace/a"), ROOT, jti="p") for _ in range(20)]
    answers = await asyncio.gather(*map(running.decide, calls))
    assert Counter(answer.decision.code for answer in answers) == {
        Code.POLICY_PERMIT: 1,
        Code.CAPABILITY_PROOF: 19,
    }


async def test_a_proof_that_does_not_hold_is_not_used_up() -> None:
    """Else anybody could spend the proofs of another by sending them with something else."""
    running = await deciding()
    good = proved(reading("/workspace/a"), ROOT, jti="p")
    stolen = replace(good, request_digest="sha256:" + "e" * 64)
    assert await code_of(running, stolen) is Code.CAPABILITY_PROOF
    assert await code_of(running, good) is Code.POLICY_PERMIT


async def test_proofs_of_different_keys_may_have_one_jti() -> None:
    running = await deciding()
    assert await code_of(running, proved(reading("/workspace/a"), ROOT, jti="p")) is Code.POLICY_PERMIT
    child = proved(reading("/workspace/a", agent="sub-1"), CHILD, jti="p")
    assert await code_of(running, child) is Code.POLICY_PERMIT


async def test_a_repeat_needs_a_proof_of_its_own_and_takes_no_more() -> None:
    chain = issued([entry("read", W, budget={"calls": 1})])
    running = await deciding(WORLD, chain)
    made = reading("/workspace/a")
    first = (await running.decide(proved(made, chain))).decision
    again = (await running.decide(proved(made, chain))).decision
    assert (again.repeated, again.decision_id) == (True, first.decision_id)
    without = await running.decide(replace(proved(made, chain), proof=None))
    assert without.decision.code is Code.CAPABILITY_PROOF
    assert await code_of(running, proved(fresh(made), chain)) is Code.CAPABILITY_BUDGET


async def test_each_call_of_a_batch_has_its_own_proof() -> None:
    running = await deciding()
    made = [
        proved(reading("/workspace/a"), ROOT, jti="one"),
        proved(reading("/workspace/b"), ROOT, jti="one"),
        proved(reading("/workspace/c"), ROOT, jti="two"),
        reading("/workspace/d"),
    ]
    admitted = Admitted(caller=caller_of(WORLD), ruleset=WORLD)
    answers = await running.service.decide_all(made, admitted)
    codes = [None if isinstance(answer, AuthzError) else answer.decision.code for answer in answers]
    assert codes == [Code.POLICY_PERMIT, Code.CAPABILITY_PROOF, Code.POLICY_PERMIT, Code.POLICY_PERMIT]


# Fail closed


async def test_without_a_source_every_capability_is_refused() -> None:
    running = await deciding(WORLD, with_capabilities=False)
    answer = await running.decide(proved(reading("/workspace/a"), ROOT))
    assert (answer.decision.effect, answer.decision.code) == (Effect.DENY, Code.CAPABILITY_INVALID)
    assert running.records[-1]["capability"]["refused"]["reason"] == "not_loaded"
    assert await code_of(running, reading("/workspace/a")) is Code.POLICY_PERMIT


async def test_while_nobody_knows_what_was_revoked_nothing_is_decided_by_a_capability() -> None:
    running = await deciding()

    def stale(_: str) -> Any:
        raise RevocationsStale("not known")

    running.chains.rules = stale  # type: ignore[method-assign, assignment]
    with pytest.raises(RevocationsStale):
        await running.decide(proved(reading("/workspace/a"), ROOT))
    assert running.records == []
    # Whoever has none is not held up.
    assert await code_of(running, reading("/workspace/a")) is Code.POLICY_PERMIT


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (RevocationKind.LINK, verified(CHILD).links[0].link_hash),
        (RevocationKind.LINK, verified(CHILD).links[1].link_hash),
        (RevocationKind.JTI, "j-1"),
        (RevocationKind.HOLDER, HOLDERS[1].public.thumbprint),
    ],
)
async def test_a_revocation_stops_the_next_call(kind: RevocationKind, value: str) -> None:
    """DE5: also of a chain that is remembered, and of a call that was allowed before."""
    running = await deciding()
    made = reading("/workspace/a", agent="sub-1")
    assert await code_of(running, proved(made, CHILD)) is Code.POLICY_PERMIT
    await running.revoke(kind, value)
    assert await code_of(running, proved(made, CHILD)) is Code.CAPABILITY_REVOKED
    assert await code_of(running, proved(fresh(made), CHILD)) is Code.CAPABILITY_REVOKED


async def test_a_revocation_between_loading_and_deciding_counts() -> None:
    """What was loaded waits for the store; a revocation that comes meanwhile is seen."""
    running = await deciding()
    link = verified(CHILD).links[0].link_hash
    real = running.ledger.session_exposure

    async def slow(*keys: str) -> frozenset[str]:
        await running.revoke(RevocationKind.LINK, link)
        return await real(*keys)

    running.ledger.session_exposure = slow  # type: ignore[method-assign]
    assert await code_of(running, proved(reading("/workspace/a"), ROOT)) is Code.CAPABILITY_REVOKED


# Links that are seen


async def test_links_are_put_on_record_when_they_are_first_used() -> None:
    running = await deciding()
    leaf = handed_on(CHILD)
    links = verified(leaf).links
    outside = proved(reading("/workspace/b", agent="sub-2"), leaf)
    # Also by a call that is denied: its holder has shown its key.
    assert await code_of(running, outside) is Code.CAPABILITY_OBJECT_OUTSIDE
    for index in (1, 2):
        row = await running.ledger.find_link(TENANT, links[index].link_hash)
        assert row is not None
        assert (row.origin, row.parent_hash, row.depth) == (
            LinkOrigin.SEEN,
            links[index - 1].link_hash,
            index,
        )
    loaded = await running.chains.load_chain(TENANT, leaf)
    assert loaded.recorded


async def test_a_stolen_chain_leaves_no_trace() -> None:
    running = await deciding()
    stolen = proved(reading("/workspace/a", agent="sub-1"), CHILD, signer=HOLDERS[5])
    assert await code_of(running, stolen) is Code.CAPABILITY_PROOF
    assert await running.ledger.find_link(TENANT, verified(CHILD).leaf.link_hash) is None


# Budgets


@pytest.mark.parametrize("calls", [1, 3])
async def test_siblings_at_once_never_spend_more_than_what_is_above_them(calls: int) -> None:
    """BU1: each child carries the whole budget, and together they have it once."""
    budget = {"calls": calls}
    root = issued([entry("read", W, budget=budget)])
    running = await deciding(WORLD, root)
    children = [handed_on(root, jti=f"c-{number}") for number in range(4)]
    made = [proved(reading("/workspace/a", agent="sub-1"), child) for child in children for _ in range(4)]
    answers = await asyncio.gather(*map(running.decide, made))
    assert Counter(answer.decision.code for answer in answers) == {
        Code.POLICY_PERMIT: calls,
        Code.CAPABILITY_BUDGET: 16 - calls,
    }
    denied = [answer.decision for answer in answers if answer.decision.code is Code.CAPABILITY_BUDGET]
    # The root's counter is the one that is spent, and the answer says so.
    assert {(one.capability.link, one.capability.agent) for one in denied if one.capability} <= {
        (0, "coder-1"),
        (1, "sub-1"),
    }
    assert any(one.capability and one.capability.link == 0 for one in denied)


async def test_a_rate_comes_back_with_time() -> None:
    chain = issued([entry("read", W, budget={"rate": {"calls": 1, "seconds": 10}})])
    running = await deciding(WORLD, chain)
    assert await code_of(running, proved(reading("/workspace/a"), chain)) is Code.POLICY_PERMIT
    over = (await running.decide(proved(reading("/workspace/a"), chain))).decision
    assert (over.code, over.retry_after_ms) == (Code.CAPABILITY_RATE, 10_000)
    running.clock.at_ms += 10_000
    assert await code_of(running, proved(reading("/workspace/a"), chain)) is Code.POLICY_PERMIT


async def test_calls_do_not_come_back_with_time() -> None:
    chain = issued([entry("read", W, budget={"calls": 1})])
    running = await deciding(WORLD, chain)
    assert await code_of(running, proved(reading("/workspace/a"), chain)) is Code.POLICY_PERMIT
    running.clock.at_ms += 500_000
    later = proved(reading("/workspace/a"), chain, iat=NOW_S + 500)
    assert await code_of(running, later) is Code.CAPABILITY_BUDGET


async def test_a_spent_entry_is_passed_over_for_one_with_something_left() -> None:
    chain = issued([entry("read", W, budget={"calls": 1}), entry("read", W, budget={"calls": 2})])
    running = await deciding(WORLD, chain)
    codes = [await code_of(running, proved(reading("/workspace/a"), chain)) for _ in range(4)]
    assert codes == [Code.POLICY_PERMIT] * 3 + [Code.CAPABILITY_BUDGET]
    assert [record["capability"]["entries"] for record in running.records[:3]] == [[0], [1], [1]]


async def test_a_dry_run_and_a_deny_take_nothing() -> None:
    chain = issued([entry("read", W, budget={"calls": 1})])
    running = await deciding(WORLD, chain)
    for made in (replace(reading("/workspace/a"), dry_run=True), reading("/etc/a")):
        await running.decide(proved(made, chain))
    assert await code_of(running, proved(reading("/workspace/a"), chain)) is Code.POLICY_PERMIT
    dry = replace(reading("/workspace/a"), dry_run=True)
    assert await code_of(running, proved(dry, chain)) is Code.CAPABILITY_BUDGET


# Who was delegated


def with_parent(made: Call) -> Call:
    return replace(made, subject=replace(made.subject, parent_agent="coder-1"))


@pytest.mark.parametrize(
    "said",
    [
        lambda: with_parent(reading("/workspace/a", agent="sub-1")),
        lambda: fresh(reading("/workspace/a", agent="sub-1"), parent_trace="t-0"),
        lambda: proved(reading("/workspace/a", agent="sub-1"), CHILD),
        # Denied, and yet its holder proved to be a child.
        lambda: proved(reading("/workspace/b", agent="sub-1"), CHILD),
    ],
)
async def test_a_child_that_leaves_everything_out_is_still_a_child(said: Any) -> None:
    running = await deciding(DELEGATION)
    bare = reading("/workspace/a", agent="sub-1")
    assert await code_of(running, bare) is Code.POLICY_PERMIT
    await running.decide(said())
    answer = await running.decide(fresh(bare))
    assert [rule.rule for rule in answer.decision.matched] == ["needs-one"]
    assert running.records[-1]["delegated"] is True
    # What marks it is no label that policies see, nor one that is recorded as read.
    assert not any(label.startswith("authz:") for label in running.records[-1]["exposed"])
    # Its parent in the same session is not marked by it, and with its capability it goes on.
    assert await code_of(running, reading("/workspace/a")) is Code.POLICY_PERMIT
    assert await code_of(running, proved(fresh(bare), CHILD)) is Code.POLICY_PERMIT


@pytest.mark.parametrize(
    "sent",
    [
        # No proof, a chain that is none, and one that its holder shows as somebody else.
        lambda: replace(proved(reading("/workspace/a"), CHILD), proof=None),
        lambda: replace(proved(reading("/workspace/a"), CHILD), capability=(*ROOT, "x")),
        lambda: replace(proved(reading("/workspace/a"), CHILD), capability=("x", "y")),
        lambda: proved(reading("/workspace/a"), CHILD),
    ],
)
async def test_a_chain_that_is_not_the_callers_own_marks_nobody(sent: Any) -> None:
    """Else whoever may send calls could turn every other agent into a child, session by session."""
    running = await deciding(DELEGATION)
    answer = await running.decide(sent())
    assert (answer.decision.effect, answer.decision.stage) == (Effect.DENY, Stage.CAPABILITY)
    assert "delegated" not in running.records[-1]
    assert await code_of(running, reading("/workspace/a")) is Code.POLICY_PERMIT


@pytest.mark.parametrize("session", [None, "s-other"])
async def test_a_child_is_remembered_by_its_trace_too(session: str | None) -> None:
    """It may leave out its session, or name another one; in another trace its session still tells."""
    running = await deciding(DELEGATION)
    await running.decide(with_parent(reading("/workspace/a", agent="sub-1", session="s-9")))
    assert await code_of(running, reading("/workspace/a", agent="sub-1", session=session)) is (
        Code.POLICY_FORBID
    )
    moved = fresh(with_parent(reading("/workspace/a", agent="sub-1", session="s-9")), trace="t-9")
    await running.decide(moved)
    bare = fresh(reading("/workspace/a", agent="sub-1", session=session), trace="t-9")
    assert await code_of(running, bare) is Code.POLICY_FORBID
    assert await code_of(running, reading("/workspace/a", session=session)) is Code.POLICY_PERMIT


async def test_without_a_session_the_trace_is_remembered() -> None:
    running = await deciding(DELEGATION)
    nameless: dict[str, Any] = {"agent": "sub-1", "session": None}
    await running.decide(with_parent(reading("/workspace/a", **nameless)))
    assert await code_of(running, reading("/workspace/a", **nameless)) is Code.POLICY_FORBID
    elsewhere = fresh(reading("/workspace/a", **nameless), trace="t-9")
    assert await code_of(running, elsewhere) is Code.POLICY_PERMIT
    # With neither there is nothing to remember it by, and nothing to break either.
    anonymous = replace(with_parent(reading("/workspace/a", **nameless)), ids=NO_IDS)
    assert await code_of(running, anonymous) is Code.POLICY_FORBID


async def test_a_mark_without_a_name_is_everybodys() -> None:
    """As databases from before have it."""
    running = await deciding(DELEGATION)
    await running.mark(trace_key(TENANT, "t-child"), DELEGATED)
    for agent in ("coder-1", "sub-1", "anybody"):
        made = fresh(reading("/workspace/a", agent=agent, session=f"s-{agent}"), trace="t-child")
        assert await code_of(running, made) is Code.POLICY_FORBID
    assert await code_of(running, reading("/workspace/a")) is Code.POLICY_PERMIT


async def test_the_mark_is_written_once() -> None:
    running = await deciding(DELEGATION)
    made = with_parent(reading("/workspace/a", agent="sub-1"))
    units = []
    real = running.ledger.commit

    async def counting(unit: Any) -> Any:
        units.append(unit)
        return await real(unit)

    running.ledger.commit = counting  # type: ignore[method-assign]
    for _ in range(3):
        await running.decide(fresh(made, parent_trace="t-0"))
    marks = [
        (session_key(TENANT, made), frozenset({delegated_label("sub-1")})),
        (trace_key(TENANT, "t-1"), frozenset({delegated_trace_label("sub-1")})),
    ]
    assert [[(one.session_key, one.labels) for one in unit.delegated] for unit in units] == [marks, [], []]


async def test_a_main_agent_with_a_capability_of_its_own_is_not_marked() -> None:
    running = await deciding(DELEGATION)
    assert await code_of(running, proved(reading("/workspace/a"), ROOT)) is Code.POLICY_PERMIT
    assert await code_of(running, reading("/workspace/a")) is Code.POLICY_PERMIT

"""Stage 6: what a capability allows, what policies see of it, and what is put on record.

How it refuses: `test_capability_refusals`. The format: `tests/clients/python/capabilities`.
"""

from collections.abc import Sequence
from dataclasses import replace

import pytest
from authz_client.capabilities import Ancestor, Budget, issue_root

from authz.core.capability import links_seen
from authz.core.decide import Outcome, decide
from authz.core.redact import Redactor
from authz.model.call import Call
from authz.model.capability import BudgetShare, LinkOrigin
from authz.model.decision import Code, Effect
from tests.support.chains import (
    HOLDERS,
    ISSUER_KEY,
    NOW_S,
    decide_holding,
    entry,
    handed_on,
    holding,
    issued,
    key,
    presented,
    proof_of,
    revoking,
    root_record,
    token_rules,
    tool_digests,
    verified,
)
from tests.support.world import (
    NOW_MS,
    TEXT,
    call,
    caller_of,
    decide_in,
    facts,
    fault_of,
    record_of,
    rules_of,
    tool,
    tool_file,
    world,
)

WORLD = world()
ALL = ["fs/file_read", "fs/file_edit", "fs/file_remove", "fs/file_copy"]
REDACTOR = Redactor(b"r" * 32)
ROOT = issued([entry(ALL, "file:///workspace")])
CHILD = handed_on(ROOT, [entry("fs/file_read", "file:///workspace/a")])
GRANDCHILD = handed_on(CHILD)
READ = call("fs/file_read", path="/workspace/a/x")
CHILD_READ = call("fs/file_read", path="/workspace/a/x", agent="sub-1")


def allowed(outcome: Outcome) -> bool:
    return outcome.decision.effect is Effect.ALLOW


# What is accepted


def test_a_root_and_what_was_handed_on_allow_what_they_name() -> None:
    outcome = decide_holding(WORLD, READ, ROOT)
    assert (allowed(outcome), outcome.decision.code) == (True, Code.POLICY_PERMIT)
    record = record_of(WORLD, holding(READ, ROOT), outcome)["capability"]
    link = verified(ROOT).leaf
    assert record == {
        "presented": True,
        "holder": HOLDERS[0].public.thumbprint,
        "root": "coder-1",
        "depth": 0,
        "expires_at": "2026-11-30T10:10:00.000Z",
        "links": [{"link": link.link_hash, "jti": "j-0", "jkt": link.holder.thumbprint, "sub": "coder-1"}],
        "entries": [0],
    }
    child = decide_holding(WORLD, CHILD_READ, CHILD)
    assert allowed(child)
    assert (child.capability.agents, child.capability.depth) == (("coder-1", "sub-1"), 1)
    assert (child.capability.root, child.capability.holder) == ("coder-1", HOLDERS[1].public.thumbprint)
    assert [item.link for item in child.capability.handles] == [x.link_hash for x in verified(CHILD).links]


def test_without_a_capability_nothing_is_refused_here() -> None:
    outcome = decide_in(WORLD, READ)
    assert allowed(outcome)
    assert record_of(WORLD, READ, outcome)["capability"] == {"presented": False, "holder": None}


def test_the_allow_and_its_lease_end_with_the_capability() -> None:
    short = issued([entry(ALL, "file:///workspace")], exp=NOW_S + 5)
    decision = decide_holding(WORLD, READ, short).decision
    assert decision.lease is not None
    assert decision.expires_at_ms == decision.lease.expires_at_ms == (NOW_S + 5) * 1000
    longer = decide_holding(WORLD, READ, ROOT).decision
    assert longer.expires_at_ms == NOW_MS + 60_000


def test_a_dry_run_goes_through_the_same_checks() -> None:
    assert allowed(decide_holding(WORLD, replace(READ, dry_run=True), ROOT))
    outside = replace(call("fs/file_read", path="/etc/a"), dry_run=True)
    assert decide_holding(WORLD, outside, ROOT).decision.code is Code.CAPABILITY_OBJECT_OUTSIDE


# Who it is for


def test_who_acts_for_nobody_is_its_own_subject() -> None:
    own = issued([entry(ALL, "file:///workspace")], subject="coder-1", agent=None)
    handed = handed_on(own)
    for made, chain in ((READ, own), (CHILD_READ, handed)):
        assert allowed(decide_holding(WORLD, for_user(made, None), chain))
        # Not even for a user of the agent's own name.
        for user in ("ada", "coder-1"):
            decision = decide_holding(WORLD, for_user(made, user), chain).decision
            assert decision.code is Code.CAPABILITY_SUBJECT


@pytest.mark.parametrize("user", [None, "coder-1", "sub-1", "", "Ada"])
def test_what_was_given_for_a_user_speaks_for_no_other(user: str | None) -> None:
    for made, chain in ((READ, ROOT), (CHILD_READ, handed_on(ROOT))):
        assert allowed(decide_holding(WORLD, for_user(made, "ada"), chain))
        decision = decide_holding(WORLD, for_user(made, user), chain).decision
        assert decision.code is Code.CAPABILITY_SUBJECT


def for_user(made: Call, user: str | None) -> Call:
    return replace(made, subject=replace(made.subject, on_behalf_of=user))


# Which objects, and trees of them


@pytest.mark.parametrize(
    ("location", "path", "code"),
    [
        ("file:///workspace/a", "/workspace/a", Code.POLICY_PERMIT),
        ("file:///workspace/a", "/workspace/a/b", Code.POLICY_PERMIT),
        ("file:///workspace/a", "/workspace", Code.CAPABILITY_OBJECT_OUTSIDE),
        ("file:///workspace/a", "/workspace/ab", Code.CAPABILITY_OBJECT_OUTSIDE),
    ],
)
def test_a_tree_is_allowed_where_its_root_is(location: str, path: str, code: Code) -> None:
    """A capability only grants, so what contains the root of a tree contains all of it; a part does not."""
    chain = issued([entry("delete", location)])
    made = call("fs/file_remove", path=path, recursive=True)
    assert decide_holding(WORLD, made, chain).decision.code is code


# Rights: tools that were reviewed anew


def test_a_right_to_a_verb_is_given_whatever_the_tools_are() -> None:
    """Only what names a tool was given for that tool as it was."""
    both = issued([entry("fs/file_read", "file:///workspace"), entry("read", "file:///workspace/a")])
    old = root_record(both, tool_digests={"fs/file_read": "sha256:" + "0" * 64})
    outcome = decide_holding(WORLD, READ, both, presented=presented(both, WORLD, root=old))
    assert (allowed(outcome), outcome.capability.used) == (True, (1,))
    outside = call("fs/file_read", path="/workspace/b")
    refused = decide_holding(WORLD, outside, both, presented=presented(both, WORLD, root=old)).decision
    assert refused.code is Code.CAPABILITY_TOOL_CHANGED
    # A child that names the tool has it from a right that leaves it open.
    by_verb = issued([entry("read", "file:///workspace")])
    child = handed_on(by_verb, [entry("fs/file_read:read", "file:///workspace")])
    assert allowed(
        decide_holding(WORLD, CHILD_READ, child, presented=presented(child, WORLD, root=root_record(by_verb)))
    )


def test_each_access_may_be_allowed_by_another_entry() -> None:
    chain = issued([entry("write", "file:///workspace/b"), entry("fs/file_copy:read", "file:///workspace/a")])
    made = call("fs/file_copy", {"from": "/workspace/a/x", "to": "/workspace/b/x"})
    outcome = decide_holding(WORLD, made, chain)
    assert (allowed(outcome), outcome.capability.used) == (True, (1, 0))
    turned = call("fs/file_copy", {"from": "/workspace/b/x", "to": "/workspace/a/x"})
    assert decide_holding(WORLD, turned, chain).decision.code is Code.CAPABILITY_OBJECT_OUTSIDE


# Policy sees every agent of the chain


def test_what_a_parent_may_not_do_no_child_may() -> None:
    rules = """
    @id("all") permit (principal, action, resource);
    @id("not-coder") forbid (principal == Agent::"coder-1", action in Action::"read", resource);
    """
    ruleset = world(rules)
    outcome = decide_holding(ruleset, CHILD_READ, CHILD)
    assert (outcome.decision.effect, rules_of(outcome)) == (Effect.DENY, ["not-coder"])
    assert allowed(decide_in(ruleset, CHILD_READ))


def test_an_agent_above_a_narrowed_root_counts_too() -> None:
    """A chain that the service narrowed is one link long, and its first agents stand in `anc`."""
    above = tuple(
        Ancestor(link=link.link_hash, jti=link.jti, jkt=link.holder.thumbprint, agent=link.agent)
        for link in verified(CHILD).links
    )
    narrowed = issued([entry(ALL, "file:///workspace")], agent="sub-9", ancestors=above)
    share = BudgetShare(link_hash=above[0].link, budget=Budget(calls=3), expires_at_ms=NOW_MS + 1000)
    record = root_record(
        narrowed, origin=LinkOrigin.NARROWED, inherited=((share,),), tool_digests=tool_digests(WORLD), depth=2
    )
    made = replace(READ, subject=replace(READ.subject, agent="sub-9"))
    outcome = decide_holding(WORLD, made, narrowed, presented=presented(narrowed, WORLD, root=record))
    assert allowed(outcome)
    assert (outcome.capability.agents, outcome.capability.depth) == (("coder-1", "sub-1", "sub-9"), 2)
    assert (outcome.capability.root, outcome.capability.shares) == ("coder-1", (share,))
    rules = """
    @id("all") permit (principal, action, resource);
    @id("not-1") forbid (principal == Agent::"sub-1", action, resource);
    """
    ruleset = world(rules)
    denied = decide_holding(ruleset, made, narrowed, presented=presented(narrowed, ruleset, root=record))
    assert rules_of(denied) == ["not-1"]
    # Revoking what it came from stops it.
    for sets in ({"links": [above[0].link]}, {"holders": [above[1].jkt]}, {"jtis": [above[1].jti]}):
        tokens = token_rules(revoked=revoking(**sets))
        known = presented(narrowed, WORLD, root=record)
        decision = decide_holding(WORLD, made, narrowed, presented=known, tokens=tokens).decision
        assert decision.code is Code.CAPABILITY_REVOKED
    # And hand-offs are counted across it.
    tokens = token_rules(max_depth=1)
    known = presented(narrowed, WORLD, root=record)
    assert (
        decide_holding(WORLD, made, narrowed, presented=known, tokens=tokens).decision.code
        is Code.CAPABILITY_DEPTH
    )


# Who was delegated

DELEGATION = """
@id("all") permit (principal, action, resource);
@id("needs-one") forbid (principal, action, resource)
when { context.session.delegated && !context.capability.presented };
@id("not-handed-on") forbid (principal, action in Action::"write", resource)
when { context.session.delegated };
"""


@pytest.mark.parametrize(
    ("made", "chain", "remembered", "rule"),
    [
        (READ, None, False, None),
        (READ, ROOT, False, None),
        (replace(READ, subject=replace(READ.subject, parent_agent="main")), None, False, "needs-one"),
        (replace(READ, ids=replace(READ.ids, parent_trace="t-0")), None, False, "needs-one"),
        # Whatever the call leaves out, what the session was before is known.
        (READ, None, True, "needs-one"),
        (READ, ROOT, True, None),
        (CHILD_READ, CHILD, False, None),
    ],
)
def test_a_delegated_agent_without_a_capability_is_never_a_main_agent(
    made: Call, chain: Sequence[str] | None, remembered: bool, rule: str | None
) -> None:
    ruleset = world(DELEGATION)
    if chain is None:
        outcome = decide_in(ruleset, made, delegated=remembered)
    else:
        outcome = decide_holding(ruleset, made, chain, delegated=remembered)
    assert rules_of(outcome) == (["all"] if rule is None else [rule])


def test_a_child_with_its_capability_is_delegated_and_a_main_agent_with_one_is_not() -> None:
    ruleset = world(DELEGATION)
    edit = call("fs/file_edit", path="/workspace/a", text="")
    assert rules_of(decide_holding(ruleset, edit, ROOT)) == ["all"]
    child = handed_on(ROOT)
    made = replace(edit, subject=replace(edit.subject, agent="sub-1"))
    assert rules_of(decide_holding(ruleset, made, child)) == ["not-handed-on"]


def test_labels_of_tools_cannot_say_that_a_session_was_delegated() -> None:
    """What marks a session as delegated is no name that a bundle can give a label."""
    returns = {"labels": ["authz:delegated"]}
    marked = tool("t", [{"verb": "read", "kind": "path", "at": "/a"}], {"a": TEXT}, returns=returns)
    assert "`tools/0/returns/labels/0`" in fault_of(tools=tool_file("x", marked)).message


# What goes on record


def test_links_that_were_made_offline_are_recorded_as_they_are_seen() -> None:
    chain = verified(GRANDCHILD)
    rows = links_seen(chain, root_record(ROOT), caller_of(WORLD), REDACTOR)
    assert [row.link_hash for row in rows] == [link.link_hash for link in chain.links[1:]]
    assert [row.parent_hash for row in rows] == [link.link_hash for link in chain.links[:-1]]
    assert {(row.root_hash, row.origin, row.tenant, row.issued_by) for row in rows} == {
        (chain.links[0].link_hash, LinkOrigin.SEEN, "acme", "key-1")
    }
    assert [(row.agent, row.subject, row.depth, row.jti) for row in rows] == [
        ("sub-1", "ada", 1, "j-1"),
        ("sub-2", "ada", 2, "j-2"),
    ]
    assert {row.expires_at_ms for row in rows} == {(NOW_S + 600) * 1000}
    assert rows[0].details == (
        '[{"actions":["fs/file_read"],"locations":["file:///workspace/a"],"type":"agent_tool_call"}]'
    )
    assert links_seen(verified(ROOT), root_record(ROOT), caller_of(WORLD), REDACTOR) == ()


def test_a_child_with_the_jti_of_a_victim_does_not_share_its_budget() -> None:
    """tokens.md: a child chooses its own `jti`; counters go by link hash."""
    budget = {"calls": 5}
    root = issued([entry("fs/file_read", "file:///workspace", budget=budget)])
    one, other = (
        handed_on(root, jti=jti, holder=HOLDERS[1].public, iat=iat)
        for jti, iat in (("j", NOW_S), ("j", NOW_S - 1))
    )
    taken = [
        {reservation.key for reservation in decide_holding(WORLD, CHILD_READ, chain).decision.reservations}
        for chain in (one, other)
    ]
    assert len(taken[0]) == len(taken[1]) == 2
    assert len(taken[0] & taken[1]) == 1  # the root's


def test_a_root_by_somebody_else_with_the_same_name_is_nothing() -> None:
    """A child made to look like a root: signed by a holder, under the issuer's name and `kid`."""
    forged = (
        issue_root(
            HOLDERS[0],
            kid=ISSUER_KEY.kid,
            issuer=token_rules().issuer,
            audience=token_rules().audience,
            subject="ada",
            agent="coder-1",
            holder=key("thief").public,
            entries=[entry(ALL, "file:///")],
            jti="j-0",
            iat=NOW_S,
            exp=NOW_S + 600,
            max_depth=8,
        ),
    )
    made = replace(READ, capability=forged, proof=proof_of(forged, READ.request_digest, signer=key("thief")))
    decision = decide(made, facts(WORLD, tokens=token_rules(), presented=presented(forged, WORLD))).decision
    assert decision.code is Code.CAPABILITY_INVALID
    assert decision.capability is not None
    assert decision.capability.reason == "signature_invalid"

"""A request for an approval: what it is made of, which ones are the same, and where one stands at a time."""

from dataclasses import replace
from typing import Any

import pytest

from authz.core.approval import dedupe_key, grant_state_at, scope_of, state_at, told_state
from authz.core.approval_limits import joined
from authz.core.approval_request import new_request
from authz.core.shown import show
from authz.core.shown_types import OfferedScope
from authz.core.shown_types import Reach as ShownReach
from authz.model.approval import ApprovalState, Factor, ScopeKind
from authz.model.approval_request import LeafTrust
from authz.model.decision import Access
from authz.model.resource import Authority, PathPattern, Scope, Verb
from tests.support.approvals import (
    ASKS,
    GRACE,
    PENDING_MS,
    PERMIT,
    SESSION,
    STAFF,
    TTL_SECONDS,
    USER,
    asked,
    granted,
    provenance,
    rule,
    ruleset,
    times,
)
from tests.support.world import IDS, NOW_MS, call, decide_in, facts, source

READ = call("fs/file_read", path="/workspace/a", provenance=USER)
TWO = ASKS + rule("asks-two", '@quorum("2") @factor("passkey") @ttl("5m")', "when { resource is File }")


def test_a_request_says_who_asks_for_what_and_until_when() -> None:
    request = asked(READ, TWO)
    about = request.asked

    assert (request.state, request.version) == (ApprovalState.PENDING, 0)
    assert (request.created_at_ms, request.expires_at_ms) == (NOW_MS, NOW_MS + PENDING_MS)
    assert (about.requester.tenant, about.requester.agent, about.requester.on_behalf_of) == (
        "acme",
        "coder-1",
        "ada",
    )
    assert (about.requester.session, about.requester.chain, about.requester.key_id) == (
        "s-1",
        ("coder-1",),
        "key-1",
    )
    assert request.ids == IDS
    assert [one.rule for one in about.rules] == ["asks", "asks-two"]
    assert about.rules[1].terms is not None
    assert (about.rules[1].terms.quorum, about.rules[1].terms.factor) == (2, Factor.PASSKEY)
    assert request.ttl_seconds == 300
    assert about.authority is Authority.A0
    assert about.provenance == {"/path": LeafTrust(untrusted=False, secret=False)}


def test_the_scopes_are_those_that_were_shown_and_know_what_they_reach() -> None:
    removed = call("fs/file_remove", path="/workspace/d", recursive=True, provenance=USER)
    once, several, session = asked(removed).scopes
    (reach,) = session.reach

    assert (once.kind, once.uses, once.reach) == (ScopeKind.ONCE, 1, ())
    assert (several.kind, several.uses) == (ScopeKind.TIMES, 10)
    assert (session.kind, session.uses) == (ScopeKind.SESSION, None)
    assert (reach.verb, reach.uri, reach.tree) == (Verb.DELETE, "file:///workspace/d", True)
    assert (reach.authority, reach.confirmed) == (Authority.A1, False)


def test_a_reach_is_as_narrow_as_the_narrowest_access_that_it_is_made_of() -> None:
    """One resource that two arguments name, or of which a pattern was shown."""
    (access,) = decide_in(ruleset(ASKS), READ).decision.accesses
    offered = OfferedScope(
        scope="session",
        most_uses=None,
        reach=[ShownReach(verb="read", uri=access.resource.uri)],
        remembers=[],
    )

    def reach(*accesses: Access) -> tuple[bool, bool]:
        (found,) = scope_of(offered, accesses).reach
        return found.tree, found.confirmed

    tree = replace(access, scope=Scope.TREE)
    confirmed = replace(access, resolved=True)
    assert reach(access) == (False, False)
    assert reach(access, tree) == (True, False)
    assert reach(replace(tree, pattern=PathPattern(parts=("*.md",)))) == (False, False)
    assert reach(confirmed) == (False, True)
    assert reach(confirmed, replace(access, argument="/other")) == (False, True)


def test_only_what_was_decided_is_requested() -> None:
    bundle = ruleset(ASKS)
    outcome, known = decide_in(bundle, READ), facts(bundle)
    shown = show(READ, outcome, known, default_ttl_seconds=TTL_SECONDS)
    other = call("fs/file_read", path="/workspace/b", provenance=USER)
    kept: dict[str, Any] = {"request_id": "ap-1", "pending_ttl_ms": 1}

    with pytest.raises(ValueError, match="another call"):
        new_request(other, decide_in(bundle, other), known, shown, **kept)
    with pytest.raises(ValueError, match="asks"):
        new_request(replace(READ, dry_run=True), outcome, known, shown, **kept)
    allowed = ruleset(PERMIT)
    with pytest.raises(ValueError, match="asks"):
        new_request(READ, decide_in(allowed, READ), facts(allowed), shown, **kept)
    fewer = replace(outcome, decision=replace(outcome.decision, matched=()))
    with pytest.raises(ValueError, match="other rules"):
        new_request(READ, fewer, known, shown, **kept)


@pytest.mark.parametrize(
    ("changed", "rules", "known"),
    [
        ({}, ASKS, {"now_ms": NOW_MS + 1000}),
        ({"ids": replace(IDS, call="call-2")}, ASKS, {}),
        ({"path": "/workspace/../workspace/a"}, ASKS, {}),
        ({}, ASKS + rule("elsewhere", STAFF, 'when { action in Action::"send" }'), {}),
        ({}, ASKS, {"exposed": {"private"}}),
    ],
    ids=["later", "other ids", "other spelling", "a rule about something else", "more was read"],
)
def test_the_same_question_is_one_request(changed: dict[str, Any], rules: str, known: dict[str, Any]) -> None:
    """AV2: by fingerprint, asking rules and shown provenance."""
    first = asked(READ)
    again = asked(
        call("fs/file_read", **{"path": "/workspace/a", "provenance": USER, **changed}), rules, **known
    )

    assert again.dedupe_key == first.dedupe_key
    assert joined((first,), again.dedupe_key, NOW_MS) is first


@pytest.mark.parametrize(
    ("changed", "rules"),
    [
        ({"path": "/workspace/b"}, ASKS),
        ({"agent": "coder-2"}, ASKS),
        ({"user": "grace"}, ASKS),
        ({"user": None}, ASKS),
        ({"session": "s-2"}, ASKS),
        ({"session": None}, ASKS),
        ({"cwd": "/workspace/sub"}, ASKS),
        ({"parent_agent": "root"}, ASKS),
        ({"provenance": provenance({"/path": source("web")})}, ASKS),
        ({"provenance": provenance({"/path": source("user", uri="chat:1")})}, ASKS),
        ({"provenance": provenance({"/path": source("user", labels=["secret"])})}, ASKS),
        ({}, ASKS + rule("also", STAFF)),
        ({}, PERMIT + rule("asks", STAFF, reason="For another reason.")),
        ({}, PERMIT + rule("asks", STAFF + ' @quorum("2")')),
        ({}, PERMIT + rule("asks", STAFF + ' @factor("passkey")')),
        ({}, PERMIT + rule("asks", STAFF + ' @ttl("1m")')),
        ({}, PERMIT + rule("asks")),
    ],
)
def test_another_question_is_another_request(changed: dict[str, Any], rules: str) -> None:
    made = call("fs/file_read", **{"path": "/workspace/a", "provenance": USER, **changed})
    first, other = asked(READ), asked(made, rules)

    assert other.dedupe_key != first.dedupe_key
    assert joined((first,), other.dedupe_key, NOW_MS) is None


def test_nobody_joins_a_request_that_was_shown_with_less_authority() -> None:
    about = asked(READ).asked

    assert dedupe_key(replace(about, authority=Authority.A3), []) != dedupe_key(about, [])


def test_nobody_joins_what_is_over() -> None:
    first = asked(READ)

    assert joined((first,), first.dedupe_key, NOW_MS + PENDING_MS) is None
    for state in set(ApprovalState) - {ApprovalState.PENDING}:
        assert joined((replace(first, state=state),), first.dedupe_key, NOW_MS) is None


def test_of_two_the_older_one_is_joined() -> None:
    older, newer = asked(READ, request_id="ap-2"), asked(READ, request_id="ap-1", now_ms=NOW_MS + 1)

    assert joined((newer, older), older.dedupe_key, NOW_MS + 1) is older


def test_asking_again_is_counted_by_subject_and_resource() -> None:
    first = asked(READ)
    same = [
        call("fs/file_read", path="/workspace/a", provenance=USER, session="s-2"),
        call("fs/file_read", path="/workspace/a"),
        call("fs/file_edit", path="/workspace/a", text="x", provenance=USER),
    ]
    others = [
        call("fs/file_read", path="/workspace/b", provenance=USER),
        call("fs/file_read", path="/workspace/a", provenance=USER, agent="coder-2"),
        call("fs/file_read", path="/workspace/a", provenance=USER, user="grace"),
    ]

    assert all(asked(made).resources == first.resources for made in same)
    assert all(not asked(made).resources & first.resources for made in others)


def test_what_could_be_spelled_anew_each_time_is_one_resource() -> None:
    one, two = (
        asked(call("shell/run", command=f"$(cat {name})", provenance=USER)).resources for name in "ab"
    )
    url, query = (
        asked(call("web/fetch", url=f"https://example.net/p{end}", provenance=USER)).resources
        for end in ("", "?a=1")
    )

    assert one & two
    assert url == query


def test_only_what_is_asked_for_counts() -> None:
    rules = PERMIT + rule("asks", STAFF, 'when { action in Action::"write" }')
    copied = asked(
        call("fs/file_copy", {"from": "/workspace/a", "to": "/workspace/b"}, provenance=USER), rules
    )
    written = asked(call("fs/file_edit", path="/workspace/b", text="x", provenance=USER), rules)

    assert copied.resources == written.resources


def test_a_caller_that_wants_a_look_asks_about_all_of_it() -> None:
    request = asked(replace(READ, ask=True), PERMIT)

    assert [one.rule for one in request.asked.rules] == ["authz:caller-asked"]
    assert request.resources == asked(READ).resources


def test_expiry_is_a_function_of_time() -> None:
    """AP5: whether or not somebody has written it down."""
    request = asked(READ)

    assert state_at(request, request.expires_at_ms - 1) is ApprovalState.PENDING
    assert state_at(request, request.expires_at_ms) is ApprovalState.EXPIRED
    for state in set(ApprovalState) - {ApprovalState.PENDING}:
        assert state_at(replace(request, state=state), request.expires_at_ms) is state


def test_where_a_grant_stands() -> None:
    grant = granted(asked(READ), GRACE, scope=times(2))
    session = granted(asked(READ), GRACE, scope=SESSION)
    ends = NOW_MS + TTL_SECONDS * 1000

    assert grant_state_at(grant, NOW_MS) is ApprovalState.APPROVED
    assert (grant.expires_at_ms, session.expires_at_ms) == (ends, ends)
    assert grant_state_at(grant, ends - 1) is ApprovalState.APPROVED
    assert grant_state_at(grant, ends) is ApprovalState.VOID
    assert grant_state_at(replace(grant, uses_left=0), NOW_MS) is ApprovalState.CONSUMED
    assert grant_state_at(replace(grant, uses_left=-1), NOW_MS) is ApprovalState.CONSUMED
    assert grant_state_at(replace(grant, uses_left=None), NOW_MS) is ApprovalState.CONSUMED
    assert grant_state_at(replace(grant, voided_at_ms=NOW_MS), NOW_MS) is ApprovalState.VOID
    assert grant_state_at(session, NOW_MS) is ApprovalState.APPROVED


def test_one_state_is_told() -> None:
    request = asked(READ)
    grant = granted(request)
    approved = replace(request, state=ApprovalState.APPROVED)

    assert told_state(request, None, NOW_MS) is ApprovalState.PENDING
    assert told_state(approved, grant, NOW_MS) is ApprovalState.APPROVED
    assert told_state(approved, replace(grant, uses_left=0), NOW_MS) is ApprovalState.CONSUMED
    assert told_state(approved, None, NOW_MS) is ApprovalState.VOID
    assert told_state(replace(request, state=ApprovalState.DENIED), None, NOW_MS) is ApprovalState.DENIED

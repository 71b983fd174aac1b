"""Which calls a yes permits: those that were shown, judged anew at each use; and a no beats every yes."""

from dataclasses import replace
from typing import Any

import pytest

from authz.core.approval_match import CallNow, Denied, Matched, Mismatch, match_grant, mismatch
from authz.core.provenance import SECRET
from authz.model.approval_request import Consumption, Denial, Grant
from authz.model.call import Call
from authz.model.decision import Code, Next, Stage
from authz.model.resource import Authority
from tests.support.approvals import (
    ASKS,
    FINANCE,
    GRACE,
    LINUS,
    ONCE,
    PERMIT,
    SESSION,
    STAFF,
    TTL_SECONDS,
    USER,
    asked,
    granted,
    provenance,
    rule,
    times,
    wants,
)
from tests.support.world import IDS, NOW_MS, call, caller_of, source, world

READ = call("fs/file_read", path="/workspace/a", provenance=USER)
PAY = call("bank/transfer", to="ops", amount=1, provenance=USER)
ENDS = NOW_MS + TTL_SECONDS * 1000


def read(path: str, **more: Any) -> Call:
    return call("fs/file_read", **{"path": path, "provenance": USER, **more})


def grant_for(made: Call, rules: str = ASKS, request_id: str = "ap-1", **more: Any) -> Grant:
    return granted(asked(made, rules, request_id=request_id), GRACE, **more)


def denial_for(made: Call, *, reason: str = "", request_id: str = "ap-9", at_ms: int = NOW_MS) -> Denial:
    now = wants(made)
    return Denial(
        request_id=request_id,
        tenant="acme",
        session=made.subject.session,
        fingerprint=now.asked.fingerprint,
        person="grace",
        reason=reason,
        at_ms=at_ms,
    )


def why(made: Call, grant: Grant, rules: str = ASKS, **known: Any) -> Mismatch | None:
    """What keeps the grant from permitting the call; that it permits is seen through `match_grant`."""
    now = wants(made, rules, **known)
    found = mismatch(now, grant)
    assert isinstance(match_grant(now, [grant], []), Matched) == (found is None)
    return found


def chosen(now: CallNow, *grants: Grant) -> str | None:
    """The grant that is used, whatever order they are found in."""
    found = {
        match.grant.request_id if isinstance(match, Matched) else None
        for match in (match_grant(now, order, []) for order in (grants, grants[::-1]))
    }
    assert len(found) == 1
    return found.pop()


def test_the_call_that_was_shown_is_permitted_and_a_use_is_taken() -> None:
    """AP1."""
    grant = grant_for(PAY)
    match = match_grant(wants(replace(PAY, ids=replace(IDS, call="call-2")), now_ms=NOW_MS + 1), [grant], [])

    assert isinstance(match, Matched)
    assert match.grant is grant
    assert match.consumption == Consumption(
        request_id="ap-1", fingerprint=grant.asked.fingerprint, expected_uses_left=1
    )


def test_without_a_grant_nothing_is_permitted() -> None:
    assert match_grant(wants(PAY), [], []) is None


def test_what_no_rule_asks_about_uses_nothing_up() -> None:
    assert match_grant(wants(READ, PERMIT), [grant_for(READ)], []) is None


@pytest.mark.parametrize(
    "other",
    [
        {"agent": "coder-2"},
        {"user": "grace"},
        {"user": None},
        {"session": "s-2"},
        {"session": None},
        {"cwd": "/workspace/sub"},
        {"path": "/workspace/b"},
        {"path": "/workspace/a/b"},
    ],
)
@pytest.mark.parametrize("scope", [ONCE, times(3)], ids=["once", "times"])
def test_another_call_is_another_call(other: dict[str, Any], scope: Any) -> None:
    """AP1, AP3, DE4: whoever sends it, and whatever of it differs."""
    assert why(read(**{"path": "/workspace/a", **other}), grant_for(READ, scope=scope)) is Mismatch.CALL


@pytest.mark.parametrize("scope", [ONCE, times(3)], ids=["once", "times"])
def test_nor_is_it_the_same_call_by_other_agents_than_were_shown(scope: Any) -> None:
    """AP1, DE3: who approves was judged against the whole chain, and the page showed it."""
    grant, now = grant_for(READ, scope=scope), wants(READ)
    for other in ({"chain": ("root", "coder-1")}, {"parent_agent": "root"}):
        requester = replace(now.asked.requester, **other)  # type: ignore[arg-type]
        by_others = replace(now, asked=replace(now.asked, requester=requester))
        assert mismatch(by_others, grant) is Mismatch.REQUESTER
        shown = replace(grant, asked=replace(grant.asked, requester=requester))
        assert mismatch(now, shown) is Mismatch.REQUESTER
        assert mismatch(by_others, shown) is None
    claimed = read(path="/workspace/a", parent_agent="root")
    assert why(claimed, grant) is Mismatch.REQUESTER


@pytest.mark.parametrize("other", [{"amount": 2}, {"amount": 1.5}, {"to": "dev"}, {"note": "x"}])
def test_another_value_anywhere_is_another_call(other: dict[str, Any]) -> None:
    made = call("bank/transfer", {"to": "ops", "amount": 1, **other}, provenance=USER)

    assert why(made, grant_for(PAY)) is Mismatch.CALL
    assert why(made, grant_for(made)) is None


def test_nor_is_another_tenants() -> None:
    bundle = world(ASKS)
    elsewhere = replace(caller_of(bundle), tenant="other")

    assert why(READ, grant_for(READ, scope=SESSION), caller=elsewhere) is Mismatch.TENANT


def test_a_call_by_another_tool_is_another_call() -> None:
    edit = call("fs/file_edit", path="/workspace/a", text="x", provenance=USER)

    assert why(edit, grant_for(READ)) is Mismatch.TOOL
    assert why(edit, grant_for(READ, scope=SESSION)) is Mismatch.TOOL


@pytest.mark.parametrize("scope", [ONCE, times(3), SESSION], ids=["once", "times", "session"])
def test_a_tool_that_was_reviewed_anew_voids_what_was_given(scope: Any) -> None:
    """AP4, MC4."""
    grant = grant_for(READ, scope=scope)
    now = wants(READ)
    changed = replace(
        now, asked=replace(now.asked, tool=replace(now.asked.tool, descriptor_digest="sha256:0"))
    )

    assert mismatch(changed, grant) is Mismatch.TOOL
    moved = replace(now, asked=replace(now.asked, tool=replace(now.asked.tool, server="local:other")))
    assert mismatch(moved, grant) is Mismatch.TOOL


@pytest.mark.parametrize("scope", [ONCE, times(3), SESSION], ids=["once", "times", "session"])
def test_a_yes_ends(scope: Any) -> None:
    grant = grant_for(READ, scope=scope)

    assert why(READ, grant, now_ms=ENDS - 1) is None
    assert why(READ, grant, now_ms=ENDS) is Mismatch.ENDED
    assert why(READ, replace(grant, voided_at_ms=NOW_MS)) is Mismatch.REVOKED


def test_a_yes_ends_earlier_once_its_rule_says_so() -> None:
    """AP4: by the policy of now."""
    shorter = PERMIT + rule("asks", STAFF + ' @ttl("1m")')

    assert why(READ, grant_for(READ), shorter, now_ms=NOW_MS + 59_999) is None
    assert why(READ, grant_for(READ), shorter, now_ms=NOW_MS + 60_000) is Mismatch.ENDED
    longer = PERMIT + rule("asks", STAFF + ' @ttl("1d")')
    assert why(READ, grant_for(READ), longer, now_ms=ENDS) is Mismatch.ENDED


@pytest.mark.parametrize("left", [0, -1, None])
def test_what_is_spent_is_spent(left: int | None) -> None:
    assert why(READ, replace(grant_for(READ), uses_left=left)) is Mismatch.CONSUMED


@pytest.mark.parametrize("scope", [ONCE, SESSION], ids=["once", "session"])
def test_a_rule_that_asks_now_and_was_not_shown_is_not_satisfied(scope: Any) -> None:
    """AP4."""
    grant = grant_for(READ, scope=scope)

    assert why(READ, grant, ASKS + rule("also", STAFF)) is Mismatch.RULES
    assert why(READ, grant, PERMIT + rule("renamed", STAFF)) is Mismatch.RULES
    assert why(READ, grant, PERMIT + rule("asks", STAFF, reason="For another reason.")) is Mismatch.RULES


def test_fewer_rules_than_were_shown_are_satisfied() -> None:
    grant = granted(asked(READ, ASKS + rule("also", STAFF)))

    assert why(READ, grant) is None


@pytest.mark.parametrize(
    "stricter",
    [STAFF + ' @quorum("2")', '@approvers("User::\\"ada\\"")', STAFF + ' @factor("passkey")'],
    ids=["more people", "other people", "a stronger factor"],
)
def test_a_rule_that_asks_for_more_now_is_not_satisfied(stricter: str) -> None:
    """AP4."""
    assert why(READ, grant_for(READ), PERMIT + rule("asks", stricter)) is Mismatch.APPROVERS


def test_a_rule_that_asks_for_other_people_who_said_yes_as_well_is_satisfied() -> None:
    request = asked(READ, PERMIT + rule("asks", STAFF + ' @quorum("2")'))

    assert why(READ, granted(request, LINUS, GRACE), PERMIT + rule("asks", FINANCE)) is None


@pytest.mark.parametrize("scope", [ONCE, times(3), SESSION], ids=["once", "times", "session"])
@pytest.mark.parametrize(
    "worse",
    [
        {"provenance": provenance({"/path": source("web")})},
        {"provenance": provenance(without=["/path"])},
        {"provenance": provenance({"/path": source("user", trust="untrusted")})},
        {"provenance": provenance({"/path": source("user", labels=[SECRET])})},
        {"provenance": provenance({"/path": source("user", labels=["customers"])})},
    ],
    ids=["web", "nothing said", "lowered", "secret", "labelled"],
)
def test_values_that_are_worse_than_was_shown(worse: dict[str, Any], scope: Any) -> None:
    grant = grant_for(READ, scope=scope)

    assert why(read("/workspace/a", **worse), grant) is Mismatch.PROVENANCE
    assert why(READ, grant_for(read("/workspace/a", **worse))) is None, "better is no harm"


def test_what_a_model_wrote_is_worth_less_once_its_session_has_read_something() -> None:
    composed = read("/workspace/a", provenance={"/path": source("model")})

    assert why(composed, grant_for(composed)) is None
    assert why(composed, grant_for(composed), exposed={"untrusted"}) is Mismatch.PROVENANCE


def test_more_authority_than_was_shown_is_not_permitted() -> None:
    grant = grant_for(READ)
    now = wants(READ)

    assert (
        mismatch(replace(now, asked=replace(now.asked, authority=Authority.A1)), grant) is Mismatch.AUTHORITY
    )


def test_a_no_beats_every_yes() -> None:
    """AP2: the narrower one in the direction of refusal, in whatever order they were given."""
    grants = [grant_for(READ), grant_for(READ, scope=SESSION), grant_for(READ, scope=times(5))]
    denied = match_grant(wants(READ), grants, [denial_for(READ, reason="it is not yours")])

    assert isinstance(denied, Denied)
    refusal = denied.refusal
    assert (refusal.stage, refusal.code) == (Stage.APPROVAL, Code.APPROVAL_DENIED)
    assert refusal.message == "a person denied this call in this session: it is not yours"
    assert refusal.next == (Next.CHANGE_ARGUMENTS, Next.STOP)
    assert not refusal.retry_unchanged


def test_a_no_stands_though_no_rule_asks_any_more_and_though_the_operation_was_allowed_before() -> None:
    """AP2: on every path to execution."""
    assert isinstance(match_grant(wants(READ, PERMIT), [], [denial_for(READ)]), Denied)
    held = wants(READ, held="ap-1")
    assert isinstance(match_grant(held, [grant_for(READ)], [denial_for(READ)]), Denied)


@pytest.mark.parametrize(
    "other",
    [
        {"path": "/workspace/b"},
        {"session": "s-2"},
        {"agent": "coder-2"},
        {"user": "grace"},
        {"session": None},
    ],
)
def test_a_no_is_to_that_call_in_that_session(other: dict[str, Any]) -> None:
    made = read(**{"path": "/workspace/a", **other})

    assert match_grant(wants(made), [], [denial_for(READ)]) is None
    assert isinstance(match_grant(wants(made), [], [denial_for(made)]), Denied)


def test_of_another_tenant_even_a_no_is_none() -> None:
    assert match_grant(wants(READ), [], [replace(denial_for(READ), tenant="other")]) is None


def test_the_first_no_is_told() -> None:
    first, second = denial_for(READ, reason="one"), denial_for(READ, reason="two", at_ms=NOW_MS + 1)
    for order in ([first, second], [second, first]):
        found = match_grant(wants(READ), [], order)
        assert isinstance(found, Denied)
        assert found.denial is first


def test_of_several_the_narrowest_is_used_then_the_one_that_ends_first() -> None:
    once = grant_for(READ, request_id="ap-4")
    several = grant_for(READ, request_id="ap-3", scope=times(2))
    session = grant_for(READ, request_id="ap-2", scope=SESSION)
    sooner = replace(session, request_id="ap-5", expires_at_ms=session.expires_at_ms - 1)
    twin = replace(session, request_id="ap-1")

    assert chosen(wants(READ), session, several, once) == "ap-4"
    assert chosen(wants(READ), session, several) == "ap-3"
    assert chosen(wants(READ), session, sooner) == "ap-5"
    assert chosen(wants(READ), session, twin) == "ap-1"
    assert chosen(wants(READ), session, replace(once, uses_left=0)) == "ap-2"


def test_an_operation_does_not_use_a_second_time_what_it_used() -> None:
    """Its repeat and its recovery ask for no approval again, though the yes is spent and over by then."""
    spent = replace(grant_for(PAY), uses_left=0)
    match = match_grant(wants(PAY, held="ap-1", now_ms=ENDS + 1), [spent], [])

    assert isinstance(match, Matched)
    assert match.consumption is not None
    assert not match.consumption.takes, "it is compared with what was revoked and denied since"
    repeat = match_grant(replace(wants(PAY, held="ap-1"), repeats=True), [spent], [])
    assert isinstance(repeat, Matched)
    assert repeat.consumption is None, "what it gave is in force"
    assert why(PAY, spent) is Mismatch.CONSUMED, "another operation gets nothing of it"
    assert why(PAY, spent, held="ap-2") is Mismatch.CONSUMED


def test_what_an_operation_holds_is_judged_anew_for_all_that_may_have_changed() -> None:
    spent = replace(grant_for(READ), uses_left=0)

    assert why(READ, replace(spent, voided_at_ms=NOW_MS), held="ap-1") is Mismatch.REVOKED
    assert why(READ, spent, ASKS + rule("also", STAFF), held="ap-1") is Mismatch.RULES
    assert why(read("/workspace/b"), spent, held="ap-1") is Mismatch.CALL


def test_what_an_operation_holds_comes_before_what_would_cost_another_use() -> None:
    held = replace(grant_for(READ, request_id="ap-9", scope=SESSION), expires_at_ms=ENDS + 5)
    once = grant_for(READ, request_id="ap-1")

    assert chosen(wants(READ, held="ap-9"), held, once) == "ap-9"

"""Nobody floods approvers: how many requests wait, and how often one may be asked again (AV2)."""

from dataclasses import replace

import pytest

from authz.core.approval_limits import (
    AskCounts,
    AskLimits,
    came_to_nothing,
    check_asking,
    is_refused_since,
    subject_key,
)
from authz.model.approval import ApprovalState
from authz.model.decision import Code, Next, Stage
from tests.support.approvals import PENDING_MS, USER, asked
from tests.support.world import NOW_MS, call

LIMITS = AskLimits(
    pending_per_subject=2, pending_per_tenant=5, refused_per_resource=3, vain_per_subject=7, window_ms=60_000
)
QUIET = AskCounts(pending_of_subject=0, pending_of_tenant=0, refused_on_resource=0, vain_of_subject=0)
REQUEST = asked(call("fs/file_read", path="/workspace/a", provenance=USER))


@pytest.mark.parametrize(
    ("counts", "code"),
    [
        (QUIET, None),
        (replace(QUIET, pending_of_subject=1, pending_of_tenant=4, refused_on_resource=2), None),
        (replace(QUIET, vain_of_subject=6), None),
        (replace(QUIET, vain_of_subject=7), Code.APPROVAL_ASKED_TOO_OFTEN),
        (replace(QUIET, vain_of_subject=8, pending_of_tenant=5), Code.APPROVAL_ASKED_TOO_OFTEN),
        (replace(QUIET, pending_of_subject=2), Code.APPROVAL_TOO_MANY_PENDING),
        (replace(QUIET, pending_of_subject=3), Code.APPROVAL_TOO_MANY_PENDING),
        (replace(QUIET, pending_of_tenant=5), Code.APPROVAL_TOO_MANY_PENDING),
        (replace(QUIET, refused_on_resource=3), Code.APPROVAL_ASKED_TOO_OFTEN),
        (replace(QUIET, refused_on_resource=3, pending_of_subject=2), Code.APPROVAL_ASKED_TOO_OFTEN),
    ],
)
def test_a_request_is_made_only_within_the_limits(counts: AskCounts, code: Code | None) -> None:
    refusal = check_asking(counts, NOW_MS, LIMITS)

    assert (refusal.code if refusal is not None else None) is code
    if refusal is not None:
        assert refusal.stage is Stage.APPROVAL
        assert Next.WAIT in refusal.next
        assert refusal.retry_unchanged


def test_limits_of_nothing_refuse_everything() -> None:
    assert check_asking(QUIET, NOW_MS, replace(LIMITS, pending_per_subject=0)) is not None
    assert check_asking(QUIET, NOW_MS, replace(LIMITS, refused_per_resource=0)) is not None
    assert check_asking(QUIET, NOW_MS, replace(LIMITS, vain_per_subject=0)) is not None


def test_who_asked_too_often_is_told_when_to_come_back() -> None:
    counts = replace(QUIET, refused_on_resource=3, oldest_refused_at_ms=NOW_MS - 10_000)
    refusal = check_asking(counts, NOW_MS, LIMITS)

    assert refusal is not None
    assert refusal.retry_after_ms == 50_000
    late = check_asking(counts, NOW_MS + 100_000, LIMITS)
    assert late is not None
    assert late.retry_after_ms == 0


def test_who_asks_for_ever_is_told_when_to_come_back() -> None:
    refusal = check_asking(
        replace(QUIET, vain_of_subject=7, oldest_vain_at_ms=NOW_MS - 10_000), NOW_MS, LIMITS
    )

    assert refusal is not None
    assert refusal.retry_after_ms == 50_000
    assert Next.CHANGE_ARGUMENTS not in refusal.next, "other arguments would not help"


def test_what_came_to_no_yes_counts_by_whoevers_act() -> None:
    ends = NOW_MS + PENDING_MS

    assert not came_to_nothing(REQUEST, NOW_MS - 1, ends - 1)
    assert came_to_nothing(REQUEST, NOW_MS - 1, ends)
    for state in ApprovalState:
        closed = replace(REQUEST, state=state, closed_at_ms=NOW_MS + 10)
        vain = state in (ApprovalState.DENIED, ApprovalState.EXPIRED, ApprovalState.CANCELLED)
        assert came_to_nothing(closed, NOW_MS - 1, NOW_MS + 20) is vain
        assert not came_to_nothing(closed, NOW_MS, NOW_MS + 20), "it was made before"


def test_what_was_denied_or_expired_since_counts() -> None:
    ends = NOW_MS + PENDING_MS
    denied = replace(REQUEST, state=ApprovalState.DENIED, closed_at_ms=NOW_MS + 10)

    assert is_refused_since(denied, NOW_MS + 9, NOW_MS + 20)
    assert not is_refused_since(denied, NOW_MS + 10, NOW_MS + 20)
    assert not is_refused_since(REQUEST, NOW_MS, ends - 1)
    assert is_refused_since(REQUEST, NOW_MS, ends), "though nobody has written it down"
    swept = replace(REQUEST, state=ApprovalState.EXPIRED, closed_at_ms=ends)
    assert is_refused_since(swept, ends - 1, ends)
    assert not is_refused_since(swept, ends, ends + 1)
    for state in (ApprovalState.APPROVED, ApprovalState.CANCELLED):
        assert not is_refused_since(replace(denied, state=state), NOW_MS, NOW_MS + 20)


def test_another_session_is_the_same_subject() -> None:
    other = asked(call("fs/file_read", path="/workspace/b", provenance=USER, session="s-2"))
    agent = asked(call("fs/file_read", path="/workspace/a", provenance=USER, agent="coder-2"))

    assert subject_key(other.asked) == subject_key(REQUEST.asked)
    assert subject_key(agent.asked) != subject_key(REQUEST.asked)

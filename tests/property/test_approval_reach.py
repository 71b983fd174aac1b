"""AP1, AP3, AP8 and DE4 for one yes: whom it holds for, what it reaches, how many people give it."""

from dataclasses import replace
from functools import cache
from itertools import permutations
from pathlib import PurePosixPath
from typing import Final

from hypothesis import given, settings
from hypothesis import strategies as st

from authz.core.approval_match import covers, mismatch
from authz.core.approval_quorum import is_met
from authz.model.approval import Reach
from authz.model.approval_request import (
    ApprovalRequest,
    Requester,
    Vote,
    Voter,
)
from authz.model.call import Call
from authz.model.decision import Access
from authz.model.resource import Authority, Verb
from tests.support.approvals import (
    GRACE,
    LINUS,
    PERMIT,
    SESSION,
    STAFF,
    USER,
    asked,
    ballot,
    granted,
    person,
    rule,
    wants,
)
from tests.support.world import NOW_MS, call


def read(path: str) -> Call:
    return call("fs/file_read", path=path, provenance=USER)


SHOWN_NOW: Final = wants(read("/workspace/d"))
NEEDS_TWO: Final = asked(read("/workspace/d"), PERMIT + rule("asks", STAFF + ' @quorum("2")'))


def requesters() -> st.SearchStrategy[Requester]:
    few = st.sampled_from
    return st.builds(
        Requester,
        tenant=few(["acme", "other"]),
        agent=few(["coder-1", "coder-2"]),
        on_behalf_of=few([None, "ada", "grace"]),
        session=few([None, "s-1", "s-2"]),
        chain=few([("coder-1",), ("root", "coder-1"), ("coder-1", "coder-1")]),
        parent_agent=few([None, "coder-1"]),
        delegated=st.booleans(),
        key_id=few(["key-1", "key-2"]),
    )


@given(requesters(), requesters())
def test_a_sessions_yes_holds_for_whoever_asked_and_nobody_else(first: Requester, other: Requester) -> None:
    """AP3, DE4: who replays acts as itself."""
    now, grant = SHOWN_NOW, granted(asked(read("/workspace/d")), GRACE, scope=SESSION)
    mine = replace(grant, asked=replace(grant.asked, requester=first))
    theirs = replace(now, asked=replace(now.asked, requester=other))

    permitted = mismatch(theirs, mine) is None
    assert permitted == (first == other and first.session is not None)


NAMES: Final = st.lists(st.sampled_from(["a", "aa", "b", "a.b", "A"]), max_size=4)


@settings(deadline=None)
@given(NAMES, NAMES)
def test_what_a_sessions_yes_reaches_is_by_component(outer: list[str], inner: list[str]) -> None:
    """AP1, AP8, held against another implementation."""
    top, path = PurePosixPath("/", *outer), PurePosixPath("/", *inner)
    reach = Reach(verb=Verb.READ, uri=f"file://{top}", authority=Authority.A0, tree=False, confirmed=False)
    (access,) = _accesses(str(path))

    assert covers(reach, access) == path.is_relative_to(top)


@cache
def _accesses(path: str) -> tuple[Access, ...]:
    return wants(read(path)).accesses


VOTERS: Final = (GRACE, LINUS, person("ken", "staff"), person("eve", "legal"))


@given(st.lists(st.sampled_from(VOTERS), max_size=4, unique_by=lambda voter: voter.person))
def test_a_quorum_does_not_depend_on_the_order_and_more_people_never_hurt(voters: list[Voter]) -> None:
    request = NEEDS_TWO
    rules = request.asked.rules
    votes = [_vote(request, voter) for voter in voters]
    expected = sum(1 for voter in voters if 'Group::"staff"' in voter.entities) >= 2

    assert {is_met(rules, order) for order in permutations(votes)} == {expected}
    if expected:
        assert is_met(rules, [*votes, *(_vote(request, voter) for voter in VOTERS)])


def _vote(request: ApprovalRequest, voter: Voter) -> Vote:
    found = ballot(request)
    return Vote(
        request_id=request.id,
        person=voter.person,
        entities=voter.entities,
        factor=found.factor,
        shown_digest=found.shown_digest,
        scope=found.scope,
        at_ms=NOW_MS,
    )

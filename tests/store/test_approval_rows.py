"""Requests, votes, grants and denials are read back from their rows as they were, whatever is in them."""

import functools
import json
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any, Final, get_args, get_origin, get_type_hints

import pytest
from hypothesis import given
from hypothesis import strategies as st

from authz.errors import StoreUnavailable
from authz.model.approval import ApprovalState
from authz.model.approval_request import ApprovalRequest, Denial, Grant, Vote
from authz.store import approval_rows
from authz.store.approval_tables import APPROVAL_DENIALS, APPROVAL_GRANTS, APPROVAL_VOTES, APPROVALS
from tests.store.approval_world import approved, denied, read_request

TEXT: Final = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
NUMBER: Final = st.integers(0, 2**61)


def anything(kind: Any) -> st.SearchStrategy[Any]:
    """Values of a type of the model, by what its fields are: one that is added later is tried as well."""
    arguments = get_args(kind)
    origin = get_origin(kind)
    if origin is tuple:
        return st.lists(anything(arguments[0]), max_size=2).map(tuple)
    if origin is frozenset:
        return st.frozensets(anything(arguments[0]), max_size=2)
    if origin is Mapping:
        return st.dictionaries(anything(arguments[0]), anything(arguments[1]), max_size=2)
    if arguments:
        return st.one_of(*(anything(each) for each in arguments))
    if is_dataclass(kind):
        hints = get_type_hints(kind)
        made: Any = kind
        return st.builds(made, **{field.name: anything(hints[field.name]) for field in fields(kind)})
    if issubclass(kind, Enum):
        return st.sampled_from(list(kind))
    known: dict[Any, st.SearchStrategy[Any]] = {str: TEXT, int: NUMBER, bool: st.booleans()}
    return st.none() if kind is type(None) else known[kind]


REQUESTS: Final = anything(ApprovalRequest)
VOTES: Final = anything(Vote)
GRANTS: Final = anything(Grant)
DENIALS: Final = anything(Denial)


def columns(table: Any, row: tuple[Any, ...]) -> dict[str, Any]:
    return dict(zip(table.columns.keys(), row, strict=True))


def read_request_row(found: dict[str, Any]) -> ApprovalRequest:
    names = ("details", "state", "version", "closed_at_ms", "closed_by")
    return approval_rows.read_request([found[name] for name in names])


def read_grant_row(found: dict[str, Any]) -> Grant:
    names = ("details", "uses_left", "voided_at_ms", "voided_by")
    return approval_rows.read_grant([found[name] for name in names])


@given(REQUESTS)
def test_a_request(request: ApprovalRequest) -> None:
    row = columns(APPROVALS, approval_rows.request_row(request, "s", 7))
    assert read_request_row(row) == request
    assert (row["subject_key"], row["change"], row["id"]) == ("s", 7, request.id)


@given(VOTES)
def test_a_vote(vote: Vote) -> None:
    row = columns(APPROVAL_VOTES, approval_rows.vote_row("acme", vote, 3))
    assert approval_rows.read_vote(row["details"]) == vote
    assert (row["tenant"], row["request_id"], row["version"]) == ("acme", vote.request_id, 3)


@given(GRANTS)
def test_a_grant(grant: Grant) -> None:
    row = columns(APPROVAL_GRANTS, approval_rows.grant_row(grant))
    assert read_grant_row(row) == grant
    assert (row["server"], row["tool"]) == (grant.asked.tool.server, grant.asked.tool.name)


@given(DENIALS)
def test_a_denial(denial: Denial) -> None:
    row = columns(APPROVAL_DENIALS, approval_rows.denial_row(denial))
    assert approval_rows.read_denial(row["details"]) == denial
    assert row["session"] == denial.session


def test_what_changed_counts_whatever_the_details_say() -> None:
    row = columns(APPROVALS, approval_rows.request_row(read_request(), "s", 7))
    found = read_request_row({**row, "state": "denied", "version": 4, "closed_at_ms": 9, "closed_by": "eve"})
    told = (found.state, found.version, found.closed_at_ms, found.closed_by)
    assert told == (ApprovalState.DENIED, 4, 9, "eve")
    grant = approved(read_request()).grant
    assert grant is not None
    spent = read_grant_row({**columns(APPROVAL_GRANTS, approval_rows.grant_row(grant)), "uses_left": 0})
    assert spent.uses_left == 0


@pytest.mark.parametrize(
    "place",
    [
        "request_id",
        "scope",
        "votes",
        "expires_at_ms",
        "asked.fingerprint",
        "asked.rules",
        "asked.provenance",
        "asked.authority",
        "asked.tool.descriptor_digest",
        "asked.requester.session",
        "asked.requester.chain",
    ],
)
def test_a_row_that_lacks_something_is_refused(place: str) -> None:
    grant = approved(read_request()).grant
    assert grant is not None
    row = columns(APPROVAL_GRANTS, approval_rows.grant_row(grant))
    details = json.loads(row["details"])
    *parents, name = place.split(".")
    del functools.reduce(dict.__getitem__, parents, details)[name]
    with pytest.raises(StoreUnavailable):
        read_grant_row({**row, "details": json.dumps(details)})


@pytest.mark.parametrize(
    "change",
    [
        {"details": "{"},
        {"details": "null"},
        {"details": "[]"},
        {"details": None},
        {"details": 7},
        {"state": "agreed"},
        {"version": "1"},
        {"closed_at_ms": None},
    ],
)
def test_a_row_of_somebody_else_is_refused(change: dict[str, Any]) -> None:
    row = columns(APPROVALS, approval_rows.request_row(read_request(), "s", 7))
    with pytest.raises(StoreUnavailable):
        read_request_row({**row, **change})


@pytest.mark.parametrize(("member", "value"), [("uses", "1"), ("uses", True), ("kind", "forever")])
def test_a_scope_of_another_kind_is_refused(member: str, value: object) -> None:
    grant = approved(read_request()).grant
    assert grant is not None
    row = columns(APPROVAL_GRANTS, approval_rows.grant_row(grant))
    details = json.loads(row["details"])
    details["scope"][member] = value
    with pytest.raises(StoreUnavailable):
        read_grant_row({**row, "details": json.dumps(details)})


def test_a_denial_without_words_is_kept() -> None:
    move = denied(read_request(), reason="")
    assert move.denial is not None
    assert approval_rows.read_denial(approval_rows.denial_row(move.denial)[-1]) == move.denial

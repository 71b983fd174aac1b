"""What no store could take of a unit's approvals, refused before it can fail a batch that others share.

And what would not be an approval: a move that no transition leads to, a grant without the yes that it rests
on, something of another tenant or request.
"""

from collections.abc import Sequence
from typing import Final

from authz.core.approval_moves import TRANSITIONS, By, Move
from authz.model.approval import ApprovalState, ScopeKind
from authz.model.approval_request import ApprovalRequest, Consumption, Denial, Grant, Vote
from authz.model.approval_writes import GrantVoid, NewApproval, VaultWrite
from authz.ports import CommitUnit
from authz.store.approval_rows import (
    denial_row,
    grant_row,
    read_denial,
    read_grant,
    read_request,
    read_vote,
    request_row,
    vote_row,
)
from authz.store.row_check import check_numbers, check_texts
from authz.store.write_connection import SqlValue

MAX_MOVES: Final = 256
MAX_RESOURCES: Final = 4096
MAX_DETAILS_CHARACTERS: Final = 4 * 1024 * 1024
MAX_KEPT: Final = 16
MAX_KEPT_BYTES: Final = 4 * 1024 * 1024


def check_approvals(unit: CommitUnit) -> None:
    """Raise `ValueError` or `TypeError` for a unit that no store could take."""
    tenant = unit.event.tenant
    if unit.asks is not None:
        _check_ask(unit.asks, tenant)
    _check_moves(unit.moves, tenant)
    if unit.consumes is not None:
        _check_consumption(unit.consumes)
        if unit.operation is not None and unit.operation.fingerprint != unit.consumes.fingerprint:
            raise ValueError("a use by another call than the operation's")
    if unit.voids is not None:
        _check_void(unit.voids, tenant)
    _check_kept(unit.kept, tenant)


def _check_ask(asks: NewApproval, tenant: str) -> None:
    request = asks.request
    if request.state is not ApprovalState.PENDING or request.version != 0 or request.closed_at_ms:
        raise ValueError("a new request waits, and nothing has become of it")
    check_numbers(asks.pending_per_subject, asks.pending_per_tenant)
    check_texts(asks.subject_key, *request.resources)
    if len(request.resources) > MAX_RESOURCES:
        raise ValueError("more resources than one request may be about")
    _check_request(request, tenant)


def _check_request(request: ApprovalRequest, tenant: str) -> None:
    if request.asked.requester.tenant != tenant or not request.id:
        raise ValueError("a request of another tenant, or without an id")
    check_numbers(request.version, request.created_at_ms, request.expires_at_ms, request.closed_at_ms)
    row = request_row(request, "", 0)
    _check_row(row)
    told = (row[-1], request.state.value, request.version, request.closed_at_ms, request.closed_by)
    if read_request(told) != request:
        raise ValueError("a request would be read as another")


def _check_moves(moves: Sequence[Move], tenant: str) -> None:
    if len(moves) > MAX_MOVES:
        raise ValueError("more requests than one unit may move")
    if len({move.after.id for move in moves}) < len(moves):
        # Each would be compared as if the other were not there.
        raise ValueError("two moves of one request")
    for move in moves:
        _check_move(move, tenant)


def _check_move(move: Move, tenant: str) -> None:
    after, state = move.after, move.after.state
    _check_request(after, tenant)
    is_known = (move.source, state, move.by) in TRANSITIONS
    if not is_known or move.source is not ApprovalState.PENDING or after.version != move.expected_version + 1:
        raise ValueError("nothing leads there")
    is_yes = move.by is By.APPROVER and state is not ApprovalState.DENIED
    if (move.vote is not None) is not is_yes:
        raise ValueError("a yes comes with its vote, and nothing else does")
    if (move.grant is not None) is not (state is ApprovalState.APPROVED):
        raise ValueError("what is approved comes with its grant, and nothing else does")
    if (move.denial is not None) is not (state is ApprovalState.DENIED):
        raise ValueError("what is denied comes with its denial, and nothing else does")
    if move.vote is not None:
        _check_vote(move.vote, after)
    if move.grant is not None:
        _check_grant(move.grant, after, move.vote)
    if move.denial is not None:
        _check_denial(move.denial, after)


def _check_vote(vote: Vote, request: ApprovalRequest) -> None:
    if (vote.request_id, vote.shown_digest) != (request.id, request.shown_digest):
        raise ValueError("a vote on something else")
    check_numbers(vote.at_ms)
    row = vote_row(request.asked.requester.tenant, vote, request.version)
    _check_row(row)
    if read_vote(row[-1]) != vote:
        raise ValueError("a vote would be read as another")


def _check_grant(grant: Grant, request: ApprovalRequest, vote: Vote | None) -> None:
    if (grant.request_id, grant.asked) != (request.id, request.asked) or vote not in grant.votes:
        raise ValueError("a grant of something else, or without the last yes to it")
    is_counted = grant.scope.kind is not ScopeKind.SESSION
    if grant.voided_at_ms or (grant.uses_left is not None) is not is_counted:
        raise ValueError("a new grant is not revoked, and has uses where they are counted")
    if grant.uses_left is not None and grant.uses_left < 1:
        raise ValueError("a new grant has a use")
    check_numbers(grant.granted_at_ms, grant.expires_at_ms, grant.uses_left or 0)
    row = grant_row(grant)
    _check_row(row)
    if read_grant((row[-1], grant.uses_left, grant.voided_at_ms, grant.voided_by)) != grant:
        raise ValueError("a grant would be read as another")


def _check_denial(denial: Denial, request: ApprovalRequest) -> None:
    requester = request.asked.requester
    denied = (denial.request_id, denial.tenant, denial.session, denial.fingerprint)
    if denied != (request.id, requester.tenant, requester.session, request.asked.fingerprint):
        raise ValueError("a denial of something else")
    check_numbers(denial.at_ms)
    row = denial_row(denial)
    _check_row(row)
    if read_denial(row[-1]) != denial:
        raise ValueError("a denial would be read as another")


def _check_consumption(consumption: Consumption) -> None:
    check_texts(consumption.request_id, consumption.fingerprint)
    if not consumption.fingerprint:
        raise ValueError("a use by no call")
    if consumption.expected_uses_left is not None:
        check_numbers(consumption.expected_uses_left)


def _check_void(void: GrantVoid, tenant: str) -> None:
    if void.tenant != tenant:
        raise ValueError("a grant of another tenant")
    check_texts(void.request_id, void.voided_by)
    check_numbers(void.voided_at_ms)
    if not void.voided_at_ms:
        raise ValueError("a grant that is revoked at no time is not revoked")


def _check_kept(kept: Sequence[VaultWrite], tenant: str) -> None:
    if len(kept) > MAX_KEPT:
        raise ValueError("more than one unit may keep")
    for write in kept:
        if write.tenant != tenant or len(write.content) > MAX_KEPT_BYTES:
            raise ValueError("something of another tenant, or too large to keep")
        if not isinstance(write.content, bytes):
            raise TypeError("bytes are kept, and nothing else")
        check_texts(write.ref)
        check_numbers(write.until_ms)


def _check_row(row: Sequence[SqlValue]) -> None:
    *columns, details = row
    check_texts(*(value for value in columns if isinstance(value, str)))
    if not isinstance(details, str) or len(details) > MAX_DETAILS_CHARACTERS:
        raise ValueError("larger than one may be")

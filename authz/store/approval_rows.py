"""Requests, votes, grants and denials as rows of the store, and back.

A row holds the whole value as JSON in `details`, and repeats of it in columns what is searched for. What
changes after it was first written stands in columns alone: those count, whatever `details` says.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final, TypeVar

from pydantic import TypeAdapter

from authz.errors import StoreUnavailable
from authz.model.approval import ApprovalState
from authz.model.approval_request import ApprovalRequest, Denial, Grant, Vote
from authz.store.write_connection import SqlValue

_REQUEST: Final = TypeAdapter(ApprovalRequest)
_VOTE: Final = TypeAdapter(Vote)
_GRANT: Final = TypeAdapter(Grant)
_DENIAL: Final = TypeAdapter(Denial)
_T = TypeVar("_T")


def request_row(request: ApprovalRequest, subject_key: str, change: int) -> tuple[SqlValue, ...]:
    """The columns of `approvals`, in table order. Raises `ValueError` for what has no JSON."""
    asked = request.asked
    requester = asked.requester
    return (
        *(requester.tenant, request.id, request.dedupe_key, subject_key, asked.fingerprint),
        *(requester.agent, requester.on_behalf_of or "", requester.session or "", tool_name(request)),
        *(requester.key_id, request.ids.trace or "", request.state.value, request.version),
        *(request.created_at_ms, request.expires_at_ms, request.closed_at_ms, request.closed_by),
        *(change, _write(_REQUEST, request)),
    )


def tool_name(request: ApprovalRequest) -> str:
    """By what requests are searched: `server identity/name`."""
    return f"{request.asked.tool.server}/{request.asked.tool.name}"


def read_request(row: Sequence[Any]) -> ApprovalRequest:
    """The request of (details, state, version, closed_at_ms, closed_by).

    Raises `StoreUnavailable` for a row that this program did not write, as all readers here do: to take it
    for absent, or to leave a part of it out, would permit more than was permitted.
    """
    details, state, version, closed_at_ms, closed_by = row
    request = _read(_REQUEST, details)
    try:
        known = ApprovalState(state)
    except ValueError as fault:
        raise StoreUnavailable(f"an approval is in the unknown state `{state}`") from fault
    return replace(
        request,
        state=known,
        version=_integer(version),
        closed_at_ms=_integer(closed_at_ms),
        closed_by=str(closed_by),
    )


def vote_row(tenant: str, vote: Vote, version: int) -> tuple[SqlValue, ...]:
    """The columns of `approval_votes`, in table order. `version` is the request's with this vote."""
    return (tenant, vote.request_id, version, vote.person, vote.at_ms, _write(_VOTE, vote))


def read_vote(details: object) -> Vote:
    """The vote of a row's `details`."""
    return _read(_VOTE, details)


def grant_row(grant: Grant) -> tuple[SqlValue, ...]:
    """The columns of `approval_grants`, in table order."""
    asked = grant.asked
    return (
        *(asked.requester.tenant, grant.request_id, asked.fingerprint, asked.requester.session or ""),
        *(asked.tool.server, asked.tool.name, grant.scope.kind.value, grant.uses_left),
        *(grant.expires_at_ms, grant.voided_at_ms, grant.voided_by, _write(_GRANT, grant)),
    )


def read_grant(row: Sequence[Any]) -> Grant:
    """The grant of (details, uses_left, voided_at_ms, voided_by)."""
    details, uses_left, voided_at_ms, voided_by = row
    return replace(
        _read(_GRANT, details),
        uses_left=None if uses_left is None else _integer(uses_left),
        voided_at_ms=_integer(voided_at_ms),
        voided_by=str(voided_by),
    )


def denial_row(denial: Denial) -> tuple[SqlValue, ...]:
    """The columns of `approval_denials`, in table order."""
    return (
        *(denial.tenant, denial.request_id, denial.fingerprint, denial.session),
        *(denial.at_ms, _write(_DENIAL, denial)),
    )


def read_denial(details: object) -> Denial:
    """The denial of a row's `details`."""
    return _read(_DENIAL, details)


def _write(adapter: TypeAdapter[_T], value: _T) -> str:
    return adapter.dump_json(value, warnings="error").decode()


def _read(adapter: TypeAdapter[_T], details: object) -> _T:
    try:
        return adapter.validate_json(details, strict=True)  # type: ignore[arg-type] # judged by the call
    except (ValueError, TypeError) as fault:
        raise StoreUnavailable("an approval on record cannot be read") from fault


def _integer(value: object) -> int:
    if type(value) is not int:
        raise StoreUnavailable("a number of an approval on record is none")
    return value

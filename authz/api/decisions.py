"""`GET /decisions`: the decision log of the caller's tenant, searched."""

from datetime import UTC, datetime
from typing import Annotated, Any, Final, Literal

import orjson
from fastapi import APIRouter, Depends, Query, Request, Response
from pydantic import BaseModel

from authz.api.problems import problem_responses
from authz.api.request import caller_with, refuse_unknown_parameters
from authz.api.wire import dump
from authz.errors import MalformedInput, NotFound
from authz.model.caller import Caller
from authz.model.record import EventQuery, EventType, StoredEvent

router = APIRouter(tags=["decisions"])

Auditor = Annotated[Caller, Depends(caller_with("audit"))]
_MAX_INTEGER: Final = 2**63 - 1
"""What the store's integers hold."""


class RecordOut(BaseModel):
    """One record: where it stands in the log, and what it says. Secrets in it are keyed digests."""

    writer: str
    sequence: int
    hash: str
    record: dict[str, Any]


class DecisionsOut(BaseModel):
    """Records, newest first."""

    records: list[RecordOut]
    next: str | None
    """Send as `before` to get the next page; null at the end."""


@router.get(
    "/decisions",
    response_model=DecisionsOut,
    summary="Search the decision log",
    description="Role `audit`. All filters must match; times are RFC 3339 with an offset.",
    responses=problem_responses(400, 401, 403, 503),
)
async def search(
    request: Request,
    caller: Auditor,
    trace_id: Annotated[str, Query(max_length=256)] = "",
    agent: Annotated[str, Query(max_length=256)] = "",
    on_behalf_of: Annotated[str, Query(max_length=256)] = "",
    tool: Annotated[str, Query(max_length=512, description="`server/name`")] = "",
    rule: Annotated[str, Query(max_length=128)] = "",
    effect: Literal["", "allow", "require_approval", "deny"] = "",
    type: Annotated[str, Query(max_length=64)] = "",  # noqa: A002 - the name on the wire
    since: Annotated[str, Query(max_length=40)] = "",
    until: Annotated[str, Query(max_length=40)] = "",
    before: Annotated[str, Query(max_length=128)] = "",
    limit: Annotated[int, Query(ge=1, le=500)] = 50,
) -> Response:
    """Search."""
    refuse_unknown_parameters(request)
    if type and type not in list(EventType):
        raise MalformedInput("`type` is no type of record", code="input.invalid", pointer="/type")
    records = await request.app.state.services.ledger.search(
        EventQuery(
            tenant=caller.tenant,
            trace_id=trace_id,
            agent=agent,
            user=on_behalf_of,
            tool=tool,
            rule=rule,
            effect=effect,
            type=type,
            since_ms=_moment("since", since),
            until_ms=_moment("until", until),
            before=_position(before),
            limit=limit,
        )
    )
    last = records[-1] if len(records) == limit else None
    position = f"{last.recorded_at_ms}.{last.writer}.{last.sequence}" if last else None
    return Response(
        dump({"records": [_record(record) for record in records], "next": position}),
        media_type="application/json",
    )


@router.get(
    "/decisions/{decision_id}",
    response_model=RecordOut,
    summary="One decision's record",
    description="Role `audit`. A decision of another tenant is as if absent.",
    responses=problem_responses(401, 403, 404, 503),
)
async def show(request: Request, caller: Auditor, decision_id: str) -> Response:
    """Show one."""
    found = await request.app.state.services.ledger.find_event(caller.tenant, decision_id)
    if found is None:
        raise NotFound("there is no such decision", code="decision.unknown")
    return Response(dump(_record(found)), media_type="application/json")


def _record(stored: StoredEvent) -> dict[str, Any]:
    return {
        "writer": stored.writer,
        "sequence": stored.sequence,
        "hash": stored.hash,
        "record": orjson.Fragment(stored.text),
    }


def _moment(name: str, text: str) -> int | None:
    if not text:
        return None
    try:
        moment = datetime.fromisoformat(text)
        if moment.tzinfo is not None:
            return int(moment.astimezone(UTC).timestamp() * 1000)
    except (ValueError, OverflowError):
        # The offset of a time at either end of the calendar can lead out of it.
        pass
    raise MalformedInput(
        f"`{name}` must be an RFC 3339 time with an offset", code="input.invalid", pointer=f"/{name}"
    )


def _position(text: str) -> tuple[int, str, int] | None:
    if not text:
        return None
    parts = text.split(".")
    if len(parts) == 3 and _is_number(parts[0]) and _is_number(parts[2]):
        return int(parts[0]), parts[1], int(parts[2])
    raise MalformedInput("`before` is no position of this log", code="input.invalid", pointer="/before")


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) <= 19 and int(text) <= _MAX_INTEGER

"""A trace as a timeline: everything that the log has of it, oldest first."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Final

from fastapi import APIRouter, Path, Request, Response

from authz.errors import NotFound
from authz.model.record import EventQuery
from authz.ui.access import member
from authz.ui.records import RecordView
from authz.ui.render import render
from authz.ui.services import services_of

router = APIRouter(prefix="/ui/traces")

MOST_SHOWN: Final = 500
_WIDTH: Final = 1000
"""Of a lane, in units of its picture."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """One record of the trace, and where it stands in time."""

    record: RecordView
    after_ms: int
    """Since the first record of the trace."""
    x: int
    """The same, in units of the lane."""


@router.get("/{trace_id:path}")
async def trace(request: Request, trace_id: Annotated[str, Path(max_length=512)]) -> Response:
    """The timeline."""
    person = await member(request, "audit")
    query = EventQuery(tenant=person.tenant, trace_id=trace_id, limit=MOST_SHOWN + 1)
    found = await services_of(request).ledger.search(query)
    if not found:
        raise NotFound("there is no such trace", code="trace.unknown")
    moments = moments_of([RecordView.of(one) for one in found[:MOST_SHOWN]][::-1])
    parents = dict.fromkeys(text for one in moments if (text := one.record.text("parent_trace_id")))
    return render(
        "trace.html",
        person=person,
        here="/ui/decisions",
        trace_id=trace_id,
        moments=moments,
        parents=list(parents),
        is_cut=len(found) > MOST_SHOWN,
        width=_WIDTH,
    )


def moments_of(records: Sequence[RecordView]) -> list[Moment]:
    """The records, oldest first, each at its place between the first and the last of them."""
    times = [record.stored.recorded_at_ms for record in records]
    begin, span = times[0], max(times[-1] - times[0], 1)
    return [
        Moment(record=record, after_ms=at - begin, x=(at - begin) * (_WIDTH - 10) // span)
        for record, at in zip(records, times, strict=True)
    ]

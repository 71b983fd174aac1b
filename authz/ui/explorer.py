"""The decision log for people: searched, and one decision stage by stage."""

from dataclasses import dataclass
from typing import Annotated, Final
from urllib.parse import urlencode

from fastapi import APIRouter, Path, Query, Request, Response

from authz.errors import MalformedInput, NotFound
from authz.model.decision import Effect, Stage
from authz.model.record import EventQuery, EventType
from authz.ui.access import member
from authz.ui.records import RecordView, moment_of, place_of, position_of
from authz.ui.render import render
from authz.ui.services import services_of

router = APIRouter(prefix="/ui")

_PAGE: Final = 50
_MOST_RELATED: Final = 500
"""Records of a decision's trace that are looked through for what became of it."""
_Text = Annotated[str, Query(max_length=512)]
_TITLES: Final = {
    Stage.TOOL: "Find the tool",
    Stage.SCHEMA: "Check the arguments, fill in defaults",
    Stage.CANONICAL: "Spell resources in one way",
    Stage.OPERATION: "Look the operation up",
    Stage.CAPABILITY: "Check the capability",
    Stage.POLICY: "Ask the rules, for each access",
    Stage.APPROVAL: "Match an approval",
    Stage.RESERVATION: "Reserve limits and budgets",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class StageView:
    """One stage of a decision."""

    stage: Stage
    title: str
    settled: bool
    """Whether the effect was settled here."""
    reached: bool


@router.get("/decisions")
async def decisions(
    request: Request,
    trace: _Text = "",
    agent: _Text = "",
    user: _Text = "",
    tool: _Text = "",
    rule: _Text = "",
    effect: _Text = "",
    type: _Text = "",  # noqa: A002 - the name in the address
    since: _Text = "",
    until: _Text = "",
    before: _Text = "",
) -> Response:
    """Search. All that is filled in must match."""
    person = await member(request, "audit")
    if (effect and effect not in list(Effect)) or (type and type not in list(EventType)):
        raise MalformedInput("there is no such effect or type of record", code="input.invalid")
    asked = {
        "trace": trace,
        "agent": agent,
        "user": user,
        "tool": tool,
        "rule": rule,
        "effect": effect,
        "type": type,
        "since": since,
        "until": until,
    }
    found = await services_of(request).ledger.search(
        EventQuery(
            tenant=person.tenant,
            trace_id=trace,
            agent=agent,
            user=user,
            tool=tool,
            rule=rule,
            effect=effect,
            type=type,
            since_ms=moment_of("since", since),
            until_ms=moment_of("until", until),
            before=position_of(before),
            limit=_PAGE + 1,
        )
    )
    shown = found[:_PAGE]
    further = {name: text for name, text in asked.items() if text}
    more = urlencode({**further, "before": place_of(shown[-1])}) if len(found) > _PAGE else ""
    return render(
        "decisions.html",
        person=person,
        here="/ui/decisions",
        asked=asked,
        effects=[one.value for one in Effect],
        types=[one.value for one in EventType],
        records=[RecordView.of(one) for one in shown],
        more=more,
    )


@router.get("/decisions/{decision_id}")
async def decision(request: Request, decision_id: Annotated[str, Path(max_length=128)]) -> Response:
    """One decision: what each stage had and said, and what became of it."""
    person = await member(request, "audit")
    ledger = services_of(request).ledger
    stored = await ledger.find_event(person.tenant, decision_id)
    if stored is None:
        raise NotFound("there is no such decision", code="decision.unknown")
    record = RecordView.of(stored)
    related = []
    if trace := record.text("trace_id"):
        query = EventQuery(tenant=person.tenant, trace_id=trace, limit=_MOST_RELATED)
        everything = map(RecordView.of, await ledger.search(query))
        related = [
            one for one in everything if one.decision_id == decision_id and one.stored.hash != stored.hash
        ]
    return render(
        "decision.html",
        person=person,
        here="/ui/decisions",
        record=record,
        stages=stages_of(record),
        related=related[::-1],
    )


def stages_of(record: RecordView) -> list[StageView]:
    """The stages in their order, and how far this decision came."""
    order = list(Stage)
    settled = record.text("stage")
    last = order.index(Stage(settled)) if settled in order else -1
    allowed = record.text("effect") == Effect.ALLOW
    return [
        StageView(
            stage=stage,
            title=_TITLES[stage],
            settled=number == last,
            # Of an allow every stage had its say, whichever settled it.
            reached=number <= last or allowed,
        )
        for number, stage in enumerate(order)
    ]

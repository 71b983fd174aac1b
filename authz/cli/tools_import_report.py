"""What `authz tools import` says to people."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from authz.bundle.import_run import Outcome
from authz.bundle.importing import ChangedTool

MAX_SHOWN = 20

Live = Mapping[str, Sequence[Mapping[str, Any]]] | None


def report(outcome: Outcome, live: Live) -> str:
    """All of it, a line each. Not yet safe to print: it quotes the server."""
    return "\n".join(_lines(outcome, live))


def _lines(outcome: Outcome, live: Live) -> Iterator[str]:
    plan = outcome.plan
    for new in plan.new:
        yield f"new       {new.name}: {'drafted' if outcome.written else 'would be drafted'}"
    for changed in plan.changed:
        yield from _changed(outcome, changed, live)
    for name in plan.vanished:
        done = (
            "deleted" if name in outcome.pruned and outcome.writes else "still described; --prune deletes it"
        )
        yield f"vanished  {name}: {done}"
        yield from _named(outcome, name)
    for refused in plan.refused:
        yield f"refused   {refused.name or '(no name)'}: {refused.reason}"
    if plan.changed:
        yield "note      approvals and capabilities are not looked at: no store holds any yet"
    for note in outcome.notes:
        yield f"note      {note}"
    yield _summary(outcome)


def _changed(outcome: Outcome, tool: ChangedTool, live: Live) -> Iterator[str]:
    accepted = tool.name in outcome.accepted
    state = "accepted" if accepted and outcome.writes else "calls of it are refused as `tool.changed`"
    yield f"changed   {tool.name}: {state}"
    yield f"            pinned     {tool.pinned}"
    yield f"            advertised {tool.advertised}"
    if not tool.is_exact:
        yield "            what was advertised then is not kept; compared with the reviewed descriptor:"
    for found in tool.differences[:MAX_SHOWN]:
        sign = {"added": "+", "removed": "-", "changed": "~"}[found.kind]
        yield f"          {sign} {found.pointer or '/'}"
        if found.old is not None:
            yield f"              was {found.old}"
        if found.new is not None:
            yield f"              is  {found.new}"
    if len(tool.differences) > MAX_SHOWN:
        yield f"            and {len(tool.differences) - MAX_SHOWN} more differences (--json shows them)"
    yield from _named(outcome, tool.name)
    yield from _live(tool.name, live)
    yield from _review(tool, accepted=accepted)


def _review(tool: ChangedTool, *, accepted: bool) -> Iterator[str]:
    """What became of the review, and how to accept what is shown here and nothing else."""
    if not accepted:
        yield "            to pin what is shown here, after a review:"
        yield f"              --accept {tool.name}@{tool.advertised}"
    elif tool.was_reviewed and tool.schema_changed:
        yield "            its schema changed: a draft again (A3) until input_schema and roles are reviewed"
    elif tool.was_reviewed:
        what = " and ".join(f"`{member}`" for member in tool.members_changed) or "what else it says"
        yield f"            {what} changed; it stays reviewed, because --accept named this very digest"


def _named(outcome: Outcome, name: str) -> Iterator[str]:
    rules = outcome.rules.get(name, ())
    for rule in rules:
        yield f"            the rule `{rule.rule}` ({rule.file}:{rule.line}) names it"
    for file in outcome.case_files.get(name, ()):
        yield f"            {file} has cases of it"
    if not rules:
        yield "            no rule names it; rules by verb and level apply as to any tool"


def _live(name: str, live: Live) -> Iterator[str]:
    if live is None:
        yield "            operations in flight were not looked at (--data-dir does)"
        return
    found = live.get(name, ())
    for operation in found[:MAX_SHOWN]:
        yield (
            f"            decision {operation['decision_id']} allowed it until {operation['expires_at']} "
            "under the old descriptor: sent again, it is refused"
        )
    if not found:
        yield "            no allow under the old descriptor is still live"


def _summary(outcome: Outcome) -> str:
    plan = outcome.plan
    counts = [
        (len(plan.new), "new"),
        (len(plan.changed), "changed"),
        (len(plan.vanished), "vanished"),
        (len(plan.refused), "refused"),
        (len(plan.unchanged), "unchanged"),
    ]
    said = ", ".join(f"{count} {what}" for count, what in counts if count) or "no tools"
    waiting = len(outcome.drafts)
    drafts = f" Waiting for a review: {waiting}." if waiting and outcome.writes else ""
    done = f"{outcome.path} is written." if outcome.written else f"{outcome.path} is as it was."
    return f"{plan.alias}: {said}. {done}{drafts}"

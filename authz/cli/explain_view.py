"""An explanation in a terminal: stage → verdict → rule → the condition that failed, at a glance.

Rendered from the document that `--json` prints. Colours only on a terminal; every text that a model or a
bundle wrote is shown with what could deceive a reader escaped, and what is cut says so.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from rich import box
from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from authz.cli.data_location import printable
from authz.cli.explain_rules import EFFECT_STYLE, Glyphs, access_view, conditions_view, rule_line

MAX_TEXT: Final = 400
"""Characters of one value; the rest is counted."""
MAX_ROWS: Final = 24
"""Rows of one table; the rest is counted."""


def show(document: Mapping[str, Any], console: Console) -> None:
    """Print an explanation."""
    glyphs = Glyphs.for_console(console)
    parts: list[RenderableType | None] = [
        _headline(document),
        _recorded(document.get("recorded"), document),
        _stages(document) if document["stages"] else None,
        _call(document),
        _accesses(document),
        _provenance(document),
        *(access_view(access, glyphs) for access in document["accesses"]),
        _unexplained(document),
        _approval(document.get("approval")),
        _changes(document, glyphs),
    ]
    for part in parts:
        if part is not None:
            console.print(part)
            console.print()


def clip(value: Any) -> str:
    """A value as text without anything that could deceive; what is cut off is counted."""
    text = value if isinstance(value, str) and value else json.dumps(value)
    shown = printable(text[:MAX_TEXT])
    more = len(text) - MAX_TEXT
    return f"{shown} … ({more} more characters, see --json)" if more > 0 else shown


def _headline(document: Mapping[str, Any]) -> RenderableType:
    decision = document["decision"]
    if decision is None:
        refused = document["subject_refused"]
        if refused is not None:
            return Panel(
                Text(f"{refused}: no decision is made"),
                title="REFUSED",
                title_align="left",
                border_style="bold red",
            )
        return Panel(
            Text("what holds now cannot be told; see below"),
            title="UNKNOWN",
            title_align="left",
            border_style="yellow",
        )
    style = EFFECT_STYLE[decision["effect"]]
    lines = [Text.assemble((clip(decision["code"]), style), f"  at stage `{decision['stage']}`")]
    lines += [rule_line(rule) for rule in decision["matched"]]
    if not decision["matched"]:
        lines.append(Text("no rule decided", "dim"))
    if decision["message"] and not decision["matched"]:
        lines.append(Text(clip(decision["message"])))
    title = decision["effect"].replace("_", " ").upper()
    where = f"policy {document['policy_version'][:19]}  profile {clip(document['profile'])}  {document['at']}"
    return Panel(Group(*lines), title=title, subtitle=where, border_style=style, title_align="left")


def _stages(document: Mapping[str, Any]) -> RenderableType:
    table = _table("#", "stage", "verdict", "what happened")
    stages = [stage for stage in document["stages"] if stage["outcome"] != "not_reached"]
    for stage in stages:
        outcome = stage["outcome"]
        word, style = outcome, "green"
        if outcome == "settled":
            effect = document["decision"]["effect"] if document["decision"] else "refused"
            word, style = effect.replace("_", " "), EFFECT_STYLE.get(effect, "bold red")
        table.add_row(
            Text(str(stage["number"])), Text(stage["stage"]), Text(word, style), Text(clip(stage["summary"]))
        )
    skipped = [stage["stage"] for stage in document["stages"] if stage["outcome"] == "not_reached"]
    if skipped:
        table.add_row("", "", Text("not reached", "dim"), Text(", ".join(skipped), "dim"))
    return table


def _output(document: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    return next((stage["output"] for stage in document["stages"] if stage["stage"] == name), {})


def _call(document: Mapping[str, Any]) -> RenderableType | None:
    """What became of the arguments, and which claims were believed."""
    schema, canonical = _output(document, "schema"), _output(document, "canonical")
    rows: list[tuple[str, str, str]] = []
    for error in schema.get("errors", ()):
        rows.append((error["pointer"] or "/", "fault", error["message"]))
    for error in canonical.get("errors", ()):
        rows.append((error["pointer"] or "/", "fault", error["message"]))
    for pointer, value in schema.get("defaults", {}).items():
        rows.append((pointer, "default", clip(value)))
    for change in canonical.get("rewritten", ()):
        rows.append(
            (change["pointer"], "canonical", f"{clip(change['written'])} became {clip(change['canonical'])}")
        )
    for claim in canonical.get("claims", ()):
        word = "believed" if claim["believed"] else "not believed"
        value = f"{clip(claim['value'])}: " if claim["value"] is not None else ""
        rows.append((claim["claim"], word, f"{value}{claim['because']}"))
    if not rows:
        return None
    table = _table("argument or claim", "", "how it was taken")
    for name, what, how in _bounded(table, rows):
        style = "red" if what in ("fault", "not believed") else ""
        table.add_row(Text(clip(name)), Text(what, style), Text(clip(how)))
    return table


def _accesses(document: Mapping[str, Any]) -> RenderableType | None:
    accesses = _output(document, "canonical").get("accesses", ())
    if not accesses:
        return None
    table = _table("access", "resource", "level", "because")
    for access in _bounded(table, accesses):
        tree = " (tree)" if access["scope"] == "tree" else ""
        if access.get("pattern"):
            tree = f" ({access['pattern']})"
        because = access["because"]
        if access["opaque_because"]:
            because += f"; not understood: {access['opaque_because']}"
        table.add_row(
            Text(access["verb"] + tree),
            Text(clip(access["uri"])),
            Text(access["authority"]),
            Text(clip(because)),
        )
    return table


def _provenance(document: Mapping[str, Any]) -> RenderableType | None:
    found = _output(document, "canonical").get("provenance", ())
    if not found:
        return None
    table = _table("argument", "role", "source", "trust")
    for leaf in _bounded(table, found):
        source = leaf["source"]
        if leaf["declared_source"] is not None:
            source += f" (`{leaf['declared_source']}` not believed)"
        trust = Text(leaf["trust"], "yellow" if leaf["because"] else "green")
        if leaf["because"]:
            trust.append(f": {leaf['because']}", "default")
        if leaf["secret"]:
            trust.append("; secret", "magenta")
        table.add_row(Text(clip(leaf["pointer"] or "/")), Text(leaf["role"]), Text(clip(source)), trust)
    return table


def _approval(approval: Mapping[str, Any] | None) -> RenderableType | None:
    if approval is None:
        return None
    lines: list[RenderableType] = []
    for rule in approval["rules"]:
        lines.append(rule_line(rule))
        who = ", ".join(rule["approvers"] or ()) or "whoever policy lets approve"
        people = "1 person" if (rule["quorum"] or 1) == 1 else f"{rule['quorum']} people"
        lines.append(Padding(Text(f"{people} of {clip(who)}"), (0, 0, 0, 2)))
    ttl = f"{approval['ttl_seconds']} s" if approval["ttl_seconds"] is not None else "not bounded by a rule"
    lines.append(Text(f"factor {approval['factor']}; lasts {ttl}"))
    lines.append(Text(f"may be given: {', '.join(approval['scopes'])} ({approval['scopes_because']})"))
    after = Text("with it: ")
    after.append(approval["afterwards"], EFFECT_STYLE[approval["afterwards"]])
    after.append(f" ({approval['afterwards_code']})")
    lines.append(after)
    lines += [rule_line(rule) for rule in approval["afterwards_matched"]]
    return Panel(Group(*lines), title="the approval that lifts it", border_style="yellow", title_align="left")


def _changes(document: Mapping[str, Any], glyphs: Glyphs) -> RenderableType | None:
    # Of a forbid, all that holds stands with the rule already.
    changes = [change for change in document["changes"] if change["rule"]["kind"] != "forbid"]
    if not changes:
        return None
    title = "what would have to differ for a permit to match"
    lines: list[RenderableType] = []
    for change in changes[:MAX_ROWS]:
        named = rule_line({**change["rule"], "reason": ""})
        lines.append(Text.assemble(named, ("  on ", "dim"), clip(change["access"])))
        lines.append(Padding(conditions_view(change["conditions"], glyphs), (0, 0, 0, 2)))
    if len(changes) > MAX_ROWS:
        lines.append(Text(f"and {len(changes) - MAX_ROWS} more, see --json", "dim"))
    return Panel(Group(*lines), title=title, border_style="red", title_align="left")


def _unexplained(document: Mapping[str, Any]) -> RenderableType | None:
    count = document["unexplained_accesses"]
    return Text(f"{count} more accesses are told by their verdict only, see --json", "dim") if count else None


def _recorded(recorded: Mapping[str, Any] | None, document: Mapping[str, Any]) -> RenderableType | None:
    if recorded is None:
        return None
    then = Text("recorded: ")
    then.append(recorded["effect"], EFFECT_STYLE.get(recorded["effect"], ""))
    then.append(f" ({recorded['code']}) at {recorded['occurred_at']}")
    lines: list[RenderableType] = [then, *(rule_line(rule) for rule in recorded["matched"])]
    if not recorded["same_policy"]:
        lines.append(Text(f"the policy was another then: {recorded['policy_version'][:19]}", "yellow"))
    if recorded["agrees"] is not None:
        word = (
            "what holds now is the same" if recorded["agrees"] else "what holds now differs, as shown above"
        )
        lines.append(Text(word, "green" if recorded["agrees"] else "bold yellow"))
    lines += [Text(f"not re-evaluated: {clip(note)}", "yellow") for note in recorded["not_reevaluated"]]
    if recorded["redacted"]:
        lines.append(Text(f"redacted in the log: {clip(', '.join(recorded['redacted']))}"))
    return Panel(Group(*lines), title=f"decision {clip(recorded['decision_id'])}", title_align="left")


def _table(*names: str) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, header_style="bold")
    for name in names:
        table.add_column(name, overflow="fold")
    return table


def _bounded(table: Table, rows: Sequence[Any]) -> Iterator[Any]:
    yield from rows[:MAX_ROWS]
    if len(rows) > MAX_ROWS:
        more = Text(f"and {len(rows) - MAX_ROWS} more, see --json", "dim")
        table.add_row(more, *[""] * (len(table.columns) - 1))

"""The rules of an explanation in a terminal: each with its conditions, and which of them failed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Self

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from authz.cli.data_location import printable

KIND_STYLE: Final = {"permit": "green", "forbid": "red", "ask": "yellow", "limit": "magenta"}
EFFECT_STYLE: Final = {"allow": "bold green", "require_approval": "bold yellow", "deny": "bold red"}
_DECIDES: Final = {"permit": "permits it", "forbid": "forbids it", "ask": "asks for an approval"}
MAX_CONDITION: Final = 320
MAX_INSIDE: Final = 6
"""Members of an `||` or `&&` that are shown; the rest is counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Glyphs:
    """The marks, for terminals that have them and for those that do not."""

    holds: str = "✓"
    fails: str = "✗"
    error: str = "!"
    skipped: str = "·"
    unknown: str = "?"

    @classmethod
    def for_console(cls, console: Console) -> Self:
        """Plain letters where the output cannot carry the marks."""
        if console.options.ascii_only:
            return cls(holds="+", fails="x", skipped=".")
        return cls()


def rule_line(rule: Mapping[str, Any]) -> Text:
    """A rule's name, kind, place and reason."""
    line = Text(printable(rule["rule"]), "bold")
    line.append(f"  {rule['kind']}", KIND_STYLE.get(rule["kind"], ""))
    if rule["file"] is not None:
        place = rule["file"] if rule["line"] is None else f"{rule['file']}:{rule['line']}"
        line.append(f"  {printable(place)}", "cyan")
    if rule["reason"]:
        line.append(f"  {printable(rule['reason'])}", "italic")
    return line


def access_view(access: Mapping[str, Any], glyphs: Glyphs) -> RenderableType:
    """The rules of one access: those that matched, then the nearest of the others."""
    head = Text("rules for ", "bold")
    head.append(f"{access['verb']} {printable(access['uri'])}", "bold")
    head.append(f"  by {printable(access['agent'])}: ")
    if access["effect"] is None:
        head.append(f"depends on {', '.join(access['depends_on'])}", "bold yellow")
    else:
        head.append(f"{access['effect']} ({access['code']})", EFFECT_STYLE[access["effect"]])
    lines: list[RenderableType] = [head]
    if access["broken"]:
        lines.append(Text(access["broken"], "red"))
    for rule in access["examined"]:
        open_verdict = access["effect"] is None
        lines.append(Padding(_rule(rule, glyphs, outranked=not open_verdict), (0, 0, 0, 2)))
    lines.append(Padding(Text(_rest(access), "dim"), (0, 0, 0, 2)))
    return Group(*lines)


def _rest(access: Mapping[str, Any]) -> str:
    counts = (
        (access["further"], "further off"),
        (access["elsewhere"], "about other actions or resources"),
        (access["unexamined"], "not examined"),
    )
    told = ", ".join(f"{count} {what}" for count, what in counts if count)
    return f"not shown: {told} (--all-rules shows every rule)" if told else "every rule is shown"


def _rule(rule: Mapping[str, Any], glyphs: Glyphs, *, outranked: bool) -> RenderableType:
    failing = rule["distance"]
    word, style = {
        "determining": (_DECIDES.get(rule["kind"], "decides"), "bold"),
        "matched": ("matches, and is outranked" if outranked else "matches", "bold"),
        "unknown": ("cannot be told: it reads a redacted value", "bold yellow"),
        "error": ("cannot be evaluated: the call is denied", "bold red"),
    }.get(rule["status"], (f"{failing} of {len(rule['conditions'])} not met", "dim"))
    head = rule_line({**rule, "reason": ""})
    head.append(f"  {word}", style)
    if not rule["conditions"]:
        return Group(head, Padding(Text("matches everything", "dim"), (0, 0, 0, 2)))
    return Group(head, Padding(_conditions_of(rule, glyphs), (0, 0, 0, 2)))


def _conditions_of(rule: Mapping[str, Any], glyphs: Glyphs) -> Table:
    near = rule["status"] == "not_matched"
    return conditions_view(rule["conditions"], glyphs, only_failing=near)


def conditions_view(
    conditions: Sequence[Mapping[str, Any]], glyphs: Glyphs, *, only_failing: bool = False
) -> Table:
    """Conditions, one a line: whether each holds, its Cedar text, and the value that Cedar gives it."""
    table = Table.grid(padding=(0, 1))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    shown = [condition for condition in conditions if not (only_failing and condition["holds"])]
    for condition in shown:
        mark, style = _mark(condition, glyphs)
        table.add_row(Text(mark, style), _condition(condition))
        if condition["inside"]:
            table.add_row("", _inside(condition))
    if len(shown) < len(conditions):
        rest = len(conditions) - len(shown)
        table.add_row(
            Text(glyphs.holds, "dim"), Text(f"{rest} other{'s hold' if rest > 1 else ' holds'}", "dim")
        )
    return table


def _inside(condition: Mapping[str, Any]) -> Table:
    """Of an `||` that is true, the members that make it so; of one that is false, all. `&&` the other way."""
    inside: list[Mapping[str, Any]] = condition["inside"]
    telling = "true" if condition["clause"] == "when" else "false"
    members = [member for member in inside if member["value"] == telling] or inside
    table = Table.grid(padding=(0, 1))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for member in members[:MAX_INSIDE]:
        table.add_row(
            "-", Text.assemble(_clip(member["text"]), (f"  {_value(member)}", _value_style(member)))
        )
    if len(members) > MAX_INSIDE:
        table.add_row("", Text(f"and {len(members) - MAX_INSIDE} more, {members[0]['value']} too", "dim"))
    if len(members) < len(inside):
        table.add_row("", Text(f"and {len(inside) - len(members)} that did not tell", "dim"))
    return table


def _condition(condition: Mapping[str, Any]) -> Text:
    clause = condition["clause"]
    if condition["inside"]:
        joined = "any of these:" if clause == "when" else "all of these:"
        text = Text.assemble((f"{clause} ", "dim"), joined)
    elif clause in ("when", "unless"):
        text = Text.assemble((f"{clause} ", "dim"), _clip(condition["text"]))
    else:
        return Text(_clip(condition["text"]))
    if condition["error"]:
        text.append(f"  error: {condition['error']}", "bold red")
    else:
        text.append(f"  {_value(condition)}", _value_style(condition))
    return text


def _mark(condition: Mapping[str, Any], glyphs: Glyphs) -> tuple[str, str]:
    if condition["value"] == "unknown":
        return glyphs.unknown, "yellow"
    if condition["value"] == "not_reached":
        return glyphs.skipped, "dim"
    if condition["value"] == "error":
        return glyphs.error, "bold red"
    return (glyphs.holds, "green") if condition["holds"] else (glyphs.fails, "bold red")


def _value(condition: Mapping[str, Any]) -> str:
    word = {"not_reached": "not reached", "unknown": "reads a redacted value"}.get(
        condition["value"], condition["value"]
    )
    return word if condition["reached"] or condition["value"] == "not_reached" else f"{word} by itself"


def _value_style(condition: Mapping[str, Any]) -> str:
    return {"true": "green", "false": "red", "error": "bold red", "unknown": "yellow"}.get(
        condition["value"], "dim"
    )


def _clip(text: str) -> str:
    more = len(text) - MAX_CONDITION
    shown = printable(text[:MAX_CONDITION])
    return f"{shown} … ({more} more characters, see --json)" if more > 0 else shown

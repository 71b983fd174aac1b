"""Edits to a file of `tools/` that leave every byte alone which they are not about.

A reviewed file is people's work: comments, order and spelling stay. So nothing is parsed and written back;
places are found by the YAML parser, and single spans of the text are exchanged.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import yaml

from authz.errors import AuthzError

BECOMES_A_DRAFT: Final = "reviewed: false  # its schema changed: review, then delete this line"


class Unmergeable(AuthzError):
    """The file is written in a way that cannot be edited span by span; the message says what to write."""

    code = "import.unmergeable"


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolPlace:
    """Where one item of `tools:` stands: offsets of its first line's begin and its last line's end."""

    name: str
    begin: int
    end: int
    indent: int
    """The column of its `-`."""
    keys: int
    """The column of its keys."""
    digest: tuple[int, int] | None
    """The value of `advertised_digest`."""
    reviewed: tuple[int, int] | None
    name_end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolPlaces:
    """All items of `tools:`, by name, and where one more can be put."""

    items: Mapping[str, ToolPlace]
    append_at: int
    indent: int
    empty: tuple[int, int] | None
    """The `[]` of a list without items."""
    opened_at: int
    """Behind the `tools:`."""


@dataclass(frozen=True, slots=True, order=True)
class Edit:
    """Put `text` in place of what stands between two offsets."""

    begin: int
    end: int
    text: str


def find_places(text: str) -> ToolPlaces:
    """Where the tools of a file stand; the file is known to load. Raises `Unmergeable`."""
    root = yaml.compose(text, Loader=yaml.SafeLoader)
    keys = {key.value: key for key, _ in root.value} if isinstance(root, yaml.MappingNode) else {}
    listed = _members(root).get("tools")
    if not isinstance(listed, yaml.SequenceNode):
        raise Unmergeable("the file has no list `tools:` to add to")
    opened_at = text.index(":", keys["tools"].end_mark.index) + 1
    if not listed.value:
        begin = len(text[: listed.start_mark.index].rstrip(" "))
        return ToolPlaces(
            items={},
            append_at=_line_end(text, listed.end_mark.index),
            indent=2,
            empty=(begin, listed.end_mark.index),
            opened_at=opened_at,
        )
    if listed.flow_style:
        raise Unmergeable("write `tools:` as a list with one `-` a line, so that tools can be added to it")
    items = [_place(text, node) for node in listed.value]
    return ToolPlaces(
        items={item.name: item for item in items},
        append_at=items[-1].end,
        indent=items[-1].indent,
        empty=None,
        opened_at=opened_at,
    )


def _place(text: str, node: Any) -> ToolPlace:
    members = _members(node)
    name = members["name"]
    begin = _line_begin(text, node.start_mark.index)
    lead = text[begin : node.start_mark.index]
    if node.flow_style or lead.strip() != "-":
        line = node.start_mark.line + 1
        raise Unmergeable(f"line {line}: write `- name: …` on one line and the tool's other keys below it")
    return ToolPlace(
        name=name.value,
        begin=begin,
        end=_line_end(text, _last_end(node)),
        indent=lead.index("-"),
        keys=len(lead),
        digest=_span(members.get("advertised_digest")),
        reviewed=_span(members.get("reviewed")),
        name_end=_line_end(text, name.end_mark.index),
    )


def _members(node: Any) -> dict[str, Any]:
    if not isinstance(node, yaml.MappingNode):
        raise Unmergeable("the file is no mapping with `server:` and `tools:`")
    return {key.value: value for key, value in node.value}


def _span(node: Any) -> tuple[int, int] | None:
    return (node.start_mark.index, node.end_mark.index) if node is not None else None


def _last_end(node: Any) -> int:
    """Where the last value of a node ends: a block's own end mark lies behind the comments after it."""
    if isinstance(node, yaml.MappingNode) and not node.flow_style and node.value:
        return _last_end(node.value[-1][1])
    if isinstance(node, yaml.SequenceNode) and not node.flow_style and node.value:
        return _last_end(node.value[-1])
    end: int = node.end_mark.index
    return end


def _line_begin(text: str, index: int) -> int:
    return text.rfind("\n", 0, index) + 1


def _line_end(text: str, index: int) -> int:
    """The offset behind the line of `index`; a block scalar's end is the begin of the line after it."""
    if index and text[index - 1] == "\n":
        return index
    end = text.find("\n", index)
    return len(text) if end < 0 else end + 1


def appending(text: str, places: ToolPlaces, items: Sequence[str]) -> list[Edit]:
    """Put new items behind the last one, each after an empty line."""
    if not items:
        return []
    edits = [Edit(*places.empty, "")] if places.empty is not None else []
    ended = not places.append_at or text[places.append_at - 1] == "\n"
    lines = ("" if ended else "\n") + "".join(
        ("" if places.empty is not None and index == 0 else "\n") + item for index, item in enumerate(items)
    )
    return [*edits, Edit(places.append_at, places.append_at, lines)]


def removing_all(places: ToolPlaces, names: Sequence[str], *, is_refilled: bool) -> list[Edit]:
    """Take items out, with the comments inside them. A list without any is written `[]`, unless it
    `is_refilled` with others.
    """
    edits = [Edit(places.items[name].begin, places.items[name].end, "") for name in names]
    if names and not is_refilled and len(names) == len(places.items):
        edits.append(Edit(places.opened_at, places.opened_at, " []"))
    return edits


def replacing(place: ToolPlace, item: str) -> Edit:
    """Put another item in the place of one."""
    return Edit(place.begin, place.end, item)


def pinning(place: ToolPlace, digest: str, *, to_review: bool) -> list[Edit]:
    """Pin another advertised digest; with `to_review` the tool becomes a draft again."""
    if place.digest is None:
        raise Unmergeable(f"`{place.name}` pins no `advertised_digest`; write one by hand")
    edits = [Edit(*place.digest, digest)]
    if to_review and place.reviewed is not None:
        edits.append(Edit(*place.reviewed, "false"))
    elif to_review:
        line = " " * place.keys + BECOMES_A_DRAFT + "\n"
        edits.append(Edit(place.name_end, place.name_end, line))
    return edits


def edited(text: str, edits: Iterable[Edit]) -> str:
    """`text` with all edits, which do not overlap."""
    for edit in sorted(edits, reverse=True):
        text = text[: edit.begin] + edit.text + text[edit.end :]
    return text

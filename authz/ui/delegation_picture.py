"""A tree of capabilities as a picture: who handed what to whom, and what each hop gave up.

The picture is laid out here and drawn by a template as SVG. It cuts what is long; the list beside it has all
of it whole, also for whoever cannot see a picture.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from authz_client.capabilities import Refusal as TokenRefusal
from authz_client.capabilities import parse_entries

from authz.core.capability_tree import gave_up
from authz.core.fingerprint import canonical_json
from authz.core.visible import spelled
from authz.core.visible_scripts import Reading

BOX_WIDTH: Final = 440
_INDENT: Final = 44
_MARGIN: Final = 14
_LINE: Final = 20
_GAP: Final = 16
_MAX_TEXT: Final = 46
"""Characters that a line of a box holds; what is cut ends in an ellipsis, and stands whole in the list."""
_MAX_LINES: Final = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss:
    """One thing that a hop gave up. `words` are this service's, `values` what it was about."""

    words: str
    values: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Hop:
    """One link of the tree."""

    link: Mapping[str, Any]
    depth: int
    losses: tuple[Loss, ...]
    """Empty for a root, and for a hop that gave up nothing."""
    children: "tuple[Hop, ...]"

    @property
    def is_stopped(self) -> bool:
        """Whether a revocation stops it, of itself or of one above."""
        return self.link["revoked_by"] is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Box:
    """A link in the picture, in pixels."""

    hop: Hop
    x: int
    y: int
    height: int
    lines: tuple[str, ...]
    """Below the agent's name."""
    agent: str
    path: str
    """From the box above, in SVG's words; empty for a root."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """All boxes, and how much room they take."""

    boxes: tuple[Box, ...]
    width: int
    height: int


def hops_of(roots: Sequence[Mapping[str, Any]]) -> tuple[Hop, ...]:
    """The tree as the capability service tells it, with what each hop gave up."""
    return tuple(_hop(root, None, 0) for root in roots)


def _hop(node: Mapping[str, Any], above: Mapping[str, Any] | None, depth: int) -> Hop:
    return Hop(
        link=node,
        depth=depth,
        losses=tuple(_losses(node, above)) if above is not None else (),
        children=tuple(_hop(child, node, depth + 1) for child in node["children"]),
    )


def _losses(node: Mapping[str, Any], above: Mapping[str, Any]) -> Iterator[Loss]:
    entries = [parse_entries(one["authorization_details"]) for one in (node, above)]
    mine, parents = entries
    if isinstance(mine, TokenRefusal) or isinstance(parents, TokenRefusal):
        yield Loss(words="its record cannot be read")
        return
    lost = gave_up(mine, parents)
    if "wider" in lost:
        yield Loss(words="it says more than the one above it may", values=(str(lost["wider"]),))
    for name in ("rights", "objects"):
        for change in lost.get(name, ()):
            yield Loss(words=f"{name} given up", values=tuple(change["lost"]))
            if change["instead"]:
                yield Loss(words=f"{name} that are left of these", values=tuple(change["instead"]))
    for change in lost.get("predicate", ()):
        yield Loss(words="a condition more on", values=(change["pointer"], _json(change["to"])))
    for change in lost.get("budget", ()):
        yield Loss(words="a smaller budget", values=(_json(change["to"]),))
    if lost.get("entries"):
        yield Loss(words="whole entries given up", values=tuple(map(_json, lost["entries"])))
    if node["expires_at"] < above["expires_at"]:
        yield Loss(words="ends earlier", values=(node["expires_at"],))


def _json(value: object) -> str:
    return canonical_json(value).decode()


def draw(roots: Sequence[Hop]) -> Picture:
    """Every hop as a box beneath the one that it came from, each generation further to the right."""
    boxes: list[Box] = []
    y = _MARGIN
    for root in roots:
        y = _draw(root, None, y, boxes)
    right = max((box.x + BOX_WIDTH for box in boxes), default=0)
    return Picture(boxes=tuple(boxes), width=right + _MARGIN, height=y)


def _draw(hop: Hop, above: Box | None, y: int, boxes: list[Box]) -> int:
    lines = tuple(_lines(hop))
    x = _MARGIN + hop.depth * _INDENT
    height = _LINE * (len(lines) + 1) + 14
    path = ""
    if above is not None:
        path = f"M {above.x + 18} {above.y + above.height} V {y + 24} H {x}"
    box = Box(hop=hop, x=x, y=y, height=height, lines=lines, agent=_cut(hop.link["agent"]), path=path)
    boxes.append(box)
    y += height + _GAP
    for child in hop.children:
        y = _draw(child, box, y, boxes)
    return y


def _lines(hop: Hop) -> Iterator[str]:
    if hop.depth == 0:
        yield f"root, for {_cut(hop.link['subject'] or 'nobody', 30)}"
    elif not hop.losses:
        yield "gave up nothing"
    told = hop.losses if len(hop.losses) <= _MAX_LINES else hop.losses[: _MAX_LINES - 1]
    for loss in told:
        yield _cut(f"{loss.words}: {', '.join(loss.values)}" if loss.values else loss.words)
    if len(told) < len(hop.losses):
        yield f"and {len(hop.losses) - len(told)} more, all in the list"
    if hop.is_stopped:
        yield "REVOKED"


def _cut(text: str, most: int = _MAX_TEXT) -> str:
    shown = spelled(text, Reading.NAME)
    return shown if len(shown) <= most else f"{shown[: most - 1]}…"

"""Templates to pages. Every value that somebody else chose goes through `name`, `prose` or `block`.

Autoescape is always on, and a name that a template misspells is an error, not an empty place. What the
filters return is markup made by `visible_html`, which lets no character act on the page.
"""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, Final

from fastapi.responses import HTMLResponse
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from authz.core import rendering_words as words
from authz.core.cedar_context import rfc3339
from authz.core.fingerprint import canonical_json
from authz.core.shown_scopes import duration
from authz.core.shown_types import Part
from authz.core.visible import pieces
from authz.core.visible_scripts import Reading
from authz.core.visible_warnings import Warning as TextWarning
from authz.core.visible_warnings import warnings
from authz.model.account import SignedIn
from authz.ui.visible_html import visible_html

_NOTHING: Final = Markup('<em class="none">(empty)</em>')

PLACES: Final = (
    ("/ui/", "Inbox", frozenset({"approve"})),
    ("/ui/history", "History", frozenset({"approve", "audit"})),
    ("/ui/grants", "Grants", frozenset({"approve", "audit"})),
    ("/ui/decisions", "Decisions", frozenset({"audit"})),
    ("/ui/delegations", "Delegations", frozenset({"audit", "policy"})),
)
"""(address, name, roles of which one is needed) of what stands in the menu of every page."""


def render(
    template: str,
    *,
    person: SignedIn | None = None,
    here: str = "",
    status: int = 200,
    headers: Mapping[str, str] | None = None,
    **context: Any,
) -> HTMLResponse:
    """A page from `template`, which extends `layout.html`.

    `person` is who is signed in, and decides what the menu offers; `here` is the address of its entry.
    """
    text = _ENVIRONMENT.get_template(template).render(
        person=person, places=places_of(person), here=here, **context
    )
    return HTMLResponse(text, status, dict(headers or {}))


def places_of(person: SignedIn | None) -> list[tuple[str, str]]:
    """(address, name) of the places that somebody may go to."""
    if person is None:
        return []
    return [(address, name) for address, name, roles in PLACES if not roles.isdisjoint(person.account.roles)]


def name(text: str) -> Markup:
    """A value within a sentence that names something: letters of other scripts are marked."""
    return _inline(text, Reading.NAME)


def prose(text: str) -> Markup:
    """A value within a sentence that is a text: a reason, a title."""
    return _inline(text, Reading.TEXT)


def _inline(text: str, reading: Reading) -> Markup:
    if not text:
        return _NOTHING
    return Markup('<code class="value">{}</code>').format(_visible(text, reading))


def plainly(text: str) -> Markup:
    """A text that is mostly ours and may quote: visible like a value, and without its box."""
    return _visible(text, Reading.TEXT)


def capitalized(text: str) -> str:
    """With a capital first letter, as sentences of the core have none."""
    return text[:1].upper() + text[1:]


def as_json(value: Any) -> str:
    """A value in its RFC 8785 spelling."""
    return canonical_json(value).decode()


def block(
    text: str, reading: str = "text", *, label: str = "value", begin: str = "begin", end: str = "end"
) -> Markup:
    """A value in a box of its own, with a begin and an end that no value can draw. `label` names the box."""
    if not text:
        return _NOTHING
    return Markup(
        '<div class="block" role="group" aria-label="{}"><div class="bound" aria-hidden="true">{}</div>'
        '<div class="text">{}</div><div class="bound" aria-hidden="true">{}</div></div>'
    ).format(label, begin, _visible(text, Reading(reading)), end)


def _visible(text: str, reading: Reading) -> Markup:
    # `visible_html` escapes all that it is given.
    return Markup(visible_html(pieces(text, reading)))  # noqa: S704


def sentence(parts: Iterable[Part]) -> Markup:
    """This service's words as they are, values in boxes between them."""
    told = Markup("")
    for part in parts:
        told += escape(part.get("words", ""))
        if "value" in part:
            told += name(part["value"])
    return told


def oddities(text: str, reading: str = "text") -> tuple[TextWarning, ...]:
    """What a person should know of a text before reading it."""
    return warnings(text, Reading(reading))


def moment(ms: int) -> Markup:
    """A time to the second in UTC, readable by the page's script."""
    stamp = datetime.fromtimestamp(ms // 1000, UTC)
    return Markup('<time datetime="{}">{} UTC</time>').format(
        stamp.isoformat().replace("+00:00", "Z"), f"{stamp:%Y-%m-%d %H:%M:%S}"
    )


def distance(ms: int, now_ms: int) -> str:
    """`in 5 minutes`, `3 hours ago`: rounded down to the largest unit, for reading; `moment` is exact."""
    seconds = abs(ms - now_ms) // 1000
    size = next((size for size in (86400, 3600, 60) if seconds >= size), 1)
    told = duration(seconds // size * size)
    if seconds == 0:
        return "now"
    return f"in {told}" if ms > now_ms else f"{told} ago"


def _make_environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("authz.ui"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    environment.filters |= {
        "name": name,
        "as_json": as_json,
        "capitalized": capitalized,
        "plainly": plainly,
        "prose": prose,
        "block": block,
        "sentence": sentence,
        "oddities": oddities,
        "moment": moment,
        "distance": distance,
        "duration": duration,
        "rfc3339": rfc3339,
    }
    environment.globals["words"] = words
    return environment


_ENVIRONMENT: Final = _make_environment()

"""Calls that try to deceive their approver, on the page where people answer, whole and as it is sent."""

from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import Any, Final

from authz.core.approval_quorum import strongest_factor
from authz.core.canonical.spelling import is_invisible
from authz.core.rendering_words import type_words, value_text
from authz.model.account import Account, SignedIn, SignInMethod
from authz.model.approval import ApprovalState
from authz.model.approval_writes import ApprovalStanding
from authz.service.approvals_view import ConfirmationPage
from authz.ui.confirmation_view import ConfirmationView
from authz.ui.render import render
from tests.deception.corpus import document_of, each, request_of, shown_whole
from tests.deception.reading import unspelled

NOW_MS: Final = 1_800_000_000_000
PERSON: Final = SignedIn(
    session_id="s",
    account=Account(
        account_id="a",
        tenant="acme",
        person="grace",
        display_name="Grace",
        roles=frozenset({"approve"}),
        created_at_ms=0,
    ),
    method=SignInMethod.PASSKEY,
    groups=frozenset(),
    created_at_ms=0,
    expires_at_ms=NOW_MS * 2,
    csrf_token="csrf",
)
VOID: Final = frozenset({"meta", "link", "input", "br", "hr", "img"})
BOXES: Final = frozenset({"value", "text", "warnings"})
"""Classes of what holds values: nothing outside of these is anybody's but this service's."""
ELEMENTS: Final = frozenset(
    "html head meta title link script body a header p nav ul ol li div form input button main article strong"
    " h1 h2 h3 dl dt dd code span bdi br em section b label textarea fieldset legend details summary noscript"
    " time".split()
)
TELLING: Final = 12
"""Characters from which on a value is told from words that a page has anyway."""


@dataclass
class Page(HTMLParser):
    """A page taken apart: what stands in boxes, and what this service says around them."""

    own: list[str] = field(default_factory=list)
    boxes: list[str] = field(default_factory=list)
    elements: set[str] = field(default_factory=set)
    attributes: set[tuple[str, str]] = field(default_factory=set)

    def __post_init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.stack: list[tuple[str, bool]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.add(tag)
        self.attributes |= {(name, value or "") for name, value in attrs}
        if tag in VOID:
            return
        classes = set((dict(attrs).get("class") or "").split())
        if not self._in_box() and BOXES & classes:
            self.boxes.append("")
        self.stack.append((tag, self._in_box() or bool(BOXES & classes)))

    def handle_endtag(self, tag: str) -> None:
        opened, _ = self.stack.pop()
        assert opened == tag, f"`{opened}` is closed as `{tag}`"

    def handle_data(self, data: str) -> None:
        if self._in_box():
            self.boxes[-1] += data
        else:
            self.own.append(data)

    def handle_comment(self, data: str) -> None:
        raise AssertionError(f"a comment: {data}")

    def _in_box(self) -> bool:
        return bool(self.stack) and self.stack[-1][1]


def view_of(entry: dict[str, Any]) -> ConfirmationView:
    request = request_of(entry)
    standing = ApprovalStanding(request=request)
    return ConfirmationView(
        person=PERSON,
        now_ms=NOW_MS,
        page=ConfirmationPage(
            standing=standing,
            state=ApprovalState.PENDING,
            shown=shown_whole(entry),
            barred=None,
            refused=None,
            deny_refused=None,
            drift=(),
            because="",
            votes=(),
            unmet=(),
            factor=strongest_factor(request.asked.rules),
        ),
    )


def read(entry: dict[str, Any]) -> tuple[Page, str]:
    sent = bytes(render("confirmation.html", person=PERSON, view=view_of(entry)).body).decode()
    page = Page()
    page.feed(sent)
    page.close()
    assert page.stack == []
    return page, sent


@each
def test_the_page_holds_no_character_that_acts(entry: dict[str, Any]) -> None:
    page, sent = read(entry)

    assert [char for char in sent if is_invisible(char) and char != "\n"] == []
    for text in (*page.own, *page.boxes, *(value for _, value in page.attributes)):
        assert [char for char in text if is_invisible(char) and char != "\n"] == []


@each
def test_values_stand_in_boxes_and_nowhere_else(entry: dict[str, Any]) -> None:
    page, _ = read(entry)
    document = document_of(entry)
    own = " ".join(" ".join(page.own).split())
    # What the rules and the tool's name say is of the bundle, and may be in a heading.
    values = {document["requester"]["agent"], document["requester"]["session"] or ""}
    values |= {document["tool"]["says_of_itself"], *(access["uri"] for access in document["accesses"])}
    for argument in document["arguments"]:
        values |= {argument["pointer"], value_text(argument), *value_text(argument).split("\n")}

    for value in values:
        if len(value) >= TELLING:
            assert value not in own
            assert all(value not in told for _, told in page.attributes)


@each
def test_no_value_becomes_markup(entry: dict[str, Any]) -> None:
    page, sent = read(entry)

    assert page.elements <= ELEMENTS
    # One script, of this service, and none inline; no handler, and no address but of this service.
    assert sent.count("<script") == sent.count("/ui/static/confirmation.js") == 1
    assert [name for name, _ in page.attributes if name.startswith("on") or name == "style"] == []
    for name, told in page.attributes:
        if name in ("href", "src", "action", "formaction"):
            assert told.startswith(("/ui/", "#")) or told == "data:,"


@each
def test_every_argument_is_there_whole_with_its_length(entry: dict[str, Any]) -> None:
    page, _ = read(entry)
    boxes = {unspelled(box) for box in page.boxes}
    own = " ".join(" ".join(page.own).split())

    for argument in document_of(entry)["arguments"]:
        assert argument["pointer"] in boxes
        assert type_words(argument) in own
        if argument["secret"]:
            assert value_text(argument) not in boxes
        elif value_text(argument):
            assert value_text(argument) in boxes
    for access in document_of(entry)["accesses"]:
        assert access["uri"] in boxes


@each
def test_what_must_be_opened_is_folded_and_said_to_be(entry: dict[str, Any]) -> None:
    page, sent = read(entry)
    document = document_of(entry)
    folded = [argument for argument in document["arguments"] if argument["pointer"] in document["must_open"]]
    own = " ".join(" ".join(page.own).split())

    assert sent.count('<details class="open"') == len(folded)
    for argument in folded:
        fold = argument["fold"]
        assert fold is not None
        assert f"{fold['hidden_characters']:,} character" in own
        assert f"of {fold['length']:,} characters are folded here." in own

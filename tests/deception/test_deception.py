"""Calls that try to deceive their approver: terminal text, webhook summary and page tell the truth."""

import html
import re
from collections import Counter
from typing import Any, Final

import pytest

from authz.core.canonical.spelling import is_invisible
from authz.core.fingerprint import canonical_json
from authz.core.pointer import format_pointer, leaves, parse_pointer
from authz.core.rendering_summary import MIN_LIMIT, render_summary
from authz.core.rendering_text import render_text
from authz.core.rendering_words import reading_of
from authz.core.shown import cannot_be_approved_because
from authz.core.visible import pieces, spelled
from authz.core.visible_warnings import warnings
from authz.ui.visible_html import visible_html
from tests.deception.corpus import ENTRIES, document_of, each, shown
from tests.deception.reading import own_lines, read_html, unspelled, values_of

WIDE: Final = 100_000

# Every line of the terminal text that holds no value, with its numbers and closed words.
_WORDS = r"[A-Za-z0-9][A-Za-z0-9 ,;:()'/-]*"
OWN_LINE: Final = re.compile(
    rf"|\({_WORDS}:?\)|{_WORDS}[.:)]?"
    r"|[A-Za-z ]+, UNTRUSTED \([A-Za-z ,`_]+\)(?:, SECRET)?|Only once, because .*\."
)


def test_the_corpus_is_large_and_its_entries_are_told_apart() -> None:
    assert len(ENTRIES) >= 130
    assert len({entry["id"] for entry in ENTRIES}) == len(ENTRIES)
    assert min(Counter(entry["group"] for entry in ENTRIES).values()) >= 5


@each
def test_terminal_text_says_what_it_must(entry: dict[str, Any]) -> None:
    text = render_text(document_of(entry), width=WIDE)

    assert [part for part in entry["text"]["has"] if part not in text] == []
    assert [part for part in entry["text"]["lacks"] if part in text] == []


@each
def test_terminal_text_gives_every_argument_back(entry: dict[str, Any]) -> None:
    """Whoever reads the text patiently knows exactly what would run, at any width."""
    document, outcome = shown(ENTRIES.index(entry))
    expected = [
        (format_pointer(tokens), value if isinstance(value, str) else canonical_json(value).decode())
        for tokens, value in leaves(outcome.decision.arguments)
    ]

    for width in (72, 100, WIDE):
        told = list(values_of(render_text(document, width=width)))
        names = [index for index, (label, _) in enumerate(told) if label == "name"]
        found = []
        for start, end in zip(names, [*names[1:], len(told)], strict=True):
            value = next((shown for label, shown in told[start:end] if label in ("value", "UNTRUSTED")), "")
            found.append((unspelled(told[start][1]), unspelled(value)))
        assert sorted(found) == sorted(expected)


@each
def test_terminal_text_keeps_values_behind_bars(entry: dict[str, Any]) -> None:
    text = render_text(document_of(entry), width=80)

    assert [line for line in own_lines(text) if not OWN_LINE.fullmatch(line)] == []
    assert [char for char in text if is_invisible(char) and char != "\n"] == []
    for line in text.split("\n"):
        if "│" in line[:15] or "┆" in line[:15]:
            assert len(line) <= 80


@each
def test_terminal_text_names_every_resource_and_who_asks(entry: dict[str, Any]) -> None:
    document, outcome = shown(ENTRIES.index(entry))
    told = list(values_of(render_text(document, width=WIDE)))

    for access in outcome.decision.accesses:
        assert (access.verb.value, access.resource.uri) in told
    assert ("agent", spelled(document["requester"]["agent"])) in told


@each
def test_summary_says_what_it_must(entry: dict[str, Any]) -> None:
    summary = render_summary(document_of(entry), 3000)

    assert [part for part in entry["summary"]["has"] if part not in summary] == []
    assert [part for part in entry["summary"]["lacks"] if part in summary] == []


@each
@pytest.mark.parametrize("limit", [MIN_LIMIT, 3000, 40_000])
def test_summary_is_inert_and_says_how_much_it_left_out(entry: dict[str, Any], limit: int) -> None:
    document = document_of(entry)
    summary = render_summary(document, limit)
    characters = sum(
        len(one["value"] if isinstance(one["value"], str) else canonical_json(one["value"]))
        for one in document["arguments"]
    )

    assert len(summary) <= limit
    assert f"of {characters:,} character" in summary
    assert "<" not in summary
    assert ">" not in summary
    assert re.sub(r"&(?:amp|lt|gt);", "", summary).count("&") == 0
    # Values stand as code, on one line, and nothing outside of code is anybody else's.
    for line in summary.split("\n"):
        assert line.count("`") % 2 == 0
        outside = re.sub(r"`[^`]*`", "", line)
        assert "://" not in outside
        assert "@" not in outside
    assert [char for char in summary if is_invisible(char) and char != "\n"] == []


@each
def test_page_holds_the_text_of_every_argument_and_none_of_its_markup(entry: dict[str, Any]) -> None:
    for argument in document_of(entry)["arguments"]:
        for text in (argument["pointer"], argument["value"]):
            if isinstance(text, str):
                parts = pieces(text, reading_of(argument["role"]))
                elements, attributes, read = read_html(visible_html(parts))
                assert elements <= {"span", "bdi", "br"}
                assert attributes <= {"class", "dir"}
                assert unspelled(read) == text
                assert html.unescape(html.escape(text)) == text


@each
def test_warnings_are_given(entry: dict[str, Any]) -> None:
    by_pointer = {argument["pointer"]: argument for argument in document_of(entry)["arguments"]}

    for pointer, signs in entry.get("signs", {}).items():
        argument = by_pointer[pointer]
        sent = argument.get("sent", argument["value"])
        found = {
            warning.sign.value
            for text in (argument["value"], sent)
            for warning in warnings(text, reading_of(argument["role"]))
        }
        assert set(signs) <= found, pointer


@each
def test_what_must_be_opened_and_may_be_remembered(entry: dict[str, Any]) -> None:
    document = document_of(entry)

    assert document["must_open"] == entry.get("must_open", [])
    assert bool(cannot_be_approved_because(document)) == entry.get("blocked", False)
    if "scopes" in entry:
        assert [offered["scope"] for offered in document["scopes"]] == entry["scopes"]
    assert all(parse_pointer(pointer) for pointer in document["must_open"])

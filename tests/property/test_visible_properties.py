"""Whatever a text holds, what is printed of it gives it back, and nothing printed acts on the reader."""

import unicodedata

from hypothesis import example, given
from hypothesis import strategies as st

from authz.core.canonical.spelling import is_invisible
from authz.core.visible import pieces, spelled
from authz.core.visible_characters import Kind
from authz.core.visible_fold import fold
from authz.core.visible_scripts import Reading
from authz.core.visible_warnings import is_blank, warnings
from authz.ui.visible_html import visible_html
from tests.deception.reading import read_html, unspelled

ODD = (
    "\x00\x07\x08\x1b\x7f\x85\x9b\x9d\t\n\r "
    "\u00a0\u00ad\u034f\u061c\u115f\u2000\u2003\u200b\u200c\u200d\u200e\u200f"
    "\u2028\u2029\u202a\u202d\u202e\u202f\u2044\u2060\u2066\u2067\u2068\u2069\u206a\u3000\u3164\ufe0f\ufeff\uffa0"
    "\ufff9\ufffc\ufffe\ud800\udfff\ue000\u0301\u0338\u20dd\u05d0\u0627\u0660\u0430\u03bf\u2024\uff0e\uff11\u2212"
    "⟨⟩⏎⇥␍␣│“”\U000e0001\U000e0041\U000e007f\U000e0100\U0001d400\U0001f468abZ019._-/@<>&`'\"×"
)
texts = st.text(
    st.one_of(st.sampled_from(ODD), st.characters(codec=None), st.sampled_from(" \nab")), max_size=60
)
readings = st.sampled_from(Reading)


@given(texts, readings)
@example("", Reading.TEXT)
@example("⟨U+202E RIGHT-TO-LEFT OVERRIDE⟩", Reading.TEXT)
@example("⟨3 spaces⟩ ⟨right-to-left⟩⟨end⟩", Reading.NAME)
@example("\u05d0 \u05d0\u0301\u0301\u0301", Reading.TEXT)
@example("a" + " " * 9 + "\n" * 9 + "\t" * 9, Reading.TEXT)
def test_pieces_and_spelling_give_the_text_back(text: str, reading: Reading) -> None:
    assert "".join(part.text for part in pieces(text, reading)) == text
    assert unspelled(spelled(text, reading)) == text


@given(texts, texts, readings)
def test_different_texts_are_spelled_differently(one: str, other: str, reading: Reading) -> None:
    assert (spelled(one, reading) == spelled(other, reading)) == (one == other)


@given(texts, readings)
def test_nothing_that_is_printed_acts_on_the_reader(text: str, reading: Reading) -> None:
    printed = spelled(text, reading)

    acting = {char for char in printed if is_invisible(char) or unicodedata.category(char) in ("Zs", "Cn")}
    assert acting <= {" "}
    # What is printed of one text cannot join what stands before it.
    assert not printed or unicodedata.category(printed[0])[0] != "M"
    assert not printed.startswith(" ")
    assert not printed.endswith(" ")
    assert "  " not in printed or "invisible tag characters" in printed


@given(texts, readings)
def test_right_to_left_letters_stand_only_between_their_marks(text: str, reading: Reading) -> None:
    for part in pieces(text, reading):
        strong = any(unicodedata.bidirectional(char) in ("R", "AL", "AN") for char in part.spelled)
        assert strong == (part.kind is Kind.RIGHT_TO_LEFT)


@given(texts, readings)
def test_html_holds_the_same_text_and_no_markup_of_it(text: str, reading: Reading) -> None:
    parts = pieces(text, reading)
    elements, attributes, shown = read_html(visible_html(parts))

    assert elements <= {"span", "bdi", "br"}
    assert attributes <= {"class", "dir"}
    marks = ("⟨right-to-left⟩", "⟨end⟩")
    assert shown == spelled(text, reading).replace(marks[0], "").replace(marks[1], "")


@given(texts, st.integers(1, 200), st.sampled_from(["payload", "undeclared", "credential"]))
def test_a_fold_hides_only_what_it_counts(text: str, times: int, role: str) -> None:
    whole = text * times
    folded = fold(whole, role)

    if folded is not None:
        hidden = whole[len(folded.shown_head) : len(whole) - len(folded.shown_tail)]
        assert folded.shown_head + hidden + folded.shown_tail == whole
        assert folded.hidden_characters == len(hidden) > 0
        assert (folded.true_length, folded.lines) == (len(whole), whole.count("\n") + 1)
        assert folded.must_open
    assert fold(whole, "command") is None
    assert fold(whole, "destination") is None


@given(texts, readings)
def test_warnings_quote_nothing_that_acts_on_the_reader(text: str, reading: Reading) -> None:
    for warning in warnings(text, reading):
        assert warning.message
        assert not [char for char in warning.message if is_invisible(char)]
        assert "\n" not in warning.message


@given(texts)
def test_a_text_is_blank_when_only_spellings_could_be_seen(text: str) -> None:
    seen = any(part.kind in (Kind.PLAIN, Kind.RIGHT_TO_LEFT) for part in pieces(text))

    assert not (is_blank(text) and seen)

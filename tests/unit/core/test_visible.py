"""What becomes of single texts: shown as they are, or made visible, and what is said of them."""

import pytest

from authz.core.visible import pieces, spelled
from authz.core.visible_characters import Kind, name_of, own_kind, spelled_out
from authz.core.visible_fold import MAX_UNFOLDED_CHARACTERS, MAX_UNFOLDED_LINES, fold
from authz.core.visible_hosts import MAX_FOUND, odd_hosts, u_label
from authz.core.visible_scripts import Reading
from authz.core.visible_warnings import Sign, is_blank, warnings


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("rm -rf ~/\u202e gnp.x", "rm -rf ~/⟨U+202E RIGHT-TO-LEFT OVERRIDE⟩ gnp.x"),
        ("\x1b[2J", "⟨U+001B ESCAPE⟩[2J"),
        ("\x9b2J", "⟨U+009B CONTROL SEQUENCE INTRODUCER⟩2J"),
        ("\x7f", "⟨U+007F DELETE⟩"),
        ("a\u200bb", "a⟨U+200B ZERO WIDTH SPACE⟩b"),
        ("a\u00a0b", "a⟨U+00A0 NO-BREAK SPACE⟩b"),
        ("a\u2028b", "a⟨U+2028 LINE SEPARATOR⟩b"),
        ("\ud800", "⟨U+D800 LONE SURROGATE⟩"),
        ("\ue000", "⟨U+E000 PRIVATE USE⟩"),
        ("\u0378", "⟨U+0378 UNASSIGNED⟩"),
        ("\u2065", "⟨U+2065 UNASSIGNED⟩"),
        ("\u2800", "⟨U+2800 BRAILLE PATTERN BLANK⟩"),
        ("\u2764\ufe0f", "\u2764⟨U+FE0F VARIATION SELECTOR-16⟩"),
        ("\U000e0068\U000e0069", "⟨2 invisible tag characters: hi⟩"),
        ("\U000e0001", "⟨U+E0001 LANGUAGE TAG⟩"),
        ("a b", "a b"),
        (" a  b ", "␣a␣␣b␣"),
        ("a" + " " * 8 + "b", "a␣␣␣␣␣␣␣␣b"),
        ("a" + " " * 9 + "b", "a⟨9 spaces⟩b"),
        ("a\n b\t", "a⏎␣b⇥"),
        ("a\r\nb\rc", "a␍⏎b⟨U+000D CARRIAGE RETURN⟩c"),
        ("\n" * 9, "⟨9 line ends⟩"),
        ("\u200b" * 500, "⟨U+200B ZERO WIDTH SPACE ×500⟩"),
        ("⟨3 spaces⟩", spelled_out("⟨") + "3 spaces" + spelled_out("⟩")),
        ("p\u0430ypal", "p⟨U+0430 CYRILLIC SMALL LETTER A⟩ypal"),
        ("\uff11\uff10", "⟨U+FF11 FULLWIDTH DIGIT ONE⟩⟨U+FF10 FULLWIDTH DIGIT ZERO⟩"),
        ("cafe\u0301", "cafe⟨U+0301 COMBINING ACUTE ACCENT⟩"),
        ("\u0301x", "⟨U+0301 COMBINING ACUTE ACCENT⟩x"),
        ("a \u05d0\u05d1 \u05d2 b", "a ⟨right-to-left⟩\u05d0\u05d1 \u05d2⟨end⟩ b"),
    ],
)
def test_spelled(text: str, expected: str) -> None:
    assert spelled(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "Größe, naïve café",
        "Zażółć gęślą jaźń",
        "Tiếng Việt",
        "Привет, мир",
        "Καλημέρα κόσμε",
        "日本語とEnglishです！",
        "한국어",
        "ราคาถูก",
        "नमस्ते हिन्दी",
        "it’s “fine” – and 10–20 … 5 °C ½ m² ™",
    ],
)
def test_honest_prose_of_the_world_stays_as_it_is(text: str) -> None:
    assert spelled(text) == text


@pytest.mark.parametrize("text", ["“a”", "a–b", "x…", "½", "①", "😀"])
def test_in_a_name_only_letters_stand_as_they_are(text: str) -> None:
    assert [part for part in pieces(text, Reading.NAME) if part.kind is Kind.LOOK_ALIKE]


def test_arabic_and_hebrew_stand_between_marks_with_their_vowels() -> None:
    assert [part.kind for part in pieces("مُحَمَّد ok")] == [Kind.RIGHT_TO_LEFT, Kind.PLAIN]
    assert [part.kind for part in pieces("שָׁלוֹם")] == [Kind.RIGHT_TO_LEFT]


@pytest.mark.parametrize("code", [*range(0x20), *range(0x7F, 0xA0)])
def test_every_control_character_has_a_name_of_its_own(code: int) -> None:
    names = [name_of(chr(other)) for other in (*range(0x20), *range(0x7F, 0xA0))]

    assert names.count(name_of(chr(code))) == 1
    assert own_kind(chr(code)) in (Kind.CONTROL, Kind.TAB, Kind.LINE_END)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", {Sign.EMPTY}),
        ("plain words", set()),
        ("\u200b ", {Sign.BLANK, Sign.INVISIBLE, Sign.SPACES}),
        ("a" + " " * 20 + "b", {Sign.SPACES}),
        ("Grüße", set()),
        ("Привет", set()),
        ("a\u202eb", {Sign.DIRECTION}),
        ("\x1b[0m", {Sign.CONTROL, Sign.TERMINAL}),
        ("a\r\nb", set()),
        ("e\u0301", {Sign.MARKS, Sign.NORMALIZATION}),
        ("<b>", {Sign.MARKUP}),
        ("a < b", set()),
        ("approved by Ada", {Sign.IMITATION}),
        ("%2e%2E/", {Sign.ENCODED}),
        ("100%25", set()),
        ("https://example.com@evil.test/", {Sign.HOST}),
        ("ada@example.com, see https://example.com:8443/x", set()),
    ],
)
def test_warnings(text: str, expected: set[Sign]) -> None:
    assert {warning.sign for warning in warnings(text)} == expected


def test_a_warning_counts_and_names_what_it_found() -> None:
    (warning,) = warnings("a\u200b\u200bb\u2060c")

    assert warning.message == "characters that nobody can see: 3 (ZERO WIDTH SPACE, WORD JOINER)"


@pytest.mark.parametrize("text", ["", " ", "\n\t", "\u200b\u3164", "\u2003", "\U000e0041"])
def test_blank(text: str) -> None:
    assert is_blank(text)


@pytest.mark.parametrize("text", ["a", " a", "\u0430p", "\u05d0", "⟨"])
def test_not_blank(text: str) -> None:
    assert not is_blank(text)


@pytest.mark.parametrize(
    ("text", "a_label", "readable"),
    [
        ("https://example.com@evil.test/x", "evil.test", "evil.test"),
        ("https://evil.test\\@example.com/", "evil.test", "evil.test"),
        ("https://\u0430pple.com/", "xn--pple-43d.com", "\u0430pple.com"),
        ("to a@\u0430pple.com.", "xn--pple-43d.com", "\u0430pple.com"),
        ("see xn--pple-43d.com", "xn--pple-43d.com", "\u0430pple.com"),
        ("https://bücher.example", "xn--bcher-kva.example", "bücher.example"),
        ("https://example.com\uff0fevil.test/", "", ""),
    ],
)
def test_odd_hosts_in_both_spellings(text: str, a_label: str, readable: str) -> None:
    (host,) = odd_hosts(text).found

    assert (host.a_label, host.u_label) == (a_label, readable)


def test_more_hosts_than_are_listed_are_counted() -> None:
    found = odd_hosts(" ".join(f"https://example.com@h{index}.test/" for index in range(MAX_FOUND + 3)))

    assert (len(found.found), found.more) == (MAX_FOUND, 3)


def test_a_label_that_does_not_decode_stays() -> None:
    assert u_label("xn--\u00e9.example") == "xn--\u00e9.example"


@pytest.mark.parametrize("role", ["command", "target", "destination", "amount", "option"])
def test_what_names_or_steers_is_never_folded(role: str) -> None:
    assert fold("x\n" * 50_000, role) is None


def test_a_long_payload_is_folded_in_its_middle() -> None:
    text = "first\n" + "x\n" * 5000 + "last"
    folded = fold(text, "payload")

    assert folded is not None
    assert folded.shown_head.startswith("first\n")
    assert folded.shown_tail.endswith("last")
    assert folded.hidden_characters == len(text) - len(folded.shown_head) - len(folded.shown_tail)
    assert (folded.true_length, folded.lines, folded.must_open) == (len(text), 5002, True)
    assert folded.digest == "sha256:" + __import__("hashlib").sha256(text.encode()).hexdigest()


@pytest.mark.parametrize(
    ("text", "folds"),
    [
        ("x" * MAX_UNFOLDED_CHARACTERS, False),
        ("x" * (MAX_UNFOLDED_CHARACTERS + 1), True),
        ("x\n" * (MAX_UNFOLDED_LINES - 1), False),
        ("x\n" * MAX_UNFOLDED_LINES, True),
    ],
)
def test_where_folding_begins(text: str, folds: bool) -> None:
    assert (fold(text, "payload") is not None) == folds

"""Where each rule of a file begins: the split is Cedar's own, whatever the text holds."""

from dataclasses import replace

import cedarpy
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from authz.core.policy import parse_rule_file
from authz.core.policy_text import hidden_characters, invisible_characters, split_policies
from authz.errors import BundleError

TRICKS = [
    "//",
    ";",
    '"',
    "\\",
    '\\"',
    "'",
    "/",
    "*",
    "{",
    "}",
    "(",
    ")",
    "@",
    "permit",
    "forbid",
    "\n",
    " ",
    "é",
    "\\u{3b}",
]
INSIDE = st.lists(st.sampled_from(TRICKS), max_size=6).map("".join)
STRINGS = INSIDE.map(lambda text: '"' + text.replace("\\", "").replace('"', '\\"').replace("\n", " ") + '"')
COMMENTS = INSIDE.map(lambda text: "//" + text.replace("\n", "") + "\n")
GAPS = st.lists(COMMENTS | st.sampled_from(["", " ", "\n", "\t"]), max_size=3).map("".join)


@st.composite
def policies(draw: st.DrawFn, number: int = 0) -> str:
    """A rule with strings and comments wherever Cedar takes them."""
    gap = lambda: draw(GAPS) + " "  # noqa: E731
    effect = draw(st.sampled_from(["permit", "forbid"]))
    reason = f"@reason({draw(STRINGS)})" if draw(st.booleans()) else ""
    clause = ""
    if draw(st.booleans()):
        clause = f"when{gap()}{{{gap()}{draw(STRINGS)}{gap()}=={gap()}{draw(STRINGS)} }}"
    return (
        f'@id("r{number}"){gap()}{reason}{gap()}{effect}{gap()}({gap()}principal{gap()},{gap()}action,'
        f"{gap()}resource{gap()}){gap()}{clause}{gap()};"
    )


@st.composite
def files(draw: st.DrawFn) -> str:
    rules = [draw(policies(number)) for number in range(draw(st.integers(0, 5)))]
    return "".join(draw(GAPS) + rule for rule in rules) + draw(GAPS)


@given(files())
@settings(max_examples=300)
def test_the_pieces_are_the_policies_that_cedar_reads(text: str) -> None:
    whole = list(cedarpy.policies_to_pst(text).static_policies.values())
    pieces = split_policies(text)
    assert len(pieces) == len(whole)
    for piece, expected in zip(pieces, whole, strict=True):
        (alone,) = cedarpy.policies_to_pst(piece.text).static_policies.values()
        assert replace(alone, id="") == replace(expected, id="")
        # The line is that of the first annotation, which carries the name.
        assert text.split("\n")[piece.line - 1].count(f'@id("{expected.annotations["id"]}")') == 1
    assert [policy.match.rule for policy in parse_rule_file("a", text)] == [
        policy.annotations["id"] for policy in whole
    ]


@given(
    st.lists(
        st.sampled_from([*TRICKS, '@id("a")', "(principal,", "action,", "resource)", '"x"']), max_size=14
    ).map("".join)
)
@settings(max_examples=400)
@example('@id("a") permit (principal, action, resource) when { "//" == ";" };')
@example('@id("a") permit (principal, action, resource); // @id("b") forbid (principal, action, resource);')
@example('@id("a") permit (principal, action, resource) when { "a\\\\" == "b" }; "')
def test_what_is_taken_is_what_cedar_reads(text: str) -> None:
    """Whatever the text, a file that loads has exactly the rules of Cedar's own reading."""
    try:
        found = parse_rule_file("a", text)
    except BundleError:
        return
    whole = cedarpy.policies_to_pst(text).static_policies.values()
    assert [policy.match.rule for policy in found] == [policy.annotations["id"] for policy in whole]


def test_a_piece_runs_from_its_first_token_to_its_semicolon() -> None:
    text = '// a; "b\n\n@id("x") // ; "\npermit (principal, action, resource) when { "//;\\"" == "" };  x'
    first, rest = split_policies(text)
    assert (first.line, first.text[:8], first.text[-1]) == (3, '@id("x")', ";")
    assert (rest.line, rest.text) == (4, "x")


def test_hidden_characters_are_told_by_line() -> None:
    assert hidden_characters('a\r\nb\r\n\tc "é 😀 日本語 Привет"') == []
    assert [line for line, _ in hidden_characters("a\rb\nc\u202e\u2066\n\ufeff")] == [1, 2, 2, 3]


@pytest.mark.parametrize(
    ("char", "name"),
    [
        ("\u200b", "an invisible character (U+200B ZERO WIDTH SPACE)"),
        ("\u200c", "an invisible character (U+200C ZERO WIDTH NON-JOINER)"),
        ("\u200d", "an invisible character (U+200D ZERO WIDTH JOINER)"),
        ("\u00ad", "an invisible character (U+00AD SOFT HYPHEN)"),
        ("\u2060", "an invisible character (U+2060 WORD JOINER)"),
        ("\U000e0041", "an invisible character (U+E0041 TAG LATIN CAPITAL LETTER A)"),
        ("\ufe0f", "an invisible character (U+FE0F VARIATION SELECTOR-16)"),
        ("\u3164", "an invisible character (U+3164 HANGUL FILLER)"),
        ("\u2065", "an invisible character (U+2065)"),
        ("\ue000", "an invisible character (U+E000)"),
        ("\u00a0", "white space that is not a plain space (U+00A0 NO-BREAK SPACE)"),
        ("\u3000", "white space that is not a plain space (U+3000 IDEOGRAPHIC SPACE)"),
        ("\u202e", "a bidirectional control (U+202E RIGHT-TO-LEFT OVERRIDE)"),
        ("\u2029", "a paragraph separator (U+2029 PARAGRAPH SEPARATOR)"),
    ],
)
def test_a_character_that_nobody_sees_is_named(char: str, name: str) -> None:
    """A forbid on `secrets` with such a character in it would load and never match."""
    rule = f'@id("x")\nforbid (principal, action, resource in Directory::"/w/secr{char}ets");'
    with pytest.raises(BundleError) as caught:
        parse_rule_file("a", rule)
    (problem,) = caught.value.problems
    assert problem.line == 2
    assert name in problem.message


@pytest.mark.parametrize("char", ["\u200b", "\u00ad", "\ufe0f", "\u3000"])
def test_what_is_written_as_an_escape_shows_what_it_holds(char: str) -> None:
    escape = f"\\u{{{ord(char):x}}}"
    rule = f'@id("x") forbid (principal, action, resource in Directory::"/w/secr{escape}ets");'
    assert hidden_characters(rule) == []
    assert [policy.id for policy in parse_rule_file("a", rule)] == ["x"]


@given(
    st.text(st.characters(categories=["L", "N", "P", "S"], max_codepoint=0x2FF), max_size=10),
    st.one_of(
        st.characters(categories=["Cf", "Co", "Zl", "Zp"]),
        st.characters(categories=["Zs"], exclude_characters=" "),
        st.characters(categories=["Cc"], exclude_characters="\t\n\r"),
        st.sampled_from("\u034f\u115f\u17b4\u180b\u2065\u3164\ufe00\uffa0\ufff0\U000e0000\U000e01ef"),
    ),
    st.integers(0, 3),
)
def test_no_character_is_hidden_anywhere_in_a_file(text: str, hidden: str, lines: int) -> None:
    before = invisible_characters("\n" * lines + text)
    found = invisible_characters("\n" * lines + text + hidden)
    assert before == []
    assert [line for line, _ in found] == [lines + 1]
    assert f"U+{ord(hidden):04X}" in found[0][1]


@pytest.mark.parametrize(
    ("literal", "escaped"),
    [
        ('Directory::"/w/.\u0455sh"', r"\u{455}sh"),
        ('Directory::"/w/s\u0435crets/x"', r"s\u{435}crets"),
        ('Group::"fin\u0430nce"', r"fin\u{430}nce"),
        ('Object::"account:\u03bfps"', r"\u{3bf}ps"),
        ('Directory:: // "\n "/w/s\u0435crets"', r"s\u{435}crets"),
        ('Directory::"/w/секp\u0435ты"', r"сек\u{70}еты"),
        ('Directory::"/w/\uff41\u0435"', "\uff41\\u{435}"),
    ],
)
def test_a_name_of_letters_that_only_look_alike_is_told(literal: str, escaped: str) -> None:
    """A Cyrillic letter in a Latin name makes a rule that reads well and never matches."""
    rule = f'@id("x")\nforbid (principal, action, resource) when {{ resource in\n{literal} }};'
    (found,) = hidden_characters(rule)
    assert "several scripts" in found[1]
    assert f"`{escaped}" in found[1]


@pytest.mark.parametrize(
    "literal",
    [
        '"/w/секреты"',
        '"/w/секреты.pdf"',
        '"/w/docs/секреты"',
        '"/w/μέγεθος"',
        '"/w/café"',
        '"/w/日本語のfile"',
        '"/w/한국어abc"',
        '"Группа A"',
        r'"/w/s\u{435}crets"',
        r'"/w/секр\u{65}ты"',
        r'"/w/\u{455}\u{455}h"',
        r'"a\nсекреты"',
        '"10µm"',
        '"/w/e\u0301a\u0300"',
    ],
)
def test_honest_names_and_escapes_pass(literal: str) -> None:
    start = '@id("x") @reason("доступ к API-серверуX") // cепвер\n'
    rule = f"{start}forbid (principal, action, resource in A::{literal});"
    assert hidden_characters(rule) == []


CYRILLIC = st.text("абвгежзиклмнопрстуфхцчшщыьэюя", min_size=1, max_size=6)
LATIN = st.text("abcdefghijklmnopqrstuvwxyz", min_size=1, max_size=6)


@given(LATIN, CYRILLIC, st.sampled_from(["", "-", "_", "1"]))
def test_scripts_are_not_mixed_in_one_name_unless_it_says_so(latin: str, other: str, between: str) -> None:
    def rule(name: str) -> str:
        return f'@id("x") forbid (principal, action, resource in Directory::"/w/{name}/x");'

    for name in (latin + between + other, other + between + latin):
        ((_, what),) = hidden_characters(rule(name))
        # The spelling that the message offers is the name itself, and it passes.
        spelled = what.rpartition("write `")[2].rstrip("`)")
        assert hidden_characters(rule(spelled)) == []
        (meant,) = cedarpy.policies_to_pst(rule(spelled)).static_policies.values()
        (said,) = cedarpy.policies_to_pst(rule(name)).static_policies.values()
        assert meant == said
    assert hidden_characters(rule(latin)) == hidden_characters(rule(other)) == []
    assert hidden_characters(rule(f"{latin}/{other}")) == []

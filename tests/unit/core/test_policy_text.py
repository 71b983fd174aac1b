"""Where each rule of a file begins: the split is Cedar's own, whatever the text holds."""

from dataclasses import replace

import cedarpy
from hypothesis import example, given, settings
from hypothesis import strategies as st

from authz.core.policy import parse_rule_file
from authz.core.policy_text import hidden_characters, split_policies
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
    assert hidden_characters('a\r\nb\r\n\tc "é 😀" \u00a0') == []
    assert [line for line, _ in hidden_characters("a\rb\nc\u202e\u2066\n\ufeff")] == [1, 2, 2, 3]

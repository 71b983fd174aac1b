"""What a pattern of the shell can match: never less than the truth, and no wider than has to be."""

import pytest

from authz.core.canonical.pattern import MAX_PARTS, path_pattern, reaches
from authz.model.resource import Volume

POSIX = Volume()
FOLDING = Volume(case_sensitive=False, normalization="nfc")


def shown(text: str, *, volume: Volume = POSIX, whole: bool = False) -> str:
    found = path_pattern(text.split("/"), volume, whole=whole)
    return "everything" if found is None else found.text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("*.md", "*.md"),
        ("sec?ets/key", "sec?ets/key"),
        ("*/./*//x", "*/*/x"),
        ("src-*/", "src-*"),
        # A bracket is one character, or its own text where nothing matches.
        ("[ab]c*", "*c*"),
        ("[]a]c", "*c"),
        ("[!a-z]", "*"),
        ("a[b", "a*"),
        ("[a]x[b]y", "*y"),
        # With `globstar` they cross folders.
        ("**/*.py", "**/*.py"),
        ("a**b/x", "**/x"),
        ("**", "everything"),
        ("**/**", "everything"),
        # What a disk may spell in another way.
        ("caf\u00e9*", "*"),
        ("*/x.", "*/*"),
        ("*/a b", "*/*"),
        ("*/a:b", "*/*"),
        ("*a?*", "*a?*"),
        ("*?**", "everything"),
        ("/".join(["*"] * (MAX_PARTS + 1)), "everything"),
    ],
)
def test_what_a_pattern_becomes(text: str, expected: str) -> None:
    assert shown(text) == expected


def test_what_matches_is_reached_whole_where_the_program_reads_trees() -> None:
    assert shown("*.md", whole=True) == "*.md/**"
    assert shown("x/**", whole=True) == "x/**"


def test_one_character_may_be_several_where_the_volume_writes_it_otherwise() -> None:
    # `straße` on the disk is `strasse` in a rule.
    assert shown("stra?e", volume=FOLDING) == "stra*e"
    assert shown("stra?e") == "stra?e"


@pytest.mark.parametrize(
    ("text", "place", "expected"),
    [
        ("*.md", "a.md", True),
        ("*.md", "secrets", False),
        ("*.md", "secrets/a.md", False),
        ("*.md", "a.md/x", False),
        ("*", "secrets", True),
        # A leading dot is matched by a dot alone.
        ("*", ".secrets", False),
        ("?secrets", ".secrets", False),
        ("[.]secrets", ".secrets", False),
        (".s*", ".secrets", True),
        ("*/.a b", "x/.a b", True),
        ("**/.secrets", "x/.secrets", True),
        ("**/x", ".secrets/x", True),
        ("SEC*", "secrets", True),
        ("sec*", "SECRETS", True),
        ("*/key", "secrets", True),
        ("*/key", "secrets/key", True),
        ("*/key", "secrets/other", False),
        ("*/key", "a/secrets", False),
        ("**/key", "a/secrets", True),
        ("a/**/key", "b/secrets", False),
        ("a?c", "ac", False),
        ("*.md", "n\u00e4me", True),
    ],
)
def test_which_places_it_reaches(text: str, place: str, expected: bool) -> None:
    pattern = path_pattern(text.split("/"), POSIX)
    assert pattern is not None
    assert reaches(pattern, place.split("/")) is expected


@pytest.mark.parametrize(
    ("text", "place", "expected"),
    [("*.md", "a.md/x/y", True), ("*.md", "a/x.md", False), ("s*", "secrets/deep/key", True)],
)
def test_what_lies_in_what_it_matches(text: str, place: str, expected: bool) -> None:
    pattern = path_pattern(text.split("/"), POSIX, whole=True)
    assert pattern is not None
    assert reaches(pattern, place.split("/")) is expected

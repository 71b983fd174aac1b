"""JSON Pointers into arguments: RFC 6901, and `*` for every item."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from authz.core.pointer import find, format_pointer, leaves, matches, parse_pointer, replace_leaf

NAMES = st.text(st.characters(exclude_categories=["Cs"]), max_size=5) | st.sampled_from(
    ["~", "/", "*", "0", ""]
)
DOCUMENTS = st.recursive(
    st.none() | st.booleans() | st.integers() | NAMES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=12,
)
# RFC 6901, section 5.
RFC = {
    "foo": ["bar", "baz"],
    "": 0,
    "a/b": 1,
    "c%d": 2,
    "e^f": 3,
    "g|h": 4,
    "i\\j": 5,
    'k"l': 6,
    " ": 7,
    "m~n": 8,
}


@pytest.mark.parametrize(
    ("pointer", "value"),
    [
        ("", RFC),
        ("/foo", ["bar", "baz"]),
        ("/foo/0", "bar"),
        ("/", 0),
        ("/a~1b", 1),
        ("/c%d", 2),
        ("/i\\j", 5),
        ("/ ", 7),
        ("/m~0n", 8),
    ],
)
def test_the_examples_of_the_rfc(pointer: str, value: Any) -> None:
    tokens = parse_pointer(pointer)
    assert list(find(RFC, tokens)) == [(tokens, value)]
    assert format_pointer(tokens) == pointer


@pytest.mark.parametrize("text", ["a", "a/b", "/~", "/a~2", "/~~", "#/a", " /a"])
def test_what_is_no_pointer(text: str) -> None:
    with pytest.raises(ValueError, match="JSON Pointer"):
        parse_pointer(text)


def test_an_escaped_tilde_is_not_unescaped_twice() -> None:
    assert parse_pointer("/~01") == ("~1",)
    assert format_pointer(("~1",)) == "/~01"


@pytest.mark.parametrize(
    "pattern", ["/foo/2", "/foo/-", "/foo/-1", "/foo/٠", "/foo/1.0", "/missing", "/foo/0/x"]
)
def test_what_is_absent_is_nothing(pattern: str) -> None:
    assert list(find(RFC, parse_pointer(pattern))) == []


def test_a_star_stands_for_every_item() -> None:
    document = {"to": [{"at": "a"}, {"at": "b"}, {"cc": "c"}], "by": {"x": {"at": "d"}}}
    assert list(find(document, ("to", "*", "at"))) == [(("to", "0", "at"), "a"), (("to", "1", "at"), "b")]
    assert list(find(document, ("by", "*", "at"))) == [(("by", "x", "at"), "d")]
    assert list(find(document, ("to", "*", "at", "*"))) == []


def test_leaves_are_scalars_and_empty_containers() -> None:
    document = {"a": {"b": [1, None]}, "c": [], "d": {}, "e": ""}
    assert dict(leaves(document)) == {
        ("a", "b", "0"): 1,
        ("a", "b", "1"): None,
        ("c",): [],
        ("d",): {},
        ("e",): "",
    }


def test_a_pattern_matches_what_it_is_a_prefix_of() -> None:
    assert matches(("a", "*"), ("a", "0", "b"))
    assert matches((), ("a",))
    assert not matches(("a", "b"), ("a",))
    assert not matches(("a", "b"), ("a", "c"))


@given(st.lists(NAMES, max_size=4))
def test_a_pointer_and_its_tokens_are_one_to_one(tokens: list[str]) -> None:
    assert parse_pointer(format_pointer(tuple(tokens))) == tuple(tokens)


@given(DOCUMENTS)
def test_every_leaf_is_found_and_replaced_alone(document: Any) -> None:
    found = list(leaves(document))
    assert len({tokens for tokens, _ in found}) == len(found)
    for tokens, value in found:
        if "*" not in tokens:
            assert list(find(document, tokens)) == [(tokens, value)]
        marker = object()
        changed = dict(leaves(replace_leaf(document, tokens, marker)))
        assert changed.pop(tokens) is marker
        assert changed == {other: kept for other, kept in found if other != tokens}
    assert list(leaves(document)) == found  # the document itself was left alone

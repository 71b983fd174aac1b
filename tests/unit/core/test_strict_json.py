"""One parser in front of everything: what it takes, what it refuses, and where it says the fault stands."""

import json
import sys
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from authz.core.strict_json import MAX_DEPTH, MAX_SAFE_INTEGER, MAX_VALUES, escape_pointer, loads
from authz.errors import MalformedInput, TooLarge
from tests.support.shared import vectors

UNICODE = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-MAX_SAFE_INTEGER, MAX_SAFE_INTEGER)
    | st.floats(allow_nan=False, allow_infinity=False)
    | UNICODE
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(UNICODE, inner, max_size=4),
    max_leaves=20,
)
FRAGMENTS = st.lists(
    st.sampled_from(
        [
            "{",
            "}",
            "[",
            "]",
            ",",
            ":",
            '"',
            '"a"',
            '"b"',
            "\\",
            "\\ud800",
            "\\u0061",
            "0",
            "1",
            "-",
            "1.5",
            "1e9",
        ]
        + [
            "1e999",
            "9007199254740993",
            "true",
            "null",
            "NaN",
            "Infinity",
            "-Infinity",
            " ",
            "\n",
            "\t",
            "\ufeff",
        ]
        + ["\x00", "\u2028", "é", "//", "'", "01", "+1", ".5", "5.", "tru"]
    ),
    max_size=14,
).map("".join)


def refusal(text: str | bytes) -> MalformedInput:
    """Why `text` is refused."""
    with pytest.raises(MalformedInput) as caught:
        loads(text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass"))
    return caught.value


@pytest.mark.parametrize(
    ("text", "code", "pointer", "line", "column"),
    [
        ('{"a": 1, "a": 1}', "input.duplicate_name", "/a", 1, 10),
        ('{"a": 1,\n "\\u0061": 2}', "input.duplicate_name", "/a", 2, 2),
        ('{"x": [{"b": 1,\n\n  "b": 1}]}', "input.duplicate_name", "/x/0/b", 3, 3),
        ('{"a/b": {"~": 1, "~": 2}}', "input.duplicate_name", "/a~1b/~0", 1, 18),
        ('{"": 1, "": 2}', "input.duplicate_name", "/", 1, 9),
        ('{"a": 9007199254740992}', "input.unsafe_integer", "/a", 1, 7),
        ('{"a": [0, -9007199254740992]}', "input.unsafe_integer", "/a/1", 1, 11),
        ("1" + "0" * 5000, "input.unsafe_integer", "", 1, 1),
        ('{"a": 1e400}', "input.number_overflow", "/a", 1, 7),
        ("[1,\n -1e400]", "input.number_overflow", "/1", 2, 2),
        ('{"a": NaN}', "input.not_a_number", "/a", 1, 7),
        ("[Infinity]", "input.not_a_number", "/0", 1, 2),
        ("[-Infinity]", "input.not_a_number", "/0", 1, 2),
        ('{"a": "\\ud800"}', "input.lone_surrogate", "/a", 1, 7),
        ('{"a": "\\udc00\\ud800"}', "input.lone_surrogate", "/a", 1, 7),
        ('{"a": {"\\ud800": 1}}', "input.lone_surrogate", "/a", 1, 8),
        ('{"a": 1,}', "input.not_json", "", 1, 9),
        ("[1,\n]", "input.not_json", "/1", 2, 1),
        ('{"a" 1}', "input.not_json", "/a", 1, 6),
        ('"a\tb"', "input.not_json", "", 1, 3),
        ('{"a": 01}', "input.not_json", "", 1, 8),
        ('{"a": 1}x', "input.not_json", "", 1, 9),
        ("", "input.not_json", "", 1, 1),
        ("\ufeff{}", "input.not_json", "", 1, 1),
        ("{'a': 1}", "input.not_json", "", 1, 2),
        ('{"a": "\\x"}', "input.not_json", "/a", 1, 8),
        ("[" * 65 + "]" * 65, "input.too_deep", None, 1, 65),
        ('{"a":\n' * 64 + "[1]" + "}" * 64, "input.too_deep", None, 65, 1),
    ],
)
def test_a_refusal_says_what_and_where(
    text: str, code: str, pointer: str | None, line: int, column: int
) -> None:
    found = refusal(text)
    assert (found.code, found.pointer, found.line, found.column) == (code, pointer, line, column)
    assert found.message == found.message.rstrip(".")


@pytest.mark.parametrize(
    ("data", "line", "column"),
    [
        (b'{"a": "\xff"}', 1, 8),
        (b'{\n"a": "\xc0\xaf"}', 2, 7),  # overlong
        (b'["\xed\xa0\x80"]', 1, 3),  # a surrogate as UTF-8
        ('{"a": 1}'.encode("utf-16"), 1, 1),
        ('{"a": 1}'.encode("utf-32-le"), None, None),
    ],
)
def test_only_utf_8_is_read(data: bytes, line: int | None, column: int | None) -> None:
    found = refusal(data)
    if line is None:
        assert found.code == "input.not_json"  # NULs are valid UTF-8, but no JSON
    else:
        assert (found.code, found.line, found.column) == ("input.invalid_utf8", line, column)


def test_the_fault_that_is_named_is_the_one_that_is_located() -> None:
    """A text with two faults: the place belongs to the code."""
    found = refusal('{"a": 1, "a": 9007199254740993}')
    assert (found.code, found.column) == ("input.unsafe_integer", 15)
    found = refusal('{"s": "\\ud800", "a": 1, "a": 1}')
    assert (found.code, found.pointer) == ("input.duplicate_name", "/a")
    found = refusal('{"a": 1, "a": NaN}')
    assert (found.code, found.column) == ("input.not_a_number", 15)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("9007199254740991", 9007199254740991),
        ("-9007199254740991", -9007199254740991),
        ("1e30", 1e30),  # no integer literal
        ("9007199254740993.0", 9007199254740992.0),
        ("-0", 0),
        ('"\\ud83d\\ude02"', "😂"),
        ('"\\\\ud800"', "\\ud800"),
        ('"\\u0000"', "\0"),
        (' \r\n\t{"a": [], "A": {}} ', {"a": [], "A": {}}),
        ('{"e\\u0301": 1, "\\u00e9": 2}', {"e\u0301": 1, "é": 2}),  # other names: nothing is normalised
    ],
)
def test_what_is_read(text: str, value: object) -> None:
    assert loads(text.encode()) == value


@pytest.mark.parametrize("opening", ["[", '{"a":', '[{"a":'])
def test_depth_is_bounded_exactly(opening: str) -> None:
    closing = {"[": "]", '{"a":': "}", '[{"a":': "}]"}[opening]
    levels = 1 if len(closing) == 1 else 2
    text = opening * (MAX_DEPTH // levels) + "1" + closing * (MAX_DEPTH // levels)
    assert loads(text.encode())
    assert refusal("[" + text + "]").code == "input.too_deep"


def test_brackets_in_strings_are_no_nesting() -> None:
    text = json.dumps({"a": '[{"\\' * 500, "b": [[]] * 100})
    assert loads(text.encode()) == json.loads(text)


def test_depth_is_found_among_many_values_and_behind_strings() -> None:
    crowd = '"]}\\"]", [], {"]": {}}, ' * 1000
    nested = "[" * (MAX_DEPTH - 1)
    assert len(loads(f"[{crowd}{nested}1{']' * (MAX_DEPTH - 1)}]".encode())) == 3001
    found = refusal(f"[{crowd}\n{nested}[1{']' * MAX_DEPTH}]")
    assert (found.code, found.line, found.column) == ("input.too_deep", 2, MAX_DEPTH)


@pytest.mark.parametrize(
    ("count", "code"), [(MAX_VALUES, "input.too_deep"), (100_000, "input.too_many_values")]
)
def test_a_hundred_thousand_brackets_are_refused_and_not_recursed_into(count: int, code: str) -> None:
    assert refusal("[" * count).code == code


def values_in(value: Any) -> int:
    """Scalars, arrays and objects, as the bound counts them."""
    if isinstance(value, dict):
        return 1 + sum(map(values_in, value.values()))
    return 1 + sum(map(values_in, value)) if isinstance(value, list) else 1


TRICKY = st.text(st.sampled_from('a,:"\\[]{} \n'), max_size=8)
TRICKY_VALUES = st.recursive(
    st.sampled_from([0, -1.5, 1e300, None, True, [], {}]) | TRICKY,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TRICKY, inner, max_size=4),
    max_leaves=20,
)


@given(TRICKY_VALUES, st.sampled_from([None, 1]), st.booleans())
@example({"a": {}, "b:": [":"], ",": [[], {}], "": "\\"}, None, True)
def test_the_number_of_values_is_bounded_exactly(value: Any, indent: int | None, last: bool) -> None:
    zeros = [0] * (MAX_VALUES - 1 - values_in(value))
    fits = [*zeros, value] if last else [value, *zeros]
    assert loads(json.dumps(fits, indent=indent).encode()) == fits

    text = json.dumps([*fits, "more"], indent=indent)
    found = refusal(text)
    before = text[: text.rindex('"more"')]
    assert found.code == "input.too_many_values"
    assert (found.line, found.column) == (before.count("\n") + 1, len(before) - before.rfind("\n"))


def test_a_member_too_many_is_named_where_its_name_begins() -> None:
    members = ", ".join(f'"{number}": 0' for number in range(MAX_VALUES))
    found = refusal(f"{{{members}\n}}")
    assert (found.code, found.line) == ("input.too_many_values", 1)
    assert found.column == len(members) - len(f'"{MAX_VALUES - 1}": 0') + 2
    assert str(MAX_VALUES) in found.message


@pytest.mark.parametrize("content", [",", "[", "]", "{", '"', "\\", ",\n", '",', "\\,", ":,"])
def test_a_long_string_is_one_value_whatever_it_holds(content: str) -> None:
    value = {"text": content * (1_000_000 // len(content) // 2), "path": "/a"}
    assert loads(json.dumps(value).encode()) == value


def lines_run(action: Callable[[], object]) -> int:
    """How many lines of Python ran: the work, less what is done in C."""
    count = 0

    def trace(*_: object) -> Any:
        nonlocal count
        count += 1
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        action()
    finally:
        sys.settrace(before)
    return count


def read(text: str) -> str:
    """The code of the refusal; empty where the text is read."""
    try:
        loads(text.encode())
    except MalformedInput as error:
        return error.code
    return ""


MB = 1_000_000
MANY = MAX_VALUES - 200
HOSTILE = {
    "commas": "[" + "," * MB,
    "values": "[" + "1," * (MB // 2),
    "openings": "[" * MB,
    "closings": "[" * 65 + "]" * MB,
    "closings behind the root": "[" * 60 + "]" * MB + "[" * 60,
    "empty arrays": "[" * 65 + "]" * 65 + "[]" * (MB // 2),
    "empty arrays without commas": "[" + "[]" * (MB // 2),
    "mixed brackets": "[{]}" * (MB // 4),
    "quotes": '"' * MB + "[" * 65 + "," * MAX_VALUES,
    "escaped quotes without an end": "[" * 65 + '"' + '\\"' * (MB // 2) + "," * MAX_VALUES,
    "names": '{"":' + '"":' * (MB // 3) + "," * MAX_VALUES,
    "colons": ":" * MB + "[" * 65 + "," * MAX_VALUES,
    "blanks": ("[" + " " * 99) * (MB // 100),
    "one long number": "[" * 60 + "1" * MB,
    "one long fraction": "0." + "1" * MB + "e999",
    "escapes and a fault": '["' + "\\n" * (MB // 2) + '\x01"',
    "surrogates": '["' + "\\ud83d\\ude02" * (MB // 12) + '"]',
    "a long text beside a lone surrogate": '["' + "é" * (MB // 2) + '", "\\ud800"]',
    "as many values as may be, and a fault": "[" + "1," * MANY + "NaN]",
    "as many names as may be, one twice": "{"
    + "".join(f'"\\n{n}":"\\n",' for n in range(MANY))
    + '"\\n0":1}',
    "as many containers as may be, too deep": "[" + '{"a":[]},' * (MANY // 2) + "[" * 65,
    "many brackets, each in a string": '["' + "[{" * (MB // 2) + '"]',
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE.keys())
def test_what_is_done_in_python_is_bounded_by_the_values(text: str) -> None:
    """A text of a megabyte may not keep the event loop: not to be read, and not to be refused."""
    assert lines_run(lambda: read(text)) <= 150 * MAX_VALUES


@pytest.mark.parametrize("text", ["[" + "1," * MB + "1]", "[" + "[]," * MB + "1]", "[" * MB])
def test_what_is_too_much_does_not_reach_the_decoder(text: str) -> None:
    assert read(text) == "input.too_many_values"
    assert lines_run(lambda: read(text)) <= 100


def test_the_size_is_checked_before_anything_is_read() -> None:
    assert loads(b"[1, 2]", max_bytes=6) == [1, 2]
    with pytest.raises(TooLarge) as caught:
        loads(b"[1, 2,", max_bytes=5)
    assert caught.value.code == "input.too_large"


@given(VALUES, st.booleans(), st.sampled_from([None, 1]))
def test_what_json_writes_is_read_back(value: Any, escaped: bool, indent: int | None) -> None:
    text = json.dumps(value, ensure_ascii=escaped, indent=indent)
    assert loads(text.encode()) == value


@given(FRAGMENTS)
@example('{"a":1,"a":1}')
@example("[NaN,1]")
def test_it_never_reads_another_value_than_the_standard_parser(text: str) -> None:
    """Narrower than `json.loads`, and never different: where both accept, they agree."""
    try:
        value = loads(text.encode())
    except MalformedInput as error:
        found = error
    else:
        assert value == json.loads(text)
        return
    assert found.code.startswith("input.")
    assert found.line is not None
    assert found.column is not None


@given(st.recursive(st.just("0"), lambda inner: st.tuples(inner, UNICODE), max_leaves=6), UNICODE, st.data())
def test_a_duplicate_name_is_refused_at_any_depth(shape: Any, name: str, data: st.DataObject) -> None:
    quoted = [json.dumps(name, ensure_ascii=flag) for flag in (True, False)]
    first, second = data.draw(st.sampled_from(quoted)), data.draw(st.sampled_from(quoted))
    text = f"{{{first}: 1, {second}: 1}}"
    pointer = f"/{escape_pointer(name)}"
    while isinstance(shape, tuple):
        shape, outer = shape
        as_list = data.draw(st.booleans())
        text = f"[{text}]" if as_list else f"{{{json.dumps(outer)}: {text}}}"
        pointer = (f"/{0}" if as_list else f"/{escape_pointer(outer)}") + pointer
    found = refusal(text)
    assert (found.code, found.pointer) == ("input.duplicate_name", pointer)


@pytest.mark.external
def test_the_vectors_that_a_strict_loader_must_refuse() -> None:
    rejects = [vector for vector in vectors("jcs_rfc8785") if vector["expected"].get("result") == "reject"]
    assert len(rejects) >= 10
    for vector in rejects:
        text = vector["input"]["json_text"].encode("utf-8", "surrogatepass")
        with pytest.raises(MalformedInput):
            loads(text)


@pytest.mark.external
def test_the_vectors_that_are_json_are_read() -> None:
    for vector in vectors("jcs_rfc8785"):
        if vector["expected"].get("result") != "reject":
            assert loads(vector["input"]["json_text"].encode()) == json.loads(vector["input"]["json_text"])

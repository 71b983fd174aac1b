"""The one JSON parser in front of everything (spec section 2, stage 1).

RFC 8259 text, restricted so that policy, approver and executor cannot read different values out of
the same bytes (I-JSON, RFC 7493): duplicate names, NaN and Infinity, integer literals beyond
±(2^53−1), numbers that overflow a double, lone surrogates, nesting over 64, over 10,000 values and
invalid UTF-8 are refused. The verdict is the fast pass's alone; `_Locator` only finds where the fault
stands.

A parser on an event loop stops everybody while it runs, so what is done in Python is bounded by
`MAX_VALUES`, and only what is done in C (the decoder, the patterns below) grows with the text.
"""

import json
import re
from collections.abc import Callable
from typing import Any, Final, NoReturn

from authz.errors import MalformedInput, TooLarge

type_names: Final = {
    str: "string",
    bool: "boolean",
    int: "integer",
    float: "number",
    list: "array",
    dict: "object",
    type(None): "null",
}

JsonValue = Any
"""What `loads` returns: dict, list, str, int, float, bool, None. Kept loose: the tree is recursive."""

MAX_DEPTH: Final = 64
MAX_SAFE_INTEGER: Final = 2**53 - 1
MAX_VALUES: Final = 10_000
"""Scalars, arrays and objects of one text; names of members are not counted."""

# The token patterns read each character once: every quantifier is possessive, and nothing fails after it
# has taken a character. A string without an end goes to the end of the text, because a pattern that
# failed on it would be tried again at each quote inside.
_BLANKS: Final = r"[ \t\n\r]*+"
_WHOLE_STRING: Final = r'"[^"\\]*+(?:\\[\s\S]?+[^"\\]*+)*+"?+'
_TOKEN: Final = rf'(?:[\[{{]|[^ \t\n\r:,\[\]{{}}"]++|{_WHOLE_STRING})'
# A token with a colon after it is a name, and counts together with the value that it names.
_COUNTED: Final = rf"{_TOKEN}{_BLANKS}(?::{_BLANKS}{_TOKEN}?+)?+"
_UNCOUNTED: Final = r"[ \t\n\r:,\]}]*+"
_TOO_MANY_VALUES = re.compile(rf"(?:{_UNCOUNTED}{_COUNTED}){{{MAX_VALUES}}}+{_UNCOUNTED}(?=[\s\S])")
"""As many values as a text may have, up to where one more (or its name) begins."""
_UP_TO_BRACKET = re.compile(rf'(?:[^"\[\]{{}}]++|{_WHOLE_STRING})*+[\[\]{{}}]')
_SURROGATE_ESCAPE = re.compile(r"\\u[dD][89a-fA-F]")
_SURROGATE = re.compile("[\ud800-\udfff]")
_INFINITY: Final = float("inf")


class _Flaw(ValueError):
    """A fault that a hook of the decoder found; it does not know where it stands."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


def _unique_pairs(pairs: list[tuple[str, JsonValue]]) -> dict[str, JsonValue]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise _Flaw("input.duplicate_name", "an object has the same name twice; send each name once")
    return members


def _safe_integer(literal: str) -> int:
    # The length first: int() of a long literal is quadratic, and capped by the interpreter.
    if len(literal) <= 17:
        number = int(literal)
        if -MAX_SAFE_INTEGER <= number <= MAX_SAFE_INTEGER:
            return number
    raise _Flaw("input.unsafe_integer", "an integer is beyond ±(2^53-1); send it as a string")


def _finite_number(literal: str) -> float:
    number = float(literal)
    if number in (_INFINITY, -_INFINITY):
        raise _Flaw("input.number_overflow", "a number does not fit a double; send it as a string")
    return number


def _no_constant(literal: str) -> NoReturn:
    raise _Flaw("input.not_a_number", "`NaN` and `Infinity` are not JSON")


_decoder = json.JSONDecoder(
    object_pairs_hook=_unique_pairs,
    parse_int=_safe_integer,
    parse_float=_finite_number,
    parse_constant=_no_constant,
    strict=True,
)


def loads(data: bytes, *, max_bytes: int | None = None) -> JsonValue:
    """Parse `data`, or raise `MalformedInput` with a code, a JSON Pointer, a line and a column.

    `max_bytes` bounds the size of the text; over it `TooLarge` is raised and nothing is parsed.
    """
    if max_bytes is not None and len(data) > max_bytes:
        raise TooLarge(f"the body is over {max_bytes} bytes", code="input.too_large")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        line, column = _line_and_column(data[: error.start].decode("utf-8", "replace"))
        raise MalformedInput(
            "the text is not valid UTF-8", code="input.invalid_utf8", line=line, column=column
        ) from None
    # Every value but the first stands after a comma or is the first of its container, and nesting
    # cannot exceed the number of opening brackets: most texts need neither scan.
    openings = data.count(b"[") + data.count(b"{")
    if 1 + data.count(b",") + openings > MAX_VALUES:
        _check_values(text)
    if openings > MAX_DEPTH:
        _check_depth(text)
    try:
        value = _decoder.decode(text)
        if "\\u" in text and _SURROGATE_ESCAPE.search(text):
            _check_surrogates(value)
    except (_Flaw, json.JSONDecodeError) as error:
        raise _located(text, error) from None
    return value


def _check_values(text: str) -> None:
    """Refuse over `MAX_VALUES` values. Of a text that passes the decoder meets no more, JSON or not."""
    if found := _TOO_MANY_VALUES.match(text):
        line, column = _line_and_column(text[: found.end()])
        raise MalformedInput(
            f"the text has over {MAX_VALUES} values; send fewer, or bulk data as one string",
            code="input.too_many_values",
            line=line,
            column=column,
        )


def _check_depth(text: str) -> None:
    """Refuse nesting over `MAX_DEPTH`. One turn a bracket, and none after the root has ended."""
    depth = 0
    at = 0
    while found := _UP_TO_BRACKET.match(text, at):
        at = found.end()
        if text[at - 1] in "[{":
            depth += 1
        else:
            depth -= 1
        if depth > MAX_DEPTH:
            line, column = _line_and_column(text[: at - 1])
            raise MalformedInput(
                f"nesting is over {MAX_DEPTH} levels", code="input.too_deep", line=line, column=column
            )
        if depth <= 0:
            return


def _check_surrogates(value: JsonValue) -> None:
    pending = [value]
    while pending:
        item = pending.pop()
        if isinstance(item, str):
            if _SURROGATE.search(item):
                raise _Flaw("input.lone_surrogate", "a string has a lone surrogate, which is no character")
        elif isinstance(item, list):
            pending.extend(item)
        elif isinstance(item, dict):
            pending.extend(item)
            pending.extend(item.values())


def _located(text: str, error: "_Flaw | json.JSONDecodeError") -> MalformedInput:
    code = error.code if isinstance(error, _Flaw) else "input.not_json"
    message = error.message if isinstance(error, _Flaw) else f"the text is not JSON: {error.msg.lower()}"
    locator = _Locator(text, code)
    position = locator.find()
    if isinstance(error, json.JSONDecodeError):
        position = error.pos
    line, column = _line_and_column(text[:position])
    return MalformedInput(message, code=code, pointer=locator.pointer(), line=line, column=column)


def _line_and_column(before: str) -> tuple[int, int]:
    newline = before.rfind("\n")
    return before.count("\n") + 1, len(before) - newline


def escape_pointer(token: str) -> str:
    """`token` as one reference token of a JSON Pointer (RFC 6901, section 3)."""
    return token.replace("~", "~0").replace("/", "~1") if "~" in token or "/" in token else token


_NUMBER = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][-+]?\d+)?|-?Infinity|NaN")
_STRING = re.compile(r'"[^"\\\x00-\x1f]*+(?:\\.[^"\\\x00-\x1f]*+)*+"', re.DOTALL)
_BLANK = re.compile(r"[ \t\n\r]*")
_LITERAL = re.compile(r"true|false|null")


class _Stop(Exception):
    """Ends the walk at the fault."""


class _Locator:
    """Walks a text that was already refused, to name the first place of its fault and the pointer to it.

    Only what `code` names is a fault here: a text may have others, which the fast pass met later.
    Every turn takes a value that `loads` has counted, and no turn looks back.
    """

    def __init__(self, text: str, code: str) -> None:
        self._text = text
        self._code = code
        self._at = 0
        self._path: list[str] = []

    def find(self) -> int:
        """The offset of the first fault; the end of the text when none is seen."""
        try:
            self._value()
        except _Stop:
            pass
        return self._at

    def pointer(self) -> str:
        return "".join("/" + escape_pointer(token) for token in self._path)

    def _blank(self) -> None:
        found = _BLANK.match(self._text, self._at)
        self._at = found.end() if found else self._at

    def _value(self) -> None:
        self._blank()
        char = self._text[self._at : self._at + 1]
        if char == "{":
            self._members()
        elif char == "[":
            self._items()
        elif char == '"':
            self._string()
        elif found := _LITERAL.match(self._text, self._at):
            self._at = found.end()
        else:
            self._number()

    def _number(self) -> None:
        found = _NUMBER.match(self._text, self._at)
        if not found:
            raise _Stop
        literal = found.group()
        check: Callable[[str], object] = _safe_integer
        if literal[-1] in "yN":
            check = _no_constant
        elif any(mark in literal for mark in ".eE"):
            check = _finite_number
        try:
            check(literal)
        except _Flaw as flaw:
            self._stop_at(flaw.code)
        self._at = found.end()

    def _stop_at(self, code: str) -> None:
        if code == self._code:
            raise _Stop

    def _string(self) -> str:
        found = _STRING.match(self._text, self._at)
        if not found:
            raise _Stop
        value = found.group()[1:-1]
        try:
            if "\\" in value:
                value = json.loads(found.group())
                _check_surrogates(value)
        except _Flaw as flaw:
            self._stop_at(flaw.code)
        except ValueError:
            raise _Stop from None
        self._at = found.end()
        return value

    def _members(self) -> None:
        self._at += 1
        names: set[str] = set()
        self._blank()
        if self._text.startswith("}", self._at):
            self._at += 1
            return
        while True:
            self._blank()
            start = self._at
            name = self._string()
            self._path.append(name)
            if name in names and self._code == "input.duplicate_name":
                self._at = start
                raise _Stop
            names.add(name)
            self._expect(":")
            self._value()
            self._path.pop()
            if self._closes("}"):
                return

    def _items(self) -> None:
        self._at += 1
        self._blank()
        if self._text.startswith("]", self._at):
            self._at += 1
            return
        index = 0
        while True:
            self._path.append(str(index))
            self._value()
            self._path.pop()
            index += 1
            if self._closes("]"):
                return

    def _expect(self, mark: str) -> None:
        self._blank()
        if not self._text.startswith(mark, self._at):
            raise _Stop
        self._at += 1

    def _closes(self, mark: str) -> bool:
        self._blank()
        if self._text.startswith(mark, self._at):
            self._at += 1
            return True
        self._expect(",")
        return False

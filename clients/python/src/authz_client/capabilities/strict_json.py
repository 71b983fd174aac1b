"""JSON with one meaning for every text, in front of everything that a token holds.

RFC 8259, restricted as the service restricts it (I-JSON, RFC 7493): duplicate names, NaN and Infinity,
integer literals beyond ±(2^53−1), numbers that overflow a double, lone surrogates, invalid UTF-8, nesting
over 64 and over 10,000 values are refused. A test holds the verdicts equal to the service's parser.
"""

import json
import re
from typing import Any, Final, NoReturn

MAX_DEPTH: Final = 64
MAX_SAFE_INTEGER: Final = 2**53 - 1
MAX_VALUES: Final = 10_000
"""Scalars, arrays and objects of one text; names of members are not counted."""

_SURROGATE_ESCAPE = re.compile(r"\\u[dD][89a-fA-F]")
_SURROGATE = re.compile("[\ud800-\udfff]")
_INFINITY: Final = float("inf")


class NotStrictJson(ValueError):
    """The text is not JSON, or readers could take it differently. Says why, without echoing it."""


def _unique_pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise NotStrictJson("an object has the same name twice")
    return members


def _safe_integer(literal: str) -> int:
    # The length first: int() of a long literal is quadratic, and capped by the interpreter.
    if len(literal) <= 17:
        number = int(literal)
        if -MAX_SAFE_INTEGER <= number <= MAX_SAFE_INTEGER:
            return number
    raise NotStrictJson("an integer is beyond ±(2^53-1)")


def _finite_number(literal: str) -> float:
    number = float(literal)
    if number in (_INFINITY, -_INFINITY):
        raise NotStrictJson("a number does not fit a double")
    return number


def _no_constant(literal: str) -> NoReturn:
    raise NotStrictJson(f"`{literal}` is not JSON")


_decoder = json.JSONDecoder(
    object_pairs_hook=_unique_pairs,
    parse_int=_safe_integer,
    parse_float=_finite_number,
    parse_constant=_no_constant,
    strict=True,
)


def loads(data: bytes) -> Any:
    """The value of `data`. Raises `NotStrictJson`. Bounding the size of `data` is the caller's."""
    openings = data.count(b"[") + data.count(b"{")
    try:
        text = data.decode("utf-8")
        value = _decoder.decode(text)
    except UnicodeDecodeError:
        raise NotStrictJson("the text is not valid UTF-8") from None
    except json.JSONDecodeError as error:
        raise NotStrictJson(f"the text is not JSON: {error.msg.lower()}") from None
    except RecursionError:
        raise NotStrictJson(f"nesting is over {MAX_DEPTH} levels") from None
    # Nesting cannot exceed the number of opening brackets, and every value but the first stands after a
    # comma or is the first of its container: most texts need no walk.
    may_hold_surrogates = "\\u" in text and _SURROGATE_ESCAPE.search(text) is not None
    if may_hold_surrogates or openings > MAX_DEPTH or 1 + data.count(b",") + openings > MAX_VALUES:
        _check_tree(value)
    return value


def _check_tree(root: Any) -> None:
    count = 0
    pending = [(root, 1)]
    while pending:
        value, depth = pending.pop()
        count += 1
        if count > MAX_VALUES:
            raise NotStrictJson(f"the text has over {MAX_VALUES} values")
        if isinstance(value, str):
            _check_text(value)
        elif isinstance(value, list | dict):
            if depth > MAX_DEPTH:
                raise NotStrictJson(f"nesting is over {MAX_DEPTH} levels")
            members = value
            if isinstance(value, dict):
                for name in value:
                    _check_text(name)
                members = list(value.values())
            pending.extend((member, depth + 1) for member in members)


def _check_text(text: str) -> None:
    if _SURROGATE.search(text):
        raise NotStrictJson("a string has a lone surrogate, which is no character")

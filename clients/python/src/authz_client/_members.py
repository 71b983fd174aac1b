"""Reading the members of an answer. What is missing or of another type is a `MalformedAnswer`."""

import re
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, Final, TypeVar

from authz_client.errors import MalformedAnswer

_T = TypeVar("_T")
Members = Mapping[str, Any]

# RFC 3339. `fromisoformat` alone also takes dates, week dates and times without a zone.
_INSTANT: Final = re.compile(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d{1,9})?([Zz]|[+-]\d\d:\d\d)", re.ASCII)


def an_object(value: object, name: str) -> Members:
    """`value`, called `name` in what is raised."""
    if not isinstance(value, dict):
        raise MalformedAnswer(f"`{name}` must be an object")
    return value


def text(members: Members, name: str) -> str:
    """A string that is not empty."""
    value = members.get(name)
    if not isinstance(value, str) or not value:
        raise MalformedAnswer(f"`{name}` must be a non-empty string")
    return value


def optional(members: Members, name: str, read: Callable[[Members, str], _T]) -> _T | None:
    """By `read`, or `None` where the member is absent or null."""
    return None if members.get(name) is None else read(members, name)


def optional_text(members: Members, name: str) -> str | None:
    """A string, also an empty one."""
    value = members.get(name)
    if value is not None and not isinstance(value, str):
        raise MalformedAnswer(f"`{name}` must be a string")
    return value


def optional_integer(members: Members, name: str) -> int | None:
    """An integer."""
    value = members.get(name)
    if value is not None and type(value) is not int:  # `True` is an int to Python, not to JSON
        raise MalformedAnswer(f"`{name}` must be an integer")
    return value


def optional_boolean(members: Members, name: str) -> bool:
    """A boolean; absent is false."""
    value = members.get(name)
    if value is not None and not isinstance(value, bool):
        raise MalformedAnswer(f"`{name}` must be a boolean")
    return value is True


def each(
    members: Members, name: str, read: Callable[[object], _T], *, required: bool = False
) -> tuple[_T, ...]:
    """Each item by `read`; absent is empty unless `required`."""
    value = members.get(name)
    if value is None and not required:
        return ()
    if not isinstance(value, list):
        raise MalformedAnswer(f"`{name}` must be an array")
    return tuple(read(item) for item in value)


def texts(members: Members, name: str) -> tuple[str, ...]:
    """Strings; absent is none."""
    values = each(members, name, lambda item: item)
    if not all(isinstance(value, str) for value in values):
        raise MalformedAnswer(f"`{name}` must be an array of strings")
    return tuple(str(value) for value in values)


def instant(members: Members, name: str) -> datetime:
    """An RFC 3339 date and time with an offset."""
    found = text(members, name)
    try:
        if _INSTANT.fullmatch(found) is None:
            raise ValueError
        return datetime.fromisoformat(found.upper())
    except ValueError:
        raise MalformedAnswer(f"`{name}` must be an RFC 3339 date and time with an offset") from None

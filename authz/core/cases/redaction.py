"""Values of a case that the log holds only as digests: marked, so that no such case is ever run as it is."""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from authz.core.pointer import Tokens

_MARK: Final = re.compile(r"<<fill in: [^<>]*>>")
_DIGEST: Final = re.compile(r"(?:redacted:)?hmac-sha256:[0-9a-f]{32}")
"""What the redactor writes in place of a text, whole or as a part of one (a name, a part of a uri)."""


def redacted_places(value: Any, at: Tokens = ()) -> Iterator[Tokens]:
    """Where in a call a mark still stands, in a value or in a name."""
    if isinstance(value, Mapping):
        for name, member in value.items():
            if _MARK.search(str(name)):
                yield (*at, str(name))
            yield from redacted_places(member, (*at, str(name)))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from redacted_places(item, (*at, str(index)))
    elif isinstance(value, str) and _MARK.search(value):
        yield at


def marked(value: Any) -> Any:
    """What a record says, with a mark wherever the log has a digest in place of the value."""
    if isinstance(value, Mapping):
        if isinstance(value.get("redacted"), str) and value.keys() <= {"redacted", "length", "leaves"}:
            return mark(value["redacted"], value.get("length"))
        return {marked(name): marked(member) for name, member in value.items()}
    if isinstance(value, list):
        return [marked(item) for item in value]
    if isinstance(value, str):
        return _DIGEST.sub(lambda found: mark(found.group().removeprefix("redacted:")), value)
    return value


def mark(what: str, length: int | None = None) -> str:
    """The text that stands for a value that is not known."""
    size = f", {length} characters" if length is not None else ""
    return f"<<fill in: {what}{size}>>"

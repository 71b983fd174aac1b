"""`application/x-www-form-urlencoded` bodies, read as strictly as JSON: every parameter once, in UTF-8."""

from collections.abc import Sequence
from typing import Final
from urllib.parse import parse_qsl

from authz.errors import MalformedInput

MAX_PARAMETERS: Final = 32
_MEDIA_TYPE: Final = b"application/x-www-form-urlencoded"


def is_form(headers: Sequence[tuple[bytes, bytes]]) -> bool:
    """Whether the one `Content-Type` says that the body is a form, which is not compressed."""
    said = [value for name, value in headers if name == b"content-type"]
    encoded = any(name == b"content-encoding" for name, _ in headers)
    if len(said) != 1 or encoded:
        return False
    media_type, _, parameters = said[0].partition(b";")
    if media_type.strip().lower() != _MEDIA_TYPE:
        return False
    return parameters.strip().lower().replace(b'"', b"") in (b"", b"charset=utf-8")


def read_form(body: bytes) -> dict[str, str]:
    """The parameters of a form. Raises `MalformedInput`; one that is sent twice could be read in two ways."""
    try:
        pairs = parse_qsl(
            body.decode("ascii"),
            keep_blank_values=True,
            strict_parsing=True,
            encoding="utf-8",
            errors="strict",
            max_num_fields=MAX_PARAMETERS,
        )
    except ValueError:
        raise MalformedInput("the form is malformed, or not in UTF-8", code="input.malformed") from None
    found = dict(pairs)
    if len(found) != len(pairs):
        raise MalformedInput("a parameter is sent twice; send each once", code="input.duplicate_name")
    return found

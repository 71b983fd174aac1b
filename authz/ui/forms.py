"""What a form posts, read strictly: urlencoded, in UTF-8, and small."""

from collections.abc import Iterator, Mapping
from typing import Final
from urllib.parse import parse_qsl

from fastapi import Request

from authz.errors import MalformedInput
from authz.ui.bodies import read_body

MAX_FORM_BYTES: Final = 256 * 1024
"""An assertion of a passkey, a reason, and a number for each value that was opened."""
MAX_FIELDS: Final = 10_000


class Form(Mapping[str, str]):
    """The fields of a form. A field that comes more than once is only read by `every`."""

    def __init__(self, fields: list[tuple[str, str]]) -> None:
        self._fields = fields
        self._by_name = dict(reversed(fields))

    def __getitem__(self, name: str) -> str:
        return self._by_name[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_name)

    def __len__(self) -> int:
        return len(self._by_name)

    def every(self, name: str) -> list[str]:
        """All values of a field, in order."""
        return [value for found, value in self._fields if found == name]


async def form_of(request: Request) -> Form:
    """The form of a request, read once. Raises `MalformedInput` or `TooLarge`."""
    kept = getattr(request.state, "form", None)
    if isinstance(kept, Form):
        return kept
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type != "application/x-www-form-urlencoded":
        raise MalformedInput("a form is sent as `application/x-www-form-urlencoded`", code="input.media_type")
    body = await read_body(request, MAX_FORM_BYTES, what="the form")
    try:
        fields = parse_qsl(
            body.decode("ascii"), keep_blank_values=True, max_num_fields=MAX_FIELDS, errors="strict"
        )
    except ValueError:
        raise MalformedInput("the form cannot be read, send it again", code="input.form") from None
    form = Form(fields)
    request.state.form = form
    return form

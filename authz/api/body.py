"""Bodies of requests: declared as JSON, bounded in size and in time."""

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from typing import Any, Final

from authz.errors import MalformedInput, TooLarge

Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]

BODY_TIMEOUT_SECONDS: Final = 30.0
"""How long the rest of a body may take once it has begun; its beginning is the connection's to await."""


def check_media_type(headers: Sequence[tuple[bytes, bytes]]) -> None:
    """Bodies are JSON in UTF-8, not compressed, and say so. Raises `MalformedInput` (`input.media_type`).

    Of two headers both must say it: which one another reader would follow is not known.
    """
    declared = False
    for name, value in headers:
        if name == b"content-type":
            if value != b"application/json" and not _is_json(value):
                raise _refused("send one `Content-Type: application/json`, in UTF-8")
            declared = True
        elif name == b"content-encoding" and value.strip().lower() != b"identity":
            raise _refused("send the body without `Content-Encoding`")
    if not declared:
        raise _refused("send `Content-Type: application/json`")


def _is_json(value: bytes) -> bool:
    media_type, *parameters = value.split(b";")
    if media_type.strip().lower() != b"application/json":
        return False
    for parameter in parameters:
        name, _, said = parameter.partition(b"=")
        if name.strip().lower() == b"charset" and said.strip().strip(b'"').lower() != b"utf-8":
            return False
    return True


def _refused(message: str) -> MalformedInput:
    return MalformedInput(message, code="input.media_type")


async def read_body(receive: Receive, max_bytes: int, timeout_seconds: float | None = None) -> bytes:
    """The whole body, or `TooLarge` as soon as it is longer than `max_bytes`.

    Raises `MalformedInput` with `input.incomplete` when the client leaves and `input.timeout` when the
    body is not complete in time.
    """
    # Nearly every body comes in one piece: only one that does not costs a timer.
    first, more = _piece(await receive())
    if len(first) > max_bytes:
        raise _too_large(max_bytes)
    if not more:
        return first
    chunks = [first]
    size = len(first)
    try:
        async with asyncio.timeout(BODY_TIMEOUT_SECONDS if timeout_seconds is None else timeout_seconds):
            while more:
                chunk, more = _piece(await receive())
                size += len(chunk)
                if size > max_bytes:
                    raise _too_large(max_bytes)
                chunks.append(chunk)
    except TimeoutError:
        raise MalformedInput(
            "the body did not arrive in time; send it at once", code="input.timeout"
        ) from None
    return b"".join(chunks)


def _piece(message: MutableMapping[str, Any]) -> tuple[bytes, bool]:
    if message["type"] == "http.disconnect":
        raise MalformedInput("the client went away before the body was complete", code="input.incomplete")
    return message.get("body", b""), message.get("more_body", False)


def _too_large(max_bytes: int) -> TooLarge:
    return TooLarge(f"the body is over {max_bytes} bytes", code="input.too_large")

"""Bodies of requests for pages: bounded in size and in time, whoever sends them."""

import asyncio
from typing import Final

from fastapi import Request
from starlette.requests import ClientDisconnect

from authz.errors import MalformedInput, TooLarge

BODY_TIMEOUT_SECONDS: Final = 30.0
"""How long a body may take once its head is there: a connection that is held open is one that others lack."""


async def read_body(request: Request, max_bytes: int, *, what: str) -> bytes:
    """The whole body. `what` it is, the error says.

    Raises `TooLarge` as soon as it is longer than `max_bytes`, `MalformedInput` with `input.timeout` when it
    is not complete in time, and with `input.incomplete` when the client leaves.
    """
    body = bytearray()
    try:
        async with asyncio.timeout(BODY_TIMEOUT_SECONDS):
            async for chunk in request.stream():
                body += chunk
                if len(body) > max_bytes:
                    raise TooLarge(f"{what} is larger than any of ours", code="input.too_large")
    except TimeoutError:
        raise MalformedInput(f"{what} did not arrive in time, send it again", code="input.timeout") from None
    except ClientDisconnect:
        raise MalformedInput(f"{what} is incomplete, send it again", code="input.incomplete") from None
    return bytes(body)

"""Servers to compare with, under the settings of `authz serve`: run as `python -m tests.bench.baselines`."""

import argparse
import asyncio
from typing import Any, Final

import uvicorn
import uvloop
from fastapi import FastAPI
from pydantic import BaseModel

OK: Final = b'{"ok":true}'
_HEADERS: Final = [(b"content-type", b"application/json"), (b"content-length", str(len(OK)).encode())]


async def empty(scope: dict[str, Any], receive: Any, send: Any) -> None:
    """The least that an ASGI application can do: read nothing, answer a constant."""
    await send({"type": "http.response.start", "status": 200, "headers": _HEADERS})
    await send({"type": "http.response.body", "body": OK})


class Item(BaseModel):
    """A small body, as a first FastAPI application has it."""

    name: str
    price: float
    tags: list[str] = []


class Accepted(BaseModel):
    """The answer to it."""

    ok: bool


def fastapi_application() -> FastAPI:
    """One route with a validated body and a response model."""
    api = FastAPI(openapi_url=None)

    @api.post("/items")
    async def accept(item: Item) -> Accepted:
        return Accepted(ok=bool(item.name))

    return api


def main() -> None:
    """Serve one of the two until a signal asks to stop."""
    parser = argparse.ArgumentParser()
    parser.add_argument("application", choices=["empty", "fastapi"])
    parser.add_argument("--port", type=int, required=True)
    args = parser.parse_args()
    config = uvicorn.Config(
        empty if args.application == "empty" else fastapi_application(),
        host="127.0.0.1",
        port=args.port,
        http="httptools",
        ws="none",
        lifespan="off",
        access_log=False,
        log_config=None,
        server_header=False,
        date_header=False,
    )
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(uvicorn.Server(config).serve())


if __name__ == "__main__":
    main()

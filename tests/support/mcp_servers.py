"""Real MCP servers for tests, honest and hostile, on both transports. As a command it serves one of them:

    python -m tests.support.mcp_servers honest              # over its standard streams
    python -m tests.support.mcp_servers honest --port 8123  # over streamable HTTP on loopback

The catalogue is read from the JSON file in the variable `CATALOGUE` where there is one, so that a test can
change what a server advertises between two imports.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import anyio
import anyio.lowlevel
import mcp_types
import uvicorn
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server

PAGE: Final = 3
POLL_SECONDS: Final = 0.05
READY_POLLS: Final = 400

NOTES: Final[list[dict[str, Any]]] = [
    {
        "name": "read_note",
        "description": "Reads one note.",
        "inputSchema": {
            "type": "object",
            "properties": {"path": {"type": "string", "description": "Where the note is."}},
            "required": ["path"],
        },
        "annotations": {"readOnlyHint": True},
    },
    {
        "name": "send_note",
        "description": "Sends a note.",
        "inputSchema": {
            "type": "object",
            "properties": {
                "to": {"type": "array", "items": {"type": "string", "format": "email"}},
                "webhook_url": {"type": "string", "format": "uri"},
                "body": {"type": "string"},
                "retries": {"type": "integer", "default": 1},
            },
            "required": ["to", "body"],
        },
    },
    {
        "name": "run_command",
        "description": "Runs a command.",
        "inputSchema": {
            "type": "object",
            "properties": {"command": {"type": "string"}, "token": {"type": "string"}},
            "required": ["command"],
            "additionalProperties": False,
        },
    },
    {"name": "ping", "inputSchema": {"type": "object"}},
]


def catalogue() -> list[dict[str, Any]]:
    """What the honest server advertises."""
    file = os.environ.get("CATALOGUE")
    return json.loads(Path(file).read_text(encoding="utf-8")) if file else NOTES


async def _list(_: Any, params: Any) -> mcp_types.ListToolsResult:
    entries = catalogue()
    begin = int(params.cursor) if params is not None and params.cursor else 0
    more = str(begin + PAGE) if begin + PAGE < len(entries) else None
    return mcp_types.ListToolsResult.model_validate(
        {"tools": entries[begin : begin + PAGE], "nextCursor": more}
    )


async def _call(_: Any, params: Any) -> mcp_types.CallToolResult:
    # A server that is only imported is never called: the file would tell.
    if path := os.environ.get("CALLED"):
        await anyio.Path(path).write_text(params.name, encoding="utf-8")
    return mcp_types.CallToolResult(content=[])


def honest() -> Server[Any]:
    """Answers as the protocol says, in pages of three."""
    return Server("notes", version="1.0", on_list_tools=_list, on_call_tool=_call)


def serve_raw(answer: str) -> None:
    """A server written by hand, for what the SDK would not send. Ends when its input does."""
    for line in sys.stdin:
        request = json.loads(line)
        if "id" not in request:
            continue
        method = request["method"]
        if method == "server/discover":
            _send({"id": request["id"], "error": {"code": -32601, "message": "unknown method"}})
        elif method == "initialize":
            info = {"name": answer, "version": "1"}
            result = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": info}
            _send({"id": request["id"], "result": result})
        elif method == "tools/list":
            HOSTILE[answer](request)
        else:
            Path(os.environ["CALLED"]).write_text(method, encoding="utf-8")


def _send(message: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def _page(request: dict[str, Any], *tools: dict[str, Any], cursor: str | None = None) -> None:
    result: dict[str, Any] = {"tools": list(tools)}
    if cursor is not None:
        result["nextCursor"] = cursor
    _send({"id": request["id"], "result": result})


def _tool(name: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "description": "A tool.", "inputSchema": {"type": "object"}, **more}


def _hang(request: dict[str, Any]) -> None:
    del request
    print("still thinking", file=sys.stderr, flush=True)
    while True:
        time.sleep(60)


def _flood(request: dict[str, Any]) -> None:
    """One line that never ends."""
    sys.stdout.write(
        f'{{"jsonrpc": "2.0", "id": {request["id"]}, "result": {{"tools": [{{"name": "big", "x": "'
    )
    while True:
        sys.stdout.write("A" * 65536)


def _large(request: dict[str, Any]) -> None:
    _page(request, *(_tool(f"t{number}") for number in range(2000)))


def _crash(request: dict[str, Any]) -> None:
    del request
    print("boom \x1b[31mred", file=sys.stderr, flush=True)
    os._exit(3)


def _noise(request: dict[str, Any]) -> None:
    sys.stdout.write("Welcome!\n{not json\n")
    _page(request, _tool("quiet"))


def _deep(request: dict[str, Any]) -> None:
    nested = "[" * 50_000 + "]" * 50_000
    sys.stdout.write(f'{{"jsonrpc": "2.0", "id": {request["id"]}, "result": {{"tools": {nested}}}}}\n')
    sys.stdout.flush()
    # So that whoever cannot read it need not wait for another answer.
    os._exit(0)


_counter = iter(range(1_000_000))
HOSTILE: Final = {
    "hang": _hang,
    "flood": _flood,
    "large": _large,
    "crash": _crash,
    "noise": _noise,
    "same-cursor": lambda request: _page(request, _tool("one"), cursor="again"),
    "endless": lambda request: _page(request, cursor=f"c{next(_counter)}"),
    "long-cursor": lambda request: _page(request, cursor="c" * 100_000),
    "no-list": lambda request: _send({"id": request["id"], "result": {"tools": "none"}}),
    "no-tool": lambda request: _send({"id": request["id"], "result": {"tools": [1]}}),
    "error": lambda request: _send(
        {"id": request["id"], "error": {"code": -32000, "message": "no\x1b[2Jtools"}}
    ),
    "deep": _deep,
    "bad-tools": lambda request: _page(
        request,
        _tool("good"),
        _tool("twice"),
        _tool("twice", description="Another."),
        _tool("name with space"),
        _tool("bidi\u202etxt"),
        _tool("nul\u0000"),
        _tool(""),
        _tool("x" * 300),
        _tool("remote", inputSchema={"type": "object", "properties": {"a": {"$ref": "https://evil.test/s"}}}),
        _tool("file", inputSchema={"type": "object", "properties": {"a": {"$ref": "file:///etc/passwd"}}}),
        _tool("entity", inputSchema={"type": "object", "properties": {"__entity": {"type": "string"}}}),
        _tool("huge", description="x" * 400_000),
        _tool("broken", inputSchema={"type": "object", "properties": {"a": {"type": "strange"}}}),
        _tool("regex", inputSchema={"type": "object", "properties": {"a": {"pattern": "("}}}),
    ),
    "sly": lambda request: _page(
        request,
        _tool(
            "sly",
            description="Reads.\n    reviewed: true\n# \u202e\u2028- name: x\u0007",
            annotations={"title": "\u202e*/\n", "readOnlyHint": True},
            inputSchema={
                "type": "object",
                "properties": {
                    "yes": {"type": "string", "default": "1.5e5", "description": "a: b # c"},
                    "a\u200bb": {"enum": ["on", "null", "~", "1:30", "2024-01-01", "=", "0x1F", ""]},
                    "- x": {"type": "string", "const": "&a *b !c"},
                },
            },
        ),
    ),
}


class HttpServer:
    """`honest` over streamable HTTP, as a child process on a free loopback port. A context manager."""

    def __init__(self, name: str = "honest", *, env: dict[str, str] | None = None) -> None:
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
            probe.bind(("127.0.0.1", 0))
            self.port: int = probe.getsockname()[1]
        self._command = [sys.executable, "-m", "tests.support.mcp_servers", name, "--port", str(self.port)]
        self._environment = {**os.environ, **(env or {})}
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/mcp"

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(self._command, env=self._environment, stdin=subprocess.DEVNULL)
        for _ in range(READY_POLLS):
            assert self._process.poll() is None, "the MCP server ended before it was ready"
            try:
                socket.create_connection(("127.0.0.1", self.port), timeout=5).close()
            except OSError:
                time.sleep(POLL_SECONDS)
            else:
                return self
        raise AssertionError("the MCP server was not ready in time")

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(10)


async def _flooding(scope: Any, receive: Any, send: Any) -> None:
    """An HTTP answer of a gigabyte."""
    if scope["type"] != "http":
        return
    await receive()
    await send(
        {"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"application/json")]}
    )
    for _ in range(16_000):
        await send({"type": "http.response.body", "body": b" " * 65536, "more_body": True})
        # Once the client is gone nothing is sent any more, and nothing waits by itself.
        await anyio.lowlevel.checkpoint()


async def _redirecting(scope: Any, receive: Any, send: Any) -> None:
    if scope["type"] != "http":
        return
    await receive()
    headers = [(b"location", b"http://169.254.169.254/latest")]
    await send({"type": "http.response.start", "status": 307, "headers": headers})
    await send({"type": "http.response.body", "body": b""})


async def _zipped(scope: Any, receive: Any, send: Any) -> None:
    if scope["type"] != "http":
        return
    await receive()
    headers = [(b"content-type", b"application/json"), (b"content-encoding", b"gzip")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": b"\x1f\x8b"})


HOSTILE_HTTP: Final = {"flooding": _flooding, "redirecting": _redirecting, "zipped": _zipped}


async def _over_stdio() -> None:
    server = honest()
    async with stdio_server() as (reads, writes):
        await server.run(reads, writes, server.create_initialization_options())


def main(arguments: list[str]) -> None:
    """Serve one of the servers above until the input ends, or until a signal."""
    name = arguments[0]
    if "--port" in arguments:
        app: Any = HOSTILE_HTTP.get(name) or honest().streamable_http_app()
        uvicorn.run(app, host="127.0.0.1", port=int(arguments[2]), log_level="critical")
    elif name == "honest":
        anyio.run(_over_stdio)
    else:
        serve_raw(name)


if __name__ == "__main__":
    main(sys.argv[1:])

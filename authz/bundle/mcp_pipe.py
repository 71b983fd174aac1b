"""An MCP server as a child process, spoken to over its standard streams.

The SDK's own stdio transport keeps a line in memory however long it is, and hands the child's standard error
to our terminal. This one counts every byte that it reads, keeps the end of standard error to quote it, and
ends the child with all that it started.
"""

import os
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final

import anyio
import anyio.abc
from mcp.os.posix.utilities import terminate_posix_process_tree
from mcp.shared.message import SessionMessage
from mcp_types import Implementation, jsonrpc_message_adapter

CLIENT_NAME: Final = Implementation(name="authz-tools-import", version="1")
KEPT_ERROR_BYTES: Final = 1000
END_SECONDS: Final = 1.0
"""How long a child may take to end after its input was closed, and again after it was asked to."""

Streams = tuple[Any, Any]


class ServerPipe:
    """What is counted and kept of one server: how much it sent, and its last words."""

    def __init__(self, *, max_bytes: int) -> None:
        self._left = max_bytes
        self._said = b""
        self.strange_lines = 0
        """Lines of standard output that were no JSON-RPC."""
        self.has_overflowed = False
        self.has_ended = False
        """True when standard output ended by itself, so that no answer can come."""
        self.is_closing = False

    def count(self, size: int) -> bool:
        """Count `size` bytes more; false when they were too many."""
        self._left -= size
        self.has_overflowed = self.has_overflowed or self._left < 0
        return not self.has_overflowed

    def heard(self, chunk: bytes) -> None:
        """Keep the end of what the child writes to standard error."""
        self._said = (self._said + chunk)[-KEPT_ERROR_BYTES:]

    def last_words(self) -> str:
        """The end of standard error, safe to print, as the end of a sentence; empty when there is none."""
        text = self._said.decode("utf-8", "replace").strip().replace("\n", " | ")
        words = "".join(char if char.isprintable() else "?" for char in text)
        strange = f"; {self.strange_lines} lines of it were no JSON-RPC" if self.strange_lines else ""
        return f"{strange}; it said: {words}" if words else strange


@asynccontextmanager
async def pipe_transport(
    words: Sequence[str], environment: Mapping[str, str], pipe: ServerPipe
) -> AsyncIterator[Streams]:
    """Start the command and give the two streams of an MCP transport; end it whatever happens.

    Raises `OSError` when the command cannot be started.
    """
    process = await anyio.open_process(
        list(words), env=dict(environment), start_new_session=os.name == "posix", cwd=os.curdir
    )
    to_session, from_server = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    to_server, from_session = anyio.create_memory_object_stream[SessionMessage](0)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_read_lines, process, to_session, pipe)
        tasks.start_soon(_write_lines, process, from_session)
        tasks.start_soon(_read_errors, process, pipe)
        try:
            yield from_server, to_server
        finally:
            pipe.is_closing = True
            with anyio.CancelScope(shield=True):
                await _end(process)
                for stream in (to_session, from_server, to_server, from_session):
                    await stream.aclose()
            tasks.cancel_scope.cancel()


async def _read_lines(process: anyio.abc.Process, to_session: Any, pipe: ServerPipe) -> None:
    """Messages, one a line. Too much, or the end of the stream, closes the session's side."""
    pending = bytearray()
    try:
        async with to_session:
            async for chunk in _chunks(process.stdout):
                if not pipe.count(len(chunk)):
                    return
                begin = len(pending)
                pending += chunk
                while (end := pending.find(b"\n", begin)) >= 0:
                    line = bytes(pending[:end])
                    del pending[: end + 1]
                    begin = 0
                    await _deliver(line, to_session, pipe)
            pipe.has_ended = not pipe.is_closing
    except (anyio.BrokenResourceError, anyio.ClosedResourceError):
        # The session has what it wanted and is gone.
        return


async def _deliver(line: bytes, to_session: Any, pipe: ServerPipe) -> None:
    if not line.strip():
        return
    try:
        message = jsonrpc_message_adapter.validate_json(line, by_name=False)
    except ValueError:
        # Many servers greet on standard output; what is no message answers nothing.
        pipe.strange_lines += 1
        return
    await to_session.send(SessionMessage(message))


async def _write_lines(process: anyio.abc.Process, from_session: Any) -> None:
    try:
        async with from_session:
            async for sent in from_session:
                text = sent.message.model_dump_json(by_alias=True, exclude_unset=True)
                if process.stdin is not None:
                    await process.stdin.send(text.encode() + b"\n")
    except (anyio.BrokenResourceError, anyio.ClosedResourceError, OSError):
        # The child closed its input: what it still says is read to its end.
        return


async def _read_errors(process: anyio.abc.Process, pipe: ServerPipe) -> None:
    async for chunk in _chunks(process.stderr):
        pipe.heard(chunk)


async def _chunks(stream: anyio.abc.ByteReceiveStream | None) -> AsyncIterator[bytes]:
    try:
        while stream is not None:
            yield await stream.receive()
    except (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError):
        return


async def _end(process: anyio.abc.Process) -> None:
    """Close its input, wait a little, then end the child and everything that it started."""
    if process.stdin is not None:
        try:
            await process.stdin.aclose()
        except OSError:
            # It is gone already.
            pass
    with anyio.move_on_after(END_SECONDS):
        await process.wait()
    if os.name == "posix":
        # Also when the child has ended: what it started may live on in its process group.
        await terminate_posix_process_tree(process, END_SECONDS)
    elif process.returncode is None:
        process.kill()
    with anyio.move_on_after(END_SECONDS):
        await process.wait()
    await process.aclose()

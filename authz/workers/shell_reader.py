"""Reads long shell lines in processes that can be killed, within a deadline (spec section 4).

The deadline is the second net: the size of a line is bounded before it is parsed, so on a machine that is not
overloaded no line comes near it. A line that does is `Opaque`, and its process is replaced.
"""

import asyncio
import contextlib
import logging
from typing import Final

from authz.core.canonical.shell import ShellAccess, unread_line
from authz.core.lines import Line
from authz.processes import command, environment
from authz.workers.shell_wire import decode_accesses, encode_line

DEADLINE_SECONDS: Final = 0.1
PROCESSES: Final = 2
MAX_ANSWER_BYTES: Final = 4 * 1024 * 1024

logger = logging.getLogger("authz.workers")


class ShellReader:
    """`authz.ports.LineReader` over a few child processes."""

    def __init__(self, *, deadline_seconds: float = DEADLINE_SECONDS, processes: int = PROCESSES) -> None:
        self._deadline = deadline_seconds
        self._count = processes
        self._idle: asyncio.Queue[asyncio.subprocess.Process] = asyncio.Queue()
        self._living: set[asyncio.subprocess.Process] = set()
        self._starting: set[asyncio.Task[None]] = set()
        self._is_closed = False

    async def start(self) -> None:
        """Start every process. Raises `OSError` when the first cannot be started."""
        for _ in range(self._count):
            await self._start_one()

    async def read(self, line: Line) -> tuple[ShellAccess, ...]:
        """What the line comes to; an `Opaque` where the deadline cut it off or no process is free."""
        try:
            async with asyncio.timeout(self._deadline):
                process = await self._idle.get()
        except TimeoutError:
            return _not_read(line, "busy")
        try:
            async with asyncio.timeout(self._deadline):
                answer = await _ask(process, line)
            found = decode_accesses(answer, line)
        except (TimeoutError, OSError, ValueError, asyncio.IncompleteReadError) as fault:
            logger.warning("a shell line was not read", extra={"fault": type(fault).__name__})
            self._replace(process)
            return _not_read(line, "deadline" if isinstance(fault, TimeoutError) else "failed")
        except BaseException:
            self._replace(process)  # whoever asked has gone away, and the answer would be the next one's
            raise
        self._idle.put_nowait(process)
        return found or _not_read(line, "failed")

    async def close(self) -> None:
        """End every process."""
        self._is_closed = True
        for task in tuple(self._starting):
            task.cancel()
        await asyncio.gather(*self._starting, return_exceptions=True)
        for process in tuple(self._living):
            await self._end(process)

    def _replace(self, process: asyncio.subprocess.Process) -> None:
        async def replace() -> None:
            await self._end(process)
            if not self._is_closed:
                await self._start_one()

        task = asyncio.create_task(replace())
        self._starting.add(task)
        task.add_done_callback(self._starting.discard)

    async def _start_one(self) -> None:
        process = await asyncio.create_subprocess_exec(
            *command("authz.workers.shell_child"),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            limit=MAX_ANSWER_BYTES,
            env=environment(),
            # Away from the terminal, whose interrupt is for the service.
            start_new_session=True,
        )
        self._living.add(process)
        self._idle.put_nowait(process)

    async def _end(self, process: asyncio.subprocess.Process) -> None:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()
        self._living.discard(process)


async def _ask(process: asyncio.subprocess.Process, line: Line) -> bytes:
    if process.stdin is None or process.stdout is None:
        raise OSError("the process has no pipes")
    process.stdin.write(encode_line(line))
    await process.stdin.drain()
    answer = await process.stdout.readline()
    if not answer.endswith(b"\n"):
        raise OSError("the process has ended")
    return answer


def _not_read(line: Line, reason: str) -> tuple[ShellAccess, ...]:
    """What forbids a program or a place that the line mentions holds all the same."""
    return unread_line(line.text, line.base, reason)

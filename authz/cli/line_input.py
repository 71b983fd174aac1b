"""Lines of a stream that a stranger writes: none is ever held in memory whole when it is too long."""

from collections.abc import Iterator
from typing import BinaryIO


def bounded_lines(stream: BinaryIO, max_bytes: int) -> Iterator[bytes]:
    """The lines of `stream`. Of one over `max_bytes` only a part, itself too long, is kept in memory."""
    while line := stream.readline(max_bytes + 2):
        rest = line
        while rest and not rest.endswith(b"\n"):
            rest = stream.readline(max_bytes + 2)
        yield line

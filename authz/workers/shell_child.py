"""The process that reads shell lines: one JSON object in for each line, one out."""

import sys

from authz.core.canonical.shell import analyse_shell
from authz.model.resource import NotCanonical
from authz.workers.shell_wire import decode_line, encode_accesses


def main() -> None:
    """Answer until standard input ends."""
    for data in sys.stdin.buffer:
        line = decode_line(data)
        found = analyse_shell(line.text, line.base, confined=line.confined)
        sys.stdout.buffer.write(encode_accesses(() if isinstance(found, NotCanonical) else found))
        sys.stdout.buffer.flush()

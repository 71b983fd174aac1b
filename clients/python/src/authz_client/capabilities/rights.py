"""R: what may be done. A verb, a tool, or a verb with one tool.

`read` is any tool that reads; `fs/file_edit` is that tool with every verb; `file_edit` is the tool of that
name on any server; `fs/file_edit:write` is one verb of one tool. Split at the last colon, where one of the
eight verbs follows: names of tools may hold colons themselves. A right is three questions (server, name,
verb), each answered or left open, and lies in another when every answer of the other is its own.
"""

import re
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from typing import Final

VERBS: Final = frozenset({"read", "write", "delete", "execute", "connect", "send", "transact", "administer"})
"""Spec section 1."""
_SERVER: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:/-]{0,127}")


RightKey = tuple[str | None, str | None, str | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Right:
    """One element of `actions`. `None` leaves open."""

    text: str
    server: str | None
    name: str | None
    verb: str | None
    above: frozenset["RightKey"]
    """The keys of all rights that this one lies in, its own among them."""

    @property
    def key(self) -> "RightKey":
        """The three answers."""
        return (self.server, self.name, self.verb)

    def covers(self, *, server: str, name: str, verb: str) -> bool:
        """Whether this right gives one verb of one tool."""
        return self.server in (None, server) and self.name in (None, name) and self.verb in (None, verb)


def tool_name(server: str, name: str) -> str:
    """The right that is one tool: `server/name`."""
    return f"{server}/{name}"


def split_tool(tool: str) -> tuple[str, str] | None:
    """Server and name of `server/name`; `None` for anything else."""
    server, slash, name = tool.partition("/")
    if not slash or _SERVER.fullmatch(server) is None or _NAME.fullmatch(name) is None:
        return None
    return server, name


def _right(text: str, server: str | None, name: str | None, verb: str | None) -> Right:
    above = frozenset(product({None, server}, {None, name}, {None, verb}))
    return Right(text=text, server=server, name=name, verb=verb, above=above)


@lru_cache(maxsize=1024)
def _known_right(text: str) -> Right | None:
    if text in VERBS:
        return _right(text, None, None, text)
    tool, _, verb = text.rpartition(":")
    if verb not in VERBS:
        tool, verb = text, ""
    if "/" in tool:
        parts = split_tool(tool)
        return parts and _right(text, *parts, verb or None)
    if tool in VERBS or _NAME.fullmatch(tool) is None:
        return None
    return _right(text, None, tool, verb or None)


def parse_right(text: str) -> Right | None:
    """The right that `text` writes; `None` for wildcards, look-alikes and whatever else is none."""
    return _known_right(text) if len(text) <= 256 else None

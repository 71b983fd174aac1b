"""Redirects: the files that they open, and what standard input is afterwards.

Source: bash's manual, "Redirections".
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from tree_sitter import Node

from authz.core.canonical.shell.effects import Effects, Unreduced
from authz.core.canonical.shell.state import State, in_order
from authz.core.canonical.shell.words import Scope, WordReader
from authz.model.resource import Verb

_NO_FILE: Final = frozenset(
    ("/dev/null", "/dev/stdin", "/dev/stdout", "/dev/stderr", "/dev/tty", "/dev/zero", "/dev/full")
)
_DESCRIPTOR: Final = re.compile(r"/dev/fd/\d+")
_NETWORK_DEVICE: Final = re.compile(r"/dev/(?:tcp|udp)/")
REDIRECTS: Final = frozenset(("file_redirect", "herestring_redirect", "heredoc_redirect"))
_FOLLOWERS: Final = frozenset(
    ("command", "pipeline", "list", "subshell", "compound_statement", "redirected_statement")
)
_BEFORE_FOLLOWERS: Final = frozenset(("&&", "||", "|", "|&", ";"))
_IN_HEREDOC: Final = frozenset(
    ("<<", "<<-", "heredoc_end", "file_descriptor", *_FOLLOWERS, *_BEFORE_FOLLOWERS)
)
_OPERATORS: Final = frozenset(("<", ">", ">>", "&>", "&>>", "<&", ">&", ">|", "<&-", ">&-"))


class Place(Protocol):
    """The walk, as far as redirects need it."""

    words: WordReader
    effects: Effects
    state: State

    def scope(self) -> Scope: ...


@dataclass(slots=True, kw_only=True)
class Redirected:
    """The parts of a statement with redirects."""

    body: Node | None = None
    redirects: list[Node] = field(default_factory=list)
    followers: list[tuple[str, Node]] = field(default_factory=list)
    """What stands behind the opener of a heredoc, each with the operator before it."""


def parts_of(node: Node) -> Redirected:
    """The parts of a `redirected_statement`. Raises `Unreduced` where it has others."""
    found = Redirected()
    for child in node.children:
        if child.type in REDIRECTS:
            found.redirects.append(child)
            if child.type == "heredoc_redirect":
                found.followers += _followers(child)
        elif found.body is None:
            found.body = child
        else:
            raise Unreduced("syntax_redirect")
    return found


def _followers(node: Node) -> Iterator[tuple[str, Node]]:
    operator = ""
    for child in node.children:
        if child.type in _BEFORE_FOLLOWERS:
            operator = "|" if child.type == "|&" else child.type
        elif child.type in _FOLLOWERS:
            yield operator, child


class Redirects:
    """The redirects of one line."""

    def __init__(self, place: Place) -> None:
        self._place = place

    def open(self, nodes: Sequence[Node], stdin: str | None) -> str | None:
        """Open these, in their order; what standard input is afterwards.

        It is a text that stands in the line, empty for what the line inherits, `None` for a pipe or a file.
        """
        for node in nodes:
            if node.type == "heredoc_redirect":
                stdin = self._heredoc(node, stdin)
            elif node.type == "herestring_redirect":
                stdin = self._herestring(node, stdin)
            else:
                stdin = self.file(node, stdin)
        return stdin

    def file(self, node: Node, stdin: str | None) -> str | None:
        """A redirect to or from a file or another descriptor."""
        operator, targets, is_input = "", [], False
        for child in node.children:
            if child.type in _OPERATORS:
                operator = child.type
            elif child.type != "file_descriptor":
                targets.append(child)
            else:
                is_input = self._place.words.text_of(child) == "0"
        reads = operator in ("<", "<&") or is_input
        if operator in ("<&-", ">&-") and not targets:
            return stdin
        if not operator or len(targets) != 1:
            raise Unreduced("syntax_redirect")
        if targets[0].type == "process_substitution":
            list(self._place.words.words(targets[0], self._place.scope()))
            return None if reads else stdin
        text = self._place.words.literal(targets[0], self._place.scope())
        if text is None:
            raise Unreduced("dynamic_redirect")
        if not (operator in ("<&", ">&") and re.fullmatch(r"\d+-?|-", text)):
            self._open(text, Verb.READ if operator in ("<", "<&") else Verb.WRITE)
        return None if reads else stdin

    def _open(self, text: str, verb: Verb) -> None:
        if text.startswith("/dev/"):
            if _NETWORK_DEVICE.match(text):
                raise Unreduced("network_device")
            if text in _NO_FILE or _DESCRIPTOR.fullmatch(text):
                return
        for directory in in_order(self._place.state.directories):
            self._place.effects.path(verb, text, directory)

    def _herestring(self, node: Node, stdin: str | None) -> str | None:
        found = [child for child in node.children if child.type not in ("<<<", "file_descriptor")]
        if len(found) != 1:
            raise Unreduced("syntax_redirect")
        text = self._place.words.literal(found[0], self._place.scope())
        return stdin if self._is_elsewhere(node) else text

    def _is_elsewhere(self, node: Node) -> bool:
        """Whether it is for another descriptor than standard input."""
        numbers = [child for child in node.children if child.type == "file_descriptor"]
        return any(self._place.words.text_of(child) != "0" for child in numbers)

    def _heredoc(self, node: Node, stdin: str | None) -> str | None:
        """The body of a heredoc, where it is a text. Its node also holds the rest of the opener's line."""
        quoted, body, inner = False, "", stdin
        for child in node.children:
            if child.type == "heredoc_start":
                quoted = any(mark in self._place.words.text_of(child) for mark in "'\"\\")
            elif child.type == "heredoc_body":
                body = self._place.words.text_of(child)
                if not quoted:
                    self._expansions(child)
            elif child.type in ("file_redirect", "herestring_redirect"):
                inner = self.open([child], inner)
            elif child.type not in _IN_HEREDOC:
                raise Unreduced("syntax_heredoc")  # words of the command, which the parser puts here
        if self._is_elsewhere(node):
            return inner
        if inner != stdin:
            return None  # a second redirect of the input: which of them comes last?
        return body if quoted or not re.search(r"[$`\\]", body) else None

    def _expansions(self, node: Node) -> None:
        """Commands in an unquoted body. What the parser took for text must hold none."""
        words, end = self._place.words, node.start_byte
        for child in node.children:
            self._check_text(words.between(end, child.start_byte))
            end = child.end_byte
            if child.type == "heredoc_content":
                self._check_text(words.text_of(child))
            else:
                list(words.words(child, self._place.scope()))
        self._check_text(words.between(end, node.end_byte))

    def _check_text(self, text: str) -> None:
        if re.search(r"[$`]", re.sub(r"\\.", "", text, flags=re.DOTALL)):
            raise Unreduced("heredoc")

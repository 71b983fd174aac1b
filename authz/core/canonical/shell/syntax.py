"""A line as a tree: what tree-sitter-bash makes of it, where every reader would make the same of it.

The grammar is not bash's own. Where the two are known to differ, or may differ, the line is not understood:
control characters, unusual blanks, a line continued inside a word, a tree with an error or something missing.

The parser may take time that grows with the square of the size, and more, so the size is bounded before it is
asked: the verdict on a line does not depend on how fast a machine is.
"""

import re
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import tree_sitter
import tree_sitter_bash
from tree_sitter import Node

from authz.core.canonical.shell.effects import Unreduced

MAX_LINE_BYTES: Final = 4096
"""A line of this size is parsed in well under a tenth of a second, whatever stands in it; one of 16 kB was
seen to take half a second, and one of 64 kB most of a minute."""

_LANGUAGE: Final = tree_sitter.Language(tree_sitter_bash.language())
_UNREADABLE: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ufeff]|[^\S \t\n]")
_CONTINUED: Final = re.compile(r"\\\n")
_BLANK_AROUND: Final = re.compile(r"[ \t]\\\n|\\\n(?=[ \t])")


_WITH_TEXT: Final = frozenset(("string", "heredoc_body", "heredoc_redirect", "expansion"))


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedLine:
    """A tree and the bytes that its nodes point into."""

    source: bytes
    root: Node


def parse_line(text: str, *, posix: bool = False) -> ParsedLine:
    """The tree of a line, for bash; with `posix`, of what every shell reads alike. Raises `Unreduced`."""
    try:
        source = text.encode("utf-8")
    except UnicodeEncodeError:
        raise Unreduced("surrogate") from None
    if len(source) > MAX_LINE_BYTES:
        raise Unreduced("too_long")
    if not (text.isascii() and text.isprintable()) and _UNREADABLE.search(text):
        raise Unreduced("control_character")
    if "\\\n" in text and len(_CONTINUED.findall(text)) != len(_BLANK_AROUND.findall(text)):
        raise Unreduced("continued_word")
    root = tree_sitter.Parser(_LANGUAGE).parse(source).root_node
    if root.type != "program" or root.has_error or root.end_byte > len(source):
        raise Unreduced("syntax")
    _check(root, source)
    if posix:
        _check_posix(root, source)
    return ParsedLine(source=source, root=root)


def _check(root: Node, source: bytes) -> None:
    """Nothing missing, `;;` only where bash has it, and every byte in some token."""
    pending = [root]
    end = 0
    has_lines = b"\n" in source
    while pending:
        node = pending.pop()
        # Each of these is asked of the parser, so none of them twice.
        kind, children = node.type, node.children
        if node.is_missing or node.is_error:
            raise Unreduced("syntax")
        if kind in _ENDS_OF_CASES and (node.parent is None or node.parent.type != "case_item"):
            raise Unreduced("syntax")
        if has_lines and kind in _ON_ONE_LINE:
            _check_one_line(node, source)
        if children:
            pending += reversed(children)
            continue
        start, stop = node.start_byte, node.end_byte
        if has_lines and kind in ("word", "number") and b"\n" in source[start:stop]:
            raise Unreduced("syntax")  # `ls` newline `\\rm x`: two commands, and one to the parser
        gap = start > end and source[end:start].strip(b" \t\n\\")
        # Strings and heredocs have text without a node of its own; their readers look at it.
        if gap and (node.parent is None or node.parent.type not in _WITH_TEXT):
            raise Unreduced("syntax")
        end = max(end, stop)


_ENDS_OF_CASES: Final = frozenset((";;", ";&", ";;&"))
_ON_ONE_LINE: Final = frozenset(
    ("command", "declaration_command", "unset_command", "variable_assignments", "variable_assignment")
    + ("redirected_statement", "file_redirect", "herestring_redirect", "negated_command")
)


def _check_one_line(node: Node, source: bytes) -> None:
    """Between the words of a command a newline stands only behind a backslash."""
    children = node.children
    for left, right in pairwise(children):
        gap = source[left.end_byte : right.start_byte]
        if b"\n" in gap.replace(b"\\\n", b"") and left.type != "heredoc_redirect":
            raise Unreduced("syntax")


_BASH_ONLY: Final = frozenset(
    ("[[", "function", "select", "&>", "&>>", "|&", ";&", ";;&", "+=", "declare", "typeset", "<<<", "((")
    + ("process_substitution", "ansi_c_string", "translated_string", "brace_expression", "array")
)
_BASH_WORD: Final = re.compile(rb"\{[^{}]*(?:,|\.\.)[^{}]*\}|[=:]~|time")


def _check_posix(root: Node, source: bytes) -> None:
    """What bash takes for syntax, another shell takes for words: `[[ a > b ]]` writes a file there."""
    pending = [root]
    while pending:
        node = pending.pop()
        if node.type in _BASH_ONLY:
            raise Unreduced("not_posix")
        if node.type in ("word", "concatenation"):
            text = source[node.start_byte : node.end_byte]
            found = _BASH_WORD.search(text)
            if found and (found[0] != b"time" or text == b"time"):
                raise Unreduced("not_posix")
        pending += node.children

"""`[[ … ]]` and `[ … ]`: tests of files and strings.

`-v` evaluates the subscript of what it names; between double brackets so do comparisons of numbers. Between
single ones a word without quotes may become several, and one of them `-v`.

Source: bash's manual, "Conditional Constructs" and "Bash Conditional Expressions".
"""

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final

from tree_sitter import Node

from authz.core.canonical.shell.effects import Effects, Unreduced
from authz.core.canonical.shell.words import Scope, Word, WordReader

_EVALUATING: Final = frozenset(("-v", "-R", "-eq", "-ne", "-lt", "-le", "-gt", "-ge"))
_EVALUATING_IN_SINGLE: Final = frozenset(("-v", "-R"))
_GROUPS: Final = frozenset(("binary_expression", "unary_expression", "parenthesized_expression"))
_WORDS: Final = frozenset(
    ("command_substitution", "string", "concatenation", "expansion", "simple_expansion")
)
_BARE: Final = frozenset(("word", "number", "raw_string", "ansi_c_string"))
_SIMPLE: Final = re.compile(r"[A-Za-z0-9_./:=,@%+-]+")
_SUBSCRIPT: Final = re.compile(r"\[.*[$`]", re.DOTALL)
_SEVERAL: Final = re.compile(r"\$\{?[@!]|@\]")
"""`"$@"`: several words, though quoted."""
_NUMBERS: Final = ("$?", "$#", "$$", "$!")
_PLAIN: Final = frozenset(
    ("[[", "]]", "[", "]", "&&", "||", "!", "(", ")", "=", "==", "!=", "=~", "<", ">", "-a", "-o")
    + ("word", "number", "raw_string", "extglob_pattern", "regex")
)


def read(node: Node, words: WordReader, scope: Scope, effects: Effects) -> None:
    """A `test_command`: the commands in its words, and whether it evaluates anything. Raises `Unreduced`."""
    opened = words.text_of(node.children[0])
    effects.program(opened, known=True, changes=False)
    if opened == "[":
        check_tested(list(_tested(node, words, scope))[1:-1])
    else:
        _compared(node, words, scope)


def check_tested(found: Sequence[Word]) -> None:
    """Refuse words of `[ … ]` and `test` that may evaluate something.

    To them an operator is a word like any other, so a word that is not known may be one, and a pattern may be
    several words: `[ * ]` tests whatever the files of a folder say.
    """
    for word, following in pairwise([*found, Word(text="")]):
        if word.is_glob:
            raise Unreduced("pattern")
        if word.text in _EVALUATING_IN_SINGLE or _SUBSCRIPT.search(word.text or ""):
            raise Unreduced("arithmetic")
        if word.text is None and (following.text is None or "[" in following.text):
            raise Unreduced("test_word")


def _tested(node: Node, words: WordReader, scope: Scope) -> Iterator[Word]:
    """The words of single brackets, in their order."""
    for child in node.children:
        kind, text = child.type, words.text_of(child)
        if kind in _GROUPS:
            yield from _tested(child, words, scope)
        elif not child.is_named or kind == "test_operator":
            yield Word(text=text)
        elif kind in _WORDS or kind in _BARE:
            found = words.words(child, scope)
            is_quoted = (kind == "string" and not _SEVERAL.search(text)) or text in _NUMBERS
            if len(found) != 1 or (found[0].text is None and not is_quoted):
                raise Unreduced("test_word")
            yield from found
        elif _SIMPLE.fullmatch(text):  # to the parser a pattern, which they have not
            yield Word(text=text)
        else:
            raise Unreduced("syntax_test")


def _compared(node: Node, words: WordReader, scope: Scope) -> None:
    """What stands between double brackets: no word of it becomes several, or an operator."""
    for child in node.children:
        if child.type in _GROUPS:
            _compared(child, words, scope)
        elif child.type == "test_operator":
            if words.text_of(child) in _EVALUATING:
                raise Unreduced("arithmetic")
        elif child.type in _WORDS:
            list(words.words(child, scope))
        elif child.type not in _PLAIN:
            raise Unreduced("syntax_test")

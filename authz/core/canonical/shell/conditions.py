"""`[[ … ]]` and `[ … ]`: tests of files and strings.

`-v` evaluates the subscript of what it names; between double brackets so do comparisons of numbers. Between
single ones a word without quotes may become several, and one of them `-v`.

Source: bash's manual, "Conditional Constructs" and "Bash Conditional Expressions".
"""

from typing import Final

from tree_sitter import Node

from authz.core.canonical.shell.effects import Effects, Unreduced
from authz.core.canonical.shell.words import Scope, WordReader

_EVALUATING: Final = frozenset(("-v", "-R", "-eq", "-ne", "-lt", "-le", "-gt", "-ge"))
_EVALUATING_IN_SINGLE: Final = frozenset(("-v", "-R"))
_GROUPS: Final = frozenset(("binary_expression", "unary_expression", "parenthesized_expression"))
_WORDS: Final = frozenset(
    ("command_substitution", "string", "concatenation", "expansion", "simple_expansion")
)
_PLAIN: Final = frozenset(
    ("[[", "]]", "[", "]", "&&", "||", "!", "(", ")", "=", "==", "!=", "=~", "<", ">", "-a", "-o")
    + ("word", "number", "raw_string", "extglob_pattern", "regex")
)


def read(node: Node, words: WordReader, scope: Scope, effects: Effects) -> None:
    """A `test_command`: the commands in its words, and whether it evaluates anything. Raises `Unreduced`."""
    opened = words.text_of(node.children[0])
    effects.program(opened, known=True, changes=False)
    _part(node, words, scope, single=opened == "[")


def _part(node: Node, words: WordReader, scope: Scope, *, single: bool) -> None:
    for child in node.children:
        if child.type in _GROUPS:
            _part(child, words, scope, single=single)
        elif child.type == "test_operator":
            if words.text_of(child) in (_EVALUATING_IN_SINGLE if single else _EVALUATING):
                raise Unreduced("arithmetic")
        elif child.type in _WORDS:
            found = list(words.words(child, scope))
            is_number = words.text_of(child) in ("$?", "$#", "$$", "$!")
            quoted = child.type == "string" or is_number
            if single and not quoted and any(word.text is None for word in found):
                raise Unreduced("test_word")
        elif child.type not in _PLAIN:
            raise Unreduced("syntax_test")

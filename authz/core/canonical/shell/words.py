"""Words of a line: what each expands to, where that can be known without running anything.

Source: bash's manual, "Quoting" and "Shell Expansions". A word that is not known is never an empty one.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import pairwise
from typing import Final

from tree_sitter import Node

from authz.core.canonical.shell.effects import Unreduced

MAX_BRACES: Final = 64

_AS_IT_IS: Final = re.compile(r"[A-Za-z0-9_./:=,@%+-]+")
"""Most words: nothing in them is expanded, split or unescaped."""
_ESCAPED: Final = re.compile(r"(\\.)|([^\\]+)", re.DOTALL)
_GLOB: Final = re.compile(r"[*?\[]")
_EXTGLOB: Final = re.compile(r"[?*+@!]\(")
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_ANSI_SIMPLE: Final = {"n": "\n", "t": "\t", "\\": "\\", "'": "'", '"': '"', "?": "?"}
_DECIDED: Final = re.compile(r"[ \t\n*?\[]")
_TILDE_BEHIND_BRACES: Final = re.compile(r"(?:\A|[=:])~")
"""Tildes are expanded after braces, wherever a word that comes of them has one."""
_TILDE_IN_VALUE: Final = re.compile(r"[=:]~")
_HOME_AS_VALUE: Final = re.compile(r"([A-Za-z_][A-Za-z0-9_]*=)(~(?:/[^~]*)?)")
_SUBSTRING: Final = re.compile(r"\$\{\w+: ?-?\d+(?:: ?-?\d+)?\}")
_RUNS: Final = re.compile(r"[$`]|[<>]\(")


@dataclass(frozen=True, slots=True, kw_only=True)
class Word:
    """One argument. `text` is `None` where it is not known; it may then be any number of arguments."""

    text: str | None
    is_glob: bool = False
    """`text` is a pattern, which stands for the names that match it."""
    is_quoted: bool = False
    by_shell: bool = False
    """Of a pattern: the shell itself expands it, by its own rules."""

    @property
    def is_option(self) -> bool:
        """Whether the program takes it for an option."""
        return self.text is not None and self.text.startswith("-") and self.text != "-"


UNKNOWN: Final = Word(text=None)
_KNOWN_CHARACTERS: Final = 24
"""Names of programs and options come again and again. Longer words are not remembered, so that nobody can
fill memory with them."""


@lru_cache(maxsize=1024)
def _known_word(text: str) -> Word:
    return Word(text=text)


def _expanded(text: str) -> Word:
    """Unquoted text, which the shell expands where it is a pattern."""
    is_glob = _GLOB.search(text) is not None
    return Word(text=text, is_glob=is_glob, by_shell=is_glob)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """What expansions are looked up in."""

    variables: Mapping[str, Word] = field(default_factory=dict)
    """Those that this line has assigned."""
    home: str | None = None
    cwd: str | None = None
    """The one directory in force, where there is one."""


Visit = Callable[[Node], None]


def check_apart(nodes: Sequence[Node]) -> None:
    """Refuse words that touch: bash takes `{a,b}\\c` for one word, and the parser for two of them.

    A redirect may touch the word before it.
    """
    for left, right in pairwise(nodes):
        if left.end_byte == right.start_byte and right.is_named and right.type not in _MAY_TOUCH:
            raise Unreduced("word")


_MAY_TOUCH: Final = frozenset(("file_redirect", "herestring_redirect", "heredoc_redirect", "do_group"))


class WordReader:
    """Expands the words of one line. `visit` is told of every command that a word runs."""

    def __init__(self, source: bytes, visit: Visit) -> None:
        self._source = source
        self._visit = visit
        self.has_braces = b"}" in source

    def text_of(self, node: Node) -> str:
        """The source of a node."""
        return self.between(node.start_byte, node.end_byte)

    def between(self, start: int, end: int) -> str:
        """The source from one byte to another."""
        return self._source[start:end].decode()

    def words(self, node: Node, scope: Scope) -> Sequence[Word]:
        """What a word of the line stands for: one word, or several by brace expansion."""
        if node.type in ("word", "number"):
            raw = self._source[node.start_byte : node.end_byte].decode()
            if _AS_IT_IS.fullmatch(raw):
                return (_known_word(raw) if len(raw) <= _KNOWN_CHARACTERS else Word(text=raw),)
        pieces = list(self._pieces(node, scope))
        if any(piece.text is None for piece in pieces):
            return (UNKNOWN,)
        # Also where quotes stand between the parts of the braces: `{/etc/pass"wd",b}` is two words.
        if _brace("".join(piece.text or "" for piece in pieces if not piece.is_quoted)):
            return tuple(self._braces(pieces))
        return (_joined(pieces),)

    def literal(self, node: Node, scope: Scope) -> str | None:
        """The text of a word that is neither split nor matched: of an assignment, of a redirect."""
        found = self.words(node, scope)
        return found[0].text if len(found) == 1 and not found[0].is_glob else None

    def _braces(self, pieces: list[Word]) -> Iterator[Word]:
        if len(pieces) != 1 or pieces[0].text is None:
            yield UNKNOWN
            return
        expanded = _expand_braces(pieces[0].text)
        if expanded is None or any(_TILDE_BEHIND_BRACES.search(text) for text in expanded):
            yield UNKNOWN
            return
        yield from map(_expanded, expanded)

    def _pieces(self, node: Node, scope: Scope) -> Iterator[Word]:
        kind = node.type
        if kind in ("word", "number"):
            # A redirected number (`2>`) has a type of its own; this one is an argument.
            if node.named_child_count:
                raise Unreduced("word")
            yield from self._plain(self.text_of(node), scope)
        elif kind == "raw_string":
            yield Word(text=self.text_of(node)[1:-1], is_quoted=True)
        elif kind == "ansi_c_string":
            yield Word(text=_ansi_c(self.text_of(node)[2:-1]), is_quoted=True)
        elif kind == "string":
            yield from self._double_quoted(node, scope)
        elif kind == "concatenation":
            yield from self._concatenated(node, scope)
        elif kind in ("simple_expansion", "expansion"):
            yield self._expansion(node, scope, quoted=False)
        elif kind in ("command_substitution", "process_substitution"):
            self._visit(node)
            yield UNKNOWN
        elif kind == "arithmetic_expansion":
            yield self._arithmetic(node)
        elif kind == "brace_expression":
            yield UNKNOWN
        else:
            raise Unreduced("word")

    def _concatenated(self, node: Node, scope: Scope) -> Iterator[Word]:
        end = node.start_byte
        parts: list[Word] = []
        for index, child in enumerate(node.children):
            if child.start_byte != end:
                raise Unreduced("word")  # the parser has put something between that it does not show
            end = child.end_byte
            raw = self.text_of(child)
            tilde = raw.startswith("~") or _TILDE_IN_VALUE.search(raw)
            if child.type == "word" and tilde and (index or "/" not in raw):
                yield UNKNOWN  # `~"x"` and `"x"~` are no home
                return
            parts += self._pieces(child, scope)
        # `{` and `a,b` and `}` come as words of their own.
        if all(not part.is_quoted and part.text is not None for part in parts):
            yield _joined(parts)
        else:
            yield from parts

    def _plain(self, raw: str, scope: Scope) -> Iterator[Word]:
        """An unquoted word: backslashes, tilde and patterns."""
        if _EXTGLOB.search(raw) or "`" in raw or "$" in re.sub(r"\\.", "", raw):
            raise Unreduced("word")
        if raw.startswith("~"):
            yield self._tilde(raw, scope)
            return
        if _TILDE_IN_VALUE.search(raw):
            yield self._tilde_in_value(raw, scope)
            return
        if "\\" not in raw:
            yield _expanded(raw)
            return
        # What stands beside an escaped character is not quoted: `{a,b}\c` is two words.
        for escaped, bare in _ESCAPED.findall(raw):
            yield Word(text=escaped[1:], is_quoted=True) if escaped else _expanded(bare)

    def _tilde(self, raw: str, scope: Scope) -> Word:
        name, slash, rest = raw.partition("/")
        if name != "~" or scope.home is None or "\\" in raw:
            return UNKNOWN
        return replace(_expanded(rest), text=f"{scope.home}{slash}{rest}")

    def _tilde_in_value(self, raw: str, scope: Scope) -> Word:
        """`if=~/x`: a word of the shape of an assignment has its tilde expanded, and those behind colons."""
        found = _HOME_AS_VALUE.fullmatch(raw)
        if found is None:
            return UNKNOWN
        value = self._tilde(found[2], scope)
        return UNKNOWN if value.text is None else replace(value, text=found[1] + value.text)

    def _double_quoted(self, node: Node, scope: Scope) -> Iterator[Word]:
        end = node.start_byte + 1
        for child in node.children[1:-1]:
            # Blanks between the parts of a string belong to it, and have no node of their own.
            if child.start_byte > end:
                yield Word(text=self._source[end : child.start_byte].decode(), is_quoted=True)
            end = child.end_byte
            if child.type == "string_content":
                yield Word(text=_unescaped(self.text_of(child)), is_quoted=True)
            elif child.type in ("simple_expansion", "expansion"):
                yield self._expansion(child, scope, quoted=True)
            elif child.type == "command_substitution":
                self._visit(child)
                yield UNKNOWN
            elif child.type == "arithmetic_expansion":
                yield self._arithmetic(child)
            else:
                raise Unreduced("string")
        if node.children[-1].start_byte > end:
            yield Word(text=self._source[end : node.children[-1].start_byte].decode(), is_quoted=True)
        yield Word(text="", is_quoted=True)

    def _expansion(self, node: Node, scope: Scope, *, quoted: bool) -> Word:
        """`$NAME` or `${NAME}` where its value is known. Operators that run nothing give an unknown word."""
        raw = self.text_of(node)
        name = raw[2:-1] if raw.startswith("${") else raw[1:]
        if _NAME.fullmatch(name):
            value = _variable(name, scope)
            text = value.text
            if value.is_glob:
                # One of the names that match; without quotes, a blank in it makes several words of it.
                return value if quoted else UNKNOWN
            # Without quotes an empty one is no word at all, and blanks make several of it.
            if text is None or (not quoted and (not text or _DECIDED.search(text))):
                return UNKNOWN
            return Word(text=text, is_quoted=True)
        self._check_operator(node)
        return UNKNOWN

    def _check_operator(self, node: Node) -> None:
        """Refuse the operators of `${…}` that can run something or assign: `@P`, `:=`, subscripts, `!`.

        Offset and length are arithmetic, which evaluates the text of variables.
        """
        if any(child.type == ":" for child in node.children) and not _SUBSTRING.fullmatch(self.text_of(node)):
            raise Unreduced("arithmetic")
        for child in node.children:
            if child.type in ("command_substitution", "process_substitution"):
                self._visit(child)
            elif child.type in ("simple_expansion", "expansion", "string", "concatenation"):
                self._check_operator(child)
            elif child.type not in _HARMLESS_IN_EXPANSION:
                raise Unreduced("expansion")
            elif child.type in ("word", "regex", "string_content") and _RUNS.search(self.text_of(child)):
                raise Unreduced("expansion")  # the parser takes patterns for text

    def _arithmetic(self, node: Node) -> Word:
        """`$((1 + 2))`. With a name in it, bash evaluates that variable's text, which can run commands."""
        if not re.fullmatch(r"\$\(\([0-9 +*/%()<>=!&|^~?:-]*\)\)", self.text_of(node)):
            raise Unreduced("arithmetic")
        return UNKNOWN


_HARMLESS_IN_EXPANSION: Final = frozenset(
    ("${", "}", "$", "variable_name", "special_variable_name", ":-", "-", ":+", "+", "#", "##", "%", "%%")
    + ("/", "//", "^", "^^", ",", ",,", ":", "word", "raw_string", "regex", "number", "string_content", '"')
)


_SET_BY_THE_SHELL: Final = re.compile(
    r"_|UID|EUID|PPID|RANDOM|SRANDOM|SECONDS|LINENO|GROUPS|DIRSTACK|HIST\w*|EPOCH\w*|BASH\w*|FUNCNAME|"
    r"PIPESTATUS|OPTIND|OPTARG|OPTERR|REPLY|COMP_\w*|MAPFILE|COPROC\w*|OSTYPE|MACHTYPE|HOSTTYPE|HOSTNAME"
)


def _variable(name: str, scope: Scope) -> Word:
    if _SET_BY_THE_SHELL.fullmatch(name):
        return UNKNOWN
    if name in scope.variables:
        return scope.variables[name]
    return Word(text={"HOME": scope.home, "PWD": scope.cwd}.get(name))


def _joined(pieces: list[Word]) -> Word:
    text = "".join(piece.text or "" for piece in pieces)
    is_glob = any(piece.is_glob for piece in pieces)
    if is_glob and any(piece.is_quoted and _GLOB.search(piece.text or "") for piece in pieces):
        return UNKNOWN
    return Word(
        text=text, is_glob=is_glob, is_quoted=any(piece.is_quoted for piece in pieces), by_shell=is_glob
    )


def _unescaped(text: str) -> str:
    """Inside double quotes a backslash escapes `$`, backquote, `"`, itself and a newline only."""
    return re.sub(r'\\([$`"\\])', r"\1", text.replace("\\\n", ""))


def _ansi_c(text: str) -> str | None:
    if re.search(r"\\[^nt\\'\"?]", text):
        return None
    return re.sub(r"\\(.)", lambda found: _ANSI_SIMPLE[found[1]], text)


def _brace(text: str) -> bool:
    return "{" in text and ("," in text or ".." in text)


def _expand_braces(text: str) -> list[str] | None:
    """Brace expansion without nesting and ranges; `None` for what has them."""
    done = [""]
    rest = text
    while "{" in rest:
        before, _, after = rest.partition("{")
        inner, closing, rest = after.partition("}")
        if not closing or "{" in inner or "}" in before or ".." in inner:
            return None
        choices = inner.split(",") if "," in inner else [f"{{{inner}}}"]
        done = [head + before + choice for head in done for choice in choices]
        if len(done) > MAX_BRACES:
            return None
    return None if "}" in rest else [head + rest for head in done]

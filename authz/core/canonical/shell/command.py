"""Simple commands: their assignments, their redirects and their words, down to the program that runs."""

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Final, Protocol

from tree_sitter import Node

from authz.core.canonical.pattern import is_pattern
from authz.core.canonical.shell.builtins import BUILTINS
from authz.core.canonical.shell.effects import Effects, Unreduced
from authz.core.canonical.shell.environment import SHELL_OWN, changes_what_runs, names_place
from authz.core.canonical.shell.programs import run_program
from authz.core.canonical.shell.redirect import Redirects
from authz.core.canonical.shell.run import Run, split_pattern
from authz.core.canonical.shell.state import MAX_DEPTH, State, joined
from authz.core.canonical.shell.words import UNKNOWN, Scope, Word, WordReader, check_apart
from authz.model.resource import Base, Verb

_DECLARING: Final = ("export", "declare", "local", "typeset")
_RESERVED: Final = frozenset(
    "if then elif else fi for while until do done case esac select function in coproc { } [[ ]] !".split()
)


class Shell(Protocol):
    """The walk, as far as commands need it."""

    words: WordReader
    effects: Effects
    state: State
    base: Base
    confined: bool
    depth: int
    escaped: list[State]

    def scope(self) -> Scope: ...
    def statement(self, node: Node, *, piped: bool) -> State: ...
    def run_text(self, text: str, run: Run, *, posix: bool) -> None: ...
    def read_here(self, text: str, run: Run) -> None: ...
    def landed(self) -> None: ...


class Commands:
    """The simple commands of one line."""

    def __init__(self, shell: Shell, redirects: Redirects) -> None:
        self._shell = shell
        self._redirects = redirects
        self._calls: list[str] = []

    def simple(self, node: Node, *, stdin: str | None, redirects: Sequence[Node] = ()) -> State:
        """A command, with the redirects that hang on it. Returns the state in which it has failed."""
        shell = self._shell
        words: list[Word] = []
        assigned: list[tuple[str, Word]] = []
        redirected = bool(redirects)
        self._check_descriptors(node, redirects)
        check_apart(node.children)
        scope = shell.scope()  # a command in a word leaves nothing behind
        for child in node.children:
            kind = child.type
            if kind == "variable_assignment":
                assigned.append(self._assigned(child))
            elif kind == "command_name":
                words += shell.words.words(child.children[0], scope)
            elif kind in ("file_redirect", "herestring_redirect"):
                stdin = self._redirects.open([child], stdin)
                redirected = True
            else:
                words += shell.words.words(child, scope)
        if redirects:
            stdin = self._redirects.open(redirects, stdin)
        for name, _ in assigned:
            if name in SHELL_OWN:
                raise Unreduced("assignment")
            # It holds for functions and `eval` too, and with some builtins it stays in a POSIX shell.
            shell.state = shell.state.assigned(name, UNKNOWN)
        before = shell.state
        is_changed = before.is_changed
        if assigned:
            is_changed |= any(changes_what_runs(name, value.text) for name, value in assigned)
        if words and words[0].text == "time" and shell.words.text_of(node.children[0]) == "time":
            words = self._timed(words)
        if words:
            self._run(words, stdin=stdin, is_changed=is_changed)
        if shell.state.is_over:
            # What the shell refuses to open or to assign ends nothing.
            return before if redirected or assigned else shell.state
        functions = shell.state.functions
        return before if functions is before.functions else replace(before, functions=functions)

    def _check_descriptors(self, node: Node, redirects: Sequence[Node]) -> None:
        """`exec {fd}<f` sets a variable: to the parser `{fd}` is one more word."""
        if not self._shell.words.has_braces:
            return
        if not redirects and all(one.type != "file_redirect" for one in node.children):
            return
        openers = {one.start_byte for one in (*node.children, *redirects) if one.type.endswith("_redirect")}
        last = [self._shell.words.text_of(one)[-1:] for one in node.children if one.end_byte in openers]
        if "}" in last:
            raise Unreduced("descriptor_variable")

    def _timed(self, words: list[Word]) -> list[Word]:
        """`time` as the first word is the shell's own: what it times may be a builtin."""
        self._shell.effects.program("time", known=True, changes=False)
        rest = list(words)
        while rest and rest[0].text in ("time", "-p", "--"):
            rest.pop(0)
        name = rest[0].text if rest else ""
        if name is None or name.startswith("-") or "=" in name or name in self._shell.state.functions:
            raise Unreduced("time")
        return rest

    def _run(self, words: Sequence[Word], *, stdin: str | None, is_changed: bool) -> None:
        shell = self._shell
        shell.effects.step(1 + len(words) // 8)
        name = words[0].text if words else None
        if name is None or words[0].is_glob:
            raise Unreduced("dynamic_program")
        if name in _RESERVED:
            raise Unreduced("reserved_word")
        run = Run(
            words=tuple(words),
            directories=shell.state.directories,
            effects=shell.effects,
            runner=self,
            stdin=stdin,
            depth=shell.depth,
            # In an environment that may change what it does, nothing of a program is known for sure.
            guessed=is_changed,
            home=shell.base.home,
            root=shell.base.root,
            confined=shell.confined,
        )
        _list_names(run)
        if name in shell.state.functions:
            self._call(name, stdin)
        elif name in BUILTINS:
            BUILTINS[name](run, shell)
        else:
            self._start(run)

    def _call(self, name: str, stdin: str | None) -> None:
        """A function: its body, where it is called. What it makes of its arguments is not known."""
        if name in self._calls or len(self._calls) >= MAX_DEPTH:
            raise Unreduced("recursion")
        shell = self._shell
        known = shell.state.variables
        self._calls.append(name)
        shell.statement(shell.state.functions[name], piped=stdin != "")
        self._calls.pop()
        shell.landed()
        # What was local to it is again what it was; which of them were is not looked at.
        kept = {each: value for each, value in shell.state.variables.items() if known.get(each) == value}
        changed = dict.fromkeys(shell.state.variables.keys() | known.keys(), UNKNOWN)
        shell.state = replace(shell.state, variables={**changed, **kept})

    def run_words(self, words: Sequence[Word], run: Run) -> None:
        """See `Runner.run_words`."""
        self._start(replace(run, words=tuple(words)))

    def _start(self, run: Run) -> None:
        """A program, by a run that is nobody else's."""
        if run.depth > MAX_DEPTH:
            raise Unreduced("too_deep")
        run.depth += 1
        run_program(run)

    def run_text(self, text: str, run: Run, *, posix: bool) -> None:
        """See `Runner.run_text`."""
        self._shell.run_text(text, run, posix=posix)

    def assign(self, node: Node) -> State:
        """Assignments and declarations as statements of their own."""
        if node.type == "variable_assignment":
            self.set_variable(*self._assigned(node))
        elif node.type == "variable_assignments":
            for child in node.children:
                self.set_variable(*self._assigned(child))
        else:
            before = self._shell.state
            (self._declaration if node.type == "declaration_command" else self._unset)(node)
            return joined(before, self._shell.state)  # `local` fails outside a function, and sets nothing
        return self._shell.state

    def set_variable(self, name: str, value: Word) -> None:
        """A variable of the shell. A program sees it only if it was exported before, which nobody knows."""
        if name in SHELL_OWN:
            raise Unreduced("assignment")
        state = self._shell.state.assigned(name, value)
        changes = changes_what_runs(name, value.text)
        self._shell.state = replace(state, is_changed=state.is_changed or changes)

    def _assigned(self, node: Node) -> tuple[str, Word]:
        """Name and value of `NAME=value`. Arrays, subscripts and `+=` have no value that is known."""
        children, shell = node.children, self._shell
        if len(children) not in (2, 3) or children[0].type != "variable_name":
            raise Unreduced("syntax_assignment")
        if children[1].type not in ("=", "+="):
            raise Unreduced("syntax_assignment")
        name = shell.words.text_of(children[0])
        value = shell.words.literal(children[2], shell.scope()) if len(children) == 3 else ""
        known = value is not None and children[1].type == "="
        if names_place(name) and value:
            shell.effects.place(value, shell.state.directories)
        return name, Word(text=value) if known else UNKNOWN

    def _declaration(self, node: Node) -> None:
        """`export`, `declare`, `local`, `typeset`. What is read-only keeps its value whatever is assigned."""
        if all(child.type in ("word", *_DECLARING) for child in node.children):
            self._shell.effects.program("printenv", known=True, changes=False)  # they print every variable
        for child in node.children:
            text = self._shell.words.text_of(child)
            if child.type == "variable_assignment":
                self.set_variable(*self._assigned(child))
            elif child.type == "variable_name":
                # A variable that was set for the shell alone now reaches programs.
                self._change(text)
            elif child.type == "word":
                # `-i` evaluates, `-n` makes another name of a variable, `-f` hands functions on.
                if not re.fullmatch(r"-[xgp]+", text):
                    raise Unreduced("declaration")
            elif child.type not in _DECLARING:
                raise Unreduced("declaration")

    def _unset(self, node: Node) -> None:
        for child in node.children:
            if child.type == "variable_name":
                name = self._shell.words.text_of(child)
                if name in self._shell.state.functions:
                    raise Unreduced("unset")
                self._shell.state = self._shell.state.assigned(name, UNKNOWN)
                self._change(name)
            elif child.type != "unset":
                raise Unreduced("unset")

    def _change(self, name: str) -> None:
        if name in SHELL_OWN:
            raise Unreduced("assignment")
        state = self._shell.state
        self._shell.state = replace(state, is_changed=state.is_changed or changes_what_runs(name))


def _list_names(run: Run) -> None:
    """A pattern lists the directory that it looks in, whatever the program does with the names."""
    for word in run.words:
        if word.is_glob and word.text is not None:
            above, names = split_pattern(word.text)
            run.read(Word(text=above))
            looked = max(index for index, name in enumerate(names) if is_pattern(name))
            if looked:
                run.matching(Verb.READ, above, names[:looked])

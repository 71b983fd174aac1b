"""Simple commands: their assignments, their redirects and their words, down to the program that runs."""

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Final, Protocol

from tree_sitter import Node

from authz.core.canonical.shell.builtins import BUILTINS
from authz.core.canonical.shell.effects import Effects, Unreduced
from authz.core.canonical.shell.environment import SHELL_OWN, changes_what_runs
from authz.core.canonical.shell.programs import run_program
from authz.core.canonical.shell.redirect import Redirects
from authz.core.canonical.shell.run import Run
from authz.core.canonical.shell.state import MAX_DEPTH, State
from authz.core.canonical.shell.words import UNKNOWN, Scope, Word, WordReader
from authz.model.resource import Base

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

    def scope(self) -> Scope: ...
    def statement(self, node: Node, *, piped: bool) -> State: ...
    def run_text(self, text: str, run: Run) -> None: ...
    def read_here(self, text: str, run: Run) -> None: ...


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
        assigned: list[str] = []
        for child in node.children:
            if child.type == "variable_assignment":
                assigned.append(self._assigned(child)[0])
            elif child.type == "command_name":
                words += shell.words.words(child.children[0], shell.scope())
            elif child.type in ("file_redirect", "herestring_redirect"):
                stdin = self._redirects.open([child], stdin)
            else:
                words += shell.words.words(child, shell.scope())
        stdin = self._redirects.open(redirects, stdin)
        before = shell.state
        if SHELL_OWN & set(assigned):
            raise Unreduced("assignment")
        is_changed = before.is_changed or any(map(changes_what_runs, assigned))
        self._run(words, stdin=stdin, is_changed=is_changed)
        return shell.state if shell.state.is_over else replace(before, functions=shell.state.functions)

    def _run(self, words: Sequence[Word], *, stdin: str | None, is_changed: bool) -> None:
        shell = self._shell
        name = words[0].text if words else None
        if name is None or words[0].is_glob:
            raise Unreduced("dynamic_program")
        if name in _RESERVED:
            raise Unreduced("reserved_word")
        run = Run(
            words=words,
            directories=shell.state.directories,
            effects=shell.effects,
            runner=self,
            stdin=stdin,
            depth=shell.depth,
            # In an environment that may change what it does, nothing of a program is known for sure.
            guessed=is_changed,
            home=shell.base.home,
            confined=shell.confined,
        )
        if name in shell.state.functions:
            self._call(name, stdin)
        elif name in BUILTINS:
            BUILTINS[name](run, shell)
        else:
            self.run_words(words, run)

    def _call(self, name: str, stdin: str | None) -> None:
        """A function: its body, where it is called. What it makes of its arguments is not known."""
        if name in self._calls or len(self._calls) >= MAX_DEPTH:
            raise Unreduced("recursion")
        self._calls.append(name)
        self._shell.statement(self._shell.state.functions[name], piped=stdin != "")
        self._calls.pop()

    def run_words(self, words: Sequence[Word], run: Run) -> None:
        """See `Runner.run_words`."""
        if run.depth > MAX_DEPTH:
            raise Unreduced("too_deep")
        run_program(replace(run, words=tuple(words), depth=run.depth + 1))

    def run_text(self, text: str, run: Run) -> None:
        """See `Runner.run_text`."""
        self._shell.run_text(text, run)

    def assign(self, node: Node) -> State:
        """Assignments and declarations as statements of their own."""
        if node.type == "variable_assignment":
            self.set_variable(*self._assigned(node))
        elif node.type == "variable_assignments":
            for child in node.children:
                self.set_variable(*self._assigned(child))
        elif node.type == "declaration_command":
            self._declaration(node)
        else:
            self._unset(node)
        return self._shell.state

    def set_variable(self, name: str, value: Word) -> None:
        """A variable of the shell. A program sees it only if it was exported before, which nobody knows."""
        if name in SHELL_OWN:
            raise Unreduced("assignment")
        state = self._shell.state.assigned(name, value)
        self._shell.state = replace(state, is_changed=state.is_changed or changes_what_runs(name))

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
        return name, Word(text=value) if known else UNKNOWN

    def _declaration(self, node: Node) -> None:
        """`export`, `declare`, `local`, `readonly`, `typeset`."""
        for child in node.children:
            text = self._shell.words.text_of(child)
            if child.type == "variable_assignment":
                self.set_variable(*self._assigned(child))
            elif child.type == "variable_name":
                # A variable that was set for the shell alone now reaches programs.
                self._change(text)
            elif child.type == "word":
                # `-i` evaluates, `-n` makes another name of a variable, `-f` hands functions on.
                if not re.fullmatch(r"-[xrgp]+", text):
                    raise Unreduced("declaration")
            elif child.type not in ("export", "declare", "local", "readonly", "typeset"):
                raise Unreduced("declaration")

    def _unset(self, node: Node) -> None:
        for child in node.children:
            if child.type == "variable_name":
                name = self._shell.words.text_of(child)
                self._shell.state = self._shell.state.assigned(name, UNKNOWN)
                self._change(name)
            elif child.type != "unset":
                raise Unreduced("unset")

    def _change(self, name: str) -> None:
        if name in SHELL_OWN:
            raise Unreduced("assignment")
        state = self._shell.state
        self._shell.state = replace(state, is_changed=state.is_changed or changes_what_runs(name))

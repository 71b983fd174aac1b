"""The walk over a parsed line: every command that can be reached, in the directory that is in force there.

Each construct of the grammar has a function here, and whatever has none makes the line `Opaque`. Where the
line may go several ways all of them are taken, and what they leave behind is joined. Source: bash's manual,
"Shell Commands" and "Command Execution Environment".

Every function leaves the state of success in `self.state` and returns that of failure.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import ClassVar, Final

from tree_sitter import Node

from authz.core.canonical.shell import conditions
from authz.core.canonical.shell.command import Commands
from authz.core.canonical.shell.effects import Effects, Unreduced
from authz.core.canonical.shell.redirect import Redirects, parts_of
from authz.core.canonical.shell.run import Run
from authz.core.canonical.shell.state import MAX_DEPTH, State, joined
from authz.core.canonical.shell.syntax import parse_line
from authz.core.canonical.shell.words import UNKNOWN, Scope, Word, WordReader, check_apart
from authz.model.resource import Base

MAX_VALUES: Final = 8
"""Of a `for`: with more, what its variable holds is not known."""

_SEPARATORS: Final = frozenset((";", "\n", "&", ";;", ";&", ";;&"))
_SKIPPED: Final = _SEPARATORS | {"comment"}


def walk_line(text: str, base: Base, effects: Effects, *, confined: bool) -> None:
    """Collect every access of a line in `effects`. Raises `Unreduced` for what is not in the grammar here."""
    walk = Walk(text, base, effects, confined=confined)
    try:
        walk.walk()
    finally:
        walk.release()


class Walk:
    """Walks one line, and the lines inside it."""

    def __init__(
        self,
        text: str,
        base: Base,
        effects: Effects,
        *,
        confined: bool,
        depth: int = 0,
        posix: bool = False,
    ) -> None:
        """Raises `Unreduced` where the line has no parse that every reader agrees on.

        `posix` says that it is read by a shell which may not be bash.
        """
        if depth > MAX_DEPTH:
            raise Unreduced("too_deep")
        if depth:
            effects.step(len(text) // 64)
        line = parse_line(text, posix=posix)
        self.posix = posix
        self.escaped: list[State] = []
        self.base = base
        self.effects = effects
        self.confined = confined
        self.depth = depth
        self.state = State(directories=frozenset((base.cwd,)))
        self._scoped: State | None = None
        self._scope = Scope()
        """Of the state `_scoped`."""
        self.words = WordReader(line.source, self._substitution)
        self._root = line.root
        self._handed: Sequence[Node] = ()
        """Redirects for the last command of the next statement."""
        self._redirects = Redirects(self)
        self._commands = Commands(self, self._redirects)

    def walk(self, state: State | None = None, *, piped: bool = False) -> None:
        """Collect every access of the line. Raises `Unreduced` for what is not in the grammar here."""
        if state is not None:
            self.state = state
        self._statements(self._root.children, piped=piped)

    def release(self) -> None:
        """Let go of everything. The parts of a walk know each other: the garbage collector alone would find
        them, and a fifth of the time of a line would be its.
        """
        self.__dict__.clear()

    def scope(self) -> Scope:
        """What expansions are looked up in, here."""
        state = self.state
        if self._scoped is not state:
            directories = state.directories
            cwd = next(iter(directories)) if len(directories) == 1 else None
            self._scope = Scope(variables=state.variables, home=self.base.home, cwd=cwd)
            self._scoped = state
        return self._scope

    def landed(self) -> None:
        """Behind a loop or a function: whatever left it early may be in force."""
        for state in self.escaped:
            self.state = joined(self.state, state)

    def run_text(self, text: str, run: Run, *, posix: bool) -> None:
        """See `Runner.run_text`: in the directories of `run`, without this shell's variables."""
        inner = Walk(text, self.base, self.effects, confined=self.confined, depth=run.depth + 1, posix=posix)
        inner.walk(State(directories=run.directories, is_changed=run.guessed), piped=run.stdin != "")
        inner.release()

    def read_here(self, text: str, run: Run) -> None:
        """A line that this very shell reads (`eval`): what it leaves behind stays."""
        inner = Walk(
            text, self.base, self.effects, confined=self.confined, depth=run.depth + 1, posix=self.posix
        )
        inner.escaped = self.escaped
        inner.walk(replace(self.state, functions={}), piped=run.stdin != "")
        if self.state.functions or inner.state.functions:
            raise Unreduced("function")
        self.state = inner.state

    def statement(self, node: Node, *, piped: bool) -> State:
        """One statement of any kind. Returns the state in which it has failed."""
        handed, self._handed = self._handed, ()
        if self.state.is_over:
            return self.state
        self.effects.step()
        kind = node.type
        if kind == "command":
            return self._commands.simple(node, stdin=None if piped else "", redirects=handed)
        if kind in _HANDING_ON:
            self._handed = handed
        elif handed:
            # Where one of them cannot be opened, nothing of it happens.
            before = self.state
            piped = self._redirects.open(handed, None if piped else "") != "" or piped
            return joined(before, self._compound(node, piped))
        return self._compound(node, piped)

    def _compound(self, node: Node, piped: bool) -> State:
        kind = node.type
        if kind in _ASSIGNING:
            return self._commands.assign(node)
        handler = self._handlers.get(kind)
        if handler is None:
            raise Unreduced(f"syntax_{kind}"[:60])
        return handler(self, node, piped)

    def subshell(self, node: Node, *, piped: bool) -> State:
        """A statement that hands nothing back."""
        kept = self.state
        self.statement(node, piped=piped)
        self.state = kept
        return kept

    def branch(self, nodes: Sequence[Node], *, piped: bool) -> None:
        """Statements that may run or not."""
        before = self.state
        self._statements(nodes, piped=piped)
        self.state = joined(self.state, before)

    def _statements(self, nodes: Sequence[Node], *, piped: bool) -> State:
        for index, node in enumerate(nodes):
            if node.type in _SKIPPED:
                continue
            follower = nodes[index + 1].type if index + 1 < len(nodes) else ""
            failed = (self.subshell if follower == "&" else self.statement)(node, piped=piped)
            self.state = joined(self.state, failed)
        return self.state

    def _list(self, node: Node, piped: bool) -> State:
        children = [child for child in node.children if child.type not in ("\n", "comment")]
        if len(children) != 3 or children[1].type not in ("&&", "||"):
            raise Unreduced("syntax_list")
        left, operator, right = children
        handed, self._handed = self._handed, ()
        failed = self.statement(left, piped=piped)
        if operator.type == "&&":
            self._handed = handed
            return joined(failed, self.statement(right, piped=piped))
        succeeded, self.state = self.state, failed
        self._handed = handed
        failed = self.statement(right, piped=piped)
        self.state = joined(self.state, succeeded)
        return failed

    def _pipeline(self, node: Node, piped: bool) -> State:
        found = [child for child in node.children if child.type not in ("\n", "comment")]
        if len(found) % 2 == 0 or any(mark.type not in ("|", "|&") for mark in found[1::2]):
            raise Unreduced("syntax_pipeline")
        handed, self._handed = self._handed, ()
        for index, stage in enumerate(found[::2]):
            self._handed = handed if index == len(found) // 2 else ()
            self.subshell(stage, piped=piped or index > 0)
        return self.state

    def _subshell(self, node: Node, piped: bool) -> State:
        kept = self.state
        self._statements(_inside(node, "(", ")"), piped=piped)
        self.state = kept
        return kept

    def _group(self, node: Node, piped: bool) -> State:
        return self._statements(_inside(node, "{", "}"), piped=piped)

    def _do_group(self, node: Node, piped: bool) -> State:
        return self._statements(_inside(node, "do", "done"), piped=piped)

    def _negated(self, node: Node, piped: bool) -> State:
        if len(node.children) != 2 or node.children[0].type != "!":
            raise Unreduced("syntax_negation")
        failed = self.statement(node.children[1], piped=piped)
        succeeded, self.state = self.state, failed
        return succeeded

    def _if(self, node: Node, piped: bool) -> State:
        # Every part in order, each of them perhaps: a superset of each way that there is.
        for child in node.children:
            if child.type in ("elif_clause", "else_clause"):
                self._if(child, piped)
            elif child.type not in ("if", "then", "elif", "else", "fi", *_SKIPPED):
                self.branch([child], piped=piped)
        return self.state

    def _while(self, node: Node, piped: bool) -> State:
        inside = [child for child in node.children if child.type not in ("while", "until", *_SKIPPED)]
        return self._loop(inside, piped=piped)

    def _for(self, node: Node, piped: bool) -> State:
        body: list[Node] = []
        values: list[Word] = []
        name = ""
        check_apart(node.children)
        for child in node.children:
            if child.type == "select":
                raise Unreduced("syntax_select")
            if child.type == "variable_name":
                name = self.words.text_of(child)
            elif child.type in ("do_group", "compound_statement"):
                body.append(child)
            elif child.type not in ("for", "in", *_SKIPPED):
                values += self.words.words(child, self.scope())
        if 0 < len(values) <= MAX_VALUES and all(value.text is not None for value in values):
            for value in values:
                self._commands.set_variable(name, value)
                self._loop(body, piped=piped, variable=name)
        else:
            self._commands.set_variable(name, UNKNOWN)
            self._loop(body, piped=piped, variable=name)
        return self.state

    def _loop(self, nodes: Sequence[Node], *, piped: bool, variable: str = "") -> State:
        """A body that runs any number of times: a second time in whatever the first has left behind."""
        before = self.state
        self.branch(nodes, piped=piped)
        if self.state.directories != before.directories:
            self.state = self.state.moved(frozenset((None,)))
        kept = self.state.variables.get(variable)
        unknown: dict[str, Word] = dict.fromkeys(self.state.variables, UNKNOWN)
        if kept is not None and kept == before.variables.get(variable):
            unknown[variable] = kept
        self.state = replace(self.state, variables=unknown)
        self.branch(nodes, piped=piped)
        self.landed()
        return self.state

    def _case(self, node: Node, piped: bool) -> State:
        subject, *items = [
            child for child in node.children if child.type not in ("case", "in", "esac", *_SKIPPED)
        ]
        list(self.words.words(subject, self.scope()))
        for item in items:
            if item.type != "case_item":
                raise Unreduced("syntax_case")
            self._case_item(item, piped=piped)
        return self.state

    def _case_item(self, node: Node, *, piped: bool) -> None:
        closed = next((i for i, child in enumerate(node.children) if child.type == ")"), None)
        if closed is None:
            raise Unreduced("syntax_case")
        for pattern in node.children[:closed]:
            if pattern.type not in ("(", "|", "word", "extglob_pattern", "number", "raw_string"):
                list(self.words.words(pattern, self.scope()))
        self.branch(node.children[closed + 1 :], piped=piped)

    def _function(self, node: Node, piped: bool) -> State:
        names = [child for child in node.children if child.type == "word"]
        bodies = [child for child in node.children if child.type in ("compound_statement", "subshell")]
        others = {child.type for child in node.children} - _OF_A_FUNCTION
        if len(names) != 1 or len(bodies) != 1 or others:
            raise Unreduced("syntax_function")  # its redirects are opened wherever it is called
        functions = {**self.state.functions, self.words.text_of(names[0]): bodies[0]}
        self.state = replace(self.state, functions=functions)
        return self.state

    def _test(self, node: Node, piped: bool) -> State:
        conditions.read(node, self.words, self.scope(), self.effects)
        return self.state

    def _redirected(self, node: Node, piped: bool) -> State:
        """A statement with redirects behind it.

        The parser hangs them on a whole list or pipeline, bash on its last command. A heredoc's node also
        holds what follows on the line of its opener.
        """
        found = parts_of(node)
        if found.body is None:
            self._redirects.open(found.redirects, "")
            failed = self.state
        else:
            self._handed = found.redirects
            failed = self.statement(found.body, piped=piped)
        for operator, follower in found.followers:
            self.state = joined(self.state, failed)
            if operator == "|":
                self.subshell(follower, piped=True)
            else:
                self.branch([follower], piped=piped)
            failed = self.state
        return failed

    def _substitution(self, node: Node) -> None:
        """`$(…)`, backquotes, `<(…)` and `>(…)`: a subshell."""
        opened, *inside, closed = node.children
        if opened.type not in ("$(", "`", "<(", ">(") or closed.type not in (")", "`"):
            raise Unreduced("syntax_substitution")
        if opened.type == "`" and "\\" in self.words.text_of(node):
            raise Unreduced("backquotes")  # what stands in them is unescaped before it is read
        if self.depth >= MAX_DEPTH:
            raise Unreduced("too_deep")
        self.depth += 1
        kept = self.state
        for child in inside:  # `$(< file)`
            if child.type == "file_redirect":
                self._redirects.open([child], "")
        rest = [child for child in inside if child.type != "file_redirect"]
        self._statements(rest, piped=opened.type == ">(")
        self.state = kept
        self.depth -= 1

    # Left out on purpose: `c_style_for_statement` and `((…))`, whose arithmetic evaluates variables.
    _handlers: ClassVar[Mapping[str, "_Handler"]] = {
        "list": _list,
        "pipeline": _pipeline,
        "subshell": _subshell,
        "compound_statement": _group,
        "do_group": _do_group,
        "negated_command": _negated,
        "if_statement": _if,
        "while_statement": _while,
        "for_statement": _for,
        "case_statement": _case,
        "function_definition": _function,
        "test_command": _test,
        "redirected_statement": _redirected,
    }


_Handler = Callable[[Walk, Node, bool], State]
_ASSIGNING: Final = frozenset(
    ("variable_assignment", "variable_assignments", "declaration_command", "unset_command")
)
_OF_A_FUNCTION: Final = frozenset(
    ("function", "word", "(", ")", "compound_statement", "subshell", "comment", "\n")
)
_HANDING_ON: Final = frozenset(("list", "pipeline", "negated_command"))


def _inside(node: Node, opened: str, closed: str) -> list[Node]:
    children = node.children
    if len(children) < 2 or children[0].type != opened or children[-1].type != closed:
        raise Unreduced("syntax_group")
    return list(children[1:-1])

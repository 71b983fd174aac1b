"""What a shell line does: the accesses that the walk over its commands collects.

An access that is `guessed` is one that a program which nobody described may make: its operands look like
paths or urls. What is collected is a superset of what can happen, or there is an `Opaque` among it.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final

from authz.core.canonical.opaque import opaque
from authz.core.canonical.path import SharedFolders, canonicalize_path
from authz.core.canonical.pattern import path_pattern
from authz.core.canonical.program import program_resource
from authz.core.canonical.url import canonicalize_url
from authz.model.resource import Base, NotCanonical, PathPattern, Resource, Scope, Verb

_EMPTY: Final = NotCanonical(code="path.empty", message="the path is empty", understood=False)
MAX_EFFECTS: Final = 1024
"""Of one line. More than a call may have anyway; it only bounds what is collected before that is seen."""
MAX_STEPS: Final = 600
"""Statements that are gone over, each as often as it is reached: a fixed bound, independent of any clock."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShellAccess:
    """One access of a line."""

    verb: Verb
    resource: Resource
    scope: Scope = Scope.OBJECT
    pattern: PathPattern | None = None
    """Of a tree: the names of it that are reached; `None` for all of them."""
    guessed: bool = False
    changes: bool = False
    """Of an `execute` of a `Program`: whether it does more than the other accesses say."""


class Unreduced(Exception):
    """A command, or the whole line, that cannot be reduced to known accesses. `reason` is a stable code."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Effects:
    """Collects accesses. Equal ones are kept once."""

    def __init__(self, base: Base, line: str) -> None:
        self._base = base
        self._line = line
        self._found: dict[tuple[Verb, str, Scope, PathPattern | None], ShellAccess] = {}
        self._unknown: set[str] = set()
        self._files: dict[tuple[str, str | None], Resource | NotCanonical] = {}
        """By spelling and directory: most of them are met several times in a line."""
        self._shared = SharedFolders()
        self._steps = 0

    def step(self, size: int = 1) -> None:
        """Count one statement: loops in loops and functions in functions multiply. Raises `Unreduced`."""
        self._steps += size
        if self._steps > MAX_STEPS:
            raise Unreduced("too_many_steps")

    def add(self, access: ShellAccess) -> None:
        """Collect one access. The stricter of two that are otherwise equal stays."""
        key = (access.verb, access.resource.uri, access.scope, access.pattern)
        known = self._found.get(key)
        if known is None:
            if len(self._found) >= MAX_EFFECTS:
                raise Unreduced("too_many")
            self._found[key] = access
        elif access.changes and not known.changes:
            self._found[key] = replace(known, changes=True)

    def path(
        self,
        verb: Verb,
        text: str,
        cwd: str | None,
        *,
        tree: bool = False,
        matching: Sequence[str] | None = None,
        guessed: bool = False,
    ) -> None:
        """An access to the file that `text` names from `cwd`; `None` is a directory that nobody knows.

        `matching` are the parts of a pattern of the shell: the access is to what matches beneath that file,
        and with `tree` to all that lies in what matches.
        """
        found = self._file(text, cwd)
        if isinstance(found, NotCanonical):
            self.opaque(found.code, f"{cwd}\0{text}")
            return
        pattern = None
        if matching is not None:
            pattern = path_pattern(matching, self._base.volume, whole=tree)
        scope = Scope.TREE if tree or matching is not None else Scope.OBJECT
        self.add(ShellAccess(verb=verb, resource=found, scope=scope, pattern=pattern, guessed=guessed))

    def place(self, value: str, directories: Iterable[str | None]) -> None:
        """A variable names places that programs may read and write."""
        for text in filter(None, value.split(":")):
            for directory in sorted(directories, key=lambda one: one or ""):
                for verb in (Verb.READ, Verb.WRITE):
                    self.path(verb, text, directory, guessed=True)

    def _file(self, text: str, cwd: str | None) -> Resource | NotCanonical:
        known = self._files.get((text, cwd))
        if known is not None:
            return known
        base = self._base if cwd == self._base.cwd else replace(self._base, cwd=cwd)
        found = canonicalize_path(taken_literally(text), base, self._shared) if text else _EMPTY
        file = self._files[text, cwd] = found if isinstance(found, NotCanonical) else found[0]
        return file

    def url(self, verb: Verb, text: str, *, guessed: bool = False) -> None:
        """An access to the endpoint that `text` names."""
        found = canonicalize_url(text)
        if isinstance(found, NotCanonical):
            self.opaque(found.code, text)
            return
        self.add(ShellAccess(verb=verb, resource=found[0], guessed=guessed))

    def resource(self, verb: Verb, found: Resource | NotCanonical, text: str) -> None:
        """An access to something that another kind has made canonical."""
        if isinstance(found, NotCanonical):
            self.opaque(found.code, text)
        else:
            self.add(ShellAccess(verb=verb, resource=found))

    def program(self, name: str, *, known: bool, changes: bool) -> None:
        """A program that runs. `known` says that everything it does is among the accesses."""
        if not known:
            self._unknown.add(name)
            changes = True
        found = (_known_program if len(name) <= _KNOWN_CHARACTERS else _program)(name, known, changes)
        if isinstance(found, NotCanonical):
            self.opaque(found.code, name)
        else:
            self.add(found)

    def opaque(self, reason: str, text: str | None = None) -> ShellAccess:
        """Something that was not understood. `text` tells it from others; the line does by default."""
        resource = opaque("shell", self._line if text is None else f"{self._line}\0{text}", reason)
        access = ShellAccess(verb=Verb.EXECUTE, resource=resource, changes=True)
        self.add(access)
        return access

    def collected(self) -> Iterator[ShellAccess]:
        """Every access. One name of a program is known only where no command of that name was not."""
        if not self._unknown:
            yield from self._found.values()
            return
        for access in self._found.values():
            entity = access.resource.entity
            is_known = entity.type != "Program" or entity.id not in self._unknown
            resource = access.resource if is_known else program_resource(entity.id, known=False)
            if resource is access.resource:
                yield access
            elif not isinstance(resource, NotCanonical):  # it was canonical when it was added
                yield replace(access, resource=resource)


_KNOWN_CHARACTERS: Final = 64
"""Longer names are not remembered, so that nobody can fill memory with them."""


def _program(name: str, known: bool, changes: bool) -> ShellAccess | NotCanonical:
    found = program_resource(name)
    if isinstance(found, NotCanonical):
        return found
    return ShellAccess(verb=Verb.EXECUTE, resource=found, changes=changes, guessed=not known)


_known_program = lru_cache(maxsize=1024)(_program)
_ONLY_A_NAME: Final = re.compile(r"[A-Za-z0-9_./+@=-]+")


def taken_literally(text: str) -> str:
    """`text` as a path in which `~` and `file:` stand for themselves.

    The shell has expanded what it expands: what is left of them here stands in a name.
    """
    return text if text.startswith("/") or _ONLY_A_NAME.fullmatch(text) else f"./{text}"

"""YAML as the bundle reads it: JSON's data model, no surprises, and a line for every value.

`on`, `yes`, `1:30` and dates are text (YAML 1.1 would make them something else); a name that stands
twice, an alias, a merge key or a custom tag is an error, never the last one wins.
"""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import yaml

from authz.core.policy_text import invisible_characters
from authz.core.strict_json import MAX_DEPTH
from authz.errors import BundleError, BundleProblem

Path = tuple[str | int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class YamlDocument:
    """A parsed file: plain data, and the line (from 1) on which each value stands."""

    file: str
    value: Any
    lines: Mapping[Path, int]

    def line(self, path: Path) -> int | None:
        """The line of the value at `path`, or of its nearest container."""
        for length in range(len(path), -1, -1):
            if path[:length] in self.lines:
                return self.lines[path[:length]]
        return None

    @staticmethod
    def place(path: Path) -> str:
        """`path` as problems name it."""
        return f"`{'/'.join(map(str, path))}`" if path else "the file"

    def problem(
        self, path: Path, message: str, hint: str = "", code: str = "bundle.invalid"
    ) -> BundleProblem:
        """A fault that stands at `path`."""
        return BundleProblem(message, file=self.file, line=self.line(path), hint=hint, code=code)


class _Loader(yaml.CSafeLoader):
    """Resolves only what JSON has: true, false, null, integers and decimal fractions."""


_Loader.yaml_implicit_resolvers = {}
_RESOLVERS: Final = (
    ("tag:yaml.org,2002:bool", r"^(?:true|false)$", "tf"),
    ("tag:yaml.org,2002:null", r"^(?:null|~|)$", ["n", "~", ""]),
    ("tag:yaml.org,2002:int", r"^-?(?:0|[1-9][0-9]*)$", "-0123456789"),
    ("tag:yaml.org,2002:float", r"^-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)(?:[eE][-+]?[0-9]+)?$", "-0123456789"),
)
for _tag, _pattern, _first in _RESOLVERS:
    _Loader.add_implicit_resolver(_tag, re.compile(_pattern), list(_first))


def load_yaml(file: str, data: bytes) -> YamlDocument:
    """Parse one file. Raises `BundleError` naming the line."""
    try:
        text = data.decode("utf-8")
        _check_characters(file, text)
        loader = _Loader(text)
        try:
            _check_events(file, loader)
            loader = _Loader(text)
            node = loader.get_single_node()
            lines: dict[Path, int] = {(): 1}
            value = None if node is None else _construct(file, loader, node, (), lines)
        finally:
            loader.dispose()
    except UnicodeDecodeError:
        raise BundleError(
            (BundleProblem("the file is not valid UTF-8", file=file, code="file.encoding"),)
        ) from None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark else None
        raise BundleError(
            (
                BundleProblem(
                    f"not YAML: {error.problem or error.context}", file=file, line=line, code="yaml.syntax"
                ),
            )
        ) from None
    except yaml.YAMLError as error:
        raise BundleError(
            (BundleProblem(f"not YAML: {str(error)[:120]}", file=file, code="yaml.syntax"),)
        ) from None
    return YamlDocument(file=file, value=value, lines=lines)


def _check_characters(file: str, text: str) -> None:
    """YAML 1.1 ends a line at more characters than editors do, so that a comment could hide a key.

    And a name with a character that nobody sees, in a key or a value, is another name than it looks like.
    """
    hint = 'delete it, or write it as an escape in double quotes, such as "\\u200b"'
    problems = [
        BundleProblem(
            f"{what} in a bundle file", file=file, line=line, hint=hint, code="text.hidden-character"
        )
        for line, what in invisible_characters(text)
    ]
    if problems:
        raise BundleError(tuple(problems))


def _check_events(file: str, loader: Any) -> None:
    """Refuse aliases, tags and deep nesting before anything is built of them."""
    depth = 0
    while loader.check_event():
        event = loader.get_event()
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        what, hint = "", ""
        if isinstance(event, yaml.AliasEvent):
            what, hint = "a YAML alias", "write the value out"
        elif getattr(event, "tag", None) is not None:
            what, hint = f"the tag `{event.tag}`", "write the value without one"
        elif depth > MAX_DEPTH:
            what = f"nesting is over {MAX_DEPTH} levels"
        if what:
            line = event.start_mark.line + 1 if event.start_mark else None
            raise BundleError((BundleProblem(what, file=file, line=line, hint=hint, code="yaml.feature"),))


def _construct(file: str, loader: Any, node: Any, path: Path, lines: dict[Path, int]) -> Any:
    lines[path] = node.start_mark.line + 1

    def wrong(message: str, at: Any = node) -> BundleError:
        line = at.start_mark.line + 1
        return BundleError((BundleProblem(message, file=file, line=line, code="yaml.value"),))

    if isinstance(node, yaml.MappingNode):
        members: dict[str, Any] = {}
        for key_node, value_node in node.value:
            if not isinstance(key_node, yaml.ScalarNode) or key_node.value == "<<":
                raise wrong("a key must be plain text", key_node)
            key = str(key_node.value)
            if not _is_unicode(key):
                raise wrong("a lone surrogate, which is no character", key_node)
            if key in members:
                raise wrong(f"`{key}` stands here twice", key_node)
            members[key] = _construct(file, loader, value_node, (*path, key), lines)
            lines[(*path, key)] = key_node.start_mark.line + 1
        return members
    if isinstance(node, yaml.SequenceNode):
        return [
            _construct(file, loader, item, (*path, index), lines) for index, item in enumerate(node.value)
        ]
    value = loader.construct_object(node)
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) >= 2**53:
        raise wrong("an integer beyond ±(2^53-1)")
    if isinstance(value, float) and not math.isfinite(value):
        raise wrong("a number that does not fit a double")
    if isinstance(value, str) and not _is_unicode(value):
        raise wrong("a lone surrogate, which is no character")
    return value


def _is_unicode(text: str) -> bool:
    return not any("\ud800" <= char <= "\udfff" for char in text)

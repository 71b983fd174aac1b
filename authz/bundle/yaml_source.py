"""YAML as the bundle reads it: JSON's data model, no surprises, and a line for every value.

`on`, `yes`, `1:30` and dates are text (YAML 1.1 would make them something else); a name that stands
twice, an alias, a merge key or a custom tag is an error, never the last one wins.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import yaml

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

    def problem(self, path: Path, message: str, hint: str = "") -> BundleProblem:
        """A fault that stands at `path`."""
        return BundleProblem(message, file=self.file, line=self.line(path), hint=hint)


class _Loader(yaml.SafeLoader):
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
        loader = _Loader(text)
        try:
            _refuse_aliases(file, loader, text)
            loader = _Loader(text)
            node = loader.get_single_node()
            lines: dict[Path, int] = {}
            value = None if node is None else _construct(file, loader, node, (), lines)
        finally:
            loader.dispose()
    except UnicodeDecodeError:
        raise BundleError((BundleProblem("the file is not valid UTF-8", file=file),)) from None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark else None
        raise BundleError(
            (BundleProblem(f"not YAML: {error.problem or error.context}", file=file, line=line),)
        ) from None
    except yaml.YAMLError as error:
        raise BundleError((BundleProblem(f"not YAML: {str(error)[:120]}", file=file),)) from None
    return YamlDocument(file=file, value=value, lines=lines)


def _refuse_aliases(file: str, loader: Any, text: str) -> None:
    while loader.check_event():
        event = loader.get_event()
        if isinstance(event, yaml.AliasEvent):
            line = event.start_mark.line + 1 if event.start_mark else None
            raise BundleError(
                (BundleProblem("a YAML alias", file=file, line=line, hint="write the value out"),)
            )


def _construct(file: str, loader: Any, node: Any, path: Path, lines: dict[Path, int]) -> Any:
    lines[path] = node.start_mark.line + 1

    def wrong(message: str, at: Any = node) -> BundleError:
        return BundleError((BundleProblem(message, file=file, line=at.start_mark.line + 1),))

    if len(path) > 64:
        raise wrong("nesting is over 64 levels")
    if isinstance(node, yaml.MappingNode):
        if node.tag != "tag:yaml.org,2002:map":
            raise wrong(f"the tag `{node.tag}` is not allowed")
        members: dict[str, Any] = {}
        for key_node, value_node in node.value:
            if not isinstance(key_node, yaml.ScalarNode) or key_node.value == "<<":
                raise wrong("a key must be plain text", key_node)
            key = str(key_node.value)
            if key in members:
                raise wrong(f"`{key}` stands here twice", key_node)
            members[key] = _construct(file, loader, value_node, (*path, key), lines)
            lines[(*path, key)] = key_node.start_mark.line + 1
        return members
    if isinstance(node, yaml.SequenceNode):
        if node.tag != "tag:yaml.org,2002:seq":
            raise wrong(f"the tag `{node.tag}` is not allowed")
        return [
            _construct(file, loader, item, (*path, index), lines) for index, item in enumerate(node.value)
        ]
    if node.tag not in {"tag:yaml.org,2002:str", *(tag for tag, _, _ in _RESOLVERS)}:
        raise wrong(f"the tag `{node.tag}` is not allowed")
    value = loader.construct_object(node)
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) >= 2**53:
        raise wrong("an integer beyond ±(2^53-1)")
    return value

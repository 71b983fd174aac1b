"""Which tool of the registry a tool of the runtime is, and how its input becomes arguments and back."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from authz_client._json import decode
from authz_client.errors import MalformedAnswer
from authz_client.hooks._event import ToolEvent
from authz_client.hooks._failed import HookFailed, NotMapped

DEFAULT_TOOLS: Final = Path(__file__).with_name("claude_code_tools.json")
"""For the tools of the sample bundle (`policies/tools`)."""
MAX_FILE_BYTES: Final = 1024 * 1024
_MCP: Final = "mcp__"
_NAME: Final = re.compile(r"[^/]+/.+")
_MS_PER_SECOND: Final = 1000
# A pattern may say a place of its own at its front, in each of its alternatives: `/etc/*`, `{/etc,src}/*`.
_LEADS_AWAY: Final = re.compile(r"\.\.|(?:^|[{(,|])\s*[/~]|\\|:")


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """Where in the input an argument stands."""

    name: str
    is_ms: bool = False
    """The input counts milliseconds where the argument counts whole seconds."""
    default: Any = None
    """What the runtime's tool takes an absent member for; `None` where that is not known."""

    def argument(self, value: Any) -> Any:
        """Raises `NotMapped` where the argument could not say the same."""
        if not self.is_ms:
            return value
        if type(value) is not int or value % _MS_PER_SECOND:
            raise NotMapped(f"`{self.name}` must be whole seconds, in milliseconds: a multiple of 1000")
        return value // _MS_PER_SECOND

    def value(self, argument: Any) -> Any:
        """The way back."""
        if self.is_ms and type(argument) is int:
            return argument * _MS_PER_SECOND
        return argument


@dataclass(frozen=True, slots=True, kw_only=True)
class Mapped:
    """A tool of the registry, and what of the input stands for what of its arguments."""

    server: str
    name: str
    arguments: Mapping[str, Member] | None
    """`None`: the input is the arguments (a tool of an MCP server)."""
    reads: bool = False
    """It changes nothing, so nothing is told of how it went."""
    paths: frozenset[str] = frozenset()
    """Arguments that name files: what they lead to on this machine is told as well."""
    cwd_for: frozenset[str] = frozenset()
    """Arguments that are the working directory where the input does not say them."""
    constants: Mapping[str, Any] = field(default_factory=dict)
    """Arguments that the runtime's tool always has."""
    assumed: frozenset[str] = frozenset()
    """Arguments that the runtime's tool does not take. What a descriptor fills in there is not enforced."""
    unjudged: frozenset[str] = frozenset()
    """Members of the input that the service need not know."""
    only: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    """Members of the input that the service cannot judge, with the values that need no judging."""
    beneath: frozenset[str] = frozenset()
    """Members that are patterns and must not lead out of the folder that is judged."""

    def arguments_of(self, event: ToolEvent) -> dict[str, Any]:
        """What is asked about. Raises `NotMapped` for an input that the arguments could not say whole."""
        given = event.tool_input
        if self.arguments is None:
            return dict(given)
        known = {member.name for member in self.arguments.values()} | self.unjudged | set(self.only)
        for name in given:
            if name not in known:
                raise NotMapped(f"the input has `{name}`, which the mapping of `{event.tool}` does not know")
        for name, allowed in self.only.items():
            if name in given and not any(_same(given[name], value) for value in allowed):
                raise NotMapped(f"`{name}` of `{event.tool}` may only be {json.dumps(list(allowed))[1:-1]}")
        for name in self.beneath & set(given):
            if not isinstance(given[name], str) or _LEADS_AWAY.search(given[name]):
                raise NotMapped(f"`{name}` must not lead out of the folder: name that folder in `path`")
        arguments = dict(self.constants)
        for name, member in self.arguments.items():
            if member.name in given:
                arguments[name] = member.argument(given[member.name])
            elif name in self.cwd_for:
                arguments[name] = event.cwd
        return arguments

    def input_of(self, event: ToolEvent, judged: Mapping[str, Any]) -> dict[str, Any]:
        """The input that does what was judged. Raises `NotMapped` where there is none."""
        if self.arguments is None:
            return dict(judged)
        made = dict(event.tool_input)
        for name, argument in judged.items():
            if name in self.constants:
                if not _same(argument, self.constants[name]):
                    raise NotMapped(f"`{name}` was judged as another value than this tool has")
            elif name in self.arguments:
                member = self.arguments[name]
                value = member.value(argument)
                if not _same(member.argument(value), argument):
                    raise NotMapped(f"`{event.tool}` has no way to say `{name}` as it was judged")
                if member.name in made or member.default is None or not _same(value, member.default):
                    made[member.name] = value
            elif name not in self.assumed:
                raise NotMapped(f"`{event.tool}` has no place for `{name}`, which was judged")
        for name, member in self.arguments.items():
            if member.name in made and name not in judged:
                raise NotMapped(f"`{member.name}` was given and not judged")
        return made


def same_input(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether two inputs are the same JSON."""
    return _same(one, other)


def _same(one: Any, other: Any) -> bool:
    """As JSON texts, so that `1`, `1.0` and `true` are three values."""
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolTable:
    """The mapping file."""

    tools: Mapping[str, Mapped]
    mcp_servers: Mapping[str, str]
    """The runtime's name of an MCP server → its alias in the bundle."""
    left_to_runtime: frozenset[str]

    @classmethod
    def read(cls, path: Path) -> "ToolTable":
        """Raises `HookFailed` for a file that cannot be read, or says something that is not known here."""
        members = read_object(path, "tools file")
        _check_known(members, {"format", "tools", "mcp_servers", "left_to_runtime"}, "the tools file")
        if members.get("format") != 1:
            raise HookFailed("`format` of the tools file must be 1")
        tools = _object(members.get("tools", {}), "tools")
        servers = _object(members.get("mcp_servers", {}), "mcp_servers")
        return cls(
            tools={name: _mapped(name, _object(entry, name)) for name, entry in tools.items()},
            mcp_servers={name: _string(alias, "mcp_servers") for name, alias in servers.items()},
            left_to_runtime=_strings(members.get("left_to_runtime", []), "left_to_runtime"),
        )

    def find(self, event: ToolEvent) -> Mapped:
        """The tool of the registry. Raises `NotMapped` where none is named, or more than one could be."""
        if event.tool in self.tools:
            return self.tools[event.tool]
        found = list(self._of_servers(event))
        if not found:
            raise NotMapped(
                f"no tool of the registry is named for `{event.tool}`; use another tool, or have it mapped"
            )
        if len(found) > 1:
            raise NotMapped(f"`{event.tool}` could be a tool of more than one MCP server; rename one of them")
        return found[0]

    def _of_servers(self, event: ToolEvent) -> Iterator[Mapped]:
        """`mcp__SERVER__TOOL`, by every server that it could be of."""
        for server, alias in self.mcp_servers.items():
            prefix = f"{_MCP}{server}__"
            if not event.tool.startswith(prefix) or event.tool == prefix:
                continue
            if event.mcp_server in (None, server):
                yield Mapped(server=alias, name=event.tool.removeprefix(prefix), arguments=None)


def read_object(path: Path, what: str) -> dict[str, Any]:
    """The JSON object in a file. Raises `HookFailed`."""
    try:
        with path.open("rb") as file:
            data = file.read(MAX_FILE_BYTES + 1)
        value = decode(data)
    except OSError as error:
        raise HookFailed(f"the {what} `{path}` cannot be read: {error.strerror or error}") from None
    except MalformedAnswer:
        raise HookFailed(f"the {what} `{path}` is not JSON with one meaning") from None
    if len(data) > MAX_FILE_BYTES or not isinstance(value, dict):
        raise HookFailed(f"the {what} `{path}` must be a JSON object of at most {MAX_FILE_BYTES} bytes")
    return value


def _mapped(name: str, entry: Mapping[str, Any]) -> Mapped:
    known = {"tool", "reads", "arguments", "paths", "cwd_for", "constants", "assumed", "unjudged", "only"}
    _check_known(entry, known | {"beneath"}, f"`{name}` of the tools file")
    tool = _string(entry.get("tool"), "tool")
    if not _NAME.fullmatch(tool):
        raise HookFailed(
            f"`tool` of `{name}` of the tools file must be `server/tool`, as the bundle names them"
        )
    reads = entry.get("reads", False)
    if not isinstance(reads, bool):
        raise HookFailed(f"`reads` of `{name}` of the tools file must be a boolean")
    server, _, own = tool.partition("/")
    arguments = {name: _member(at) for name, at in _object(entry.get("arguments"), "arguments").items()}
    sets = {key: _strings(entry.get(key, []), key) for key in ("paths", "cwd_for", "assumed", "unjudged")}
    if not sets["paths"] | sets["cwd_for"] <= set(arguments):
        raise HookFailed(f"`paths` and `cwd_for` of `{name}` of the tools file must name arguments of it")
    only = _object(entry.get("only", {}), "only")
    return Mapped(
        server=server,
        name=own,
        arguments=arguments,
        reads=reads,
        constants=_object(entry.get("constants", {}), "constants"),
        only={member: tuple(_list(values, "only")) for member, values in only.items()},
        beneath=_strings(entry.get("beneath", []), "beneath"),
        **sets,
    )


def _member(at: Any) -> Member:
    if isinstance(at, str):
        return Member(name=at)
    members = _object(at, "arguments")
    _check_known(members, {"member", "member_unit", "member_default"}, "an argument of the tools file")
    if members.get("member_unit") not in (None, "ms"):
        raise HookFailed("`member_unit` of the tools file must be `ms`")
    return Member(
        name=_string(members.get("member"), "member"),
        is_ms="member_unit" in members,
        default=members.get("member_default"),
    )


def _check_known(members: Mapping[str, Any], known: set[str], where: str) -> None:
    for name in members:
        if name not in known:
            raise HookFailed(f"{where} has `{name}`, which is not known")


def _object(value: Any, name: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise HookFailed(f"`{name}` of the tools file must be an object")
    return value


def _list(value: Any, name: str) -> list[Any]:
    if not isinstance(value, list):
        raise HookFailed(f"`{name}` of the tools file must be an array")
    return value


def _string(value: Any, name: str) -> str:
    if not isinstance(value, str) or not value:
        raise HookFailed(f"`{name}` of the tools file must be a non-empty string")
    return value


def _strings(value: Any, name: str) -> frozenset[str]:
    return frozenset(_string(item, name) for item in _list(value, name))

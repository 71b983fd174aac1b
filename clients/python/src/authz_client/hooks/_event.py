"""One event of Claude Code, as it comes on standard input."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, BinaryIO, Final

from authz_client._json import decode
from authz_client.errors import MalformedAnswer
from authz_client.hooks._failed import HookFailed

MAX_EVENT_BYTES: Final = 16 * 1024 * 1024
"""A result comes back whole in an event, so this is above what a request may hold."""


class EventKind(StrEnum):
    """The events that are answered."""

    BEFORE = "PreToolUse"
    AFTER = "PostToolUse"
    AFTER_FAILURE = "PostToolUseFailure"


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolEvent:
    """A tool is about to run, or has run. Members that nothing here needs are not kept."""

    kind: EventKind
    session: str
    cwd: str
    tool: str
    tool_use_id: str
    tool_input: Mapping[str, Any]
    prompt_id: str | None
    agent_id: str | None
    """Of a subagent. `agent_type` alone is no sign of one: the main thread may have it too."""
    mcp_server: str | None
    response: Any
    """What the tool returned; `None` before it ran and after a failure."""
    is_interrupted: bool
    """Somebody stopped it, so what it has done by then is not known."""


def read_event(source: BinaryIO) -> ToolEvent:
    """The one event. Raises `HookFailed` for what is no strict JSON, too long, or not of the documented form.

    Members that are not known are ignored: the runtime adds some from time to time.
    """
    data = source.read(MAX_EVENT_BYTES + 1)
    if len(data) > MAX_EVENT_BYTES:
        raise HookFailed(f"the event is longer than {MAX_EVENT_BYTES} bytes")
    try:
        members = decode(data)
    except MalformedAnswer:
        raise HookFailed("the event is not JSON with one meaning") from None
    if not isinstance(members, dict):
        raise HookFailed("the event must be a JSON object")
    name = _text(members, "hook_event_name")
    try:
        kind = EventKind(name)
    except ValueError:
        known = ", ".join(EventKind)
        raise HookFailed(f"this hook answers {known}: set it for no other event") from None
    tool_input = members.get("tool_input")
    if not isinstance(tool_input, dict):
        raise HookFailed("`tool_input` of the event must be an object")
    response = members.get("tool_response")
    return ToolEvent(
        kind=kind,
        session=_text(members, "session_id"),
        cwd=_text(members, "cwd"),
        tool=_text(members, "tool_name"),
        tool_use_id=_text(members, "tool_use_id"),
        tool_input=tool_input,
        prompt_id=_optional_text(members, "prompt_id"),
        agent_id=_optional_text(members, "agent_id"),
        mcp_server=_mcp_server(members),
        response=response,
        is_interrupted=_flag(members, "is_interrupt")
        or (isinstance(response, dict) and response.get("interrupted") is True),
    )


def _text(members: Mapping[str, Any], name: str) -> str:
    value = members.get(name)
    if not isinstance(value, str) or not value:
        raise HookFailed(f"`{name}` of the event must be a non-empty string")
    return value


def _optional_text(members: Mapping[str, Any], name: str) -> str | None:
    return None if members.get(name) is None else _text(members, name)


def _flag(members: Mapping[str, Any], name: str) -> bool:
    value = members.get(name, False)
    if not isinstance(value, bool):
        raise HookFailed(f"`{name}` of the event must be a boolean")
    return value


def _mcp_server(members: Mapping[str, Any]) -> str | None:
    """The server's name, bare or in an object."""
    value = members.get("mcp_server")
    if isinstance(value, dict):
        return _text(value, "name")
    return _optional_text(members, "mcp_server")

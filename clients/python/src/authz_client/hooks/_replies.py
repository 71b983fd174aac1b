"""What is printed for the runtime: the JSON of a `PreToolUse` hook, with words for the model."""

import json
from collections.abc import Mapping
from typing import Any, Final

MAX_REPLY_CHARACTERS: Final = 10_000
"""A longer output of a hook is not taken whole by the runtime."""
_MAX_REASON_CHARACTERS: Final = 4_000


class ReplyTooLong(Exception):
    """The input that was judged cannot be handed back."""


def allow(reason: str, updated_input: Mapping[str, Any] | None) -> str:
    """The tool may run, with this input in place of its own where there is one. Raises `ReplyTooLong`."""
    return _reply("allow", reason, updated_input)


def deny(reason: str) -> str:
    """The tool does not run, and the model is told why."""
    return _reply("deny", reason, None)


def ask(reason: str, updated_input: Mapping[str, Any] | None) -> str:
    """The runtime asks whoever sits before it. Raises `ReplyTooLong`."""
    return _reply("ask", reason, updated_input)


def _reply(decision: str, reason: str, updated_input: Mapping[str, Any] | None) -> str:
    if len(reason) > _MAX_REASON_CHARACTERS:
        reason = reason[:_MAX_REASON_CHARACTERS] + " … (shortened)"
    output: dict[str, Any] = {
        "hookEventName": "PreToolUse",
        "permissionDecision": decision,
        "permissionDecisionReason": reason,
    }
    if updated_input is not None:
        output["updatedInput"] = updated_input
    # In ASCII, whatever the reason or the input holds: what is judged is not changed by an encoding.
    text = json.dumps({"hookSpecificOutput": output})
    if updated_input is not None and len(text) > MAX_REPLY_CHARACTERS:
        raise ReplyTooLong
    if len(text) > MAX_REPLY_CHARACTERS:
        return _reply(decision, reason[: _MAX_REASON_CHARACTERS // 4] + " … (shortened)", None)
    return text

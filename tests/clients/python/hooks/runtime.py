"""What Claude Code does with its hooks, as its documentation and published types say, without Claude Code.

It runs the hook's command in a shell with the event on standard input. Exit code 0 with JSON is a decision;
exit code 2 blocks, with standard error as the reason; any other end (a timeout, a crash, a missing program,
another exit code) lets the action go on unless the hook says `"onFailure": "block"`. An exit code 0
without JSON decides nothing: the runtime's own permissions then do.
"""

import itertools
import json
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

SETTINGS: Final = Path(__file__).with_name("settings.json")
"""What the README tells people to paste."""
_EVENTS: Final = json.loads(Path(__file__).with_name("events.json").read_text(encoding="utf-8"))
_NUMBERS: Final = itertools.count(1)
_LIMIT: Final = 10_000


@dataclass(frozen=True, kw_only=True)
class Result:
    """What became of the tool call, and of the event after it of what the hook had to say."""

    effect: str
    """`ran`, `blocked`, `asked` (the dialog is shown) or `undecided` (the runtime's own permissions)."""
    tool_input: Any
    reason: str = ""
    updated: bool = False
    exit_code: int | None = None
    stdout: str = ""


def event(name: str, *, workspace: str = "/workspace", **members: Any) -> dict[str, Any]:
    """A recorded event of that name, as if it happened in `workspace`, with some members otherwise."""
    made = {**_EVENTS["Bash"], **_EVENTS[name], **members}
    text = json.dumps(made)
    made = json.loads(text.replace('"/workspace', f'"{workspace}'))
    # Every call has an id of its own.
    made["tool_use_id"] = members.get("tool_use_id", f"toolu_{next(_NUMBERS)}")
    return dict(made)


@dataclass
class Runtime:
    """One installation: settings, and the environment that hooks get."""

    environment: dict[str, str]
    settings: Any = field(default_factory=lambda: json.loads(SETTINGS.read_text(encoding="utf-8")))

    def configure(self, **members: Any) -> None:
        """Set, or with `None` unset, members of the hook's own settings file."""
        path = Path(self.environment["XDG_CONFIG_HOME"]) / "authz" / "hook.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        told = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
        told = {name: value for name, value in {**told, **members}.items() if value is not None}
        path.write_text(json.dumps(told), encoding="utf-8")

    def leases(self) -> list[Path]:
        """What is kept between the hook before a tool and the one after it."""
        folder = Path(self.environment["XDG_STATE_HOME"]) / "authz" / "hook"
        return sorted(folder.iterdir()) if folder.exists() else []

    def hook(self, name: str) -> dict[str, Any]:
        """The one hook of an event."""
        (matcher,) = self.settings["hooks"][name]
        (hook,) = matcher["hooks"]
        found: dict[str, Any] = hook
        return found

    def set(self, **members: Any) -> None:
        """Members of all three hooks."""
        for name in self.settings["hooks"]:
            self.hook(name).update(members)

    def call(self, made: Mapping[str, Any] | bytes) -> Result:
        """A tool call: its `PreToolUse` event, up to where the tool would run."""
        return self._fire(made, "PreToolUse")

    def after(self, made: Mapping[str, Any], **members: Any) -> Result:
        """The tool has run: its `PostToolUse` event, or that of a failure where `error` is given."""
        name = "PostToolUseFailure" if "error" in members else "PostToolUse"
        return self._fire({**made, "hook_event_name": name, **members}, name)

    def _fire(self, made: Mapping[str, Any] | bytes, name: str) -> Result:
        hook = self.hook(name)
        data = made if isinstance(made, bytes) else json.dumps(made).encode()
        given = None if isinstance(made, bytes) else made["tool_input"]
        blocks = hook.get("onFailure") == "block"
        failed = Result(effect="blocked" if blocks else "undecided", tool_input=given, reason="hook failed")
        try:
            ran = subprocess.run(
                ["sh", "-c", hook["command"]],
                input=data,
                env=dict(self.environment),
                capture_output=True,
                timeout=hook.get("timeout", 600),
                check=False,
            )
        except subprocess.TimeoutExpired:
            return failed
        stdout, stderr = ran.stdout.decode(), ran.stderr.decode()
        told = {"exit_code": ran.returncode, "stdout": stdout, "tool_input": given}
        if ran.returncode == 2:
            return Result(effect="blocked", reason=stderr, **told)
        if ran.returncode != 0:
            return Result(effect=failed.effect, reason=stderr, **told)
        try:
            output = json.loads(stdout[:_LIMIT])["hookSpecificOutput"]
        except (ValueError, KeyError):
            return Result(effect="undecided", **told)
        assert output["hookEventName"] == name
        assert output.keys() <= {
            *("hookEventName", "permissionDecision", "permissionDecisionReason", "updatedInput"),
        }
        effect = {"allow": "ran", "deny": "blocked", "ask": "asked"}[output["permissionDecision"]]
        # It replaces the whole input.
        told["tool_input"] = output.get("updatedInput", given)
        reason = output["permissionDecisionReason"]
        return Result(effect=effect, reason=reason, updated="updatedInput" in output, **told)

"""How a hook is set: a file of settings, what its command line says instead, and the key."""

import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

from authz_client.hooks._failed import HookFailed
from authz_client.hooks._tools import read_object

KEY_VARIABLE: Final = "AUTHZ_HOOK_KEY"
CONFIG_VARIABLE: Final = "AUTHZ_HOOK_CONFIG"
MAX_KEY_BYTES: Final = 1024
REQUESTS_AROUND_A_WAIT: Final = 3
"""Asking, the last poll's grace, and asking again: each may take the whole deadline."""
MARGIN_SECONDS: Final = 5.0
"""For starting up and answering, before the runtime's timeout."""


class OnAsk(StrEnum):
    """What is done where a rule asks for a person."""

    WAIT = "wait"
    """Wait for the approval here, then deny."""
    DIALOG = "dialog"
    """Hand over to the runtime's own dialog, whose yes is neither bound nor recorded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How a hook asks, and as whom. Members of the settings file have these names."""

    agent: str
    """Name of the main agent. A subagent is `AGENT/AGENT_ID`, with this one as its parent."""
    on_behalf_of: str | None = None
    url: str = "http://127.0.0.1:8700"
    uds: str | None = None
    """A Unix socket to connect to in place of the url's host."""
    sandbox_root: str | None = None
    """What the runtime holds the agent in. Believed only where the service's bundle lets the key say so."""
    tools: str | None = None
    """The tools file; the one that comes with this package where there is none."""
    key_file: str | None = None
    on_ask: str = OnAsk.WAIT
    timeout_seconds: float = 120
    """The `timeout` of this hook in the runtime's settings. It ends before that by itself."""
    approval_seconds: float = 90
    """How long an approval is waited for."""
    deadline_seconds: float = 5
    """Of one request, with all its repeats."""
    tool_timeout_seconds: int = 3600
    """How long a tool may take. What has not been told by then counts as unknown."""

    def check(self) -> "Settings":
        """Itself. Raises `HookFailed` for what cannot be, or could outlast the runtime's timeout."""
        for name in ("timeout_seconds", "deadline_seconds"):
            if getattr(self, name) <= 0:
                raise HookFailed(f"the setting `{name}` must be more than 0")
        if not 1 <= self.tool_timeout_seconds <= 86_400:
            raise HookFailed("the setting `tool_timeout_seconds` must be 1 to 86400")
        if self.approval_seconds < 0:
            raise HookFailed("the setting `approval_seconds` must be 0 or more")
        if self.on_ask not in list(OnAsk):
            raise HookFailed(f"the setting `on_ask` must be one of {', '.join(OnAsk)}")
        longest = self.approval_seconds + REQUESTS_AROUND_A_WAIT * self.deadline_seconds + MARGIN_SECONDS
        if longest > self.timeout_seconds:
            raise HookFailed(
                f"waiting could take {longest:g} seconds, and the hook is given {self.timeout_seconds:g}: "
                "raise `timeout_seconds` together with the hook's `timeout`, or lower `approval_seconds`"
            )
        return self


_NUMBERS: Final = frozenset({"timeout_seconds", "approval_seconds", "deadline_seconds"})
_INTEGERS: Final = frozenset({"tool_timeout_seconds"})


def read_settings(overrides: Mapping[str, Any], environment: Mapping[str, str]) -> Settings:
    """The settings: a file, and above it `overrides` of the command line (without those that are `None`).

    The file is named by `config`, by AUTHZ_HOOK_CONFIG, or is `authz/hook.json` in the user's configuration
    folder, where it may be missing. Raises `HookFailed`.
    """
    told = {name: value for name, value in overrides.items() if value is not None}
    named = told.pop("config", None) or environment.get(CONFIG_VARIABLE)
    path = Path(named) if named else _home(environment, "XDG_CONFIG_HOME", ".config") / "authz" / "hook.json"
    members = read_object(path, "settings file") if named or path.exists() else {}
    known = {member.name for member in fields(Settings)}
    for name, value in members.items():
        if name not in known:
            raise HookFailed(f"the settings file has `{name}`, which is no setting")
        _check_type(name, value)
    members |= told
    if "agent" not in members:
        raise HookFailed("say who the agent is: `--agent NAME`, or `agent` in the settings file")
    return replace(Settings(agent=members.pop("agent")), **members).check()


def _check_type(name: str, value: Any) -> None:
    if name in _INTEGERS:
        fits, kind = type(value) is int, "an integer"
    elif name in _NUMBERS:
        fits, kind = type(value) in (int, float), "a number"
    else:
        fits, kind = isinstance(value, str) and value != "", "a non-empty string"
    if not fits:
        raise HookFailed(f"the setting `{name}` must be {kind}")


def read_key(settings: Settings, environment: Mapping[str, str]) -> str:
    """The API key, from AUTHZ_HOOK_KEY or a file that its owner alone may read. Raises `HookFailed`."""
    key = environment.get(KEY_VARIABLE)
    if not key:
        if settings.key_file is None:
            raise HookFailed(f"there is no key: set `{KEY_VARIABLE}`, or `key_file` to a file of mode 0600")
        key = _read_private(Path(settings.key_file).expanduser())
    if not key or not key.isascii() or not key.isprintable() or " " in key:
        raise HookFailed("the key is no API key: one line of visible ASCII characters")
    return key


def _read_private(path: Path) -> str:
    try:
        with path.open("rb") as file:
            found = os.fstat(file.fileno())
            if not stat.S_ISREG(found.st_mode) or found.st_mode & 0o077:
                raise HookFailed(f"others may read the key file `{path}`: make its mode 0600")
            return file.read(MAX_KEY_BYTES).decode("ascii", "replace").strip()
    except OSError as error:
        raise HookFailed(f"the key file `{path}` cannot be read: {error.strerror or error}") from None


def state_folder(environment: Mapping[str, str]) -> Path:
    """Where leases are kept between the hook before a tool and the hook after it."""
    return _home(environment, "XDG_STATE_HOME", ".local/state") / "authz" / "hook"


def _home(environment: Mapping[str, str], variable: str, beneath_home: str) -> Path:
    """A folder of the XDG Base Directory Specification: relative values are to be ignored."""
    named = environment.get(variable, "")
    return Path(named) if named.startswith("/") else Path.home() / beneath_home

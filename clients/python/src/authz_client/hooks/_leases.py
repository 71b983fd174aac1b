"""What the hook before a tool leaves for the hook after it: the right to tell how the call ended.

One private file a call, under a name that says neither. A lease's token is a secret of this user.
"""

import hashlib
import json
import os
import stat
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from authz_client._json import decode
from authz_client.errors import MalformedAnswer
from authz_client.hooks._event import ToolEvent
from authz_client.hooks._failed import HookFailed

KEPT_SECONDS: Final = 2 * 24 * 3600
"""Longer than any lease lasts."""
_MAX_BYTES: Final = 16 * 1024
_PRIVATE: Final = 0o700


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptLease:
    """One call that was let run. `token` is a secret."""

    decision_id: str
    token: str

    def __repr__(self) -> str:
        return f"KeptLease(decision_id={self.decision_id!r}, token=…)"


class LeaseFolder:
    """The kept leases of one user."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def keep(self, event: ToolEvent, lease: KeptLease) -> None:
        """Durable before the tool may run. Raises `HookFailed`. Takes away what nobody will ask for."""
        try:
            self._folder.mkdir(mode=_PRIVATE, parents=True, exist_ok=True)
            found = self._folder.lstat()
            if not stat.S_ISDIR(found.st_mode) or found.st_mode & 0o077 or found.st_uid != os.getuid():
                raise HookFailed(f"others may use `{self._folder}`: it must be this user's, with mode 0700")
            self._forget_old()
            path = self._path(event)
            made = path.with_name(f"{path.name}.{os.getpid()}.new")
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
            with os.fdopen(os.open(made, flags, 0o600), "w", encoding="utf-8") as file:
                json.dump({"decision_id": lease.decision_id, "token": lease.token}, file)
                file.flush()
                os.fsync(file.fileno())
            made.replace(path)
        except OSError as error:
            raise _failure("kept", error) from None

    def find(self, event: ToolEvent) -> KeptLease | None:
        """Of the call that the event is about. Raises `HookFailed` for one that cannot be read."""
        try:
            opened = os.open(self._path(event), os.O_RDONLY | os.O_NOFOLLOW)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise _failure("read", error) from None
        try:
            with os.fdopen(opened, "rb") as file:
                members = decode(file.read(_MAX_BYTES))
            return KeptLease(decision_id=members["decision_id"], token=members["token"])
        except OSError as error:
            raise _failure("read", error) from None
        except (MalformedAnswer, KeyError, TypeError):
            raise HookFailed("the lease that was kept for this call is damaged") from None

    def drop(self, event: ToolEvent) -> None:
        """Nothing more is to be told of the call."""
        try:
            self._path(event).unlink(missing_ok=True)
        except OSError as error:
            raise _failure("removed", error) from None

    def _path(self, event: ToolEvent) -> Path:
        name = json.dumps([event.session, event.tool_use_id]).encode()
        return self._folder / hashlib.sha256(name).hexdigest()

    def _forget_old(self) -> None:
        oldest = time.time() - KEPT_SECONDS
        for path in self._folder.iterdir():
            try:
                if path.lstat().st_mtime < oldest:
                    path.unlink()
            except FileNotFoundError:
                pass  # another hook was quicker


def _failure(what: str, error: OSError) -> HookFailed:
    return HookFailed(f"the lease of this call cannot be {what}: {error.strerror or error}")

"""The session of a person on the command line: one small file that only its owner may read."""

import contextlib
import json
import os
import stat
from pathlib import Path
from typing import Final

from authz.errors import ConfigError
from authz.service.people import BEARER_PREFIX

SESSION_FILE: Final = "AUTHZ_SESSION_FILE"
MAX_BYTES: Final = 4096


def session_path() -> Path:
    """`AUTHZ_SESSION_FILE`, else `authz/session.json` where programs keep their configuration (XDG)."""
    named = os.environ.get(SESSION_FILE)
    if named:
        return Path(named)
    folder = os.environ.get("XDG_CONFIG_HOME")
    # The specification takes no relative path there.
    base = Path(folder) if folder and os.path.isabs(folder) else Path.home() / ".config"
    return base / "authz" / "session.json"


def read_session() -> tuple[str, str]:
    """(url of the service, bearer token). Raises `ConfigError` where nobody is signed in, or others could be.

    A file that others may read or that is somebody else's is refused: who it names is whoever wrote it.
    """
    path = session_path()
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        raise ConfigError("nobody is signed in here; see `authz sign-in --help`") from None
    except OSError as fault:
        raise ConfigError(f"the session file `{path}` cannot be read: {fault.strerror}") from None
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid() or status.st_mode & 0o077:
            raise ConfigError(f"the session file `{path}` is not for you alone; remove it and sign in again")
        content = file.read(MAX_BYTES + 1)
    try:
        document = json.loads(content)
        url, token = document["url"], document["token"]
    except (ValueError, KeyError, TypeError, RecursionError):
        url = token = None
    if not isinstance(url, str) or not isinstance(token, str) or not token.startswith(BEARER_PREFIX):
        raise ConfigError(f"the session file `{path}` cannot be read; remove it and sign in again")
    return url, token


def write_session(url: str, token: str) -> Path:
    """Keep a session, in place of an earlier one. Raises `ConfigError`."""
    path = session_path()
    fresh = path.with_name(f"{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # Made anew and private from the start, then moved: nobody ever sees half of it, or more than we do.
        descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            os.fchmod(descriptor, 0o600)
            os.write(descriptor, json.dumps({"url": url, "token": token}).encode())
        finally:
            os.close(descriptor)
        os.replace(fresh, path)
    except OSError as fault:
        with contextlib.suppress(OSError):
            fresh.unlink()
        raise ConfigError(f"the session file `{path}` cannot be written: {fault.strerror}") from None
    return path


def forget_session() -> None:
    """Remove the file, if there is one. Raises `ConfigError`."""
    path = session_path()
    try:
        path.unlink(missing_ok=True)
    except OSError as fault:
        raise ConfigError(f"the session file `{path}` cannot be removed: {fault.strerror}") from None

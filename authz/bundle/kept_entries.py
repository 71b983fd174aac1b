"""Advertised entries as they were when they were pinned, beside the bundle: `tools/.advertised/ALIAS.json`.

Only for showing what changed later. Nothing is decided by them, and none is believed that has not the pinned
digest. The loader leaves files and folders alone whose names begin with a dot.
"""

import contextlib
import fcntl
import json
import os
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from authz.core.fingerprint import canonical_json

FOLDER: Final = ".advertised"
MAX_BYTES: Final = 32 * 1024 * 1024

Entries = Mapping[str, Mapping[str, Any]]


def kept_path(tool_file: Path, alias: str) -> Path:
    """Where the entries of one server are kept."""
    return tool_file.parent / FOLDER / f"{alias}.json"


def read_kept(path: Path) -> dict[str, Mapping[str, Any]]:
    """The entries by tool; empty where there are none, or none that can be read."""
    try:
        if path.stat().st_size > MAX_BYTES:
            return {}
        value = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    if not isinstance(value, dict):
        return {}
    return {name: entry for name, entry in value.items() if isinstance(entry, dict)}


def kept_text(entries: Entries) -> str:
    """The text of the file: one entry a line, in the order of names, so that a review sees what changed."""
    lines = [
        f" {json.dumps(name)}: {canonical_json(entry).decode()}" for name, entry in sorted(entries.items())
    ]
    return "{\n" + ",\n".join(lines) + "\n}\n"


def write_atomically(path: Path, text: str, *, expected: bytes | None) -> bool:
    """Write a file whole or not at all; false, and nothing written, when it is no longer `expected`.

    `expected` are the bytes that were read before, `None` for a file that was not there. A link stays a link.
    Of several that expect the same, in threads or processes, one writes: between the comparison and the
    replacement none that writes through here can get. An editor can, for it knows no lock.
    """
    real = path.resolve()
    real.parent.mkdir(parents=True, exist_ok=True)
    mode = real.stat().st_mode & 0o777 if real.exists() else 0o644
    handle, name = tempfile.mkstemp(prefix=f".{real.name}.", suffix=".tmp", dir=real.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(text.encode())
            file.flush()
            os.fsync(file.fileno())
        Path(name).chmod(mode)
        with _only_writer(real.parent):
            if (real.read_bytes() if real.exists() else None) != expected:
                return False
            os.replace(name, real)
            return True
    finally:
        with contextlib.suppress(FileNotFoundError):
            Path(name).unlink()


@contextlib.contextmanager
def _only_writer(folder: Path) -> Iterator[None]:
    """Held by one writer of a folder at a time (flock, so it ends with the process).

    The folder itself is locked: a lock file would be one more file in it, and deleting that safely is as hard
    as what it is for.
    """
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)

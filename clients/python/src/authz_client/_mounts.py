"""What Linux says about mounts (proc_pid_mountinfo(5)): where procfs is, what a bind mount shows again."""

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

MAX_ALIASES: Final = 16

_MOUNTINFO: Final = Path("/proc/self/mountinfo")
_ESCAPE: Final = re.compile(rb"\\([0-7]{3})")
_FIELDS_BEFORE_SEPARATOR: Final = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Mount:
    """One line of mountinfo."""

    device: int
    root: str
    """The directory of the file system that is mounted."""
    point: str
    """Where it is mounted."""
    type: str


def read_mounts() -> tuple[Mount, ...]:
    """The mounts that this process sees, oldest first; none where the system does not list them."""
    try:
        lines = _MOUNTINFO.read_bytes().split(b"\n")
    except OSError:
        return ()
    return tuple(mount for line in lines if (mount := _parsed(line)) is not None)


def aliases_of(path: str, mounts: Sequence[Mount]) -> tuple[str, ...]:
    """Other link-free paths at which mounts show the object at `path`, each confirmed by identity.

    A bind mount is no link: nothing in the path tells of it, and only the list of mounts can.
    """
    holding = _mount_of(path, mounts)
    if holding is None:
        return ()
    inside = _joined(holding.root, _below(path, holding.point))
    found: list[str] = []
    for mount in mounts:
        if mount is holding or mount.device != holding.device or not _is_within(inside, mount.root):
            continue
        alias = _joined(mount.point, _below(inside, mount.root))
        if alias != path and alias not in found and _same(alias, path):
            found.append(alias)
    return tuple(found[:MAX_ALIASES])


def _parsed(line: bytes) -> Mount | None:
    fields = line.split(b" ")
    if b"-" not in fields[_FIELDS_BEFORE_SEPARATOR:]:
        return None
    separator = fields.index(b"-", _FIELDS_BEFORE_SEPARATOR)
    major, _, minor = fields[2].partition(b":")
    return Mount(
        device=os.makedev(int(major), int(minor)),
        root=_unescaped(fields[3]),
        point=_unescaped(fields[4]),
        type=os.fsdecode(fields[separator + 1]),
    )


def _unescaped(field: bytes) -> str:
    return os.fsdecode(_ESCAPE.sub(lambda found: bytes([int(found[1], 8)]), field))


def _mount_of(path: str, mounts: Sequence[Mount]) -> Mount | None:
    """The mount that `path` lies in: the deepest, and of several at one point the last."""
    holding = None
    for mount in mounts:
        if _is_within(path, mount.point) and (holding is None or len(mount.point) >= len(holding.point)):
            holding = mount
    return holding


def _is_within(path: str, directory: str) -> bool:
    return path == directory or path.startswith(directory.rstrip("/") + "/")


def _below(path: str, directory: str) -> str:
    return path[len(directory.rstrip("/")) :].strip("/")


def _joined(directory: str, rest: str) -> str:
    return f"{directory.rstrip('/')}/{rest}".rstrip("/") or "/"


def _same(path: str, other: str) -> bool:
    try:
        found, expected = os.lstat(path), os.lstat(other)
    except OSError:
        return False
    return (found.st_dev, found.st_ino) == (expected.st_dev, expected.st_ino)

"""Which object stands at a path or behind a descriptor, told apart from one that comes after it.

Device and inode are what the wire has, and they name an object only while it exists: ext4 gives the number of
a removed file to the very next one. So the kind of the object and the moment of its birth are compared as
well where the system tells it (statx(2) on Linux, `st_birthtime` on macOS).
"""

import ctypes
import functools
import os
import struct
import sys
from dataclasses import dataclass
from typing import Final

_AT_FDCWD: Final = -100
_AT_SYMLINK_NOFOLLOW: Final = 0x100
_AT_EMPTY_PATH: Final = 0x1000
_BASIC_STATS: Final = 0x7FF
_BIRTH: Final = 0x800
_SIZE: Final = 256
"""Of `struct statx`, <linux/stat.h>."""
_NANOSECONDS: Final = 1_000_000_000

_U32: Final = struct.Struct("=I")
_U16: Final = struct.Struct("=H")
_U64: Final = struct.Struct("=Q")
_TIME: Final = struct.Struct("=qI")


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """An object, looked at once."""

    device: int
    inode: int
    mode: int
    links: int
    born_ns: int | None
    """When it was made, in nanoseconds of the epoch; `None` where the system does not tell."""


def look(path: str, *, folder: int | None = None) -> Found:
    """What stands at `path` (in `folder`), a link for itself. Raises `OSError`."""
    if _statx() is not None:
        found = _look(_AT_FDCWD if folder is None else folder, path, _AT_SYMLINK_NOFOLLOW)
        if found is not None:
            return found
    return _plain(os.stat(path, dir_fd=folder, follow_symlinks=False))


def look_at(descriptor: int) -> Found:
    """What an open descriptor is of."""
    if _statx() is not None:
        found = _look(descriptor, "", _AT_EMPTY_PATH)
        if found is not None:
            return found
    return _plain(os.fstat(descriptor))


def _plain(status: os.stat_result) -> Found:
    born = getattr(status, "st_birthtime", None)
    return Found(
        device=status.st_dev,
        inode=status.st_ino,
        mode=status.st_mode,
        links=status.st_nlink,
        born_ns=int(born * _NANOSECONDS) if born is not None else None,
    )


def _look(folder: int, path: str, flags: int) -> Found | None:
    """By statx, in one call; `None` when something else has to find out, or to say what is wrong."""
    statx = _statx()
    if statx is None:
        return None
    buffer = ctypes.create_string_buffer(_SIZE)
    if statx(folder, os.fsencode(path), flags, _BASIC_STATS | _BIRTH, buffer) != 0:
        return None
    raw = buffer.raw
    mask, links = _U32.unpack_from(raw, 0)[0], _U32.unpack_from(raw, 16)[0]
    seconds, nanoseconds = _TIME.unpack_from(raw, 80)
    return Found(
        device=os.makedev(_U32.unpack_from(raw, 136)[0], _U32.unpack_from(raw, 140)[0]),
        inode=_U64.unpack_from(raw, 32)[0],
        mode=_U16.unpack_from(raw, 28)[0],
        links=links,
        born_ns=seconds * _NANOSECONDS + nanoseconds if mask & _BIRTH else None,
    )


@functools.cache
def _statx() -> "ctypes._NamedFuncPointer | None":
    if sys.platform != "linux":
        return None
    function = getattr(ctypes.CDLL(None), "statx", None)
    if function is not None:
        function.argtypes = (
            ctypes.c_int,
            ctypes.c_char_p,
            ctypes.c_int,
            ctypes.c_uint,
            ctypes.c_char_p,
        )
        function.restype = ctypes.c_int
    return function

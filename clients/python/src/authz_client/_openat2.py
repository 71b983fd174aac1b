"""System calls that Python does not offer: openat2(2) and renameat2(2) of Linux.

Both take a directory and a name in it, and refuse in the kernel, in one step, what could otherwise change
between a check and its use.
"""

import ctypes
import errno
import functools
import os
import platform
import sys
from typing import Final

RESOLVE_NO_MAGICLINKS: Final = 0x02
RESOLVE_NO_SYMLINKS: Final = 0x04
RESOLVE_BENEATH: Final = 0x08
RENAME_NOREPLACE: Final = 0x01

_SYS_OPENAT2: Final = 437
"""On every architecture: system calls since 424 have one number."""
_SYS_RENAMEAT2: Final = {"x86_64": 316, "aarch64": 276, "riscv64": 276}
# A seccomp filter older than the call answers EPERM, also where the kernel has it (containers).
_ABSENT: Final = frozenset({errno.ENOSYS, errno.EPERM})
_ATTEMPTS: Final = 64


class _OpenHow(ctypes.Structure):
    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


class NotOffered(Exception):
    """This system does not offer the call."""


def openat2(directory: int, path: str, flags: int, *, mode: int = 0) -> int:
    """Open `path` beneath the descriptor `directory`, through no link at all. The descriptor.

    Raises `OSError` (`ELOOP` for a link, `EXDEV` for a way out of `directory`) and `NotOffered`.
    """
    if sys.platform != "linux":
        raise NotOffered
    how = _OpenHow(
        flags=flags | os.O_CLOEXEC,
        mode=mode,
        resolve=RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS,
    )
    for _ in range(_ATTEMPTS):
        try:
            return _call(
                _SYS_OPENAT2,
                ctypes.c_int(directory),
                ctypes.c_char_p(os.fsencode(path)),
                ctypes.byref(how),
                ctypes.c_size_t(ctypes.sizeof(how)),
            )
        except OSError as error:
            # Something was renamed or mounted meanwhile, so that the kernel cannot tell: it says try again.
            if error.errno not in (errno.EAGAIN, errno.EINTR):
                raise
    raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN))


@functools.cache
def works() -> bool:
    """Whether `openat2` is offered: by the kernel, and by what filters system calls before it."""
    if sys.platform != "linux":
        return False
    try:
        os.close(_probe())
    except NotOffered:
        return False
    except OSError as error:
        return error.errno not in _ABSENT
    return True


def rename_without_replacing(source_directory: int, source: str, directory: int, name: str) -> None:
    """Move one name to another that does not exist yet. Raises `OSError` (`EEXIST`) and `NotOffered`."""
    number = _SYS_RENAMEAT2.get(platform.machine())
    if sys.platform != "linux" or number is None:
        raise NotOffered
    try:
        _call(
            number,
            ctypes.c_int(source_directory),
            ctypes.c_char_p(os.fsencode(source)),
            ctypes.c_int(directory),
            ctypes.c_char_p(os.fsencode(name)),
            ctypes.c_uint(RENAME_NOREPLACE),
        )
    except OSError as error:
        # EINVAL: this file system cannot do it.
        if error.errno in (errno.ENOSYS, errno.EINVAL):
            raise NotOffered from error
        raise


def _probe() -> int:
    root = os.open("/", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        return openat2(root, ".", os.O_PATH | os.O_DIRECTORY)
    finally:
        os.close(root)


def _call(number: int, *arguments: object) -> int:
    syscall = _libc().syscall
    syscall.restype = ctypes.c_long
    result: int = syscall(ctypes.c_long(number), *arguments)
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return result


@functools.cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)

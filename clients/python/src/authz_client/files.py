"""Acts on the object that was decided on, or on none (spec section 12: re-check identity, then execute).

    found = resolve("notes.md", cwd="/workspace")
    decision = client.decide(request_with(found.claim()))
    with open_decided(decision, found, "read") as file:
        ...

Between a decision and its use, whoever can write to a folder can put a link, another folder or another file
where the decided one was. So a path is walked through no link at all, by `openat2` where the kernel has it
and else one component after the other with `O_NOFOLLOW`; what is opened must have the device and inode that
were decided on; and nothing is read, truncated or written before that is known. What has changed is
`ObjectChanged`: resolve and ask again. What the system refuses (no permission, no space) stays an `OSError`.

The decision must answer a request that sent the `claim()` of this very `ResolvedPath`, found before it was
asked about: what is resolved again later is to be asked about again.

An inode number comes back once its object is gone, so kind and birth are compared too. An object that was
elsewhere when the decision was made can never have the number of the decided one.

`delete_decided` and `move_decided` act on a name, which no system can bind to an inode. They check the object
under a descriptor of its folder right before, so what a swap in between can reach is an entry of that folder,
which the swapper could have removed itself. Where there is neither `openat2` nor `O_NOFOLLOW` with
descriptors of folders (Windows), everything here is `UnsupportedPlatform`.
"""

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import BinaryIO, Final, Literal

from authz_client import _openat2
from authz_client._covering import check_covers
from authz_client._identity import Found, look, look_at
from authz_client.errors import NotCovered, ObjectChanged, PathRefused, UnsupportedPlatform
from authz_client.model import Decision
from authz_client.paths import Kind, ResolvedPath, kind_of

__all__ = [
    "Mode",
    "NotCovered",
    "ObjectChanged",
    "PathRefused",
    "UnsupportedPlatform",
    "create_directory_decided",
    "delete_decided",
    "list_decided",
    "move_decided",
    "open_decided",
]

Mode = Literal["read", "write", "update", "append", "create"]
"""`write` begins with an empty file, `update` changes what is there, `create` makes what is missing."""

_FLAGS: Final = {
    "read": os.O_RDONLY,
    "write": os.O_WRONLY,
    "update": os.O_RDWR,
    "append": os.O_WRONLY | os.O_APPEND,
    "create": os.O_WRONLY,
}
_PYTHON_MODES: Final = {"read": "rb", "write": "wb", "update": "r+b", "append": "ab", "create": "wb"}
_SUPPORTED: Final = os.name == "posix" and os.open in os.supports_dir_fd and hasattr(os, "O_NOFOLLOW")
# Without O_NONBLOCK, opening a FIFO that was put in the file's place would wait for ever.
_CAREFUL: Final = (
    getattr(os, "O_NOFOLLOW", 0)
    | getattr(os, "O_NONBLOCK", 0)
    | getattr(os, "O_NOCTTY", 0)
    | getattr(os, "O_CLOEXEC", 0)
)
_DIRECTORY: Final = (
    getattr(os, "O_DIRECTORY", 0)
    | getattr(os, "O_NOFOLLOW", 0)
    | getattr(os, "O_CLOEXEC", 0)
    # To pass through a folder one need not be allowed to list it.
    | getattr(os, "O_PATH", os.O_RDONLY)
)
# What a walk meets where a link, a file or nothing stands in place of a folder, and an opening where a
# folder, a pipe or a socket stands in place of a file.
_CHANGED: Final = frozenset(
    {
        *(errno.ELOOP, errno.ENOENT, errno.ENOTDIR, errno.EXDEV, errno.EAGAIN, errno.EMLINK),
        *(errno.EISDIR, errno.ENXIO),
    }
)


def _utc_now() -> datetime:
    return datetime.now(UTC)


def open_decided(
    decision: Decision,
    decided: ResolvedPath,
    mode: Mode,
    *,
    permissions: int = 0o666,
    make_directories: bool = False,
    allow_hard_links: bool = False,
    clock: Callable[[], datetime] = _utc_now,
) -> BinaryIO:
    """Open the regular file that was decided on.

    The decision must be a live allow with an access `read` (for mode `read`) or `write` (for all others) to
    `decided`. With `create` the object must still be missing; it is made under the decided folder, with
    `permissions` less the umask, and with `make_directories` the missing folders on the way are made too.

    A file with several names is refused, since another name may lie where a rule forbids, and rules speak of
    names; `allow_hard_links` is for where links come from nobody but the caller (a store of packages).

    Raises `NotCovered`, `ObjectChanged`, `PathRefused` (`path.not_a_file` for folders, FIFOs, sockets,
    devices and links, `path.hard_links` for a file with several names), `UnsupportedPlatform`, and `OSError`.
    """
    _check(decision, decided, "read" if mode == "read" else "write", clock)
    if mode == "create":
        return _opened(_create(decided, permissions, make_directories=make_directories), mode)
    if decided.kind is Kind.MISSING:
        raise ObjectChanged(
            "the file was missing when it was decided on: create it, or resolve and ask again"
        )
    if decided.kind is not Kind.FILE:
        raise PathRefused(f"a {decided.kind} is no file to open, name a regular file", code="path.not_a_file")
    descriptor = _open_beneath(decided.path, _FLAGS[mode] | _CAREFUL)
    try:
        found = look_at(descriptor)
        _check_identity(found, decided)
        if not allow_hard_links:
            _check_single_name(found, decided)
        os.set_blocking(descriptor, True)
        if mode == "write":
            # Not by O_TRUNC: that would have emptied the file before anybody knew which one it is.
            os.ftruncate(descriptor, 0)
    except BaseException:
        os.close(descriptor)
        raise
    return _opened(descriptor, mode)


def list_decided(
    decision: Decision, decided: ResolvedPath, *, clock: Callable[[], datetime] = _utc_now
) -> list[str]:
    """The names in the folder that was decided on (access `read`). Raises as `open_decided`."""
    _check(decision, decided, "read", clock)
    descriptor = _open_beneath(decided.path, os.O_RDONLY | os.O_DIRECTORY | _CAREFUL)
    try:
        _check_identity(look_at(descriptor), decided)
        return os.listdir(descriptor)
    finally:
        os.close(descriptor)


def create_directory_decided(
    decision: Decision,
    decided: ResolvedPath,
    *,
    permissions: int = 0o777,
    make_directories: bool = False,
    clock: Callable[[], datetime] = _utc_now,
) -> None:
    """Make the folder that was decided on while it was missing (access `write`). Raises as `open_decided`."""
    _check(decision, decided, "write", clock)
    with _place_of_missing(decided, make_directories=make_directories) as (folder, name):
        try:
            os.mkdir(name, permissions, dir_fd=folder)
        except FileExistsError:
            raise _appeared() from None


def delete_decided(
    decision: Decision, decided: ResolvedPath, *, clock: Callable[[], datetime] = _utc_now
) -> None:
    """Remove the file, link or empty folder that was decided on (access `delete`).

    Resolve it with `follow_last=False`: what is removed is the name, and a link is not what it leads to.
    Raises as `open_decided`.
    """
    _check(decision, decided, "delete", clock)
    with _place_of(decided) as (folder, name):
        if decided.kind is Kind.DIRECTORY:
            os.rmdir(name, dir_fd=folder)
        else:
            os.unlink(name, dir_fd=folder)


def move_decided(
    decision: Decision,
    source: ResolvedPath,
    target: ResolvedPath,
    *,
    allow_hard_links: bool = False,
    clock: Callable[[], datetime] = _utc_now,
) -> None:
    """Move `source` (access `delete`) to `target` (access `write`); resolve both with `follow_last=False`.

    A folder goes with all that it holds, so both accesses must have scope `tree`, and there must be a third
    one, `read` of the tree. A target that was missing when it was decided on must be missing still: nothing
    is replaced that was not decided on. Raises as `open_decided`, also for a file with several names.
    """
    is_tree = source.kind is Kind.DIRECTORY
    if is_tree:
        _check(decision, source, "read", clock, whole_tree=True)
    _check(decision, source, "delete", clock, whole_tree=is_tree)
    _check(decision, target, "write", clock, whole_tree=is_tree)
    with _place_of(source) as (source_folder, source_name):
        if not allow_hard_links and not is_tree:
            _check_single_name(look(source_name, folder=source_folder), source)
        if target.exists:
            with _place_of(target) as (folder, name):
                os.rename(source_name, name, src_dir_fd=source_folder, dst_dir_fd=folder)
            return
        with _place_of_missing(target, make_directories=False) as (folder, name):
            _move_without_replacing(source, source_folder, source_name, folder, name)


def _move_without_replacing(
    source: ResolvedPath, source_folder: int, source_name: str, folder: int, name: str
) -> None:
    try:
        try:
            _openat2.rename_without_replacing(source_folder, source_name, folder, name)
        except _openat2.NotOffered:
            if source.kind is Kind.DIRECTORY:
                raise UnsupportedPlatform(
                    "this system cannot move a folder without the danger of replacing another"
                ) from None
            # A second name, then the first one goes: `link` never replaces.
            os.link(source_name, name, src_dir_fd=source_folder, dst_dir_fd=folder, follow_symlinks=False)
            os.unlink(source_name, dir_fd=source_folder)
    except FileExistsError:
        raise _appeared() from None


def _check(
    decision: Decision,
    decided: ResolvedPath,
    verb: str,
    clock: Callable[[], datetime],
    *,
    whole_tree: bool = False,
) -> None:
    if not _SUPPORTED:
        raise UnsupportedPlatform("this system cannot open a file by its identity: run the tool on POSIX")
    check_covers(decision, decided, verb, now=clock(), whole_tree=whole_tree)


def _check_single_name(found: Found, decided: ResolvedPath) -> None:
    """Then and now: a name that is gone now may have been the one that a rule forbids."""
    if max(found.links, decided.hard_links) > 1:
        raise PathRefused(
            "the file has several names (hard links), judged by one: copy it, or pass `allow_hard_links`",
            code="path.hard_links",
        )


def _check_identity(found: Found, decided: ResolvedPath) -> None:
    """Device, inode, kind and birth: an inode number alone can be that of a later object."""
    kind = Kind.DIRECTORY if decided.kind is Kind.MISSING else decided.kind
    is_same = (found.device, found.inode) == (decided.device, decided.inode) and kind_of(found.mode) is kind
    is_later = None not in (found.born_ns, decided.born_ns) and found.born_ns != decided.born_ns
    if not is_same or is_later:
        raise ObjectChanged("another object stands at the path than was decided on: resolve and ask again")


def _appeared() -> ObjectChanged:
    return ObjectChanged("something stands now where nothing was decided on: resolve and ask again")


def _opened(descriptor: int, mode: Mode) -> BinaryIO:
    try:
        # Of an open file, `fdopen` changes nothing: its "w" truncates no descriptor.
        return os.fdopen(descriptor, _PYTHON_MODES[mode])  # type: ignore[return-value]
    except BaseException:
        os.close(descriptor)
        raise


def _create(decided: ResolvedPath, permissions: int, *, make_directories: bool) -> int:
    with _place_of_missing(decided, make_directories=make_directories) as (folder, name):
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _CAREFUL
        try:
            descriptor = os.open(name, flags, permissions, dir_fd=folder)
        except FileExistsError:
            raise _appeared() from None
    os.set_blocking(descriptor, True)
    return descriptor


@contextmanager
def _place_of(decided: ResolvedPath) -> Iterator[tuple[int, str]]:
    """A descriptor of the folder, and the name in it that is the decided object right now."""
    folder_path, _, name = decided.path.rpartition("/")
    if not name or decided.kind is Kind.MISSING:
        raise ObjectChanged("there is no such entry of a folder: resolve and ask again")
    folder = _open_beneath(folder_path or "/", _DIRECTORY)
    try:
        try:
            found = look(name, folder=folder)
        except FileNotFoundError:
            raise ObjectChanged("the object is gone: resolve and ask again") from None
        _check_identity(found, decided)
        yield folder, name
    finally:
        os.close(folder)


@contextmanager
def _place_of_missing(decided: ResolvedPath, *, make_directories: bool) -> Iterator[tuple[int, str]]:
    """A descriptor of the folder that the missing object belongs in, and its name there."""
    if decided.exists:
        raise ObjectChanged("the object existed when it was decided on: it cannot be made")
    folder = _open_beneath(decided.ancestor, _DIRECTORY)
    try:
        _check_identity(look_at(folder), decided)
        for name in decided.missing[:-1]:
            if make_directories:
                try:
                    os.mkdir(name, dir_fd=folder)
                except FileExistsError:
                    raise _appeared() from None
            above, folder = folder, _step(folder, name, _DIRECTORY, missing_is_change=make_directories)
            os.close(above)
        yield folder, decided.missing[-1]
    finally:
        os.close(folder)


def _open_beneath(path: str, flags: int) -> int:
    """Open a link-free absolute path through no link. Raises `ObjectChanged` where one stands in it."""
    root = os.open("/", _DIRECTORY)
    try:
        if _openat2.works():
            try:
                return _openat2.openat2(root, path.strip("/") or ".", flags)
            except OSError as error:
                raise _changed(error) from error
        return _walk(root, path, flags)
    finally:
        os.close(root)


def _walk(root: int, path: str, flags: int) -> int:
    """`openat2` by hand: each component from a descriptor of the one before, none of them through a link."""
    names = path.strip("/").split("/") if path != "/" else ["."]
    folder = os.dup(root)
    try:
        for name in names[:-1]:
            above, folder = folder, _step(folder, name, _DIRECTORY)
            os.close(above)
        return _step(folder, names[-1], flags)
    finally:
        os.close(folder)


def _step(folder: int, name: str, flags: int, *, missing_is_change: bool = True) -> int:
    try:
        return os.open(name, flags, dir_fd=folder)
    except FileNotFoundError as error:
        if missing_is_change:
            raise _changed(error) from error
        raise
    except OSError as error:
        raise _changed(error) from error


def _changed(error: OSError) -> OSError | ObjectChanged:
    """A link, a file or nothing where a folder was is a change; other errors are the system's own."""
    if error.errno in _CHANGED:
        return ObjectChanged(
            "the way to the object has changed since it was decided on: resolve and ask again"
        )
    return error

"""Where a path really leads, found where the file is: the `resolved` claim of a call (spec section 4).

    found = resolve("notes/today.md", cwd="/workspace")
    request["context"]["resolved"] = {"/path": found.claim()}

The service cannot see the disk, so it judges the spelling that the model wrote *and* the claim, and the
stricter verdict holds. Nothing here judges: a link that leads out of the workspace is a fact to report.

`resolve` walks as the kernel does (path_resolution(7)): one component after the other, each link where it
stands, `..` from where the link led and not from where it was written. `authz_client.files` then opens what
was decided on, and nothing that has come to stand in its place.

What a claim says of an object that is not there yet: `path` is the nearest existing ancestor with the rest
appended, `device` and `inode` are those of the ancestor. The service binds them into the fingerprint either
way, so an approval for a new file is void once its directory has been replaced.
"""

import os
import stat
import sys
import time
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final
from urllib.parse import unquote_to_bytes

from authz_client._identity import look
from authz_client._mounts import Mount, aliases_of, read_mounts
from authz_client.errors import PathRefused, UnsupportedPlatform

__all__ = ["Kind", "PathRefused", "ResolvedPath", "UnsupportedPlatform", "resolve"]

MAX_LINKS: Final = 40
"""MAXSYMLINKS of Linux. A loop is what needs more."""
MAX_COMPONENTS: Final = 4096
"""Of one walk, all links followed: a bound on work, above what PATH_MAX lets a kernel walk in one call."""

_URI_DRIVE_LENGTH: Final = 3
_HEX: Final = frozenset("0123456789abcdefABCDEF")


class Kind(StrEnum):
    """What stands at a resolved path."""

    FILE = "file"
    DIRECTORY = "directory"
    LINK = "link"
    FIFO = "fifo"
    SOCKET = "socket"
    DEVICE = "device"
    MISSING = "missing"


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedPath:
    """One object, or the place of one that is not there yet. `path` holds no link and no `..`."""

    path: str
    """Absolute, on this machine: what is opened."""
    device: int
    """Of the object; of `ancestor` while it is missing."""
    inode: int
    kind: Kind
    ancestor: str
    """The nearest part of `path` that exists: `path` itself unless it is missing."""
    missing: tuple[str, ...] = ()
    """The components below `ancestor`, empty when the object exists."""
    hard_links: int = 1
    """How many names the object has in its file system: another one may lie where a rule forbids."""
    root: str = "/"
    """The real path of the directory that the call sees as `/`."""
    born_ns: int | None = None
    """When the object (or `ancestor`) was made, where the system tells: an inode number can come back."""
    folds_case: bool = False
    """Whether the bundle declares that names here fold case, so that a decision spells them folded."""
    found_ns: int = field(default_factory=time.monotonic_ns, compare=False)
    """When this was found, by this machine's monotonic clock. A decision from before is none on it."""

    @property
    def exists(self) -> bool:
        """Whether the object itself was found."""
        return not self.missing

    @property
    def seen_path(self) -> str:
        """`path` as the call sees it, below `root`: what policies speak about."""
        return self.path if self.root == "/" else self.path[len(self.root) :] or "/"

    def aliases(self) -> tuple[str, ...]:
        """Further paths of the same object by way of bind mounts, as far as this process can see them.

        A claim has room for one path, and which of two mounts is the real one is for who mounted them to
        say. To have each judged, ask once for each with it in the place of `path`. Linux only.
        """
        return () if self.missing else aliases_of(self.path, read_mounts())

    def claim(self) -> dict[str, Any]:
        """The value for `context.resolved`, under the JSON Pointer of the argument.

        Raises `PathRefused` (`path.not_utf8`) for a name that is not UTF-8: JSON cannot say it, and
        another name in its place would be a claim about another object.
        """
        try:
            self.seen_path.encode("utf-8")
        except UnicodeEncodeError:
            raise PathRefused(
                "a name on the way to the object is not UTF-8, rename it", code="path.not_utf8"
            ) from None
        return {"path": self.seen_path, "device": self.device, "inode": self.inode}


def resolve(
    path: str,
    *,
    cwd: str,
    root: str | None = None,
    home: str | None = None,
    follow_last: bool = True,
    folds_case: bool = False,
) -> ResolvedPath:
    """Where `path` leads from `cwd` at this moment.

    `cwd` and `home` (what `~` stands for) are absolute, as the call sees them. `root` is the directory that
    the call sees as `/`, as for a process in a chroot: links and `..` never lead above it. `follow_last`:
    reading and writing follow a link at the end; deleting and moving act on the link itself. `folds_case`:
    what the bundle's `volume:` declares (`authz_client.volumes.probe` finds out); it only tells how a
    decision spells the path.

    Raises `PathRefused` for what leads to no object (a loop, a file used as a directory, a name that the
    file system does not take, a folder that may not be searched) or to one that depends on who asks (the
    links of /proc to files of a process); `UnsupportedPlatform` where paths are not POSIX paths; and
    `ValueError` when `cwd`, `home` or `root` is not absolute, or `root` holds `..` or is no directory.
    """
    if os.name != "posix":
        raise UnsupportedPlatform("paths are resolved on POSIX systems only: run the tool in one")
    walk = _Walk(root=_real_root(root), folds_case=folds_case)
    absolute, must_be_directory = _absolute(path, cwd=cwd, home=home)
    walk.along(absolute, follow_last=follow_last or must_be_directory)
    return walk.result(must_be_directory=must_be_directory)


def _real_root(root: str | None) -> str:
    if root is None:
        return "/"
    if not root.startswith("/") or ".." in root.split("/") or "\0" in root:
        raise ValueError("`root` must be an absolute path without `..`")
    real = os.path.realpath(root)
    # A root that does not exist yet could become anything; a root that is a file is none.
    if not os.path.isdir(real):
        raise ValueError("`root` must be an existing directory")
    return real


def _absolute(path: str, *, cwd: str, home: str | None) -> tuple[str, bool]:
    """`path` joined to what it is relative to, and whether its spelling demands a directory."""
    for name, directory in (("cwd", cwd), ("home", home)):
        if directory is not None and not directory.startswith("/"):
            raise ValueError(f"`{name}` must be an absolute path")
    if not path:
        raise PathRefused("the path is empty, name a file or directory", code="path.empty")
    text = _of_file_uri(path) if path[:5].lower() == "file:" else path
    if text.startswith("~"):
        if text != "~" and not text.startswith("~/"):
            raise PathRefused(
                "`~name` depends on the machine, send an absolute path (or `./~name` for a file)",
                code="path.home_of_user",
            )
        if home is None:
            raise PathRefused(
                "`~` needs a declared home directory, send an absolute path", code="path.home_unknown"
            )
        text = f"{home}/{text[1:]}"
    elif not text.startswith("/"):
        text = f"{cwd}/{text}"
    if "\0" in text:
        raise PathRefused("the path holds a NUL, which no file name can hold", code="path.nul")
    try:
        os.fsencode(text)
    except UnicodeEncodeError:
        raise PathRefused("the path holds a lone surrogate, send valid text", code="path.surrogate") from None
    return text, text.rsplit("/", 1)[-1] in ("", ".", "..")


def _of_file_uri(uri: str) -> str:
    """The path in a `file:` URI (RFC 8089), percent-decoded once, as the service reads it."""
    rest = uri[5:]
    if rest.startswith("//"):
        authority, slash, rest = rest[2:].partition("/")
        rest = slash + rest
        if authority.lower() not in ("", "localhost"):
            rest = ""  # another machine
    escapes = rest.split("%")[1:]
    well_formed = all(len(escape) >= 2 and set(escape[:2]) <= _HEX for escape in escapes)
    if (
        not rest.startswith("/")
        or rest.startswith("//")
        or not well_formed
        or any(mark in rest for mark in "?#\\")
        or any(escape[:2].lower() == "2f" for escape in escapes)
        or (rest[2:_URI_DRIVE_LENGTH] in (":", "|") and rest[_URI_DRIVE_LENGTH:][:1] in ("", "/"))
    ):
        raise PathRefused(
            "write `file:///` and an absolute path, without host, query, fragment, drive or encoded `/`",
            code="path.file_uri",
        )
    return os.fsdecode(unquote_to_bytes(rest.encode("utf-8", "surrogateescape")))


class _Walk:
    """Resolves one path. `_names` is the way from the root so far: real names only, all found."""

    def __init__(self, *, root: str, folds_case: bool) -> None:
        self._root = root
        self._folds_case = folds_case
        self._names: list[str] = []
        self._missing: list[str] = []
        self._links = 0
        self._steps = 0
        self._mounts: tuple[Mount, ...] | None = None
        self._found = self._status(self._here())

    def along(self, path: str, *, follow_last: bool) -> None:
        """Walk `path`, absolute in the root, component by component."""
        # A stack: the components of a link go on top of what is left of the path that it stands in.
        pending = [name for name in reversed(path.split("/")) if name not in ("", ".")]
        while pending:
            self._steps += 1
            if self._steps > MAX_COMPONENTS:
                raise PathRefused("the path has too many components", code="path.too_long")
            name = pending.pop()
            target = self._step(name, follow=bool(pending) or follow_last)
            if target is None:
                continue
            if target.startswith("/"):
                self._names.clear()
                self._found = self._status(self._here())
            pending += [part for part in reversed(target.split("/")) if part not in ("", ".")]

    def result(self, *, must_be_directory: bool) -> ResolvedPath:
        ancestor = self._here()
        try:
            # All facts from one look, so that they are of one object, whatever is swapped meanwhile.
            found = look(ancestor)
        except OSError as error:
            raise _refusal(error) from error
        if must_be_directory and not self._missing and not stat.S_ISDIR(found.mode):
            raise PathRefused(
                "the path ends as a directory's does, and it is none", code="path.not_directory"
            )
        return ResolvedPath(
            path=f"{ancestor.rstrip('/')}/{'/'.join(self._missing)}" if self._missing else ancestor,
            device=found.device,
            inode=found.inode,
            kind=Kind.MISSING if self._missing else kind_of(found.mode),
            ancestor=ancestor,
            missing=tuple(self._missing),
            hard_links=1 if self._missing or stat.S_ISDIR(found.mode) else found.links,
            root=self._root,
            born_ns=found.born_ns,
            folds_case=self._folds_case,
        )

    def _step(self, name: str, *, follow: bool) -> str | None:
        """Go one component further. The target when it is a link to follow: the walk stays where it is."""
        if self._missing:
            # Nothing is there yet, so nothing can be a link: `..` goes back by one name.
            if name == "..":
                self._missing.pop()
            else:
                self._missing.append(name)
            return None
        if not stat.S_ISDIR(self._found.st_mode):
            raise PathRefused(
                "a file stands where the path needs a directory, check the path", code="path.not_directory"
            )
        if name == "..":
            if self._names:  # the root is its own parent
                self._names.pop()
                self._found = self._status(self._here())
            return None
        path = f"{self._here().rstrip('/')}/{name}"
        try:
            found = os.lstat(path)
        except FileNotFoundError:
            self._missing.append(name)
            return None
        except OSError as error:
            raise _refusal(error) from error
        if stat.S_ISLNK(found.st_mode) and follow:
            return self._target(path, found)
        self._names.append(name)
        self._found = found
        return None

    def _target(self, path: str, found: os.stat_result) -> str:
        self._links += 1
        if self._links > MAX_LINKS:
            raise PathRefused("the path leads through a loop of links", code="path.loop")
        try:
            target = os.readlink(path)
        except OSError as error:
            raise _refusal(error) from error
        if self._is_magic(found):
            raise PathRefused(
                "the path leads to a file by way of a process, name that file itself",
                code="path.process_alias",
            )
        return target

    def _is_magic(self, found: os.stat_result) -> bool:
        """Whether this is a link of procfs that leads elsewhere than it reads (`/proc/1/root`, `…/fd/3`).

        What it leads to depends on the process, may lie in another mount namespace, and is not found again
        by its name. The few plain links there (`/proc/self`, `/proc/mounts`) lead to such ones or to tables,
        so nothing that a tool should open is lost with them.
        """
        # procfs has no disk behind it, so that most links need no look at the mounts.
        return os.major(found.st_dev) == 0 and any(
            mount.type == "proc" and mount.device == found.st_dev for mount in self._known_mounts()
        )

    def _known_mounts(self) -> tuple[Mount, ...]:
        if self._mounts is None:
            self._mounts = read_mounts() if sys.platform == "linux" else ()
        return self._mounts

    def _here(self) -> str:
        return f"{self._root.rstrip('/')}/{'/'.join(self._names)}".rstrip("/") or "/"

    def _status(self, path: str) -> os.stat_result:
        try:
            return os.lstat(path)
        except OSError as error:
            raise _refusal(error) from error


def _refusal(error: OSError) -> PathRefused:
    """A path that cannot be looked at leads to an unknown object; it is not taken for a missing one."""
    reason = os.strerror(error.errno).lower() if error.errno else "unknown error"
    return PathRefused(f"the path cannot be resolved here ({reason})", code="path.unresolvable")


_KINDS: Final = (
    (stat.S_ISREG, Kind.FILE),
    (stat.S_ISDIR, Kind.DIRECTORY),
    (stat.S_ISLNK, Kind.LINK),
    (stat.S_ISFIFO, Kind.FIFO),
    (stat.S_ISSOCK, Kind.SOCKET),
)


def kind_of(mode: int) -> Kind:
    """The kind of object that a `st_mode` is of."""
    return next((kind for is_kind, kind in _KINDS if is_kind(mode)), Kind.DEVICE)

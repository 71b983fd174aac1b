"""The files of a bundle: which a folder has, and their bytes. Everything else is `authz.bundle.load`."""

import errno
import fcntl
import hashlib
import os
import signal
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from authz.core.fingerprint import digest
from authz.errors import BundleError, BundleProblem

MAX_FILE_BYTES: Final = 4 * 1024 * 1024
MAX_BYTES: Final = 64 * 1024 * 1024
"""Of all files together: so much can be sent from a trial and digested without a noticeable pause."""
MAX_FILES: Final = 4096
MAX_ENTRIES: Final = 10_000
"""Files and folders. `authz.bundle.watch` looks at as many: of a bundle that loads it sees every one."""
SCHEMA_FILE: Final = "schema.cedarschema"
LIMITS_FILE: Final = "limits.yaml"
"""May be absent: then there are no limits."""
_AT_THE_TOP: Final = frozenset(
    {"bundle.yaml", "entities.yaml", "credentials.yaml", LIMITS_FILE, SCHEMA_FILE, "README.md"}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class BundleSources:
    """The bytes of a bundle's files, by path relative to its folder."""

    files: Mapping[str, bytes]

    @property
    def version(self) -> str:
        """The content digest: the same files give the same version everywhere."""
        return digest({name: hashlib.sha256(data).hexdigest() for name, data in self.files.items()})


def read_sources(folder: Path) -> BundleSources:
    """Read a bundle's files. Raises `BundleError` for what is missing, unknown or unreadable."""
    files, problems = read_folder(folder)
    if problems:
        raise BundleError(tuple(problems))
    # The generated schema is derived from the rest: it is for editors, and no source.
    files.pop(SCHEMA_FILE, None)
    return BundleSources(files=files)


def read_folder(folder: Path) -> tuple[dict[str, bytes], list[BundleProblem]]:
    """A bundle's files that could be read, with the generated schema, and what is wrong with the others.

    Raises `BundleError` when there is no such folder, or when it holds more than a bundle may.
    """
    problems: list[BundleProblem] = []
    files: dict[str, bytes] = {}
    size = 0
    for name in sorted(_walk(folder, problems)):
        if (problem := _fault_of_name(name)) is not None:
            problems.append(problem)
            continue
        try:
            data = _read(folder / name)
        except OSError as error:
            problems.append(
                BundleProblem(f"cannot be read: {error.strerror}", file=name, code="file.unreadable")
            )
            continue
        if len(data) > MAX_FILE_BYTES:
            problems.append(BundleProblem(f"over {MAX_FILE_BYTES} bytes", file=name, code="file.size"))
            continue
        size += len(data)
        if size > MAX_BYTES:
            raise _refused(folder, f"over {MAX_BYTES} bytes in all", "file.size")
        files[name] = data
    return files, problems


def shown(name: str) -> str:
    """A file's name as text for people: bytes that are no UTF-8, and what does not print, as escapes."""
    return name if name.isprintable() else ascii(name)[1:-1]


def is_folder(entry: "os.DirEntry[str]", *, follow: bool) -> bool:
    """Whether to look into an entry. What cannot be told, such as a link to itself, counts as a file."""
    try:
        return entry.is_dir(follow_symlinks=follow)
    except OSError:
        return False


def _walk(folder: Path, problems: list[BundleProblem]) -> list[str]:
    """Every visible file. Links to folders are followed at the top (a mounted `rules -> ..data/rules`).

    A deeper one could lead back up: it counts as a file, and is found to be none.
    """
    found: list[str] = []
    seen = 0
    pending = [""]
    while pending:
        here = pending.pop()
        try:
            with os.scandir(folder / here) as entries:
                for entry in entries:
                    if entry.name.startswith("."):
                        continue
                    seen += 1
                    if is_folder(entry, follow=here == ""):
                        pending.append(f"{here}{entry.name}/")
                    else:
                        found.append(here + entry.name)
                    if len(found) > MAX_FILES:
                        raise _refused(folder, f"over {MAX_FILES} files", "file.count")
                    if seen > MAX_ENTRIES:
                        raise _refused(folder, f"over {MAX_ENTRIES} files and folders", "file.count")
        except OSError as error:
            if here == "":
                raise _unlisted(folder, error) from None
            problems.append(
                BundleProblem(
                    f"cannot be listed: {error.strerror}",
                    file=shown(here.removesuffix("/")),
                    code="file.unreadable",
                )
            )
    return found


def _unlisted(folder: Path, error: OSError) -> BundleError:
    if error.errno in (errno.ENOENT, errno.ENOTDIR):
        return _refused(folder, "there is no such folder", "file.no-folder")
    return _refused(folder, f"cannot be listed: {error.strerror}", "file.unreadable")


def _refused(folder: Path, message: str, code: str) -> BundleError:
    return BundleError((BundleProblem(message, file=shown(str(folder)), code=code),))


def _fault_of_name(name: str) -> BundleProblem | None:
    if not name.isprintable():
        return BundleProblem(
            "the name is not UTF-8, or has characters that do not print",
            file=shown(name),
            hint="rename the file",
            code="file.name",
        )
    if _is_expected(name):
        return None
    return BundleProblem(
        "not a file of a bundle, so nothing would read it",
        file=name,
        hint="a bundle has bundle.yaml, credentials.yaml, entities.yaml, limits.yaml, "
        "rules/*.cedar, tools/*.yaml and tests/*.yaml",
        code="file.unknown",
    )


def _is_expected(name: str) -> bool:
    folder, _, file = name.rpartition("/")
    if folder == "":
        return file in _AT_THE_TOP
    if folder == "rules":
        return file.endswith(".cedar")
    return folder in ("tools", "tests") and file.endswith(".yaml")


def _read(path: Path) -> bytes:
    """At most a byte over the limit. Raises `OSError`, also for a pipe or the like, which would never end."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "it is no ordinary file")
        if _is_being_written(descriptor):
            raise OSError(errno.EBUSY, "somebody is writing it")
        return file.read(MAX_FILE_BYTES + 1)


def _is_being_written(descriptor: int) -> bool:
    """Whether any process has the file open for writing: it may then hold half of what it will.

    Linux tells by refusing a read lease (`fcntl(2)`). Where there are no leases, or none on this file
    system or for this user, nothing is known, and only files that hold still are taken for whole.
    """
    lease = getattr(fcntl, "F_SETLEASE", None)
    if lease is None:
        return False
    try:
        # Whoever opens the file in between waits until the lease ends; of the signal nobody takes notice.
        fcntl.fcntl(descriptor, fcntl.F_SETSIG, signal.SIGURG)
        fcntl.fcntl(descriptor, lease, fcntl.F_RDLCK)
        fcntl.fcntl(descriptor, lease, fcntl.F_UNLCK)
    except OSError as error:
        return error.errno == errno.EAGAIN
    return False

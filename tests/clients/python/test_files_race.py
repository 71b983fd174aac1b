"""Decided objects under attack: somebody swaps them for links, files and folders as fast as he can.

Each attack is first shown to work against a check followed by a plain `open`. Counted, never timed.
"""

import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from authz_client import _openat2
from authz_client.files import ObjectChanged, delete_decided, open_decided
from authz_client.paths import PathRefused, ResolvedPath, resolve

from tests.clients.python.deciding import asked_about, clock, decision, of_path

NAIVE_ATTEMPTS = 200_000
"""A bound. A few tries are enough where the swapper runs beside us."""
ROUNDS = 1500
MOST_ROUNDS = 200_000
"""To see both a success and a refusal at least once."""

INSIDE, OUTSIDE = b"inside", b"outside: nobody may see or change this"


@pytest.fixture(params=["openat2", "walk"], autouse=True)
def _way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "walk":
        monkeypatch.setattr(_openat2, "works", lambda: False)
    elif not _openat2.works():
        pytest.skip("the kernel has no openat2")


@pytest.fixture(autouse=True)
def _threads_take_turns_often() -> Iterator[None]:
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(interval)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    for folder, content in (("work/dir", INSIDE), ("out", OUTSIDE)):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "file").write_bytes(content)
    # A second name, to put the very same object back by: so hard links are allowed where it is opened.
    (tmp_path / "keep").hardlink_to(tmp_path / "work" / "dir" / "file")
    return tmp_path


def swap_file_for_link(place: Path) -> None:
    """`work/dir/file` becomes a link to the file outside, then the file again."""
    file, other = place / "work" / "dir" / "file", place / "work" / "other"
    other.symlink_to(place / "out" / "file")
    other.replace(file)
    other.hardlink_to(place / "keep")
    other.replace(file)


def swap_file_for_file(place: Path) -> None:
    """`work/dir/file` becomes a second name of the file outside, then the file again."""
    file, other = place / "work" / "dir" / "file", place / "work" / "other"
    other.hardlink_to(place / "out" / "file")
    other.replace(file)
    other.hardlink_to(place / "keep")
    other.replace(file)


def swap_folder_for_link(place: Path) -> None:
    """`work/dir` becomes a link to the folder outside, then the folder again."""
    folder, aside = place / "work" / "dir", place / "work" / "aside"
    folder.rename(aside)
    folder.symlink_to(place / "out")
    folder.unlink()
    aside.rename(folder)


def swap_folder_for_folder(place: Path) -> None:
    """`work/dir` becomes the folder outside itself, then the folder again."""
    folder, aside, out = place / "work" / "dir", place / "work" / "aside", place / "out"
    folder.rename(aside)
    out.rename(folder)
    folder.rename(out)
    aside.rename(folder)


SWAPS = [swap_file_for_link, swap_file_for_file, swap_folder_for_link, swap_folder_for_folder]


@contextmanager
def swapping(swap: Callable[[Path], None], place: Path) -> Iterator[None]:
    """While this lasts, a thread swaps there and back without pause. Its faults are the test's."""
    stop = threading.Event()
    faults: list[Exception] = []

    def run() -> None:
        try:
            while not stop.is_set():
                swap(place)
        except Exception as fault:  # noqa: BLE001 - raised where the test waits
            faults.append(fault)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
    assert not faults


def resolved_at_rest(place: Path) -> ResolvedPath:
    found = resolve("dir/file", cwd=str(place / "work"))
    assert found.path == str(place / "work" / "dir" / "file")
    return found


def naive_read(path: Path, root: Path) -> bytes:
    """Check where it leads, then open it: what `open_decided` is there to replace."""
    try:
        if not Path(os.path.realpath(path)).is_relative_to(root):
            return b""
        return path.read_bytes()
    except OSError:
        return b""


@pytest.mark.parametrize("swap", SWAPS)
def test_reading(place: Path, swap: Callable[[Path], None]) -> None:
    found = resolved_at_rest(place)
    allow = decision(of_path("read", found.path), asked=asked_about(found))
    read = refused = 0
    with swapping(swap, place):
        assert any(naive_read(Path(found.path), place / "work") == OUTSIDE for _ in range(NAIVE_ATTEMPTS))
        for number in range(MOST_ROUNDS):
            try:
                with open_decided(allow, found, "read", allow_hard_links=True, clock=clock) as file:
                    assert file.read() == INSIDE
                read += 1
            except ObjectChanged:
                refused += 1
            if number >= ROUNDS and read and refused:
                break
    assert read
    assert refused


@pytest.mark.parametrize("swap", SWAPS)
def test_writing(place: Path, swap: Callable[[Path], None]) -> None:
    found = resolved_at_rest(place)
    allow = decision(of_path("write", found.path), asked=asked_about(found))
    outside = (place / "out" / "file").stat()
    with swapping(swap, place):
        for _ in range(NAIVE_ATTEMPTS):
            try:
                with Path(found.path).open("wb") as file:
                    written = os.fstat(file.fileno())
            except OSError:
                continue
            if written.st_ino == outside.st_ino:
                break
        else:
            pytest.fail("the attack does not work against a plain open")
    (place / "out" / "file").write_bytes(OUTSIDE)
    wrote = refused = 0
    with swapping(swap, place):
        for number in range(MOST_ROUNDS):
            try:
                with open_decided(allow, found, "write", allow_hard_links=True, clock=clock) as file:
                    assert os.fstat(file.fileno()).st_ino == found.inode
                    file.write(INSIDE)
                wrote += 1
            except ObjectChanged:
                refused += 1
            if number >= ROUNDS and wrote and refused:
                break
    assert wrote
    assert refused
    assert (place / "out" / "file").read_bytes() == OUTSIDE
    assert (place / "keep").read_bytes() == INSIDE


@pytest.mark.parametrize("swap", [swap_folder_for_link, swap_folder_for_folder])
def test_creating(place: Path, swap: Callable[[Path], None]) -> None:
    out = (place / "out").stat().st_ino
    names = iter(range(NAIVE_ATTEMPTS + MOST_ROUNDS))
    with swapping(swap, place):
        for name in names:
            try:
                descriptor = os.open(place / "work" / "dir" / f"{name}", os.O_CREAT | os.O_EXCL)
                os.close(descriptor)
            except OSError:
                continue
            if name > NAIVE_ATTEMPTS or (name % 50 == 0 and _names(place, out) - {"file"}):
                break
    assert _names(place, out) - {"file"}, "the attack does not work against a plain open"
    _clear(place)
    made = refused = 0
    folder = resolve("dir", cwd=str(place / "work"))
    with swapping(swap, place):
        for number, name in enumerate(names):
            # Decided on at rest, as the folder stood: the swapper is not at rest, the decision was.
            found = ResolvedPath(
                path=f"{folder.path}/{name}",
                device=folder.device,
                inode=folder.inode,
                kind=type(folder.kind).MISSING,
                ancestor=folder.path,
                missing=(str(name),),
                born_ns=folder.born_ns,
            )
            try:
                allow = decision(of_path("write", found.path), asked=asked_about(found))
                open_decided(allow, found, "create", clock=clock).close()
                made += 1
            except ObjectChanged:
                refused += 1
            if number >= ROUNDS and made and refused:
                break
    assert made
    assert refused
    assert _names(place, out) == {"file"}
    assert len(_names(place, folder.inode)) == made + 1


def _names(place: Path, inode: int) -> set[str]:
    """What is in the folder with that inode, wherever the swapper has it right now."""
    for path in (place / "out", place / "work" / "dir", place / "work" / "aside"):
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        except OSError:
            continue
        try:
            if os.fstat(descriptor).st_ino == inode:
                return set(os.listdir(descriptor))
        finally:
            os.close(descriptor)
    return set()


def _clear(place: Path) -> None:
    for folder in (place / "out", place / "work" / "dir"):
        for path in folder.iterdir():
            if path.name != "file":
                path.unlink()


@pytest.mark.parametrize("swap", [swap_folder_for_link, swap_folder_for_folder])
def test_deleting(place: Path, swap: Callable[[Path], None]) -> None:
    """A name in the folder outside is never removed, also where it is the same one."""
    found = resolve("dir/file", cwd=str(place / "work"), follow_last=False)
    allow = decision(of_path("delete", found.path), asked=asked_about(found))
    refused = 0
    with swapping(swap, place):
        for _ in range(MOST_ROUNDS):
            try:
                delete_decided(allow, found, clock=clock)
            except ObjectChanged:
                refused += 1
                if refused >= ROUNDS:
                    break
                continue
            # It is gone, so put it back, the very same one, and go on.
            if refused >= ROUNDS:
                break
            _put_back(place)
    assert refused
    assert (place / "out" / "file").read_bytes() == OUTSIDE


def _put_back(place: Path) -> None:
    for _ in range(MOST_ROUNDS):
        for folder in (place / "work" / "dir", place / "work" / "aside"):
            try:
                descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            except OSError:
                continue
            try:
                if os.fstat(descriptor).st_ino != (place / "out").stat().st_ino:
                    os.link(place / "keep", "file", dst_dir_fd=descriptor)
                    return
            except OSError:
                continue
            finally:
                os.close(descriptor)
    pytest.fail("the folder was never found at rest")


def test_resolving_while_links_are_swapped_gives_an_object_and_its_own_path(place: Path) -> None:
    """What `resolve` says in the middle of it may be out of date, but opening it is still safe."""
    read = 0
    with swapping(swap_folder_for_link, place):
        for number in range(MOST_ROUNDS):
            if number >= ROUNDS and read:
                break
            try:
                found = resolve("dir/file", cwd=str(place / "work"))
                allow = decision(of_path("read", found.path), asked=asked_about(found))
                with open_decided(allow, found, "read", allow_hard_links=True, clock=clock) as file:
                    content = file.read()
            except (ObjectChanged, PathRefused):
                continue
            # Content and path are of one object: what was decided on by name is what was read.
            expected = OUTSIDE if found.path.startswith(str(place / "out")) else INSIDE
            assert content == expected
            read += 1
    assert read

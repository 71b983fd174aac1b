"""What is done with a decided object: that object, or nothing. Both ways of walking a path are tried."""

import os
import threading
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
from authz_client import Decision, _openat2, files
from authz_client.files import (
    Mode,
    NotCovered,
    ObjectChanged,
    PathRefused,
    UnsupportedPlatform,
    create_directory_decided,
    delete_decided,
    list_decided,
    move_decided,
    open_decided,
)
from authz_client.paths import Kind, ResolvedPath, resolve

from tests.clients.python.deciding import NOW, asked_about, clock, decision, of_path


@pytest.fixture(params=["openat2", "walk"], autouse=True)
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """By the kernel, and by hand as on systems without `openat2`."""
    if request.param == "walk":
        monkeypatch.setattr(_openat2, "works", lambda: False)
    elif not _openat2.works():
        pytest.skip("the kernel has no openat2")
    return str(request.param)


@pytest.fixture
def work(tmp_path: Path) -> Path:
    work, out = tmp_path / "work", tmp_path / "out"
    (work / "dir").mkdir(parents=True)
    out.mkdir()
    (work / "dir" / "file").write_bytes(b"decided")
    (out / "file").write_bytes(b"outside")
    return work


def at(work: Path, path: str, *, follow_last: bool = True) -> ResolvedPath:
    return resolve(path, cwd=str(work), follow_last=follow_last)


def allow(*verbs_and_paths: tuple[str, ResolvedPath]) -> Decision:
    return decision(
        *(of_path(verb, found.path) for verb, found in verbs_and_paths),
        asked=asked_about(*(found for _, found in verbs_and_paths)),
    )


def opened(found: ResolvedPath, mode: Mode, **more: object) -> bytes:
    """Open with an allow of its own, write `new` where the mode writes, and return what is there then."""
    verb = "read" if mode == "read" else "write"
    with open_decided(allow((verb, found)), found, mode, clock=clock, **more) as file:  # type: ignore[arg-type]
        if mode == "read":
            return file.read()
        file.write(b"new")
    return Path(found.path).read_bytes()


def test_every_mode(work: Path) -> None:
    (work / "link").symlink_to("dir/file")
    found = at(work, "link")
    assert opened(found, "read") == b"decided"
    assert opened(found, "append") == b"decidednew"
    assert opened(found, "update") == b"newidednew"
    assert opened(found, "write") == b"new"
    assert opened(at(work, "dir/made"), "create") == b"new"
    assert opened(at(work, "made"), "create", permissions=0o640) == b"new"
    assert (work / "made").stat().st_mode & 0o777 == 0o640 & ~_umask()


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def test_an_opened_file_blocks_as_files_do(work: Path) -> None:
    found = at(work, "dir/file")
    with open_decided(allow(("read", found)), found, "read", clock=clock) as file:
        assert os.get_blocking(file.fileno())
        assert not os.get_inheritable(file.fileno())


def test_folders_on_the_way(work: Path) -> None:
    found = at(work, "x/y/z")
    with pytest.raises(FileNotFoundError):
        opened(found, "create")
    assert not (work / "x").exists()
    assert opened(found, "create", make_directories=True) == b"new"


Swap = Callable[[Path, Path], None]


def replaced_by_link(work: Path, out: Path) -> None:
    (work / "dir" / "file").unlink()
    (work / "dir" / "file").symlink_to(out / "file")


def replaced_by_file(work: Path, out: Path) -> None:
    (out / "file").rename(work / "dir" / "file")


def replaced_by_hard_link(work: Path, out: Path) -> None:
    (work / "dir" / "file").unlink()
    (work / "dir" / "file").hardlink_to(out / "file")


def folder_replaced_by_link(work: Path, out: Path) -> None:
    (work / "dir").rename(work / "old")
    (work / "dir").symlink_to(out)


def folder_replaced_by_link_to_itself(work: Path, out: Path) -> None:
    # The same object at the end, by a way that was not decided on.
    (work / "dir").rename(work / "old")
    (work / "dir").symlink_to(work / "old")


def folder_replaced(work: Path, out: Path) -> None:
    (work / "dir").rename(work / "old")
    out.rename(work / "dir")


def ancestor_replaced_by_link(work: Path, out: Path) -> None:
    (out / "dir").mkdir()
    (out / "file").rename(out / "dir" / "file")
    work.rename(work.parent / "old")
    work.symlink_to(out)


def folder_replaced_by_file(work: Path, out: Path) -> None:
    (work / "dir").rename(work / "old")
    (work / "dir").write_bytes(b"")


def removed(work: Path, out: Path) -> None:
    (work / "dir").rename(work / "old")


def replaced_by_pipe(work: Path, out: Path) -> None:
    (work / "dir" / "file").rename(work / "old")
    os.mkfifo(work / "dir" / "file")


def replaced_by_folder(work: Path, out: Path) -> None:
    (work / "dir" / "file").rename(work / "old")
    out.rename(work / "dir" / "file")


SWAPS = [
    replaced_by_link,
    replaced_by_file,
    replaced_by_hard_link,
    folder_replaced_by_link,
    folder_replaced_by_link_to_itself,
    folder_replaced,
    ancestor_replaced_by_link,
    folder_replaced_by_file,
    removed,
    replaced_by_pipe,
    replaced_by_folder,
]


def contents(folder: Path) -> dict[str, object]:
    """Every name below `folder` with what it holds, links and pipes by what they are."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        if path.is_file()
        else (path.is_dir(), path.is_symlink())
        for path in sorted(folder.rglob("*"))
    }


@pytest.mark.parametrize("mode", ["read", "write", "update", "append"])
@pytest.mark.parametrize("swap", SWAPS)
def test_a_swapped_object_is_refused(work: Path, swap: Swap, mode: Mode) -> None:
    found = at(work, "dir/file")
    swap(work, work.parent / "out")
    before = contents(work.parent)
    with pytest.raises(ObjectChanged):
        opened(found, mode)
    assert contents(work.parent) == before


@pytest.mark.parametrize("swap", SWAPS)
def test_a_swapped_object_is_not_deleted(work: Path, swap: Swap) -> None:
    found = at(work, "dir/file", follow_last=False)
    swap(work, work.parent / "out")
    before = contents(work.parent)
    with pytest.raises(ObjectChanged):
        delete_decided(allow(("delete", found)), found, clock=clock)
    assert contents(work.parent) == before


def test_a_new_file_under_an_old_number_is_another_one(work: Path) -> None:
    """ext4 gives the number of a removed file to the next one. Elsewhere it is the numbers that differ."""
    found = at(work, "dir/file")
    if found.born_ns is None:
        pytest.skip("this system does not tell when a file was made")
    for _ in range(100_000):
        (work / "dir" / "file").unlink()
        (work / "dir" / "file").write_bytes(b"decided")
        if at(work, "dir/file").born_ns != found.born_ns:  # the kernel's clock has moved on
            break
    with pytest.raises(ObjectChanged):
        opened(found, "read")


FOLDER_SWAPS = [folder_replaced_by_link, folder_replaced, ancestor_replaced_by_link, removed]


@pytest.mark.parametrize("swap", [*FOLDER_SWAPS, folder_replaced_by_link_to_itself, folder_replaced_by_file])
@pytest.mark.parametrize("path", ["dir/new", "dir/x/new"])
def test_nothing_is_made_in_a_swapped_folder(work: Path, swap: Swap, path: str) -> None:
    found = at(work, path)
    swap(work, work.parent / "out")
    before = contents(work.parent)
    with pytest.raises(ObjectChanged):
        opened(found, "create", make_directories=True)
    with pytest.raises(ObjectChanged):
        create_directory_decided(allow(("write", found)), found, make_directories=True, clock=clock)
    assert contents(work.parent) == before


@pytest.mark.parametrize("kind", ["file", "link", "dangling link", "folder"])
def test_what_has_appeared_meanwhile_is_not_opened(work: Path, kind: str) -> None:
    found, deeper = at(work, "new"), at(work, "new/x")
    new = work / "new"
    if kind == "file":
        new.write_bytes(b"theirs")
    elif kind == "folder":
        new.mkdir()
    else:
        new.symlink_to(work.parent / "out" / ("file" if kind == "link" else "later"))
    before = contents(work.parent)
    for place in (found, deeper):
        with pytest.raises(ObjectChanged):
            opened(place, "create", make_directories=True)
    with pytest.raises(ObjectChanged):
        create_directory_decided(allow(("write", found)), found, clock=clock)
    assert contents(work.parent) == before


def test_the_state_that_was_decided_on_is_the_one_that_is_used(work: Path) -> None:
    there, missing = at(work, "dir/file"), at(work, "new")
    for mode in ("read", "write", "update", "append"):
        with pytest.raises(ObjectChanged):
            opened(missing, mode)  # type: ignore[arg-type]
    with pytest.raises(ObjectChanged):
        opened(there, "create")


def test_only_files_are_opened(work: Path) -> None:
    os.mkfifo(work / "pipe")
    (work / "link").symlink_to("dir/file")
    for found in (
        at(work, "pipe"),
        at(work, "dir"),
        at(work, "/dev/null"),
        at(work, "link", follow_last=False),
    ):
        with pytest.raises(PathRefused) as caught:
            opened(found, "read")
        assert caught.value.code == "path.not_a_file"


def test_a_folder_is_listed(work: Path) -> None:
    (work / "link").symlink_to("dir")
    found = at(work, "link")
    assert list_decided(allow(("read", found)), found, clock=clock) == ["file"]
    folder_replaced_by_link(work, work.parent / "out")
    with pytest.raises(ObjectChanged):
        list_decided(allow(("read", found)), found, clock=clock)


def test_the_link_is_deleted_and_not_what_it_leads_to(work: Path) -> None:
    (work / "link").symlink_to(work.parent / "out" / "file")
    found = at(work, "link", follow_last=False)
    delete_decided(allow(("delete", found)), found, clock=clock)
    assert not (work / "link").is_symlink()
    assert (work.parent / "out" / "file").exists()


def test_an_empty_folder_is_deleted(work: Path) -> None:
    found = at(work, "dir")
    with pytest.raises(OSError, match="not empty"):
        delete_decided(allow(("delete", found)), found, clock=clock)
    (work / "dir" / "file").unlink()
    delete_decided(allow(("delete", found)), found, clock=clock)
    assert not (work / "dir").exists()


def move(source: ResolvedPath, target: ResolvedPath) -> None:
    scope = "tree" if source.kind is Kind.DIRECTORY else "object"
    verbs = (("read", source), ("delete", source), ("write", target))
    accesses = [of_path(verb, found.path, scope=scope) for verb, found in verbs]
    allow = decision(*accesses, asked=asked_about(source, target))
    move_decided(allow, source, target, clock=clock)


@pytest.fixture(params=["renameat2", "link"])
def moving(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(*_: object) -> None:
        raise _openat2.NotOffered

    if request.param == "link":
        monkeypatch.setattr(_openat2, "rename_without_replacing", absent)


@pytest.mark.usefixtures("moving")
def test_a_file_is_moved(work: Path) -> None:
    move(at(work, "dir/file"), at(work, "moved"))
    assert contents(work) == {"dir": (True, False), "moved": b"decided"}


@pytest.mark.usefixtures("moving")
@pytest.mark.parametrize("swap", SWAPS)
def test_a_swapped_file_is_not_moved(work: Path, swap: Swap) -> None:
    source, target = at(work, "dir/file"), at(work, "moved")
    swap(work, work.parent / "out")
    before = contents(work.parent)
    with pytest.raises(ObjectChanged):
        move(source, target)
    assert contents(work.parent) == before


@pytest.mark.usefixtures("moving")
def test_nothing_is_replaced_that_was_not_decided_on(work: Path) -> None:
    source, target = at(work, "dir/file"), at(work, "moved")
    (work / "moved").write_bytes(b"theirs")
    with pytest.raises(ObjectChanged):
        move(source, target)
    assert (work / "moved").read_bytes() == b"theirs"
    assert (work / "dir" / "file").read_bytes() == b"decided"
    # Decided on, it is replaced.
    move(source, at(work, "moved"))
    assert (work / "moved").read_bytes() == b"decided"


@pytest.mark.parametrize("swap", FOLDER_SWAPS)
def test_nothing_is_moved_into_a_swapped_folder(work: Path, swap: Swap) -> None:
    (work.parent / "mine").write_bytes(b"mine")
    source, target = at(work, "../mine"), at(work, "dir/moved")
    swap(work, work.parent / "out")
    before = contents(work.parent)
    with pytest.raises(ObjectChanged):
        move(source, target)
    assert contents(work.parent) == before


def test_a_folder_is_moved_only_where_that_cannot_replace(
    work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    move(at(work, "dir"), at(work, "moved"))
    assert (work / "moved" / "file").exists()

    def absent(*_: object) -> None:
        raise _openat2.NotOffered

    monkeypatch.setattr(_openat2, "rename_without_replacing", absent)
    with pytest.raises(UnsupportedPlatform):
        move(at(work, "moved"), at(work, "dir"))


# What a decision covers.


def test_a_decision_is_of_one_verb_and_one_object(work: Path) -> None:
    (work / "dir" / "file2").write_bytes(b"")
    found = at(work, "dir/file")
    asked = asked_about(found)
    for other in (
        decision(of_path("read", found.path), effect="deny", asked=asked),
        decision(of_path("read", found.path), effect="require_approval", asked=asked),
        decision(of_path("read", found.path), dry_run=True, asked=asked),
        decision(of_path("write", found.path), asked=asked),
        decision(of_path("read", str(work / "dir/file2")), asked=asked),
        decision(of_path("read", str(work / "dir")), asked=asked),
        decision(of_path("read", str(work / "di"), scope="tree"), asked=asked),
        decision(of_path("read", found.path.upper()), asked=asked),
        decision(asked=asked),
    ):
        with pytest.raises(NotCovered, match=r"not an allow|no access"):
            open_decided(other, found, "read", clock=clock)
    for covering in (
        decision(of_path("read", found.path), asked=asked),
        decision(of_path("read", str(work / "dir"), scope="tree"), asked=asked),
        decision(of_path("read", "/", scope="tree"), asked=asked),
    ):
        open_decided(covering, found, "read", clock=clock).close()


def test_an_allow_ends(work: Path) -> None:
    found = at(work, "dir/file")
    for later in (timedelta(minutes=1), timedelta(days=1)):
        with pytest.raises(NotCovered, match="ended"):
            open_decided(allow(("read", found)), found, "read", clock=lambda later=later: NOW + later)


def test_a_volume_that_folds_is_spelled_folded(work: Path) -> None:
    (work / "Ä.TXT").write_bytes(b"x")
    folded = of_path("read", str(work / "Ä.TXT").casefold())
    found = at(work, "Ä.TXT")
    with pytest.raises(NotCovered, match="no access"):
        open_decided(decision(folded, asked=asked_about(found)), found, "read", clock=clock)
    found = resolve("Ä.TXT", cwd=str(work), folds_case=True)
    open_decided(decision(folded, asked=asked_about(found)), found, "read", clock=clock).close()


def test_where_it_cannot_be_done_safely_it_is_not_done(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = at(work, "dir/file")
    monkeypatch.setattr(files, "_SUPPORTED", False)
    with pytest.raises(UnsupportedPlatform):
        open_decided(allow(("read", found)), found, "read", clock=clock)


def test_no_descriptor_is_left_open(work: Path) -> None:
    if not Path("/proc/self/fd").exists():
        pytest.skip("open descriptors cannot be counted here")
    found, missing = at(work, "dir/file"), at(work, "x/y")
    threading.Thread(target=lambda: None).start()
    before = os.listdir("/proc/self/fd")
    for _ in range(3):
        opened(found, "read")
        with pytest.raises(FileNotFoundError):
            opened(missing, "create")
    replaced_by_link(work, work.parent / "out")
    for _ in range(3):
        with pytest.raises(ObjectChanged):
            opened(found, "write")
    assert len(os.listdir("/proc/self/fd")) == len(before)

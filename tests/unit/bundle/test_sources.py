"""The files of a folder: every state of it ends in bytes, or in problems that say where."""

import os
from pathlib import Path

import pytest

from authz.bundle import sources
from authz.bundle.sources import MAX_ENTRIES, MAX_FILES, read_folder, read_sources
from authz.bundle.watch import scan
from authz.errors import BundleError, BundleProblem
from tests.support.bundles import write_bundle


def refused(folder: Path) -> BundleProblem:
    """The only problem of a folder that holds more than a bundle may."""
    with pytest.raises(BundleError) as caught:
        read_folder(folder)
    [problem] = caught.value.problems
    return problem


@pytest.mark.parametrize("name", ["loop", "rules/loop.cedar", "rules/more/loop"])
def test_a_link_to_itself_is_a_file_that_cannot_be_read(tmp_path: Path, name: str) -> None:
    folder = write_bundle(tmp_path / "bundle")
    link = folder / name
    link.parent.mkdir(exist_ok=True)
    link.symlink_to(link.name)
    before = scan(folder)
    _, problems = read_folder(folder)
    assert [problem.file for problem in problems] == [name]
    link.unlink()
    assert scan(folder) != before


def test_a_folder_that_is_a_link_to_itself_is_none(tmp_path: Path) -> None:
    folder = tmp_path / "bundle"
    folder.symlink_to("bundle")
    scan(folder)
    assert refused(folder).code in ("file.no-folder", "file.unreadable")


@pytest.mark.parametrize("name", [b"rules/\xff.cedar", b"\xff\xfe", b"rules/a\nb.cedar"])
def test_a_name_that_is_no_printable_text_is_told_escaped(tmp_path: Path, name: bytes) -> None:
    folder = write_bundle(tmp_path / "bundle")
    Path(os.fsdecode(os.fsencode(folder) + b"/" + name)).write_bytes(b"")
    _, [problem] = read_folder(folder)
    assert problem.code == "file.name"
    assert problem.file.isprintable()
    assert "\\" in problem.file
    problem.file.encode()


def test_what_a_bundle_may_hold_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = write_bundle(tmp_path / "bundle")
    held = len(list(folder.rglob("*")))
    files = [path for path in folder.rglob("*") if path.is_file()]
    monkeypatch.setattr(sources, "MAX_ENTRIES", held)
    monkeypatch.setattr(sources, "MAX_FILES", len(files))
    monkeypatch.setattr(sources, "MAX_BYTES", sum(path.stat().st_size for path in files))
    assert read_sources(folder).files
    (folder / "rules/main.cedar").write_text((folder / "rules/main.cedar").read_text() + " ")
    assert refused(folder).code == "file.size"
    monkeypatch.setattr(sources, "MAX_BYTES", 1 << 20)
    (folder / "empty").mkdir()
    assert f"over {held} files and folders" in refused(folder).message
    monkeypatch.setattr(sources, "MAX_ENTRIES", held + 5)
    (folder / "rules/more.cedar").touch()
    assert f"over {len(files)} files" in refused(folder).message


def test_a_scan_sees_every_entry_of_a_bundle_that_loads(tmp_path: Path) -> None:
    folder = write_bundle(tmp_path / "bundle")
    (folder / "tests").mkdir()
    for number in range(MAX_ENTRIES - len(list(folder.rglob("*")))):
        (folder / f"tests/{number}").mkdir()
    seen = scan(folder)
    assert len(seen) <= MAX_ENTRIES + 1
    assert read_folder(folder)
    (folder / "tools/main.yaml").write_text("")
    assert scan(folder) != seen
    for number in range(3):
        (folder / f"rules/{number}").mkdir()
    assert refused(folder).code == "file.count"
    assert MAX_FILES < MAX_ENTRIES


def test_a_file_that_is_open_for_writing_is_not_read(tmp_path: Path) -> None:
    """Half of what will be in it can be a whole rule file: without the rule that forbids."""
    folder = write_bundle(tmp_path / "bundle")
    rules = folder / "rules/main.cedar"
    text = rules.read_text()
    with rules.open("w") as writer:
        writer.write(text)
        writer.flush()
        _, [problem] = read_folder(folder)
        assert (problem.file, problem.code) == ("rules/main.cedar", "file.unreadable")
        assert "is writing it" in problem.message
    with rules.open() as reader:
        assert read_sources(folder).files["rules/main.cedar"] == reader.read().encode()

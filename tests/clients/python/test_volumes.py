"""How directories tell names apart: on the real one here, and on the rules of others."""

import os
import unicodedata
from collections.abc import Callable
from pathlib import Path

import pytest
from authz_client import volumes
from authz_client.volumes import NameRule, VolumeRules, probe


def test_the_directory_here_is_as_it_behaves(tmp_path: Path) -> None:
    assert probe(str(tmp_path)).letter_case in (NameRule.UNKNOWN, volumes._said_by_system(str(tmp_path)))
    for name in ("Probe", unicodedata.normalize("NFC", "café")):
        (tmp_path / name).write_text("")
    before = sorted(tmp_path.iterdir())
    found = probe(str(tmp_path))
    assert sorted(tmp_path.iterdir()) == before
    folds = (tmp_path / "pROBE").exists()
    composes = (tmp_path / unicodedata.normalize("NFD", "café")).exists()
    assert found == VolumeRules(
        letter_case=NameRule.SAME if folds else NameRule.DISTINCT,
        composition=NameRule.SAME if composes else NameRule.DISTINCT,
    )


def test_nothing_is_known_of_an_empty_directory(tmp_path: Path) -> None:
    (tmp_path / "123").write_text("")
    assert probe(str(tmp_path)).composition is NameRule.UNKNOWN
    assert probe(str(tmp_path)).letter_case is volumes._said_by_system(str(tmp_path))


def test_hard_links_and_links_are_no_folding(tmp_path: Path) -> None:
    if (Path(__file__.swapcase())).exists():
        pytest.skip("this volume folds case")
    (tmp_path / "Name").write_text("")
    (tmp_path / "nAME").hardlink_to(tmp_path / "Name")
    (tmp_path / "name").symlink_to("Name")
    assert probe(str(tmp_path)).letter_case is NameRule.DISTINCT


def test_a_directory_that_cannot_be_listed(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        probe(str(tmp_path / "none"))


def casefolded(name: str) -> str:
    return unicodedata.normalize("NFD", name).casefold()


@pytest.mark.parametrize(
    ("key", "letter_case", "composition"),
    [
        (casefolded, NameRule.SAME, NameRule.SAME),  # APFS as it is set up, HFS+
        (str.casefold, NameRule.SAME, NameRule.DISTINCT),  # NTFS
        (
            lambda name: unicodedata.normalize("NFD", name),
            NameRule.DISTINCT,
            NameRule.SAME,
        ),  # APFS, sensitive
    ],
)
def test_directories_of_other_systems(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    key: Callable[[str], str],
    letter_case: NameRule,
    composition: NameRule,
) -> None:
    """No such volume can be mounted on any machine, so the look-up of names follows its rule here."""
    stored = {key(name): name for name in ("Read Me", "Café", "straße")}
    for name in stored.values():
        (tmp_path / name).write_text("")
    look_up = os.lstat

    def lstat(path: str) -> os.stat_result:
        folder, name = os.path.split(path)
        return look_up(os.path.join(folder, stored.get(key(name), name)))

    monkeypatch.setattr(os, "lstat", lstat)
    assert probe(str(tmp_path)) == VolumeRules(letter_case=letter_case, composition=composition)

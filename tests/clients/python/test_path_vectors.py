"""The tables of filepath-securejoin against `resolve` with a root, which is what its join is.

A vector that nothing here can run is counted under a name, and the names are checked.
"""

import errno
import os
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from authz_client.paths import PathRefused, resolve

from tests.support.shared import vectors

pytestmark = pytest.mark.external

NOT_RUN = {
    "windows": "the source's own test for `..` in Windows spellings: `resolve` runs on POSIX only, and the "
    "service takes such spellings for Opaque",
}


def build(root: Path, setup: dict[str, Any]) -> None:
    for name in setup.get("dirs", []):
        (root / name).mkdir(parents=True, exist_ok=True)
    for name, target in setup.get("symlinks", {}).items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).symlink_to(target.replace("$ROOT", str(root)))


def judge(vector: dict[str, Any], folder: Path) -> str:
    given, expected = vector["input"], vector["expected"]
    if given.get("os") == "windows":
        return "windows"
    root = folder / vector["id"]
    root.mkdir()
    if "has_dotdot_component" in expected:
        return judge_dotdot(given["path"], expected["has_dotdot_component"], root)
    if "unsafe_root" in expected:
        return judge_root(given["root"], expected["unsafe_root"], root)
    assert given["root"] == "$ROOT"
    build(root, given["setup"])
    if "error" in expected:
        assert expected["error"] == errno.errorcode[errno.ELOOP]
        with pytest.raises(PathRefused) as caught:
            resolve(given["unsafe"], cwd="/", root=str(root))
        assert caught.value.code == "path.loop"
        return "loop"
    found = resolve(given["unsafe"], cwd="/", root=str(root))
    assert found.path == expected["result_path"].replace("$ROOT", str(root)), vector
    assert found.seen_path == (found.path[len(str(root)) :] or "/")
    return "joined"


def judge_root(root: str, is_unsafe: bool, folder: Path) -> str:
    """A root with `..` is refused. One that is not absolute is refused as well, safe to the source or not."""
    path = root.replace("$TMP", str(folder))
    if not is_unsafe:
        os.makedirs(path)
        assert resolve("/x", cwd="/", root=path).path == os.path.normpath(path) + "/x"
        return "root accepted"
    with pytest.raises(ValueError, match="`root`"):
        resolve("/x", cwd="/", root=path)
    return "root refused"


def judge_dotdot(path: str, has_dotdot: bool, root: Path) -> str:
    """What has no `..` component keeps its names, also those with dots; what has one loses it."""
    found = resolve(path, cwd="/", root=str(root))
    names = [name for name in path.split("/") if name not in ("", ".")]
    assert ".." not in found.path.split("/")
    assert (list(found.missing) != names) == has_dotdot
    return "dotdot"


def test_securejoin(tmp_path: Path) -> None:
    counts = Counter(judge(vector, tmp_path) for vector in vectors("path_securejoin"))
    run = ("joined", "loop", "root accepted", "root refused", "dotdot")
    assert set(counts) == {*run, *NOT_RUN}, counts
    assert counts["windows"] == 11
    assert counts.total() == 65

"""Loading while the service runs: what each state of the files comes to."""

import gc
import os
import threading
import weakref
from collections.abc import Callable
from pathlib import Path

import pytest

from authz.bundle.load import MAX_FILE_BYTES, read_sources
from authz.bundle.reload import FolderLoader, TrialLimits
from authz.bundle.self_protection import SELF_RULE, Protected
from authz.core.ruleset import Ruleset
from authz.errors import BundleError, BundleProblem
from authz.model.decision import Effect
from tests.support.bundles import write_bundle
from tests.support.world import call, decide_in, world

PROTECTED = Protected(directories=frozenset({"/srv/policies"}), port=8700)


IN_FORCE = world('@id("before") forbid (principal, action, resource);')


async def load(folder: Path, *, limits: TrialLimits | None = None) -> Ruleset | None:
    loader = FolderLoader({"default": folder}, PROTECTED, limits=limits)
    try:
        return await loader.load("default", IN_FORCE)
    finally:
        loader.close()


async def problems(folder: Path, *, limits: TrialLimits | None = None) -> tuple[BundleProblem, ...]:
    with pytest.raises(BundleError) as caught:
        await load(folder, limits=limits)
    assert caught.value.problems
    return caught.value.problems


async def test_a_good_folder_loads_with_its_digest_and_its_protection(tmp_path: Path) -> None:
    folder = write_bundle(tmp_path / "bundle")
    loader = FolderLoader({"default": folder}, PROTECTED)
    ruleset = await loader.load("default", IN_FORCE)
    assert ruleset is not None
    assert ruleset.version == read_sources(folder).version
    assert set(ruleset.engine.policies) == {"everything", SELF_RULE}
    assert "/srv/policies" in ruleset.engine.policies[SELF_RULE].text
    assert await loader.load("default", ruleset) is None
    loader.close()


async def test_a_retired_bundle_is_freed_without_the_collector(tmp_path: Path) -> None:
    """Which never sees it: what a reload makes is left out of collections, since they stop every thread."""
    loader = FolderLoader({"default": write_bundle(tmp_path / "bundle")}, PROTECTED, retire_after_seconds=0)
    ruleset = await loader.load("default", IN_FORCE)
    assert ruleset is not None
    assert decide_in(ruleset, call("fs/file_read", path="/workspace/a")).decision.effect is Effect.ALLOW
    parts = [weakref.ref(part) for part in (ruleset.engine, ruleset.entities)]
    gc.disable()
    try:
        retiring = loader.retire(ruleset)
        del ruleset
        await retiring
        assert [part() for part in parts] == [None, None]
    finally:
        gc.enable()
    loader.close()


def _remove_all(folder: Path) -> None:
    for path in sorted(folder.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    folder.rmdir()


def _empty_rules(folder: Path) -> None:
    (folder / "rules/main.cedar").unlink()


def _write(name: str, text: str) -> Callable[[Path], None]:
    return lambda folder: (folder / name).write_text(text) and None


def _loop(folder: Path) -> None:
    (folder / "rules/main.cedar").unlink()
    (folder / "rules/main.cedar").symlink_to("main.cedar")


def _folder_loop(folder: Path) -> None:
    (folder / "rules/again").symlink_to("..")


def _pipe(folder: Path) -> None:
    os.mkfifo(folder / "rules/pipe.cedar")


def _big(folder: Path) -> None:
    (folder / "rules/big.cedar").write_bytes(b"/" * (MAX_FILE_BYTES + 1))


@pytest.mark.parametrize(
    ("change", "file", "line", "said"),
    [
        pytest.param(_remove_all, "", None, "no such folder", id="missing folder"),
        pytest.param(_empty_rules, "rules", None, "no rules", id="empty rule folder"),
        pytest.param(
            _write("bundle.yaml", "format: 1\nname: test\nnmae: x\n"),
            *("bundle.yaml", 3, "unknown key"),
            id="unknown key",
        ),
        pytest.param(
            _write("rules/more.cedar", '\n@id("everything") permit (principal, action, resource);'),
            *("rules/more.cedar", 2, "already used at rules/main.cedar:1"),
            id="duplicate id",
        ),
        pytest.param(
            _write("rules/half.cedar", '@id("half") forbid (principal, act'),
            *("rules/half.cedar", 1, ""),
            id="half-written rule",
        ),
        pytest.param(
            _write("tools/main.yaml", "server:\n  alias: fs\n  iden"),
            "tools/main.yaml",
            4,
            "",
            id="half YAML",
        ),
        pytest.param(_write("rules/a.txt", ""), "rules/a.txt", None, "not a file of a bundle", id="stranger"),
        pytest.param(_loop, "rules/main.cedar", None, "cannot be read", id="link to itself"),
        pytest.param(_folder_loop, "rules/again", None, "not a file of a bundle", id="link up"),
        pytest.param(_pipe, "rules/pipe.cedar", None, "no ordinary file", id="pipe"),
        pytest.param(_big, "rules/big.cedar", None, f"over {MAX_FILE_BYTES} bytes", id="file over the limit"),
    ],
)
async def test_what_is_no_bundle_is_refused_with_its_place(
    tmp_path: Path, change: Callable[[Path], None], file: str, line: int | None, said: str
) -> None:
    folder = write_bundle(tmp_path / "bundle")
    change(folder)
    found = await problems(folder)
    assert (file or str(folder), line) in [(problem.file, problem.line) for problem in found], found
    assert any(said in problem.message for problem in found), found


async def test_files_that_are_being_written_are_never_taken_half(tmp_path: Path) -> None:
    folder = write_bundle(tmp_path / "bundle")
    written = threading.Event()

    def write() -> None:
        number = 0
        while not written.wait(0.002):
            number += 1
            # Good at any moment, and never the same twice: a mix of two reads is not to be told from it.
            draft = folder / ".draft"
            draft.write_text(f'@id("n{number}") permit (principal, action, resource);')
            draft.rename(folder / "rules/main.cedar")

    writer = threading.Thread(target=write)
    writer.start()
    try:
        found = await problems(folder)
    finally:
        written.set()
        writer.join()
    assert "keep changing" in found[0].message
    assert await load(folder) is not None


async def test_a_trial_that_does_not_end_is_ended(tmp_path: Path) -> None:
    folder = write_bundle(tmp_path / "bundle")
    # Less than an interpreter takes to start.
    found = await problems(folder, limits=TrialLimits(seconds=0.01))
    assert "did not end within 0.01 seconds" in found[0].message
    assert await load(folder) is not None


async def test_a_trial_that_takes_too_much_memory_is_ended(tmp_path: Path) -> None:
    folder = write_bundle(tmp_path / "bundle")
    found = await problems(folder, limits=TrialLimits(memory_bytes=48 * 1024**2))
    assert "broke off" in found[0].message
    assert "Traceback" not in found[0].message


async def test_a_mounted_volume_is_read_through_its_links(tmp_path: Path) -> None:
    """As Kubernetes mounts one: the folder holds links, through `..data`, to a folder per version."""
    first = write_bundle(tmp_path / "bundle" / "..v1")
    folder = tmp_path / "bundle"
    (folder / "..data").symlink_to("..v1")
    for entry in first.iterdir():
        (folder / entry.name).symlink_to(f"..data/{entry.name}")
    assert read_sources(folder).version == read_sources(first).version
    ruleset = await load(folder)
    assert ruleset is not None


@pytest.mark.slow
async def test_ten_thousand_rules_load(tmp_path: Path) -> None:
    rules = "\n".join(
        f'@id("r{number}") permit (principal, action, resource in Directory::"/w/{number}");'
        for number in range(10_000)
    )
    ruleset = await load(write_bundle(tmp_path / "bundle", rules=rules))
    assert ruleset is not None
    assert len(ruleset.engine.policies) == 10_001

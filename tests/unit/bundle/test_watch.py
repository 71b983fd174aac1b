"""The watch notices every way in which the files of a bundle change, and goes on without events."""

import asyncio
import shutil
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from authz.bundle.load import read_sources
from authz.bundle.watch import (
    RETRY_SECONDS,
    SCAN_SHARE,
    SETTLE_SECONDS,
    YOUNG_SETTLE_SECONDS,
    FolderWatch,
    _still_seconds,
    scan,
    warn_of_slow_scan,
)
from authz.errors import StoreUnavailable
from authz.model.record import Committed
from authz.ports import CommitUnit
from authz.service.bundles import Attempt, BundleState, ReloadOutcome, Trigger, TriggerKind
from tests.support.bundles import write_bundle
from tests.support.reloading import FORBID, Reloading, reloading
from tests.support.waiting import until
from tests.support.world import PERMIT_ALL


@asynccontextmanager
async def watched(tmp_path: Path) -> AsyncIterator[Reloading]:
    async with reloading(tmp_path) as running:
        task = asyncio.create_task(running.watch().run())
        try:
            yield running
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


async def loaded(running: Reloading, folder: Path | None = None) -> None:
    """Until what is in force is what the folder says."""

    async def same() -> bool:
        return running.version == read_sources(folder or running.folder).version

    await until(same)


async def state(running: Reloading, expected: BundleState) -> None:
    """Until the bundle is in that state."""

    async def reached() -> bool:
        return running.bundles.state("default") is expected

    await until(reached)


def _in_place(folder: Path) -> None:
    (folder / "rules/main.cedar").write_text(FORBID)


def _renamed_over(folder: Path) -> None:
    draft = folder / "rules/.main.cedar.swp"
    draft.write_text(FORBID)
    draft.rename(folder / "rules/main.cedar")


def _added(folder: Path) -> None:
    (folder / "rules/more.cedar").write_text(FORBID)


def _other_people(folder: Path) -> None:
    (folder / "rules/main.cedar").write_text(PERMIT_ALL)
    (folder / "entities.yaml").write_text("groups: {}\nusers: {}\nagents: {}\n")


def _another_folder(folder: Path) -> None:
    shutil.rmtree(folder)
    write_bundle(folder, rules=FORBID)


@pytest.mark.parametrize("change", [_in_place, _renamed_over, _added, _other_people, _another_folder])
async def test_a_change_of_the_files_comes_into_force(tmp_path: Path, change: Callable[[Path], None]) -> None:
    async with watched(tmp_path) as running:
        before = running.version
        change(running.folder)
        await loaded(running)
        assert running.version != before
        attempt = running.bundles.status("default").last_attempt
        assert attempt is not None
        assert attempt.trigger.kind is TriggerKind.WATCH
        # And the next one too: a folder that was made anew is watched like the first.
        (running.folder / "rules/last.cedar").write_text('@id("last") forbid (principal, action, resource);')
        await loaded(running)


async def test_a_link_to_another_release_comes_into_force(tmp_path: Path) -> None:
    async with watched(tmp_path) as running:
        release = write_bundle(tmp_path / "releases" / "2", rules=FORBID)
        shutil.rmtree(running.folder)
        running.folder.symlink_to(release)
        await loaded(running, release)
        third = write_bundle(tmp_path / "releases" / "3", rules=FORBID.replace("Closed", "Still closed"))
        (tmp_path / "link").symlink_to(third)
        (tmp_path / "link").rename(running.folder)
        await loaded(running, third)


async def test_a_mounted_volume_that_is_updated_comes_into_force(tmp_path: Path) -> None:
    """As Kubernetes does it: a new folder per version, and then `..data` is exchanged in one step."""
    async with watched(tmp_path) as running:
        folder = running.folder
        first = shutil.move(folder, tmp_path / "v1")
        folder.mkdir()
        shutil.move(first, folder / "..v1")
        (folder / "..data").symlink_to("..v1")
        for entry in (folder / "..v1").iterdir():
            (folder / entry.name).symlink_to(f"..data/{entry.name}")
        write_bundle(folder / "..v2", rules=FORBID)
        (folder / "..data_tmp").symlink_to("..v2")
        (folder / "..data_tmp").rename(folder / "..data")
        await loaded(running)
        assert "closed" in running.bundles.status("default").ruleset.engine.policies
        write_bundle(folder / "..v3", rules=FORBID.replace("closed", "shut"))
        (folder / "..data_tmp").symlink_to("..v3")
        (folder / "..data_tmp").rename(folder / "..data")
        await loaded(running)
        assert "shut" in running.bundles.status("default").ruleset.engine.policies


async def test_a_folder_that_is_gone_is_said_and_polled_until_it_is_back(tmp_path: Path) -> None:
    async with watched(tmp_path) as running:
        before = running.version
        shutil.move(running.folder, tmp_path / "elsewhere")

        async def degraded() -> bool:
            return running.bundles.state("default") is BundleState.DEGRADED

        async def polled() -> bool:
            return running.bundles.status("default").watching == "polling"

        await until(degraded)
        await until(polled)
        assert running.bundles.status("default").watch_fault
        assert running.version == before
        shutil.move(tmp_path / "elsewhere", running.folder)

        async def ready() -> bool:
            return running.bundles.state("default") is BundleState.READY

        await until(ready)
        assert running.version == before


async def test_a_broken_bundle_is_tried_once_and_healed_by_the_next_change(tmp_path: Path) -> None:
    async with watched(tmp_path) as running:
        before = running.version
        running.write("permit (principal")

        async def degraded() -> bool:
            return running.bundles.state("default") is BundleState.DEGRADED

        await until(degraded)
        assert running.version == before
        running.write(FORBID)
        await loaded(running)
        assert running.bundles.state("default") is BundleState.READY
        records = await running.service.records(type="bundle.rejected")
        assert len(records) == 1


async def test_what_could_not_be_recorded_is_tried_again_without_a_change(tmp_path: Path) -> None:
    async with watched(tmp_path) as running:
        ledger = running.reloads._ledger

        class Full:
            """A ledger that takes nothing."""

            async def commit(self, unit: CommitUnit) -> Committed:
                raise StoreUnavailable("the disk is full")

        running.reloads._ledger = Full()  # type: ignore[assignment]
        running.write(FORBID)

        async def failed() -> bool:
            attempt = running.bundles.status("default").last_attempt
            return attempt is not None and attempt.outcome is ReloadOutcome.NOT_RECORDED

        await until(failed)
        running.reloads._ledger = ledger

        async def tried_again() -> bool:
            # The watch notes when it is due after the attempt has ended, so time goes on until it has.
            running.monotonic.now += RETRY_SECONDS
            return running.version == read_sources(running.folder).version

        await until(tried_again)


async def test_scans_confirm_that_the_files_are_in_force_only_while_they_are(tmp_path: Path) -> None:
    async with reloading(tmp_path) as running:
        watch = running.watch()
        running.monotonic.now += 100
        assert running.bundles.unconfirmed_seconds("default") == 100
        assert not await watch._look()
        assert running.bundles.unconfirmed_seconds("default") == 0
        running.write("permit (principal")
        running.monotonic.now += 100
        assert await watch._look()
        assert running.bundles.state("default") is BundleState.DEGRADED
        # The same files again: there is nothing to try, and nothing that they confirm.
        assert not await watch._look()
        assert running.bundles.unconfirmed_seconds("default") == 100
        running.write(PERMIT_ALL)
        assert await watch._look()
        assert running.bundles.unconfirmed_seconds("default") == 0


def exchange(running: Reloading, other: Path) -> None:
    """The bundle's folder under the name of `other`, and that one in its place: nothing in them changes."""
    aside = other.with_name("aside")
    running.folder.rename(aside)
    other.rename(running.folder)
    aside.rename(other)


async def test_files_that_only_look_as_before_do_not_confirm_what_another_reload_has_read(
    tmp_path: Path,
) -> None:
    """Between two scans another bundle stood there, was loaded by a caller, and went away again."""
    async with reloading(tmp_path, max_staleness_seconds=150) as running:
        watch = running.watch()
        assert not await watch._look()
        before = running.version
        other = write_bundle(tmp_path / "other", rules=FORBID)
        exchange(running, other)
        assert (await running.reload(kind=TriggerKind.API)).outcome is ReloadOutcome.LOADED
        exchange(running, other)
        assert running.version != before
        assert not running.bundles.confirm("default", running.monotonic.now, before)
        assert await watch._look()
        assert running.version == before
        running.monotonic.now += 100
        assert not await watch._look()
        assert running.bundles.unconfirmed_seconds("default") == 0


async def test_files_that_were_exchanged_while_they_were_loaded_are_loaded_again(tmp_path: Path) -> None:
    async with reloading(tmp_path) as running:
        watch = running.watch()
        other = write_bundle(tmp_path / "other", rules=FORBID)
        reload = running.reloads.reload

        async def exchanged(tenant: str, trigger: Trigger) -> Attempt:
            exchange(running, other)
            return await reload(tenant, trigger)

        running.write(PERMIT_ALL + "// once more")
        running.reloads.reload = exchanged  # type: ignore[method-assign]
        assert await watch._look()
        running.reloads.reload = reload  # type: ignore[method-assign]
        assert "closed" in running.bundles.status("default").ruleset.engine.policies
        exchange(running, other)
        # They look as they did when the watch asked for them, and are not what it got.
        running.monotonic.now += 100
        assert await watch._look()
        assert "closed" not in running.bundles.status("default").ruleset.engine.policies
        assert running.version == read_sources(running.folder).version


async def test_a_watch_that_begins_on_files_that_moved_reads_them_again(tmp_path: Path) -> None:
    async with reloading(tmp_path) as running:
        watch = FolderWatch(
            tenant="default",
            folder=running.folder,
            bundles=running.bundles,
            reloads=running.reloads,
            loaded=(),
        )
        assert await watch._look()
        attempt = running.bundles.status("default").last_attempt
        assert attempt is not None
        assert attempt.outcome is ReloadOutcome.UNCHANGED
        assert not await watch._look()


def test_a_scan_tells_states_apart_and_survives_anything(tmp_path: Path) -> None:
    folder = write_bundle(tmp_path / "bundle")
    seen = [scan(folder)]
    assert scan(folder) == seen[0]

    def changed() -> None:
        now = scan(folder)
        assert now not in seen
        seen.append(now)

    rule = folder / "rules/main.cedar"
    text = rule.read_text()
    rule.write_text(text.replace("everything", "everythang"))
    changed()
    # The same bytes under another inode, as an editor leaves them.
    (folder / "rules/x").write_text(rule.read_text())
    changed()
    (folder / "rules/x").rename(rule)
    changed()
    (folder / "rules/loop.cedar").symlink_to("loop.cedar")
    changed()
    (folder / "rules/up").symlink_to("..")
    changed()
    shutil.rmtree(folder)
    changed()
    folder.write_text("no folder")
    changed()
    # Drafts of editors are no part of a bundle.
    folder.unlink()
    write_bundle(folder)
    now = scan(folder)
    (folder / "rules/.main.cedar.swp").write_text("draft")
    assert scan(folder) == now


async def test_a_link_loop_degrades_the_bundle_until_it_is_gone(tmp_path: Path) -> None:
    async with watched(tmp_path) as running:
        (running.folder / "loop").symlink_to("loop")
        await state(running, BundleState.DEGRADED)
        attempt = running.bundles.status("default").last_attempt
        assert attempt is not None
        assert [problem.file for problem in attempt.problems] == ["loop"]
        (running.folder / "loop").unlink()
        await state(running, BundleState.READY)


async def test_a_scan_that_fails_degrades_the_bundle_until_one_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with watched(tmp_path) as running:
        with monkeypatch.context() as patch:

            def fail(folder: Path) -> None:
                raise RuntimeError("unforeseen")

            patch.setattr("authz.bundle.watch.scan", fail)
            await state(running, BundleState.DEGRADED)
        await state(running, BundleState.READY)


async def test_a_file_that_is_being_written_widens_nothing(tmp_path: Path) -> None:
    """Empty at first, then with a rule that permits, and only at last with the one that forbids."""
    async with watched(tmp_path) as running:
        running.write(PERMIT_ALL + "\n" + FORBID)
        await loaded(running)
        narrow = running.version
        with (running.folder / "rules/main.cedar").open("w") as writer:
            await state(running, BundleState.DEGRADED)
            writer.write(PERMIT_ALL)
            writer.flush()
            attempt = running.bundles.status("default").last_attempt

            async def tried_again() -> bool:
                return running.bundles.status("default").last_attempt is not attempt

            await until(tried_again)
            assert (running.version, running.bundles.state("default")) == (narrow, BundleState.DEGRADED)
            writer.write("\n" + FORBID.replace("Closed", "Shut"))
        await loaded(running)
        assert "closed" in running.bundles.status("default").ruleset.engine.policies


async def test_young_files_must_hold_still_for_longer(tmp_path: Path) -> None:
    folder = write_bundle(tmp_path / "bundle")
    assert _still_seconds(scan(folder)) == YOUNG_SETTLE_SECONDS

    async def old() -> bool:
        return _still_seconds(scan(folder)) == SETTLE_SECONDS

    await until(old)


async def test_files_that_keep_changing_are_not_tried(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("authz.bundle.watch.MAX_SETTLE_SECONDS", 0.3)
    async with watched(tmp_path) as running:
        before = running.version
        changing = True

        async def change() -> None:
            number = 0
            while changing:
                number += 1
                running.write(PERMIT_ALL + f"// {number}\n")
                await asyncio.sleep(0.02)

        writer = asyncio.create_task(change())
        await state(running, BundleState.DEGRADED)
        attempt = running.bundles.status("default").last_attempt
        assert attempt is not None
        assert "keep changing" in attempt.problems[0].message
        assert running.version == before
        changing = False
        await writer
        monkeypatch.undo()
        await loaded(running)


async def test_scans_come_often_enough_for_the_bound_on_staleness(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with reloading(tmp_path, max_staleness_seconds=8) as running:
        watch = running.watch()
        for took_seconds, pause_seconds in ((0.0001, 0.05), (0.02, 1.0), (0.5, 2.0), (30, 2.0)):
            watch._scan_took_s = took_seconds
            assert watch._pause_seconds() == pause_seconds
        running.bundles.max_staleness_seconds = None
        watch._scan_took_s = 1
        assert watch._pause_seconds() == SCAN_SHARE
    warn_of_slow_scan("default", 2.1, 8)
    assert [entry.levelname for entry in caplog.records if "bound on staleness" in entry.message] == [
        "WARNING"
    ]
    warn_of_slow_scan("default", 1.9, 8)
    warn_of_slow_scan("default", 100, None)
    assert len([entry for entry in caplog.records if "bound on staleness" in entry.message]) == 1


async def test_a_reload_is_no_part_of_the_time_that_a_scan_takes(tmp_path: Path) -> None:
    async with reloading(tmp_path) as running:
        watch = running.watch()
        running.write(FORBID)
        began = time.monotonic()
        assert await watch._look()
        # It waits for the files to hold still, and for a trial: far longer than it looks at them.
        assert watch._scan_took_s < (time.monotonic() - began) / 4

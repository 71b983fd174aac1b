"""Reloads: recorded before they decide, one at a time, never lost, and never wider than the last good one."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from authz.bundle.load import read_sources
from authz.errors import StoreUnavailable
from authz.model.record import CommitOutcome
from authz.ports import BundleLoader, CommitUnit
from authz.service.bundles import BundleState, ReloadOutcome, Trigger, TriggerKind
from authz.service.reloads import Reloads
from tests.support.bundles import write_bundle
from tests.support.reloading import FORBID, Reloading, reloading
from tests.support.world import CREDENTIALS, PERMIT_ALL

WATCH = Trigger(kind=TriggerKind.WATCH)


class Ledger:
    """The real ledger, with a step of the test's own before each commit."""

    def __init__(self, running: Reloading, before_commit: Callable[[CommitUnit], Awaitable[None]]) -> None:
        self._ledger = running.service.ledger
        self._before_commit = before_commit

    def __getattr__(self, name: str) -> Any:
        return getattr(self._ledger, name)

    async def commit(self, unit: CommitUnit) -> CommitOutcome:
        await self._before_commit(unit)
        return await self._ledger.commit(unit)


def over(running: Reloading, *, ledger: Any = None, loader: BundleLoader | None = None) -> Reloads:
    """The reloads of the running service, with a part exchanged."""
    reloads = running.reloads
    return Reloads(
        bundles=running.bundles,
        loader=loader or reloads._loader,
        ledger=ledger or reloads._ledger,
        clock=reloads._clock,
        observer=reloads._observer,
    )


async def _effect(running: Reloading) -> tuple[str, str]:
    """(effect, version) of a decision now."""
    answer = await running.service.decide(running.service.body("fs/file_read", {"path": "/workspace/a"}))
    return answer["effect"], answer["policy_version"]


async def test_a_swap_is_on_record_before_the_new_version_decides(tmp_path: Path) -> None:
    async with reloading(tmp_path) as running:
        before = running.version
        in_force_at_commit: list[str] = []

        async def note(unit: CommitUnit) -> None:
            in_force_at_commit.append(running.version)

        running.write(FORBID + '\n@id("more") permit (principal, action, resource);')
        attempt = await over(running, ledger=Ledger(running, note)).reload("default", WATCH)
        assert attempt.outcome is ReloadOutcome.LOADED
        assert in_force_at_commit == [before]
        assert running.version == attempt.version == read_sources(running.folder).version
        assert await _effect(running) == ("deny", running.version)
        [record] = await running.service.records(type="bundle.loaded")
        assert record["previous_version"] == before
        assert record["policy_version"] == running.version
        assert record["trigger"] == "watch"
        changes = record["changes"]["rules"]
        assert changes["added"] == {"count": 2, "names": ["closed", "more"]}
        assert changes["removed"] == {"count": 1, "names": ["everything"]}
        assert changes["changed"]["count"] == 0


async def test_without_its_record_there_is_no_swap(tmp_path: Path) -> None:
    async with reloading(tmp_path) as running:
        before = running.version

        async def fail(unit: CommitUnit) -> None:
            raise StoreUnavailable("the disk is full")

        running.write(FORBID)
        attempt = await over(running, ledger=Ledger(running, fail)).reload("default", WATCH)
        assert attempt.outcome is ReloadOutcome.NOT_RECORDED
        assert running.version == attempt.version == before
        assert running.bundles.state("default") is BundleState.DEGRADED
        assert (await _effect(running))[0] == "allow"
        # The store is back: the same files load.
        assert (await running.reload()).outcome is ReloadOutcome.LOADED
        assert (await _effect(running))[0] == "deny"


async def test_what_is_refused_changes_nothing_and_is_on_record(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with reloading(tmp_path) as running:
        before = running.version
        running.write('@id("a") permit (principal, action, resource);\n\n@id("b") permit (principle);')
        attempt = await running.reload()
        assert attempt.outcome is ReloadOutcome.REJECTED
        assert [(problem.file, problem.line) for problem in attempt.problems] == [("rules/main.cedar", 3)]
        assert running.version == before
        assert (await _effect(running)) == ("allow", before)
        [record] = await running.service.records(type="bundle.rejected")
        assert record["policy_version"] == before
        assert record["problem_count"] == 1
        assert [(told["file"], told["line"]) for told in record["problems"]] == [("rules/main.cedar", 3)]
        assert "principle" not in str(record)
        [line] = [entry for entry in caplog.records if entry.name == "authz.bundle"]
        assert "rules/main.cedar:3" in line.__dict__["problems"][0]


async def test_the_same_files_are_unchanged_and_leave_no_record(tmp_path: Path) -> None:
    async with reloading(tmp_path) as running:
        before = len(await running.service.records())
        (running.folder / "rules/main.cedar").touch()
        attempt = await running.reload()
        assert attempt.outcome is ReloadOutcome.UNCHANGED
        assert len(await running.service.records()) == before
        # Rejected, and then as before: whole again without another version.
        running.write("nonsense")
        await running.reload()
        running.write(PERMIT_ALL)
        assert (await running.reload()).outcome is ReloadOutcome.UNCHANGED
        assert running.bundles.state("default") is BundleState.READY


async def test_a_fault_of_ours_while_loading_is_a_rejection(tmp_path: Path) -> None:
    async with reloading(tmp_path) as running:
        before = running.version

        class Faulty:
            """A loader with a bug."""

            async def load(self, tenant: str, in_force: Any) -> Any:
                raise RuntimeError("secret detail")

        attempt = await over(running, loader=Faulty()).reload("default", WATCH)  # type: ignore[arg-type]
        assert attempt.outcome is ReloadOutcome.REJECTED
        assert "secret" not in attempt.problems[0].message
        assert running.version == before


class SlowLoader:
    """The real loader, held at its start until it is let go."""

    def __init__(self, loader: BundleLoader) -> None:
        self._loader = loader
        self.go = asyncio.Event()
        self.started = asyncio.Event()
        self.loads = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)

    async def load(self, tenant: str, in_force: Any) -> Any:
        loaded = await self._loader.load(tenant, in_force)
        self.loads += 1
        self.started.set()
        # It has read the files: what is written from here on, this load cannot know.
        await self.go.wait()
        return loaded


async def test_changes_during_a_reload_share_the_next_one_and_the_last_state_wins(tmp_path: Path) -> None:
    async with reloading(tmp_path) as running:
        loader = SlowLoader(running.reloads._loader)
        reloads = over(running, loader=loader)  # type: ignore[arg-type]
        first = reloads.request("default", WATCH)
        await loader.started.wait()
        waiting = []
        for number in range(5):
            running.write(f'@id("rule-{number}") permit (principal, action, resource);')
            waiting.append(reloads.request("default", WATCH))
        loader.go.set()
        assert (await first).outcome is ReloadOutcome.UNCHANGED
        assert {(await one).outcome for one in waiting} == {ReloadOutcome.LOADED}
        assert loader.loads == 2
        assert "rule-4" in running.bundles.status("default").ruleset.engine.policies
        await asyncio.sleep(0)
        await reloads.close()


async def test_one_bad_bundle_does_not_hold_up_another_tenants(tmp_path: Path) -> None:
    other = write_bundle(tmp_path / "other")
    async with reloading(tmp_path, tenants={"other": other}) as running:
        running.write("nonsense")
        (other / "rules/main.cedar").write_text(FORBID)
        bad, good = await asyncio.gather(running.reload("default"), running.reload("other"))
        assert (bad.outcome, good.outcome) == (ReloadOutcome.REJECTED, ReloadOutcome.LOADED)
        assert running.bundles.state("default") is BundleState.DEGRADED
        assert running.bundles.state("other") is BundleState.READY
        headers = await running.service.add_key("b", "decide", tenant="other")
        body = running.service.body("fs/file_read", {"path": "/workspace/a"})
        assert (await running.service.decide(body, headers))["effect"] == "deny"
        assert (await _effect(running))[0] == "allow"


async def test_a_profile_that_left_makes_its_keys_useless_and_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with reloading(tmp_path) as running:
        service = running.service
        running.write(
            CREDENTIALS + CREDENTIALS.replace("profiles:\n", "").replace("runtime", "ci"), "credentials.yaml"
        )
        assert (await running.reload()).outcome is ReloadOutcome.LOADED
        headers = await service.add_key("ci", "decide", "audit", profile="ci")
        body = service.body("fs/file_read", {"path": "/workspace/a"})
        assert (await service.decide(body, headers))["policy_version"] == running.version
        running.write(CREDENTIALS, "credentials.yaml")
        assert (await running.reload()).outcome is ReloadOutcome.LOADED
        refused = await service.client.post("/decide", json=body, headers=headers)
        assert (refused.status_code, refused.json()["code"]) == (403, "caller.profile_absent")
        visible = {"subject": {"agent": "coder-1"}, "servers": [{"server": "fs"}]}
        assert (await service.client.post("/tools/visible", json=visible, headers=headers)).status_code == 403
        # What needs no word of the bundle still works.
        assert (await service.client.get("/decisions", headers=headers)).status_code == 200
        record = (await service.records(type="bundle.loaded"))[-1]
        assert record["changes"]["profiles"]["removed"] == {"count": 1, "names": ["ci"]}
        assert any(entry.__dict__.get("profiles") == ("ci",) for entry in caplog.records)


async def test_a_request_under_way_finishes_on_the_version_that_it_began_with(tmp_path: Path) -> None:
    async with reloading(tmp_path) as running:
        service = running.service
        before = running.version
        reached, go = asyncio.Event(), asyncio.Event()
        decisions = service.application.services.decisions

        async def hold(unit: CommitUnit) -> None:
            reached.set()
            await go.wait()

        held = Ledger(running, hold)
        decisions._ledger = held  # type: ignore[assignment]
        calls = [service.body("fs/file_read", {"path": f"/workspace/{number}"}) for number in range(3)]
        batch = asyncio.create_task(service.client.post("/decide/batch", json={"calls": calls}))
        await reached.wait()
        running.write(FORBID)
        outcome = (await running.reload()).outcome
        go.set()
        assert outcome is ReloadOutcome.LOADED
        answers = (await batch).json()["decisions"]
        assert {(answer["effect"], answer["policy_version"]) for answer in answers} == {("allow", before)}
        decided = await service.records(type="decision.made")
        assert {record["policy_version"] for record in decided} == {before}
        assert await _effect(running) == ("deny", running.version)


async def test_what_is_visible_is_never_of_an_older_version(tmp_path: Path) -> None:
    async with reloading(tmp_path) as running:
        asked = {"subject": {"agent": "coder-1"}, "servers": [{"server": "fs"}]}
        for rules, shown in ((PERMIT_ALL, 4), (FORBID, 0), (PERMIT_ALL, 4)):
            running.write(rules)
            await running.reload()
            for _ in range(2):
                answer = (await running.service.client.post("/tools/visible", json=asked)).json()
                assert answer["policy_version"] == running.version
                assert len(answer["servers"][0]["tools"]) == shown


async def test_whatever_fails_the_attempt_ends_and_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with reloading(tmp_path) as running:
        before = running.version

        def broken(**given: Any) -> Any:
            raise UnicodeEncodeError("utf-8", "\udcff", 0, 1, "surrogates not allowed")

        async def fault(unit: CommitUnit) -> None:
            raise RuntimeError("a bug of the store")

        for part, rules, outcome in (
            ("bundle_rejected_event", "nonsense", ReloadOutcome.REJECTED),
            ("bundle_event", FORBID, ReloadOutcome.NOT_RECORDED),
        ):
            running.write(rules)
            with monkeypatch.context() as patch:
                patch.setattr(f"authz.service.reloads.{part}", broken)
                assert (await running.reload()).outcome is outcome
            assert running.bundles.state("default") is BundleState.DEGRADED
            attempt = await over(running, ledger=Ledger(running, fault)).reload("default", WATCH)
            assert attempt.outcome is outcome
            assert "bug" not in str(attempt.problems)
            assert running.version == before
        # Nothing of it is left: the same files load.
        assert (await running.reload()).outcome is ReloadOutcome.LOADED


async def test_the_same_rejection_is_recorded_once_a_key_and_counted_always(tmp_path: Path) -> None:
    async with reloading(tmp_path) as running:
        service = running.service
        headers = await service.add_key("b", "policy")

        async def rejected() -> int:
            return len(await service.records(type="bundle.rejected"))

        running.write("nonsense")
        for _ in range(5):
            await running.reload()
        assert await rejected() == 1
        for _ in range(5):
            await service.client.post("/policies/reload", headers=headers)
            await service.client.post("/policies/reload")
        assert await rejected() == 3
        text = (await service.client.get("/metrics")).text
        assert 'authz_bundle_reloads_total{outcome="rejected",tenant="default",trigger="api"} 10.0' in text
        # Other problems, and the same ones again after a good bundle, are news.
        running.write("other nonsense")
        await running.reload()
        assert await rejected() == 4
        running.write(PERMIT_ALL)
        await running.reload()
        running.write("other nonsense")
        await running.reload()
        assert await rejected() == 5


async def test_a_rejection_that_was_not_recorded_is_recorded_the_next_time(tmp_path: Path) -> None:
    async with reloading(tmp_path) as running:

        async def fail(unit: CommitUnit) -> None:
            raise StoreUnavailable("the disk is full")

        running.write("nonsense")
        ledger, running.reloads._ledger = running.reloads._ledger, Ledger(running, fail)
        await running.reload()
        running.reloads._ledger = ledger
        await running.reload()
        assert len(await running.service.records(type="bundle.rejected")) == 1


async def test_limits_and_people_that_changed_are_on_record(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def limits(*entries: str) -> str:
        return "limits:" + "".join(
            f"\n  - {{id: {name}, reason: r, calls: {calls}, seconds: 60, per: [agent]}}"
            for name, _, calls in (entry.partition("=") for entry in entries)
        )

    async with reloading(tmp_path) as running:
        running.write(limits("a=1", "b=1"), "limits.yaml")
        assert (await running.reload()).outcome is ReloadOutcome.LOADED
        running.write(limits("b=2", "c=1"), "limits.yaml")
        people = "groups:\n  staff: {}\nusers:\n  ada: {}\n  eve: {groups: [staff]}\nagents:\n  coder-2: {}\n"
        running.write(people, "entities.yaml")
        assert (await running.reload()).outcome is ReloadOutcome.LOADED
        changes = (await running.service.records(type="bundle.loaded"))[-1]["changes"]

        def named(kind: str) -> dict[str, list[str]]:
            return {how: changes[kind][how]["names"] for how in ("added", "removed", "changed")}

        assert named("limits") == {"added": ["c"], "removed": ["a"], "changed": ["b"]}
        assert named("groups") == {"added": [], "removed": ["finance"], "changed": []}
        assert named("users") == {"added": ["eve"], "removed": ["grace"], "changed": ["ada"]}
        assert named("agents") == {"added": ["coder-2"], "removed": ["coder-1"], "changed": []}
        [warning] = [entry for entry in caplog.records if entry.levelname == "WARNING"]
        assert warning.__dict__["limits"] == ("a",)

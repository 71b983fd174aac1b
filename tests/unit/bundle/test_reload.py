"""Loading while the service runs: what each state of the files comes to."""

import ast
import asyncio
import base64
import gc
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from importlib.metadata import packages_distributions
from pathlib import Path

import psutil
import pytest

from authz import processes
from authz.bundle.load import MAX_FILE_BYTES, compile_bundle, read_sources
from authz.bundle.reload import FolderLoader
from authz.bundle.self_protection import SELF_RULE, Protected
from authz.bundle.trial import OUT_OF_MEMORY, _told_all, request_for
from authz.bundle.trial_process import TrialLimits, TrialProcess, why_it_broke_off
from authz.core.lines import Line
from authz.core.policy import ValidationCache
from authz.core.ruleset import Ruleset
from authz.errors import BundleError, BundleProblem
from authz.model.decision import Effect
from authz.model.resource import Base
from authz.processes import Courtesy, command
from authz.workers.shell_reader import ShellReader
from tests.support.bundles import write_bundle
from tests.support.waiting import wait_until
from tests.support.world import WEB, call, decide_in, world

PROTECTED = Protected(directories=frozenset({"/srv/policies"}), port=8700)


IN_FORCE = world('@id("before") forbid (principal, action, resource);')


async def load(folder: Path, *, limits: TrialLimits | None = None) -> Ruleset | None:
    loader = FolderLoader({"default": folder}, PROTECTED, limits=limits)
    try:
        return await loader.load("default", IN_FORCE)
    finally:
        loader.close()


async def test_only_a_bundle_that_loads_is_left_out_of_collections(tmp_path: Path) -> None:
    folder = write_bundle(tmp_path / "bundle")
    gc.collect()
    frozen = gc.get_freeze_count()
    (folder / "rules/more.cedar").write_text("permit (principal")
    await problems(folder)
    assert gc.get_freeze_count() <= frozen
    (folder / "rules/more.cedar").unlink()
    assert await load(folder) is not None
    assert gc.get_freeze_count() > frozen
    gc.unfreeze()


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
    parts = [weakref.ref(part) for part in (ruleset.engine, ruleset.entities, *ruleset.engine.parts)]
    gc.disable()
    try:
        retiring = loader.retire(ruleset)
        del ruleset
        await retiring
        assert [part() for part in parts] == [None] * 4
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


async def test_a_trial_that_others_keep_from_the_processors_gets_a_share_of_them(tmp_path: Path) -> None:
    folder = write_bundle(tmp_path / "bundle")
    assert await load(folder, limits=TrialLimits(idle_seconds=0.01, nice_seconds=0.01)) is not None


@pytest.mark.parametrize(("may_raise", "started"), [(True, 1), (False, 3)])
def test_it_is_begun_again_only_where_it_cannot_be_given_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, may_raise: bool, started: int
) -> None:
    """What it has done so far would be lost."""
    folder = write_bundle(tmp_path / "bundle")
    monkeypatch.setattr("authz.bundle.trial_process.raised", lambda pid, courtesy: may_raise)
    # Less than an interpreter takes to start, twice.
    trial = TrialProcess(folder, TrialLimits(idle_seconds=0.005, nice_seconds=0.005))
    asked = request_for(folder, PROTECTED, IN_FORCE, cpu_seconds=60, memory_bytes=4 * 1024**3)
    assert b'"outcome": "good"' in trial.run(asked)
    assert trial.started == started


def test_a_slow_process_is_told_everything_that_a_pipe_does_not_hold(tmp_path: Path) -> None:
    """A bundle of many rules was told in part, and its trial waited for the rest until it was ended."""
    folder = write_bundle(tmp_path / "bundle")
    # Waited for in pieces that are over before the process has started.
    trial = TrialProcess(folder, TrialLimits(idle_seconds=0.005, nice_seconds=0.005))
    asked = request_for(folder, PROTECTED, IN_FORCE, cpu_seconds=60, memory_bytes=4 * 1024**3)
    assert b'"outcome": "good"' in trial.run(asked + b" " * 2**20)


@pytest.mark.parametrize(
    ("bound", "idle", "nice"), [(None, 10, 120), (5, 0.625, 1.25), (60, 7.5, 15), (86400, 10, 120)]
)
def test_a_change_is_in_force_before_what_it_replaces_is_stale(
    bound: float | None, idle: float, nice: float
) -> None:
    limits = TrialLimits.within(bound)
    assert (limits.idle_seconds, limits.nice_seconds, limits.seconds) == (idle, nice, 120)


@pytest.mark.skipif(not hasattr(os, "SCHED_IDLE"), reason="only Linux has such a class")
def test_a_running_process_is_raised_where_the_system_lets_us() -> None:
    own = os.getpriority(os.PRIO_PROCESS, 0)
    with subprocess.Popen(command("authz.bundle.trial", Courtesy.IDLE), stdin=subprocess.PIPE) as process:

        def priority() -> tuple[int, int]:
            return os.sched_getscheduler(process.pid), os.getpriority(os.PRIO_PROCESS, process.pid)

        wait_until(lambda: priority() == (os.SCHED_IDLE, own + 10))
        if processes.raised(process.pid, Courtesy.NICE):
            assert priority() == (os.SCHED_OTHER, own + 10)
            assert processes.raised(process.pid, Courtesy.NONE)
            assert priority() == (os.SCHED_OTHER, own)
        else:
            assert priority() == (os.SCHED_IDLE, own + 10)
        process.kill()
    assert not processes.raised(process.pid, Courtesy.NONE)


@pytest.mark.skipif(not hasattr(os, "SCHED_IDLE"), reason="only Linux has such a class")
@pytest.mark.parametrize(
    ("courtesy", "policy", "niceness"),
    [
        (Courtesy.IDLE, "SCHED_IDLE", 10),
        (Courtesy.NICE, "SCHED_OTHER", 10),
        (Courtesy.NONE, "SCHED_OTHER", 0),
    ],
)
def test_a_process_lets_others_go_first_as_it_is_told(courtesy: Courtesy, policy: str, niceness: int) -> None:
    with subprocess.Popen(command("authz.bundle.trial", courtesy), stdin=subprocess.PIPE) as process:

        def priority() -> tuple[int, int]:
            return os.sched_getscheduler(process.pid), os.getpriority(os.PRIO_PROCESS, process.pid)

        # Inherited, plus what is asked for.
        expected = getattr(os, policy), os.getpriority(os.PRIO_PROCESS, 0) + niceness
        wait_until(lambda: priority() == expected)
        process.kill()


def test_a_trial_is_in_the_session_of_the_service_but_away_from_its_terminal(tmp_path: Path) -> None:
    """Linux can give each session the same share of the processors, whatever is nice in which."""
    with running_trial(tmp_path) as (_, pid, said):
        assert os.getsid(pid) == os.getsid(0)
        wait_until(lambda: os.getpgid(pid) == pid)
        assert b'"outcome": "good"' in said.result()


def test_a_trial_that_is_abandoned_is_ended(tmp_path: Path) -> None:
    with running_trial(tmp_path) as (trial, pid, said):
        trial.end()
        with pytest.raises(BundleError) as caught:
            said.result()
        assert "abandoned" in caught.value.problems[0].message
        assert not psutil.pid_exists(pid)
        with pytest.raises(BundleError) as caught:
            trial.run(b"{}")
        assert "abandoned" in caught.value.problems[0].message


@contextmanager
def running_trial(tmp_path: Path) -> Iterator[tuple[TrialProcess, int, Future[bytes]]]:
    """A trial that has been started, its process, and what will come of it."""
    folder = write_bundle(tmp_path / "bundle")
    trial = TrialProcess(folder, TrialLimits(seconds=60))
    asked = request_for(folder, PROTECTED, IN_FORCE, cpu_seconds=60, memory_bytes=4 * 1024**3)
    before = children()
    with ThreadPoolExecutor(1) as executor:
        said = executor.submit(trial.run, asked)
        wait_until(lambda: bool(children() - before))
        yield trial, next(iter(children() - before)), said
        trial.end()


def children() -> set[int]:
    return {child.pid for child in psutil.Process().children()}


async def test_a_trial_that_takes_too_much_memory_is_ended(tmp_path: Path) -> None:
    folder = write_bundle(tmp_path / "bundle")
    found = await problems(folder, limits=TrialLimits(memory_bytes=48 * 1024**2))
    assert "more memory than it may" in found[0].message
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


async def test_a_module_in_the_working_directory_is_not_executed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write_bundle(tmp_path / "bundle")
    for name in ("yaml", "json", "pydantic", "sitecustomize"):
        (tmp_path / f"{name}.py").write_text(f"open({str(tmp_path / 'executed')!r}, 'w')")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend("")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    assert await load(folder) is not None
    reader = ShellReader(deadline_seconds=20, processes=1)
    await reader.start()
    await reader.read(Line(text="ls", base=Base(), confined=False))
    await reader.close()
    assert not (tmp_path / "executed").exists()


async def test_a_trial_of_another_program_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As after an upgrade on disk: it could pass what this one would not."""
    folder = write_bundle(tmp_path / "bundle")
    monkeypatch.setattr("authz.bundle.trial.program_digest", lambda: "of what runs")
    [found] = await problems(folder)
    assert (found.code, found.hint) == ("bundle.trial", "restart the service")


def test_the_digest_of_the_program_is_that_of_its_source(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = tmp_path / "authz"
    for part in ("bundle", "core", "model"):
        shutil.copytree(processes.PACKAGE / part, copy / part)
    here = processes.program_digest.__wrapped__()
    monkeypatch.setattr(processes, "PACKAGE", copy)
    assert processes.program_digest.__wrapped__() == here
    with (copy / "core/decide.py").open("a") as file:
        file.write("\n")
    assert processes.program_digest.__wrapped__() != here


def test_the_digest_is_of_every_package_that_decides_what_a_bundle_comes_to() -> None:
    # What is signed and verified with keys is no part of a bundle.
    others = {"cryptography", "pyjwt", "webauthn"}
    providers = packages_distributions()
    imported = set()
    for part in ("core", "model"):
        for file in (processes.PACKAGE / part).rglob("*.py"):
            for node in ast.walk(ast.parse(file.read_text())):
                if isinstance(node, ast.ImportFrom) and node.module and not node.level:
                    imported.add(node.module.partition(".")[0])
                elif isinstance(node, ast.Import):
                    imported |= {name.name.partition(".")[0] for name in node.names}
    needed = {
        distribution.lower().replace("_", "-")
        for module in imported - {"authz"} - sys.stdlib_module_names
        for distribution in providers.get(module, [module])
    }
    assert len(needed) > 10
    assert needed - others <= set(processes._DECIDES_WITH)


def test_another_version_of_one_is_another_program(monkeypatch: pytest.MonkeyPatch) -> None:
    here = processes.program_digest.__wrapped__()
    known = processes._version
    for name in processes._DECIDES_WITH:
        changed = {name: "0"}.get
        monkeypatch.setattr(processes, "_version", lambda one, changed=changed: changed(one) or known(one))
        assert processes.program_digest.__wrapped__() != here


async def test_only_what_changed_is_validated(tmp_path: Path) -> None:
    rules = {name: f'@id("{name}") permit (principal, action, resource);' for name in ("a", "b")}
    folder = write_bundle(tmp_path / "bundle", rules=rules)
    in_force = await load(folder)
    assert in_force is not None
    asked = json.loads(request_for(folder, PROTECTED, in_force, cpu_seconds=1, memory_bytes=1))
    known = ValidationCache.of(base64.b64decode(asked["passed"]))
    (folder / "rules/b.cedar").write_text('@id("b") forbid (principal, action, resource);')
    assert compile_bundle(read_sources(folder), PROTECTED, known) is not None
    # The changed rule alone; what is unchanged, and the rule that every bundle gets, are known.
    assert (known.hits, known.misses) == (2, 1)
    # Under another schema nothing is.
    (folder / "tools/web.yaml").write_text(WEB.replace("fetch", "fetch_page"))
    known = ValidationCache.of(base64.b64decode(asked["passed"]))
    compile_bundle(read_sources(folder), PROTECTED, known)
    assert (known.hits, known.misses) == (0, 3)


async def test_a_rule_that_would_not_pass_does_not_by_what_passed_before(tmp_path: Path) -> None:
    folder = write_bundle(tmp_path / "bundle")
    loader = FolderLoader({"default": folder}, PROTECTED)
    try:
        in_force = await loader.load("default", IN_FORCE)
        assert in_force is not None
        (folder / "rules/more.cedar").write_text(
            '@id("wrong") permit (principal, action, resource) when { resource.nothing == 1 };'
        )
        with pytest.raises(BundleError) as caught:
            await loader.load("default", in_force)
        assert [problem.file for problem in caught.value.problems] == ["rules/more.cedar"]
    finally:
        loader.close()


@pytest.mark.parametrize(
    ("exit_code", "said"),
    [
        (OUT_OF_MEMORY, "more memory than it may"),
        (-signal.SIGXCPU, "more processor time than it may"),
        (-signal.SIGKILL, "killed from outside"),
        (-signal.SIGSEGV, "crashed by SIGSEGV"),
        (-signal.SIGRTMIN - 1, "crashed by signal"),
        (1, "broke off by a fault"),
        (0, "broke off by a fault"),
    ],
)
def test_how_a_trial_ended_is_told(exit_code: int, said: str) -> None:
    assert said in why_it_broke_off(exit_code)[0]


async def test_a_trial_that_takes_too_much_processor_time_is_ended(tmp_path: Path) -> None:
    rules = "\n".join(f'@id("r{n}") permit (principal, action, resource);' for n in range(20_000))
    folder = write_bundle(tmp_path / "bundle", rules=rules)
    asked = json.loads(request_for(folder, PROTECTED, IN_FORCE, cpu_seconds=1, memory_bytes=4 * 1024**3))
    process = await asyncio.create_subprocess_exec(
        *command("authz.bundle.trial"), stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    output, _ = await process.communicate(json.dumps(asked).encode())
    assert (process.returncode, output) == (-signal.SIGXCPU, b"")


def test_more_problems_than_anyone_reads_are_counted(tmp_path: Path) -> None:
    told = _told_all(tuple(BundleProblem("x" * 9999, file="a") for _ in range(1234)))
    assert len(told) == 1001
    assert len(told[0]["message"]) == 2000
    assert told[-1]["message"] == "and 234 more problems"


@pytest.mark.parametrize("module", ["authz.bundle.trial", "authz.workers.shell_child"])
def test_a_process_ends_with_the_service_also_when_that_is_killed(tmp_path: Path, module: str) -> None:
    """Standard input stays open: what ends it is the end of its parent."""
    reading, writing = os.pipe()
    said = tmp_path / "pid"
    parent = subprocess.Popen(
        [
            *(sys.executable, "-c"),
            (
                "import subprocess, sys, time; from pathlib import Path; "
                "from authz.processes import command; "
                f"child = subprocess.Popen(command({module!r}), stdin={reading}, start_new_session=True); "
                f"Path({str(said)!r}).write_text(str(child.pid)); time.sleep(600)"
            ),
        ],
        pass_fds=[reading],
        env={**os.environ, "PYTHONPATH": os.fspath(processes.PACKAGE.parent)},
    )
    try:
        wait_until(lambda: said.exists() and said.read_text())
        child = Path("/proc") / said.read_text()
        # Once it gives way to the service for memory, it is tied to it.
        wait_until(lambda: (child / "oom_score_adj").read_text().strip() == str(processes.OOM_SCORE))
    finally:
        parent.kill()
        parent.wait()
    wait_until(lambda: not child.exists() or "\nState:\tZ" in (child / "status").read_text())
    os.close(writing)
    os.close(reading)


@pytest.mark.slow
async def test_ten_thousand_rules_load(tmp_path: Path) -> None:
    rules = "\n".join(
        f'@id("r{number}") permit (principal, action, resource in Directory::"/w/{number}");'
        for number in range(10_000)
    )
    ruleset = await load(write_bundle(tmp_path / "bundle", rules=rules))
    assert ruleset is not None
    assert len(ruleset.engine.policies) == 10_001

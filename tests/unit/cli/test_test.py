"""`authz test`: exit codes, what a failure looks like, coverage, JUnit, JSON and watch mode."""

import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from authz.cli.main import main
from tests.support.case_bundles import CASES, DEFAULTS, RULES, write_case_bundle

WAIT_SECONDS = 60
FAILING = CASES.replace(
    "{effect: allow, rules: [reads], authority: A0}", "{effect: deny, rules: [secrets]}", 1
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_case_bundle(tmp_path / "bundle")


def test_all_as_expected(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["test", "--policies", str(folder)]) == 0
    assert re.fullmatch(r"6 of 6 cases passed in \d+\.\d\d s\n", capsys.readouterr().out)


def test_a_failure_shows_what_differs_where_and_how_to_go_on(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_case_bundle(folder, FAILING)

    assert main(["test", "--policies", str(folder)]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"FAIL files:read  {folder}/tests/files.yaml:5"
    assert lines[1:8] == [
        "     effect",
        "       expected  deny",
        "       got       allow",
        "     rules",
        "       expected  secrets",
        "       got       reads",
        f"       missing   secrets  {folder}/rules/main.cedar:8",
    ]
    assert f"     decided by  permit reads  {folder}/rules/main.cedar:1" in lines
    assert f"     why:        authz explain --policies {folder} --test files:read" in lines
    assert lines[-1].startswith("5 of 6 cases passed")


def test_a_case_is_decided_as_the_service_would_and_as_explain_says(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The folder under test and the service's own places are out of every agent's reach."""
    monkeypatch.setenv("AUTHZ_DATA_DIR", str(tmp_path / "var"))
    reads = '@id("reads") permit (principal, action, resource);'
    for place in (folder / "rules/main.cedar", tmp_path / "var/key"):
        cases = f"""{DEFAULTS}cases:
  - name: of the service
    call: {{tool: {{server: fs, name: file_read}}, arguments: {{path: {place}}}}}
    expect: {{effect: allow, rules: [reads]}}
"""
        write_case_bundle(folder, cases, reads)
        assert main(["test", "--policies", str(folder), "--json"]) == 1
        (result,) = json.loads(capsys.readouterr().out)["results"]
        assert {"name": "effect", "expected": "allow", "got": "deny"}.items() <= result["differences"][
            0
        ].items()
        assert main(["explain", "--policies", str(folder), "--test", "of the service", "--json"]) == 0
        decision = json.loads(capsys.readouterr().out)["decision"]
        assert decision["effect"] == "deny"
        assert [rule["rule"] for rule in decision["matched"]] == ["authz.self-protection"]


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("secret", ["files:a keeper's secret", "files:a secret [1]", "files:a secret [2]"]),
        ("BIG-ASKS", ["files:write [2]"]),
        ("tests/files", None),
        ("files:*[2]", ["files:a secret [2]", "files:write [2]"]),
        ("*keeper?s*", ["files:a keeper's secret"]),
    ],
)
def test_a_filter_is_about_names_files_and_rules(
    pattern: str, names: list[str] | None, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["test", "--policies", str(folder), "--filter", pattern, "--json"]) == 0
    found = sorted(result["case"] for result in json.loads(capsys.readouterr().out)["results"])
    assert found == names if names is not None else len(found) == 6


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--filter", "nothing"], "no case has `nothing` in its name, file or rules"),
        (["--filter", "read", "--fail-under", "1"], "leave `--filter` out"),
        (["--junit", "/no/such/folder/x.xml"], "`/no/such/folder/x.xml` cannot be written"),
    ],
)
def test_what_cannot_be_done_is_said(
    words: list[str], message: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["test", "--policies", str(folder), *words]) == 2
    assert message in capsys.readouterr().err


def test_what_cannot_be_read_is_said_with_its_place(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_case_bundle(folder, CASES.replace("effect: allow", "efect: allow", 1))
    assert main(["test", "--policies", str(folder)]) == 2
    assert "authz: tests/files.yaml:7: `cases/0/expect/efect`: unknown key" in capsys.readouterr().err
    (folder / "tests" / "files.yaml").unlink()
    assert main(["test", "--policies", str(folder)]) == 2
    assert f"`{folder}` has no cases" in capsys.readouterr().err
    assert main(["test", "--policies", str(folder / "absent")]) == 2


@pytest.mark.parametrize("percent", ["-1", "101", "many", "nan"])
def test_a_percentage_is_one(percent: str, folder: Path) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["test", "--policies", str(folder), f"--fail-under={percent}"])
    assert ended.value.code == 2


def test_coverage_names_what_no_case_reaches(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_case_bundle(folder, CASES.partition("  - name: a secret\n")[0])

    assert main(["test", "--policies", str(folder), "--coverage"]) == 0
    text = capsys.readouterr().out
    assert "rules and limits: 3 of 4 reached (75 %)" in text
    assert re.search(rf"never  secrets +in scope of no case +{folder}/rules/main.cedar:8\n", text)
    assert re.search(r"never  fs/file_copy +read:A0, write:A1", text)
    assert "reads" not in text
    assert main(["test", "--policies", str(folder), "--fail-under", "75"]) == 0
    assert main(["test", "--policies", str(folder), "--fail-under", "75.1"]) == 1
    assert "covered 75 % of the rules and limits, which is under 75.1 %" in capsys.readouterr().out


def test_mutation_lists_what_survives(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["test", "--mutate", "--policies", str(folder)]) == 0
    assert "mutation: 4 of 4 removals of a rule noticed" in capsys.readouterr().out
    assert main(["test", "--policies", str(folder), "--mutate-conditions"]) == 0
    write_case_bundle(folder, CASES.partition("  - name: a keeper's secret\n")[0])
    assert main(["test", "--policies", str(folder), "--mutate"]) == 0
    capsys.readouterr()
    assert main(["test", "--policies", str(folder), "--mutate-conditions"]) == 1
    assert (
        f"  survives  `secrets` with `unless 1` dropped  {folder}/rules/main.cedar:8"
        in capsys.readouterr().out
    )


def test_everything_as_json(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_case_bundle(folder, FAILING)

    assert main(["test", "--policies", str(folder), "--json", "--coverage", "--mutate"]) == 1
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert (found["ok"], found["cases"], found["failed"]) == (False, 6, 1)
    first = found["results"][0]
    assert (first["file"], first["line"], first["passed"]) == ("tests/files.yaml", 5, False)
    assert first["differences"][0] == {"name": "effect", "expected": "deny", "got": "allow", "note": ""}
    assert found["coverage"]["percent"] == 100
    assert {"rule": "secrets", "change": "removed"}.items() <= found["mutations"][2].items()


def test_junit_is_valid_and_says_the_same(folder: Path, tmp_path: Path) -> None:
    odd = DEFAULTS + (
        'cases:\n  - name: "bell \\a <&> \\U0001F600 \\uffff"\n'
        "    call: {tool: {server: fs, name: file_read}, arguments: {path: a}}\n"
        "    expect: {effect: deny, rules: [reads]}\n"
    )
    write_case_bundle(folder)
    (folder / "tests" / "odd.yaml").write_text(odd, encoding="utf-8")
    file = tmp_path / "report.xml"

    assert main(["test", "--policies", str(folder), "--junit", str(file)]) == 1
    root = ET.parse(file).getroot()
    assert (root.tag, root.get("tests"), root.get("failures"), root.get("errors")) == (
        "testsuites",
        "7",
        "1",
        "0",
    )
    assert [suite.get("name") for suite in root] == ["tests/files.yaml", "tests/odd.yaml"]
    assert all(float(case.get("time", "-1")) >= 0 for case in root.iter("testcase"))
    (failed,) = [case for case in root.iter("testcase") if case.find("failure") is not None]
    assert failed.get("name") == "bell \\u0007 <&> 😀 \\uffff"
    assert (failed.get("classname"), failed.get("line")) == ("tests.odd", "5")
    failure = failed.find("failure")
    assert failure is not None
    assert failure.get("message") == "differs in effect"
    assert "effect: expected 'deny', got 'allow'" in (failure.text or "")


def environment(**more: str) -> dict[str, str]:
    clean = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "FORCE_COLOR")}
    return clean | {"TERM": "xterm-256color"} | more


def test_colour_is_for_terminals_only(folder: Path) -> None:
    write_case_bundle(folder, FAILING)
    command = [sys.executable, "-m", "authz", "test", "--policies", str(folder), "--coverage"]
    piped = subprocess.run(command, capture_output=True, env=environment(), check=False)
    assert piped.returncode == 1
    assert b"\x1b" not in piped.stdout
    terminal, end = pty.openpty()
    with subprocess.Popen(command, stdout=end, stderr=subprocess.DEVNULL, env=environment()) as process:
        os.close(end)
        text = b"".join(_chunks(terminal))
        assert process.wait(WAIT_SECONDS) == 1
    os.close(terminal)
    assert b"\x1b[" in text
    assert b"FAIL" in text


def _chunks(terminal: int) -> Iterator[bytes]:
    while True:
        try:
            chunk = os.read(terminal, 4096)
        except OSError:  # how Linux says that the other end is closed
            return
        if not chunk:
            return
        yield chunk


def test_a_name_cannot_fool_the_terminal(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_case_bundle(folder, FAILING.replace("name: read\n", 'name: "a \\e[31m\\u0007[bold]b"\n', 1))

    assert main(["test", "--policies", str(folder)]) == 1
    first = capsys.readouterr().out.splitlines()[0]
    assert first.startswith("FAIL files:a \\x1b[31m\\x07[bold]b ")


class Watching:
    """`authz test --watch` as a process; its output is waited on with a bound."""

    def __init__(self, folder: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "authz", "test", "--policies", str(folder), "--watch"],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=environment(),
        )
        self._seen = b""

    def until(self, wanted: str) -> str:
        """What it says up to where it has said `wanted`, from where the last call ended."""
        assert self.process.stdout is not None
        give_up = time.monotonic() + WAIT_SECONDS
        while wanted.encode() not in self._seen:
            ready, _, _ = select.select([self.process.stdout], [], [], max(0, give_up - time.monotonic()))
            chunk = os.read(self.process.stdout.fileno(), 65536) if ready else b""
            assert chunk, f"no `{wanted}` in: {self._seen.decode()}"
            self._seen += chunk
        said, _, self._seen = self._seen.partition(wanted.encode())
        return said.decode() + wanted


@pytest.fixture
def watching(folder: Path) -> Iterator[Watching]:
    found = Watching(folder)
    yield found
    if found.process.poll() is None:
        found.process.kill()
    found.process.communicate(timeout=WAIT_SECONDS)


def test_watch_runs_again_on_every_change_and_ends_cleanly(watching: Watching, folder: Path) -> None:
    watching.until("6 of 6 cases passed")
    watching.until("Ctrl-C ends it")
    (folder / "tests" / "files.yaml").write_text(FAILING, encoding="utf-8")
    assert "FAIL files:read" in watching.until("5 of 6 cases passed")
    watching.until("Ctrl-C ends it")
    # A rule that is broken for the moment ends nothing.
    (folder / "rules" / "main.cedar").write_text(RULES.replace("permit", "permitt", 1), encoding="utf-8")
    watching.until("rules/main.cedar:1: ")
    watching.until("Ctrl-C ends it")
    (folder / "rules" / "main.cedar").write_text(RULES, encoding="utf-8")
    watching.until("5 of 6 cases passed")
    watching.until("Ctrl-C ends it")
    watching.process.send_signal(signal.SIGINT)
    output, _ = watching.process.communicate(timeout=WAIT_SECONDS)
    assert watching.process.returncode == 1  # what the last run came to
    assert b"Traceback" not in output

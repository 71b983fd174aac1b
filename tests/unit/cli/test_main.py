"""The command line's table of commands says what the commands say of themselves."""

import importlib
import importlib.metadata
import os
import subprocess
import sys
from pathlib import Path

import pytest

from authz.cli.main import COMMANDS, GROUPS, main


@pytest.mark.parametrize("path", COMMANDS)
def test_a_command_is_listed_with_its_own_words(path: tuple[str, ...]) -> None:
    module_name, text = COMMANDS[path]
    assert text == importlib.import_module(module_name).HELP


@pytest.mark.parametrize("path", [*COMMANDS, (), *((group,) for group in GROUPS)])
def test_help_works_everywhere(path: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main([*path, "--help"])
    assert ended.value.code == 0
    assert " ".join(("authz", *path)) in capsys.readouterr().out


@pytest.mark.parametrize("words", [[], ["nonsense"], ["log"], ["log", "nonsense"], ["serve", "--nonsense"]])
def test_what_is_no_command_is_a_usage_error(words: list[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert ended.value.code == 2


def test_what_a_command_does_not_take_is_answered_with_its_usage(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["check", "policies"])
    assert ended.value.code == 2
    said = capsys.readouterr().err
    assert said.startswith("usage: authz check ")
    assert "--policies FOLDER" in said
    assert said.endswith("authz check: error: unrecognized arguments: policies\n")


def test_a_folder_that_is_no_bundle_is_one_fault(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "mail.cedar").write_text("", encoding="utf-8")
    assert main(["check", "--policies", str(tmp_path)]) == 2
    said = capsys.readouterr().err
    assert said == f"authz: `{tmp_path}` is no bundle; name the folder that holds bundle.yaml and rules/\n"


@pytest.mark.parametrize("command", [["check"], ["test"], ["schema"], ["tools", "lint"], ["explain", "-"]])
def test_the_bundle_is_named_by_the_service_s_own_setting(
    command: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("AUTHZ_POLICIES", "no/such/folder")
    assert main(command) == 2
    assert "`no/such/folder`: there is no such folder" in capsys.readouterr().err


def test_a_bundle_that_is_not_there_is_said_with_what_to_do(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["schema", "--policies", "no/such/folder"]) == 2
    assert "authz: `no/such/folder`: there is no such folder; name the bundle" in capsys.readouterr().err


def test_a_reader_that_leaves_early_is_no_fault() -> None:
    command = f"{sys.executable} -m authz openapi | head -c 10"
    ended = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=True)
    assert ended.stderr == ""


def test_the_version_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--version"])
    assert ended.value.code == 0
    assert capsys.readouterr().out == f"authz {importlib.metadata.version('authz')}\n"


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_output_that_finds_no_room_is_a_failure_in_one_line(unbuffered: str) -> None:
    with open("/dev/full", "w") as full:  # noqa: PTH123
        ended = subprocess.run(
            [sys.executable, "-m", "authz", "openapi"],
            env=os.environ | {"PYTHONUNBUFFERED": unbuffered},
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert (ended.returncode, ended.stderr) == (2, "authz: No space left on device\n")

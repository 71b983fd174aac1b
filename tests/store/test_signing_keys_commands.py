"""`authz signing-keys list | rotate | withdraw`: what an operator sees."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from authz.cli import signing_keys_export, signing_keys_list, signing_keys_rotate, signing_keys_withdraw
from authz.cli.main import main
from authz.store.keys import ServiceKeys
from tests.support.command import Command, run_command


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in [name for name in os.environ if name.startswith("AUTHZ_")]:
        monkeypatch.delenv(name)
    ServiceKeys.load_or_create(tmp_path / "keys.json")
    return tmp_path


def rows(
    command: Command, folder: Path, capsys: pytest.CaptureFixture[str], *arguments: str
) -> tuple[list[dict[str, Any]], str]:
    """What it prints as JSON, and what it says besides."""
    assert run_command(command, "--data-dir", str(folder), "--json", *arguments) == 0
    said = capsys.readouterr()
    return [json.loads(line) for line in said.out.splitlines()], said.err


def test_a_rotation_as_it_is_told(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (first,), _ = rows(signing_keys_list, folder, capsys)
    assert (first["state"], first["active_from"], first["retired_at"]) == ("active", None, None)
    rotated, said = rows(signing_keys_rotate, folder, capsys)
    assert [row["state"] for row in rotated] == ["active", "next"]
    assert rotated[0]["retired_at"] == rotated[1]["active_from"]
    assert rotated[1]["published_at"] < rotated[1]["active_from"]
    assert said == "", "a rotation in time is worth no warning"
    assert rows(signing_keys_list, folder, capsys)[0] == rotated
    assert run_command(signing_keys_rotate, "--data-dir", str(folder)) == 2
    assert "waits to take over" in capsys.readouterr().err


def test_an_emergency_is_warned_of(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rotated, said = rows(signing_keys_rotate, folder, capsys, "--now")
    assert [row["state"] for row in rotated] == ["retired", "active"]
    assert said.startswith("warning: the new key was not published before its use; for up to 150 seconds")


def test_the_time_of_publishing_is_configured(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AUTHZ_KEY_PUBLISH_SECONDS", "86400")
    monkeypatch.setenv("AUTHZ_CAPABILITY_MAX_LIFETIME_SECONDS", "2592000")
    (first, second), _ = rows(signing_keys_rotate, folder, capsys)
    assert second["published_at"][:10] < second["active_from"][:10]
    assert first["verifies_until"][:7] > first["retired_at"][:7]


def test_withdrawing_the_key_in_use(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (first,), _ = rows(signing_keys_list, folder, capsys)
    withdrawn, said = rows(signing_keys_withdraw, folder, capsys, first["kid"])
    assert [row["state"] for row in withdrawn] == ["withdrawn", "active"]
    assert withdrawn[0]["withdrawn_at"] is not None
    assert "the secret in the key file was not changed" in said
    assert rows(signing_keys_withdraw, folder, capsys, first["kid"])[0] == withdrawn
    for kid in ("unknown", "", "../keys.json"):
        assert run_command(signing_keys_withdraw, "--data-dir", str(folder), kid) == 2
    assert "there is no key" in capsys.readouterr().err


def test_text_for_people(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    where = ("--data-dir", str(folder))
    run_command(signing_keys_rotate, *where)
    run_command(signing_keys_rotate, *where, "--now")
    run_command(signing_keys_rotate, *where)
    capsys.readouterr()
    assert run_command(signing_keys_list, *where) == 0
    first, second, third = capsys.readouterr().out.splitlines()
    assert "  retired    signs from the start until 2" in first
    assert ", verifies until 2" in first
    assert "  active     signs since 2" in second
    assert "  next       published 2" in third
    assert ", takes over 2" in third


@pytest.mark.parametrize(
    "command", [signing_keys_list, signing_keys_rotate, signing_keys_export], ids=["list", "rotate", "export"]
)
def test_there_is_no_key_file(command: Command, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A command makes none: that is for the service."""
    assert run_command(command, "--data-dir", str(tmp_path)) == 2
    assert "cannot be" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_the_commands_are_there(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["signing-keys", "export", "--data-dir", str(folder)]) == 0
    (key,) = json.loads(capsys.readouterr().out)["keys"]
    assert set(key) == {"kty", "crv", "x", "kid", "use", "alg"}

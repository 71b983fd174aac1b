"""The key file: two versions, many who change it at once, and running services that notice."""

import asyncio
import fcntl
import json
import logging
import os
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from authz_client.capabilities import generate_key, issue_root
from authz_client.capabilities.digests import base64url

from authz.cli import signing_keys_export, signing_keys_list, signing_keys_rotate, signing_keys_withdraw
from authz.errors import ConfigError, StoreUnavailable
from authz.store import key_file, keys
from authz.store.key_rotation import rotate_keys, withdraw_key
from authz.store.key_set import MARGIN_MS
from authz.store.keys import LIFETIME_SECONDS, LOOK_SECONDS, ServiceKeys
from tests.support.command import run_command
from tests.support.waiting import wait_until

START = 1_796_032_800_000
CANARY = bytes.fromhex("cafe" * 16)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "keys.json"
    ServiceKeys.load_or_create(path)
    return path


def rotate(path: Path, now_ms: int = START, *, at_once: bool = True) -> str:
    """Rotate; the `kid` of the new key."""
    found = rotate_keys(
        path, now_ms=now_ms, publish_seconds=300, lifetime_seconds=LIFETIME_SECONDS, at_once=at_once
    )
    return found.keys[-1].kid


def test_a_pipe_is_no_key_file_and_nobody_waits_for_it(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "keys.json", 0o600)
    with pytest.raises(ConfigError):
        key_file.read_key_file(tmp_path / "keys.json")


def write_version_1(path: Path) -> dict[str, Any]:
    """As services wrote it before keys rotated."""
    key = generate_key()
    content = {"version": 1, "signing_key": key.private_jwk, "secret": base64url(CANARY)}
    path.write_text(json.dumps(content, indent=2) + "\n")
    path.chmod(0o600)
    return content


def test_version_1_is_read_as_it_is_and_upgraded_by_a_service(tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    content = write_version_1(path)
    read = ServiceKeys.load(path)
    assert json.loads(path.read_bytes()) == content, "whoever only reads changes nothing"
    upgraded = ServiceKeys.load_or_create(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    written = json.loads(path.read_bytes())
    assert (written["version"], written["secret"]) == (2, content["secret"])
    assert [key["jwk"] for key in written["keys"]] == [content["signing_key"]]
    again = ServiceKeys.load(path)
    for found in (upgraded, again):
        assert (found.identity, found.kid, found.derive("x")) == (read.kid, read.kid, read.derive("x"))
    before = path.stat()
    ServiceKeys.load_or_create(path)
    assert path.stat().st_ino == before.st_ino, "there is nothing more to do"


def test_many_services_that_upgrade_at_once_end_with_one_result(tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    content = write_version_1(path)
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(ServiceKeys.load_or_create, [path] * 16))
    assert {keys.derive("x") for keys in found} == {ServiceKeys.load(path).derive("x")}
    assert len(json.loads(path.read_bytes())["keys"]) == 1
    assert json.loads(path.read_bytes())["keys"][0]["jwk"] == content["signing_key"]


def test_a_service_starts_with_a_file_that_it_cannot_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "keys.json"
    content = write_version_1(path)

    def refuse(*_: object, **__: object) -> None:
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(key_file, "_write_draft", refuse)
    found = ServiceKeys.load_or_create(path)
    assert found.kid == ServiceKeys.load(path).kid
    assert json.loads(path.read_bytes()) == content
    assert "stays as it is" in caplog.text


def test_processes_that_rotate_at_once_lose_no_key(path: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "authz",
        "signing-keys",
        "rotate",
        "--now",
        "--data-dir",
        str(path.parent),
    ]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("AUTHZ_")}
    running = [
        subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        for _ in range(4)
    ]
    for process in running:
        _, said = process.communicate(timeout=60)
        assert process.returncode == 0, said
    assert len(json.loads(path.read_bytes())["keys"]) == 5
    assert sorted(os.listdir(path.parent)) == [".keys.json.lock", "keys.json"]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_who_reads_meanwhile_gets_a_whole_file(path: Path) -> None:
    def turn() -> None:
        for number in range(20):
            rotate(path, START + number)

    with ThreadPoolExecutor(1) as pool:
        turning = pool.submit(turn)
        counts = []
        while not turning.done():
            counts.append(len(ServiceKeys.load(path).public_keys()))
        turning.result()
    assert counts == sorted(counts)
    assert len(ServiceKeys.load(path).public_keys()) == 21


def test_a_lock_that_is_held_is_waited_for_and_then_told(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_file, "_LOCK_SECONDS", 0)
    before = path.read_bytes()
    with (path.parent / ".keys.json.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(ConfigError, match="another process"):
            rotate(path)
    assert path.read_bytes() == before
    rotate(path)


def test_what_a_killed_rotation_left_is_removed(path: Path) -> None:
    draft = path.parent / ".keys.json.next"
    draft.write_text("private parts")
    rotate(path)
    assert not draft.exists()


def test_a_rotation_that_fails_leaves_the_old_file(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    before = path.read_bytes()
    monkeypatch.setattr(key_file.os, "fsync", full)
    with pytest.raises(ConfigError, match="No space left"):
        rotate(path)
    assert path.read_bytes() == before
    assert not (path.parent / ".keys.json.next").exists()


def test_a_link_to_the_file_stays_a_link(path: Path, tmp_path: Path) -> None:
    link = tmp_path / "elsewhere" / "keys.json"
    link.parent.mkdir()
    link.symlink_to(path)
    kid = rotate(link)
    assert link.is_symlink()
    assert ServiceKeys.load(path).signer(START).kid == kid


@pytest.mark.skipif(os.geteuid() != 0, reason="only an administrator can give files away")
def test_an_administrator_leaves_the_file_to_its_owner(path: Path) -> None:
    os.chown(path, 12345, 12346)
    rotate(path)
    for name in ("keys.json", ".keys.json.lock"):
        status = (path.parent / name).stat()
        assert (status.st_uid, stat.S_IMODE(status.st_mode)) == (12345, 0o600)


def test_a_retired_private_part_leaves_the_file(path: Path) -> None:
    def private_parts() -> list[bool]:
        return ["d" in key["jwk"] for key in json.loads(path.read_bytes())["keys"]]

    rotate(path, START)
    assert private_parts() == [True, True]
    ServiceKeys.load_or_create(path, clock=lambda: START + MARGIN_MS + 1)
    assert private_parts() == [False, True], "when a service starts"
    rotate(path, START + 2 * MARGIN_MS)
    rotate(path, START + 4 * MARGIN_MS)
    assert private_parts() == [False, False, True, True], "and when it is rotated"
    withdraw_key(path, ServiceKeys.load(path).signer(START + 4 * MARGIN_MS).kid, now_ms=START + 4 * MARGIN_MS)
    assert private_parts() == [False, False, True, False, True]


async def test_a_name_that_nobody_knows_causes_one_look_a_second(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks, now_s = [0], [1000.0]
    find_signature = keys.find_signature

    def counted(of: Path) -> object:
        looks[0] += 1
        return find_signature(of)

    monkeypatch.setattr(keys, "find_signature", counted)
    monkeypatch.setattr(keys.time, "monotonic", lambda: now_s[0])
    service = ServiceKeys.load(path)
    assert await service.find(service.kid, START) is not None
    assert looks == [0], "what is known needs no look"
    found = await asyncio.gather(*(service.find(f"unknown-{number}", START) for number in range(50)))
    assert (found, looks) == ([None] * 50, [1])
    now_s[0] += LOOK_SECONDS - 0.001
    assert (await service.find("unknown", START), looks) == (None, [1])

    kid = rotate(path)
    assert await service.find(kid, START) is None, "and no more, whoever asks"
    now_s[0] += 0.001
    together = await asyncio.gather(*(service.find(kid, START) for _ in range(20)))
    assert {key.thumbprint for key in together if key is not None} == {kid}
    assert None not in together, "all who ask meanwhile get the answer of one look"
    assert looks == [2]
    assert service.signer(START).kid == kid


async def test_who_stops_waiting_does_not_end_the_look_of_others(path: Path) -> None:
    service = ServiceKeys.load(path)
    kid = rotate(path)
    first, second = (asyncio.create_task(service.find(kid, START)) for _ in range(2))
    await asyncio.sleep(0)
    first.cancel()
    found = await second
    assert found is not None
    assert first.cancelled()


async def test_a_running_service_notices_and_a_withdrawn_key_verifies_nothing(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keys, "LOOK_SECONDS", 0.01)
    service = ServiceKeys.load(path)
    first = service.kid
    watch = asyncio.create_task(service.watch())
    try:
        second = rotate(path)
        await asyncio.to_thread(wait_until, lambda: second in service.verifying(START))
        assert set(service.verifying(START)) == {first, second}
        withdraw_key(path, first, now_ms=START)
        await asyncio.to_thread(wait_until, lambda: first not in service.verifying(START))
        assert await service.find(first, START) is None
        assert [key["kid"] for key in service.jwks(START)["keys"]] == [second]
    finally:
        watch.cancel()


def test_a_refresh_that_fails_keeps_what_is_in_hand(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    service = ServiceKeys.load(path)
    held, good = service.kid, path.read_bytes()
    secret = json.loads(good)["secret"]
    stranger = path.parent / "stranger.json"
    ServiceKeys.generate().write_new(stranger)
    faults = [good[:-20], b"", b"{}", stranger.read_bytes()]
    for number, content in enumerate(faults, start=1):
        path.write_bytes(content)
        for _ in range(3):
            service.refresh()
        assert service.failures == 3 * number
        assert (service.kid, set(service.verifying(START))) == (held, {held})
    path.unlink()
    service.refresh()
    assert service.kid == held
    told = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert [record.getMessage() for record in told] == [
        "the key file was not read again; the keys in hand stay in use"
    ] * 3, "each fault once: damaged, of another service, absent"
    assert secret not in caplog.text
    path.write_bytes(good)
    path.chmod(0o600)
    kid = rotate(path)
    service.refresh()
    assert service.signer(START).kid == kid, "and it is read again when it can be"


def test_an_old_backup_brings_no_withdrawn_key_back(path: Path) -> None:
    service = ServiceKeys.load(path)
    first, backup = service.kid, path.read_bytes()
    withdraw_key(path, first, now_ms=START)
    service.refresh()
    assert first not in service.verifying(START)
    path.write_bytes(backup)
    service.refresh()
    assert first not in service.verifying(START)
    assert service.failures == 1


def test_keys_in_memory_are_the_same_to_whoever_uses_them() -> None:
    service = ServiceKeys.generate()
    service.refresh()
    assert service.failures == 0
    signer = service.signer(START)
    token = issue_root(
        signer,
        issuer="https://authz.example",
        audience="https://authz.example",
        subject="ada",
        holder=generate_key().public,
        entries=[{"type": "agent_tool_call", "actions": ["read"], "locations": ["file:///workspace"]}],
        jti="j",
        iat=START // 1000,
        exp=START // 1000 + 60,
        max_depth=1,
    )
    assert token.count(".") == 2
    assert service.verifying(START)[signer.kid] == signer.public


def test_without_a_key_in_use_nothing_is_signed(path: Path) -> None:
    """A hand that took the last key out of use, where no other waits: no decision is made in its name."""
    content = json.loads(path.read_bytes())
    (key,) = content["keys"]
    path.write_text(json.dumps({**content, "keys": [{**key, "active_from_ms": START}]}))
    service = ServiceKeys.load(path, clock=lambda: START - 1)
    with pytest.raises(StoreUnavailable) as refused:
        service.sign({"typ": "t"}, {})
    assert refused.value.code == "keys.none_active"
    assert service.signer(START).public.x == key["jwk"]["x"]


def test_no_private_part_is_ever_told(
    path: Path,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Neither by a command, a log line, a `repr`, nor an exception."""
    monkeypatch.setenv("AUTHZ_CONFIG", "")
    caplog.set_level(logging.DEBUG)
    where = ("--data-dir", str(path.parent))
    service, told = ServiceKeys.load(path), []
    secrets = {json.loads(path.read_bytes())["secret"]}

    def keep() -> None:
        secrets.update(key["jwk"]["d"] for key in json.loads(path.read_bytes())["keys"] if "d" in key["jwk"])

    keep()
    for command, *arguments in (
        (signing_keys_rotate,),
        (signing_keys_rotate,),
        (signing_keys_rotate, "--now", "--json"),
        (signing_keys_withdraw, service.kid),
        (signing_keys_withdraw, "unknown", "--json"),
        (signing_keys_list,),
        (signing_keys_list, "--json"),
        (signing_keys_export,),
    ):
        run_command(command, *where, *arguments)
        keep()
        service.refresh()
        told.append(f"{service!r} {service._held.material!r} {service.jwks(START)} {service.public_jwks()}")
    path.write_bytes(path.read_bytes()[:-9])
    service.refresh()
    run_command(signing_keys_list, *where)
    with pytest.raises(ConfigError) as refused:
        ServiceKeys.load(path)
    told += [repr(refused.value), caplog.text, *capsys.readouterr()]
    told += [str(record.__dict__) for record in caplog.records]
    assert len(secrets) == 3
    assert len("".join(told)) > 5000
    assert not [secret for secret in secrets for text in told if secret in text]

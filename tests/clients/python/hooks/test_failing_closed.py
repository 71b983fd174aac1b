"""Whatever goes wrong is a block, under the settings that the README gives."""

import json
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from tests.clients.python.hooks.runtime import Runtime, event

PROBLEM: Final = b"HTTP/1.1 %s\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n%s"


def answer(
    body: bytes, *, status: bytes = b"200 OK", kind: bytes = b"application/json", cut: int = 0
) -> bytes:
    """An answer; without the last `cut` bytes of its body."""
    whole = PROBLEM % (status, kind, len(body), body)
    return whole[: len(whole) - cut]


ANSWERS: Final = {
    "nothing": b"",
    "no http": b"220 mail.example.com ESMTP\r\n",
    "html": answer(b"<html>sign in</html>", kind=b"text/html"),
    "empty": answer(b""),
    "truncated": answer(b'{"effect": "allow", "decision_id": "d"}', cut=5),
    "no json": answer(b'{"effect": "allow"'),
    "not whole": answer(b'{"effect": "allow"}'),
    "twice": answer(b'{"effect": "deny", "effect": "allow"}'),
    "redirect": answer(b"", status=b"302 Found\r\nLocation: http://127.0.0.1/"),
    "failure": answer(b"down", status=b"503 Service Unavailable", kind=b"text/plain"),
    "unauthorized": answer(
        b'{"code": "auth.failed", "detail": "no"}',
        status=b"401 Unauthorized",
        kind=b"application/problem+json",
    ),
    "too long": answer(b" " * (5 * 1024 * 1024)),
}


class Wrong:
    """A server that answers everything with the same bytes, or with `None` never."""

    def __init__(self, says: bytes | None) -> None:
        self._says = says
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        self._open: list[socket.socket] = []
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            self._open.append(connection)
            if self._says is None:
                continue
            try:
                head = b""
                while b"\r\n\r\n" not in head:
                    head += connection.recv(65536)
                connection.sendall(self._says)
                connection.shutdown(socket.SHUT_WR)
            except OSError:
                pass

    def close(self) -> None:
        self._socket.close()
        for connection in self._open:
            connection.close()


@pytest.fixture
def wrong() -> Iterator[Callable[[bytes | None], Wrong]]:
    made: list[Wrong] = []

    def make(says: bytes | None) -> Wrong:
        made.append(Wrong(says))
        return made[-1]

    yield make
    for one in made:
        one.close()


def blocked(runtime: Runtime, made: dict[str, Any] | bytes | None = None) -> str:
    """The reason for a block that the hook itself made."""
    result = runtime.call(event("Bash") if made is None else made)
    assert (result.effect, result.exit_code, result.stdout) == ("blocked", 2, ""), result
    assert runtime.environment.get("AUTHZ_HOOK_KEY", "none at all") not in result.reason
    assert "Traceback" not in result.reason
    return result.reason


def test_no_server(runtime: Runtime) -> None:
    runtime.configure(url="http://127.0.0.1:1")
    assert "the service cannot be reached" in blocked(runtime)
    runtime.configure(uds="/nonexistent/socket")
    assert "the service cannot be reached" in blocked(runtime)


@pytest.mark.parametrize("name", ANSWERS)
def test_another_answer_than_a_decision(
    name: str, runtime: Runtime, wrong: Callable[[bytes | None], Wrong]
) -> None:
    runtime.configure(url=wrong(ANSWERS[name]).url)
    assert "there is no decision on it" in blocked(runtime)


def test_a_server_that_does_not_answer(runtime: Runtime, wrong: Callable[[bytes | None], Wrong]) -> None:
    runtime.configure(url=wrong(None).url, deadline_seconds=1)
    assert "no answer within the deadline" in blocked(runtime)


def test_it_ends_before_the_runtime_s_timeout_whatever_holds_it_up(runtime: Runtime, tmp_path: Path) -> None:
    runtime.configure(timeout_seconds=6, deadline_seconds=0.1)
    # An event that never ends: the hook holds the other end of its own input open.
    command = runtime.hook("PreToolUse")["command"]
    runtime.set(command=f"mkfifo {tmp_path}/in; exec 3<>{tmp_path}/in; exec {command} <{tmp_path}/in")
    assert "no answer before the hook's timeout" in blocked(runtime)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "not JSON"),
        (b"{", "not JSON"),
        (b"[]", "must be a JSON object"),
        (b"{}", "`hook_event_name`"),
        (b'{"tool_name": "Read", "tool_name": "Bash"}', "one meaning"),
        (b"\xff\xfe{}", "not JSON"),
        (b"[" * 100_000, "not JSON"),
        (b" " * (16 * 1024 * 1024 + 1), "longer than"),
    ],
)
def test_a_malformed_event(data: bytes, words: str, runtime: Runtime) -> None:
    assert words in blocked(runtime, data)


@pytest.mark.parametrize(
    "members",
    [
        {"tool_name": None},
        {"tool_name": ""},
        {"tool_name": 3},
        {"tool_input": "ls"},
        {"tool_input": None},
        {"session_id": None},
        {"tool_use_id": ["a"]},
        {"cwd": None},
        {"agent_id": 7},
        {"agent_id": ""},
        {"hook_event_name": "UserPromptSubmit"},
        {"mcp_server": 1},
        # The service's own refusals.
        {"tool_use_id": "a\nb"},
        {"session_id": "x" * 300},
        {"tool_input": {"command": "echo \ud800"}},
    ],
)
def test_an_event_of_another_form(members: dict[str, Any], runtime: Runtime) -> None:
    blocked(runtime, event("Bash", **members))


def test_no_key_or_one_that_others_may_read(runtime: Runtime, tmp_path: Path) -> None:
    key = runtime.environment.pop("AUTHZ_HOOK_KEY")
    assert "there is no key" in blocked(runtime)
    path = tmp_path / "key"
    path.write_text(f"{key}\n", encoding="utf-8")
    path.chmod(0o640)
    runtime.configure(key_file=str(path))
    assert "make its mode 0600" in blocked(runtime)
    path.chmod(0o600)
    assert runtime.call(event("WebFetch", tool_use_id="toolu_key_file")).effect == "ran"
    path.write_text("two words", encoding="utf-8")
    assert "the key is no API key" in blocked(runtime)
    path.unlink()
    assert "cannot be read" in blocked(runtime)
    runtime.environment["AUTHZ_HOOK_KEY"] = "azk_" + "x" * 43
    assert "there is no decision on it" in blocked(runtime)


@pytest.mark.parametrize(
    ("members", "words"),
    [
        ({"agnet": "coder-1"}, "`agnet`, which is no setting"),
        ({"url": "localhost:8700"}, "`url` must be an absolute"),
        ({"url": "http://user:secret@127.0.0.1"}, "no user"),
        ({"url": "http://127.0.0.1:99999"}, "`url` must be"),
        ({"url": 1}, "`url` must be a non-empty string"),
        ({"on_ask": "allow"}, "`on_ask` must be one of wait, dialog"),
        ({"approval_seconds": 600}, "waiting could take"),
        ({"timeout_seconds": 0}, "more than 0"),
        ({"deadline_seconds": True}, "must be a number"),
        ({"tool_timeout_seconds": 1.5}, "must be an integer"),
        ({"tools": "/nonexistent"}, "the tools file"),
    ],
)
def test_a_setting_that_cannot_be(members: dict[str, Any], words: str, runtime: Runtime) -> None:
    runtime.configure(**members)
    assert words in blocked(runtime)


def test_settings_that_cannot_be_read(runtime: Runtime, tmp_path: Path) -> None:
    runtime.environment["AUTHZ_HOOK_CONFIG"] = str(tmp_path / "missing.json")
    assert "cannot be read" in blocked(runtime)
    (tmp_path / "missing.json").write_text("{", encoding="utf-8")
    assert "is not JSON" in blocked(runtime)
    del runtime.environment["AUTHZ_HOOK_CONFIG"]
    runtime.set(command="authz hook claude-code --agnet coder-1")
    assert "usage: authz hook claude-code" in blocked(runtime)
    runtime.set(command="authz hook claude-code")
    assert "say who the agent is" in blocked(runtime)


@pytest.mark.parametrize(
    "said",
    [
        {"format": 2},
        {"format": 1, "tolls": {}},
        {"format": 1, "tools": {"Bash": {"tool": "shell", "arguments": {}}}},
        {"format": 1, "tools": {"Bash": {"tool": "shell/run", "arguments": {"command": 1}}}},
        {"format": 1, "tools": {"Bash": {"tool": "shell/run", "arguments": {}, "paths": ["command"]}}},
        {"format": 1, "tools": {"Bash": {"tool": "shell/run", "arguments": {}, "unknown": []}}},
        {"format": 1, "left_to_runtime": "Bash"},
        {"format": 1, "mcp_servers": {"a": 1}},
    ],
)
def test_a_tools_file_that_is_not_understood(said: dict[str, Any], runtime: Runtime, tmp_path: Path) -> None:
    (tmp_path / "tools.json").write_text(json.dumps(said), encoding="utf-8")
    runtime.configure(tools=str(tmp_path / "tools.json"))
    assert "of the tools file" in blocked(runtime) or "the tools file has" in blocked(runtime)


CRASHES: Final = {
    "missing": "no-such-program hook claude-code",
    "not executable": "/dev/null",
    "killed": "kill -9 $$",
    "crashed": "exit 1",
    "hangs": "sleep 30",
}


@pytest.mark.parametrize("name", CRASHES)
def test_what_no_program_can_answer_for_is_blocked_by_the_settings(name: str, runtime: Runtime) -> None:
    runtime.set(command=CRASHES[name], timeout=1)
    assert runtime.call(event("Bash")).effect == "blocked"
    # That this is the setting's doing: by default the tool would run.
    del runtime.hook("PreToolUse")["onFailure"]
    assert runtime.call(event("Bash")).effect == "undecided"


def test_it_is_asked_to_end(runtime: Runtime, wrong: Callable[[bytes | None], Wrong]) -> None:
    runtime.configure(url=wrong(None).url)
    command = runtime.hook("PreToolUse")["command"]
    runtime.set(command=f"timeout --signal TERM --preserve-status 5 {command}")
    assert "it was ended before there was an answer" in blocked(runtime)


def test_an_installation_that_is_broken(runtime: Runtime, tmp_path: Path) -> None:
    (tmp_path / "authz_client").mkdir()
    (tmp_path / "authz_client" / "__init__.py").write_text("raise ImportError", encoding="utf-8")
    runtime.environment["PYTHONPATH"] = str(tmp_path)
    assert "the hook cannot start (ImportError)" in blocked(runtime)


def test_an_answer_that_nobody_reads(runtime: Runtime, workspace: Path) -> None:
    command = runtime.hook("PreToolUse")["command"]
    runtime.set(command=f"exec {command} >/dev/full")
    assert "it failed unexpectedly (OSError)" in blocked(runtime, event("Bash", workspace=str(workspace)))

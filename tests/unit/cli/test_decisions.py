"""`authz decisions search` and `show`, over the local store and over HTTP, with a running service."""

import io
import json
import os
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from authz.bundle.cases import parse_cases
from authz.bundle.load import compile_bundle, read_sources
from authz.bundle.self_protection import Protected
from authz.cli.decisions_show import as_test
from authz.cli.main import main
from authz.core.cases.from_record import NoCase
from authz.core.cases.judging import judge
from authz.errors import BundleError
from tests.support.case_bundles import write_case_bundle
from tests.support.server import RunningServer


@dataclass
class Logged:
    """A running service and the decisions in its log."""

    server: RunningServer
    bundle: Path
    read: str
    edit: str
    denied: str


def body(tool: str, arguments: dict[str, Any], call: str, **more: Any) -> dict[str, Any]:
    return {
        "subject": {"agent": "coder-1", "on_behalf_of": "ada", "session": "s-1"},
        "tool": {"server": "fs", "name": tool},
        "arguments": arguments,
        "context": {"trace_id": f"trace-{call}", "turn_id": "1", "tool_call_id": call, "cwd": "/workspace"},
        **more,
    }


@pytest.fixture(scope="module")
def logged(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Logged]:
    folder = tmp_path_factory.mktemp("decisions")
    bundle = write_case_bundle(folder / "bundle")
    calls = (
        body("file_read", {"path": "./x/../a 'b' # c.txt"}, "c1", provenance={"/path": {"source": "user"}}),
        body("file_edit", {"path": "big/a", "text": "hunter2 \x1b[31m"}, "c2"),
        body("file_read", {"path": ".secrets/k"}, "c3"),
    )
    with RunningServer(bundle=bundle, data_dir=folder / "var") as server, server.client() as client:
        ids = [client.post("/decide", json=call).json()["decision_id"] for call in calls]
        assert client.post("/decide", json={}).status_code == 400
        yield Logged(server, bundle, *ids)


@dataclass
class Ended:
    """What a command came to."""

    returncode: int
    stdout: str
    stderr: str


def authz(*words: str, **env: str) -> Ended:
    out, err = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
        for name in [name for name in os.environ if name.startswith("AUTHZ_")]:
            patch.delenv(name)
        for name, value in env.items():
            patch.setenv(name, value)
        code = main(["decisions", *words])
    return Ended(code, out.getvalue(), err.getvalue())


def local(logged: Logged, *words: str) -> Ended:
    return authz(*words, "--data-dir", str(logged.server.data_dir))


def remote(logged: Logged, *words: str) -> Ended:
    return authz(*words, "--url", logged.server.url, "--key-env", "KEY", KEY=logged.server.key)


@pytest.mark.parametrize("ask", [local, remote], ids=["local", "http"])
def test_search_finds_by_what_happened(ask: Any, logged: Logged) -> None:
    def found(*words: str) -> list[str]:
        ended = ask(logged, "search", "--json", *words)
        assert ended.returncode in (0, 1), ended.stderr
        assert (ended.returncode == 0) == bool(ended.stdout)
        records = [json.loads(line) for line in ended.stdout.splitlines()]
        return [record.get("decision_id", record["type"]) for record in records]

    assert found() == [
        *("request.refused", logged.denied, logged.edit, logged.read),
        # Of the local approver that a dev server signs in.
        *("account.changed", "bundle.loaded"),
    ]
    assert found("--effect", "deny") == [logged.denied]
    assert found("--rule", "big-asks") == [logged.edit]
    assert found("--tool", "fs/file_read", "--limit", "1") == [logged.denied]
    assert found("--trace", "trace-c1", "--agent", "coder-1", "--user", "ada") == [logged.read]
    assert found("--type", "request.refused") == ["request.refused"]
    assert found("--until", "2020-01-01T00:00:00Z") == []
    assert len(found("--since", "2020-01-01T00:00:00+02:00")) == 6


def test_a_line_says_who_what_and_by_which_rule(logged: Logged) -> None:
    ended = local(logged, "search", "--effect", "deny")

    (line,) = ended.stdout.splitlines()
    assert line.split("  ", 1)[1].split() == [
        logged.denied,
        *("deny", "fs/file_read", "coder-1", "for", "ada", "secrets"),
    ]
    assert ended.returncode == 0


@pytest.mark.parametrize("ask", [local, remote], ids=["local", "http"])
def test_show_tells_a_decision_stage_by_stage(ask: Any, logged: Logged) -> None:
    ended = ask(logged, "show", logged.edit)

    assert ended.returncode == 0, ended.stderr
    assert "\x1b" not in ended.stdout
    lines = ended.stdout.splitlines()
    assert lines[0] == f"decision {logged.edit}"
    assert [line for line in lines if line[0].isdigit()] == [
        *("0 caller", "2 tool", "3 arguments", "4 accesses", "5 operation", "6 capability", "7 rules"),
        "8 approval",
    ]
    waits = lines[lines.index("8 approval") + 1 :]
    assert waits[0].startswith("  approval          ")
    assert waits[0].endswith(", pending")
    assert waits[1].startswith("  shown_digest      ")
    assert "  effect            require_approval" in lines
    assert any(line.startswith("  ask               big-asks  rules/main.cedar:13") for line in lines)
    assert any(line.startswith("  outranked permit  writes") for line in lines)
    assert any(
        line.startswith("  text              (redacted, 13 characters, hmac-sha256:") for line in lines
    )
    assert json.loads(ask(logged, "show", logged.edit, "--json").stdout)["decision_id"] == logged.edit


@pytest.mark.parametrize("ask", [local, remote], ids=["local", "http"])
def test_a_decision_is_pasted_as_a_case_and_passes(ask: Any, logged: Logged) -> None:
    ruleset = compile_bundle(read_sources(logged.bundle), Protected())
    for decision in (logged.read, logged.denied):
        text = "cases:\n" + ask(logged, "show", decision, "--as-test").stdout
        (case,) = parse_cases("tests/pasted.yaml", text.encode())
        assert judge(case, ruleset).passed, text


def test_what_the_log_does_not_hold_is_named_and_must_be_filled_in(logged: Logged) -> None:
    text = "cases:\n" + local(logged, "show", logged.edit, "--as-test").stdout

    assert "# the log holds no clear value of these; fill them in, or the case is refused:\n" in text
    assert "  #   /arguments/text\n" in text
    with pytest.raises(BundleError, match="`/arguments/text` was redacted in the log"):
        parse_cases("tests/pasted.yaml", text.encode())


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["show", "no-such-id"], "there is no decision `no-such-id`"),
        (["show", "x\x1b[31m"], "there is no decision `x\\x1b[31m`"),
        (["search", "--key-env", "KEY"], "name the service too"),
        (
            ["search", "--tenant", "other", "--url", "http://127.0.0.1:1", "--key-env", "KEY"],
            "leave the rest out",
        ),
    ],
)
def test_what_cannot_be_shown_is_said(words: list[str], message: str, logged: Logged) -> None:
    ended = local(logged, *words) if "--url" not in words else authz(*words, KEY="k" * 40)

    assert (ended.returncode, ended.stdout) == (2, "")
    assert message in ended.stderr


def test_another_tenants_log_is_as_if_absent(logged: Logged) -> None:
    assert local(logged, "search", "--tenant", "other").returncode == 1
    assert local(logged, "show", logged.read, "--tenant", "other").returncode == 2


def test_a_service_that_does_not_answer_is_a_failure(logged: Logged) -> None:
    url = logged.server.url
    assert "name the variable that holds the key" in authz("search", "--url", url).stderr
    refused = authz("search", "--url", url, "--key-env", "KEY", KEY="azk_" + "x" * 40)
    assert (refused.returncode, "answered 401" in refused.stderr) == (2, True)
    absent = authz("show", "abc", "--url", url, "--key-env", "KEY", KEY=logged.server.key)
    assert (absent.returncode, "answered 404" in absent.stderr) == (2, True)
    nobody = authz("search", "--url", "http://127.0.0.1:1", "--key-env", "KEY", KEY="k")
    assert (nobody.returncode, "gave no answer that can be read" in nobody.stderr) == (2, True)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"code": "operation.conflict", "stage": "operation"}, "by another call under the same ids"),
        ({"code": "operation.expired"}, "by an earlier permission for the same call"),
    ],
)
def test_what_the_state_of_the_store_decided_is_no_case(
    changes: dict[str, str], message: str, logged: Logged
) -> None:
    record = json.loads(local(logged, "show", logged.read, "--json").stdout)

    with pytest.raises(NoCase, match=message):
        as_test(record | changes)
    with pytest.raises(NoCase):
        as_test({"type": "bundle.loaded"})

"""`authz explain`: requests, decisions of the log and tests, as tables and as JSON."""

import io
import json
import re
import sys
from pathlib import Path
from typing import Any, Final

import pytest
from rich.console import Console

from authz.cli import explain as command
from authz.cli.explain_view import show
from authz.core.explain import explain
from authz.core.explain.document import document
from authz.errors import AuthzError, MalformedInput, NotFound
from authz.model.call import Call
from tests.support.bundles import write_bundle
from tests.support.command import run_command
from tests.support.server import RunningServer
from tests.support.world import call, facts, source, world

GOLDEN: Final = Path(__file__).parent / "explain_golden"
RULES: Final = """\
// Rules of an explained bundle.
@id("workspace-write")
@reason("Changes inside the declared sandbox can be discarded.")
permit (principal, action in Action::"write", resource in Directory::"/workspace")
when { context.sandboxed && action in Action::"A1" };

@id("protect-secrets")
@reason("This place is for secrets.")
forbid (principal, action, resource is File)
when { ["env", "envrc"].contains(resource.extension) || resource.names.contains(".ssh") };

@id("pay") permit (principal, action in Action::"transact", resource);

@id("payments-need-a-human")
@reason("Money that is sent cannot be called back.")
@requires("approval") @approvers("Group::\\"finance\\"") @quorum("2") @ttl("15m")
forbid (principal, action in Action::"transact", resource);

@id("untrusted-destination-asks")
@requires("approval") @factor("passkey") @ttl("10m")
forbid (principal, action in [Action::"send", Action::"transact"], resource)
when { context.untrusted.contains("destination") };
"""
TESTS: Final = """\
defaults:
  subject: {agent: coder-1, on_behalf_of: ada, session: s-1}
  tool: {server: fs, name: file_edit}
  context: {cwd: /workspace, sandbox_root: /workspace}
cases:
  - name: edit a file
    call: {arguments: {path: a.py, text: x}}
    expect: {effect: allow, rules: [workspace-write], authority: A1}
  - name: edit the environment
    call: {arguments: {path: .env, text: x}}
    expect: {effect: deny, rules: [protect-secrets], authority: A1}
"""
BODY: Final[dict[str, Any]] = {
    "subject": {"agent": "coder-1", "on_behalf_of": "ada", "session": "s-1"},
    "tool": {"server": "fs", "name": "file_edit"},
    "arguments": {"path": "/etc/passwd", "text": "x"},
    "context": {
        "trace_id": "t-1",
        "turn_id": "1",
        "tool_call_id": "c-1",
        "cwd": "/workspace",
        "sandbox_root": "/workspace",
    },
}


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    folder = write_bundle(tmp_path / "bundle", rules=RULES)
    (folder / "tests").mkdir()
    (folder / "tests" / "fs.yaml").write_text(TESTS)
    return folder


def request_file(tmp_path: Path, **changes: Any) -> str:
    path = tmp_path / "request.json"
    path.write_text(json.dumps(BODY | changes))
    return str(path)


def rendered(asked: Call, width: int, **known: Any) -> str:
    output = io.StringIO()
    console = Console(file=output, width=width, highlight=False, markup=False, emoji=False)
    show(document(explain(asked, facts(world(RULES), **known))), console)
    lines = re.sub(r"sha256:[0-9a-f]{12}", "sha256:............", output.getvalue()).splitlines()
    return "".join(line.rstrip() + "\n" for line in lines)


DENY: Final = call(
    "fs/file_edit", path="/workspace/../workspace/.env", text="x", provenance={"/path": source("user")}
)
ASK: Final = call("bank/transfer", to="DE 1", amount=12.5, provenance={"/to": source("web")})
ALLOW: Final = call("fs/file_edit", path="a.py", text="x", provenance={"": source("user")})


@pytest.mark.parametrize("name", ["deny", "ask", "allow"])
@pytest.mark.parametrize("width", [80, 140])
def test_tables_are_as_they_were_looked_at(name: str, width: int) -> None:
    asked = {"deny": DENY, "ask": ASK, "allow": ALLOW}[name]
    expected = (GOLDEN / f"{name}_{width}.txt").read_text(encoding="utf-8")
    text = rendered(asked, width)
    assert text == expected
    assert max(map(len, text.splitlines())) <= width


def test_what_could_deceive_is_escaped_and_what_is_cut_says_so() -> None:
    text = rendered(call("fs/file_edit", path="/workspace/a\u202egpj." + "xxxxxxxxx/" * 48, text=""), 100)
    assert "\u202e" not in text
    assert "\\u202e" in text
    assert re.search(r"\(\d+\s+more\s+characters,\s+see\s+--json\)", text)


def test_marks_are_plain_where_the_output_cannot_carry_others() -> None:
    raw = io.BytesIO()
    output = io.TextIOWrapper(raw, encoding="ascii")
    show(document(explain(DENY, facts(world(RULES)))), Console(file=output, width=100, highlight=False))
    output.flush()
    assert b"protect-secrets" in raw.getvalue()


def test_a_terminal_gets_colours() -> None:
    output = io.StringIO()
    console = Console(file=output, width=100, force_terminal=True, color_system="standard", highlight=False)
    show(document(explain(DENY, facts(world(RULES)))), console)
    deny = re.search(r"\x1b\[([0-9;]+)mdeny", output.getvalue())
    assert deny is not None
    assert "31" in deny[1].split(";")


def test_a_request_in_a_file(bundle: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(command, request_file(tmp_path), "--policies", str(bundle), "--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["decision"]["effect"], told["decision"]["code"]) == ("deny", "policy.no_match")
    assert told["changes"][0]["rule"]["rule"] == "workspace-write"
    # A test runner's output is no terminal: no colours.
    assert run_command(command, request_file(tmp_path), "--policies", str(bundle)) == 0
    text = capsys.readouterr().out
    assert "\x1b" not in text
    assert "what would have to differ" in text


def test_a_request_on_standard_input(
    bundle: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(json.dumps(BODY).encode())))
    assert run_command(command, "-", "--policies", str(bundle), "--json") == 0
    assert json.loads(capsys.readouterr().out)["decision"]["effect"] == "deny"


def test_time_and_exposure_can_be_set(
    bundle: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ("--policies", str(bundle), "--json", "--at", "2027-01-02T03:04:05Z", "--exposed", "private")
    assert run_command(command, request_file(tmp_path), *options, "--all-rules") == 0
    told = json.loads(capsys.readouterr().out)
    assert told["at"] == "2027-01-02T03:04:05.000Z"
    assert told["stages"][0]["output"]["session_exposed"] == ["private"]
    assert "pay" in [rule["rule"] for rule in told["accesses"][0]["examined"]]


@pytest.mark.parametrize("name", ["fs:edit the environment", "tests/fs.yaml::edit the environment"])
def test_a_case_of_the_bundle(name: str, bundle: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(command, "--test", name, "--policies", str(bundle), "--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert [rule["rule"] for rule in told["decision"]["matched"]] == ["protect-secrets"]


def test_an_unknown_case_names_those_that_are_alike(bundle: Path) -> None:
    with pytest.raises(NotFound, match="there are `fs:edit a file`, `fs:edit the environment`"):
        run_command(command, "--test", "fs::edit", "--policies", str(bundle))


@pytest.mark.parametrize(
    ("options", "fault", "says"),
    [
        (("--profile", "nobody"), NotFound, "no credential profile `nobody`; send one of runtime"),
        (("--at", "yesterday"), AuthzError, "takes RFC 3339 with an offset"),
        (("--at", "2026-01-01T00:00:00"), AuthzError, "takes RFC 3339 with an offset"),
    ],
)
def test_options_that_mean_nothing_are_refused(
    options: tuple[str, ...], fault: type[AuthzError], says: str, bundle: Path, tmp_path: Path
) -> None:
    with pytest.raises(fault, match=says):
        run_command(command, request_file(tmp_path), "--policies", str(bundle), *options)


@pytest.mark.parametrize("content", ["{", '{"subject": {}}', '{"a": 1, "a": 2}'])
def test_a_request_that_is_none_is_refused(content: str, bundle: Path, tmp_path: Path) -> None:
    path = tmp_path / "request.json"
    path.write_text(content)
    with pytest.raises(MalformedInput):
        run_command(command, str(path), "--policies", str(bundle))


def test_a_decision_of_a_running_services_log(
    bundle: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with RunningServer(bundle=bundle, data_dir=tmp_path / "data") as server, server.client() as client:
        answer = client.post("/decide", json=BODY).json()
        where = ("--policies", str(bundle), "--data-dir", str(server.data_dir))
        assert run_command(command, "--decision", answer["decision_id"], *where, "--json") == 0
        told = json.loads(capsys.readouterr().out)
        assert (told["recorded"]["decision_id"], told["recorded"]["effect"]) == (
            answer["decision_id"],
            "deny",
        )
        assert told["recorded"]["agrees"] is True
        # The rules now allow it: both verdicts are shown.
        rules = bundle / "rules" / "main.cedar"
        rules.write_text('@id("anything") permit (principal, action, resource);')
        (bundle / "tests" / "fs.yaml").unlink()
        assert run_command(command, "--decision", answer["decision_id"], *where) == 0
        text = capsys.readouterr().out
        assert "recorded: deny (policy.no_match)" in text
        assert "the policy was another then" in text
        assert "what holds now differs" in text
        with pytest.raises(NotFound):
            run_command(command, "--decision", "f" * 32, *where)

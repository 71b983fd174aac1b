"""`authz approvals`, with a running service: what is shown, how a yes is given, and by whom."""

import io
import json
import os
import pty
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import httpx
import pytest

from authz.cli import approvals_show, session_file
from authz.cli.main import main
from authz.core.fingerprint import canonical_json
from authz.store.keys import ServiceKeys
from tests.notices.receiver import SECRET, Receiver, verifies
from tests.policies.deciding import sample_ruleset
from tests.support.server import RunningServer
from tests.support.signing_in import command_line_code
from tests.support.waiting import wait_until

POLICIES: Final = Path(__file__).parents[3] / "policies"
# About another resource than those that are denied here: people are not asked about one again and again.
MAIL: Final[dict[str, Any]] = {
    "tool": "mail/send",
    "to": ["receipt@example.com"],
    "subject": "hi",
    "body": "x",
}
LONG: Final = "All is well.\n" * 400 + "Please also send the keys.\n" + "All is well.\n" * 400


@pytest.fixture(scope="module")
def receiver() -> Iterator[Receiver]:
    with Receiver() as running:
        yield running


@pytest.fixture(scope="module")
def server(receiver: Receiver, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """The sample bundle, as it is served; it tells a receiver of approvals."""
    folder = tmp_path_factory.mktemp("service")
    (folder / "authz.toml").write_text(
        f'[[webhooks]]\nname = "ops"\nurl = "{receiver.url}"\nsecret = "{SECRET}"\n'
    )
    env = {"AUTHZ_CONFIG": str(folder / "authz.toml")}
    with RunningServer(bundle=POLICIES, data_dir=folder / "var", env=env) as running:
        yield running


@pytest.fixture(scope="module")
def session(server: RunningServer, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The session file of grace, who is of finance and staff."""
    path = tmp_path_factory.mktemp("session") / "session.json"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(session_file.SESSION_FILE, str(path))
        url = f"http://localhost:{server.port}"
        assert main(["sign-in", "--url", url, "--code", command_line_code(server)]) == 0
    return path


class Shell:
    """Somebody at a command line, who is signed in as grace and has the key of the runtime."""

    def __init__(self, server: RunningServer, capsys: pytest.CaptureFixture[str]) -> None:
        self.server = server
        self.out = self.err = ""
        self._capsys = capsys

    def run(self, *words: str, code: int = 0) -> str:
        """Standard output; standard error is kept in `err`."""
        found = main(["approvals", *words])
        self.out, self.err = self._capsys.readouterr()
        assert found == code, self.out + self.err
        return self.out

    def as_key(self, *words: str, code: int = 0) -> str:
        return self.run(*words, "--url", self.server.url, "--key-env", "KEY", code=code)

    def ask(self, number: str, *, tool: str = "shell/run", **arguments: Any) -> str:
        """The id of the approval that a call waits for."""
        answer = self.decide(number, tool=tool, **arguments)
        assert answer["effect"] == "require_approval", answer.get("message")
        return str(answer["approval"]["id"])

    def decide(self, number: str, *, tool: str = "shell/run", **arguments: Any) -> Any:
        server, name = tool.split("/")
        digest = sample_ruleset().tools[(server, name)].descriptor.advertised_digest
        body = {
            "subject": {"agent": "coder-1", "on_behalf_of": "ada", "session": f"s-{number}"},
            "tool": {"server": server, "name": name} | ({"advertised_digest": digest} if digest else {}),
            "arguments": arguments or {"command": "printenv HOME"},
            "context": {"trace_id": f"t-{number}", "turn_id": "1", "tool_call_id": "c"},
            "provenance": {} if arguments else {"/command": {"source": "user"}},
        }
        with self.server.client() as client:
            return client.post("/decide", json=body).json()

    def digest(self, approval_id: str) -> str:
        return str(json.loads(self.run("show", approval_id, "--json"))["shown_digest"])


@pytest.fixture
def shell(
    server: RunningServer,
    session: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Shell:
    monkeypatch.setenv("KEY", server.key)
    monkeypatch.setenv(session_file.SESSION_FILE, str(session))
    return Shell(server, capsys)


def at_terminal(answer: str, *words: str) -> tuple[int, str]:
    """(exit code, standard error) of a command at a terminal at which somebody types `answer`."""
    ours, theirs = pty.openpty()
    try:
        with subprocess.Popen(
            [sys.executable, "-m", "authz", "approvals", *words],
            stdin=theirs,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        ) as command:
            os.write(ours, answer.encode() + b"\n")
            _, told = command.communicate(timeout=120)
            return command.returncode, told.decode()
    finally:
        os.close(ours)
        os.close(theirs)


def test_the_running_service_tells_a_webhook_what_was_asked_and_answered(
    shell: Shell, receiver: Receiver
) -> None:
    # The first test of all: after twenty notices about one agent and user the next ones are held back.
    approval_id = shell.ask("told", tool="mail/send", to=["another@example.com"], subject="hi", body="x")
    shell.run("deny", approval_id)

    def told() -> list[str]:
        about = [got for got in receiver.got if got.message["data"].get("approval_id") == approval_id]
        assert all(verifies(got, SECRET) for got in about)
        return [got.message["type"] for got in about]

    wait_until(lambda: len(told()) == 2)
    assert sorted(told()) == ["approval.denied", "approval.requested"]


def test_what_waits_is_listed_to_the_person_and_to_whoever_asked(shell: Shell) -> None:
    approval_id = shell.ask("list")

    for told in (shell.run("list", "--session", "s-list"), shell.as_key("list", "--session", "s-list")):
        (line,) = told.splitlines()
        assert line.startswith(f"{approval_id}  pending    until ")
        assert line.endswith("A0  coder-1 for ada  local:shell/run  environment-asks")
    (entry,) = map(json.loads, shell.run("list", "--session", "s-list", "--json").splitlines())
    assert entry["id"] == approval_id
    assert shell.run("list", "--session", "nobody's", code=1) == ""


def test_a_list_says_how_it_goes_on(shell: Shell) -> None:
    ids = [shell.ask(f"page-{number}", command=f"printenv PAGE{number}") for number in range(3)]

    shell.run("list", "--limit", "1", "--trace", "t-page-2")
    assert shell.out.startswith(ids[2])
    shell.run("list", "--limit", "2")
    place = shell.err.split()[-1]
    assert shell.err == f"there are more: --before {place}\n"
    shell.run("list", "--limit", "1", "--before", place)
    assert shell.out.startswith(ids[0])


def test_what_would_run_is_shown_whole_and_its_digest_is_computed_here(shell: Shell) -> None:
    approval_id = shell.ask("show", tool="mail/send", to=["stranger@example.com"], subject="hi", body=LONG)
    text = shell.run("show", approval_id)

    assert text.startswith("WHAT WILL HAPPEN\n")
    assert "\u2502 Please also send the keys.\u23ce" in text
    assert text.count("All is well.") == 800
    digest = json.loads(shell.run("show", approval_id, "--json"))["shown_digest"]
    assert f"\nDIGEST {digest}\n" in text


def test_a_key_is_shown_where_it_stands_and_nothing_in_the_clear(shell: Shell) -> None:
    approval_id = shell.ask("key", command="printenv TELLING_NAME")
    told = shell.as_key("show", approval_id)

    assert told.splitlines()[:2] == [f"approval   {approval_id}", "state      pending"]
    assert "TELLING_NAME" not in told
    assert told == shell.run("show", approval_id, "--state-only")
    assert json.loads(shell.as_key("show", approval_id, "--json"))["id"] == approval_id


def test_a_document_that_is_not_the_one_of_its_digest_is_not_shown(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    approval_id = shell.ask("forged")
    whole = json.loads(shell.run("show", approval_id, "--json"))
    forged = whole["document"] | {"fingerprint": "sha256:0"}
    assert canonical_json(forged) != canonical_json(whole["document"])

    class Forging:
        is_person = True
        url = "https://forging.example"

        def ask(self, *_: Any, **__: Any) -> Any:
            return whole | {"document": forged}

    monkeypatch.setattr(approvals_show, "service_of", lambda _: Forging())
    shell.run("show", approval_id, code=2)
    assert "is not what it would be approved as" in shell.err
    assert shell.out == ""


def test_yes_at_a_terminal_is_given_to_what_was_printed(shell: Shell) -> None:
    approval_id = shell.ask("yes")
    code, told = at_terminal("yes", "approve", approval_id)

    assert code == 0, told
    assert told.startswith("WHAT WILL HAPPEN\n")
    assert told.endswith("Approve this once? Type yes: ")
    assert shell.decide("yes")["effect"] == "allow"
    shell.run("show", approval_id, "--state-only")
    assert "yes of     grace, by session, once" in shell.out


@pytest.mark.parametrize("answer", ["y", "no", "", "YES", "yes please"])
def test_anything_else_is_no_yes(shell: Shell, answer: str) -> None:
    approval_id = shell.ask(f"other-{answer}")
    code, told = at_terminal(answer, "approve", approval_id)

    assert code == 1
    assert told.endswith("nothing was approved\n")
    assert json.loads(shell.as_key("show", approval_id, "--json"))["state"] == "pending"


def test_without_a_terminal_nobody_types_yes(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    approval_id = shell.ask("pipe")
    with Path(os.devnull).open() as nothing:
        monkeypatch.setattr(sys, "stdin", nothing)
        shell.run("approve", approval_id, code=2)
    assert "a yes is typed at a terminal" in shell.err


def test_a_script_names_what_it_was_shown(shell: Shell) -> None:
    approval_id = shell.ask("script")
    shell.run("approve", approval_id, "--digest", "sha256:" + "0" * 64, code=1)
    assert "which is another one" in shell.err
    shell.run("approve", approval_id, "--digest", shell.digest(approval_id), "--times", "2", "--json")
    told = json.loads(shell.out)

    assert (told["state"], told["grant"]["scope"], told["grant"]["uses_left"]) == ("approved", "times", 2)
    shell.run("approve", approval_id, "--digest", shell.digest(approval_id), code=1)


def test_a_script_has_to_say_that_long_values_were_read(shell: Shell) -> None:
    approval_id = shell.ask("long", tool="mail/send", to=["stranger@example.com"], subject="hi", body=LONG)
    digest = shell.digest(approval_id)

    shell.run("approve", approval_id, "--digest", digest, code=2)
    assert "(1 of them); say with `--opened`" in shell.err
    shell.run("approve", approval_id, "--digest", digest, "--opened")
    assert "state      approved" in shell.out


def test_a_scope_that_was_not_offered_is_refused(shell: Shell) -> None:
    approval_id = shell.ask("scope", tool="mail/send", to=["stranger@example.com"], subject="hi", body="x")
    shell.run("approve", approval_id, "--session", "--digest", shell.digest(approval_id), code=1)
    assert "[approval.scope_not_offered]" in shell.err


def test_what_asks_for_a_passkey_is_approved_on_its_page(shell: Shell) -> None:
    arguments = {"recipient": "DE89370400440532013000", "amount": 25000, "currency": "EUR", "subject": "x"}
    approval_id = shell.ask("passkey", tool="payments/pay", **arguments)
    code, told = at_terminal("yes", "approve", approval_id)

    assert code == 1
    assert "it asks for your passkey, which only the page can: http://localhost:" in told
    assert f"/ui/approvals/{approval_id}" in told


def test_no_key_answers(shell: Shell, capsys: pytest.CaptureFixture[str]) -> None:
    approval_id = shell.ask("not-a-person")
    for command in ("approve", "deny", "revoke"):
        with pytest.raises(SystemExit):
            main(["approvals", command, approval_id, "--key-env", "KEY"])
        assert "unrecognized arguments: --key-env" in capsys.readouterr().err


def test_a_no_is_told_with_its_reason_and_sticks(shell: Shell) -> None:
    approval_id = shell.ask("no")
    shell.run("deny", approval_id, "--reason", "not on a Friday\x1b[2J")

    assert "state      denied" in shell.out
    assert "saying     not on a Friday\u27e8U+001B ESCAPE\u27e9[2J" in shell.out
    assert shell.decide("no")["effect"] == "deny"
    shell.run("deny", approval_id, code=1)
    assert "[approval.closed] (it is denied)" in shell.err


def test_what_was_approved_is_revoked(shell: Shell) -> None:
    approval_id = shell.ask("revoke")
    shell.run("approve", approval_id, "--digest", shell.digest(approval_id))
    shell.run("revoke", approval_id)

    assert "state      void" in shell.out
    shell.run("revoke", approval_id, code=1)
    shell.run("list", "--session", "s-revoke", "--live", code=1)


def test_waiting_ends_with_the_answer(shell: Shell) -> None:
    approval_id = shell.ask("wait")
    shell.as_key("wait", approval_id, "--seconds", "0", code=3)
    assert "state      pending" in shell.out
    shell.run("approve", approval_id, "--digest", shell.digest(approval_id))
    shell.as_key("wait", approval_id)
    assert "state      approved" in shell.out
    denied = shell.ask("wait-no")
    shell.run("deny", denied)
    shell.as_key("wait", denied, "--json", code=1)
    assert json.loads(shell.out)["state"] == "denied"


def test_who_waits_is_woken_by_the_answer(shell: Shell) -> None:
    approval_id = shell.ask("woken")
    command = [sys.executable, "-m", "authz", "approvals", "wait", approval_id, "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as waiting:
        shell.run("deny", approval_id)
        told, _ = waiting.communicate(timeout=120)
    assert waiting.returncode == 1
    assert json.loads(told)["state"] == "denied"


@pytest.mark.parametrize("wrong", ["nothing", "../keys", "a b", "\x1b[2J", ""])
def test_an_id_that_is_none_is_said_to_be(shell: Shell, wrong: str) -> None:
    for command in ("show", "approve", "deny", "revoke", "wait"):
        shell.run(command, wrong, code=2)
        assert shell.out == ""
        assert "\x1b" not in shell.err


def test_who_is_not_signed_in_is_told_how(
    shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(session_file.SESSION_FILE, str(tmp_path / "absent.json"))
    shell.run("list", code=2)
    assert "authz sign-in" in shell.err
    shell.run("list", "--url", shell.server.url, code=2)
    assert "`--url` goes with `--key-env`" in shell.err
    shell.run("list", "--key-env", "ABSENT", code=2)
    assert "`ABSENT` holds no key" in shell.err


def test_a_service_that_is_not_there_is_no_answer(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KEY", "azk_something")
    shell.run("list", "--url", "http://127.0.0.1:9", "--key-env", "KEY", code=2)
    assert "gave no answer that can be read" in shell.err
    shell.run("list", "--url", shell.server.url, "--key-env", "KEY", code=2)
    assert f"answered {httpx.codes.UNAUTHORIZED.value}" in shell.err


def receipt_of(shell: Shell, approval_id: str) -> str:
    """The receipt, as the record of the yes has it."""
    params = {"type": "approval.approved", "limit": "500"}
    with shell.server.client() as client:
        records = client.get("/decisions", params=params).json()["records"]
    (record,) = [one["record"] for one in records if one["record"]["approval"]["id"] == approval_id]
    return str(record["vote"]["receipt"])


def test_a_receipt_is_verified_offline(shell: Shell, tmp_path: Path) -> None:
    approval_id = shell.ask("receipt", **MAIL)
    shell.run("approve", approval_id, "--digest", shell.digest(approval_id))
    document = json.loads(shell.run("show", approval_id, "--json"))["document"]
    here = ("--data-dir", str(shell.server.data_dir))
    shell.run("verify", approval_id, *here)

    lines = shell.out.splitlines()
    assert lines[:4] == [
        "HOLDS: all that was checked",
        "  ok          signed by the service",
        "  ok          says what a receipt says",
        "  not checked proven by a passkey  (the yes was given in a session, without one)",
    ]
    assert "  ok          fingerprint as expected" in lines
    assert "  ok          shown digest as expected" in lines
    assert "  person      grace" in lines
    assert f"  said yes to {approval_id}" in lines

    receipt, keys = tmp_path / "receipt", tmp_path / "keys.json"
    receipt.write_text(receipt_of(shell, approval_id))
    with httpx.Client(trust_env=False) as client:
        keys.write_bytes(client.get(f"{shell.server.url}/.well-known/jwks.json").content)
    (tmp_path / "shown").write_bytes(canonical_json(document))
    shell.run("verify", str(receipt), "--jwks", str(keys), "--shown", str(tmp_path / "shown"), "--json")
    told = json.loads(shell.out)
    assert (told["holds"], told["receipt"]["person"]) == (True, "grace")
    (tmp_path / "shown").write_bytes(canonical_json(document | {"cwd": "/elsewhere"}))
    shell.run("verify", str(receipt), "--jwks", str(keys), "--shown", str(tmp_path / "shown"), code=1)
    assert "  FAILED      shown digest as expected" in shell.out

    header, claims, signature = receipt.read_text().split(".")
    for forged in (f"{header}.{claims[:-4]}AAAA.{signature}", f"{header}.{claims}.", "a.b.c", header):
        receipt.write_text(forged)
        shell.run("verify", str(receipt), "--jwks", str(keys), code=1)
        assert shell.out.startswith("DOES NOT HOLD\n  FAILED      signed by the service")


def test_receipts_are_printed_for_verify(
    shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    approval_id = shell.ask("printed", **MAIL)
    shell.run("receipts", approval_id, code=2)
    assert "nobody said yes" in shell.err
    shell.run("approve", approval_id, "--digest", shell.digest(approval_id))
    printed = shell.run("receipts", approval_id)
    assert printed == f"{receipt_of(shell, approval_id)}\n"
    (one,) = json.loads(shell.run("receipts", approval_id, "--json"))["receipts"]
    assert (one["person"], one["receipt"]) == ("grace", printed.strip())

    here = ("--data-dir", str(shell.server.data_dir))
    # One a line, as of several people; each is told of.
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO((printed + "a.b.c\n").encode())))
    told = shell.run("verify", "-", *here, "--json", code=1).splitlines()
    assert [json.loads(line)["holds"] for line in told] == [True, False]
    (tmp_path / "many").write_text("a.b.c\n" * 257)
    shell.run("verify", str(tmp_path / "many"), *here, code=2)

    refused = httpx.get(
        f"{shell.server.url}/approvals/{approval_id}/receipts",
        headers={"authorization": f"Bearer {shell.server.key}"},
    )
    assert (refused.status_code, refused.json()["code"]) == (403, "approval.not_a_person")


def test_a_receipt_of_other_keys_does_not_hold(shell: Shell, tmp_path: Path) -> None:
    approval_id = shell.ask("others-keys", **MAIL)
    shell.run("approve", approval_id, "--digest", shell.digest(approval_id))
    (tmp_path / "receipt").write_text(receipt_of(shell, approval_id))
    ServiceKeys.load_or_create(tmp_path / "keys.json")
    shell.run("verify", str(tmp_path / "receipt"), "--data-dir", str(tmp_path), code=1)
    assert "FAILED      signed by the service" in shell.out


def test_what_is_no_receipt_cannot_be_verified(shell: Shell, tmp_path: Path) -> None:
    here = ("--data-dir", str(shell.server.data_dir))
    shell.run("verify", "0" * 32, *here, code=2)
    assert "no yes to the approval" in shell.err
    shell.run("verify", str(tmp_path / "absent"), *here, code=2)
    (tmp_path / "empty").write_text("")
    shell.run("verify", str(tmp_path / "empty"), *here, code=2)

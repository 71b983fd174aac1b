"""`authz capabilities issue`, `attenuate`, `introspect`, `revoke` and `list`, with a running service."""

import json
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import httpx
import pytest

from authz.cli.main import main
from tests.support.server import RunningServer

POLICIES = Path(__file__).parents[3] / "policies"
WORK = ("--action", "fs/file_read", "--action", "fs/file_edit", "--location", "file:///workspace")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """The sample bundle, as it is served."""
    with RunningServer(bundle=POLICIES, data_dir=tmp_path_factory.mktemp("data") / "var") as running:
        yield running


class Shell:
    """A folder with three keys, and the commands in it."""

    def __init__(self, server: RunningServer, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.server = server
        self.folder = folder
        self._capsys = capsys
        for name in ("main", "sub", "other"):
            self.run("keygen", f"{name}.json", online=False)
            (folder / f"{name}.pub").write_text(self.out)

    def run(self, *words: str, code: int = 0, online: bool = True) -> str:
        """Standard output; standard error is kept in `err`."""
        service = ("--url", self.server.url, "--key-env", "KEY") if online else ()
        found = main(["capabilities", *words, *service])
        self.out, self.err = self._capsys.readouterr()
        assert found == code, self.err
        return self.out

    def issue(self, *words: str) -> dict[str, object]:
        """A capability of `main` for the workspace, kept in `chain.json`."""
        self.run("issue", *HOLDER, *WORK, "--max-depth", "3", "--json", *words)
        (self.folder / "chain.json").write_text(self.out)
        found: dict[str, object] = json.loads(self.out)
        return found


HOLDER = ("--agent", "coder-1", "--on-behalf-of", "ada", "--holder", "main.pub")
CHILD = ("--key", "main.json", "--agent", "sub-1", "--holder", "sub.pub")


@pytest.fixture
def shell(
    server: RunningServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Shell:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KEY", server.key)
    return Shell(server, tmp_path, capsys)


def test_issue_says_what_was_given_and_by_which_rule(shell: Shell) -> None:
    shell.run("issue", *HOLDER, *WORK, "--budget", '{"calls": 5}')
    lines = shell.out.splitlines()
    assert lines[0] == "agent    coder-1, on behalf of ada"
    assert "may      fs/file_read, fs/file_edit" in lines
    assert "in       file:///workspace" in lines
    assert "budget   5 calls" in lines
    assert any(line.startswith("by       capabilities-workspace  rules/") for line in lines)
    (shell.folder / "chain").write_text(lines[-1].removeprefix("chain    "))
    assert "coder-1" in shell.run("show", "chain", online=False)


def test_what_is_issued_verifies_offline_with_the_published_keys(shell: Shell) -> None:
    given = shell.issue()
    with httpx.Client(base_url=shell.server.url, trust_env=False) as public:
        (shell.folder / "jwks.json").write_bytes(public.get("/.well-known/jwks.json").content)
        (shell.folder / "revoked.json").write_bytes(public.get("/revocations").content)
    whom = ("--issuer", str(given["issuer"]), "--audience", str(given["audience"]))
    files = ("--jwks", "jwks.json", "--revocations", "revoked.json")
    shown = shell.run("show", "chain.json", *files, *whom, online=False)
    assert shown.startswith("VERIFIED at ")
    assert "not looked at" not in shown.splitlines()[0]


def test_a_refusal_names_rule_and_place(shell: Shell) -> None:
    words = ("issue", *HOLDER, "--action", "administer", "--location", "file:///etc")
    assert shell.run(*words, code=1) == ""
    assert "location file:///etc" in shell.err
    assert "by rule capabilities-never-administer" in shell.err
    problem = json.loads(shell.run(*words, "--json", code=1))
    assert (problem["status"], problem["code"]) == (403, "policy.forbid")
    assert shell.run("issue", *HOLDER, code=2) == ""
    assert "say what it allows" in shell.err


def test_narrowing_on_the_server_names_what_would_widen(shell: Shell) -> None:
    shell.issue()
    narrow = ("--action", "fs/file_read", "--location", "file:///workspace/docs")
    shell.run("attenuate", "chain.json", *CHILD, *narrow)
    assert shell.out.startswith("agent    sub-1, on behalf of ada\n")
    for words, expected in (
        (("--action", "fs/file_remove", "--location", "file:///workspace"), "component R"),
        (("--action", "fs/file_read", "--location", "file:///etc"), "component O"),
        (("--key", "other.json"), "[capability.proof]"),
    ):
        assert shell.run("attenuate", "chain.json", *CHILD, *words, code=1) == ""
        assert expected in shell.err


def test_a_task_is_asked_for_as_a_packet(shell: Shell) -> None:
    given = shell.issue()
    task = {
        "objective": "sum it up",
        "inputs": [{"uri": "file:///workspace/docs", "rights": ["fs/file_read"]}],
        "output_contract": {"description": "one page"},
        "completion": {"condition": "written", "deadline": _deadline(given)},
        "child_trace_id": "t-2",
    }
    (shell.folder / "packet.json").write_text(json.dumps(task))
    found = json.loads(shell.run("attenuate", "chain.json", *CHILD, "--packet", "packet.json", "--json"))
    assert [entry["locations"] for entry in found["authorization_details"]] == [["file:///workspace/docs"]]
    words = ("--packet", "packet.json", "--expires-in", "5")
    assert shell.run("attenuate", "chain.json", *CHILD, *words, code=2) == ""


def _deadline(given: dict[str, object]) -> int:
    return int(datetime.fromisoformat(str(given["expires_at"])).timestamp()) - 60


def test_the_life_of_a_capability(shell: Shell) -> None:
    """Issue, narrow on the server and offline, look, revoke, look again: everything beneath has stopped."""
    link = str(shell.issue("--budget", '{"calls": 5}')["link"])
    shell.run("attenuate", "chain.json", *CHILD, "--json")
    (shell.folder / "child.json").write_text(shell.out)
    offline = ("--key", "sub.json", "--holder", "other.pub", "--agent", "sub-2")
    shell.run("narrow", "child.json", *offline, "--action", "fs/file_read", *WORK[-2:], code=1, online=False)
    few = ("--action", "fs/file_read", "--location", "file:///workspace/docs", "--budget", '{"calls": 2}')
    shell.run("narrow", "child.json", *offline, *few, online=False)
    (shell.folder / "grandchild.json").write_text(shell.out)

    active = shell.run("introspect", "grandchild.json")
    assert active.startswith("ACTIVE\n")
    assert "+- sub-1 " in active
    assert "      gave up  R fs/file_edit\n" in active
    assert "P budget: 5 calls -> 2 calls" in active
    assert "used     calls 0" in active
    assert shell.run("introspect", f"--link={link}").startswith("ACTIVE\n")

    tree = shell.run("list", f"--tree={link}").splitlines()
    assert tree[0].startswith(f"{link}  coder-1 for ada  issued, depth 0  until ")
    assert "  sub-1 for ada  narrowed, depth 1  " in tree[1]
    assert tree[1].startswith("+- ")

    assert "live beneath it on record" in shell.run("revoke", f"--link={link}", "--reason", "it is done")
    assert "it was revoked already" in shell.run("revoke", f"--link={link}", "--reason", "again")
    stopped = shell.run("introspect", "grandchild.json", code=1)
    assert stopped.startswith("NOT ACTIVE: revoked_link (link 0)\n")
    assert stopped.count(f"REVOKED  by link {link}") == 3
    assert json.loads(shell.run("introspect", "grandchild.json", "--json", code=1))["active"] is False
    assert shell.run("attenuate", "child.json", *CHILD[2:], "--key", "sub.json", code=1) == ""
    assert "[capability.revoked]" in shell.err


def test_the_last_link_of_a_chain_is_revoked_by_its_file(shell: Shell) -> None:
    """So that nobody copies a hash, which may begin with a dash."""
    given = shell.issue()
    shell.run("attenuate", "chain.json", *CHILD, "--json")
    (shell.folder / "child.json").write_text(shell.out)
    child = json.loads(shell.out)["link"]
    told = json.loads(shell.run("revoke", "child.json", "--reason", "it is done", "--json"))
    assert told["links"] == [child]
    assert shell.run("introspect", "chain.json").startswith("ACTIVE\n")
    assert shell.run("introspect", "child.json", code=1).startswith("NOT ACTIVE: revoked_link (link 0)\n")
    told = json.loads(shell.run("revoke", "chain.json", "--reason", "it is done", "--json"))
    assert told["links"] == [given["link"]]


@pytest.mark.parametrize("words", [("chain.json", "--jti", "a"), ()])
def test_what_to_revoke_is_named_once(shell: Shell, words: tuple[str, ...]) -> None:
    shell.issue()
    with pytest.raises(SystemExit) as ended:
        shell.run("revoke", *words, "--reason", "x")
    assert ended.value.code == 2
    assert shell.run("introspect", "chain.json").startswith("ACTIVE\n")


def test_list_filters_and_pages(shell: Shell) -> None:
    for _ in range(3):
        shell.issue("--agent", "pager")
    first = shell.run("list", "--agent", "pager", "--live", "--limit", "2").splitlines()
    assert len(first) == 2
    place = shell.err.split("--after ")[1].strip()
    shell.run("list", "--agent", "pager", f"--after={place}", "--json")
    rest = [json.loads(line) for line in shell.out.splitlines()]
    assert [link["agent"] for link in rest] == ["pager"]
    assert not {line.split()[0] for line in first} & {link["link"] for link in rest}
    assert shell.run("list", "--agent", "nobody", code=1) == ""


def test_no_answer_is_no_refusal(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    """Exit code 2: nothing is known of the capability, in either direction."""
    for words, expected in (
        (("introspect", "--link=" + "A" * 43), "there is no such link"),
        (("list", "--tree=" + "A" * 43), "there is no such link"),
        (("list", "--tree=../x"), "whole hash"),
        (("introspect",), "name a chain or a `--link`"),
        (("list", "--url", "http://127.0.0.1:9"), "gave no answer"),
    ):
        service = () if "--url" in words else ("--url", shell.server.url)
        assert main(["capabilities", *words, "--key-env", "KEY", *service]) == 2
        shell.out, shell.err = shell._capsys.readouterr()
        assert shell.out == ""
        assert expected in shell.err
    monkeypatch.setenv("KEY", "azk_wrong")
    shell.run("list", code=2)
    assert "answered 401" in shell.err
    monkeypatch.setenv("KEY", "")
    shell.run("list", code=2)
    assert "holds no key" in shell.err

"""Public failure cases that end at a real file or a real redirect, from the SDK through the service and back.

Real files, the real service as a process, and the SDK between them: resolve, decide, open by the decision.
The folders of a case (`/workspace`, `/etc`, …) stand below a temporary one.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest
from authz_client import Client, Decision, Effect
from authz_client.fetch import Hop, HopRefused, fetch, hop_request
from authz_client.files import NotCovered, ObjectChanged, open_decided
from authz_client.paths import ResolvedPath, resolve

from tests.clients.python.fetching import READING_TOOLS
from tests.clients.python.webs import Answer, Request, serving
from tests.support.bundles import write_bundle
from tests.support.server import RunningServer
from tests.support.shared import require_shared
from tests.support.world import CREDENTIALS, PINNED

RULES: Final = """
@id("workspace") permit (principal, action in [Action::"read", Action::"write"], resource is File)
when { resource in Directory::"BASE/workspace" };
@id("linked-root") permit (principal, action in Action::"write", resource is File)
when { resource in [Directory::"BASE/data/link", Directory::"BASE/mnt/real"] };
@id("no-private") forbid (principal, action, resource is File)
when { resource in [Directory::"BASE/workspace/private", Directory::"BASE/data/link/private"] };
@id("no-policy") forbid (principal, action in Action::"write", resource is File)
when { resource in Directory::"BASE/srv/policy" };
@id("no-etc") forbid (principal, action, resource is File) when { resource in Directory::"BASE/etc" };
@id("home") permit (principal, action in Action::"read", resource is File)
when { resource in Directory::"BASE/home" };
@id("home-asks") @requires("approval") forbid (principal, action in Action::"read", resource is File)
when { resource in Directory::"BASE/home" };
@id("web") permit (principal, action in [Action::"connect", Action::"read"], resource is Endpoint)
when { resource.class == "loopback" };
@id("no-secrets-page") forbid (principal, action in Action::"connect", resource is Endpoint)
when { resource.path like "/secrets*" };
@id("pages-choose-nothing") forbid (principal, action in Action::"connect", resource is Endpoint)
when { resource.path like "/only-from-people*" && context.untrusted.contains("destination") };
"""


@dataclass
class Setting:
    """The folders of the cases, and a client of a service whose rules are about them."""

    base: Path
    client: Client
    calls: int = 0

    def request(self, tool: str, arguments: dict[str, Any], **context: Any) -> dict[str, Any]:
        self.calls += 1
        server, _, name = tool.partition("/")
        workspace = str(self.base / "workspace")
        ids = {"trace_id": "t-1", "turn_id": "1", "tool_call_id": f"call-{self.calls}"}
        return {
            "subject": {"agent": "coder-1", "on_behalf_of": "ada", "session": "s-1"},
            "tool": {"server": server, "name": name, "advertised_digest": PINNED},
            "arguments": arguments,
            "provenance": {f"/{argument}": {"source": "user"} for argument in arguments},
            "context": {"cwd": workspace, "sandbox_root": workspace, **ids, **context},
        }

    def resolve(self, path: str) -> ResolvedPath:
        return resolve(path, cwd=str(self.base / "workspace"), home=str(self.base / "home"))

    def decide(self, verb: str, path: str, claim: dict[str, Any] | None) -> Decision:
        arguments = {"path": path} | ({"text": ""} if verb == "write" else {})
        context = {"resolved": {"/path": claim}} if claim is not None else {}
        tool = "fs/file_read" if verb == "read" else "fs/file_edit"
        return self.client.decide(self.request(tool, arguments, **context))


@pytest.fixture(scope="module")
def setting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Setting]:
    base = tmp_path_factory.mktemp("machine").resolve()
    for folder in ("workspace/private", "etc", "home", "srv/policy", "data", "mnt/real/private"):
        (base / folder).mkdir(parents=True)
    for file in ("etc/passwd", "workspace/private/key", "home/secret", "workspace/fine.txt"):
        (base / file).write_text(file)
    (base / "workspace/link").symlink_to(base / "etc")
    (base / "workspace/ok.txt").symlink_to(base / "workspace/private/key")
    (base / "workspace/bait").symlink_to(base / "srv/policy")
    (base / "data/link").symlink_to(base / "mnt/real")
    bundle = write_bundle(
        tmp_path_factory.mktemp("bundle"),
        rules=RULES.replace("BASE", str(base)),
        tools=READING_TOOLS,
        credentials=CREDENTIALS.replace("/home/agent", f"{base}/home").replace(
            "/workspace", f"{base}/workspace"
        ),
    )
    with (
        RunningServer(bundle=bundle, data_dir=tmp_path_factory.mktemp("data") / "var") as server,
        Client(server.url, api_key=server.key, deadline_seconds=30) as client,
    ):
        yield Setting(base=base, client=client)


CASES: Final = {
    "bug-034": ("read", "BASE/workspace-secret/loot.md", "deny"),
    "bug-035": ("read", "BASE/workspace/link/passwd", "deny"),
    "bug-036": ("read", "BASE/workspace/ok.txt", "deny"),
    "bug-037": ("write", "BASE/workspace/bait/new.json", "deny"),
    "bug-038": ("read", "~/secret", "require_approval"),
    "bug-042": ("read", "audit/message.log", "allow"),
    "bug-046": ("write", "\\\\localhost\\C$\\Windows\\x.dll", "deny"),
    "bug-047": ("write", "C:\\ws\\file.txt:payload.exe", "deny"),
    "bug-048": ("read", "file://BASE/workspace/%2e%2e/etc/shadow", "deny"),
    "bug-052": ("write", "BASE/data/link/private/x", "deny"),
}
WITHOUT_A_CLAIM: Final = {"bug-035", "bug-036", "bug-037"}
"""Here the spelling alone looks fine, so that everything hangs on where the path really leads."""


@pytest.mark.parametrize("case", CASES)
def test_a_path(setting: Setting, case: str) -> None:
    verb, path, expect = CASES[case]
    path = path.replace("BASE", str(setting.base))
    found = setting.resolve(path)
    decision = setting.decide(verb, path, found.claim())
    assert decision.effect == expect
    if case in WITHOUT_A_CLAIM:
        assert setting.decide(verb, path, None).allowed
    if decision.allowed:
        return
    # Nothing that was refused is opened, whatever the runtime makes of the answer.
    with pytest.raises(NotCovered):
        open_decided(decision, found, "read" if verb == "read" else "create")


@pytest.mark.external
@pytest.mark.parametrize("case", CASES)
def test_the_cases_expect_what_is_expected_here(case: str) -> None:
    lines = (require_shared() / "cases" / "cases.jsonl").read_text(encoding="utf-8").split("\n")
    published = {found["id"]: found for line in lines if line for found in [json.loads(line)]}
    assert published[case]["expect"] == CASES[case][2]


SPELLINGS: Final = [
    "private/key",
    "./private//key",
    "private/../private/key",
    "ok.txt",
    "link/../workspace/private/key",
    "../workspace/private/./key",
    "BASE/workspace/private/key",
    "BASE/workspace/link/../workspace/ok.txt",
    "file://BASE/workspace/private/key",
    "file://BASE/workspace/pr%69vate/key",
    "~/../workspace/ok.txt",
]


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_every_spelling_of_one_object_gets_its_verdict(setting: Setting, spelling: str) -> None:
    path = spelling.replace("BASE", str(setting.base))
    found = setting.resolve(path)
    assert found.path == str(setting.base / "workspace/private/key")
    decision = setting.decide("read", path, found.claim())
    assert decision.effect is Effect.DENY
    assert "no-private" in [rule.rule for rule in decision.matched]


def test_what_is_allowed_is_opened(setting: Setting) -> None:
    (setting.base / "workspace" / "to_fine").symlink_to("fine.txt")
    for path in ("fine.txt", "to_fine", "link/../workspace/fine.txt"):
        found = setting.resolve(path)
        decision = setting.decide("read", path, found.claim())
        assert decision.allowed
        with open_decided(decision, found, "read") as file:
            assert file.read() == b"workspace/fine.txt"


def test_a_new_file_is_made_where_it_was_decided(setting: Setting) -> None:
    found = setting.resolve("made/here.txt")
    decision = setting.decide("write", "made/here.txt", found.claim())
    assert decision.allowed
    with open_decided(decision, found, "create", make_directories=True) as file:
        file.write(b"new")
    assert (setting.base / "workspace/made/here.txt").read_bytes() == b"new"
    # The state that was decided on is gone: what is there now is another object to decide on.
    with pytest.raises(ObjectChanged):
        open_decided(decision, found, "create")


def test_a_change_between_decision_and_use_is_refused(setting: Setting) -> None:
    (setting.base / "workspace" / "swapped").write_text("fine")
    found = setting.resolve("swapped")
    decision = setting.decide("read", "swapped", found.claim())
    assert decision.allowed
    (setting.base / "workspace" / "swapped").unlink()
    (setting.base / "workspace" / "swapped").symlink_to(setting.base / "etc" / "passwd")
    assert (setting.base / "workspace" / "swapped").read_text() == "etc/passwd"
    with pytest.raises(ObjectChanged):
        open_decided(decision, found, "read")
    # Asked again, it is what it leads to now.
    found = setting.resolve("swapped")
    assert setting.decide("read", "swapped", found.claim()).effect is Effect.DENY


# Every hop is a new request (UR2).


def test_each_hop_of_a_redirect_is_decided(setting: Setting) -> None:
    hops: list[Hop] = []

    def answer(request: Request) -> Answer:
        target = targets.get(request.path)
        return (302, {"Location": target}, b"") if target else (200, {}, b"page")

    with serving(answer) as web:
        base = f"http://127.0.0.1:{web.port}"
        targets = {
            "/a": "/b",
            "/to-metadata": "http://169.254.169.254/latest/meta-data/",
            "/to-mapped": "http://[::ffff:a9fe:a9fe]/latest",
            "/to-userinfo": f"http://user:pw@127.0.0.1:{web.port}/b",
            "/to-secrets": "/%73ecrets/x",
            "/to-other-scheme": "file:///etc/passwd",
            "/to-people": "/only-from-people",
        }

        def get(path: str) -> bytes:
            request = setting.request("web/fetch", {"url": f"{base}{path}"})

            def ask(hop: Hop) -> Decision:
                hops.append(hop)
                return setting.client.decide(hop_request(request, hop))

            return fetch(request["arguments"]["url"], ask=ask).body

        assert get("/a") == b"page"
        assert [hop.url for hop in hops] == [f"{base}/a", f"{base}/b"]
        for path in targets:
            if path == "/a":
                continue
            before = len(web.requests)
            with pytest.raises(HopRefused) as caught:
                get(path)
            assert caught.value.decision.effect is Effect.DENY
            assert len(web.requests) == before + 1, path
        # The same url, chosen by a person, is allowed: it is the redirect that may not choose it.
        assert get("/only-from-people") == b"page"

"""The public failure cases of kind `config`, each told in this product's words.

Nobody writes policy through the service: files are changed by people, and by `authz tools import`, which
writes descriptors. So the cases about saved rules are held by what can be written, and by what cannot.
"""

from pathlib import Path
from typing import Any, Final

import pytest

from authz.app import load_rulesets, protected_places
from authz.bundle.import_run import Import, ImportedFile
from authz.bundle.importing import ImportRefused
from authz.bundle.load import load_bundle
from authz.bundle.mcp_catalogue import Catalogue
from authz.bundle.self_protection import SELF_RULE, Protected
from authz.config import Config
from authz.errors import BundleError
from authz.model.decision import Effect
from authz.service.bundles import ReloadOutcome
from tests.cases.served import SHELL, ids_of_kind, ids_of_tests, told, verdict_of
from tests.support.bundles import write_bundle
from tests.support.reloading import reloading
from tests.support.service import Service
from tests.support.world import CREDENTIALS, MANIFEST, PERMIT_ALL, call, decide_in, world, yes_to

SAMPLE: Final = Path(__file__).parents[2] / "policies"
FETCH: Final = {"url": "https://example.com/"}


async def test_bug_162_an_invalid_narrower_file_is_no_empty_one(tmp_path: Path) -> None:
    """While the service runs, the deny of the last good file stands. At load and in `authz check`:
    `tests/unit/bundle/test_load.py` and `test_check_public_cases.py`.
    """
    scope = 'principal, action in Action::"web/fetch", resource in Domain::"example.com"'
    deny = f'@id("no-fetch") forbid ({scope});'
    async with reloading(tmp_path) as running:
        running.write(deny, "rules/project.cedar")
        assert (await running.reload()).outcome is ReloadOutcome.LOADED
        running.write(deny[:-2], "rules/project.cedar")
        attempt = await running.reload()
        assert attempt.outcome is ReloadOutcome.REJECTED
        assert [problem.file for problem in attempt.problems] == ["rules/project.cedar"]
        body = running.service.body("web/fetch", FETCH)
        body["tool"]["advertised_digest"] = "sha256:" + "a" * 64
        answer = await running.service.decide(body)
        assert verdict_of(answer) == ("deny", "policy.forbid", ["no-fetch"])


@pytest.mark.parametrize(
    ("name", "good"), [("bundle.yaml", MANIFEST), ("credentials.yaml", CREDENTIALS), ("tools/x.yaml", SHELL)]
)
async def test_bug_164_rules_in_a_file_that_holds_none_are_told_to_operators(
    tmp_path: Path, name: str, good: str
) -> None:
    """By the answer of a reload, with the line; the old set decides on. At load and in `authz check`:
    `tests/unit/bundle/test_load.py` and `test_check_public_cases.py`.
    """
    async with reloading(tmp_path) as running:
        before = running.version
        text = good.rstrip()
        wrong = (
            f'{text[:-1]}, "bash": {{"git *": "ask"}}}}'
            if text[-1] == "}"
            else f"{good}bash: {{'git *': ask}}\n"
        )
        running.write(wrong, name)
        response = await running.service.client.post("/policies/reload")
        assert (response.status_code, response.json()["outcome"]) == (200, "rejected")
        [problem] = response.json()["problems"]
        assert (problem["file"], problem["message"]) == (name, "`bash`: unknown key")
        assert problem["line"] == wrong[: wrong.index("bash")].count("\n") + 1
        assert running.version == before


async def test_bug_165_an_empty_allow_list_allows_nothing(tmp_path: Path) -> None:
    """What a caller gets where a list names nobody. What is loaded: `tests/unit/bundle/test_load.py`."""
    nobody = world(credentials=CREDENTIALS.replace('agents: ["*"]', "agents: []"))
    (tmp_path / "a").mkdir()
    async with Service.running(tmp_path / "a", {"default": nobody}) as service:
        refused = await service.client.post(
            "/decide", json=service.body("fs/file_read", {"path": "/workspace/a"})
        )
        assert (refused.status_code, refused.json()["code"]) == (403, "subject.not_bound")
        [record] = await service.records()
        assert (record["type"], record["code"]) == ("request.refused", "subject.not_bound")
    unbound = world(tools=SHELL.replace('"runtime"', ""))
    (tmp_path / "b").mkdir()
    async with Service.running(tmp_path / "b", {"default": unbound}) as service:
        answer, record = await told(service, "shell/run", {"command": "true"})
        assert verdict_of(answer) == ("deny", "tool.unknown", [])
        assert "not bound" in record["internal"]


CATALOGUE: Final = Catalogue(
    entries=(
        {"name": "ping", "description": "Answers.", "inputSchema": {"type": "object", "properties": {}}},
    ),
    server_name="notes",
    protocol="2025-11-25",
)
IMPORT: Final = Import(alias="notes", identity="notes-server", command=("notes-server",))


def more_tools(*names: str) -> Catalogue:
    """The catalogue, with further tools like the first."""
    first = CATALOGUE.entries[0]
    entries: tuple[dict[str, Any], ...] = tuple({**first, "name": name} for name in ("ping", *names))
    return Catalogue(entries=entries, server_name="notes", protocol="2025-11-25")


def test_bug_166_what_cannot_be_read_is_not_written_over(tmp_path: Path) -> None:
    """Nor what somebody else has written meanwhile: the second of two writers is told, nothing is lost."""
    folder = write_bundle(tmp_path, tools={"shell": SHELL})
    path = folder / "tools" / "notes.yaml"
    ImportedFile.read(path, IMPORT).bring_in(CATALOGUE)
    good = path.read_bytes()
    for malformed in (good + b"tools: [", good + b"tools: []\n", b"", b"server: {}\n", b"\xff" + good):
        path.write_bytes(malformed)
        with pytest.raises((BundleError, ImportRefused)):
            ImportedFile.read(path, IMPORT).bring_in(more_tools("new"))
        assert path.read_bytes() == malformed
    path.write_bytes(good)
    first, second = (ImportedFile.read(path, IMPORT) for _ in range(2))
    assert first.bring_in(more_tools("mine")).written
    theirs = path.read_bytes()
    assert theirs.startswith(good)
    with pytest.raises(ImportRefused, match="changed meanwhile"):
        second.bring_in(more_tools("other"))
    assert path.read_bytes() == theirs
    assert ImportedFile.read(path, IMPORT).bring_in(more_tools("mine", "other")).written
    assert {name for _, name in load_bundle(folder, Protected()).tools} == {"run", "ping", "mine", "other"}


async def test_bug_168_what_one_person_approved_is_no_rule_for_others(tmp_path: Path) -> None:
    """An approval holds for the call of the person that it was given to, and no request writes rules."""
    rules = (
        f'{PERMIT_ALL} @id("asks") @requires("approval") '
        'forbid (principal, action in Action::"read", resource in Directory::"/home/user-1");'
    )
    ruleset = world(rules)
    mine = call("fs/file_read", path="/home/user-1/a", user="user-1")
    yes = yes_to(ruleset, mine)
    assert decide_in(ruleset, mine, approvals=yes).decision.effect is Effect.ALLOW
    for other in (
        call("fs/file_read", path="/home/user-1/a", user="user-2"),
        call("fs/file_read", path="/home/user-1/a", user=None),
        call("fs/file_read", path="/home/user-1/a", user="user-1", session="s-2"),
        call("fs/file_read", path="/home/user-1/b", user="user-1"),
    ):
        assert decide_in(ruleset, other, approvals=yes).decision.effect is Effect.REQUIRE_APPROVAL

    async with reloading(tmp_path) as running:
        before = {path: path.read_bytes() for path in running.folder.rglob("*") if path.is_file()}
        saved = {"rule": "allow read /home/user-1/**", "scope": "me"}
        client = running.service.client
        for method in ("POST", "PUT", "PATCH"):
            for path in ("/policies", "/policies/rules", "/policies/rules/main.cedar"):
                assert (await client.request(method, path, json=saved)).status_code in (404, 405), path
        body = running.service.body("fs/file_read", {"path": "/home/user-1/a"}) | {"remember": saved}
        assert (await client.post("/decide", json=body)).status_code == 400
        assert {path: path.read_bytes() for path in running.folder.rglob("*") if path.is_file()} == before


async def test_bug_169_the_source_of_policy_is_out_of_reach_whatever_the_allow(tmp_path: Path) -> None:
    """The service's own bundle lies in the workspace, and everything is permitted there.

    Other tools and spellings: `tests/property/test_out_of_reach.py`.
    """
    workspace = tmp_path / "workspace"
    folder = write_bundle(
        workspace / ".policy", credentials=CREDENTIALS.replace("/workspace", str(workspace))
    )
    config = Config(policies=folder, data_dir=tmp_path / "var")
    config.data_dir.mkdir()
    rulesets = load_rulesets(config, protected_places(config))
    async with Service.running(config.data_dir, rulesets, config=config) as service:
        for name, effect in (
            (".policy/host.yaml", "deny"),
            (".policy/rules/main.cedar", "deny"),
            ("host.yaml", "allow"),
        ):
            arguments = {"path": str(workspace / name), "text": "x"}
            answer, record = await told(
                service,
                "fs/file_edit",
                arguments,
                context={"cwd": str(workspace), "sandbox_root": str(workspace)},
            )
            assert answer["effect"] == effect, name
            assert answer["authority"] == "A1"
            if effect == "deny":
                assert verdict_of(answer) == ("deny", "policy.forbid", [SELF_RULE])
                assert record["matched"][0]["reason"]


async def test_bug_170_what_guards_an_agent_is_protected_before_it_exists(tmp_path: Path) -> None:
    """By name, in the sample bundle, which permits writing in the workspace. Nothing looks for them."""
    ruleset = load_bundle(SAMPLE, Protected())
    async with Service.running(tmp_path, {"default": ruleset}) as service:
        for path, verdict in (
            ("/workspace/.agent/settings.json", ("deny", "policy.forbid", ["hook-settings"])),
            ("/workspace/.claude/hooks/new.py", ("deny", "policy.forbid", ["hook-settings"])),
            ("/workspace/agent/settings.json", ("allow", "policy.permit", ["workspace-write"])),
        ):
            answer, _ = await told(service, "fs/file_write", {"path": path, "content": "x"})
            assert verdict_of(answer) == verdict, path


def test_every_case_of_this_kind_is_here() -> None:
    assert ids_of_tests(globals()) == ids_of_kind("config")

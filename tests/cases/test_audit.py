"""The public failure cases of kind `audit`, each told in this product's words."""

import contextlib
import json
import sqlite3
from pathlib import Path
from typing import Any, Final

import pytest

from authz.cli import log_verify
from authz.store.sqlite_connection import SqliteWriteConnection
from authz.store.write_connection import WriteConnection
from tests.cases.served import SHELL, ids_of_kind, ids_of_tests, told, verdict_of
from tests.support.command import run_command
from tests.support.service import Service
from tests.support.world import PERMIT_ALL, TEXT, tool, tool_file, world

THINGS: Final = [{"verb": "read", "kind": "id", "type": "thing", "resource": "all"}]
HUB: Final = tool_file(
    "x", tool("x", THINGS, {}), tool("echo", THINGS, {}), tool("chat_with_agent", THINGS, {"agent": TEXT})
)


@pytest.mark.parametrize("always", [True, False])
async def test_bug_188_a_denied_call_leaves_its_record(tmp_path: Path, always: bool) -> None:
    """One, with the rule and where it stands, also where the tool is hidden since it is always denied."""
    when = "" if always else ' when { context.session.id == "s-1" }'
    deny = (
        f'@id("no-x") @reason("Not this one.") forbid (principal, action in Action::"x/x", resource){when};'
    )
    ruleset = world({"allow": PERMIT_ALL, "deny": deny}, tools=HUB)
    async with Service.running(tmp_path, {"default": ruleset}) as service:
        answer, record = await told(service, "x/x")
        assert (answer["effect"], record["effect"], len(await service.records())) == ("deny", "deny", 1)
        assert (record["policy_version"], record["subject"]["on_behalf_of"]) == (ruleset.version, "ada")
        if always:
            assert (record["code"], "no-x" in record["internal"]) == ("tool.unknown", True)
        else:
            expected = {
                "rule": "no-x",
                "kind": "forbid",
                "file": "rules/deny.cedar",
                "line": 1,
                "reason": "Not this one.",
            }
            assert record["matched"] == [expected]
            assert record["fingerprint"] == answer["fingerprint"]


async def test_bug_189_a_refusal_that_is_data_is_no_success(tmp_path: Path) -> None:
    """HTTP says 200; answer, record, search and metrics say deny."""
    deny = '@id("no-chat") forbid (principal, action, resource) when { context.arguments has agent };'
    async with Service.running(tmp_path, {"default": world(PERMIT_ALL + deny, tools=HUB)}) as service:
        answer, record = await told(service, "x/chat_with_agent", {"agent": "b"})
        assert verdict_of(answer) == ("deny", "policy.forbid", ["no-chat"])
        assert record["effect"] == "deny"
        assert len(await service.records(effect="deny")) == 1
        assert await service.records(effect="allow") == []
        metrics = (await service.client.get("/metrics")).text
        counted = [line for line in metrics.splitlines() if line.startswith("authz_decisions_total{")]
        assert counted
        assert all('effect="deny"' in line for line in counted if not line.endswith(" 0.0"))


async def test_bug_190_no_allow_without_a_durable_record(tmp_path: Path) -> None:
    """A judgement call, held to its stricter answer: where the log cannot be written, nothing is allowed."""
    opened: list[WriteConnection] = []

    def keep(inner: WriteConnection) -> WriteConnection:
        opened.append(inner)
        return inner

    rulesets = {"default": world(tools=SHELL)}
    async with Service.running(tmp_path, rulesets, wrap_connection=keep) as service:
        assert isinstance(opened[0], SqliteWriteConnection)
        raw = opened[0]._connection  # made to refuse, as a full disk would
        assert raw is not None
        command = {"command": "git commit -m x"}
        answer, _ = await told(service, "shell/run", command)
        assert answer["effect"] == "allow"
        raw.execute("PRAGMA query_only = ON")
        body = service.body("shell/run", command)
        for _ in range(2):
            refused = await service.client.post("/decide", json=body)
            assert (refused.status_code, refused.json()["code"]) == (503, "store.unavailable")
            assert "effect" not in refused.json()
        ready = await service.client.get("/readyz")
        assert (ready.status_code, ready.json()["components"]["store"]) == (503, "unavailable")
        raw.execute("PRAGMA query_only = OFF")
        # Nothing was reserved by the call that was not answered: it is a new one still.
        again = await service.decide(body)
        assert (again["effect"], again.get("repeated")) == ("allow", None)
        assert len(await service.records(effect="allow")) == 2


async def test_bug_193_an_auditor_can_tell_a_denied_tool_from_an_unknown_one(tmp_path: Path) -> None:
    """A judgement call: the caller cannot tell them apart, which is allowed; the record can."""
    deny = '@id("no-echo") forbid (principal, action in Action::"x/echo", resource);'
    async with Service.running(tmp_path, {"default": world(PERMIT_ALL + deny, tools=HUB)}) as service:
        denied, of_denied = await told(service, "x/echo")
        unknown, of_unknown = await told(service, "x/ech0")
        own = {"decision_id", "request_digest", "sequence"}
        assert {name: denied[name] for name in denied.keys() - own} == {
            name: unknown[name] for name in unknown.keys() - own
        }
        assert verdict_of(denied) == ("deny", "tool.unknown", [])
        assert "no-echo" not in json.dumps(denied)
        assert of_denied["internal"] == "hidden: `read` is denied whatever the arguments (no-echo)"
        assert of_unknown["internal"] == "no such tool in the bundle"


async def test_bug_195_missing_newest_records_are_noticed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With the heads set back and the checkpoints gone: only the anchor beside the database remembers.

    Other ways to cut a log off: `tests/store/test_log_verify.py`.
    """
    async with Service.running(tmp_path, {"default": world(tools=SHELL)}) as service:
        for _ in range(12):
            await told(service, "shell/run", {"command": "true"})
        [writer] = {record["writer"] for record in await service.records()}
        (tmp_path / "jwks.json").write_bytes((await service.client.get("/.well-known/jwks.json")).content)
    verify = ("--data-dir", str(tmp_path), "--jwks", str(tmp_path / "jwks.json"), "--json")
    assert run_command(log_verify, *verify) == 0
    assert json.loads(capsys.readouterr().out)["records"] == 12
    with contextlib.closing(sqlite3.connect(tmp_path / "authz.db", isolation_level=None)) as database:
        for table in ("events", "log_checkpoints"):
            database.execute(f"DROP TRIGGER {table}_no_delete")
        database.execute("DELETE FROM events WHERE sequence > 7")
        database.execute(
            "UPDATE log_heads SET sequence = 7, hash = (SELECT hash FROM events WHERE sequence = 7)"
        )
        database.execute("DELETE FROM log_checkpoints")
    assert run_command(log_verify, *verify) == 1
    findings: list[dict[str, Any]] = json.loads(capsys.readouterr().out)["findings"]
    assert (8, "truncated", writer) in {(one["sequence"], one["kind"], one.get("writer")) for one in findings}


async def test_bug_197_the_record_names_the_rule_that_asked_and_what_it_overruled(tmp_path: Path) -> None:
    """Each with its source: the user's ask decides, the project's permit is listed."""
    command = "context.arguments has command && context.arguments.command"
    user = (
        '// of the user\n@id("gh-asks") @requires("approval") @reason("It leaves the machine.")\n'
        f'forbid (principal, action, resource) when {{ {command} like "gh *" }};'
    )
    project = f'@id("gh-pr-list") permit (principal, action, resource) when {{ {command} == "gh pr list" }};'
    ruleset = world({"project": project, "user": user}, tools=SHELL)
    async with Service.running(tmp_path, {"default": ruleset}) as service:
        answer, record = await told(service, "shell/run", {"command": "gh pr list"})
    assert verdict_of(answer) == ("require_approval", "approval.required", ["gh-asks"])
    for told_rules in (answer["matched"], record["matched"]):
        assert [(rule["file"], rule["line"], rule["kind"]) for rule in told_rules] == [
            ("rules/user.cedar", 2, "ask")
        ]
    assert record["matched"][0]["reason"] == "It leaves the machine."
    assert [(rule["rule"], rule["file"]) for rule in record["overruled"]] == [
        ("gh-pr-list", "rules/project.cedar")
    ]


def test_every_case_of_this_kind_is_here() -> None:
    assert ids_of_tests(globals()) == ids_of_kind("audit")

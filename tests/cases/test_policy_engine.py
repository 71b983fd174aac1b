"""The public failure cases of kind `policy-engine`, each told in this product's words.

A case with two right answers is held to the stricter one that the product documents. What another test
already holds of a case is named there, and the test here is about the rest.
"""

import os
from pathlib import Path
from typing import Final

import pytest

from authz.app import load_rulesets, protected_places
from authz.bundle.load import load_bundle, read_sources
from authz.bundle.self_protection import Protected
from authz.config import Config
from authz.errors import BundleError
from authz.service.bundles import BundleState, ReloadOutcome
from tests.cases.served import SHELL, ids_of_kind, ids_of_tests, rules_of, told, told_of, verdict_of
from tests.support.bundles import write_bundle
from tests.support.reloading import Reloading, reloading
from tests.support.service import Service
from tests.support.world import ENTITIES, PERMIT_ALL, TEXT, tool, tool_file, world

READ: Final = {"path": "/workspace/a"}
FORBID_READING: Final = (
    '@id("no-reading") @reason("Closed.") '
    'forbid (principal, action in Action::"read", resource in Directory::"/workspace");'
)
STARTS: Final = 20


async def test_bug_144_a_rule_that_fails_is_a_deny_and_no_abstention(tmp_path: Path) -> None:
    """A back end that failed was skipped, and the default allowed (PE1)."""
    failing = (
        '@id("back-end-a") forbid (principal, action, resource) '
        "when { 9223372036854775807 + context.now.toTime().toMilliseconds() > 0 };"
    )
    ruleset = world({"default": PERMIT_ALL, "a": failing}, tools=SHELL)
    async with Service.running(tmp_path, {"default": ruleset}) as service:
        answer, record = await told(service, "shell/run", {"command": "id"})
    assert verdict_of(answer) == ("deny", "policy.error", ["back-end-a"])
    assert (record["matched"][0]["file"], record["matched"][0]["line"]) == ("rules/a.cedar", 1)


async def test_bug_146_before_there_is_a_bundle_nothing_is_answered(tmp_path: Path) -> None:
    """Stricter than a deny that says so: the service does not start, and what has no bundle is not ready.

    A start without a bundle ends with code 2: `tests/e2e/test_serve.py`. One that is too old: `bundle.stale`
    in `tests/api/test_policies.py`.
    """
    (tmp_path / "empty").mkdir()
    config = Config(policies=tmp_path / "empty", data_dir=tmp_path)
    with pytest.raises(BundleError) as caught:
        load_rulesets(config, protected_places(config))
    assert any("the file is missing" in problem.message for problem in caught.value.problems)

    async with Service.running(tmp_path, {}) as service:
        ready = await service.client.get("/readyz")
        assert (ready.status_code, ready.json()["status"]) == (503, "not_ready")
        assert ready.json()["components"]["bundle"] == "absent"
        refused = await service.client.post("/decide", json=service.body("fs/file_read", READ))
        assert (refused.status_code, refused.headers["content-type"]) == (401, "application/problem+json")
        assert "effect" not in refused.json()


async def test_bug_148_nothing_that_a_rule_reads_is_left_out_of_what_is_remembered(tmp_path: Path) -> None:
    """The same call with another tier, under new ids and under those of the call that was allowed."""
    doc = tool(
        "read",
        [{"verb": "read", "kind": "id", "type": "document", "at": "/id"}],
        {"id": TEXT, "tier": TEXT},
        roles={"/tier": "option"},
    )
    scope = '@id("gold") permit (principal, action in Action::"doc/read", resource)'
    rules = scope + ' when { context.arguments.tier == "gold" };'
    ruleset = world(rules, tools=tool_file("doc", doc))
    async with Service.running(tmp_path, {"default": ruleset}) as service:
        gold = service.body("doc/read", {"id": "d1", "tier": "gold"})
        answer, _ = await told_of(service, gold)
        assert verdict_of(answer) == ("allow", "policy.permit", ["gold"])
        answer, _ = await told(service, "doc/read", {"id": "d1", "tier": "free"})
        assert verdict_of(answer) == ("deny", "policy.no_match", [])
        answer, _ = await told_of(service, gold | {"arguments": {"id": "d1", "tier": "free"}})
        assert verdict_of(answer) == ("deny", "operation.conflict", [])


def write_again(path: Path, text: str, like: os.stat_result) -> None:
    """A new file that looks like an old one from outside: name, size and times are the same."""
    path.write_text(text)
    os.utime(path, ns=(like.st_atime_ns, like.st_mtime_ns))
    assert path.stat().st_size == like.st_size


async def test_bug_150_a_rule_that_was_made_again_is_another_rule(tmp_path: Path) -> None:
    """The same name, file, size and time, and other content."""
    rule = '@id("recreated") {} (principal, action, resource in Directory::"/workspace");'
    async with reloading(tmp_path) as running:
        path = running.folder / "rules" / "recreated.cedar"
        path.write_text(rule.format("permit"))
        first = path.stat()
        assert (await running.reload()).outcome is ReloadOutcome.LOADED
        allowing = running.version
        answer, _ = await told(running.service, "fs/file_read", READ)
        assert verdict_of(answer) == ("allow", "policy.permit", ["everything", "recreated"])
        path.unlink()
        assert (await running.reload()).outcome is ReloadOutcome.LOADED
        write_again(path, rule.format("forbid"), first)
        assert (await running.reload()).outcome is ReloadOutcome.LOADED
        answer, _ = await told(running.service, "fs/file_read", READ)
        assert verdict_of(answer) == ("deny", "policy.forbid", ["recreated"])
        assert answer["policy_version"] == read_sources(running.folder).version != allowing


async def acknowledged(running: Reloading) -> None:
    """Reload as an operator does; the answer is the acknowledgement."""
    response = await running.service.client.post("/policies/reload")
    assert (response.status_code, response.json()["outcome"]) == (200, "loaded")


async def test_bug_152_a_deny_holds_when_its_reload_is_acknowledged(tmp_path: Path) -> None:
    """For the call that was allowed before and is sent again, and for a new one like it."""
    async with reloading(tmp_path) as running:
        service = running.service
        seen = service.body("fs/file_read", READ)
        assert (await service.decide(seen))["effect"] == "allow"
        running.write(f"{PERMIT_ALL}\n{FORBID_READING}")
        await acknowledged(running)
        for body in (seen, service.body("fs/file_read", READ)):
            answer, _ = await told_of(service, body)
            assert verdict_of(answer) == ("deny", "policy.forbid", ["no-reading"])


async def test_bug_153_every_start_from_the_same_files_gives_the_same_answer(tmp_path: Path) -> None:
    """Twenty starts of the service over one folder. In processes of their own: `tests/property`."""
    folder = write_bundle(
        tmp_path / "bundle",
        rules='@id("branch") permit (principal, action in Action::"desk/payment", resource) '
        'when { principal.on_behalf_of in Group::"branch_manager" };',
        entities="groups: {branch_manager: {}}\nusers: {user-1: {groups: [branch_manager]}}\nagents: {}\n",
        tools=tool_file(
            "desk",
            tool(
                "payment",
                [{"verb": "transact", "kind": "id", "type": "desk", "resource": "main"}],
                {},
                side_effect="cumulative",
            ),
        ),
    )
    answers = set()
    for _ in range(STARTS):
        rulesets = {"default": load_bundle(folder, Protected())}
        async with Service.running(tmp_path / "data", rulesets) as service:
            headers = {"Authorization": service.client.headers["Authorization"]}
            body = service.body("desk/payment", {}, subject={"agent": "coder-1", "on_behalf_of": "user-1"})
            body["context"]["trace_id"] = f"start-{len(await service.records())}"
            answer = await service.decide(body, headers)
            answers.add((*verdict_of(answer)[:2], *rules_of(answer), answer["policy_version"]))
    assert len(answers) == 1
    assert answers.pop()[:3] == ("allow", "policy.permit", "branch")


async def test_bug_154_a_partial_load_never_becomes_current(tmp_path: Path) -> None:
    """One node cannot read a file for a moment: it says so, decides as before, and agrees with the other.

    What is no bundle in other ways: `tests/unit/service/test_reload_property.py`.
    """
    async with reloading(tmp_path) as second:
        role = second.folder / "rules" / "role.cedar"
        role.write_text(FORBID_READING)
        (tmp_path / "first").mkdir()
        first_node = {"default": load_bundle(second.folder, Protected())}
        async with Service.running(tmp_path / "first", first_node) as first:
            assert (await second.reload()).outcome is ReloadOutcome.LOADED
            version = second.version
            role.rename(tmp_path / "away")
            role.symlink_to(tmp_path / "nowhere")
            attempt = await second.reload()
            assert attempt.outcome is ReloadOutcome.REJECTED
            assert [problem.file for problem in attempt.problems] == ["rules/role.cedar"]
            assert second.bundles.state("default") is BundleState.DEGRADED
            for service in (first, second.service):
                answer, _ = await told(service, "fs/file_read", READ)
                assert verdict_of(answer) == ("deny", "policy.forbid", ["no-reading"])
            assert second.version == version


async def test_bug_155_what_was_revoked_is_gone_with_the_next_request(tmp_path: Path) -> None:
    """Nothing of a session outlives the grant: neither its operation nor what was compiled for its agent."""
    rules = '@id("granted") permit (principal in Group::"fetchers", action, resource);'
    granting = ENTITIES.replace("groups:", "groups:\n  fetchers: {}", 1).replace(
        "coder-1: {}", "coder-1: {groups: [fetchers]}"
    )
    async with reloading(tmp_path) as running:
        service = running.service
        running.write(rules)
        running.write(granting, "entities.yaml")
        await acknowledged(running)
        seen = service.body("fs/file_read", READ)
        answer, _ = await told_of(service, seen)
        assert verdict_of(answer) == ("allow", "policy.permit", ["granted"])
        running.write(granting.replace("groups: [fetchers]", "groups: []"), "entities.yaml")
        await acknowledged(running)
        for body in (seen, service.body("fs/file_read", READ)):
            answer, record = await told_of(service, body)
            # Whom no permit can match any more, the tool is not shown at all; the record says why.
            assert verdict_of(answer) == ("deny", "tool.unknown", [])
            assert "no permit could match" in record["internal"]


async def test_bug_158_an_ask_that_is_shown_asks(tmp_path: Path) -> None:
    """One that never could is told by `authz check`: `tests/unit/bundle/test_check_public_cases.py`.

    That each rule of the sample can change a verdict: `tests/policies/test_bundle_properties.py`.
    """
    ask = (
        '@id("push-asks") @requires("approval") forbid (principal, action, resource) '
        'when { context.arguments has command && context.arguments.command like "git push*" };'
    )
    ruleset = world({"allow": PERMIT_ALL, "ask": ask}, tools=SHELL)
    async with Service.running(tmp_path, {"default": ruleset}) as service:
        shown = (await service.client.get("/policies")).json()["rules"]
        assert "push-asks" in [rule["rule"] for rule in shown]
        answer, record = await told(service, "shell/run", {"command": "git push"})
        assert verdict_of(answer) == ("require_approval", "approval.required", ["push-asks"])
        assert [rule["rule"] for rule in record["overruled"]] == ["everything"]
        other, _ = await told(service, "shell/run", {"command": "git status"})
        assert verdict_of(other) == ("allow", "policy.permit", ["everything"])


TOKEN_GO: Final = {"path": "/workspace/internal/token/token.go"}


@pytest.mark.parametrize("exception", [False, True])
async def test_bug_159_a_narrower_permit_lifts_no_deny_but_its_owner_may(
    tmp_path: Path, exception: bool
) -> None:
    """A judgement call, held to its stricter answer: the exception stands in the rule that denies."""
    user = (
        '@id("user-token") forbid (principal, action in Action::"read", resource is File) '
        'when { resource.names.contains("token") }'
    )
    user += ' unless { resource in Directory::"/workspace/internal/token" };' if exception else ";"
    project = (
        '@id("project-internal") '
        'permit (principal, action in Action::"read", resource in Directory::"/workspace/internal");'
    )
    ruleset = world({"project": project, "user": user})
    async with Service.running(tmp_path, {"default": ruleset}) as service:
        answer, record = await told(service, "fs/file_read", TOKEN_GO)
    if exception:
        assert verdict_of(answer) == ("allow", "policy.permit", ["project-internal"])
    else:
        assert verdict_of(answer) == ("deny", "policy.forbid", ["user-token"])
        assert record["matched"][0]["file"] == "rules/user.cedar"


async def test_bug_199_a_freeze_is_a_rule_and_no_text(tmp_path: Path) -> None:
    """In the freeze nothing is changed; outside it a person is asked, about this table and statement."""
    database = tool(
        "execute",
        [
            {
                "verb": "execute",
                "kind": "sql",
                "at": "/sql",
                "database": "prod",
                "dialect": "postgres",
                "default_schema": "shop",
            }
        ],
        {"sql": TEXT},
        roles={"/sql": "command"},
        side_effect="cumulative",
    )
    rules = """
    @id("work") permit (principal, action, resource);
    @id("freeze") @reason("Code freeze.")
    forbid (principal, action in [Action::"A1", Action::"A2", Action::"A3"], resource)
    when { context.now < datetime("2026-12-01T00:00:00Z") };
    @id("destructive") @requires("approval")
    forbid (principal, action in Action::"delete", resource in Database::"prod");
    """
    ruleset = world(rules, tools=tool_file("db", database))
    async with Service.running(tmp_path, {"default": ruleset}) as service:
        drop = {"sql": "DROP TABLE customers"}
        answer, record = await told(service, "db/execute", drop)
        assert verdict_of(answer) == ("deny", "policy.forbid", ["freeze"])
        assert record["matched"][0]["reason"] == "Code freeze."
        answer, _ = await told(service, "db/execute", {"sql": "SELECT name FROM customers"})
        assert answer["effect"] == "allow"
        service.clock.at_ms += 24 * 3_600_000
        asked, _ = await told(service, "db/execute", drop)
        assert verdict_of(asked) == ("require_approval", "approval.required", ["destructive"])
        assert "sql:prod/shop/customers" in {access["uri"] for access in asked["accesses"]}
        other, _ = await told(service, "db/execute", {"sql": "DROP TABLE orders"})
        assert other["fingerprint"] != asked["fingerprint"]


async def test_bug_203_a_mode_that_asks_about_all_commands_asks_about_harmless_ones(tmp_path: Path) -> None:
    """There is no list of safe programs that ranks above a rule; nor does a permit."""
    mode = '@id("mode") @requires("approval") forbid (principal, action in Action::"shell/run", resource);'
    safe = '@id("safe") permit (principal, action, resource == Program::"ls");'
    ruleset = world({"safe": f"{safe}\n{PERMIT_ALL}", "zz": mode}, tools=SHELL)
    async with Service.running(tmp_path, {"default": ruleset}) as service:
        for command in ("ls -la", "ls", "true", "pwd"):
            answer, _ = await told(service, "shell/run", {"command": command})
            assert verdict_of(answer) == ("require_approval", "approval.required", ["mode"])


def test_every_case_of_this_kind_is_here() -> None:
    assert ids_of_tests(globals()) == ids_of_kind("policy-engine")

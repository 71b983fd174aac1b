"""The public failure cases of kind `delegation`, each told in this product's words: by chains that are real.

A root is issued to the first agent's key and narrowed offline for the next, which calls with chain and proof.
What is answered is also on record.
"""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest
from authz_client.capabilities import Reason, Refused, generate_key

from tests.cases.served import SHELL, ids_of_kind, ids_of_tests, rules_of, told_of, verdict_of
from tests.support.holders import Holder, entry, exchange, issue
from tests.support.service import Service
from tests.support.world import BANK, FS, PERMIT_ALL, PINNED, WEB, world

TOOLS: Final = {"fs": FS, "shell": SHELL, "bank": BANK, "web": WEB}
WORK: Final = (
    entry(["fs/file_read", "fs/file_edit", "fs/file_remove"], "file:///workspace"),
    entry("shell/run", ["file:///workspace", "file:///home", "program:ls", "program:rm", "program:make"]),
)

VERBS: Final = entry(["read", "write", "delete"], "file:///workspace")
"""Rights to verbs are given also to whoever may see no tool for them."""


@asynccontextmanager
async def serving(folder: Path, rules: str) -> AsyncIterator[Service]:
    """A service by these rules, whatever they say; and everything that no rule is about is permitted."""
    async with Service.running(folder, {"default": world(PERMIT_ALL + rules, tools=TOOLS)}) as service:
        yield service


async def asked(
    service: Service, holder: Holder, name: str, arguments: Mapping[str, Any], **more: Any
) -> tuple[str, str, list[str]]:
    """(effect, code, rules) of the holder's call."""
    answer, _ = await told_of(service, holder.body(name, arguments, **more))
    return verdict_of(answer)


async def without(service: Service, agent: str, name: str, arguments: Mapping[str, Any], **more: Any) -> Any:
    """The same of a call by an agent that presents nothing."""
    subject = {"agent": agent, "on_behalf_of": "ada", "session": f"s-{agent}", **more}
    answer, _ = await told_of(service, service.body(name, arguments, subject=subject))
    return verdict_of(answer)


def run(command: str) -> tuple[str, dict[str, str]]:
    return "shell/run", {"command": command}


def read(path: str) -> tuple[str, dict[str, str]]:
    return "fs/file_read", {"path": path}


def edit(path: str) -> tuple[str, dict[str, str]]:
    return "fs/file_edit", {"path": path, "text": "x"}


def allow(*rules: str) -> tuple[str, str, list[str]]:
    return "allow", "policy.permit", list(rules or ("everything",))


def deny(*rules: str) -> tuple[str, str, list[str]]:
    return "deny", "policy.forbid", list(rules)


def ask(*rules: str) -> tuple[str, str, list[str]]:
    return "require_approval", "approval.required", list(rules)


def refuse(code: str) -> tuple[str, str, list[str]]:
    return "deny", f"capability.{code}", []


@pytest.mark.parametrize("denied", ['principal == Agent::"main"', 'principal.on_behalf_of == User::"ada"'])
async def test_bug_087_what_is_denied_to_whoever_stands_above_is_denied_below(
    tmp_path: Path, denied: str
) -> None:
    """Whoever launched it with whatever was approved for the launch."""
    forbid = f'@id("no-shell") forbid (principal, action in Action::"execute", resource) when {{ {denied} }};'
    async with serving(tmp_path, forbid) as service:
        main = await issue(service, *WORK, agent="main", max_depth=2)
        child = main.hand_on("sub-1").hand_on("sub-2")
        assert await asked(service, child, *run("ls /home/user-1/.ssh")) == deny("no-shell")
        assert await asked(service, child, *read("/workspace/a")) == allow()
        # Whoever is beneath nobody that this is denied to may.
        other = await issue(service, *WORK, agent="other", on_behalf_of="grace")
        assert await asked(service, other, *run("ls /home/user-1/.ssh")) == allow()


async def test_bug_088_a_planner_gets_no_writes_done_by_a_writer(tmp_path: Path) -> None:
    forbid = '@id("plans") forbid (principal == Agent::"plan", action in Action::"write", resource);'
    async with serving(tmp_path, forbid) as service:
        plan = await issue(service, VERBS, agent="plan", max_depth=1)
        assert await asked(service, plan.hand_on("general"), *edit("/workspace/a")) == deny("plans")
        general = await issue(service, *WORK, agent="general")
        assert await asked(service, general, *edit("/workspace/a")) == allow()


async def test_bug_090_the_childs_own_denies_count(tmp_path: Path) -> None:
    forbid = (
        '@id("private") forbid (principal == Agent::"sub", action in Action::"read", '
        'resource in Directory::"/workspace/private");'
    )
    async with serving(tmp_path, forbid) as service:
        main = await issue(service, *WORK, agent="main", max_depth=1)
        child = main.hand_on("sub")
        assert await asked(service, child, *read("/workspace/private/a")) == deny("private")
        assert await asked(service, child, *read("/workspace/a")) == allow()
        assert await asked(service, main, *read("/workspace/private/a")) == allow()


async def test_bug_091_a_parents_ask_replaces_no_deny_of_the_child(tmp_path: Path) -> None:
    """The meet of deny and ask is deny, of allow and ask ask; whichever stands first."""
    child_rule = (
        '@id("only-ls") forbid (principal == Agent::"validator", action, resource) '
        'unless { resource in Program::"ls" || action in Action::"read" };'
    )
    parent_rule = (
        '@id("main-asks") @requires("approval") forbid (principal == Agent::"main", action, resource) '
        'when { !(action in Action::"issue") };'
    )
    for name, rules in (("first", child_rule + parent_rule), ("last", parent_rule + child_rule)):
        folder = tmp_path / name
        folder.mkdir()
        async with serving(folder, rules) as service:
            main = await issue(service, *WORK, agent="main", max_depth=1)
            child = main.hand_on("validator")
            assert await asked(service, child, *run("rm -rf build")) == deny("only-ls")
            assert await asked(service, child, *run("ls build")) == ask("main-asks")


async def test_bug_092_what_a_child_was_given_holds_under_a_parent_that_may_everything(
    tmp_path: Path,
) -> None:
    async with serving(tmp_path, "") as service:
        wide = (*WORK, entry("shell/run", ["program:curl", "domain:example.com"]))
        main = await issue(service, *wide, agent="main", max_depth=1)
        reader = main.hand_on("reader", entry("fs/file_read", "file:///workspace"))
        answer, record = await told_of(service, reader.body(*run("curl https://x.example.com")))
        assert verdict_of(answer) == refuse("right_missing")
        assert answer["capability"] == {
            "reason": "right_missing",
            "link": 1,
            "agent": "reader",
            "component": "R",
        }
        assert record["capability"]["refused"] == answer["capability"]
        assert (await asked(service, main, *run("curl https://x.example.com")))[0] == "allow"


async def test_bug_093_an_agent_is_no_beginning_of_a_name(tmp_path: Path) -> None:
    """Neither its grants nor its capability are those of an agent or session whose id begins like it."""
    rules = (
        '@id("grant") permit (principal == Agent::"agentA", action in Action::"read", resource);'
        '@id("public") permit (principal, action in Action::"read", resource in Directory::"/workspace/pub");'
        '@id("given") permit (principal, action == Action::"issue", resource);'
    )
    async with Service.running(tmp_path, {"default": world(rules, tools=TOOLS)}) as service:
        holder = await issue(service, entry("fs/file_read", "file:///workspace"), agent="agentA")
        assert await asked(service, holder, *read("/workspace/deploy.sh")) == allow("grant")
        alike = "agentA/chan/1#sub-0"
        for agent, session in ((alike, "s-1"), ("agentB", alike), ("agentB", "agentA")):
            found = await without(service, agent, *read("/workspace/deploy.sh"), session=session)
            assert found == ("deny", "policy.no_match", [])
            thief = replace(holder, agent=agent)
            assert await asked(service, thief, *read("/workspace/deploy.sh")) == refuse("subject")


AMOUNT: Final = {"amount": {"max": 10}}


@pytest.mark.parametrize(
    ("wider", "reason"),
    [
        ({"amount": {"max": 1000}}, Reason.PREDICATE_WIDENED),
        ({}, Reason.PREDICATE_WIDENED),
        ({"amount": {"max": 10, "or": True}}, Reason.CONSTRAINT_INVALID),
        ({"amount": {"expression": "(amount <= 10) && true || true"}}, Reason.CONSTRAINT_INVALID),
    ],
)
async def test_bug_094_a_condition_that_admits_more_is_no_narrowing(
    tmp_path: Path, wider: dict[str, Any], reason: Reason
) -> None:
    """There is no language of expressions to escape from: members are compared, and others are refused."""
    async with serving(tmp_path, "") as service:
        held = entry("bank/transfer", "id:account:a-1", constraints=AMOUNT)
        main = await issue(service, held, agent="main", max_depth=1)
        asked_for = entry("bank/transfer", "id:account:a-1", constraints=wider)
        with pytest.raises(Refused) as offline:
            main.hand_on("sub", asked_for)
        assert offline.value.refusal.reason is reason
        refused = await service.client.post(
            "/capabilities/attenuate", json=exchange(main, generate_key(), asked_for, agent="sub")
        )
        assert refused.status_code in (400, 403)
        assert "access_token" not in refused.json()
        child = main.hand_on("sub")
        for amount, expected in ((10, allow()), (1000, refuse("constraint"))):
            call = ("bank/transfer", {"to": "a-1", "amount": amount})
            assert await asked(service, child, *call) == expected


async def test_bug_095_a_child_has_no_scheme_that_its_parent_has_not(tmp_path: Path) -> None:
    async with serving(tmp_path, "") as service:
        main = await issue(
            service, entry("web/fetch", "https://api.example.com/v1"), agent="main", max_depth=1
        )
        for location in ("http://api.example.com/v1", "host:api.example.com", "domain:api.example.com"):
            with pytest.raises(Refused) as offline:
                main.hand_on("sub", entry("web/fetch", location))
            assert offline.value.refusal.component == "O"
            body = exchange(main, generate_key(), entry("web/fetch", location), agent="sub")
            refused = await service.client.post("/capabilities/attenuate", json=body)
            assert (refused.status_code, refused.json()["component"]) == (403, "O")
        child = main.hand_on("sub")
        named = {"server": "web", "name": "fetch", "advertised_digest": PINNED}
        for scheme, expected in (("https", allow()), ("http", refuse("object_outside"))):
            url = {"url": f"{scheme}://api.example.com/v1/orders"}
            assert await asked(service, child, "web/fetch", url, tool=named) == expected


async def test_bug_096_whoever_acts_for_another_has_no_more_than_that_one(tmp_path: Path) -> None:
    """Nor does the executor get its own rights back by leaving out what it was handed."""
    rules = (
        '@id("only-reads") forbid (principal == Agent::"reader", action, resource) '
        'unless { action in Action::"read" || action in Action::"issue" };'
        '@id("delegated") forbid (principal, action, resource) '
        "when { context.session.delegated && !context.capability.presented };"
    )
    removal = ("fs/file_remove", {"path": "/workspace/orders"})
    async with serving(tmp_path, rules) as service:
        assert await without(service, "executor", *removal, session="s-own") == allow()
        reader = await issue(service, VERBS, agent="reader", max_depth=1)
        executor = reader.hand_on("executor")
        assert await asked(service, executor, *removal) == deny("only-reads")
        assert await without(service, "executor", *removal) == deny("delegated")


async def test_bug_097_a_call_that_is_sent_again_is_its_senders(tmp_path: Path) -> None:
    """What was asked for by one agent is not run with the rights of whoever sends it again, or of nobody."""
    rules = (
        '@id("own-group") forbid (principal == Agent::"a", action, resource) '
        'unless { action in Action::"read" || action in Action::"issue" };'
        '@id("others-ask") @requires("approval") forbid (principal, action in Action::"read", resource) '
        'when { principal == Agent::"a" };'
    )
    async with serving(tmp_path, rules) as service:
        holder = await issue(service, VERBS, agent="a")
        body = holder.body(*read("/workspace/groups"))
        answer, _ = await told_of(service, body)
        assert verdict_of(answer) == ask("others-ask")
        host = {**body["subject"], "agent": "host"}
        replayed, _ = await told_of(service, body | {"subject": host})
        assert verdict_of(replayed) == refuse("proof")
        proved, _ = await told_of(service, replace(holder, agent="host").body(*read("/workspace/groups")))
        assert verdict_of(proved) == refuse("subject")
        nobody = {name: value for name, value in body["subject"].items() if name != "agent"}
        response = await service.client.post("/decide", json=body | {"subject": nobody})
        assert (response.status_code, response.json()["code"]) == (400, "input.invalid")
        assert (await service.records())[-1]["type"] == "request.refused"


async def test_bug_098_what_was_derived_ends_with_what_it_came_from(tmp_path: Path) -> None:
    """A child that presents what is revoked is denied, and by itself it is asked for like anybody else."""
    rules = (
        '@id("asks") @requires("approval") forbid (principal, action in Action::"execute", resource) '
        "unless { context.capability.presented };"
    )
    async with serving(tmp_path, rules) as service:
        main = await issue(service, *WORK, agent="main", max_depth=2)
        child = main.hand_on("sub-1")
        below = child.hand_on("sub-2")
        for holder in (main, child, below):
            assert await asked(service, holder, *run("ls build")) == allow()
        body = {"link": main.link, "reason": "no longer by itself"}
        assert (await service.client.post("/capabilities/revoke", json=body)).status_code == 200
        for holder in (main, child, below):
            answer, record = await told_of(service, holder.body(*run("ls build")))
            assert verdict_of(answer) == refuse("revoked")
            assert record["capability"]["refused"]["link"] == 0
            assert rules_of(record) == []
            assert await without(service, holder.agent, *run("ls build")) == ask("asks")


def test_every_case_of_this_kind_is_here() -> None:
    assert ids_of_tests(globals()) == ids_of_kind("delegation")

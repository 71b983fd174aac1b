"""`POST /explain` and `GET /decisions/{id}/explanation`: for policy and audit roles, and recorded."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from authz.api.explain import ExplanationOut
from authz.core.cases.deciding import call_of, facts_of
from authz.core.explain import explain as explanation_of
from authz.core.explain.document import document
from tests.policies.deciding import sample_calls, sample_ruleset
from tests.support.holders import entry, issue
from tests.support.service import Service
from tests.support.world import CREDENTIALS, PERMIT_ALL
from tests.support.world import world as world_of

RULES = """\
@id("workspace") @reason("The sandbox can be discarded.")
permit (principal, action in [Action::"read", Action::"write"], resource in Directory::"/workspace");
@id("secrets") forbid (principal, action, resource in Directory::"/workspace/.secrets");
@id("money") permit (principal, action in Action::"transact", resource);
@id("money-asks") @requires("approval") @approvers("Group::\\"finance\\"") @quorum("2")
forbid (principal, action in Action::"transact", resource);
"""
TWO_PROFILES = (
    CREDENTIALS
    + """\
  outsider:
    agents: [outsider-1]
"""
)


@pytest.fixture
async def service(tmp_path: Path) -> AsyncIterator[Service]:
    """Two tenants, and a bundle with a second credential profile."""
    bundles = {"default": world_of(RULES, credentials=TWO_PROFILES), "other": world_of(RULES)}
    async with Service.running(tmp_path, bundles) as running:
        yield running


async def explain(service: Service, body: dict[str, Any], **query: str) -> dict[str, Any]:
    response = await service.client.post("/explain", json=body, params=query)
    assert response.status_code == 200, response.text
    told: dict[str, Any] = response.json()
    ExplanationOut.model_validate(told, strict=True)
    return told


def problem_of(response: httpx.Response, status: int) -> str:
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/problem+json"
    code: str = response.json()["code"]
    return code


async def test_an_explanation_tells_what_decide_answers_and_why(service: Service) -> None:
    for name, arguments in (
        ("fs/file_edit", {"path": "/workspace/a", "text": "x"}),
        ("fs/file_edit", {"path": "/etc/a", "text": "x"}),
        ("fs/file_read", {"path": "/workspace/.secrets/key"}),
        ("bank/transfer", {"to": "x", "amount": 1}),
        ("fs/file_read", {}),
        ("fs/nothing", {}),
    ):
        body = service.body(name, arguments)
        told = await explain(service, body)
        answer = await service.decide(body)
        decision = told["decision"]
        for member in ("effect", "stage", "code", "request_digest"):
            assert decision[member] == answer[member]
        assert [rule["rule"] for rule in decision["matched"]] == [rule["rule"] for rule in answer["matched"]]
        assert decision["fingerprint"] == answer.get("fingerprint")
        assert told["policy_version"] == answer["policy_version"]


def test_every_explanation_has_the_documented_shape() -> None:
    ruleset = sample_ruleset()
    seen = set()
    for case in sample_calls()[::7]:
        told = document(explanation_of(call_of(case, ruleset), facts_of(case, ruleset)))
        ExplanationOut.model_validate(json.loads(json.dumps(told)), strict=True)
        seen.add(told["decision"]["effect"] if told["decision"] else None)
    assert seen >= {"allow", "deny", "require_approval"}


async def test_near_misses_are_in_the_explanation_and_not_in_the_decision(service: Service) -> None:
    body = service.body("fs/file_edit", {"path": "/etc/a", "text": "x"})
    told = await explain(service, body)
    (change,) = [change for change in told["changes"] if change["rule"]["rule"] == "workspace"]
    assert [part["text"] for part in change["conditions"]] == ['resource in Directory::"/workspace"']
    assert 'workspace"' not in str(await service.decide(body))


async def test_explaining_reserves_and_consumes_nothing(service: Service) -> None:
    body = service.body("fs/file_edit", {"path": "/workspace/a", "text": "x"})
    for _ in range(2):
        await explain(service, body)
    answer = await service.decide(body)
    assert answer["effect"] == "allow"
    assert "repeated" not in answer
    told = await explain(service, body)
    operation = next(stage for stage in told["stages"] if stage["stage"] == "operation")
    assert operation["output"]["operation"]["decision_id"] == answer["decision_id"]
    assert "lease" not in str(told)


async def test_a_full_limit_is_told_and_not_used_up(tmp_path: Path) -> None:
    limits = "limits:\n  - {id: two, calls: 2, seconds: 3600, per: [agent], reason: Slowly.}\n"
    ruleset = world_of(RULES, limits=limits)
    async with Service.running(tmp_path, {"default": ruleset}) as service:
        body = service.body("fs/file_edit", {"path": "/workspace/a", "text": "x"})
        for _ in range(4):
            assert (await explain(service, body))["decision"]["effect"] == "allow"
        for _ in range(2):
            answer = await service.decide(service.body("fs/file_edit", {"path": "/workspace/a", "text": "x"}))
            assert answer["effect"] == "allow"
        told = await explain(service, body)
        assert told["decision"]["code"] == "limit.rate"
        assert told["stages"][-1]["outcome"] == "settled"
        # What the rules said before the limit is told too.
        assert told["accesses"][0]["effect"] == "allow"
        assert len(await service.records(type="explanation.made")) == 5


async def test_looking_leaves_a_record_of_who_looked_at_what(service: Service) -> None:
    headers = await service.add_key("reviewer", "policy")
    body = service.body("fs/file_edit", {"path": "/etc/a", "text": "x"})
    response = await service.client.post("/explain", json=body, headers=headers)
    assert response.status_code == 200
    (record,) = await service.records(type="explanation.made")
    assert record["explained"]["effect"] == "deny"
    assert record["explained"]["tool"] == {"server": "fs", "name": "file_edit"}
    assert record["explained"]["subject"]["agent"] == "coder-1"
    assert record["explained"]["request_digest"]["redacted"].startswith("hmac-sha256:")
    assert record["caller"]["key_id"]
    # It is no decision, and a search for decisions does not find it.
    assert await service.records(effect="deny") == []


@pytest.mark.parametrize("roles", [("decide",), ("issue",), ("decide", "approve")])
async def test_other_roles_are_told_nothing(service: Service, roles: tuple[str, ...]) -> None:
    decided = await service.decide(service.body("fs/file_read", {"path": "/workspace/a"}))
    headers = await service.add_key("runtime", *roles)
    body = service.body("fs/file_read", {"path": "/workspace/a"})
    asked = await service.client.post("/explain", json=body, headers=headers)
    assert problem_of(asked, 403) == "caller.role_missing"
    path = f"/decisions/{decided['decision_id']}/explanation"
    assert problem_of(await service.client.get(path, headers=headers), 403) == "caller.role_missing"
    assert await service.records(type="explanation.made") == []


@pytest.mark.parametrize("role", ["policy", "audit"])
async def test_either_role_is_enough(service: Service, role: str) -> None:
    headers = await service.add_key(role, role)
    body = service.body("fs/file_read", {"path": "/workspace/a"})
    assert (await service.client.post("/explain", json=body, headers=headers)).status_code == 200


async def test_a_profile_of_the_bundle_can_be_explained_as(service: Service) -> None:
    body = service.body("fs/file_read", {"path": "/workspace/a"})
    told = await explain(service, body, profile="outsider")
    assert (told["profile"], told["decision"]) == ("outsider", None)
    assert told["subject_refused"] == "this credential may not act as that agent"
    response = await service.client.post("/explain", json=body, params={"profile": "nobody"})
    assert problem_of(response, 400) == "input.invalid"
    assert response.json()["pointer"] == "/profile"


async def test_a_hidden_tool_says_why_to_those_who_may_know(service: Service) -> None:
    body = service.body("fs/file_remove", {"path": "/workspace/a"})
    assert (await service.decide(body))["message"] == "there is no such tool here"
    told = await explain(service, body)
    tool = next(stage for stage in told["stages"] if stage["stage"] == "tool")
    assert "`delete` is denied whatever the arguments" in tool["output"]["hidden_because"]


@pytest.mark.parametrize(
    ("send", "status"),
    [
        ({"content": b"{", "headers": {"content-type": "application/json"}}, 400),
        ({"json": {"subject": {}}}, 400),
        ({"content": b"{}", "headers": {"content-type": "text/plain"}}, 415),
        ({"json": {}, "params": {"profil": "x"}}, 400),
    ],
)
async def test_a_bad_request_is_refused(service: Service, send: dict[str, Any], status: int) -> None:
    problem_of(await service.client.post("/explain", **send), status)


async def test_a_decision_of_the_log_is_explained(service: Service) -> None:
    body = service.body("fs/file_edit", {"path": "/etc/a", "text": "x"})
    answer = await service.decide(body)
    response = await service.client.get(f"/decisions/{answer['decision_id']}/explanation")
    assert response.status_code == 200, response.text
    told = response.json()
    ExplanationOut.model_validate(told, strict=True)
    recorded = told["recorded"]
    assert (recorded["decision_id"], recorded["effect"]) == (answer["decision_id"], "deny")
    assert (recorded["same_policy"], recorded["agrees"]) == (True, True)
    assert recorded["redacted"] == ["/arguments/text"]
    assert "workspace" in [change["rule"]["rule"] for change in told["changes"]]
    (record,) = await service.records(type="explanation.made")
    assert record["explained"]["decision_id"] == answer["decision_id"]
    # The record of the decision is still the one that is found by its id.
    assert (await service.client.get(f"/decisions/{answer['decision_id']}")).json()["record"]["type"] == (
        "decision.made"
    )


async def test_another_tenants_decision_is_as_if_absent(service: Service) -> None:
    answer = await service.decide(service.body("fs/file_read", {"path": "/workspace/a"}))
    headers = await service.add_key("stranger", "audit", "policy", tenant="other")
    for name in (answer["decision_id"], "nothing"):
        response = await service.client.get(f"/decisions/{name}/explanation", headers=headers)
        assert problem_of(response, 404) == "decision.unknown"
        assert response.json()["detail"] == "there is no such decision"


async def test_without_a_credential_nothing_is_told(service: Service) -> None:
    response = await service.client.post("/explain", json={}, headers={"Authorization": "Bearer x"})
    assert problem_of(response, 401) == "caller.unauthenticated"


async def test_a_presented_chain_is_verified_and_its_proof_is_not_used_up(tmp_path: Path) -> None:
    """What an explanation says of a capability is what the decision comes to, which is still to be made."""
    async with Service.running(tmp_path, {"default": world_of(PERMIT_ALL)}) as service:
        root = await issue(service, entry("fs/file_read", "file:///workspace"), max_depth=1)
        child = root.hand_on("sub-1", entry("fs/file_read", "file:///workspace/docs", budget={"calls": 1}))
        for path, effect, code, refused in (
            ("/workspace/docs/a", "allow", "policy.permit", None),
            ("/workspace/src/a", "deny", "capability.object_outside", (1, "sub-1", "O")),
        ):
            body = child.body("fs/file_read", {"path": path})
            for _ in range(2):
                told = await explain(service, body)
                decision, stage = told["decision"], told["stages"][5]
                assert (decision["effect"], decision["code"]) == (effect, code)
                assert stage["stage"] == "capability"
                assert stage["outcome"] == ("passed" if refused is None else "settled")
                assert stage["output"]["presented"] is True
                assert (stage["output"]["depth"], stage["output"]["holder"]) == (
                    1,
                    child.key.public.thumbprint,
                )
                found = decision["capability"]
                assert (found and (found["link"], found["agent"], found["component"])) == refused
            answer = await service.decide(body)
            assert (answer["effect"], answer["code"]) == (effect, code)
        # Who only has the chain is told no more than a decision would tell.
        other = child.body("fs/file_read", {"path": "/workspace/docs/b"})
        stolen = child.body("fs/file_read", {"path": "/workspace/docs/a"}) | {"proof": other["proof"]}
        assert (await explain(service, stolen))["decision"]["code"] == "capability.proof"

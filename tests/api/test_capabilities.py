"""`POST /capabilities`: who may be given what, what is refused and why, and what stands on record."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from authz_client.capabilities import generate_key, verify_chain, verify_structure
from authz_client.capabilities.keys import published_keys
from authz_client.capabilities.revocations import parse_revocations

from authz.api.capabilities_wire import CapabilityOut
from tests.support.holders import Holder, entry, exchange, issue, issue_body, narrowed
from tests.support.reloading import reloading
from tests.support.service import Service
from tests.support.world import CREDENTIALS, FS
from tests.support.world import world as world_of

RULES = """\
@id("calls") permit (principal, action in [Action::"read", Action::"write", Action::"delete"], resource);
@id("hand-out") @reason("Work in the workspace may be handed on.")
permit (principal, action == Action::"issue", resource in Directory::"/workspace")
when { context.lifetime_seconds <= 3600 && ["read", "write"].containsAll(context.verbs) };
@id("secrets") @reason("Secrets stay where they are.")
forbid (principal, action, resource in Directory::"/workspace/.secrets");
@id("delegated") forbid (principal, action in Action::"read", resource)
when { context.session.delegated && !context.capability.presented };
@id("asks") @requires("approval") @reason("A person decides about the vault.")
forbid (principal, action == Action::"issue", resource in Directory::"/workspace/vault");
"""
TWO_PROFILES = CREDENTIALS + "  outsider:\n    agents: [outsider-1]\n"
READ = entry(["fs/file_read"], ["file:///workspace"])


@pytest.fixture
async def service(tmp_path: Path) -> AsyncIterator[Service]:
    """Two tenants; workspace rights may be handed out."""
    bundles = {"default": world_of(RULES, credentials=TWO_PROFILES), "acme": world_of(RULES)}
    async with Service.running(tmp_path, bundles) as running:
        yield running


async def ask(service: Service, *entries: Any, **more: Any) -> httpx.Response:
    headers = more.pop("headers", None)
    return await service.client.post("/capabilities", json=issue_body(*entries, **more), headers=headers)


def problem_of(response: httpx.Response, status: int) -> dict[str, Any]:
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/problem+json"
    body: dict[str, Any] = response.json()
    return body


async def test_what_is_given_is_signed_recorded_and_good_for_calls(service: Service) -> None:
    response = await ask(service, READ, expires_in=600, max_depth=2)
    assert response.status_code == 201
    assert response.headers["cache-control"] == "no-store"
    given = response.json()
    CapabilityOut.model_validate(given, strict=True)
    assert given["issuer"] == "http://localhost:8700"
    assert given["audience"] == "http://localhost:8700/decide"
    assert (given["expires_in"], given["expires_at"]) == (600, "2026-11-30T10:10:00.000Z")
    assert [rule["rule"] for rule in given["matched"]] == ["hand-out"]
    keys = published_keys((await service.client.get("/.well-known/jwks.json")).json())
    revoked = parse_revocations((await service.client.get("/revocations")).json())
    chain = verify_chain(
        given["capability"],
        now=service.clock.now_ms() // 1000,
        audience=given["audience"],
        issuer=given["issuer"],
        keys=keys,
        revoked=revoked,
    )
    assert (chain.subject, chain.leaf.agent, chain.max_depth) == ("ada", "coder-1", 2)  # type: ignore[union-attr]
    [record] = await service.records(type="capability.issued")
    assert record["subject"] == {"agent": "coder-1", "on_behalf_of": "ada"}
    assert record["capability"]["link"] == given["link"]
    assert record["capability"]["jti"] == given["jti"]
    assert record["capability"]["authorization_details"] == [READ]
    assert record["capability"]["tools"].keys() == {"fs/file_read"}
    assert [rule["rule"] for rule in record["matched"]] == ["hand-out"]
    assert record["policy_version"] == given["policy_version"]
    assert given["capability"][0] not in str(await service.records())


async def test_a_holder_calls_with_it_and_hands_less_on(service: Service) -> None:
    root = await issue(service, READ, max_depth=1)
    assert await root.reads(service) == "allow"
    child = root.hand_on("sub-1", entry(["fs/file_read"], ["file:///workspace/a"]))
    assert await child.reads(service) == "allow"
    assert await child.reads(service, "/workspace/b") == "capability.object_outside"
    answer = await child.call(service, "fs/file_edit", {"path": "/workspace/a", "text": "x"})
    assert (answer["effect"], answer["code"]) == ("deny", "capability.right_missing")


@pytest.mark.parametrize(
    ("asked", "more", "code", "rules"),
    [
        (entry(["read"], ["file:///srv"]), {}, "policy.no_match", []),
        (entry(["read"], ["file:///workspace", "file:///srv"]), {}, "policy.no_match", []),
        (entry(["read", "delete"], ["file:///workspace"]), {}, "policy.no_match", []),
        (entry(["fs/file_remove"], ["file:///workspace"]), {}, "policy.no_match", []),
        (entry(["read"], ["file:///workspace"]), {"expires_in": 3601}, "policy.no_match", []),
        (entry(["read"], ["file:///workspace/.secrets"]), {}, "policy.forbid", ["secrets"]),
        (entry(["read"], ["file:///workspace/vault"]), {}, "approval.required", ["asks"]),
        (entry(["read"], ["domain:example.com"]), {}, "policy.no_match", []),
    ],
)
async def test_what_the_policies_do_not_permit_is_refused_and_recorded(
    service: Service, asked: dict[str, Any], more: dict[str, Any], code: str, rules: list[str]
) -> None:
    told = problem_of(await ask(service, asked, **more), 403)
    assert (told["code"], told["stage"], told["entry"]) == (code, "policy", 0)
    assert [rule["rule"] for rule in told["matched"]] == rules
    assert told["location"] in asked["locations"]
    assert await service.records(type="capability.issued") == []
    [record] = await service.records(type="capability.refused")
    assert (record["code"], [rule["rule"] for rule in record["matched"]]) == (code, rules)
    assert record["refused"]["location"] == told["location"]
    assert await service.records(type="request.refused") == []
    assert (await service.client.get("/capabilities")).json()["capabilities"] == []


async def test_every_location_of_every_entry_is_asked_about(service: Service) -> None:
    fine = entry(["read"], ["file:///workspace/a"])
    told = problem_of(await ask(service, fine, entry(["read"], ["file:///workspace/.secrets/k"])), 403)
    assert (told["entry"], told["location"]) == (1, "file:///workspace/.secrets/k")


@pytest.mark.parametrize(
    ("location", "canonical"),
    [
        ("file:///workspace/", "file:///workspace"),
        ("file:///workspace/../workspace/a", "file:///workspace/a"),
        ("https://EXAMPLE.com:443/v1", "https://example.com/v1"),
        ("host:EXAMPLE.com.", "host:example.com"),
        ("mailto:Ada@Example.com", "mailto:ada@example.com"),
    ],
)
async def test_a_refusal_names_the_canonical_spelling(
    service: Service, location: str, canonical: str
) -> None:
    told = problem_of(await ask(service, entry(["read"], [location])), 400)
    assert told["code"] == "capability.location_invalid"
    assert told["pointer"] == "/authorization_details/0/locations/0"
    assert f"`{canonical}`" in told["detail"]
    within = entry(["read"], ["file:///workspace"], constraints={"to": {"within": [location]}})
    told = problem_of(await ask(service, within), 400)
    assert told["pointer"] == "/authorization_details/0/constraints/to/within/0"


@pytest.mark.parametrize(
    "right", ["fs/no_such", "nowhere/file_read", "no_such", "fs/file_read:send", "web/fetch:delete"]
)
async def test_a_right_names_what_the_agent_may_see(service: Service, right: str) -> None:
    told = problem_of(await ask(service, entry([right], ["file:///workspace"])), 403)
    assert (told["code"], told["component"], told["right"]) == ("capability.right_unknown", "R", right)


async def test_a_tool_that_is_hidden_from_the_agent_is_as_if_absent(tmp_path: Path) -> None:
    hidden = (
        RULES
        + """
        @id("money") permit (principal, action in Action::"transact", resource);
        @id("hide") forbid (principal, action in Action::"bank/transfer", resource);
    """
    )
    async with Service.running(tmp_path, {"default": world_of(hidden)}) as service:
        one = problem_of(await ask(service, entry(["bank/transfer"], ["file:///workspace"])), 403)
        other = problem_of(await ask(service, entry(["bank/no_such_"], ["file:///workspace"])), 403)
        assert one["detail"] == other["detail"].replace("no_such_", "transfer")


@pytest.mark.parametrize(
    ("change", "pointer"),
    [
        ({"agent": ""}, "/agent"),
        ({"on_behalf_of": "coder-1"}, "/on_behalf_of"),
        ({"surprise": 1}, "/surprise"),
        ({"holder": {"kty": "OKP", "crv": "Ed25519", "x": "A" * 43, "d": "x"}}, "/holder/d"),
        ({"holder": {"kty": "OKP", "crv": "Ed25519", "x": "A" * 43}}, "/holder"),
        ({"expires_in": 0}, "/expires_in"),
        ({"expires_in": True}, "/expires_in"),
        ({"max_depth": 9}, "/max_depth"),
    ],
)
async def test_malformed_bodies_are_refused(service: Service, change: dict[str, Any], pointer: str) -> None:
    told = problem_of(await service.client.post("/capabilities", json={**issue_body(READ), **change}), 400)
    assert told["pointer"] == pointer


@pytest.mark.parametrize(
    "details",
    [
        [{"type": "other", "actions": ["read"], "locations": ["file:///workspace"]}],
        [{**READ, "surprise": 1}],
        [entry(["*"], ["file:///workspace"])],
        [entry(["read"], ["file:///workspace"], constraints={"amount": {"max": 1, "min": 2}})],
        [entry(["read"], ["file:///workspace"], budget={})],
    ],
)
async def test_entries_are_understood_whole(service: Service, details: list[Any]) -> None:
    told = problem_of(await ask(service, *details), 400)
    assert told["code"].startswith("capability.")
    assert told["pointer"] == "/authorization_details"


async def test_only_the_role_issue_issues(service: Service) -> None:
    for roles in (("decide",), ("policy", "audit"), ("approve",)):
        headers = await service.add_key(roles[0], *roles)
        assert problem_of(await ask(service, READ, headers=headers), 403)["code"] == "caller.role_missing"
    headers = await service.add_key("issuer", "issue")
    assert (await ask(service, READ, headers=headers)).status_code == 201


async def test_a_credential_gives_only_to_whom_it_may_speak_for(service: Service) -> None:
    headers = await service.add_key("outsider", "issue", profile="outsider")
    told = problem_of(await ask(service, READ, headers=headers), 403)
    assert (told["code"], told["pointer"]) == ("subject.not_bound", "/agent")
    told = problem_of(await ask(service, READ, headers=headers, agent="outsider-1"), 403)
    assert told["code"] == "subject.not_bound"  # nor for that user
    assert (await service.client.get("/capabilities")).json()["capabilities"] == []


async def test_a_lifetime_is_bounded_by_the_configuration(tmp_path: Path) -> None:
    free = RULES.replace("context.lifetime_seconds <= 3600 &&", "")
    async with Service.running(tmp_path, {"default": world_of(free)}) as service:
        assert (await ask(service, READ, expires_in=86_400)).status_code == 201
        told = problem_of(await ask(service, READ, expires_in=86_401), 403)
        assert (told["code"], told["component"]) == ("capability.lifetime", "E")


async def test_nobody_is_given_one_for_itself(service: Service) -> None:
    """It would read as one of an agent that acts for nobody."""
    problem = problem_of(await ask(service, READ, on_behalf_of="coder-1"), 400)
    assert (problem["code"], problem["pointer"]) == ("input.invalid", "/on_behalf_of")


async def test_an_agent_that_acts_for_nobody_is_its_own_subject(service: Service) -> None:
    root = await issue(service, READ, on_behalf_of=None)
    assert root.user is None
    assert await root.reads(service) == "allow"


async def test_another_tenants_capability_is_none_here(service: Service) -> None:
    acme = await service.add_key("acme", "issue", "decide", "audit", "policy", tenant="acme")
    theirs = await issue(service, READ, headers=acme)
    assert theirs.audience == "http://localhost:8700/tenants/acme/decide"
    answer = await service.decide(theirs.body("fs/file_read", {"path": "/workspace/a"}), acme)
    assert answer["effect"] == "allow"
    answer = await service.decide(theirs.body("fs/file_read", {"path": "/workspace/a"}))
    assert (answer["effect"], answer["code"]) == ("deny", "capability.invalid")
    ours = await issue(service, READ)
    answer = await service.decide(ours.body("fs/file_read", {"path": "/workspace/a"}), acme)
    assert (answer["effect"], answer["code"]) == ("deny", "capability.invalid")


def task_of(service: Service, **more: Any) -> dict[str, Any]:
    return {
        "objective": "Summarize the report.",
        "inputs": [{"uri": "file:///workspace/report", "rights": ["fs/file_read"]}],
        "output_contract": {
            "description": "A summary.",
            "resources": [{"uri": "file:///workspace/out", "rights": ["fs/file_edit"]}],
        },
        "budget": {"calls": 5},
        "completion": {"condition": "The summary is there.", "deadline": service.clock.now_ms() // 1000 + 60},
        "child_trace_id": "t-child",
        **more,
    }


async def test_a_task_gets_what_it_names_and_its_trace_is_delegated(service: Service) -> None:
    task = task_of(service)
    root: Holder = await issue(service, task=task, agent="sub-1")
    chain = verify_structure(
        root.chain,
        audience=root.audience,
        issuer="http://localhost:8700",
        keys=published_keys((await service.client.get("/.well-known/jwks.json")).json()),
    )
    assert [dict(one.as_json) for one in chain.entries] == [  # type: ignore[union-attr]
        entry(["fs/file_read"], ["file:///workspace/report"], budget={"calls": 5}),
        entry(["fs/file_edit"], ["file:///workspace/out"], budget={"calls": 5}),
    ]
    [record] = await service.records(type="capability.issued")
    assert record["capability"]["child_trace_id"] == "t-child"
    assert record["capability"]["task"] == task
    [listed] = (await service.client.get("/capabilities")).json()["capabilities"]
    assert (listed["task"], listed["child_trace_id"]) == (task, "t-child")
    # Whatever it leaves out, the child is delegated in its trace, and nobody else is.
    assert await rules_in(service, "sub-1", "t-child") == ["delegated"]
    assert await rules_in(service, "coder-1", "t-child") == ["calls"]
    assert await root.reads(service, "/workspace/report") == "allow"


async def rules_in(service: Service, agent: str, trace: str) -> list[str]:
    """What decides when that agent reads in that trace, without session or capability."""
    subject = {"agent": agent, "on_behalf_of": "ada"}
    body = service.body("fs/file_read", {"path": "/workspace/report"}, context={"trace_id": trace})
    answer = await service.decide(body | {"subject": subject})
    return [rule["rule"] for rule in answer["matched"]]


async def test_a_task_takes_no_trace_away_from_whom_it_belongs_to(service: Service) -> None:
    """Whoever may narrow may name any trace: an agent that works there already becomes no child by that."""
    assert await rules_in(service, "coder-1", "t-main") == ["calls"]
    weak = await service.add_key("weak", "decide")
    root = await issue(service, entry(["fs/file_read", "fs/file_edit"], ["file:///workspace"]), max_depth=3)
    task = task_of(service, child_trace_id="t-main")
    body = exchange(root, generate_key(), task=task, agent="coder-1")
    told = problem_of(await service.client.post("/capabilities/attenuate", json=body, headers=weak), 403)
    assert told["code"] == "capability.child_trace"
    response = await ask(service, task=task, agent="coder-1")
    assert problem_of(response, 403)["code"] == "capability.child_trace"
    assert await rules_in(service, "coder-1", "t-main") == ["calls"]
    # One that is its child there already may be given another capability for the same work.
    for _ in range(2):
        await narrowed(service, root, task=task, agent="sub-1")
        assert await rules_in(service, "sub-1", "t-main") == ["delegated"]
    assert await rules_in(service, "coder-1", "t-main") == ["calls"]


@pytest.mark.parametrize(
    "more", [{"authorization_details": [READ]}, {"expires_in": 60}, {"task": {"objective": "x"}}]
)
async def test_a_task_says_everything_by_itself(service: Service, more: dict[str, Any]) -> None:
    body = issue_body(task=task_of(service)) | more
    assert problem_of(await service.client.post("/capabilities", json=body), 400)["code"]


async def test_the_key_of_a_holder_that_was_revoked_gets_nothing(service: Service) -> None:
    key = generate_key()
    body = {"holder": key.public.thumbprint, "reason": "lost"}
    assert (await service.client.post("/capabilities/revoke", json=body)).status_code == 200
    told = problem_of(await ask(service, READ, holder=key.public.jwk), 403)
    assert told["code"] == "capability.revoked"


async def test_a_right_to_a_tool_that_was_reviewed_anew_is_void(tmp_path: Path) -> None:
    async with reloading(tmp_path) as running:
        service = running.service
        named = await issue(service, READ)
        open_ended = await issue(service, entry(["read"], ["file:///workspace"]))
        running.write(FS.replace("The tool file_read.", "Reads a file."), "tools/fs.yaml")
        assert (await service.client.post("/policies/reload")).json()["problems"] == []
        assert await named.reads(service) == "capability.tool_changed"
        assert await open_ended.reads(service) == "allow"

"""Who may ask, for whom, and in which tenant (stage 0)."""

from pathlib import Path

import pytest

from tests.support.service import Service
from tests.support.world import world as world_of

NARROW = """\
profiles:
  runtime:
    agents: ["*"]
    users: ["*"]
    sandboxes: [/workspace]
    sources: [user, system]
  ci:
    agents: [builder]
    users: [ada]
"""


@pytest.mark.parametrize(
    "header",
    [
        None,
        "",
        "Bearer",
        "Bearer ",
        "Bearer nonsense",
        "Basic YTpi",
        "Bearer ключ",
        "Bearer " + "x" * 600,
    ],
)
async def test_without_a_live_key_there_is_no_answer(service: Service, header: str | None) -> None:
    headers = {"Authorization": header.encode()} if header is not None else {}
    service.client.headers.pop("Authorization")
    for path in ("/decide", "/decide/batch", "/tools/visible"):
        response = await service.client.post(path, json={}, headers=headers)
        assert response.status_code == 401, path
        assert response.headers["www-authenticate"] == "Bearer"
    for path in ("/decisions", "/policies", "/metrics"):
        assert (await service.client.get(path, headers=headers)).status_code == 401, path


async def test_a_revoked_key_ends_at_once_in_this_process(service: Service) -> None:
    headers = await service.add_key("short", "decide")
    body = service.body("fs/file_read", {"path": "/workspace/a"})
    await service.decide(body, headers)
    key = next(key for key in await service.ledger.list_api_keys() if key.name == "short")
    await service.ledger.revoke_api_key(key.key_id)
    assert (await service.client.post("/decide", json=body, headers=headers)).status_code == 401


@pytest.mark.parametrize(
    ("path", "roles"),
    [("/decisions", {"audit"}), ("/policies", {"policy", "audit"}), ("/metrics", {"policy", "audit"})],
)
async def test_each_route_wants_its_role(service: Service, path: str, roles: set[str]) -> None:
    for role in ("decide", "issue", "policy", "audit", "approve"):
        headers = await service.add_key(f"only-{role}-{path}", role)
        status = (await service.client.get(path, headers=headers)).status_code
        assert status == (200 if role in roles else 403), role


async def test_deciding_wants_the_role_decide(service: Service) -> None:
    headers = await service.add_key("auditor", "audit", "policy", "approve", "issue")
    body = service.body("fs/file_read", {"path": "/workspace/a"})
    response = await service.client.post("/decide", json=body, headers=headers)
    assert (response.status_code, response.json()["code"]) == (403, "caller.role_missing")


async def test_a_credential_speaks_only_for_its_own_subjects(tmp_path: Path) -> None:
    async with Service.running(tmp_path, {"default": world_of(credentials=NARROW)}) as service:
        headers = await service.add_key("ci", "decide", profile="ci")
        for subject in (
            {"agent": "coder-1"},
            {"agent": "builder", "on_behalf_of": "grace"},
            {"agent": "Builder", "on_behalf_of": "ada"},
        ):
            body = service.body("fs/file_read", {"path": "/workspace/a"}, subject=subject)
            response = await service.client.post("/decide", json=body, headers=headers)
            assert (response.status_code, response.json()["code"]) == (403, "subject.not_bound")
            visible = {"subject": subject, "servers": [{"server": "fs"}]}
            response = await service.client.post("/tools/visible", json=visible, headers=headers)
            assert (response.status_code, response.json()["code"]) == (403, "subject.not_bound")
        records = await service.records()
        assert [record["type"] for record in records] == ["request.refused"] * 6
        assert {record["code"] for record in records} == {"subject.not_bound"}


async def test_a_profile_that_the_bundle_lacks_may_assert_nobody(service: Service) -> None:
    headers = await service.add_key("stray", "decide", profile="no-such-profile")
    body = service.body("fs/file_read", {"path": "/workspace/a"})
    assert (await service.client.post("/decide", json=body, headers=headers)).status_code == 403


async def test_another_tenants_data_is_as_if_absent(tmp_path: Path) -> None:
    worlds = {
        "default": world_of(),
        "acme": world_of('@id("acme-only") permit (principal, action, resource);'),
    }
    async with Service.running(tmp_path, worlds) as service:
        acme = await service.add_key("acme", "decide", "audit", "policy", tenant="acme")
        body = service.body("fs/file_edit", {"path": "/workspace/a", "text": "x"})
        ours = await service.decide(body)
        theirs = await service.decide(body, acme)

        # The same ids in another tenant are another operation, under another bundle.
        assert theirs["decision_id"] != ours["decision_id"]
        assert "repeated" not in theirs
        assert [rule["rule"] for rule in theirs["matched"]] == ["acme-only"]
        assert ours["fingerprint"] != theirs["fingerprint"]
        assert ours["idempotency_key"] != theirs["idempotency_key"]

        found = (await service.client.get("/decisions", headers=acme)).json()["records"]
        assert [entry["record"]["decision_id"] for entry in found] == [theirs["decision_id"]]
        response = await service.client.get(f"/decisions/{ours['decision_id']}", headers=acme)
        absent = await service.client.get("/decisions/no-such-decision", headers=acme)
        assert response.status_code == absent.status_code == 404
        assert response.json() == absent.json()


async def test_a_key_of_a_tenant_without_a_bundle_is_no_key(service: Service) -> None:
    headers = await service.add_key("ghost", "decide", tenant="ghost")
    body = service.body("fs/file_read", {"path": "/workspace/a"})
    assert (await service.client.post("/decide", json=body, headers=headers)).status_code == 401


async def test_claims_count_only_as_far_as_the_bundle_lets_the_credential_declare(tmp_path: Path) -> None:
    rules = """
    @id("sandboxed") permit (principal, action in Action::"A1", resource);
    @id("rest") permit (principal, action in Action::"A3", resource);
    @id("rest-asks") @requires("approval") forbid (principal, action in Action::"A3", resource);
    """
    async with Service.running(tmp_path, {"default": world_of(rules)}) as service:
        inside = service.body("fs/file_edit", {"path": "/workspace/a", "text": ""})
        assert (await service.decide(inside))["authority"] == "A1"
        beyond = service.body(
            "fs/file_edit", {"path": "/srv/a", "text": ""}, context={"sandbox_root": "/srv", "cwd": "/srv"}
        )
        answer = await service.decide(beyond)
        assert (answer["authority"], answer["effect"]) == ("A3", "require_approval")
        assert (await service.records())[-1]["claims"]["not_believed"] == ["cwd", "sandbox_root"]

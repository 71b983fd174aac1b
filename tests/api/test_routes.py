"""Batches, visible tools, the search of the log, probes, and the document."""

import asyncio
import json
from pathlib import Path
from typing import Any

import openapi_spec_validator

from authz.api.document import openapi_document
from authz.app import create_application
from authz.config import Config
from authz.core.fingerprint import advertised_digest
from authz.store.keys import ServiceKeys
from tests.support.service import Service
from tests.support.world import world as world_of


async def test_a_batch_answers_each_call_in_order(service: Service) -> None:
    calls = [
        service.body("fs/file_read", {"path": "/workspace/a"}),
        service.body("fs/file_edit", {"path": "/workspace/b", "text": ""}),
        service.body("fs/file_read", {"path": "/workspace/b"}),
        service.body("fs/file_read", {"path": "/etc/passwd"}),
        service.body("fs/nothing", {}),
    ]
    response = await service.client.post("/decide/batch", json={"calls": calls})
    answers = response.json()["decisions"]

    assert [answer["effect"] for answer in answers] == ["allow", "allow", "allow", "deny", "deny"]
    assert [answer.get("shares_written_resource_with") for answer in answers] == [None, [2], [1], None, None]
    sequences = [answer["sequence"] for answer in answers]
    assert sequences == sorted(sequences)
    assert [record["sequence"] for record in await service.records()] == sequences


async def test_a_removed_tree_shares_what_lies_beneath_it(service: Service) -> None:
    calls = [
        service.body("fs/file_read", {"path": "/workspace/out/a"}),
        service.body("fs/file_remove", {"path": "/workspace/out", "recursive": True}),
        service.body("fs/file_read", {"path": "/workspace/output"}),
    ]
    response = await service.client.post("/decide/batch", json={"calls": calls})
    answers = response.json()["decisions"]
    assert [answer.get("shares_written_resource_with") for answer in answers] == [[1], [0], None]


async def test_the_same_ids_twice_in_a_batch_are_one_permission(service: Service) -> None:
    call = service.body("fs/file_edit", {"path": "/workspace/b", "text": ""})
    other = call | {"arguments": {"path": "/workspace/c", "text": ""}}
    response = await service.client.post("/decide/batch", json={"calls": [call, call, other]})
    first, again, conflict = response.json()["decisions"]
    assert again["decision_id"] == first["decision_id"]
    assert again["repeated"] is True
    assert conflict["code"] == "operation.conflict"


async def test_a_fault_in_one_call_of_a_batch_decides_none(service: Service) -> None:
    good = service.body("fs/file_read", {"path": "/workspace/a"})
    bad = good | {"subject": {"agent": 3}}
    response = await service.client.post("/decide/batch", json={"calls": [good, bad]})
    assert (response.status_code, response.json()["pointer"]) == (400, "/calls/1/subject/agent")
    assert [record["type"] for record in await service.records()] == ["request.refused"]


def _entry(name: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "description": f"The tool {name}.", "inputSchema": {"type": "object"}} | more


async def test_visible_tools_are_those_that_could_be_allowed(tmp_path: Path) -> None:
    rules = """
    @id("reads") permit (principal, action in Action::"read", resource);
    @id("writes") permit (principal, action in Action::"write", resource) when { context.sandboxed };
    @id("no-copies") forbid (principal, action in Action::"fs/file_copy", resource);
    """
    async with Service.running(tmp_path, {"default": world_of(rules)}) as service:
        names = ["file_read", "file_edit", "file_copy", "file_remove", "format_disk"]
        asked = {
            "subject": {"agent": "coder-1"},
            "servers": [
                {"server": "fs", "tools": [_entry(name) for name in names]},
                {"server": "elsewhere", "tools": [_entry("file_read")]},
            ],
        }
        answer = (await service.client.post("/tools/visible", json=asked)).json()
        shown, elsewhere = answer["servers"]
        assert [entry["name"] for entry in shown["tools"]] == ["file_read", "file_edit"]
        assert shown["tools"][0] == _entry("file_read")
        assert shown["advertised_digests"]["file_read"] == advertised_digest(_entry("file_read"))
        assert elsewhere["tools"] == []
        for name in names[2:]:
            body = service.body(f"fs/{name}", {"from": "/workspace/a", "to": "/workspace/b"})
            decided = await service.decide(body)
            assert (decided["effect"], decided["code"]) == ("deny", "tool.unknown")
            assert decided["matched"] == []
        # The caller learns nothing of why; the auditor does.
        hidden = [record["internal"] for record in await service.records()]
        assert "no-copies" in hidden[0]
        assert "no permit could match" in hidden[1]
        assert hidden[2] == "no such tool in the bundle"


async def test_a_changed_or_doubled_entry_is_not_shown(tmp_path: Path) -> None:
    async with Service.running(tmp_path, {"default": world_of()}) as service:
        asked = {
            "subject": {"agent": "coder-1"},
            "servers": [
                {"server": "web", "tools": [_entry("fetch")]},
                {"server": "fs", "tools": [_entry("file_read"), _entry("file_read", title="again")]},
                {"server": "web"},
                {"server": "fs"},
            ],
        }
        answer = (await service.client.post("/tools/visible", json=asked)).json()
        names = [[entry["name"] for entry in server["tools"]] for server in answer["servers"]]
        assert names == [[], [], [], ["file_read", "file_edit", "file_remove", "file_copy"]]


async def test_the_log_is_searched_by_what_happened(service: Service) -> None:
    for number in range(5):
        await service.decide(service.body("fs/file_read", {"path": f"/workspace/{number}"}))
    other = service.body("fs/file_read", {"path": "/workspace/.secrets/k"}, context={"trace_id": "t-2"})
    other["subject"] = {"agent": "coder-2", "on_behalf_of": "grace"}
    denied = await service.decide(other)

    async def found(**query: str) -> list[str]:
        return [record["decision_id"] for record in await service.records(**query)]

    only = [denied["decision_id"]]
    for query in (
        {"trace_id": "t-2"},
        {"agent": "coder-2"},
        {"on_behalf_of": "grace"},
        {"rule": "secrets"},
        {"effect": "deny"},
        {"effect": "deny", "tool": "fs/file_read", "rule": "secrets"},
    ):
        assert await found(**query) == only, query
    assert len(await found(tool="fs/file_read")) == 6
    assert await found(rule="secret%") == await found(rule="secre_s") == []
    assert await found(since="2026-11-30T10:00:00.124Z") == []
    assert len(await found(until="2026-11-30T11:00:00+01:00")) == 0
    one = await service.client.get(f"/decisions/{denied['decision_id']}")
    assert one.json()["record"]["effect"] == "deny"

    pages: list[str] = []
    before = ""
    while True:
        page = (await service.client.get("/decisions", params={"limit": "4", "before": before})).json()
        pages += [entry["record"]["decision_id"] for entry in page["records"]]
        before = page["next"] or ""
        if not before:
            break
    assert len(pages) == len(set(pages)) == 6
    faulty: list[dict[str, Any]] = [
        {"since": "yesterday"},
        {"since": "2026-11-30"},
        {"before": "x"},
        {"limit": "0"},
        {"trace": "t-2"},
        {"effect": "maybe"},
        {"agent": ["a", "b"]},
    ]
    for query in faulty:
        response = await service.client.get("/decisions", params=query)
        assert response.status_code == 400, query
        assert response.headers["content-type"] == "application/problem+json"


async def test_probes_say_state_only(service: Service) -> None:
    service.client.headers.pop("Authorization")
    assert (await service.client.get("/healthz")).json() == {"status": "ok"}
    ready = await service.client.get("/readyz")
    assert (ready.status_code, ready.json()["components"]) == (200, {"bundle": "ready", "store": "ready"})
    (key,) = (await service.client.get("/.well-known/jwks.json")).json()["keys"]
    assert {"kty", "crv", "x"} <= key.keys()
    assert "d" not in key
    await service.ledger.close()
    closed = await service.client.get("/readyz")
    assert (closed.status_code, closed.json()["components"]["store"]) == (503, "unavailable")


async def test_metrics_count_decisions_and_refusals(service: Service) -> None:
    await service.decide(service.body("fs/file_read", {"path": "/workspace/a"}))
    await service.client.post("/decide", json={})
    await service.client.get("/no/such/path/as-a-label")
    text = (await service.client.get("/metrics")).text
    labels = 'code="policy.permit",effect="allow",stage="policy",tenant="default"'
    assert f"authz_decisions_total{{{labels}}} 1.0" in text
    assert 'authz_requests_refused_total{code="input.invalid"} 1.0' in text
    assert 'authz_http_requests_total{path="other",status="404"} 1.0' in text
    assert "as-a-label" not in text


async def test_metrics_tell_how_looks_for_keys_and_revocations_go(service: Service) -> None:
    """While such a look fails, what is in hand stays in use: somebody should know."""
    keys = ServiceKeys.generate()
    keys.failures = 2
    services = create_application(
        Config(), service.ledger, keys, service.application.services.bundles
    ).services
    await services.capabilities.revocations.refresh()
    samples = dict(
        line.split(" ", 1)
        for line in services.metrics.render("default").decode().splitlines()
        if line[0] != "#"
    )
    assert samples["authz_signing_key_look_failures"] == "2.0"
    assert 0 <= float(samples["authz_revocations_age_seconds"]) < 60
    assert "authz_revocations_age_seconds" in (await service.client.get("/metrics")).text


async def test_the_bundle_in_force_is_shown(service: Service) -> None:
    shown = (await service.client.get("/policies")).json()
    assert shown["version"].startswith("sha256:")
    rules = {rule["rule"]: rule for rule in shown["rules"]}
    assert (rules["secrets"]["kind"], rules["secrets"]["line"]) == ("forbid", 3)
    assert rules["money-asks"]["kind"] == "ask"
    assert "authz.self-protection" in rules
    assert "fs/file_read" in shown["tools"]


def test_the_document_is_valid_and_the_committed_one() -> None:
    document = openapi_document()
    openapi_spec_validator.validate(document)
    committed = Path(__file__).resolve().parents[2] / "openapi" / "openapi.json"
    assert json.loads(committed.read_text(encoding="utf-8")) == json.loads(json.dumps(document))
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            assert operation["summary"], (path, method)


async def test_many_callers_at_once_leave_a_log_without_gaps(service: Service) -> None:
    bodies = [service.body("fs/file_read", {"path": f"/workspace/{number}"}) for number in range(120)]
    answers = await asyncio.gather(*(service.decide(body) for body in bodies))
    assert sorted(answer["sequence"] for answer in answers) == list(range(1, 121))

"""What a refusal leaves behind: an answer for each call of a batch, a record where the caller is known."""

import asyncio
import dataclasses
import json
from collections.abc import Awaitable, Callable
from typing import Any

import httpx
import pytest

from authz.api.body import read_body
from authz.api.problems import problem
from authz.app import create_application
from authz.config import Config
from authz.core.credentials import digest_api_key
from authz.errors import AuthzError, MalformedInput, StoreUnavailable
from authz.service.decide import MAX_BATCH_SECONDS
from authz.store.keys import ServiceKeys
from tests.support.service import Service

JSON = {"content-type": "application/json"}
SECRET = "sk_live_4eC39HqLyjWDarjtT1zdp7dc"


def _fail_commit(service: Service, monkeypatch: pytest.MonkeyPatch, number: int, error: Exception) -> None:
    """Let the commit of that number, counted from 1, fail."""
    commit = service.ledger.commit
    seen = 0

    async def failing(unit: Any) -> Any:
        nonlocal seen
        seen += 1
        if seen == number:
            raise error
        return await commit(unit)

    monkeypatch.setattr(service.ledger, "commit", failing)


def _three(service: Service) -> dict[str, Any]:
    paths = ("/workspace/a", "/workspace/b", "/workspace/a")
    return {"calls": [service.body("fs/file_edit", {"path": path, "text": ""}) for path in paths]}


async def test_what_fails_within_a_batch_leaves_the_other_answers(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    _fail_commit(service, monkeypatch, 2, StoreUnavailable("the store is away"))
    response = await service.client.post("/decide/batch", json=_three(service))
    assert response.status_code == 200
    first, second, third = response.json()["decisions"]
    assert (first["effect"], third["effect"]) == ("allow", "allow")
    # Marks are by the place in the batch, the failed call's included.
    assert (first["shares_written_resource_with"], third["shares_written_resource_with"]) == ([2], [0])
    assert list(second) == ["problem"]
    assert (second["problem"]["status"], second["problem"]["code"]) == (503, "store.unavailable")
    assert (second["problem"]["next"], second["problem"]["retry_unchanged"]) == (["wait"], True)
    assert [record["type"] for record in await service.records()] == ["decision.made"] * 2


async def test_a_fault_of_ours_within_a_batch_is_one_items_and_recorded(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    _fail_commit(service, monkeypatch, 2, RuntimeError("a fault with internals"))
    response = await service.client.post("/decide/batch", json=_three(service))
    assert response.status_code == 200
    problem = response.json()["decisions"][1]["problem"]
    assert (problem["status"], problem["code"]) == (500, "internal")
    assert "internals" not in response.text
    refused = [record for record in await service.records() if record["type"] == "request.refused"]
    assert [(record["status"], record["code"]) for record in refused] == [(500, "internal")]


async def test_what_fails_the_first_call_fails_the_batch(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    _fail_commit(service, monkeypatch, 1, StoreUnavailable("the store is away"))
    response = await service.client.post("/decide/batch", json=_three(service))
    assert (response.status_code, response.json()["code"]) == (503, "store.unavailable")
    assert await service.records() == []


async def test_a_missing_role_is_recorded_on_every_route(service: Service) -> None:
    auditor = await service.add_key("auditor", "audit")
    decider = await service.add_key("decider", "decide")
    for path in ("/decide", "/decide/batch", "/tools/visible"):
        assert (await service.client.post(path, json={}, headers=auditor)).status_code == 403
    for path in ("/decisions", "/decisions/x", "/policies", "/metrics"):
        assert (await service.client.get(path, headers=decider)).status_code == 403
    records = await service.records()
    assert [(record["type"], record["code"], record["status"]) for record in records] == [
        ("request.refused", "caller.role_missing", 403)
    ] * 7


async def test_faulty_parameters_are_recorded_and_told_to_callers_only(service: Service) -> None:
    for query in ({"limit": "0"}, {"trace": "x"}, {"since": "yesterday"}):
        assert (await service.client.get("/decisions", params=query)).status_code == 400
        stranger = {"Authorization": "Bearer nobody"}
        response = await service.client.get("/decisions", params=query, headers=stranger)
        assert response.status_code == 401
    assert [record["code"] for record in await service.records()] == ["input.invalid"] * 3


@pytest.mark.parametrize("path", ["/decide", "/policies"])
async def test_a_fault_of_ours_is_recorded(
    service: Service, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    def broken(*_: Any, **__: Any) -> Any:
        raise RuntimeError("a fault with internals")

    monkeypatch.setattr("authz.api.decide.parse_decide", broken)
    monkeypatch.setattr("authz.api.policies.dump", broken)
    method = "POST" if path == "/decide" else "GET"
    response = await service.client.request(method, path, json={} if path == "/decide" else None)
    assert (response.status_code, response.json()["code"]) == (500, "internal")
    (record,) = await service.records()
    assert (record["status"], record["code"]) == (500, "internal")
    assert "internals" not in json.dumps(record)


@pytest.mark.parametrize(
    "text",
    [
        f'{{"{SECRET}": 1}}',
        f'{{"arguments": {{"{SECRET}": 1, "{SECRET}": 2}}}}',
        f'{{"arguments": {{"{SECRET}": {{"n": NaN}}}}}}',
        f'{{"subject": {{"agent": "a", "{SECRET}": 1}}}}',
    ],
)
async def test_a_secret_where_a_name_should_be_is_not_recorded(service: Service, text: str) -> None:
    for path in ("/decide", "/tools/visible"):
        response = await service.client.post(path, content=text, headers=JSON)
        assert response.status_code == 400
    records = await service.records()
    assert len(records) == 2
    assert SECRET not in json.dumps(records)


async def test_a_dev_key_is_none_without_dev(service: Service) -> None:
    created = await service.ledger.create_api_key(name="x", roles=["decide", "audit"], profile="runtime")
    find = service.ledger.find_credential

    class DevKeys:
        """The store, in which that one key is a dev key."""

        def __getattr__(self, name: str) -> Any:
            return getattr(service.ledger, name)

        async def find_credential(self, key_digest: str) -> Any:
            assert key_digest == digest_api_key(created.secret)
            credential = await find(key_digest)
            assert credential is not None
            return dataclasses.replace(credential, dev=True)

    bundles = service.application.api.state.services.bundles
    headers = {"Authorization": f"Bearer {created.secret}"}
    for dev, status in ((False, 401), (True, 200)):
        application = create_application(
            Config(),
            DevKeys(),  # type: ignore[arg-type]
            ServiceKeys.generate(),
            bundles,
            clock=service.clock,
            dev=dev,
        )
        transport = httpx.ASGITransport(app=application)  # type: ignore[arg-type]
        async with httpx.AsyncClient(transport=transport, base_url="http://authz.test") as client:
            assert (await client.get("/decisions", headers=headers)).status_code == status


@pytest.mark.parametrize(
    "query",
    [
        {"since": "0001-01-01T00:00:00+14:00"},
        {"until": "9999-12-31T23:59:59-14:00"},
        {"before": f"{2**63}.w.1"},
        {"before": f"1.w.{'9' * 100}"},
        {"before": "1.w.٣"},
    ],
)
async def test_moments_and_positions_out_of_range_are_malformed(
    service: Service, query: dict[str, str]
) -> None:
    response = await service.client.get("/decisions", params=query)
    assert (response.status_code, response.json()["code"]) == (400, "input.invalid")
    assert response.json()["pointer"] == f"/{next(iter(query))}"


@pytest.mark.parametrize(
    "headers",
    [
        [],
        [("content-type", "text/plain")],
        [("content-type", "application/json; charset=latin-1")],
        [("content-type", "application/json; charset=utf-8; charset=utf-16")],
        [("content-type", "application/json"), ("content-type", "text/plain")],
        [("content-type", "application/json"), ("content-encoding", "gzip")],
    ],
)
async def test_what_is_not_plain_json_in_utf8_is_no_body(
    service: Service, headers: list[tuple[str, str]]
) -> None:
    for path in ("/decide", "/decide/batch", "/tools/visible"):
        response = await service.client.post(path, content=b"{}", headers=headers)
        problem = response.json()
        assert (response.status_code, problem["code"]) == (415, "input.media_type")
        assert problem["next"] == ["change_arguments", "stop"]


@pytest.mark.parametrize(
    "value", ["application/json", 'Application/JSON; charset="UTF-8"', "application/json;v=1"]
)
async def test_json_may_say_more_of_itself(service: Service, value: str) -> None:
    headers = [
        ("content-type", value),
        ("content-type", "application/json"),
        ("content-encoding", "identity"),
    ]
    body = json.dumps(service.body("fs/file_read", {"path": "/workspace/a"}))
    response = await service.client.post("/decide", content=body, headers=headers)
    assert response.status_code == 200


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("GET", "/decide", "POST"),
        ("PUT", "/decide/batch", "POST"),
        ("DELETE", "/decisions", "GET"),
        ("POST", "/healthz", "GET, HEAD"),
        ("POST", "/readyz", "GET, HEAD"),
    ],
)
async def test_another_method_is_told_which_there_are(
    service: Service, method: str, path: str, allowed: str
) -> None:
    response = await service.client.request(method, path)
    problem = response.json()
    assert (response.status_code, problem["status"], problem["code"]) == (405, 405, "route.method")
    assert problem["title"] == "method not allowed"
    assert response.headers["allow"] == allowed
    assert response.headers["cache-control"] == "no-store"
    metrics = (await service.client.get("/metrics")).text
    assert 'authz_requests_refused_total{code="route.method"} 1.0' in metrics


async def test_probes_answer_head(service: Service) -> None:
    for path in ("/healthz", "/readyz"):
        assert (await service.client.head(path)).status_code == 200


async def test_an_unreadable_store_is_not_told_as_a_decision(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def away(*_: Any) -> Any:
        raise StoreUnavailable("the store is away")

    monkeypatch.setattr(service.ledger, "search", away)
    response = await service.client.get("/decisions")
    assert (response.status_code, response.json()["title"]) == (503, "the store is unavailable")


def _pieces(*pieces: bytes, then: Callable[[], Awaitable[None]]) -> Callable[[], Awaitable[dict[str, Any]]]:
    left = list(pieces)

    async def receive() -> dict[str, Any]:
        if not left:
            await then()
        return {"type": "http.request", "body": left.pop(0), "more_body": True}

    return receive


async def test_a_body_that_stops_halfway_is_refused_in_time() -> None:
    async def forever() -> None:
        await asyncio.sleep(3600)

    with pytest.raises(MalformedInput) as caught:
        await read_body(_pieces(b"{", then=forever), 1024, timeout_seconds=0.01)
    assert caught.value.code == "input.timeout"


def test_each_error_has_its_status() -> None:
    for code, status in (("input.timeout", 408), ("input.headers_too_large", 431), ("route.method", 405)):
        assert problem(AuthzError("x", code=code))[0] == status


async def test_what_a_batch_does_not_get_to_in_time_is_refused(service: Service) -> None:
    """Or a key that is revoked, and a bundle that is replaced, would decide for as long as a batch lasts."""
    decisions = service.application.services.decisions
    times = iter([0.0, 0.0, MAX_BATCH_SECONDS, MAX_BATCH_SECONDS + 0.1])
    decisions._monotonic = lambda: next(times)
    response = await service.client.post("/decide/batch", json=_three(service))
    assert response.status_code == 200
    first, second, third = response.json()["decisions"]
    assert (first["effect"], second["effect"]) == ("allow", "allow")
    assert (third["problem"]["status"], third["problem"]["code"]) == (503, "store.slow")
    assert (third["problem"]["next"], third["problem"]["retry_unchanged"]) == (["wait"], True)
    assert [record["type"] for record in await service.records()] == ["decision.made"] * 2

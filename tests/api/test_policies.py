"""`/policies`, and what the probes and the metrics say of the bundle."""

from pathlib import Path
from typing import Any

import pytest

from authz.api.policies import AttemptOut, PoliciesOut
from tests.support.bundles import write_bundle
from tests.support.reloading import FORBID, Reloading, reloading
from tests.support.world import PERMIT_ALL

BROKEN = '@id("everything") permit (principal, action, resource);\n@id("b") permit (principle);'


async def _policies(running: Reloading) -> dict[str, Any]:
    response = await running.service.client.get("/policies")
    assert response.status_code == 200
    body: dict[str, Any] = response.json()
    PoliciesOut.model_validate(body, strict=True)
    return body


async def _reload(running: Reloading) -> dict[str, Any]:
    response = await running.service.client.post("/policies/reload")
    assert response.status_code == 200, response.text
    body: dict[str, Any] = response.json()
    AttemptOut.model_validate(body, strict=True)
    return body


async def _ready(running: Reloading) -> tuple[int, str, str]:
    response = await running.service.client.get("/readyz", headers={"Authorization": ""})
    assert "main.cedar" not in response.text
    return response.status_code, response.json()["status"], response.json()["components"]["bundle"]


async def _metric(running: Reloading, name: str) -> dict[str, float]:
    """Label text → value."""
    text = (await running.service.client.get("/metrics")).text
    lines = [line for line in text.splitlines() if line.startswith((name + "{", name + " "))]
    return {line[len(name) :].rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in lines}


async def test_the_status_of_a_bundle_that_was_never_reloaded(tmp_path: Path) -> None:
    async with reloading(tmp_path) as running:
        found = await _policies(running)
        assert found["version"] == running.version
        assert found["state"] == "ready"
        assert found["last_attempt"] is None
        assert found["watch"] == {"by": "off", "fault": ""}
        assert found["max_staleness_seconds"] is None
        assert (found["rule_count"], found["tool_count"]) == (2, 7)
        assert await _ready(running) == (200, "ready", "ready")


async def test_a_reload_answers_with_its_outcome(tmp_path: Path) -> None:
    async with reloading(tmp_path) as running:
        service = running.service
        service.clock.at_ms += 60_000
        assert (await _reload(running))["outcome"] == "unchanged"
        running.write(FORBID)
        loaded = await _reload(running)
        assert (loaded["outcome"], loaded["version"], loaded["problems"]) == ("loaded", running.version, [])
        found = await _policies(running)
        assert found["version"] == running.version
        assert found["since"] == loaded["at"] == "2026-11-30T10:01:00.123Z"
        assert [rule["rule"] for rule in found["rules"]] == ["closed", "authz.self-protection"]
        [record] = await service.records(type="bundle.loaded")
        keys = {key.name: key.key_id for key in await service.ledger.list_api_keys()}
        assert (record["trigger"], record["caller"]) == ("api", {"key_id": keys["all"]})


async def test_what_is_wrong_where_is_told_to_operators(tmp_path: Path) -> None:
    async with reloading(tmp_path) as running:
        before = running.version
        running.write(BROKEN)
        rejected = await _reload(running)
        assert (rejected["outcome"], rejected["version"]) == ("rejected", before)
        [problem] = rejected["problems"]
        assert (problem["file"], problem["line"]) == ("rules/main.cedar", 2)
        assert problem["message"]
        found = await _policies(running)
        assert (found["state"], found["version"]) == ("degraded", before)
        assert found["last_attempt"] == rejected
        assert await _ready(running) == (200, "degraded", "degraded")
        running.write(FORBID)
        await _reload(running)
        assert (await _policies(running))["state"] == "ready"
        assert await _ready(running) == (200, "ready", "ready")


@pytest.mark.parametrize(
    ("roles", "status", "reload"),
    [
        (("decide",), 403, 403),
        (("audit",), 200, 403),
        (("policy",), 200, 200),
        (("approve", "issue"), 403, 403),
    ],
)
async def test_who_may_see_and_who_may_reload(
    tmp_path: Path, roles: tuple[str, ...], status: int, reload: int
) -> None:
    async with reloading(tmp_path) as running:
        running.write(BROKEN)
        await _reload(running)
        client = running.service.client
        headers = await running.service.add_key("other", *roles)
        for response, expected in (
            (await client.get("/policies", headers=headers), status),
            (await client.post("/policies/reload", headers=headers), reload),
        ):
            assert response.status_code == expected
            assert ("main.cedar" in response.text) is (expected == 200)
            if expected == 403:
                assert response.json()["code"] == "caller.role_missing"


async def test_a_reload_that_cannot_be_recorded_is_a_problem(tmp_path: Path) -> None:
    async with reloading(tmp_path) as running:
        running.write(FORBID)
        before = running.version
        reloads = running.reloads

        class Full:
            """A ledger that takes nothing."""

            async def commit(self, unit: Any) -> Any:
                from authz.errors import StoreUnavailable

                raise StoreUnavailable("the disk is full")

        ledger, reloads._ledger = reloads._ledger, Full()  # type: ignore[assignment]
        response = await running.service.client.post("/policies/reload")
        assert (response.status_code, response.json()["code"]) == (503, "store.unavailable")
        assert running.version == before
        reloads._ledger = ledger
        assert (await _policies(running))["state"] == "degraded"
        assert (await _reload(running))["outcome"] == "loaded"


async def test_an_unknown_parameter_is_refused(tmp_path: Path) -> None:
    async with reloading(tmp_path) as running:
        response = await running.service.client.post("/policies/reload", params={"force": "1"})
        assert (response.status_code, response.json()["code"]) == (400, "input.invalid")


async def test_metrics_tell_the_bundle_and_its_reloads(tmp_path: Path) -> None:
    async with reloading(tmp_path) as running:
        first = running.version
        assert await _metric(running, "authz_bundle_info") == {f'{{tenant="default",version="{first}"}}': 1}
        running.write(FORBID)
        await _reload(running)
        running.write(BROKEN)
        await _reload(running)
        info = await _metric(running, "authz_bundle_info")
        assert info == {f'{{tenant="default",version="{running.version}"}}': 1}
        assert await _metric(running, "authz_bundle_state") == {
            '{state="ready",tenant="default"}': 0,
            '{state="degraded",tenant="default"}': 1,
            '{state="stale",tenant="default"}': 0,
        }
        assert await _metric(running, "authz_bundle_reloads_total") == {
            '{outcome="loaded",tenant="default",trigger="api"}': 1,
            '{outcome="rejected",tenant="default",trigger="api"}': 1,
        }
        assert (await _metric(running, "authz_bundle_rules")) == {'{tenant="default"}': 2}
        loaded_at = await _metric(running, "authz_bundle_last_good_load_timestamp_seconds")
        assert loaded_at == {'{tenant="default"}': running.service.clock.at_ms / 1000}


async def test_past_the_bound_on_staleness_nothing_is_decided(tmp_path: Path) -> None:
    async with reloading(tmp_path, max_staleness_seconds=30) as running:
        service, client = running.service, running.service.client
        body = service.body("fs/file_read", {"path": "/workspace/a"})
        visible = {"subject": {"agent": "coder-1"}, "servers": [{"server": "fs"}]}
        running.write(BROKEN)
        await _reload(running)
        running.monotonic.now += 30
        assert (await service.decide(body))["effect"] == "allow"
        running.monotonic.now += 0.5
        for path, sent in (
            ("/decide", body),
            ("/decide/batch", {"calls": [body]}),
            ("/tools/visible", visible),
        ):
            refused = await client.post(path, json=sent)
            assert refused.status_code == 503, path
            assert refused.headers["content-type"] == "application/problem+json"
            assert (refused.json()["code"], refused.json()["next"]) == ("bundle.stale", ["wait"])
            assert "main.cedar" not in refused.text
        assert await _ready(running) == (503, "not_ready", "stale")
        records = await service.records(type="request.refused")
        assert [record["code"] for record in records] == ["bundle.stale"] * 3
        # Operators still see why, and a good bundle ends it.
        found = await _policies(running)
        assert (found["state"], found["unconfirmed_seconds"]) == ("stale", 30.5)
        assert found["last_attempt"]["problems"]
        running.write(PERMIT_ALL)
        assert (await _reload(running))["outcome"] == "unchanged"
        assert (await service.decide(service.body("fs/file_read", {"path": "/workspace/a"})))[
            "effect"
        ] == "allow"
        assert await _ready(running) == (200, "ready", "ready")


async def test_a_rejected_reload_does_not_make_a_bundle_fresh(tmp_path: Path) -> None:
    async with reloading(tmp_path, max_staleness_seconds=30) as running:
        running.write(BROKEN)
        for _ in range(3):
            running.monotonic.now += 15
            await _reload(running)
        assert (await _policies(running))["state"] == "stale"


async def test_metrics_are_of_the_callers_tenant_only(tmp_path: Path) -> None:
    async with reloading(tmp_path, tenants={"other": write_bundle(tmp_path / "other")}) as running:
        service = running.service
        other = await service.add_key("b", "decide", "audit", tenant="other")
        body = service.body("fs/file_read", {"path": "/workspace/a"})
        await service.decide(body, other)
        await running.reload("other")
        text = (await service.client.get("/metrics")).text
        assert "other" not in text.replace('path="other"', "")
        assert "authz_decisions_total{" not in text
        assert 'authz_bundle_info{tenant="default"' in text
        theirs = (await service.client.get("/metrics", headers=other)).text
        assert 'tenant="default"' not in theirs
        assert 'effect="allow",stage="policy",tenant="other"} 1.0' in theirs
        assert 'authz_bundle_reloads_total{outcome="unchanged",tenant="other",trigger="signal"} 1.0' in theirs


async def test_rules_are_listed_by_pages(tmp_path: Path) -> None:
    async with reloading(tmp_path) as running:
        names = [f"r{number}" for number in range(7)]
        running.write("\n".join(f'@id("{name}") permit (principal, action, resource);' for name in names))
        await _reload(running)
        client = running.service.client
        heard: list[str] = []
        after = ""
        while True:
            page = (await client.get("/policies", params={"limit": "3", "after": after})).json()
            PoliciesOut.model_validate(page, strict=True)
            assert page["rule_count"] == 8
            heard += [rule["rule"] for rule in page["rules"]]
            if page["next"] is None:
                break
            assert len(page["rules"]) == 3
            after = page["next"]
        assert heard == [*names, "authz.self-protection"]
        assert (await _policies(running))["next"] is None
        for query in ({"after": "absent"}, {"limit": "0"}, {"limit": "1001"}, {"rule": "r1"}):
            refused = await client.get("/policies", params=query)
            assert (refused.status_code, refused.json()["code"]) == (400, "input.invalid"), query


@pytest.mark.parametrize("body", [b"{}", b'{"force": true}', b" ", b"\xff"])
async def test_a_reload_takes_no_body(tmp_path: Path, body: bytes) -> None:
    async with reloading(tmp_path) as running:
        refused = await running.service.client.post("/policies/reload", content=body)
        assert (refused.status_code, refused.json()["code"]) == (400, "input.invalid")
        assert running.bundles.status("default").last_attempt is None

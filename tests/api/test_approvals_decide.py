"""`POST /decide` with approvals: how an answer tells of one, from ask to use, and what `/explain` says."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from authz.api.explain import ExplanationOut
from authz.api.wire import DecisionOut
from authz.store.postgres_url import PostgresUrl
from tests.support.answering import asking, ruleset_of
from tests.support.people import sign_in
from tests.support.service import Service

PATH = {"path": "/workspace/a"}


@pytest.fixture(params=["sqlite", "postgres"])
async def service(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Service]:
    """A service whose rules ask finance about every read and write."""
    database = None
    if request.param == "postgres":
        database = PostgresUrl.parse(request.getfixturevalue("postgres_url"))
    async with Service.running(tmp_path, {"default": ruleset_of(asking())}, database=database) as running:
        yield running


async def decide(service: Service, body: dict[str, Any]) -> dict[str, Any]:
    """The answer, held to what the document says of answers."""
    answer: dict[str, Any] = await service.decide(body)
    DecisionOut.model_validate(answer, extra="forbid")
    return answer


async def answer_as_grace(service: Service, approval_id: str, what: str, **body: Any) -> None:
    grace = await sign_in(service, "grace")
    digest = (await service.client.get(f"/approvals/{approval_id}")).json()["shown_digest"]
    known = {"shown_digest": digest} if what == "approve" else {}
    response = await service.client.post(f"/approvals/{approval_id}/{what}", json=known | body, headers=grace)
    assert response.status_code == 200, response.text


async def explain(service: Service, body: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The explanation of the call, and the part of stage 8."""
    response = await service.client.post("/explain", json=body)
    assert response.status_code == 200, response.text
    told = response.json()
    ExplanationOut.model_validate(told, strict=True)
    (stage,) = [stage for stage in told["stages"] if stage["stage"] == "approval"]
    return told, stage


async def test_from_the_ask_to_the_use_and_no_further(service: Service) -> None:
    body = service.body("fs/file_read", PATH)
    asked = await decide(service, body)
    approval_id = asked["approval"]["id"]
    assert (asked["effect"], asked["stage"], asked["code"]) == (
        "require_approval",
        "approval",
        "approval.required",
    )
    assert asked["approval"] == {
        "id": approval_id,
        "state": "pending",
        "url": f"http://localhost:8700/ui/approvals/{approval_id}",
        "expires_at": "2026-11-30T11:00:00.123Z",
    }
    assert (asked["next"], asked["retry_unchanged"]) == (["wait"], True)
    assert "lease" not in asked

    await answer_as_grace(service, approval_id, "approve")
    allowed = await decide(service, body)
    assert (allowed["effect"], allowed["stage"], allowed["code"]) == ("allow", "approval", "approval.granted")
    assert allowed["approval"] == {
        "id": approval_id,
        "state": "consumed",
        "url": f"http://localhost:8700/ui/approvals/{approval_id}",
        "expires_at": "2026-11-30T10:15:00.123Z",
        "scope": "once",
        "uses_left": 0,
    }
    assert [access["effect"] for access in allowed["accesses"]] == ["allow"]
    again = await decide(service, body)
    assert (again["repeated"], again["decision_id"]) == (True, allowed["decision_id"])
    assert again["lease"] == allowed["lease"]
    anew = await decide(service, service.body("fs/file_read", PATH))
    assert anew["effect"] == "require_approval"
    assert anew["approval"]["id"] != approval_id
    changed = await decide(service, body | {"arguments": {"path": "/workspace/b"}})
    assert (changed["effect"], changed["code"]) == ("deny", "operation.conflict")
    assert "approval" not in changed

    records = [one for one in await service.records() if "decision_id" in one]
    linked = [
        (one["type"], one["approval"].get("state"), one["approval"].get("used"))
        for one in records
        if one.get("approval", {}).get("id") == approval_id
    ]
    assert linked == [
        ("decision.made", "pending", None),
        ("approval.approved", None, None),
        ("decision.made", "consumed", True),
        ("decision.repeated", "consumed", False),
    ]
    (use,) = [one for one in records if one.get("approval", {}).get("used")]
    assert use["approval"]["approvers"] == [{"person": "grace", "factor": "session"}]


async def test_a_lost_answer_is_given_again_though_the_call_exposed_its_session(service: Service) -> None:
    """What a file says is untrusted, and with it whatever the model composes from then on."""
    body = service.body("fs/file_read", PATH, provenance={"/path": {"source": "model"}})
    asked = await decide(service, body)
    await answer_as_grace(service, asked["approval"]["id"], "approve")
    allowed = await decide(service, body)
    again = await decide(service, body)
    assert (again["effect"], again["repeated"]) == ("allow", True)
    assert (again["decision_id"], again["lease"]) == (allowed["decision_id"], allowed["lease"])
    made, repeated = (await service.records())[-2:]
    assert (made["exposed"], repeated["exposed"]) == ([], ["untrusted"])
    assert repeated["approval"]["used"] is False


async def test_a_no_goes_back_to_the_agent_in_the_persons_words(service: Service) -> None:
    body = service.body("fs/file_read", PATH)
    approval_id = (await decide(service, body))["approval"]["id"]
    await answer_as_grace(service, approval_id, "deny", reason="ask me on Monday")
    for again in (body, service.body("fs/file_read", PATH)):
        denied = await decide(service, again)
        assert (denied["effect"], denied["stage"], denied["code"]) == ("deny", "approval", "approval.denied")
        assert denied["message"] == "a person denied this call in this session: ask me on Monday"
        assert (denied["next"], denied["retry_unchanged"]) == (["change_arguments", "stop"], False)
        assert denied["approval"] == {
            "id": approval_id,
            "state": "denied",
            "url": f"http://localhost:8700/ui/approvals/{approval_id}",
        }


async def test_a_batch_asks_once_for_the_same(service: Service) -> None:
    calls = [service.body("fs/file_read", {"path": path}) for path in ("/workspace/a", "/workspace/a", "/b")]
    response = await service.client.post("/decide/batch", json={"calls": calls})
    first, same, other = (answer["approval"]["id"] for answer in response.json()["decisions"])
    assert first == same != other


async def test_an_explanation_tells_what_an_approval_would_do_and_what_it_does(service: Service) -> None:
    body = service.body("fs/file_read", PATH)
    told, stage = await explain(service, body)
    assert told["decision"]["effect"] == "require_approval"
    assert told["approval"]["afterwards"] == "allow"
    assert stage["input"] == {"ask": False, "live_approvals": 0, "denials": 0, "waiting": []}
    assert stage["output"] == {"code": "approval.required", "approval": None}
    assert (await service.client.get("/approvals")).json()["approvals"] == [], "an explanation asks nobody"

    approval_id = (await decide(service, body))["approval"]["id"]
    _, stage = await explain(service, body)
    assert stage["input"]["waiting"] == [approval_id]
    await answer_as_grace(service, approval_id, "approve")
    for _ in range(2):
        told, stage = await explain(service, body)
        assert (told["decision"]["effect"], told["decision"]["code"]) == ("allow", "approval.granted")
        assert stage["summary"] == f"approval `{approval_id}` covers every rule that asks"
    assert (await decide(service, body))["effect"] == "allow", "an explanation uses nothing"


async def test_an_explanation_tells_that_nobody_may_be_asked_any_more(service: Service) -> None:
    grace = await sign_in(service, "grace")
    for number in range(3):
        body = service.body("fs/file_edit", {**PATH, "text": f"version {number}"})
        told, _ = await explain(service, body)
        assert told["decision"]["effect"] == "require_approval"
        approval_id = (await decide(service, body))["approval"]["id"]
        response = await service.client.post(f"/approvals/{approval_id}/deny", json={}, headers=grace)
        assert response.status_code == 200, response.text
    body = service.body("fs/file_edit", {**PATH, "text": "once more"})
    told, stage = await explain(service, body)
    decided = await decide(service, body)
    assert (decided["effect"], decided["code"]) == ("deny", "approval.asked_too_often")
    assert (told["decision"]["effect"], told["decision"]["code"]) == (decided["effect"], decided["code"])
    assert (stage["outcome"], stage["summary"]) == ("settled", decided["message"])
    assert told["approval"] is None


async def test_an_explanation_tells_of_a_no(service: Service) -> None:
    body = service.body("fs/file_read", PATH)
    approval_id = (await decide(service, body))["approval"]["id"]
    await answer_as_grace(service, approval_id, "deny", reason="no")
    told, stage = await explain(service, body)
    assert (told["decision"]["effect"], told["decision"]["code"]) == ("deny", "approval.denied")
    assert stage["outcome"] == "settled"
    assert stage["summary"] == "a person denied this call in this session: no"
    assert stage["output"]["approval"] == {"id": approval_id, "state": "denied"}
    assert told["approval"] is None

"""`/operations` over HTTP: start, settle, resolve, cancel; who may, what is recorded, and what comes back."""

import asyncio
import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from authz.api.operations import OperationOut
from authz.api.problems import Problem
from authz.api.wire import DecisionOut
from tests.support.service import Service
from tests.support.world import world as world_of

TTL_MS = 300_000
DIGEST = "sha256:" + "a" * 64
EDIT = ("fs/file_edit", {"path": "/workspace/a", "text": "x"})


async def allowed(service: Service, body: dict[str, Any] | None = None, **context: Any) -> dict[str, Any]:
    """The answer to an edit whose runtime settles."""
    asked = body or service.body(*EDIT, context={"settles": True} | context)
    answer: dict[str, Any] = await service.decide(asked)
    assert answer["effect"] == "allow", answer
    DecisionOut.model_validate(answer)
    return answer | {"asked": asked}


async def post(
    service: Service, answer: dict[str, Any], what: str, *, headers: dict[str, str] | None = None, **body: Any
) -> httpx.Response:
    """A report about a decision, with its lease token unless it says another or none."""
    if what in ("start", "settle"):
        body = {"lease_token": answer["lease"]["token"]} | body
    return await service.client.post(
        f"/operations/{answer['decision_id']}/{what}", json=body, headers=headers
    )


def ok(response: httpx.Response) -> dict[str, Any]:
    assert response.status_code == 200, response.text
    assert response.headers["cache-control"] == "no-store"
    body: dict[str, Any] = response.json()
    OperationOut.model_validate(body)
    return body


def refused(response: httpx.Response, status: int, code: str) -> dict[str, Any]:
    assert (response.status_code, response.json()["code"]) == (status, code), response.text
    assert response.headers["content-type"] == "application/problem+json"
    body: dict[str, Any] = response.json()
    Problem.model_validate(body)
    return body


async def status(service: Service, answer: dict[str, Any], headers: dict[str, str] | None = None) -> str:
    found = ok(await service.client.get(f"/operations/{answer['decision_id']}", headers=headers))
    return str(found["state"])


async def moves(service: Service) -> list[dict[str, Any]]:
    return [record for record in await service.records() if record["type"].startswith("operation.")]


async def test_an_act_begins_and_is_settled_and_its_outcome_comes_back(service: Service) -> None:
    """ID1: the whole way of one effect, and everything of it on record."""
    answer = await allowed(service)
    assert answer["operation"] == {"state": "reserved", "settles": True}
    assert await status(service, answer) == "reserved"

    begun = ok(await post(service, answer, "start", attempt="a-1", timeout_seconds=600))
    assert begun["state"] == "executing"
    assert begun["lease_expires_at"] > answer["lease"]["expires_at"]
    told: dict[str, Any] = {"outcome": "succeeded", "external_id": "tx-1", "result_digest": DIGEST}
    told["detail"] = "all well"
    done = ok(await post(service, answer, "settle", **told))
    assert (done["state"], done["external_id"], done["result_digest"]) == ("succeeded", "tx-1", DIGEST)

    again = await service.decide(answer["asked"])
    DecisionOut.model_validate(again)
    assert (again["effect"], again["stage"], again["code"]) == ("deny", "operation", "operation.settled")
    assert again["operation"] == {
        "state": "succeeded",
        "settles": True,
        "decision_id": answer["decision_id"],
        "external_id": "tx-1",
        "result_digest": DIGEST,
        "settled_at": done["settled_at"],
    }
    assert "lease" not in again
    recorded = await moves(service)
    assert [(record["type"], record["operation"]["to"]) for record in recorded] == [
        ("operation.started", "executing"),
        ("operation.settled", "succeeded"),
    ]
    for record in recorded:
        assert record["decision_id"] == answer["decision_id"]
        assert (record["trace_id"], record["turn_id"]) == ("t-1", "1")
        assert record["tool_call_id"] == answer["asked"]["context"]["tool_call_id"]
        assert record["subject"]["agent"] == "coder-1"
        assert record["tool"] == {"server": "fs", "name": "file_edit"}
        assert record["operation"]["by"] == "holder"
    assert recorded[1]["detail"] == "all well"
    assert recorded[1]["operation"]["external_id"] == "tx-1"
    assert answer["lease"]["token"] not in json.dumps(await service.records())


async def test_a_report_that_is_repeated_is_answered_as_before(service: Service) -> None:
    """A lost reply costs nothing: the same words again, and one record."""
    answer = await allowed(service)
    assert ok(await post(service, answer, "start", attempt="a")) == ok(
        await post(service, answer, "start", attempt="a")
    )
    told: dict[str, Any] = {"outcome": "failed_final", "external_id": "tx-1"}
    first = ok(await post(service, answer, "settle", **told))
    service.clock.at_ms += 10 * TTL_MS
    assert ok(await post(service, answer, "settle", **told)) == first
    for other in (told | {"external_id": "tx-2"}, {"outcome": "succeeded"}, {"outcome": "not_executed"}):
        problem = refused(await post(service, answer, "settle", **other), 409, "operation.settled")
        assert problem["state"] == "failed_final"
        assert problem["next"] == ["query_status", "stop"]
        assert not problem["retry_unchanged"]
    records = await moves(service)
    assert [record["type"] for record in records] == [
        "operation.started",
        "operation.settled",
        *["operation.contradicted"] * 3,
    ]
    assert [record["contradicts"]["outcome"] for record in records[2:]] == [
        "failed_final",
        "succeeded",
        "not_executed",
    ], "what was not taken is on record all the same"
    assert records[2]["contradicts"] == {
        "outcome": "failed_final",
        "external_id": "tx-2",
        "result_digest": None,
        "refunded": False,
        "superseded_by": None,
        "operation": "failed_final",
        "stopped": False,
    }


async def test_of_several_attempts_one_runs(service: Service) -> None:
    """bug-182: a retry that cannot know whether the first arrived gets its answer, and nobody else does."""
    body = service.body(*EDIT, context={"start": {"attempt": "a-1", "timeout_seconds": 3600}})
    first = await allowed(service, body)
    assert first["operation"] == {"state": "executing", "settles": True}
    again = await allowed(service, body)
    assert again["repeated"] is True
    assert (again["decision_id"], again["lease"]) == (first["decision_id"], first["lease"])

    body["context"]["start"] = {"attempt": "a-2"}
    other = await service.decide(body)
    assert (other["effect"], other["code"], other["next"]) == (
        "deny",
        "operation.in_progress",
        ["wait", "query_status"],
    )
    assert other["operation"]["state"] == "executing"
    refused(await post(service, first, "start", attempt="a-2"), 409, "operation.in_progress")
    assert ok(await post(service, first, "start", attempt="a-1"))["state"] == "executing"
    assert await moves(service) == [], "the decision's own record says that it began"
    (made, *_) = await service.records()
    assert made["operation"] == {
        "state": "executing",
        "settles": True,
        "starts": True,
        "attempt": "a-1",
        "decision_id": None,
    }


async def test_many_attempts_at_once_are_one_act(service: Service) -> None:
    body = service.body(*EDIT)
    asked = [
        body | {"context": body["context"] | {"start": {"attempt": f"a-{number}"}}} for number in range(12)
    ]
    answers = await asyncio.gather(*(service.decide(each) for each in asked))
    assert sorted(answer["effect"] for answer in answers) == ["allow"] + ["deny"] * 11
    assert {answer["code"] for answer in answers if answer["effect"] == "deny"} == {"operation.in_progress"}


async def test_what_failed_in_passing_may_be_decided_anew_under_its_key(service: Service) -> None:
    first = await allowed(service)
    await post(service, first, "settle", outcome="failed_retryable")
    second = await allowed(service, first["asked"])
    assert second["decision_id"] != first["decision_id"]
    assert second["idempotency_key"] == first["idempotency_key"]
    # The first permission is over: neither its token nor its id settles the second.
    refused(await post(service, first, "start", attempt="a"), 409, "operation.superseded")
    refused(await post(service, first, "cancel"), 409, "operation.superseded")
    again = ok(await post(service, first, "settle", outcome="failed_retryable"))
    assert (again["state"], again["superseded_by"]) == ("failed_retryable", second["decision_id"])
    refused(
        await post(service, second, "settle", outcome="succeeded", lease_token=first["lease"]["token"]),
        403,
        "operation.lease",
    )
    found = ok(await service.client.get(f"/operations/{first['decision_id']}"))
    assert (found["state"], found["superseded_by"]) == ("failed_retryable", second["decision_id"])
    assert await status(service, second) == "reserved"
    ok(await post(service, second, "settle", outcome="succeeded"))
    service.clock.at_ms += 24 * 3_600_000
    late = await service.decide(first["asked"])
    assert (late["effect"], late["code"]) == ("deny", "operation.expired")


async def test_what_never_began_did_not_run(service: Service) -> None:
    """A declared lease that ends is proof; the same call is then another decision."""
    answer = await allowed(service)
    service.clock.at_ms += TTL_MS
    assert await status(service, answer) == "not_executed"
    refused(await post(service, answer, "start", attempt="a"), 409, "operation.not_executed")
    anew = await allowed(service, answer["asked"])
    assert anew["decision_id"] != answer["decision_id"]
    (record,) = await moves(service)
    assert record["type"] == "operation.expired"
    assert record["operation"] | {"lease_expires_at": None} == {
        "from": "reserved",
        "to": "not_executed",
        "by": "lease_end",
        "settles": True,
        "ticketed": False,
        "attempt": None,
        "cancel_requested": False,
        "lease_expires_at": None,
        "external_id": None,
        "result_digest": None,
        "released": True,
        "version": 2,
    }
    assert record["caller"] is None


async def test_what_was_interrupted_is_unknown_until_somebody_looks(service: Service) -> None:
    answer = await allowed(service, start={"attempt": "a"})
    service.clock.at_ms += TTL_MS
    assert await status(service, answer) == "unknown"
    again = await service.decide(answer["asked"])
    assert (again["effect"], again["code"], again["retry_unchanged"]) == ("deny", "operation.unknown", False)
    assert "query_status" in again["next"]
    assert again["operation"]["state"] == "unknown"
    refused(await post(service, answer, "settle", outcome="failed_final"), 409, "operation.unknown")
    refused(await post(service, answer, "settle", outcome="not_executed"), 409, "operation.not_proven")
    # The runtime's own word gives nothing back, whatever else its key may do.
    refused(
        await post(service, answer, "resolve", outcome="not_executed", reason="I know"),
        403,
        "operation.own_word",
    )
    person = await service.add_key("person", "approve")
    found: dict[str, Any] = {"outcome": "not_executed", "reason": "the endpoint has no such key"}
    resolved = ok(await post(service, answer, "resolve", headers=person, **found))
    assert resolved["state"] == "not_executed"
    assert ok(await post(service, answer, "resolve", headers=person, **found)) == resolved
    refused(
        await post(service, answer, "resolve", headers=person, **(found | {"outcome": "succeeded"})),
        409,
        "operation.not_executed",
    )
    records = await moves(service)
    assert [
        (record["type"], record["operation"]["by"], record["operation"]["released"])
        for record in records
        if "contradicts" not in record
    ] == [("operation.unknown", "lease_end", False), ("operation.resolved", "examiner", True)]
    told = [record["contradicts"] for record in records if "contradicts" in record]
    assert [one["outcome"] for one in told] == ["failed_final", "not_executed"], "for whoever looks"
    assert records[-1]["detail"] == "the endpoint has no such key"
    assert (await service.decide(answer["asked"]))["effect"] == "allow"


async def test_a_late_word_of_success_is_taken(service: Service) -> None:
    """It gives nothing back and lets nothing run again."""
    answer = await allowed(service, start={"attempt": "a"})
    service.clock.at_ms += 2 * TTL_MS
    ok(await post(service, answer, "settle", outcome="succeeded", external_id="tx-9"))
    again = await service.decide(answer["asked"])
    assert (again["code"], again["operation"]["external_id"]) == ("operation.settled", "tx-9")


async def test_a_runtime_that_declares_nothing_is_unknown_when_its_time_is_over(service: Service) -> None:
    answer = await service.decide(body := service.body(*EDIT))
    assert "operation" not in answer
    refused(await post(service, answer, "settle", outcome="not_executed"), 409, "operation.not_proven")
    service.clock.at_ms += TTL_MS
    assert await status(service, answer) == "unknown"
    assert (await service.decide(body))["code"] == "operation.unknown"
    assert await moves(service) == [], "of what nobody promised to tell nothing is missing"
    person = await service.add_key("person", "policy")
    ok(await post(service, answer, "resolve", headers=person, outcome="succeeded", reason="it is there"))
    assert (await service.decide(body))["code"] == "operation.settled"


async def test_what_is_to_be_cancelled_does_not_begin(service: Service) -> None:
    answer = await allowed(service)
    wished = ok(await post(service, answer, "cancel", reason="changed my mind"))
    assert (wished["state"], wished["cancel_requested"]) == ("reserved", True)
    assert ok(await post(service, answer, "cancel")) == wished
    refused(await post(service, answer, "start", attempt="a"), 409, "operation.cancel_requested")
    again = await service.decide(answer["asked"])
    assert (again["effect"], again["code"]) == ("deny", "operation.cancel_requested")
    ended = ok(await post(service, answer, "settle", outcome="not_executed"))
    assert ended["state"] == "not_executed"
    refused(await post(service, answer, "cancel"), 409, "operation.not_executed")
    assert [record["type"] for record in await moves(service)] == [
        "operation.cancel_requested",
        "operation.settled",
    ]


@pytest.mark.parametrize("outcome", ["not_executed", "failed_retryable"])
async def test_a_cancel_is_not_undone_by_whoever_it_stops(service: Service, outcome: str) -> None:
    person = await service.add_key("person", "approve")
    answer = await allowed(service)
    ok(await post(service, answer, "cancel", headers=person, reason="not wanted"))
    ok(await post(service, answer, "settle", outcome=outcome))
    again = await service.decide(answer["asked"])
    assert (again["effect"], again["code"]) == ("deny", "operation.cancel_requested")
    assert ok(await service.client.get(f"/operations/{answer['decision_id']}"))["cancel_requested"]


@pytest.mark.parametrize("roles", [("decide", "approve"), ("decide", "policy")])
async def test_nobody_who_may_ask_for_the_call_resolves_it(service: Service, roles: tuple[str, ...]) -> None:
    """What gives back is not the word of whoever spends, by a second key either."""
    second = await service.add_key("second", *roles)
    answer = await allowed(service)
    ok(await post(service, answer, "settle", outcome="unknown"))
    looked = {"outcome": "not_executed", "reason": "I know"}
    refused(await post(service, answer, "resolve", headers=second, **looked), 403, "operation.own_word")
    assert await status(service, answer) == "unknown"
    person = await service.add_key("person", "approve")
    assert ok(await post(service, answer, "resolve", headers=person, **looked))["state"] == "not_executed"


async def test_what_refused_a_call_that_was_allowed_has_no_operation(service: Service) -> None:
    answer = await allowed(service)
    ok(await post(service, answer, "settle", outcome="succeeded", external_id="tx-1"))
    other = service.body("fs/file_edit", {"path": "/workspace/b", "text": "x"}, context={"settles": True})
    other["context"]["tool_call_id"] = answer["asked"]["context"]["tool_call_id"]
    for asked, code in ((other, "operation.conflict"), (answer["asked"], "operation.settled")):
        decision = await service.decide(asked)
        assert decision["code"] == code
        found = await service.client.get(f"/operations/{decision['decision_id']}")
        refused(found, 404, "operation.none")
    assert await status(service, answer) == "succeeded"


async def test_what_runs_goes_on_when_it_is_to_be_cancelled(service: Service) -> None:
    answer = await allowed(service, start={"attempt": "a"})
    assert ok(await post(service, answer, "cancel"))["state"] == "executing"
    assert ok(await post(service, answer, "settle", outcome="succeeded"))["state"] == "succeeded"


async def test_only_the_holder_of_the_lease_settles(service: Service) -> None:
    answer, other = await allowed(service), await allowed(service)
    reports: dict[str, dict[str, Any]] = {"start": {"attempt": "a"}, "settle": {"outcome": "succeeded"}}
    for token in (other["lease"]["token"], answer["lease"]["token"][:-1], answer["idempotency_key"], "é"):
        for what, told in reports.items():
            response = await post(service, answer, what, lease_token=token, **told)
            refused(response, 403, "operation.lease")
    assert await status(service, answer) == "reserved"
    records = await service.records()
    assert {record["code"] for record in records if record["type"] == "request.refused"} == {
        "operation.lease"
    }
    assert other["lease"]["token"] not in json.dumps(records)


async def test_who_may_see_and_touch_an_operation(service: Service, tmp_path: Path) -> None:
    answer = await allowed(service)
    roles = {name: await service.add_key(name, name) for name in ("audit", "policy", "approve", "issue")}
    for name in ("audit", "policy", "approve"):
        assert await status(service, answer, roles[name]) == "reserved"
    refused(
        await service.client.get(f"/operations/{answer['decision_id']}", headers=roles["issue"]),
        403,
        "caller.role_missing",
    )
    told: dict[str, dict[str, Any]] = {
        "start": {"attempt": "a"},
        "settle": {"outcome": "succeeded"},
        "resolve": {"outcome": "succeeded", "reason": "r"},
        "cancel": {},
    }
    may = {"start": "", "settle": "", "resolve": "approve policy", "cancel": "approve policy"}
    for what, body in told.items():
        for name, headers in roles.items():
            if name not in may[what].split():
                response = await post(service, answer, what, headers=headers, **body)
                refused(response, 403, "caller.role_missing")
    assert (await service.client.get("/operations/none")).json()["code"] == "decision.unknown"


async def test_another_tenants_operation_is_as_if_absent(tmp_path: Path) -> None:
    ruleset = world_of()
    async with Service.running(tmp_path, {"default": ruleset, "other": ruleset}) as service:
        answer = await allowed(service)
        stranger = await service.add_key("stranger", "decide", "audit", "policy", "approve", tenant="other")
        response = await service.client.get(f"/operations/{answer['decision_id']}", headers=stranger)
        absent = await service.client.get("/operations/none", headers=stranger)
        assert response.json() == absent.json()
        for what, body in (
            ("start", {"attempt": "a"}),
            ("settle", {"outcome": "succeeded"}),
            ("resolve", {"outcome": "succeeded", "reason": "r"}),
            ("cancel", {}),
        ):
            refused(await post(service, answer, what, headers=stranger, **body), 404, "decision.unknown")
        assert await status(service, answer) == "reserved"


async def test_another_subjects_operation_is_as_if_absent(tmp_path: Path) -> None:
    """A subagent's own key sees what its own agent did."""
    ruleset = world_of(
        credentials="""\
profiles:
  runtime: {agents: ["*"], users: ["*"], sandboxes: [/workspace]}
  narrow: {agents: [other-agent], users: ["*"], sandboxes: [/workspace]}
"""
    )
    async with Service.running(tmp_path, {"default": ruleset}) as service:
        answer = await allowed(service)
        narrow = await service.add_key("narrow", "decide", profile="narrow")
        response = await service.client.get(f"/operations/{answer['decision_id']}", headers=narrow)
        refused(response, 404, "decision.unknown")
        response = await post(service, answer, "settle", headers=narrow, outcome="succeeded")
        refused(response, 404, "decision.unknown")


async def test_decisions_without_an_operation_have_none(service: Service) -> None:
    dry = await service.decide(service.body(*EDIT) | {"dry_run": True})
    read = service.body("fs/file_read", {"path": "/workspace/a"})
    del read["context"]["tool_call_id"]
    for answer in (dry, await service.decide(read)):
        response = await service.client.get(f"/operations/{answer['decision_id']}")
        refused(response, 404, "operation.none")
    denied = await service.decide(service.body("fs/file_edit", {"path": "/workspace/.secrets/a", "text": ""}))
    assert await status(service, denied) == "refused"
    read["context"]["settles"] = True
    assert (await service.decide(read))["code"] == "operation.ids_required"


@pytest.mark.parametrize(
    ("what", "body", "pointer"),
    [
        ("start", {}, "/attempt"),
        ("start", {"attempt": ""}, "/attempt"),
        ("start", {"attempt": "a\u200b"}, "/attempt"),
        ("start", {"attempt": "a", "timeout_seconds": 0}, "/timeout_seconds"),
        ("start", {"attempt": "a", "timeout_seconds": 86_401}, "/timeout_seconds"),
        ("start", {"attempt": "a", "timeout_seconds": 1.5}, "/timeout_seconds"),
        ("start", {"attempt": "a", "lease_token": None}, "/lease_token"),
        ("settle", {"outcome": "cancelled"}, "/outcome"),
        ("settle", {"outcome": "executing"}, "/outcome"),
        ("settle", {"outcome": "succeeded", "result_digest": "sha256:AB"}, "/result_digest"),
        ("settle", {"outcome": "succeeded", "external_id": "a\u0000"}, "/external_id"),
        ("settle", {"outcome": "succeeded", "detail": "a\u0000"}, "/detail"),
        ("settle", {"outcome": "succeeded", "detail": "x" * 2049}, "/detail"),
        ("settle", {"outcome": "succeeded", "force": True}, "/force"),
        ("resolve", {"outcome": "failed_final", "reason": "r"}, "/outcome"),
        ("resolve", {"outcome": "succeeded"}, "/reason"),
        ("resolve", {"outcome": "succeeded", "reason": ""}, "/reason"),
        ("cancel", {"reason": 3}, "/reason"),
    ],
)
async def test_a_body_is_read_strictly(
    service: Service, what: str, body: dict[str, Any], pointer: str
) -> None:
    answer = await allowed(service)
    problem = refused(await post(service, answer, what, **body), 400, "input.invalid")
    assert problem["pointer"] == pointer
    assert await status(service, answer) == "reserved"


async def test_a_body_is_one_json_document(service: Service) -> None:
    answer = await allowed(service)
    url = f"/operations/{answer['decision_id']}/settle"
    token = answer["lease"]["token"]
    twice = f'{{"lease_token": "{token}", "outcome": "succeeded", "outcome": "failed_final"}}'
    response = await service.client.post(url, content=twice, headers={"content-type": "application/json"})
    refused(response, 400, "input.duplicate_name")
    response = await service.client.post(url, content=twice, headers={"content-type": "text/plain"})
    refused(response, 415, "input.media_type")
    response = await service.client.post(f"{url}?force=1", json={})
    refused(response, 400, "input.invalid")
    assert await status(service, answer) == "reserved"


async def test_secrets_in_words_are_not_on_record(service: Service) -> None:
    answer = await allowed(service)
    secret = "ghp_" + "a1B2" * 9
    await post(
        service, answer, "settle", outcome="failed_final", detail=f"refused {secret}", external_id=secret
    )
    assert secret not in json.dumps(await service.records())
    again = await service.decide(answer["asked"])
    assert again["operation"]["external_id"] == secret, "first outcomes come back as they were told"

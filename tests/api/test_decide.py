"""`POST /decide` over the wire: the answer, and the one record that it leaves."""

import asyncio
from typing import Any

import httpx
import pytest

from authz.api.wire import DecisionOut
from tests.support.service import Service, digest_of


def recorded_like(record: dict[str, Any], answer: dict[str, Any]) -> bool:
    """The outcome recorded equals the outcome answered (AU1)."""
    return (
        record["decision_id"] == answer["decision_id"]
        and record["effect"] == answer["effect"]
        and record["stage"] == answer["stage"]
        and record["code"] == answer["code"]
        and record["sequence"] == answer["sequence"]
        and [rule["rule"] for rule in record["matched"]] == [rule["rule"] for rule in answer["matched"]]
        and record["policy_version"] == answer["policy_version"]
        and record["fingerprint"] == answer.get("fingerprint")
        and record["request_digest"] == answer["request_digest"]
    )


async def test_an_allow_names_its_rule_and_carries_a_lease(service: Service) -> None:
    body = service.body("fs/file_edit", {"path": "/workspace/../workspace/app.py", "text": "x"})
    answer = await service.decide(body)

    assert answer["effect"] == "allow"
    assert (answer["stage"], answer["code"], answer["authority"]) == ("policy", "policy.permit", "A1")
    assert answer["matched"] == [
        {
            "rule": "workspace",
            "kind": "permit",
            "file": "rules/main.cedar",
            "line": 1,
            "reason": "The sandbox can be discarded.",
        }
    ]
    assert answer["accesses"] == [
        {
            "verb": "write",
            "resource": 'File::"/workspace/app.py"',
            "uri": "file:///workspace/app.py",
            "scope": "object",
            "authority": "A1",
            "effect": "allow",
            "rules": ["workspace"],
        }
    ]
    assert answer["arguments"] == {"path": "/workspace/app.py", "text": "x", "append": False}
    assert answer["request_digest"] == digest_of(body)
    assert answer["expires_at"] == answer["lease"]["expires_at"] == "2026-11-30T10:05:00.123Z"
    assert answer["obligations"] == []
    assert answer["trace_id"] == "t-1"
    (record,) = await service.records()
    assert record["type"] == "decision.made"
    assert recorded_like(record, answer)


async def test_a_deny_names_the_forbid_and_says_what_to_try(service: Service) -> None:
    answer = await service.decide(service.body("fs/file_read", {"path": "/workspace/.secrets/key"}))

    assert (answer["effect"], answer["stage"], answer["code"]) == ("deny", "policy", "policy.forbid")
    assert [rule["rule"] for rule in answer["matched"]] == ["secrets"]
    assert "`secrets`" in answer["message"]
    assert "Secrets stay where they are." in answer["message"]
    assert answer["next"] == ["change_arguments", "stop"]
    assert answer["retry_unchanged"] is False
    assert "lease" not in answer
    assert "idempotency_key" not in answer
    (record,) = await service.records()
    assert recorded_like(record, answer)


async def test_nothing_matched_is_a_named_deny(service: Service) -> None:
    answer = await service.decide(service.body("fs/file_edit", {"path": "/etc/passwd", "text": ""}))

    assert (answer["effect"], answer["code"], answer["matched"]) == ("deny", "policy.no_match", [])
    (record,) = await service.records()
    assert recorded_like(record, answer)


async def test_an_ask_names_every_asking_rule_with_its_terms(service: Service) -> None:
    answer = await service.decide(service.body("bank/transfer", {"to": "acc-1", "amount": 12.5}))

    assert (answer["effect"], answer["stage"], answer["code"]) == (
        "require_approval",
        "approval",
        "approval.required",
    )
    (rule,) = answer["matched"]
    assert (rule["rule"], rule["kind"]) == ("money-asks", "ask")
    assert (rule["approvers"], rule["quorum"]) == (['Group::"finance"'], 2)
    assert "lease" not in answer
    (record,) = await service.records()
    assert recorded_like(record, answer)
    assert (record["matched"][0]["approvers"], record["matched"][0]["quorum"]) == (['Group::"finance"'], 2)
    # What the asking rule overruled is for the auditor, not for the caller.
    assert [rule["rule"] for rule in record["overruled"]] == ["money"]
    assert "overruled" not in answer


async def test_an_unknown_tool_is_denied_and_recorded(service: Service) -> None:
    answer = await service.decide(service.body("fs/format_disk", {"secret": "hunter2-hunter2"}))

    assert (answer["effect"], answer["stage"], answer["code"]) == ("deny", "tool", "tool.unknown")
    (record,) = await service.records()
    assert recorded_like(record, answer)
    assert "hunter2" not in str(record)


async def test_faulty_arguments_are_told_where_and_how(service: Service) -> None:
    answer = await service.decide(service.body("fs/file_edit", {"path": 7, "colour": "red"}))

    assert (answer["effect"], answer["stage"], answer["code"]) == ("deny", "schema", "schema.invalid")
    by_place = {error["pointer"]: error for error in answer["errors"]}
    assert by_place["/path"]["found"] == "integer"
    assert by_place["/path"]["expected"] == "string"
    assert by_place["/text"]["message"] == "add the required argument `text`"
    assert by_place["/colour"]["message"] == "remove `colour`"
    assert answer["next"] == ["change_arguments", "stop"]
    (record,) = await service.records()
    assert recorded_like(record, answer)


async def test_every_kind_of_answer_fits_the_documented_shape(service: Service) -> None:
    bodies = [
        service.body("fs/file_edit", {"path": "/workspace/a", "text": ""}),
        service.body("fs/file_edit", {"path": "/etc/a", "text": ""}),
        service.body("fs/file_edit", {}),
        service.body("fs/none", {}),
        service.body("bank/transfer", {"to": "a", "amount": 1}),
        service.body("fs/file_edit", {"path": "/workspace/a\0", "text": ""}),
        service.body("fs/file_edit", {"path": "/workspace/a", "text": ""}, dry_run=True),
    ]
    declared = set(DecisionOut.model_fields)
    for body in bodies:
        answer = await service.decide(body)
        DecisionOut.model_validate(answer)
        assert answer.keys() <= declared


async def test_a_repeat_gets_the_first_decision_and_no_second_permission(service: Service) -> None:
    body = service.body("fs/file_edit", {"path": "/workspace/a", "text": "x"})
    first = await service.decide(body)
    service.clock.at_ms += 1000
    again = await service.decide(body)

    assert again["repeated"] is True
    for member in ("decision_id", "expires_at", "lease", "idempotency_key", "fingerprint"):
        assert again[member] == first[member]
    assert [record["type"] for record in await service.records()] == ["decision.made", "decision.repeated"]


async def test_another_spelling_of_the_same_call_is_a_repeat(service: Service) -> None:
    body = service.body("fs/file_edit", {"path": "/workspace/a", "text": "x"})
    first = await service.decide(body)
    body["arguments"] = {"text": "x", "append": False, "path": "/workspace/./b/../a"}
    assert (await service.decide(body))["decision_id"] == first["decision_id"]


@pytest.mark.parametrize("first_path", ["/workspace/a", "/etc/a"])
async def test_the_same_ids_with_another_call_are_a_conflict(service: Service, first_path: str) -> None:
    body = service.body("fs/file_edit", {"path": first_path, "text": "x"})
    await service.decide(body)
    body["arguments"]["text"] = "y"
    answer = await service.decide(body)

    assert (answer["effect"], answer["stage"], answer["code"]) == ("deny", "operation", "operation.conflict")
    body["arguments"]["text"] = "x"
    # The conflict changed nothing: the first call is still what it was.
    assert (await service.decide(body))["code"] in ("policy.permit", "policy.no_match")


async def test_what_changes_something_needs_its_ids(service: Service) -> None:
    body = service.body("fs/file_edit", {"path": "/workspace/a", "text": "x"})
    del body["context"]["turn_id"]
    answer = await service.decide(body)
    assert (answer["effect"], answer["stage"], answer["code"]) == (
        "deny",
        "operation",
        "operation.ids_required",
    )
    read = service.body("fs/file_read", {"path": "/workspace/a"})
    del read["context"]["turn_id"]
    assert (await service.decide(read))["effect"] == "allow"


async def test_a_permission_that_ran_out_is_not_given_again(service: Service) -> None:
    body = service.body("fs/file_edit", {"path": "/workspace/a", "text": "x"})
    await service.decide(body)
    service.clock.at_ms += 300_000
    answer = await service.decide(body)
    assert (answer["effect"], answer["code"]) == ("deny", "operation.unknown")
    assert answer["next"] == ["query_status", "escalate", "stop"]

    read = service.body("fs/file_read", {"path": "/workspace/a"})
    first = await service.decide(read)
    service.clock.at_ms += 300_000
    again = await service.decide(read)
    assert again["effect"] == "allow"
    assert again["decision_id"] != first["decision_id"]


async def test_a_dry_run_reserves_nothing_and_says_so(service: Service) -> None:
    body = service.body("fs/file_edit", {"path": "/workspace/a", "text": "x"}, dry_run=True)
    tried = await service.decide(body)
    assert (tried["effect"], tried["dry_run"]) == ("allow", True)
    assert "lease" not in tried
    del body["dry_run"]
    real = await service.decide(body)
    assert "repeated" not in real
    assert [record["dry_run"] for record in await service.records()] == [True, False]


async def test_asking_raises_an_allow_and_lowers_nothing(service: Service) -> None:
    allowed = service.body("fs/file_read", {"path": "/workspace/a"}, context={"ask": True})
    answer = await service.decide(allowed)
    assert (answer["effect"], answer["code"]) == ("require_approval", "approval.requested")
    assert [rule["rule"] for rule in answer["matched"]] == ["authz:caller-asked"]
    denied = service.body("fs/file_read", {"path": "/etc/a"}, context={"ask": True})
    assert (await service.decide(denied))["effect"] == "deny"


async def test_equal_calls_at_the_same_time_get_one_permission(service: Service) -> None:
    body = service.body("fs/file_edit", {"path": "/workspace/a", "text": "x"})
    answers = await asyncio.gather(*(service.decide(body) for _ in range(40)))

    assert len({answer["decision_id"] for answer in answers}) == 1
    assert len({answer["lease"]["token"] for answer in answers}) == 1
    kinds = [record["type"] for record in await service.records()]
    assert kinds.count("decision.made") == 1
    assert kinds.count("decision.repeated") == 39


async def test_different_calls_under_the_same_ids_at_the_same_time_get_one_permission(
    service: Service,
) -> None:
    body = service.body("fs/file_edit", {"path": "/workspace/a", "text": "x"})
    bodies = [body | {"arguments": {"path": "/workspace/a", "text": str(n)}} for n in range(20)]
    answers = await asyncio.gather(*(service.decide(one) for one in bodies))

    effects = [answer["effect"] for answer in answers]
    assert effects.count("allow") == 1
    assert {answer["code"] for answer in answers if answer["effect"] == "deny"} == {"operation.conflict"}


async def test_a_changed_bundle_is_asked_again_for_a_repeat(service: Service) -> None:
    """A repeat is answered only after policy passes again; a later allow is still no second permission."""
    body = service.body("fs/file_edit", {"path": "/workspace/a", "text": "x"})
    first = await service.decide(body)
    sessions = service.body("fs/file_edit", {"path": "/workspace/a", "text": "x"})
    assert first["effect"] == (await service.decide(sessions))["effect"] == "allow"


async def test_no_answer_without_its_record(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    """When the store is gone there is no answer that could be taken for an allow (AV1)."""
    body = service.body("fs/file_read", {"path": "/workspace/a"})
    await service.decide(body)
    await service.ledger.close()
    response = await service.client.post("/decide", json=body)
    assert response.status_code in (401, 503)
    assert response.headers["content-type"] == "application/problem+json"
    assert "effect" not in response.json()


async def test_a_body_over_the_limit_is_refused_before_it_is_parsed(service: Service) -> None:
    body = service.body("fs/file_edit", {"path": "/workspace/a", "text": "x" * (1024 * 1024)})
    response = await service.client.post("/decide", json=body)
    assert response.status_code == 413
    assert response.json()["code"] == "input.too_large"


async def test_errors_are_never_an_allow(service: Service) -> None:
    responses: list[httpx.Response] = [
        await service.client.post("/decide", content=b"", headers={"content-type": "application/json"}),
        await service.client.post("/decide", content=b"{}", headers={"content-type": "text/plain"}),
        await service.client.post("/decide", json=[]),
        await service.client.get("/decide"),
        await service.client.post("/decide/", json={}),
    ]
    assert [response.status_code for response in responses] == [400, 415, 400, 405, 404]
    for response in responses:
        assert response.headers["content-type"] == "application/problem+json"
        problem = response.json()
        assert problem["status"] == response.status_code
        assert {"type", "title", "code", "detail", "next", "retry_unchanged"} <= problem.keys()


async def test_the_same_refusal_many_times_at_once_is_answered_each_time(service: Service) -> None:
    """Nothing is contended for where nothing is given: no 503, and one record for each answer."""
    for arguments, name in (
        ({"path": "/etc/a", "text": ""}, "fs/file_edit"),
        ({"to": "a", "amount": 1}, "bank/transfer"),
    ):
        body = service.body(name, arguments)
        answers = await asyncio.gather(*(service.decide(body) for _ in range(64)))
        assert len({answer["decision_id"] for answer in answers}) == 64
        assert len({answer["effect"] for answer in answers}) == 1


async def test_another_session_under_the_same_ids_is_a_conflict(service: Service) -> None:
    body = service.body("fs/file_edit", {"path": "/workspace/a", "text": "x"})
    assert (await service.decide(body))["effect"] == "allow"
    for session in ("s-2", None):
        body["subject"] = {"agent": "coder-1", "on_behalf_of": "ada", "session": session}
        assert (await service.decide(body))["code"] == "operation.conflict"


async def test_a_short_secret_cannot_be_tried_out_on_its_record(service: Service) -> None:
    """Digests over a secret are keyed in the record; the answer, which the caller sees, has them plain."""
    body = service.body("fs/file_edit", {"path": "/workspace/a", "text": "1234"})
    body["provenance"] = {"/text": {"source": "secret"}}
    answer = await service.decide(body)
    (record,) = await service.records()
    assert answer["request_digest"] == digest_of(body)
    text = str(record)
    assert answer["request_digest"] not in text
    assert answer["fingerprint"] not in text
    assert record["fingerprint"]["redacted"].startswith("hmac-sha256:")

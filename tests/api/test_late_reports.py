"""Outcomes that come too late, or otherwise than before: refused, on record, and never run a second time."""

from pathlib import Path
from typing import Any

import pytest

from authz.api.wire import DecisionOut
from tests.api.test_operations import DIGEST, EDIT, TTL_MS, allowed, moves, ok, post, refused, status
from tests.support.service import Service
from tests.support.world import tool, tool_file
from tests.support.world import world as world_of

LATE: dict[str, Any] = {"outcome": "succeeded", "external_id": "tx-1", "result_digest": DIGEST}
READ = ("fs/file_read", {"path": "/workspace/a"})


async def the_contradiction(service: Service) -> dict[str, Any]:
    (record,) = await service.records(type="operation.contradicted")
    return record


async def test_a_success_after_the_refund_is_found_and_does_not_run_again(service: Service) -> None:
    """The whole case: its lease ended, it was given back, and then it had run after all."""
    answer = await allowed(service)
    service.clock.at_ms += TTL_MS
    assert await status(service, answer) == "not_executed"
    problem = refused(
        await post(service, answer, "settle", **LATE, detail="slow"), 409, "operation.contradicted"
    )
    assert problem["state"] == "unknown"
    assert "what you told is on record" in problem["detail"]
    record = await the_contradiction(service)
    assert record["decision_id"] == answer["decision_id"]
    assert record["detail"] == "slow"
    assert record["contradicts"] == {
        "outcome": "succeeded",
        "external_id": "tx-1",
        "result_digest": DIGEST,
        "refunded": True,
        "superseded_by": None,
        "operation": "unknown",
        "stopped": True,
    }
    assert (record["operation"]["from"], record["operation"]["to"]) == ("not_executed", "unknown")
    assert record["operation"]["released"] is False

    found = ok(await service.client.get(f"/operations/{answer['decision_id']}"))
    assert (found["state"], found["contradicted"], found["external_id"]) == ("unknown", True, "tx-1")
    again = await service.decide(answer["asked"])
    assert (again["effect"], again["code"], again["retry_unchanged"]) == ("deny", "operation.unknown", False)
    assert "does not fit together" in again["message"]
    # Said once more it is no truer.
    refused(await post(service, answer, "settle", **LATE), 409, "operation.contradicted")
    assert await status(service, answer) == "unknown"


@pytest.mark.parametrize(("outcome", "runs_again"), [("succeeded", False), ("not_executed", True)])
async def test_a_person_says_what_is_true_of_it(service: Service, outcome: str, runs_again: bool) -> None:
    answer = await allowed(service)
    service.clock.at_ms += TTL_MS
    refused(await post(service, answer, "settle", **LATE), 409, "operation.contradicted")
    person = await service.add_key("person", "approve")
    looked = {"outcome": outcome, "reason": "I looked"}
    assert ok(await post(service, answer, "resolve", headers=person, **looked))["state"] == outcome
    assert (await moves(service))[-1]["operation"]["released"] is False, "it was given back before"
    again = await service.decide(answer["asked"])
    assert (again["effect"] == "allow") is runs_again


@pytest.mark.parametrize("told", ["succeeded", "failed_final", "unknown"])
@pytest.mark.parametrize("begun", [False, True])
async def test_a_late_word_about_an_earlier_decision_stops_the_later_one(
    service: Service, told: str, begun: bool
) -> None:
    first = await allowed(service)
    service.clock.at_ms += TTL_MS
    second = await allowed(service, first["asked"])
    if begun:
        ok(await post(service, second, "start", attempt="a"))
    problem = refused(
        await post(service, first, "settle", outcome=told, external_id="tx-1"), 409, "operation.contradicted"
    )
    assert problem["state"] == "unknown"
    record = await the_contradiction(service)
    assert record["decision_id"] == first["decision_id"]
    assert record["contradicts"]["superseded_by"] == second["decision_id"]
    assert (record["contradicts"]["refunded"], record["contradicts"]["stopped"]) == (True, True)
    assert record["operation"]["to"] == "not_executed", "what it was for this decision"
    refused(await post(service, second, "start", attempt="b"), 409, "operation.contradicted")
    assert (await service.decide(first["asked"]))["code"] == "operation.unknown"
    # Should that one have run as well, its word is kept, too, and a person looks once its lease is over.
    refused(await post(service, second, "settle", outcome="succeeded"), 409, "operation.contradicted")
    person = await service.add_key("person", "approve")
    looked = {"outcome": "not_executed", "reason": "I looked"}
    early = await post(service, second, "resolve", headers=person, **looked)
    refused(early, 409, "operation.not_proven")
    service.clock.at_ms += TTL_MS
    assert ok(await post(service, second, "resolve", headers=person, **looked))["state"] == "not_executed"


async def test_a_failure_that_turns_out_a_success_is_not_tried_again(service: Service) -> None:
    answer = await allowed(service)
    ok(await post(service, answer, "settle", outcome="failed_retryable"))
    refused(await post(service, answer, "settle", **LATE), 409, "operation.contradicted")
    assert (await service.decide(answer["asked"]))["code"] == "operation.unknown"
    assert (await the_contradiction(service))["contradicts"]["refunded"] is False


@pytest.mark.parametrize("told", ["failed_retryable", "not_executed"])
async def test_a_late_word_that_it_may_be_tried_again_stops_nothing(service: Service, told: str) -> None:
    first = await allowed(service)
    service.clock.at_ms += TTL_MS
    second = await allowed(service, first["asked"])
    if told == "failed_retryable":
        refused(await post(service, first, "settle", outcome=told), 409, "operation.superseded")
        assert (await the_contradiction(service))["contradicts"]["stopped"] is False
    else:
        ok(await post(service, first, "settle", outcome=told))
    assert ok(await post(service, second, "start", attempt="a"))["state"] == "executing"


async def test_what_is_settled_stays_so_whatever_an_earlier_decision_tells(service: Service) -> None:
    first = await allowed(service)
    service.clock.at_ms += TTL_MS
    second = await allowed(service, first["asked"])
    ok(await post(service, second, "settle", outcome="succeeded", external_id="tx-2"))
    problem = refused(await post(service, first, "settle", **LATE), 409, "operation.superseded")
    assert problem["state"] == "succeeded"
    assert (await the_contradiction(service))["contradicts"]["external_id"] == "tx-1"
    again = await service.decide(first["asked"])
    assert (again["code"], again["operation"]["external_id"]) == ("operation.settled", "tx-2")


async def read_twice(service: Service) -> tuple[dict[str, Any], dict[str, Any]]:
    """A read that was interrupted, and the same read decided anew."""
    body = service.body(*READ, context={"start": {"attempt": "a"}})
    first = await service.decide(body)
    assert first["effect"] == "allow", first
    service.clock.at_ms += TTL_MS
    body["context"]["start"] = {"attempt": "b"}
    second = await service.decide(body)
    assert (second["effect"], second.get("repeated")) == ("allow", None)
    return first, second


async def test_a_late_word_of_an_earlier_read_is_taken_and_stops_nothing(service: Service) -> None:
    first, second = await read_twice(service)
    done = ok(await post(service, first, "settle", **LATE))
    assert (done["state"], done["external_id"]) == ("succeeded", "tx-1")
    assert done["superseded_by"] == second["decision_id"]
    assert await status(service, first) == "succeeded"
    refused(await post(service, first, "settle", outcome="failed_final"), 409, "operation.superseded")
    assert ok(await post(service, second, "settle", outcome="succeeded"))["state"] == "succeeded"


LIMITS = """\
limits:
  - id: few
    reason: Few a day.
    calls: 2
    seconds: 86400
    per: [agent]
"""


async def test_an_earlier_reads_reservation_is_given_back_by_who_looked(tmp_path: Path) -> None:
    async with Service.running(tmp_path, {"default": world_of(limits=LIMITS)}) as service:
        first, second = await read_twice(service)
        other = service.body(*READ)
        assert (await service.decide(other))["code"] == "limit.rate"
        person = await service.add_key("person", "approve")
        looked = {"outcome": "not_executed", "reason": "nothing arrived"}
        found = ok(await post(service, first, "resolve", headers=person, **looked))
        assert (found["state"], found["superseded_by"]) == ("not_executed", second["decision_id"])
        assert ok(await post(service, first, "resolve", headers=person, **looked)) == found
        assert await status(service, second) == "executing"
        (record,) = await service.records(type="operation.resolved")
        assert (record["decision_id"], record["operation"]["released"]) == (first["decision_id"], True)
        assert (await service.decide(other))["effect"] == "allow"
        one_more = service.body(*READ)
        assert (await service.decide(one_more))["code"] == "limit.rate", "once"


# A runtime whose answer was lost, and what was asked meanwhile


@pytest.mark.parametrize("again", ["decide", "start"])
async def test_an_attempt_that_was_cancelled_can_be_settled_and_does_not_begin_again(
    service: Service, again: str
) -> None:
    body = service.body(*EDIT, context={"start": {"attempt": "a"}})
    first = await allowed(service, body)
    person = await service.add_key("person", "approve")
    ok(await post(service, first, "cancel", headers=person, reason="not wanted"))
    if again == "start":
        refused(await post(service, first, "start", attempt="a"), 409, "operation.cancel_requested")
        token = first["lease"]["token"]
    else:
        told = await service.decide(body)
        DecisionOut.model_validate(told)
        assert (told["effect"], told["stage"], told["code"]) == (
            "deny",
            "operation",
            "operation.cancel_requested",
        )
        assert "ticket" not in told
        assert told["lease"] == first["lease"]
        token = told["lease"]["token"]
        dry = await service.decide(body | {"dry_run": True})
        assert (dry["code"], dry.get("lease")) == ("operation.cancel_requested", None)
        other = body | {"context": body["context"] | {"start": {"attempt": "b"}}}
        assert "lease" not in await service.decide(other)
    assert token not in str(await service.records())
    done = await post(service, first, "settle", lease_token=token, outcome="failed_final")
    assert ok(done)["state"] == "failed_final"


def forgetful(retention_seconds: int) -> Any:
    """An endpoint that remembers keys for so long."""
    edit = tool(
        "file_edit",
        [{"verb": "write", "kind": "path", "at": "/path"}],
        {"path": {"type": "string"}, "text": {"type": "string"}},
        roles={"/text": "payload"},
        leaves_sandbox=False,
        settlement={"idempotency_key_at": "/text", "retention_seconds": retention_seconds},
    )
    return world_of(tools={"fs": tool_file("fs", edit)})


@pytest.mark.parametrize("how", ["decide", "start"])
@pytest.mark.parametrize(("timeout_s", "begins"), [(None, True), (3000, True), (3570, False), (7200, False)])
async def test_nothing_begins_that_may_outlive_its_key(
    tmp_path: Path, how: str, timeout_s: int | None, begins: bool
) -> None:
    """What is repeated under a key that is forgotten is done twice."""
    async with Service.running(tmp_path, {"default": forgetful(3600)}) as service:
        stretch: dict[str, Any] = {} if timeout_s is None else {"timeout_seconds": timeout_s}
        if how == "decide":
            body = service.body(*EDIT, context={"start": {"attempt": "a", **stretch}})
            answer = await service.decide(body)
            assert (answer["effect"] == "allow") is begins, answer
            code, ends = answer["code"], answer.get("lease", {}).get("expires_at")
        else:
            answer = await allowed(service)
            begun = (await post(service, answer, "start", attempt="a", **stretch)).json()
            code, ends = begun.get("code"), begun.get("lease_expires_at")
        assert (code == "operation.expired") is not begins
        if begins:
            assert ends <= "2026-11-30T11:00:00.123Z"


async def test_a_permission_ends_with_its_key(tmp_path: Path) -> None:
    async with Service.running(tmp_path, {"default": forgetful(60)}) as service:
        answer = await allowed(service)
        assert answer["lease"]["expires_at"] == answer["expires_at"] == "2026-11-30T10:01:00.123Z"
        service.clock.at_ms += 60_000
        assert await status(service, answer) == "not_executed"
        assert (await service.decide(answer["asked"]))["code"] == "operation.expired"

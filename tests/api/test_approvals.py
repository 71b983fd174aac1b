"""`/approvals`: how requests are seen, answered and taken back over HTTP, and by whom."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from authz.api.approvals_wire import ApprovalRequestOut, ApprovalsOut, ShownOut
from authz.store.keys import ServiceKeys
from authz.store.postgres_url import PostgresUrl
from tests.support.answering import asking, ruleset_of
from tests.support.people import people_of, sign_in
from tests.support.service import Service
from tests.support.streams import streaming
from tests.support.waiting import until
from tests.support.world import CREDENTIALS

RULES = asking()
TWO = asking('@quorum("2")')


@pytest.fixture(params=["sqlite", "postgres"])
async def service(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Service]:
    """A service of two tenants whose rules ask finance about every read and write."""
    database = None
    if request.param == "postgres":
        database = PostgresUrl.parse(request.getfixturevalue("postgres_url"))
    own = TWO if "two_people" in request.node.name else RULES
    narrow = CREDENTIALS + "  narrow:\n    agents: [coder-2]\n    users: [ada]\n"
    rulesets = {"default": ruleset_of(own, credentials=narrow), "other": ruleset_of(RULES)}
    async with Service.running(tmp_path, rulesets, database=database) as running:
        yield running


async def ask(service: Service, path: str = "/workspace/a", **more: Any) -> Any:
    """The answer to a call that is asked about."""
    answer = await service.decide(service.body("fs/file_read", {"path": path}), **more)
    assert answer["effect"] == "require_approval", answer
    return answer


async def approval_of(service: Service, **more: Any) -> str:
    return str((await ask(service, **more))["approval"]["id"])


async def post(
    service: Service, approval_id: str, what: str, headers: dict[str, str], body: Any = None
) -> Any:
    """(status, body) of an answer."""
    response = await service.client.post(f"/approvals/{approval_id}/{what}", json=body, headers=headers)
    return response.status_code, response.json()


async def yes(service: Service, approval_id: str, headers: dict[str, str], **more: Any) -> Any:
    """(status, body) of a yes to what is shown."""
    digest = (await service.client.get(f"/approvals/{approval_id}")).json()["shown_digest"]
    return await post(service, approval_id, "approve", headers, {"shown_digest": digest, **more})


async def test_a_request_is_told_to_whoever_asked_without_any_argument(service: Service) -> None:
    asked = await ask(service, "/workspace/a-telling-name")
    approval_id = asked["approval"]["id"]
    response = await service.client.get(f"/approvals/{approval_id}")
    told = response.json()
    ApprovalRequestOut.model_validate(told)
    assert told["state"] == "pending"
    assert told["decision_id"] == asked["decision_id"]
    assert told["url"] == asked["approval"]["url"]
    assert told["fingerprint"] == asked["fingerprint"]
    assert told["tool"] == "local:fs/file_read"
    assert told["unmet"] == ["asks"]
    assert "a-telling-name" not in response.text
    assert response.headers["cache-control"] == "no-store"


async def test_a_person_says_yes_and_the_same_call_is_allowed(service: Service) -> None:
    body = service.body("fs/file_read", {"path": "/workspace/a"})
    approval_id = (await service.decide(body))["approval"]["id"]
    grace = await sign_in(service, "grace")
    shown = (await service.client.get(f"/approvals/{approval_id}/shown", headers=grace)).json()
    ShownOut.model_validate(shown)
    assert shown["can_approve"]
    assert shown["document"]["accesses"][0]["uri"] == "file:///workspace/a"
    status, told = await post(
        service, approval_id, "approve", grace, {"shown_digest": shown["shown_digest"], "opened": []}
    )
    assert (status, told["state"], told["grant"]["uses_left"]) == (200, "approved", 1)
    ApprovalRequestOut.model_validate(told)
    allowed = await service.decide(body)
    assert allowed["effect"] == "allow"
    after = (await service.client.get(f"/approvals/{approval_id}")).json()
    assert after["state"] == "consumed"
    assert (await service.records(type="approval.approved"))[0]["vote"]["person"] == "grace"


async def test_no_key_approves_denies_or_revokes_whatever_its_roles_and_that_is_on_record(
    service: Service,
) -> None:
    approval_id = await approval_of(service)
    every = await service.add_key("everything", "decide", "issue", "approve", "policy", "audit")
    for what in ("approve", "deny", "revoke"):
        for headers in (every, dict(service.client.headers)):
            status, told = await post(service, approval_id, what, headers, None if what == "revoke" else {})
            assert (status, told["code"]) == (403, "approval.not_a_person")
    assert (await service.client.get(f"/approvals/{approval_id}")).json()["state"] == "pending"
    refused = await service.records(type="approval.refused")
    assert [record["approval"]["wanted"] for record in refused] == [
        *("approve", "approve", "deny", "deny", "revoke", "revoke")
    ]
    absent = await post(service, "nothing", "approve", every, {})
    assert (absent[0], absent[1]["code"]) == (403, "approval.not_a_person"), "no key learns what there is"


async def test_nobody_without_a_live_session_is_anybody(service: Service) -> None:
    approval_id = await approval_of(service)
    for token in ("azs_nothing", "azw_nothing"):
        headers = {"Authorization": f"Bearer {token}"}
        status, told = await post(service, approval_id, "approve", headers, {})
        assert (status, told["code"]) == (401, "caller.unauthenticated")
    grace = await sign_in(service, "grace")
    person = await people_of(service).session_of(grace["Authorization"].removeprefix("Bearer "))
    assert person is not None
    await people_of(service).sign_out(person)
    assert (await yes(service, approval_id, grace))[0] == 401


async def test_a_session_of_a_person_opens_no_other_route(service: Service) -> None:
    grace = await sign_in(service, "grace", "approve", "policy", "audit")
    for path in ("/decisions", "/policies", "/metrics"):
        assert (await service.client.get(path, headers=grace)).status_code == 401
    response = await service.client.post(
        "/decide", json=service.body("fs/file_read", {"path": "/workspace/a"}), headers=grace
    )
    assert response.status_code == 401


async def test_a_key_sees_what_its_own_credential_asked_and_an_auditor_everything(service: Service) -> None:
    one, two = await service.add_key("one", "decide"), await service.add_key("two", "decide")
    auditor = await service.add_key("auditor", "audit")
    first, second = await approval_of(service, headers=one), await _second(service, two)

    async def listed(headers: dict[str, str], **query: str) -> list[str]:
        response = await service.client.get("/approvals", headers=headers, params=query)
        assert response.status_code == 200, response.text
        ApprovalsOut.model_validate(response.json())
        return [told["id"] for told in response.json()["approvals"]]

    assert await listed(one) == [first]
    assert await listed(two) == [second]
    assert sorted(await listed(auditor)) == sorted([first, second])
    assert await listed(auditor, state="denied") == []
    assert await listed(auditor, tool="local:fs/file_read", agent="coder-1", limit="1") != []
    # By its id whoever may assert the subject that it was asked for, as it might have asked the same.
    assert (await service.client.get(f"/approvals/{first}", headers=two)).status_code == 200
    for profile in ("narrow", "gone"):
        key = await service.add_key(profile, "decide", profile=profile)
        assert (await service.client.get(f"/approvals/{first}", headers=key)).status_code == 404
    assert (await service.client.get(f"/approvals/{first}", headers=auditor)).status_code == 200
    assert (await post(service, first, "cancel", two))[0] == 404
    for path in ("", "/shown"):
        issuer = await service.add_key("issuer" + path, "issue")
        assert (await service.client.get(f"/approvals/{first}{path}", headers=issuer)).status_code == 403


async def test_who_joins_a_request_with_another_key_can_wait_for_it_and_not_take_it_back(
    service: Service,
) -> None:
    """Such as a runtime that was restarted with a new key."""
    one, two = await service.add_key("one", "decide"), await service.add_key("two", "decide")
    first = await approval_of(service, headers=one)
    joined = await ask(service, headers=two)
    assert joined["approval"]["id"] == first
    assert (await post(service, first, "cancel", two))[0] == 404
    grace = await sign_in(service, "grace")
    async with streaming(service.application, f"/approvals/{first}/events", two) as stream:
        assert [told["state"] for told in await stream.events()] == ["pending"]
        assert (await yes(service, first, grace))[0] == 200
        assert [told["state"] for told in await stream.events()] == ["approved"]
    told = (await service.client.get(f"/approvals/{first}?wait=5", headers=two)).json()
    assert told["state"] == "approved"
    assert "votes" not in told, "who answered is for people and auditors"


async def _second(service: Service, headers: dict[str, str]) -> str:
    return str((await ask(service, "/workspace/b", headers=headers))["approval"]["id"])


async def test_pages_of_the_list_follow_each_other_and_miss_none(service: Service) -> None:
    made = [(await ask(service, f"/workspace/{name}"))["approval"]["id"] for name in "abc"]
    seen: list[str] = []
    query: dict[str, Any] = {"limit": "2"}
    while True:
        page = (await service.client.get("/approvals", params=query)).json()
        seen += [told["id"] for told in page["approvals"]]
        if page["next"] is None:
            break
        query["before"] = page["next"]
    assert sorted(seen) == sorted(made)


@pytest.mark.parametrize(
    "query", ["state=gone", "before=x", "before=1.", "limit=0", "nothing=1", "wait=1", "agent=a&agent=b"]
)
async def test_a_list_that_cannot_be_meant_is_refused(service: Service, query: str) -> None:
    response = await service.client.get(f"/approvals?{query}")
    assert response.status_code == 400
    assert response.headers["content-type"] == "application/problem+json"


async def test_another_tenants_request_is_as_if_absent(service: Service) -> None:
    approval_id = await approval_of(service)
    stranger = await service.add_key("stranger", "decide", "audit", tenant="other")
    grace = await sign_in(service, "grace", "approve", "policy", "audit", tenant="other")
    for headers in (stranger, grace):
        assert (await service.client.get("/approvals", headers=headers)).json()["approvals"] == []
        for path in ("", "/events", "?wait=1"):
            response = await service.client.get(f"/approvals/{approval_id}{path}", headers=headers)
            assert (response.status_code, response.json()["code"]) == (404, "approval.not_found")
    assert (await yes(service, approval_id, grace))[0] == 404
    assert (await post(service, approval_id, "deny", grace, {}))[0] == 404
    assert (await post(service, approval_id, "revoke", grace))[0] == 404
    assert (await post(service, approval_id, "cancel", stranger))[0] == 404


async def test_who_is_no_approver_is_shown_nothing_and_says_neither(service: Service) -> None:
    approval_id = await approval_of(service)
    mallory = await sign_in(service, "mallory")
    shown = await service.client.get(f"/approvals/{approval_id}/shown", headers=mallory)
    assert (shown.status_code, shown.json()["code"]) == (403, "approval.not_an_approver")
    assert (await yes(service, approval_id, mallory))[1]["code"] == "approval.not_an_approver"
    status, told = await post(service, approval_id, "deny", mallory, {})
    assert (status, told["code"]) == (403, "approval.not_an_approver")
    assert "state" not in told, "who may not answer is not told where it stands"
    key = await service.client.get(f"/approvals/{approval_id}/shown")
    assert (key.status_code, key.json()["code"]) == (403, "approval.not_a_person")


async def test_the_user_behind_the_call_sees_it_and_may_only_say_no(service: Service) -> None:
    approval_id = await approval_of(service)
    ada = await sign_in(service, "ada")
    shown = (await service.client.get(f"/approvals/{approval_id}/shown", headers=ada)).json()
    assert (shown["can_approve"], shown["can_deny"]) == (False, True)
    assert (await yes(service, approval_id, ada))[1]["code"] == "approval.own_request"
    status, told = await post(service, approval_id, "deny", ada, {"reason": "I did not ask for it"})
    assert (status, told["state"]) == (200, "denied")
    assert told["denial"] == {"reason": "I did not ask for it", "at": told["denial"]["at"], "person": "ada"}
    own = (await service.client.get(f"/approvals/{approval_id}")).json()
    assert own["denial"]["reason"] == "I did not ask for it"


BAD_BODIES: list[tuple[str, Any]] = [
    ("approve", {}),
    ("approve", {"shown_digest": "sha256:x"}),
    ("approve", {"shown_digest": "sha256:" + "0" * 64, "scope": "forever"}),
    ("approve", {"shown_digest": "sha256:" + "0" * 64, "uses": 2}),
    ("approve", {"shown_digest": "sha256:" + "0" * 64, "scope": "times"}),
    ("approve", {"shown_digest": "sha256:" + "0" * 64, "scope": "times", "uses": True}),
    ("approve", {"shown_digest": "sha256:" + "0" * 64, "person": "linus"}),
    ("approve", {"shown_digest": "sha256:" + "0" * 64, "opened": ["text"]}),
    ("approve", []),
    ("deny", {"reason": "x" * 1001}),
    ("deny", {"reason": "a\0b"}),
    ("deny", {"reason": 1}),
    ("deny", {"because": "x"}),
    ("revoke", {}),
]


@pytest.mark.parametrize(("what", "body"), BAD_BODIES, ids=str)
async def test_an_answer_that_is_not_in_the_form_is_refused(service: Service, what: str, body: Any) -> None:
    approval_id = await approval_of(service)
    grace = await sign_in(service, "grace")
    status, told = await post(service, approval_id, what, grace, body)
    assert (status, told["status"]) == (400, 400)
    assert (await service.client.get(f"/approvals/{approval_id}")).json()["state"] == "pending"


async def test_an_answer_that_changes_nothing_says_why_and_where_it_stands(service: Service) -> None:
    approval_id = await approval_of(service)
    grace, linus = await sign_in(service, "grace"), await sign_in(service, "linus")
    other = {"shown_digest": "sha256:" + "0" * 64}
    assert (await post(service, approval_id, "approve", grace, other))[1]["code"] == "approval.shown_changed"
    await post(service, approval_id, "deny", linus, {"reason": "no"})
    status, told = await yes(service, approval_id, grace)
    assert (status, told["code"], told["state"]) == (409, "approval.closed", "denied")
    status, told = await post(service, approval_id, "cancel", dict(service.client.headers))
    assert (status, told["code"], told["state"]) == (409, "approval.closed", "denied")


async def test_two_people_and_no_double_click(service: Service) -> None:
    approval_id = await approval_of(service)
    grace, linus = await sign_in(service, "grace"), await sign_in(service, "linus")
    answers = await asyncio.gather(*(yes(service, approval_id, grace) for _ in range(3)))
    assert sorted(status for status, _ in answers) == [200, 409, 409]
    codes = {told["code"] for status, told in answers if status == 409}
    assert codes == {"approval.already_answered"}
    status, told = await yes(service, approval_id, linus)
    assert (status, told["state"], told["unmet"]) == (200, "approved", [])
    assert [vote["person"] for vote in told["votes"]] == ["grace", "linus"]
    agent = await service.add_key("agent", "decide", profile="narrow")
    assert (await service.client.get(f"/approvals/{approval_id}", headers=agent)).status_code == 404


async def test_yes_and_no_at_the_same_instant_end_in_one_state(service: Service) -> None:
    grace, linus = await sign_in(service, "grace"), await sign_in(service, "linus")
    for name in "abcdef":
        approval_id = (await ask(service, f"/workspace/{name}"))["approval"]["id"]
        digest = (await service.client.get(f"/approvals/{approval_id}")).json()["shown_digest"]
        said = await asyncio.gather(
            post(service, approval_id, "approve", grace, {"shown_digest": digest}),
            post(service, approval_id, "deny", linus, {"reason": "no"}),
        )
        assert sorted(status for status, _ in said) == [200, 409]
        state = (await service.client.get(f"/approvals/{approval_id}")).json()["state"]
        assert state == ("approved" if said[0][0] == 200 else "denied")
    ends = [*await service.records(type="approval.approved"), *await service.records(type="approval.denied")]
    assert len(ends) == 6


async def test_a_wider_yes_is_listed_among_the_grants_until_it_is_revoked(service: Service) -> None:
    approval_id = await approval_of(service)
    grace = await sign_in(service, "grace")
    status, told = await yes(service, approval_id, grace, scope="times", uses=3)
    assert (status, told["grant"]["uses_left"]) == (200, 3)

    async def grants() -> list[str]:
        found = (await service.client.get("/approvals", params={"grants": "true"}, headers=grace)).json()
        return [one["id"] for one in found["approvals"]]

    assert await grants() == [approval_id]
    status, told = await post(service, approval_id, "revoke", grace)
    assert (status, told["state"], told["grant"]["voided_by"]) == (200, "void", "grace")
    assert await grants() == []


async def test_who_waits_at_one_replica_hears_what_is_answered_at_another(
    tmp_path: Path, postgres_url: str
) -> None:
    keys, database = ServiceKeys.generate(), PostgresUrl.parse(postgres_url)
    bundle = {"default": ruleset_of(RULES)}
    for name in ("here", "there"):
        (tmp_path / name).mkdir()
    async with (
        Service.running(tmp_path / "here", bundle, database=database, keys=keys) as here,
        Service.running(tmp_path / "there", bundle, database=database, keys=keys) as there,
    ):
        approval_id = await approval_of(here)
        grace = await sign_in(there, "grace")
        waits = here.application.services.approvals.waits
        waiting = asyncio.create_task(here.client.get(f"/approvals/{approval_id}?wait=55"))

        async def polls() -> bool:
            return waits.polling == 1

        await until(polls)
        digest = (await here.client.get(f"/approvals/{approval_id}")).json()["shown_digest"]
        status, _ = await post(there, approval_id, "approve", grace, {"shown_digest": digest})
        assert status == 200
        assert (await waiting).json()["state"] == "approved"
        assert waits.polling == 0

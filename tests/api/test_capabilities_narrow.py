"""`POST /capabilities/attenuate`: less of a chain, by its holder only; what would widen is named."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import httpx
import pytest
from authz_client.capabilities import Reason, generate_key, new_jti, prove, request_digest

from authz.api.capabilities_wire import NarrowedOut
from tests.support.holders import EXCHANGE, Holder, entry, exchange, issue, narrowed
from tests.support.service import Service
from tests.support.world import CREDENTIALS, PERMIT_ALL
from tests.support.world import world as world_of

WHOLE = entry(
    ["fs/file_read", "write"],
    ["file:///workspace"],
    constraints={"path": {"max_length": 40}},
    budget={"calls": 3},
)
LESS = entry(
    ["fs/file_read"],
    ["file:///workspace/a"],
    constraints={"path": {"max_length": 40}},
    budget={"calls": 2},
)
TWO_PROFILES = CREDENTIALS + "  outsider:\n    agents: [outsider-1]\n    users: ['*']\n"


@pytest.fixture
async def service(tmp_path: Path) -> AsyncIterator[Service]:
    bundles = {
        "default": world_of(PERMIT_ALL, credentials=TWO_PROFILES),
        "acme": world_of(PERMIT_ALL, credentials=TWO_PROFILES),
    }
    async with Service.running(tmp_path, bundles) as running:
        yield running


async def post(
    service: Service, body: dict[str, Any], headers: dict[str, str] | None = None
) -> httpx.Response:
    return await service.client.post("/capabilities/attenuate", json=body, headers=headers)


def problem_of(response: httpx.Response, status: int) -> dict[str, Any]:
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/problem+json"
    body: dict[str, Any] = response.json()
    return body


async def types(service: Service) -> list[str]:
    return [record["type"] for record in await service.records()]


async def test_the_service_signs_a_root_for_less(service: Service) -> None:
    root = await issue(service, WHOLE, max_depth=3)
    sub = root.hand_on("sub-1", WHOLE)
    key = generate_key()
    response = await post(service, exchange(sub, key, LESS, agent="sub-2", expires_in=60))
    assert response.status_code == 201
    assert response.headers["cache-control"] == "no-store"
    given = response.json()
    NarrowedOut.model_validate(given, strict=True)
    assert given["capability"] == [given["access_token"]]
    assert (given["token_type"], given["expires_in"], given["max_depth"]) == ("N_A", 60, 1)
    assert (given["subject"], given["agent"], given["root"]) == ("ada", "sub-2", root.link)
    [record] = await service.records(type="capability.narrowed")
    assert record["capability"]["root"] == root.link
    assert record["capability"]["depth"] == 2
    assert record["capability"]["inherited"] == [[root.link, record["capability"]["parent"]]]
    # The link that was made offline is on record now, between the two.
    listed = (await service.client.get("/capabilities", params={"root": root.link})).json()["capabilities"]
    assert {(link["agent"], link["origin"], link["depth"]) for link in listed} == {
        ("coder-1", "issued", 0),
        ("sub-1", "seen", 1),
        ("sub-2", "narrowed", 2),
    }


async def test_what_is_narrowed_is_good_for_its_holder_and_hands_on(service: Service) -> None:
    root = await issue(service, WHOLE, max_depth=3)
    sub = await narrowed(service, root, LESS)
    assert await sub.reads(service, "/workspace/a") == "allow"
    assert await sub.reads(service, "/workspace/b") == "capability.object_outside"
    below = sub.hand_on("sub-2")
    assert await below.reads(service, "/workspace/a") == "allow"


async def test_every_budget_above_is_debited(service: Service) -> None:
    root = await issue(service, WHOLE, max_depth=3)
    one, other = await narrowed(service, root, LESS), await narrowed(service, root, LESS, agent="sub-2")
    assert [await one.reads(service, "/workspace/a") for _ in range(3)] == [
        "allow",
        "allow",
        "capability.budget",
    ]
    # One call is left of the root's three, whoever makes it.
    assert await other.reads(service, "/workspace/a") == "allow"
    assert await other.reads(service, "/workspace/a") == "capability.budget"
    assert await root.reads(service) == "capability.budget"


@pytest.mark.parametrize(
    ("asked", "component", "reason", "word"),
    [
        (entry(["delete"], ["file:///workspace"]), "R", "rights_widened", "delete"),
        (entry(["file_read"], ["file:///workspace"]), "R", "rights_widened", "file_read"),
        (entry(["fs/file_read"], ["file:///"]), "O", "objects_widened", "file:///"),
        (entry(["fs/file_read"], ["file:///workspace", "file:///srv"]), "O", "objects_widened", "srv"),
        (
            entry(["fs/file_read"], ["file:///workspace"], budget={"calls": 1}),
            "P",
            "predicate_widened",
            "path",
        ),
        (
            entry(["fs/file_read"], ["file:///workspace"], constraints={"path": {"max_length": 41}}),
            "P",
            "predicate_widened",
            "max_length",
        ),
        ({**LESS, "budget": {"calls": 4}}, "P", "predicate_widened", "calls"),
    ],
)
async def test_what_would_widen_is_named(
    service: Service, asked: dict[str, Any], component: str, reason: str, word: str
) -> None:
    root = await issue(service, WHOLE, max_depth=3)
    told = problem_of(await post(service, exchange(root, generate_key(), asked)), 403)
    assert (told["code"], told["component"], told["reason"]) == (f"capability.{reason}", component, reason)
    assert word in told["detail"]
    [record] = await service.records(type="capability.refused")
    assert (record["code"], record["refused"]["component"]) == (f"capability.{reason}", component)
    assert record["subject"] == {"agent": "sub-1", "on_behalf_of": "ada"}
    assert await types(service) == ["capability.issued", "capability.refused"]


async def test_it_never_lives_longer_nor_is_handed_on_further(service: Service) -> None:
    root = await issue(service, WHOLE, expires_in=600, max_depth=1)
    told = problem_of(await post(service, exchange(root, generate_key(), expires_in=601)), 403)
    assert (told["code"], told["component"]) == ("capability.expiry_widened", "E")
    told = problem_of(await post(service, exchange(root, generate_key(), max_depth=1)), 403)
    assert told["reason"] == Reason.MAX_DEPTH_RAISED
    last = await narrowed(service, root)
    told = problem_of(await post(service, exchange(last, generate_key(), agent="sub-2")), 403)
    assert told["code"] == "capability.depth"


async def test_hand_offs_count_across_narrowed_roots(service: Service) -> None:
    holder = await issue(service, entry(["read"], ["file:///workspace"]), max_depth=8)
    for number in range(8):
        holder = await narrowed(service, holder, agent=f"sub-{number}")
    assert await holder.reads(service) == "allow"
    told = problem_of(await post(service, exchange(holder, generate_key())), 403)
    assert told["code"] == "capability.depth"


async def test_a_stolen_chain_is_worth_nothing_without_its_key(service: Service) -> None:
    root = await issue(service, WHOLE, max_depth=3)
    thief = generate_key()
    body: dict[str, Any] = {**EXCHANGE, "agent": "thief", "holder": thief.public.jwk}
    forged = root.prove(body, key=thief)
    told = problem_of(await post(service, {**body, "subject_token": list(root.chain), "proof": forged}), 403)
    assert (told["code"], told["reason"]) == ("capability.proof", "signature_invalid")
    without = {**body, "subject_token": list(root.chain)}
    assert problem_of(await post(service, without), 400)["pointer"] == "/proof"
    assert await types(service) == ["capability.issued", "capability.refused", "request.refused"]


async def test_a_proof_is_for_one_request_and_good_once(service: Service) -> None:
    root = await issue(service, WHOLE, max_depth=3)
    body = exchange(root, generate_key(), LESS)
    assert (await post(service, body)).status_code == 201
    told = problem_of(await post(service, body), 403)
    assert (told["code"], told["reason"]) == ("capability.proof", "proof_replayed")
    # That of another holder's key, swapped in afterwards.
    swapped = exchange(root, generate_key(), LESS) | {"holder": generate_key().public.jwk}
    assert problem_of(await post(service, swapped), 403)["reason"] == "request_mismatch"
    # That of a call.
    call = root.body("fs/file_read", {"path": "/workspace/a"})
    taken = exchange(root, generate_key(), LESS) | {"proof": call["proof"]}
    assert problem_of(await post(service, taken), 403)["reason"] == "request_mismatch"
    listed = (await service.client.get("/capabilities")).json()["capabilities"]
    assert sorted(link["origin"] for link in listed) == ["issued", "narrowed"]


@pytest.mark.parametrize("entries", [[LESS], [entry(["delete"], ["file:///workspace"])]])
async def test_a_proof_that_narrowed_or_was_refused_is_used_up(service: Service, entries: list[Any]) -> None:
    root = await issue(service, WHOLE, max_depth=3)
    jti = new_jti()
    body: dict[str, Any] = {**EXCHANGE, "agent": "sub-1", "holder": generate_key().public.jwk}
    body["authorization_details"] = entries
    sent = {**body, "subject_token": list(root.chain), "proof": root.prove(body, jti=jti)}
    assert (await post(service, sent)).status_code == (201 if entries == [LESS] else 403)
    call = root.body("fs/file_read", {"path": "/workspace/a"})
    unsigned = {name: value for name, value in call.items() if name not in ("capability", "proof")}
    answer = await service.decide({**call, "proof": root.prove(unsigned, jti=jti)})
    assert (answer["effect"], answer["code"]) == ("deny", "capability.proof")


async def test_what_is_revoked_or_has_ended_narrows_nothing(service: Service) -> None:
    root = await issue(service, WHOLE, max_depth=3, expires_in=60)
    sub = root.hand_on("sub-1")
    revoke = {"link": root.link, "reason": "done"}
    assert (await service.client.post("/capabilities/revoke", json=revoke)).status_code == 200
    told = problem_of(await post(service, exchange(sub, generate_key())), 403)
    assert (told["code"], told["link"]) == ("capability.revoked", 0)
    other = await issue(service, WHOLE, expires_in=60, max_depth=1)
    service.clock.at_ms += 60_000
    told = problem_of(await post(service, exchange(other, generate_key())), 403)
    assert told["code"] == "capability.expired"


async def test_a_revoked_key_gets_nothing_by_narrowing(service: Service) -> None:
    root = await issue(service, WHOLE, max_depth=3)
    key = generate_key()
    revoke = {"holder": key.public.thumbprint, "reason": "lost"}
    assert (await service.client.post("/capabilities/revoke", json=revoke)).status_code == 200
    assert problem_of(await post(service, exchange(root, key)), 403)["code"] == "capability.revoked"


async def test_another_tenants_chain_narrows_nothing(service: Service) -> None:
    acme = await service.add_key("acme", "issue", "decide", tenant="acme")
    theirs = await issue(service, WHOLE, headers=acme, max_depth=3)
    told = problem_of(await post(service, exchange(theirs, generate_key())), 403)
    assert (told["code"], told["reason"]) == ("capability.invalid", Reason.ISS_MISMATCH)


async def test_a_credential_narrows_only_for_whom_it_may_speak(service: Service) -> None:
    root = await issue(service, WHOLE, max_depth=3)
    outsider = await service.add_key("outsider", "decide", profile="outsider")
    told = problem_of(await post(service, exchange(root, generate_key()), outsider), 403)
    assert told["code"] == "subject.not_bound"
    audit = await service.add_key("audit", "audit", "policy")
    told = problem_of(await post(service, exchange(root, generate_key()), audit), 403)
    assert told["code"] == "caller.role_missing"
    decides = await service.add_key("runtime", "decide")
    assert (await post(service, exchange(root, generate_key()), decides)).status_code == 201


def form_of(holder: Holder, key: Any, **more: str) -> dict[str, str]:
    """The parameters of a form, with a proof over them as texts."""
    form = {**EXCHANGE, "agent": "sub-1", "holder": json.dumps(key.public.jwk), **more}
    proof = prove(
        holder.chain[-1],
        holder.key,
        audience=holder.audience,
        request_digest=request_digest(form),
        jti=new_jti(),
        iat=holder.now,
    )
    return {**form, "subject_token": " ".join(holder.chain), "proof": proof}


async def send_form(service: Service, text: str) -> httpx.Response:
    headers = {"Content-Type": "application/x-www-form-urlencoded"}
    return await service.client.post("/capabilities/attenuate", content=text, headers=headers)


async def test_a_form_says_the_same(service: Service) -> None:
    root = await issue(service, WHOLE, max_depth=3)
    sub = root.hand_on("sub-1")
    key = generate_key()
    form = form_of(sub, key, authorization_details=json.dumps([LESS]), expires_in="60", max_depth="0")
    response = await send_form(service, urlencode(form))
    assert response.status_code == 201, response.text
    given = response.json()
    assert (given["authorization_details"], given["expires_in"], given["max_depth"]) == ([LESS], 60, 0)
    as_list = form_of(sub, key) | {"subject_token": json.dumps(list(sub.chain))}
    assert (await send_form(service, urlencode(as_list))).status_code == 201


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ("&agent=sub-2", "input.duplicate_name"),
        ("&actor_token=x", "input.invalid"),
        ("&scope=all", "input.invalid"),
        ("&broken", "input.malformed"),
        ("&expires_in=%FF", "input.malformed"),
        ("&expires_in=1e3", "input.invalid"),
        ("&expires_in=060", "input.invalid"),
        ("&task=%7B%22a%22%3A1%2C%22a%22%3A2%7D", "input.duplicate_name"),
    ],
)
async def test_forms_are_read_strictly(service: Service, change: str, code: str) -> None:
    root = await issue(service, WHOLE, max_depth=3)
    told = problem_of(await send_form(service, urlencode(form_of(root, generate_key())) + change), 400)
    assert told["code"] == code


@pytest.mark.parametrize(
    ("change", "pointer"),
    [
        ({"grant_type": "client_credentials"}, "/grant_type"),
        ({"subject_token_type": "urn:ietf:params:oauth:token-type:access_token"}, "/subject_token_type"),
        ({"requested_token_type": "urn:ietf:params:oauth:token-type:id_token"}, "/requested_token_type"),
        ({"scope": "all"}, "/scope"),
        ({"actor_token": "x"}, "/actor_token"),
        ({"audience": "https://elsewhere.example.com"}, "/audience"),
        ({"subject_token": []}, None),
    ],
)
async def test_only_what_is_supported_can_be_asked_for(
    service: Service, change: dict[str, Any], pointer: str | None
) -> None:
    root = await issue(service, WHOLE, max_depth=3)
    told = problem_of(await post(service, exchange(root, generate_key()) | change), 400)
    assert pointer is None or told["pointer"] == pointer


async def test_a_task_narrows_to_what_it_names(service: Service) -> None:
    root = await issue(service, entry(["fs/file_read", "write"], ["file:///workspace"]), max_depth=3)
    task = {
        "objective": "Summarize.",
        "inputs": [{"uri": "file:///workspace/a", "rights": ["fs/file_read"]}],
        "output_contract": {"description": "A summary."},
        "completion": {"condition": "done", "deadline": root.now + 60},
        "child_trace_id": "t-child",
    }
    sub = await narrowed(service, root, task=task)
    assert await sub.reads(service, "/workspace/a") == "allow"
    assert await sub.reads(service, "/workspace/b") == "capability.object_outside"
    [record] = await service.records(type="capability.narrowed")
    assert record["capability"]["task"] == task

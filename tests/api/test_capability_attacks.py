"""Attacks on capabilities, against the whole service on each store: what is tried, and what it comes to."""

import asyncio
import base64
import json
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest
from authz_client.capabilities import generate_key, new_jti

from authz.store.postgres_url import PostgresUrl
from tests.cases.served import rules_of, told_of
from tests.support.holders import EXCHANGE, Holder, entry, exchange, issue, narrowed
from tests.support.service import Service
from tests.support.world import PERMIT_ALL
from tests.support.world import world as world_of

DELEGATED: Final = (
    '@id("delegated-needs-one") forbid (principal, action, resource) '
    "when { context.session.delegated && !context.capability.presented };"
)
READ: Final = entry("fs/file_read", "file:///workspace")
A: Final = ("fs/file_read", {"path": "/workspace/a"})
ALLOWED: Final = ("allow", "policy.permit")
SPENT: Final = ("deny", "capability.budget")


@pytest.fixture(params=["sqlite", "postgres"])
async def service(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Service]:
    database = None
    if request.param == "postgres":
        database = PostgresUrl.parse(request.getfixturevalue("postgres_url"))
    rulesets = {"default": world_of(PERMIT_ALL + DELEGATED)}
    async with Service.running(tmp_path, rulesets, database=database) as running:
        yield running


def reading(budget: int) -> dict[str, Any]:
    return entry("fs/file_read", "file:///workspace", budget={"calls": budget})


async def at_once(service: Service, *holders: Holder, each: int) -> Counter[tuple[str, str]]:
    bodies = [holder.body(*A) for holder in holders for _ in range(each)]
    answers = await asyncio.gather(*map(service.decide, bodies))
    return Counter((answer["effect"], answer["code"]) for answer in answers)


async def refusal(service: Service, body: dict[str, Any]) -> tuple[str, str | None]:
    """(code, reason) of a deny at stage 6, which is on record as it was told."""
    answer, record = await told_of(service, body)
    assert (answer["effect"], answer["stage"]) == ("deny", "capability"), answer
    assert record["capability"]["refused"]["reason"] == answer["capability"]["reason"]
    return answer["code"], answer["capability"]["reason"]


# Budgets cannot be bounded offline


async def test_siblings_that_each_carry_the_whole_budget_share_it(service: Service) -> None:
    root = await issue(service, reading(5), max_depth=2)
    siblings = [root.hand_on("sub-1"), root.hand_on("sub-2"), root.hand_on("sub-2", reading(5))]
    assert await at_once(service, *siblings, each=4) == {ALLOWED: 5, SPENT: 7}
    assert await at_once(service, root, each=1) == {SPENT: 1}


async def test_roots_that_were_narrowed_from_one_share_its_budget(service: Service) -> None:
    """New roots with jtis of their own, signed by the service: where they come from is on record."""
    root = await issue(service, reading(5), max_depth=4)
    child = root.hand_on("sub-1")
    one = await narrowed(service, root, reading(5), agent="sub-2")
    other = await narrowed(service, child, reading(4), agent="sub-3")
    assert await at_once(service, one, other, other.hand_on("sub-4"), child, each=3) == {ALLOWED: 5, SPENT: 7}
    link = (await service.client.post("/capabilities/introspect", json={"link": root.link})).json()
    assert link["links"][0]["budgets"] == [{"budget": {"calls": 5}, "used": {"calls": 5}}]


async def test_a_child_with_its_victims_jti_spends_nothing_of_the_victims(service: Service) -> None:
    victim = await issue(service, reading(2))
    root = await issue(service, READ, max_depth=1)
    twin = root.hand_on("evil-1", reading(2), jti=victim.jti)
    assert await at_once(service, twin, each=3) == {ALLOWED: 2, SPENT: 1}
    assert await at_once(service, victim, each=3) == {ALLOWED: 2, SPENT: 1}


# Proofs


async def test_a_proof_is_good_once_on_whatever_route(service: Service) -> None:
    root = await issue(service, READ, max_depth=1)
    body = root.body(*A)
    assert (await service.decide(body))["effect"] == "allow"
    replayed = ("capability.proof", "proof_replayed")
    assert await refusal(service, body) == replayed
    batch = await service.client.post("/decide/batch", json={"calls": [body]})
    assert batch.status_code == 200
    assert batch.json()["decisions"][0]["code"] == "capability.proof"
    # The same `jti` in a proof of another request is no new proof.
    jti = new_jti()
    for expected in ("allow", "deny"):
        plain = service.body(*A)
        proof = root.prove(plain, jti=jti)
        answer = await service.decide({**plain, "capability": list(root.chain), "proof": proof})
        assert answer["effect"] == expected


async def test_a_proof_for_one_route_is_none_for_another(service: Service) -> None:
    root = await issue(service, READ, max_depth=1)
    body = root.body(*A)
    asked = {**EXCHANGE, "agent": "sub-1", "holder": generate_key().public.jwk}
    stolen = {**asked, "subject_token": list(root.chain), "proof": body["proof"]}
    answer = await service.client.post("/capabilities/attenuate", json=stolen)
    assert (answer.status_code, answer.json()["code"]) == (403, "capability.proof")
    # It is not used up by that, else anybody could spend it.
    assert (await service.decide(body))["effect"] == "allow"
    own = exchange(root, generate_key())
    assert await refusal(service, {**root.body(*A), "proof": own["proof"]}) == (
        "capability.proof",
        "request_mismatch",
    )


@pytest.mark.parametrize(
    ("seconds", "reason"),
    [(-59, None), (60, None), (-60, "proof_too_old"), (61, "iat_in_future"), (-86_400, "proof_too_old")],
)
async def test_a_proof_is_of_now(service: Service, seconds: int, reason: str | None) -> None:
    root = await issue(service, READ)
    plain = service.body(*A)
    proof = root.prove(plain, iat=root.now + seconds)
    body = {**plain, "capability": list(root.chain), "proof": proof}
    if reason is None:
        assert (await service.decide(body))["effect"] == "allow"
    else:
        assert await refusal(service, body) == ("capability.proof", reason)


async def test_skew_lengthens_no_life(service: Service) -> None:
    root = await issue(service, READ, expires_in=60)
    service.clock.at_ms = (root.now + 60) * 1000
    for now in (root.now + 59, root.now + 60):
        assert await refusal(service, replace(root, now=now).body(*A)) == ("capability.expired", "expired")


# A subagent that leaves its capability out


async def test_in_the_trace_that_was_made_for_a_child_it_is_no_main_agent(service: Service) -> None:
    root = await issue(service, READ, max_depth=1)
    task = {
        "objective": "read it",
        "inputs": [{"uri": "file:///workspace/a", "rights": ["fs/file_read"]}],
        "output_contract": {"description": "a word"},
        "completion": {"condition": "read", "deadline": root.now + 60},
        "child_trace_id": "t-child",
    }
    await narrowed(service, root, task=task)
    subject = {"agent": "sub-1", "on_behalf_of": "ada", "session": "s-new"}
    body = service.body(*A, subject=subject, context={"trace_id": "t-child"})
    answer, record = await told_of(service, body)
    assert (answer["effect"], rules_of(answer)) == ("deny", ["delegated-needs-one"])
    assert record["delegated"] is True
    other = service.body(*A, subject=subject, context={"trace_id": "t-other"})
    assert (await service.decide(other))["effect"] == "allow"


async def test_a_child_stays_one_in_its_session(service: Service) -> None:
    """Also after a call that was refused, with another trace, and whatever it says of a parent."""
    root = await issue(service, READ, max_depth=1)
    child = root.hand_on("sub-1")
    body = child.body("fs/file_read", {"path": "/etc/passwd"})
    assert await refusal(service, body) == ("capability.object_outside", "object_outside")
    bare = service.body(*A, subject=body["subject"], context={"trace_id": "t-2"})
    assert rules_of((await told_of(service, bare))[0]) == ["delegated-needs-one"]


# Sizes and shapes


def token(payload: str) -> str:
    """Something shaped like a token, signed by nobody."""
    head = json.dumps({"alg": "EdDSA", "kid": "k", "typ": "cap+jwt"})
    parts = [head, payload, "x" * 64]
    return ".".join(base64.urlsafe_b64encode(part.encode()).rstrip(b"=").decode() for part in parts)


def shapes(chain: tuple[str, ...]) -> dict[str, Any]:
    """What may be put where a chain should be."""
    nested: Any = chain[0]
    for _ in range(40):
        nested = [nested]
    return {
        "many links": list(chain) * 5000,
        "as many as may be, and one": list(chain) * 10,
        "a long link": [chain[0] + "A" * 200_000],
        "nested lists": nested,
        "nested claims": [token('{"a":' * 5000 + "1" + "}" * 5000)],
        "nested lists of claims": [token('{"aud":' + "[" * 20_000 + "]" * 20_000 + "}")],
        "no texts": [{"jws": chain[0]}],
        "one text": chain[0],
        "nothing": [],
        "empty texts": [""] * 8,
        "null": [None],
    }


@pytest.mark.parametrize("shape", list(shapes(("x",))))
async def test_no_shape_of_a_chain_is_an_allow_or_a_crash(service: Service, shape: str) -> None:
    root = await issue(service, READ, max_depth=1)
    body = root.body(*A)
    before = len(await service.records())
    made = {**body, "capability": shapes(root.chain)[shape]}
    response = await service.client.post("/decide", json=made)
    if response.status_code == 200:
        answer = response.json()
        assert (answer["effect"], answer["stage"]) == ("deny", "capability"), answer
        assert answer["code"] in ("capability.invalid", "capability.depth")
    else:
        assert response.status_code in (400, 413), response.text
    assert len((await service.records())[before:]) == 1
    # Neither the chain nor its proof has suffered.
    assert (await service.decide(body))["effect"] == "allow"

"""Revoking capabilities, and what is told of them: introspection, the list, the tree, `/revocations`."""

import itertools
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from authz_client.capabilities import Revocations, generate_key, new_jti, parse_revocations

from authz.api.capabilities_wire import (
    CapabilitiesOut,
    IntrospectionOut,
    RevocationOut,
    RevocationsOut,
    TreeOut,
)
from authz.model.capability import LinkOrigin, LinkQuery
from authz.model.record import Committed, Event, EventType
from authz.ports import CommitUnit
from authz.store.memory import MemoryLedger
from tests.support.holders import Holder, entry, issue, narrowed
from tests.support.service import Service
from tests.support.world import PERMIT_ALL
from tests.support.world import world as world_of

READ = entry(["fs/file_read"], ["file:///workspace"])
A = entry(["fs/file_read"], ["file:///workspace/a"])
GRANT: dict[str, Any] = {"max_depth": 4}


@pytest.fixture
async def service(tmp_path: Path) -> AsyncIterator[Service]:
    bundles = {"default": world_of(PERMIT_ALL), "acme": world_of(PERMIT_ALL)}
    async with Service.running(tmp_path, bundles) as running:
        yield running


async def revoke(service: Service, headers: dict[str, str] | None = None, **handle: str) -> dict[str, Any]:
    body = {"reason": "it is over", **handle}
    response = await service.client.post("/capabilities/revoke", json=body, headers=headers)
    assert response.status_code == 200, response.text
    told: dict[str, Any] = response.json()
    RevocationOut.model_validate(told, strict=True)
    return told


async def revoked(service: Service, tenant: str = "default") -> Revocations:
    response = await service.client.get(
        "/revocations", params={"tenant": tenant}, headers={"Authorization": ""}
    )
    assert response.status_code == 200, response.text
    RevocationsOut.model_validate(response.json(), strict=True)
    return parse_revocations(response.json())


async def family(service: Service) -> tuple[Holder, Holder, Holder, Holder]:
    """A root, its child made offline, a root narrowed from that, and a child of it: each has called."""
    root = await issue(service, READ, **GRANT)
    child = root.hand_on("sub-1")
    below = await narrowed(service, child, A, agent="sub-2")
    last = below.hand_on("sub-3")
    for holder in (root, child, below, last):
        assert await holder.reads(service) == "allow"
    return root, child, below, last


async def reads(service: Service, *holders: Holder) -> list[str]:
    return [await holder.reads(service) for holder in holders]


GONE = "capability.revoked"


async def test_revoking_a_root_stops_everything_beneath(service: Service) -> None:
    root, child, below, last = await family(service)
    bystander = await issue(service, READ)
    told = await revoke(service, link=root.link)
    assert (told["links"], told["live"], told["live_beneath"]) == ([root.link], 1, 3)
    assert (told["already"], told["complete"]) == (False, True)
    assert await reads(service, root, child, below, last) == [GONE] * 4
    assert await bystander.reads(service) == "allow"
    [record] = await service.records(type="capability.revoked")
    assert (record["named"], record["reason"]) == ({"link": root.link}, "it is over")
    assert record["revoked"] == told["revoked"]
    assert record["caller"]["key_id"]


async def test_revoking_a_link_leaves_what_is_above(service: Service) -> None:
    root, child, below, last = await family(service)
    links = (await service.client.get("/capabilities", params={"agent": "sub-1"})).json()["capabilities"]
    told = await revoke(service, link=links[0]["link"])
    assert told["live_beneath"] == 2
    assert await reads(service, root, child, below, last) == ["allow", GONE, GONE, GONE]


async def test_revoking_a_holder_stops_also_what_was_never_seen(service: Service) -> None:
    root, child, below, last = await family(service)
    unseen = child.hand_on("sub-9")
    told = await revoke(service, holder=child.key.public.thumbprint)
    assert told["revoked"][0]["until"] == "9999-12-31T23:59:59.000Z"
    assert await reads(service, root, child, below, last, unseen) == ["allow", GONE, GONE, GONE, GONE]
    # A key that was lost once is not good again, in whatever capability.
    again = root.hand_on("sub-1", key=child.key)
    assert await again.reads(service) == GONE


async def test_a_jti_of_ours_names_that_root_alone(service: Service) -> None:
    victim = await issue(service, READ, **GRANT)
    attacker = await issue(service, READ, **GRANT)
    twin = attacker.hand_on("evil-1", jti=victim.jti)
    assert await reads(service, victim, twin) == ["allow", "allow"]
    told = await revoke(service, jti=victim.jti)
    assert told["links"] == [victim.link]
    assert [one["kind"] for one in told["revoked"]] == ["link"]
    assert await reads(service, victim, twin) == [GONE, "allow"]
    assert (await revoked(service)).jtis == frozenset()


async def test_a_jti_of_derived_links_names_those_that_have_it(service: Service) -> None:
    root = await issue(service, READ, **GRANT)
    jti = new_jti()
    one, other = root.hand_on("sub-1", jti=jti), root.hand_on("sub-2")
    assert await reads(service, one, other) == ["allow", "allow"]
    told = await revoke(service, jti=jti)
    assert (len(told["links"]), told["live"]) == (1, 1)
    assert [one["kind"] for one in told["revoked"]] == ["jti", "link"]
    assert await reads(service, root, one, other) == ["allow", GONE, "allow"]


async def test_a_jti_that_another_has_on_record_stops_the_one_that_was_not_seen(service: Service) -> None:
    """A decoy that was seen must not hide the link that is meant."""
    root = await issue(service, READ, **GRANT)
    jti = new_jti()
    victim = root.hand_on("sub-1", jti=jti)
    decoy = root.hand_on("sub-2").hand_on("sub-2b", jti=jti)
    assert await decoy.reads(service) == "allow"
    told = await revoke(service, jti=jti)
    assert [one["kind"] for one in told["revoked"]] == ["jti", "link"]
    assert await reads(service, victim, decoy, victim.hand_on("sub-3"), root) == [GONE, GONE, GONE, "allow"]
    assert (await revoked(service)).jtis == {jti}


async def test_however_many_links_there_are_a_revocation_goes_through(service: Service) -> None:
    """Whoever holds a capability makes as many links as it likes, with whatever `jti`, by whatever key."""
    victim = await issue(service, READ, **GRANT)
    attacker = await issue(service, READ, **GRANT)
    derived, key = new_jti(), generate_key()
    twin = attacker.hand_on("evil-1", jti=victim.jti, key=key)
    child = attacker.hand_on("evil-2", jti=derived, key=key)
    assert await reads(service, twin, child) == ["allow", "allow"]
    for number, jti in enumerate((victim.jti, derived)):
        await crowd(service, jti, 6000, str(number))
    told = await revoke(service, jti=victim.jti)
    assert ([one["kind"] for one in told["revoked"]], told["links"]) == (["link"], [victim.link])
    told = await revoke(service, jti=derived)
    assert (told["revoked"][0]["kind"], told["complete"]) == ("jti", False)
    assert len(told["revoked"]) <= 257
    told = await revoke(service, holder=key.public.thumbprint)
    assert ([one["kind"] for one in told["revoked"]], told["complete"]) == (["holder"], False)
    assert await reads(service, victim, twin, child, attacker) == [GONE, GONE, GONE, "allow"]


async def crowd(service: Service, jti: str, count: int, name: str) -> None:
    """Put that many links on record like the one that was seen with this `jti`."""
    seen = await service.ledger.find_links(LinkQuery(tenant="default", jti=jti))
    model = next(link for link in seen if link.origin is LinkOrigin.SEEN)
    links = [replace(model, link_hash=f"{name}-{number}") for number in range(count)]
    event = Event(type=EventType.DECISION_MADE, tenant="default", occurred_at_ms=0, body=b"{}")
    for start in range(0, count, 3000):
        unit = CommitUnit(event=event, links=links[start : start + 3000])
        assert isinstance(await service.ledger.commit(unit), Committed)


async def test_an_unknown_jti_stops_the_child_when_it_appears(service: Service) -> None:
    root = await issue(service, READ, **GRANT)
    jti = new_jti()
    told = await revoke(service, jti=jti)
    assert (told["links"], [one["kind"] for one in told["revoked"]]) == ([], ["jti"])
    assert await root.hand_on("sub-1", jti=jti).reads(service) == GONE
    assert await root.reads(service) == "allow"


@pytest.mark.parametrize("kind", ["link", "jti", "holder"])
async def test_that_nothing_known_was_stopped_is_said(service: Service, kind: str) -> None:
    told = await revoke(service, None, **{kind: "A" * 43})
    assert (told["links"], told["live"], told["live_beneath"], told["complete"]) == ([], 0, 0, True)
    root = await issue(service, READ)
    service.clock.at_ms += 3_600_000
    told = await revoke(service, link=root.link)
    assert (told["links"], told["live"], told["live_beneath"]) == ([root.link], 0, 0)


async def test_doing_it_again_changes_nothing(service: Service) -> None:
    root = await issue(service, READ)
    first = await revoke(service, link=root.link)
    again = await revoke(service, link=root.link)
    assert (first["already"], again["already"]) == (False, True)
    assert again["revoked"] == first["revoked"]
    assert (await revoked(service)).links == {root.link}


@pytest.mark.parametrize(
    "body",
    [
        {"reason": "x"},
        {"reason": "x", "jti": "a", "link": "A" * 43},
        {"jti": "a"},
        {"jti": "a", "reason": ""},
        {"reason": "x", "link": "short"},
        {"reason": "x", "holder": "=" * 43},
        {"reason": "x", "kid": "a"},
    ],
)
async def test_what_names_nothing_clearly_is_refused(service: Service, body: dict[str, str]) -> None:
    response = await service.client.post("/capabilities/revoke", json=body)
    assert (response.status_code, response.json()["code"]) == (400, "input.invalid")
    assert (await revoked(service)).is_empty


async def test_who_may_do_what(service: Service) -> None:
    root = await issue(service, READ)
    chain = {"capability": list(root.chain)}
    for roles, expected in (
        (("issue",), {"revoke": 200, "introspect": 403, "list": 403}),
        (("policy",), {"revoke": 200, "introspect": 200, "list": 200}),
        (("audit",), {"revoke": 403, "introspect": 200, "list": 200}),
        (("decide", "approve"), {"revoke": 403, "introspect": 403, "list": 403}),
    ):
        headers = await service.add_key("-".join(roles), *roles)
        body = {"link": root.link, "reason": "x"}
        answers = {
            "revoke": await service.client.post("/capabilities/revoke", json=body, headers=headers),
            "introspect": await service.client.post("/capabilities/introspect", json=chain, headers=headers),
            "list": await service.client.get("/capabilities", headers=headers),
        }
        assert {name: answer.status_code for name, answer in answers.items()} == expected


async def test_another_tenants_links_are_as_if_absent(service: Service) -> None:
    acme = await service.add_key("acme", "issue", "decide", "audit", "policy", tenant="acme")
    theirs = await issue(service, READ, headers=acme)
    for path in ("/capabilities", f"/capabilities?root={theirs.link}", f"/capabilities?jti={theirs.jti}"):
        assert (await service.client.get(path)).json()["capabilities"] == []
    assert (await service.client.get(f"/capabilities/{theirs.link}")).status_code == 404
    by_link = await service.client.post("/capabilities/introspect", json={"link": theirs.link})
    assert by_link.status_code == 404
    chain = {"capability": list(theirs.chain)}
    shown = (await service.client.post("/capabilities/introspect", json=chain)).json()
    assert shown == {"active": False, "reason": "iss_mismatch", "link": 0, "component": None}
    # Whatever is revoked here is nothing to them.
    for told in (
        await revoke(service, link=theirs.link),
        await revoke(service, jti=theirs.jti),
        await revoke(service, holder=theirs.key.public.thumbprint),
    ):
        assert told["links"] == []
    assert (await revoked(service, "acme")).is_empty
    body = theirs.body("fs/file_read", {"path": "/workspace/a"})
    assert (await service.decide(body, acme))["effect"] == "allow"


async def test_a_chain_is_told_hop_by_hop(service: Service) -> None:
    budget = entry(["fs/file_read", "write"], ["file:///workspace"], budget={"calls": 9})
    root = await issue(service, budget, expires_in=600, **GRANT)
    less = entry(["fs/file_read"], ["file:///workspace/a"], budget={"calls": 2})
    child = root.hand_on("sub-1", less, exp=root.now + 60)
    assert await child.reads(service) == "allow"
    response = await service.client.post("/capabilities/introspect", json={"capability": list(child.chain)})
    assert response.headers["cache-control"] == "no-store"
    told = response.json()
    IntrospectionOut.model_validate(told, strict=True)
    assert (told["active"], told["sub"], told["act"]) == (True, "ada", {"sub": "sub-1"})
    assert (told["exp"], told["cnf"]) == (root.now + 60, {"jkt": child.key.public.thumbprint})
    first, second = told["links"]
    assert (first["agent"], first["origin"], first["gave_up"]) == ("coder-1", "issued", None)
    assert first["budgets"] == [{"budget": {"calls": 9}, "used": {"calls": 1}}]
    assert second["budgets"] == [{"budget": {"calls": 2}, "used": {"calls": 1}}]
    assert second["gave_up"]["rights"][0]["lost"] == ["write"]
    assert second["gave_up"]["objects"][0]["instead"] == ["file:///workspace/a"]
    assert second["gave_up"]["budget"] == [{"entry": 0, "from": {"calls": 9}, "to": {"calls": 2}}]
    assert second["gave_up"]["expiry"]["to"] == "2026-11-30T10:01:00.000Z"


async def test_what_is_over_says_why(service: Service) -> None:
    root, child, below, last = await family(service)
    await revoke(service, holder=child.key.public.thumbprint)

    async def told(holder: Holder) -> dict[str, Any]:
        body = {"capability": list(holder.chain)}
        found: dict[str, Any] = (await service.client.post("/capabilities/introspect", json=body)).json()
        return found

    assert (await told(root))["active"] is True
    for holder in (child, below, last):
        found = await told(holder)
        assert (found["active"], found["reason"]) == (False, "revoked_holder")
        assert found["links"][-1]["revoked_by"] == {
            "kind": "holder",
            "value": child.key.public.thumbprint,
            "link": found["links"][1]["link"],
        }
    service.clock.at_ms += 3_600_000
    assert (await told(root))["reason"] == "expired"
    by_link = await service.client.post("/capabilities/introspect", json={"link": root.link})
    assert (by_link.json()["active"], by_link.json()["reason"]) == (False, "expired")


async def test_a_link_whose_key_was_withdrawn_is_over(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By its hash as by the chain: nothing that the key signed is good any more."""
    root = await issue(service, READ, **GRANT)
    child = root.hand_on("sub-1")
    assert await child.reads(service) == "allow"
    seen = await service.ledger.find_links(LinkQuery(tenant="default", agent="sub-1"))
    chains = service.application.services.capabilities.chains
    known = chains.rules("default")
    monkeypatch.setattr(chains, "rules", lambda tenant: replace(known, keys={}))
    for body in ({"link": root.link}, {"link": seen[0].link_hash}, {"capability": list(child.chain)}):
        told = (await service.client.post("/capabilities/introspect", json=body)).json()
        assert (told["active"], told["reason"]) == (False, "kid_unknown")


async def test_a_forged_chain_is_told_nothing_about(service: Service) -> None:
    root = await issue(service, READ, **GRANT)
    body = {"capability": [root.chain[0][:-4] + "AAAA"]}
    told = (await service.client.post("/capabilities/introspect", json=body)).json()
    assert told.keys() == {"active", "reason", "link", "component"}
    assert told["active"] is False


async def test_the_list_is_paged_and_filtered(service: Service) -> None:
    holders = [await issue(service, READ, agent=f"agent-{number}") for number in range(5)]
    seen: list[str] = []
    query: dict[str, Any] = {"limit": 2}
    for _ in range(5):
        page = (await service.client.get("/capabilities", params=query)).json()
        CapabilitiesOut.model_validate(page, strict=True)
        seen += [link["link"] for link in page["capabilities"]]
        if page["next"] is None:
            break
        query["after"] = page["next"]
    assert sorted(seen) == sorted(holder.link for holder in holders)
    assert len(seen) == len(set(seen))
    one = holders[2]
    for name, value in (
        ("agent", "agent-2"),
        ("holder", one.key.public.thumbprint),
        ("jti", one.jti),
        ("root", one.link),
    ):
        page = (await service.client.get("/capabilities", params={name: value})).json()
        assert [link["link"] for link in page["capabilities"]] == [one.link]
    service.clock.at_ms += 3_600_000
    assert (await service.client.get("/capabilities", params={"live": "true"})).json()["capabilities"] == []
    for wrong in ({"colour": "red"}, {"after": "x"}, {"limit": 0}):
        assert (await service.client.get("/capabilities", params=wrong)).status_code == 400


async def test_a_tree_shows_who_handed_what_to_whom(service: Service) -> None:
    root, child, below, _ = await family(service)
    sibling = root.hand_on("sub-4")
    assert await sibling.reads(service) == "allow"
    await revoke(service, link=below.link)
    told = (await service.client.get(f"/capabilities/{below.link}")).json()
    TreeOut.model_validate(told, strict=True)
    assert told["complete"] is True

    def shape(node: dict[str, Any]) -> Any:
        mark = "" if node["revoked_by"] is None else " (revoked)"
        return {node["agent"] + mark: [shape(below) for below in node["children"]]}

    [top] = told["roots"]
    [first, second] = sorted(top["children"], key=lambda node: str(node["agent"]))
    assert shape(first) == {"sub-1": [{"sub-2 (revoked)": [{"sub-3 (revoked)": []}]}]}
    assert shape(second) == {"sub-4": []}
    assert child.agent == "sub-1"


async def test_the_public_list_is_cheap_to_ask_again(service: Service) -> None:
    client = service.client
    strangers = {"Authorization": ""}
    empty = await client.get("/revocations", headers=strangers)
    assert empty.json() == {"links": [], "jtis": [], "holders": []}
    assert empty.headers["cache-control"] == "public, max-age=1"
    known = strangers | {"If-None-Match": empty.headers["etag"]}
    again = await client.get("/revocations", headers=known)
    assert (again.status_code, again.content) == (304, b"")
    await revoke(service, holder=generate_key().public.thumbprint)
    changed: httpx.Response = await client.get("/revocations", headers=known)
    assert changed.status_code == 200
    assert len(changed.json()["holders"]) == 1
    assert changed.headers["etag"] != empty.headers["etag"]
    assert (await client.get("/revocations", params={"tenant": "nobody"})).status_code == 404
    assert (await client.get("/revocations", params={"since": "1"})).status_code == 400


async def test_what_is_kept_of_a_link_cannot_be_presented(service: Service) -> None:
    root = await issue(service, READ, **GRANT)
    assert await root.hand_on("sub-1").reads(service) == "allow"
    token = root.chain[0]
    listed = (await service.client.get("/capabilities")).text + str(await service.records())
    for part in itertools.islice(token.split("."), 1, 3):
        assert part not in listed


async def test_without_news_of_revocations_no_capability_is_taken(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = await issue(service, READ)
    silent = MemoryLedger(clock=service.clock)
    silent.unavailable = "the store does not answer"
    known = service.application.services.capabilities.revocations
    monkeypatch.setattr(known, "_ledger", silent)
    monkeypatch.setattr(known, "_monotonic", lambda: time.monotonic() + 60)
    body = root.body("fs/file_read", {"path": "/workspace/a"})
    chain = {"capability": list(root.chain)}
    for response in (
        await service.client.post("/decide", json=body),
        await service.client.post("/capabilities/introspect", json=chain),
        await service.client.get("/revocations"),
    ):
        assert (response.status_code, response.json()["code"]) == (503, "revocations.stale")
        assert response.json()["next"] == ["wait"]
    # What presents none is decided as ever.
    assert (await service.decide(service.body("fs/file_read", {"path": "/workspace/a"})))["effect"] == "allow"
    assert (await service.records())[-1]["type"] == "decision.made"
    decided = [record for record in await service.records() if record["type"].startswith("decision")]
    assert len(decided) == 1

"""The log for people: searched, one decision stage by stage, a trace, and a delegation as a picture."""

import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.holders import entry, issue
from tests.support.service import Service
from tests.support.world import PERMIT_ALL, world
from tests.ui.visitor import IBAN, Visitor, ask, site, visitor

pytestmark = pytest.mark.anyio
PAY = {"iban": IBAN, "amount": 5, "note": "n"}
READ = entry(["fs/file_read"], ["file:///workspace"])
A = entry(["fs/file_read"], ["file:///workspace/a"])


@pytest.fixture
async def service(tmp_path: Path) -> AsyncIterator[Service]:
    async with site(tmp_path) as running:
        yield running


async def auditor_of(service: Service, tenant: str = "default") -> Visitor:
    return await visitor(service, "grace", "approve", "audit", tenant=tenant)


def links(page: str) -> list[str]:
    """Ids of the decisions that a page links to, in order."""
    return re.findall(r'href="/ui/decisions/([^"?]+)"', page)


async def test_decisions_are_found_by_each_field(service: Service) -> None:
    first = await service.decide(service.body("open/pay", PAY))
    other = {"agent": "coder-2", "on_behalf_of": "nils", "session": "s-2"}
    second = await service.decide(
        service.body("open/write", {"path": "/workspace/a", "content": ""}, subject=other)
    )
    refused = await service.decide(service.body("open/none", {}))
    auditor = await auditor_of(service)
    finds = {
        "tool=open/pay": [first],
        "agent=coder-2": [second],
        "user=nils": [second],
        "effect=deny": [refused],
        "rule=asks": [second, first],
        "trace=t-1&tool=open/pay": [first],
        "trace=another": [],
        "since=2026-11-30T09:00&until=2026-11-30T11:00&type=decision.made": [refused, second, first],
        "since=2026-12-30T09:00": [],
    }

    for query, expected in finds.items():
        page = await auditor.get(f"/ui/decisions?{query}")
        assert links(page.text) == [said["decision_id"] for said in expected], query
    assert (await auditor.get("/ui/decisions?since=yesterday")).status_code == 400


async def test_older_records_are_on_the_next_page(service: Service) -> None:
    auditor = await auditor_of(service)
    said = [await service.decide(service.body("open/none", {"n": number})) for number in range(60)]
    seen, path = [], "/ui/decisions?effect=deny"

    while path:
        page = (await auditor.get(path)).text
        seen += links(page)
        further = re.search(r'rel="next" href="([^"]+)"', page)
        path = further[1].replace("&amp;", "&") if further else ""

    assert seen == [one["decision_id"] for one in reversed(said)]


async def test_one_decision_stage_by_stage(service: Service) -> None:
    body = service.body(
        "open/pay",
        {**PAY, "note": "a very private note"},
        provenance={"/iban": {"source": "web", "uri": "https://a.example"}},
    )
    said = await service.decide(body)
    auditor = await auditor_of(service)

    page = (await auditor.get(f"/ui/decisions/{said['decision_id']}")).text

    told = [
        *("Find the tool", "local:open", "Check the arguments", IBAN, "redacted: a keyed digest"),
        *("Where they came from", "https://a.example", "Spell resources in one way", f"id:iban:{IBAN}"),
        *("Look the operation up", said["fingerprint"], "Check the capability", "Ask the rules"),
        *("Money leaves the house.", "Match an approval", "settled here", said["approval"]["id"]),
        *("Reserve limits and budgets", "not reached"),
    ]
    place = 0
    for words in told:
        found = page.find(words, place)
        assert found >= 0, f"`{words}` is missing, or stands too early"
        place = found
    assert "a very private note" not in page


async def test_what_became_of_a_decision_is_on_its_page(service: Service) -> None:
    said = await service.decide(service.body("open/pay", PAY))
    grace = await auditor_of(service)
    asked = said["approval"]["id"]
    await grace.submit(await grace.get(f"/ui/approvals/{asked}"), "/deny", reason="no")

    page = (await grace.get(f"/ui/decisions/{said['decision_id']}")).text

    assert "approval.denied" in page.partition("What became of it")[2]


async def test_a_trace_is_told_in_order(service: Service) -> None:
    first = await service.decide(service.body("open/none", {}))
    service.clock.at_ms += 1500
    second = await service.decide(service.body("open/pay", PAY))
    auditor = await auditor_of(service)

    page = (await auditor.get("/ui/traces/t-1")).text

    assert links(page)[:2] == [first["decision_id"], second["decision_id"]]
    assert page.count('<svg class="lane"') == 2
    assert "+1,500 ms" in page


async def test_another_tenants_records_are_as_if_absent(service: Service) -> None:
    said = await service.decide(service.body("open/pay", PAY))
    stranger = await auditor_of(service, "other")

    assert (await stranger.get(f"/ui/decisions/{said['decision_id']}")).status_code == 404
    assert (await stranger.get("/ui/traces/t-1")).status_code == 404
    assert links((await stranger.get("/ui/decisions")).text) == []
    assert "coder-1" not in (await stranger.get("/ui/history")).text


async def test_history_tells_no_argument(service: Service) -> None:
    await ask(service, "open/pay", PAY)
    auditor = await visitor(service, "heidi", "audit")

    page = await auditor.get("/ui/history?state=pending&agent=coder-1")

    assert page.text.count("/ui/approvals/") == 1
    assert IBAN not in page.text
    assert (await auditor.get("/ui/history?state=none")).status_code == 400
    assert "Nothing was found" in (await auditor.get("/ui/history?agent=nobody")).text


async def test_a_delegation_is_a_picture_with_what_each_hop_gave_up(tmp_path: Path) -> None:
    async with Service.running(
        tmp_path, {"default": world(PERMIT_ALL), "other": world(PERMIT_ALL)}
    ) as service:
        root = await issue(service, READ, max_depth=4)
        child = root.hand_on("sub-1", A)
        assert await child.reads(service) == "allow"
        auditor = await auditor_of(service)

        listed = await auditor.get("/ui/delegations")
        assert f'href="/ui/delegations/{root.link}"' in listed.text
        page = (await auditor.get(f"/ui/delegations/{root.link}")).text

        picture = page.partition("<svg")[2].partition("</svg>")[0]
        assert picture.count("<rect") == 2
        assert picture.count("<path") == 1
        assert "sub-1" in picture
        assert "objects given up" in picture
        words = page.partition("The same in words")[2]
        assert re.search(
            r"objects given up.*file:///workspace\b.*left of these.*file:///workspace/a", words, re.DOTALL
        )
        assert "REVOKED" not in picture

        body = {"link": root.link, "reason": "over"}
        assert (await service.client.post("/capabilities/revoke", json=body)).status_code == 200
        assert (await auditor.get(f"/ui/delegations/{root.link}")).text.count("REVOKED") == 2
        stranger = await auditor_of(service, "other")
        assert (await stranger.get(f"/ui/delegations/{root.link}")).status_code == 404

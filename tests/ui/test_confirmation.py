"""The confirmation page: what it shows to whom, and what its forms do, without a line of script."""

import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.service import Service
from tests.ui.visitor import IBAN, ask, forms_of, rules, site, visitor

pytestmark = pytest.mark.anyio
PAY = {"iban": IBAN, "amount": 12000, "note": "As agreed."}
SAID = {
    "/iban": {"source": "web", "uri": "https://invoices.example.net/7"},
    "/amount": {"source": "user"},
    "/note": {"source": "user"},
}
LONG = "\n".join(f"line {number}" for number in range(900))


@pytest.fixture
async def service(tmp_path: Path) -> AsyncIterator[Service]:
    async with site(tmp_path) as running:
        yield running


async def test_it_says_what_will_happen_first_and_everything_else_after(service: Service) -> None:
    asked = await ask(service, "open/pay", PAY, provenance=SAID)

    page = (await (await visitor(service, "grace")).get(f"/ui/approvals/{asked}")).text

    told = [
        *("What will happen", f"{IBAN}", "12000", "IT CANNOT BE UNDONE", "Whose data goes where"),
        *("Money leaves the house.", "Who asks", "coder-1", "ada", "What it touches", f"id:iban:{IBAN}"),
        *("Every argument", "/amount", "12,000", "/iban", "from web, UNTRUSTED", "invoices.example.net"),
        *("As agreed.", "What a yes is bound to", "Your answer", "Say no", "Say yes", "This call, once."),
    ]
    place = 0
    for words in told:
        found = page.find(words, place)
        assert found >= 0, f"`{words}` is missing, or stands too early"
        place = found


async def test_the_yes_is_the_last_control_of_the_page_and_has_no_focus(service: Service) -> None:
    asked = await ask(service, "open/pay", PAY)

    page = (await (await visitor(service, "grace")).get(f"/ui/approvals/{asked}")).text

    controls = re.findall(r"<(?:button|a|input|textarea|summary)\b[^>]*>", page)
    assert 'value="approve"' in controls[-1]
    assert "autofocus" not in page
    # What Enter in a field of that form presses is the first of its buttons, which only looks again.
    form = next(form for form in forms_of(page) if form.form_id == "approve")
    assert [button.get("value") for button in form.buttons] == ["look", "approve"]


async def test_a_yes_leads_back_to_the_page_and_lets_the_call_run_once(service: Service) -> None:
    body = service.body("open/pay", PAY)
    asked = (await service.decide(body))["approval"]["id"]
    grace = await visitor(service, "grace")

    answered = await grace.submit(await grace.get(f"/ui/approvals/{asked}"), "/approve", answer="approve")

    assert (answered.status_code, answered.headers["location"]) == (303, f"/ui/approvals/{asked}")
    page = (await grace.get(f"/ui/approvals/{asked}")).text
    assert "<strong>Approved</strong>" in page
    assert "1 use left" in page
    assert (await service.decide(body))["effect"] == "allow"
    page = (await grace.get(f"/ui/approvals/{asked}")).text
    assert "<strong>Used up</strong>" in page


async def test_a_no_takes_a_reason_which_goes_to_the_agent(service: Service) -> None:
    body = service.body("open/pay", PAY)
    asked = (await service.decide(body))["approval"]["id"]
    grace = await visitor(service, "grace")

    answered = await grace.submit(
        await grace.get(f"/ui/approvals/{asked}"), "/deny", reason="Not that account.\r\nAsk me."
    )

    assert answered.status_code == 303
    assert "<strong>Denied</strong>" in (await grace.get(f"/ui/approvals/{asked}")).text
    said = await service.decide(body)
    assert said["effect"] == "deny"
    assert "Not that account." in said["message"]


async def test_a_second_click_is_no_second_answer_and_no_error(service: Service) -> None:
    asked = await ask(service, "open/pay", PAY)
    grace = await visitor(service, "grace")
    page = await grace.get(f"/ui/approvals/{asked}")

    first = await grace.submit(page, "/approve", answer="approve")
    second = await grace.submit(page, "/approve", answer="approve")

    assert (first.status_code, second.status_code) in ((303, 303), (303, 409))
    events = await service.records(type="approval.approved")
    assert len(events) == 1


async def test_enter_in_a_field_answers_nothing(service: Service) -> None:
    asked = await ask(service, "open/write", {"path": "/workspace/a", "content": "x"})
    grace = await visitor(service, "grace")
    page = await grace.get(f"/ui/approvals/{asked}")

    answered = await grace.submit(page, "/approve", answer="look", scope="times", uses="7")

    assert answered.status_code == 200
    assert "Nothing was answered yet" in answered.text
    form = next(form for form in forms_of(answered.text) if form.form_id == "approve")
    assert (form.fields["scope"], form.fields["uses"]) == ("times", "7")
    assert await service.records(type="approval.approved") == []


async def test_another_document_than_the_one_shown_is_refused(service: Service) -> None:
    asked = await ask(service, "open/pay", PAY)
    grace = await visitor(service, "grace")
    page = await grace.get(f"/ui/approvals/{asked}")

    answered = await grace.submit(page, "/approve", answer="approve", shown_digest="sha256:" + "0" * 64)

    assert answered.status_code == 409
    assert re.search(
        r'role="alert".{0,120}what you were shown is not what would run', answered.text, re.DOTALL
    )
    assert await service.records(type="approval.approved") == []


async def test_what_is_folded_is_opened_before_a_yes(service: Service) -> None:
    asked = await ask(service, "open/mail", {"to": "bob@example.com", "body": LONG})
    grace = await visitor(service, "grace")
    page = await grace.get(f"/ui/approvals/{asked}")
    assert f"{len(LONG):,} characters" in page.text
    assert "line 450" in page.text

    unread = await grace.submit(page, "/approve", answer="approve")
    assert unread.status_code == 409
    assert "open what is folded" in unread.text

    read = await grace.submit(unread, "/approve", answer="approve", opened="0")
    assert read.status_code == 303


async def test_a_secret_is_on_the_page_of_an_approver_who_asks_for_it_and_nowhere_else(
    service: Service,
) -> None:
    secret = "hunter2-hunter2"
    asked = await ask(
        service,
        "open/mail",
        {"to": "bob@example.com", "body": secret},
        provenance={"/body": {"source": "secret"}, "/to": {"source": "user"}},
    )
    grace, ada = await visitor(service, "grace"), await visitor(service, "ada")
    path = f"/ui/approvals/{asked}"
    page = await grace.get(path)
    assert secret not in page.text
    assert "The value is secret" in page.text

    unseen = await grace.submit(page, "/approve", answer="approve")
    assert unseen.status_code == 409

    form = next(form for form in forms_of(page.text) if form.form_id == "approve")
    shown = await grace.post(f"{path}/reveal", {**form.fields, "reveal": "0"})
    assert secret in shown.text
    answered = await grace.submit(shown, "/approve", answer="approve", opened="0")
    assert answered.status_code == 303

    # The user behind the call may see the call, and not what only an approver has to.
    for person in (ada, grace):
        assert secret not in (await person.get(path)).text
    own = forms_of((await ada.get(path)).text)[0].fields["csrf_token"]
    assert secret not in (await ada.post(f"{path}/reveal", {"csrf_token": own, "reveal": "0"})).text


async def test_the_user_behind_the_call_may_deny_and_not_approve(service: Service) -> None:
    asked = await ask(service, "open/pay", PAY)
    ada = await visitor(service, "ada")
    page = await ada.get(f"/ui/approvals/{asked}")

    assert IBAN in page.text
    assert {form.action.rpartition("/")[2] for form in forms_of(page.text)} == {"sign-out", "deny"}
    fields = next(form for form in forms_of(page.text) if form.action.endswith("/deny")).fields
    refused = await ada.post(
        f"/ui/approvals/{asked}/approve", {**fields, "answer": "approve", "scope": "once"}
    )
    assert refused.status_code == 409
    assert "somebody else approves" in refused.text
    assert (await ada.submit(page, "/deny", reason="")).status_code == 303


async def test_whoever_may_not_answer_sees_nothing_of_the_call(service: Service) -> None:
    asked = await ask(service, "open/pay", PAY)
    nils = await visitor(service, "nils")

    page = await nils.get(f"/ui/approvals/{asked}")

    assert "You cannot answer it" in page.text
    assert IBAN not in page.text
    assert [form.action for form in forms_of(page.text)] == ["/ui/sign-out"]


async def test_another_tenants_request_is_as_if_absent(service: Service) -> None:
    asked = await ask(service, "open/pay", PAY)
    stranger = await visitor(service, "grace", tenant="other")
    fields = {"csrf_token": forms_of((await stranger.get("/ui/")).text)[0].fields["csrf_token"]}

    absent = await stranger.get("/ui/approvals/" + "0" * 32)
    foreign = await stranger.get(f"/ui/approvals/{asked}")

    assert (absent.status_code, foreign.status_code) == (404, 404)
    assert absent.text == foreign.text
    for act in ("approve", "deny", "reveal", "revoke"):
        answered = await stranger.post(
            f"/ui/approvals/{asked}/{act}", {**fields, "answer": "approve", "scope": "once"}
        )
        assert answered.status_code == 404


async def test_two_people_where_a_rule_wants_two(tmp_path: Path) -> None:
    async with site(tmp_path, '@quorum("2")') as service:
        asked = await ask(service, "open/pay", PAY)
        grace, heidi = await visitor(service, "grace"), await visitor(service, "heidi")
        path = f"/ui/approvals/{asked}"
        assert "2 different people" in (await grace.get(path)).text

        await grace.submit(await grace.get(path), "/approve", answer="approve")

        page = (await grace.get(path)).text
        assert "You said yes already. It waits for others." in page
        assert "Still missing" in page
        assert 'id="approve"' not in page
        await heidi.submit(await heidi.get(path), "/approve", answer="approve")
        assert "<strong>Approved</strong>" in (await heidi.get(path)).text


async def test_a_passkey_is_asked_for_where_a_rule_wants_one(tmp_path: Path) -> None:
    async with site(tmp_path, '@factor("passkey")') as service:
        asked = await ask(service, "open/pay", PAY)
        grace = await visitor(service, "grace")
        page = await grace.get(f"/ui/approvals/{asked}")

        assert re.search(r'value="approve"[^>]*disabled', page.text)
        assert "A passkey needs script" in page.text
        refused = await grace.submit(page, "/approve", answer="approve")
        assert refused.status_code == 409
        assert "a rule asks for a passkey" in refused.text
        assert (await grace.submit(page, "/deny", reason="")).status_code == 303


async def test_after_its_end_it_is_expired_and_offers_nothing(service: Service) -> None:
    asked = await ask(service, "open/pay", PAY)
    grace = await visitor(service, "grace")
    page = await grace.get(f"/ui/approvals/{asked}")

    for _ in range(3):
        service.clock.at_ms += 21 * 60_000
        await grace.get("/ui/")
    late = await grace.submit(page, "/approve", answer="approve")

    assert late.status_code == 409
    assert "it is expired already" in late.text
    page = await grace.get(f"/ui/approvals/{asked}")
    assert "<strong>Expired</strong>" in page.text
    assert [form.action for form in forms_of(page.text)] == ["/ui/sign-out"]


async def test_what_cannot_be_seen_cannot_be_approved(service: Service) -> None:
    asked = await ask(service, "open/run", {"command": "\u2800\u2800"})
    grace = await visitor(service, "grace")

    page = await grace.get(f"/ui/approvals/{asked}")

    assert "Cannot be approved:" in page.text
    assert [form.action.rpartition("/")[2] for form in forms_of(page.text)] == ["sign-out", "deny"]


async def test_a_grant_is_listed_and_revoked(service: Service) -> None:
    body = service.body("open/write", {"path": "/workspace/a", "content": "x"})
    asked = (await service.decide(body))["approval"]["id"]
    grace = await visitor(service, "grace")
    await grace.submit(
        await grace.get(f"/ui/approvals/{asked}"), "/approve", answer="approve", scope="session"
    )
    listed = await grace.get("/ui/grants")
    assert "in this session" in listed.text
    assert "file:///workspace/a" in listed.text

    revoked = await grace.submit(listed, "/revoke")

    assert revoked.status_code == 303
    assert "Nothing is granted" in (await grace.get("/ui/grants")).text
    assert "<strong>No longer valid</strong>" in (await grace.get(f"/ui/approvals/{asked}")).text
    assert (await service.decide(body))["effect"] != "allow"


async def test_of_the_choices_only_those_offered_count(service: Service) -> None:
    asked = await ask(service, "open/pay", PAY)
    grace = await visitor(service, "grace")
    page = await grace.get(f"/ui/approvals/{asked}")
    wrong: list[dict[str, Any]] = [{"scope": "session"}, {"scope": "times", "uses": "3"}]

    for fields in wrong:
        assert (await grace.submit(page, "/approve", answer="approve", **fields)).status_code == 409
    assert (await grace.submit(page, "/approve", answer="approve", scope="all")).status_code == 400
    assert await service.records(type="approval.approved") == []


async def test_rules_that_changed_meanwhile_are_told_and_no_yes_is_taken(service: Service) -> None:
    asked = await ask(service, "open/pay", PAY)
    grace = await visitor(service, "grace")
    page = await grace.get(f"/ui/approvals/{asked}")
    changed = rules('@quorum("2")', "Money leaves, and nobody looks.")

    service.application.services.bundles.swap("default", changed, service.clock.now_ms())
    answered = await grace.submit(page, "/approve", answer="approve")

    assert answered.status_code == 409
    told = answered.text.partition('role="alert"')[2].partition("</div>")[0]
    assert "the policies changed since this was asked" in told
    assert "asks" in told
    assert "The rules have changed since this was asked" in answered.text
    assert [form.action.rpartition("/")[2] for form in forms_of(answered.text)] == ["sign-out", "deny"]
    assert await service.records(type="approval.approved") == []

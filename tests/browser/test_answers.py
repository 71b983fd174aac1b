"""People answer in a real browser: yes and no, twice at once, in two tabs, too late, and without script."""

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from tests.browser.asking import (
    PAY,
    PAY_SAID,
    WRITE,
    answered,
    ask,
    asking_server,
    browsing,
    call,
    decide,
)
from tests.support.server import RunningServer

LONG = {"to": "bob@example.com", "body": "\n".join(f"line {number}" for number in range(600))}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with asking_server(tmp_path_factory.mktemp("answers")) as running:
        yield running


@pytest.fixture
def grace(browser: Browser, server: RunningServer) -> Iterator[BrowserContext]:
    with browsing(browser, server) as context:
        yield context


def opened(context: BrowserContext, approval_id: str) -> Page:
    page = context.new_page()
    page.goto(f"/ui/approvals/{approval_id}")
    return page


def approve(page: Page) -> None:
    page.get_by_role("button", name="Approve", exact=True).click()


def stands(page: Page, words: str) -> None:
    expect(page.locator(".state")).to_contain_text(words)


def test_a_yes_lets_the_same_call_run_and_no_other(server: RunningServer, grace: BrowserContext) -> None:
    body = call("open/pay", PAY, provenance=PAY_SAID)
    page = opened(grace, decide(server, body)["approval"]["id"])
    expect(page.get_by_role("heading", level=1)).to_contain_text("Make a transaction with the iban")

    approve(page)

    stands(page, "Approved")
    changed = {**body, "arguments": {**PAY, "amount": 12001}}
    refused = decide(server, changed)
    assert (refused["effect"], refused["code"]) == ("deny", "operation.conflict")
    first = decide(server, body)
    assert first["effect"] == "allow"
    assert decide(server, body)["decision_id"] == first["decision_id"]
    anew = {**body, "context": {**body["context"], "tool_call_id": "another"}}
    assert decide(server, anew)["effect"] == "require_approval"
    page.reload()
    stands(page, "Used up")


def test_a_no_goes_back_to_the_agent_with_its_reason(server: RunningServer, grace: BrowserContext) -> None:
    body = call("open/pay", {**PAY, "amount": 1})
    page = opened(grace, decide(server, body)["approval"]["id"])

    page.get_by_label("Why not?").fill("Not this account.\nAsk me first.")
    page.get_by_role("button", name="Deny").click()

    stands(page, "Denied")
    expect(page.get_by_text("Not this account.")).to_be_visible()
    said = decide(server, body)
    assert said["effect"] == "deny"
    assert "Not this account." in said["message"]


def test_a_double_click_is_one_answer(server: RunningServer, grace: BrowserContext) -> None:
    asked = ask(server, "open/pay", {**PAY, "amount": 2})
    page = opened(grace, asked)

    page.get_by_role("button", name="Approve", exact=True).dblclick()

    stands(page, "Approved")
    expect(page.get_by_role("alert").filter(has_text="changed nothing")).to_have_count(0)
    assert answered(server, asked, "approval.approved") == 1


def test_another_tab_says_that_it_is_out_of_date_and_takes_its_yes_away(
    server: RunningServer, grace: BrowserContext
) -> None:
    asked = ask(server, "open/pay", {**PAY, "amount": 3})
    first, second = opened(grace, asked), opened(grace, asked)
    # Of two tabs one is hidden, and a hidden one listens again once it is looked at.
    first.bring_to_front()
    approve(first)
    stands(first, "Approved")

    second.bring_to_front()

    expect(second.locator("#changed")).to_contain_text("no longer as this page shows it")
    expect(second.get_by_role("button", name="Approve", exact=True)).to_be_disabled()
    second.get_by_role("link", name="Look again").click()
    stands(second, "Approved")
    assert answered(server, asked, "approval.approved") == 1


def test_back_shows_how_it_stands_now(server: RunningServer, grace: BrowserContext) -> None:
    asked = ask(server, "open/pay", {**PAY, "amount": 4})
    page = grace.new_page()
    page.goto("/ui/history")
    page.goto(f"/ui/approvals/{asked}")
    approve(page)
    stands(page, "Approved")
    page.goto("/ui/grants")

    page.go_back()

    stands(page, "Approved")
    expect(page.get_by_role("button", name="Approve", exact=True)).to_have_count(0)
    page.go_back()
    page.wait_for_load_state()
    expect(page.get_by_role("button", name="Approve", exact=True)).to_have_count(0)
    assert answered(server, asked, "approval.approved") == 1


def test_what_is_folded_counts_as_read_once_its_end_was_on_the_screen(
    server: RunningServer, grace: BrowserContext
) -> None:
    asked = ask(server, "open/mail", LONG)
    page = opened(grace, asked)
    approve(page)
    expect(page.get_by_role("alert").filter(has_text="open what is folded")).to_be_visible()
    expect(page.locator(".opened-state")).to_have_text("not yet")

    page.get_by_text("Open all 5,", exact=False).first.click()
    expect(page.get_by_label("I have read all")).not_to_be_checked()
    page.get_by_role("region", name="all of argument 1").evaluate("box => box.scrollTo(0, box.scrollHeight)")
    page.locator("[data-end]").scroll_into_view_if_needed()

    expect(page.get_by_label("I have read all")).to_be_checked()
    expect(page.locator(".opened-state")).to_have_text("read")
    approve(page)
    stands(page, "Approved")


def test_by_keyboard_alone_all_facts_come_before_the_yes(
    server: RunningServer, grace: BrowserContext
) -> None:
    asked = ask(server, "open/write", WRITE)
    page = opened(grace, asked)
    assert page.evaluate("document.activeElement.tagName") == "BODY"
    names = []
    for _ in range(60):
        page.keyboard.press("Tab")
        focused = page.evaluate(
            "[document.activeElement.tagName, document.activeElement.textContent.trim().slice(0, 40)]"
        )
        names.append(focused)
        if focused == ["BUTTON", "Approve"]:
            break
    assert ["BUTTON", "Deny"] in names
    assert names[-1] == ["BUTTON", "Approve"]
    assert names[0] == ["A", "Skip to the page"]
    outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
    assert outline == "solid"

    # Enter in a field only looks again.
    page.get_by_label("How often").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("alert").filter(has_text="Nothing was answered yet")).to_be_visible()
    stands(page, "Waiting for an answer")

    page.get_by_role("button", name="Approve", exact=True).focus()
    page.keyboard.press("Space")
    stands(page, "Approved")


def test_without_script_a_person_reads_opens_and_answers(browser: Browser, server: RunningServer) -> None:
    asked = ask(server, "open/mail", {**LONG, "subject": "plain"})
    denied = ask(server, "open/pay", {**PAY, "amount": 5})
    with browsing(browser, server, java_script_enabled=False) as context:
        page = opened(context, asked)
        approve(page)
        expect(page.get_by_role("alert").filter(has_text="open what is folded")).to_be_visible()
        page.get_by_text("Open all 5,", exact=False).first.click()
        page.get_by_label("I have read all").check()
        approve(page)
        stands(page, "Approved")

        page = opened(context, denied)
        page.get_by_role("button", name="Deny").click()
        stands(page, "Denied")


def test_whoever_was_signed_out_meanwhile_answers_nothing(
    server: RunningServer, grace: BrowserContext
) -> None:
    asked = ask(server, "open/pay", {**PAY, "amount": 6})
    page, other = opened(grace, asked), grace.new_page()
    other.goto("/ui/")
    other.get_by_role("button", name="Sign out").click()
    other.wait_for_url(re.compile("/ui/sign-in"))

    approve(page)

    expect(page.get_by_role("heading", level=1)).to_have_text("You are not signed in")
    assert answered(server, asked, "approval.approved") == 0


def test_the_inbox_is_live(server: RunningServer, grace: BrowserContext) -> None:
    page = grace.new_page()
    with page.expect_response(lambda answer: answer.url.endswith("/ui/events")):
        page.goto("/ui/")
    before = int(page.locator("#inbox").get_attribute("data-count") or 0)

    asked = ask(server, "open/pay", {**PAY, "amount": 77})

    waiting = page.locator(f'a[href="/ui/approvals/{asked}"]')
    expect(waiting).to_be_visible()
    expect(page).to_have_title(re.compile(rf"^\({before + 1}\) Inbox"))
    waiting.click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("77")

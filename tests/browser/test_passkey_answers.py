"""A rule that asks for a passkey: the browser signs for what the page shows, each time."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, CDPSession, Page, expect

from tests.browser.asking import PAY, ask, asking_server, browsing, call, decide, records
from tests.browser.conftest import Shot
from tests.browser.test_answers import stands
from tests.browser.test_passkeys import invite
from tests.support.server import RunningServer


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with asking_server(tmp_path_factory.mktemp("passkeys"), '@factor("passkey")') as running:
        yield running


@pytest.fixture
def device(page: Page) -> tuple[CDPSession, str]:
    """A virtual passkey device that verifies its user."""
    session = page.context.new_cdp_session(page)
    session.send("WebAuthn.enable", {"enableUI": False})
    options = {
        "protocol": "ctap2",
        "transport": "internal",
        "hasResidentKey": True,
        "hasUserVerification": True,
        "isUserVerified": True,
        "automaticPresenceSimulation": True,
    }
    made = session.send("WebAuthn.addVirtualAuthenticator", {"options": options})
    return session, made["authenticatorId"]


def test_the_yes_is_signed_by_the_passkey(
    page: Page, server: RunningServer, device: tuple[CDPSession, str], shot: Shot
) -> None:
    session, authenticator = device
    page.goto(invite(server, "heidi"))
    page.get_by_role("button", name="Make a passkey").click()
    page.wait_for_url("**/ui/account")
    body = call("open/pay", PAY)
    asked = decide(server, body)["approval"]["id"]
    page.goto(f"/ui/approvals/{asked}")
    yes = page.get_by_role("button", name="Approve with your passkey")
    expect(yes).to_be_enabled()
    shot(page, "confirmation-passkey")

    # Whoever is not verified by the device has answered nothing, and may try again.
    session.send("WebAuthn.setUserVerified", {"authenticatorId": authenticator, "isUserVerified": False})
    yes.click()
    expect(page.get_by_role("alert").filter(has_text="No passkey was used")).to_be_visible()
    stands(page, "Waiting for an answer")
    session.send("WebAuthn.setUserVerified", {"authenticatorId": authenticator, "isUserVerified": True})
    yes.click()

    stands(page, "Approved")
    expect(page.locator(".votes")).to_contain_text("Yes by heidi with a passkey")
    [record] = records(server, "approval.approved")
    assert record["vote"]["factor"] == "passkey"
    assert decide(server, body)["effect"] == "allow"


def test_a_session_alone_is_not_enough(browser: Browser, server: RunningServer) -> None:
    asked = ask(server, "open/pay", {**PAY, "amount": 2})
    with browsing(browser, server, java_script_enabled=False) as context:
        page = context.new_page()
        page.goto(f"/ui/approvals/{asked}")

        expect(page.get_by_role("button", name="Approve with your passkey")).to_be_disabled()
        expect(page.get_by_text("A passkey needs script")).to_be_visible()
        page.get_by_role("button", name="Deny").click()

        stands(page, "Denied")

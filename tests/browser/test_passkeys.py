"""People sign in: by a dev link, and by the passkey that an invitation was good for."""

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import CDPSession, Page, expect

from tests.browser.conftest import Shot, new_sign_in_link, run_authz
from tests.support.server import RunningServer

INVITED = re.compile(r"http://localhost:\d+(/ui/sign-in/link\?token=\S+)")


@pytest.fixture
def authenticator(page: Page) -> Iterator[tuple[CDPSession, str]]:
    """A virtual passkey device that verifies its user, through the browser's own protocol."""
    session = page.context.new_cdp_session(page)
    session.send("WebAuthn.enable", {"enableUI": False})
    made = session.send(
        "WebAuthn.addVirtualAuthenticator",
        {
            "options": {
                "protocol": "ctap2",
                "transport": "internal",
                "hasResidentKey": True,
                "hasUserVerification": True,
                "isUserVerified": True,
                "automaticPresenceSimulation": True,
            }
        },
    )
    yield session, made["authenticatorId"]
    session.detach()


def invite(server: RunningServer, person: str) -> str:
    found = INVITED.search(run_authz(server, "people", "invite", person, "--role", "approve"))
    assert found is not None
    return found.group(1)


def test_an_invited_person_makes_a_passkey_signs_out_and_in_again(
    page: Page, server: RunningServer, authenticator: tuple[CDPSession, str], shot: Shot
) -> None:
    link = invite(server, "heidi")
    # Looked at as often as somebody likes: programs open links before people do.
    page.goto(link)
    page.goto(link)
    shot(page, "invitation")
    page.get_by_label("What to call it").fill("Heidi's key")
    page.get_by_role("button", name="Make a passkey").click()
    page.wait_for_url("**/ui/account")
    expect(page.get_by_text("Heidi's key")).to_be_visible()
    shot(page, "account")

    page.get_by_role("button", name="Sign out").click()
    page.wait_for_url("**/ui/sign-in")
    page.goto("/ui/account")
    page.wait_for_url("**/ui/sign-in?next=%2Fui%2Faccount")
    shot(page, "sign-in")
    page.get_by_role("button", name="Sign in with a passkey").click()
    page.wait_for_url("**/ui/account")
    expect(page.get_by_role("link", name="Signed in as heidi")).to_be_visible()

    # The invitation is used up.
    page.get_by_role("button", name="Sign out").click()
    page.goto(link)
    expect(page.get_by_text("this link is not good", exact=False)).to_be_visible()


def test_a_passkey_of_a_user_who_was_not_verified_signs_nobody_in(
    page: Page, server: RunningServer, authenticator: tuple[CDPSession, str]
) -> None:
    session, device = authenticator
    page.goto(invite(server, "lin"))
    page.get_by_role("button", name="Make a passkey").click()
    page.wait_for_url("**/ui/account")
    page.get_by_role("button", name="Sign out").click()
    page.wait_for_url("**/ui/sign-in")
    session.send("WebAuthn.setUserVerified", {"authenticatorId": device, "isUserVerified": False})
    page.get_by_role("button", name="Sign in with a passkey").click()
    expect(page.get_by_text("No passkey was used, try again")).to_be_visible()
    page.goto("/ui/account")
    page.wait_for_url("**/ui/sign-in?next=*")


def test_the_last_passkey_stays_and_another_can_be_removed(
    page: Page, server: RunningServer, authenticator: tuple[CDPSession, str]
) -> None:
    session, device = authenticator
    page.goto(invite(server, "nils"))
    page.get_by_role("button", name="Make a passkey").click()
    page.wait_for_url("**/ui/account")
    page.get_by_role("button", name="Remove").click()
    expect(page.get_by_text("This is your last passkey", exact=False)).to_be_visible()
    # The same device makes no second one, so it gets a new memory.
    session.send("WebAuthn.clearCredentials", {"authenticatorId": device})
    page.goto("/ui/account")
    page.get_by_label("What to call a new one").fill("second")
    page.get_by_role("button", name="Add a passkey").click()
    expect(page.get_by_role("button", name="Remove")).to_have_count(2)
    page.get_by_role("button", name="Remove").first.click()
    expect(page.get_by_role("button", name="Remove")).to_have_count(1)


def test_a_dev_link_is_good_once_and_only_by_its_button(
    page: Page, server: RunningServer, shot: Shot
) -> None:
    link = new_sign_in_link(server)
    page.goto(link)
    shot(page, "dev-link")
    page.get_by_role("button", name="Sign in as grace").click()
    page.wait_for_url(re.compile(r"/ui/$"))
    page.goto("/ui/account")
    expect(page.get_by_text("approve, audit")).to_be_visible()
    page.context.clear_cookies()
    page.goto(link)
    expect(page.get_by_text("this link is not good", exact=False)).to_be_visible()


def test_disabling_an_account_ends_its_session(signed_in: Page, server: RunningServer) -> None:
    signed_in.goto("/ui/account")
    assert signed_in.url.endswith("/ui/account")
    run_authz(server, "people", "disable", "grace")
    signed_in.goto("/ui/account")
    signed_in.wait_for_url("**/ui/sign-in?next=*")
    run_authz(server, "people", "enable", "grace")
    # What was ended stays so.
    signed_in.goto("/ui/account")
    signed_in.wait_for_url("**/ui/sign-in?next=*")

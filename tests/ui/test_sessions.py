"""How long somebody is signed in, and what a session that was left open is good for."""

import re
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest
from authz_client.capabilities.digests import base64url

from tests.support.service import Service
from tests.ui.test_signing_in import FROM_US, csrf_of, invited, is_in, passkey, post, sign_in, sign_out
from tests.ui.visitor import ORIGIN, forms_of, site

pytestmark = pytest.mark.anyio


@pytest.fixture
async def service(tmp_path: Path) -> AsyncIterator[Service]:
    async with site(tmp_path) as running:
        yield running


@pytest.fixture
async def browser(service: Service) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(transport=service.client._transport, base_url=ORIGIN) as client:
        yield client


async def code_of(browser: httpx.AsyncClient) -> str:
    page = await browser.get("/ui/account")
    form = next(form for form in forms_of(page.text) if form.action == "/ui/account/code")
    shown = await browser.post(form.action, data=form.fields, headers=FROM_US)
    found = re.search(r"--code (azc_\S+?)<", shown.text)
    assert found is not None, shown.text
    return found[1]


async def test_a_page_that_is_left_open_keeps_nobody_signed_in(
    service: Service, browser: httpx.AsyncClient
) -> None:
    await invited(service, browser)
    by_itself = {"sec-fetch-dest": "empty", "sec-fetch-mode": "cors", "sec-fetch-site": "same-origin"}
    service.clock.at_ms += 3_500_000
    # As scripts of a page ask, for the stream and for the page anew.
    assert (await browser.get("/ui/account", headers=by_itself)).status_code == 200
    service.clock.at_ms += 100_000
    assert (await browser.get("/ui/account", headers=by_itself)).status_code == 303
    assert not await is_in(browser)


async def test_a_session_of_the_command_line_ends_with_the_sign_in_that_it_rests_on(
    service: Service, browser: httpx.AsyncClient
) -> None:
    await invited(service, browser)
    for _ in range(8):
        service.clock.at_ms += 3_500_000
        assert await is_in(browser)
    told = await browser.post("/ui/cli-session", json={"code": await code_of(browser)})
    people = service.application.services.people.people
    assert await people.session_of(told.json()["token"]) is not None
    service.clock.at_ms += 28_800_000 - 8 * 3_500_000
    assert await people.session_of(told.json()["token"]) is None


async def test_a_code_of_a_session_that_is_over_is_none(service: Service, browser: httpx.AsyncClient) -> None:
    await invited(service, browser)
    for _ in range(8):
        service.clock.at_ms += 3_599_000
        assert await is_in(browser)
    code = await code_of(browser)
    service.clock.at_ms += 28_800_000 - 8 * 3_599_000
    answered = await browser.post("/ui/cli-session", json={"code": code})
    assert answered.status_code == 401
    assert answered.json()["code"] == "sign_in.code"


async def test_passkeys_change_only_right_after_signing_in(
    service: Service, browser: httpx.AsyncClient
) -> None:
    """Whoever finds a session open could else make a passkey, and approve what asks for one."""
    made, other = await invited(service, browser), passkey()
    service.clock.at_ms += 9 * 60_000
    csrf = await csrf_of(browser, "/ui/account")
    options = await post(browser, "/ui/passkeys/register/options", csrf_token=csrf)
    assert options.status_code == 200
    service.clock.at_ms += 60_000
    late = [
        await post(browser, "/ui/passkeys/register/options", csrf_token=csrf),
        await post(
            browser,
            "/ui/passkeys/register",
            csrf_token=csrf,
            label="",
            credential=other.create(options.json()),
        ),
    ]
    assert [(answered.status_code, answered.json()["code"]) for answered in late] == [
        (403, "session.not_fresh")
    ] * 2
    remove = {"csrf_token": csrf, "credential_id": base64url(made.credential_id)}
    removed = await browser.post("/ui/passkeys/remove", data=remove, headers=FROM_US)
    assert removed.status_code == 403
    assert "sign out and in again" in removed.text
    await sign_out(browser)
    assert (await sign_in(browser, made)).status_code == 200
    csrf = await csrf_of(browser, "/ui/account")
    options = await post(browser, "/ui/passkeys/register/options", csrf_token=csrf)
    again = await post(
        browser, "/ui/passkeys/register", csrf_token=csrf, label="", credential=other.create(options.json())
    )
    assert again.status_code == 200, again.text


async def test_wrong_answers_keep_out_nobody_who_has_the_passkey(
    service: Service, browser: httpx.AsyncClient
) -> None:
    """Ids of passkeys are no secrets: they stand in the log and in receipts."""
    made = await invited(service, browser)
    await sign_out(browser)
    forged = passkey(credential_id=made.credential_id, user_handle=made.user_handle)

    wrong = [(await sign_in(browser, forged)).status_code for _ in range(12)]

    assert wrong == [401] * 10 + [429] * 2
    refused = [each for each in await service.records() if each["type"] == "person.sign_in_refused"]
    assert len(refused) == 10, "and the log is not filled either"
    assert (await sign_in(browser, made)).status_code == 200

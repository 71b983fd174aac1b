"""Signing in by invitation and passkey, request by request: what is taken, refused, and put on record."""

import json
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from authz.cli.people_orders import link_url, new_link
from authz.model.account_writes import DONE, OrderKind, PersonOrder
from authz.service.people import BROWSER_PREFIX, digest_secret
from authz.store.person_orders import find_outcome, leave_order, list_people
from tests.support.authenticator import USER_PRESENT, SoftPasskey
from tests.support.service import Service
from tests.ui.visitor import ORIGIN, forms_of, site

FROM_US = {"origin": ORIGIN, "sec-fetch-site": "same-origin"}


@pytest.fixture
async def service(tmp_path: Path) -> AsyncIterator[Service]:
    async with site(tmp_path) as running:
        yield running


@pytest.fixture
async def browser(service: Service) -> AsyncIterator[httpx.AsyncClient]:
    """A browser that keeps cookies and nothing else."""
    async with httpx.AsyncClient(transport=service.client._transport, base_url=ORIGIN) as client:
        yield client


def passkey(**more: Any) -> SoftPasskey:
    return SoftPasskey(origin=ORIGIN, rp_id="localhost", **more)


async def order(service: Service, kind: OrderKind, person: str, *roles: str, days: int = 3) -> str:
    """As the command line orders it; the token of the link. Fails where the order is refused."""
    token, now_ms = new_link(), service.clock.now_ms()
    left = PersonOrder(
        order_id=f"o-{token[-8:]}",
        tenant="default",
        kind=kind,
        person=person,
        display_name="",
        roles=frozenset(roles),
        link_digest=digest_secret(token),
        link_expires_at_ms=now_ms + days * 86_400_000,
        at_ms=now_ms,
    )
    database = service.ledger._path
    leave_order(database, left)
    await service.application.services.people.orders.take()
    outcome = find_outcome(database, left.order_id)
    assert outcome == DONE, outcome
    return token


async def csrf_of(browser: httpx.AsyncClient, path: str = "/ui/sign-in") -> str:
    page = await browser.get(path)
    assert page.status_code == 200, page.text
    found = re.search(r'name="csrf_token" value="([^"]+)"', page.text)
    assert found is not None
    return found[1]


async def post(browser: httpx.AsyncClient, path: str, **body: Any) -> httpx.Response:
    return await browser.post(path, json=body, headers=FROM_US)


async def invited(service: Service, browser: httpx.AsyncClient, person: str = "heidi") -> SoftPasskey:
    """Somebody who registered a passkey by an invitation, and is signed in."""
    token, made = await order(service, OrderKind.INVITE, person, "approve", "audit"), passkey()
    csrf = await csrf_of(browser, link_url("", token))
    options = await post(browser, "/ui/passkeys/invitation/options", csrf_token=csrf, token=token)
    assert options.status_code == 200, options.text
    answered = await post(
        browser,
        "/ui/passkeys/invitation",
        csrf_token=csrf,
        token=token,
        credential=made.create(options.json()),
        label="mine",
    )
    assert answered.status_code == 200, answered.text
    return made


async def sign_in(browser: httpx.AsyncClient, made: SoftPasskey, **flags: int) -> httpx.Response:
    csrf = await csrf_of(browser)
    options = await post(browser, "/ui/passkeys/sign-in/options", csrf_token=csrf)
    credential = made.get(options.json(), **flags)
    return await post(browser, "/ui/passkeys/sign-in", csrf_token=csrf, credential=credential, next="")


async def sign_out(browser: httpx.AsyncClient) -> None:
    page = await browser.get("/ui/account")
    form = next(form for form in forms_of(page.text) if form.action == "/ui/sign-out")
    done = await browser.post(form.action, data=form.fields, headers=FROM_US)
    assert done.status_code == 303


async def is_in(browser: httpx.AsyncClient) -> bool:
    return (await browser.get("/ui/account")).status_code == 200


def stored_bytes(service: Service) -> bytes:
    """Everything in the database's files, its write-ahead log included."""
    path = Path(service.ledger._path)
    return b"".join(each.read_bytes() for each in path.parent.glob(f"{path.name}*"))


async def of_people(service: Service) -> list[dict[str, Any]]:
    return [each for each in await service.records() if each["type"].startswith(("account.", "person."))]


async def test_an_invitation_makes_a_passkey_and_everything_is_on_record(
    service: Service, browser: httpx.AsyncClient
) -> None:
    made = await invited(service, browser)
    assert await is_in(browser)
    await sign_out(browser)
    assert not await is_in(browser)
    assert (await sign_in(browser, made)).json() == {"location": "/ui/"}
    assert await is_in(browser)

    records = await of_people(service)
    assert [(each["type"], each.get("change")) for each in records] == [
        ("account.changed", "invited"),
        ("person.signed_in", None),
        ("person.signed_out", None),
        ("person.signed_in", None),
    ]
    assert records[1]["passkey"]["label"] == "mine"
    assert {each["person"]["id"] for each in records[1:]} == {"heidi"}
    # Of what signs people in nothing is in the log, nor anywhere in the database.
    token = browser.cookies["authz-session"]
    assert token not in json.dumps(records)
    assert token.encode() not in stored_bytes(service)


async def test_an_invitation_is_good_once_and_signs_nobody_in(
    service: Service, browser: httpx.AsyncClient
) -> None:
    token = await order(service, OrderKind.INVITE, "heidi", "approve")
    csrf = await csrf_of(browser, link_url("", token))
    fields = {"csrf_token": csrf, "token": token}
    assert (await browser.post("/ui/sign-in/link", data=fields, headers=FROM_US)).status_code == 401
    options = await post(browser, "/ui/passkeys/invitation/options", csrf_token=csrf, token=token)
    made, other = passkey(), passkey()
    first = await post(
        browser, "/ui/passkeys/invitation", **fields, credential=made.create(options.json()), label=""
    )
    assert first.status_code == 200
    csrf = await csrf_of(browser, "/ui/account")
    second = await post(
        browser, "/ui/passkeys/invitation", **fields, credential=other.create(options.json()), label=""
    )
    assert second.status_code in (401, 403)
    assert len(await service.ledger.find_passkeys("default", (await accounts(service))[0])) == 1


async def accounts(service: Service) -> list[str]:
    return [account.account_id for account, _ in list_people(service.ledger._path)]


@pytest.mark.parametrize("fault", ["unverified", "not_present", "origin", "rp_id", "key", "handle"])
async def test_a_passkey_that_does_not_hold_signs_nobody_in(
    service: Service, browser: httpx.AsyncClient, fault: str
) -> None:
    made = await invited(service, browser)
    await sign_out(browser)
    flags = {"unverified": {"flags": USER_PRESENT}, "not_present": {"flags": 4}}.get(fault, {})
    if fault == "origin":
        made.origin = "http://localhost:8701"
    elif fault == "rp_id":
        made.rp_id = "evil.test"
    elif fault == "key":
        made._key = passkey()._key
    elif fault == "handle":
        made.user_handle = b"somebody-else"
    answered = await sign_in(browser, made, **flags)
    assert answered.status_code == 401
    assert answered.json() == {
        "code": "passkey.refused",
        "message": "this passkey was not accepted; try again, or another one",
    }
    assert not await is_in(browser)
    assert (await of_people(service))[-1]["type"] == "person.sign_in_refused"


async def test_an_unknown_passkey_is_answered_like_a_wrong_one(
    service: Service, browser: httpx.AsyncClient
) -> None:
    made = await invited(service, browser)
    await sign_out(browser)
    unknown = await sign_in(browser, passkey())
    made._key = passkey()._key
    wrong = await sign_in(browser, made)
    assert (unknown.status_code, unknown.content) == (wrong.status_code, wrong.content)


async def test_a_sign_count_that_does_not_rise_is_a_copied_key(
    service: Service, browser: httpx.AsyncClient
) -> None:
    made = await invited(service, browser)
    for _ in range(3):
        await sign_out(browser)
        assert (await sign_in(browser, made)).status_code == 200
    await sign_out(browser)
    made.sign_count = 1
    assert (await sign_in(browser, made)).status_code == 401
    never_counts = await invited(service, browser, "nils")
    never_counts.counts, never_counts.sign_count = False, 0
    await sign_out(browser)
    assert (await sign_in(browser, never_counts)).status_code == 200


async def test_a_challenge_is_of_one_browser_used_once_and_soon_over(
    service: Service, browser: httpx.AsyncClient
) -> None:
    made = await invited(service, browser)
    await sign_out(browser)
    csrf = await csrf_of(browser)
    path = "/ui/passkeys/sign-in"
    options = (await post(browser, f"{path}/options", csrf_token=csrf)).json()
    credential = made.get(options)

    async with httpx.AsyncClient(transport=service.client._transport, base_url=ORIGIN) as other:
        theirs = await csrf_of(other)
        stolen = await post(other, path, csrf_token=theirs, credential=credential)
        assert stolen.status_code == 401
    service.clock.at_ms += 5 * 60 * 1000
    assert (await post(browser, path, csrf_token=csrf, credential=credential)).status_code == 401
    service.clock.at_ms -= 1
    assert (await post(browser, path, csrf_token=csrf, credential=credential)).status_code == 200
    await sign_out(browser)
    # The counter alone would refuse it, so one that does not count is tried, too.
    again = await post(browser, path, csrf_token=await csrf_of(browser), credential=credential)
    assert again.status_code == 401


async def test_a_session_from_before_is_not_the_one_after_signing_in(
    service: Service, browser: httpx.AsyncClient
) -> None:
    made = await invited(service, browser)
    first = browser.cookies["authz-session"]
    planted = BROWSER_PREFIX + "x" * 43
    await sign_out(browser)
    browser.cookies.set("authz-session", planted, domain="localhost.local", path="/")
    answered = await sign_in(browser, made)
    assert answered.status_code == 200
    fresh = answered.cookies["authz-session"]
    assert fresh not in (first, planted)
    people = service.application.services.people.people
    assert await people.session_of(planted) is None
    assert await people.session_of(first) is None
    assert await people.session_of(fresh) is not None
    # Somebody else who signs in in this browser ends the session that it had.
    browser.cookies.clear()
    browser.cookies.set("authz-session", fresh)
    await invited(service, browser, "nils")
    assert await people.session_of(fresh) is None


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "https://evil.test"},
        {"origin": "null"},
        {"origin": ORIGIN, "sec-fetch-site": "cross-site"},
        {"origin": ORIGIN, "sec-fetch-site": "same-site"},
        {"sec-fetch-site": "none"},
    ],
)
async def test_what_another_site_sends_signs_nobody_in_and_nobody_out(
    service: Service, browser: httpx.AsyncClient, headers: dict[str, str]
) -> None:
    made = await invited(service, browser)
    page = await browser.get("/ui/account")
    form = next(form for form in forms_of(page.text) if form.action == "/ui/sign-out")
    assert (await browser.post(form.action, data=form.fields, headers=headers)).status_code == 403
    assert await is_in(browser)
    await sign_out(browser)
    csrf = await csrf_of(browser)
    options = await post(browser, "/ui/passkeys/sign-in/options", csrf_token=csrf)
    body = {"csrf_token": csrf, "credential": made.get(options.json()), "next": ""}
    # Login CSRF: an attacker's own good answer.
    refused = await browser.post("/ui/passkeys/sign-in", json=body, headers=headers)
    assert refused.status_code == 403
    assert refused.json()["code"] == "csrf.refused"
    assert not await is_in(browser)


@pytest.mark.parametrize("token", ["", "x", "0" * 64, "ü"])
async def test_a_form_without_the_token_of_its_session_does_nothing(
    service: Service, browser: httpx.AsyncClient, token: str
) -> None:
    await invited(service, browser)
    refused = await browser.post("/ui/sign-out", data={"csrf_token": token}, headers=FROM_US)
    assert refused.status_code == 403
    assert await is_in(browser)


async def test_a_session_ends_by_its_time_and_when_nothing_is_done(
    service: Service, browser: httpx.AsyncClient
) -> None:
    made = await invited(service, browser)
    for _ in range(8):
        service.clock.at_ms += 3_500_000
        assert await is_in(browser)
    # Eight hours after it began, whatever was done meanwhile.
    service.clock.at_ms += 28_800_000 - 8 * 3_500_000
    assert not await is_in(browser)
    assert (await sign_in(browser, made)).status_code == 200
    service.clock.at_ms += 3_600_000
    assert not await is_in(browser)


async def test_an_account_that_is_disabled_or_loses_a_role_is_out_at_once(
    service: Service, browser: httpx.AsyncClient
) -> None:
    made = await invited(service, browser)
    await order(service, OrderKind.INVITE, "heidi", "approve")
    assert not await is_in(browser)
    assert (await sign_in(browser, made)).status_code == 200
    await order(service, OrderKind.DISABLE, "heidi")
    assert not await is_in(browser)
    assert (await sign_in(browser, made)).status_code == 401
    await order(service, OrderKind.ENABLE, "heidi")
    assert not await is_in(browser)
    assert (await sign_in(browser, made)).status_code == 200


async def test_tries_are_limited(service: Service, browser: httpx.AsyncClient) -> None:
    statuses = [(await browser.get("/ui/sign-in/link?token=azl_nothing")).status_code for _ in range(12)]
    assert statuses == [401] * 10 + [429] * 2
    # Others are not kept out by it.
    await invited(service, browser)


async def test_a_code_signs_in_on_the_command_line_once_and_under_its_session(
    service: Service, browser: httpx.AsyncClient
) -> None:
    await invited(service, browser)
    page = await browser.get("/ui/account")
    form = next(form for form in forms_of(page.text) if form.action == "/ui/account/code")

    async def code() -> str:
        shown = await browser.post(form.action, data=form.fields, headers=FROM_US)
        found = re.search(r"--code (azc_\S+?)<", shown.text)
        assert found is not None, shown.text
        return found[1]

    first, second = await code(), await code()
    assert (await browser.post("/ui/cli-session", json={"code": first})).status_code == 401
    told = await browser.post("/ui/cli-session", json={"code": second})
    assert told.status_code == 200, told.text
    assert told.json()["person"] == "heidi"
    assert "set-cookie" not in told.headers
    token = told.json()["token"]
    assert (await browser.post("/ui/cli-session", json={"code": second})).status_code == 401
    people = service.application.services.people.people
    found = await people.session_of(token)
    assert found is not None
    assert (found.bearer, found.person, found.factor.value) == (True, "heidi", "session")
    # As a cookie it is nothing.
    async with httpx.AsyncClient(transport=service.client._transport, base_url=ORIGIN) as other:
        other.cookies.set("authz-session", token)
        assert not await is_in(other)
    third = await code()
    await sign_out(browser)
    assert (await browser.post("/ui/cli-session", json={"code": third})).status_code == 401
    bearer = {"authorization": f"Bearer {token}"}
    assert (await browser.delete("/ui/cli-session", headers=bearer)).status_code == 204
    assert await people.session_of(token) is None
    assert (await browser.delete("/ui/cli-session", headers=bearer)).status_code == 401


async def test_a_cookie_that_comes_twice_is_nobodys(service: Service, browser: httpx.AsyncClient) -> None:
    await invited(service, browser)
    token = browser.cookies["authz-session"]
    browser.cookies.clear()
    twice = {"cookie": f"authz-session={token}; authz-session={token}"}
    assert (await browser.get("/ui/account", headers=twice)).status_code == 303
    once = {"cookie": f"authz-session={token}"}
    assert (await browser.get("/ui/account", headers=once)).status_code == 200

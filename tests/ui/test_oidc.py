"""Signing in at an identity provider, over real HTTP: what it must say, and what that makes somebody."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa

from authz.config import Config
from authz.model.account_writes import OrderKind
from authz.service.oidc_provider import MAX_DOCUMENT_BYTES
from tests.support.oidc_provider import CLIENT_ID, CLIENT_SECRET, Provider, running_provider
from tests.support.service import Service
from tests.ui.test_signing_in import invited, order, sign_in, sign_out
from tests.ui.visitor import ORIGIN, rules


@pytest.fixture(scope="module")
def process() -> Iterator[Provider]:
    with running_provider() as provider:
        yield provider


@pytest.fixture(scope="module")
def others() -> Iterator[Provider]:
    """Another tenant's."""
    with running_provider() as provider:
        yield provider


@pytest.fixture
async def service(tmp_path: Path, process: Provider, others: Provider) -> AsyncIterator[Service]:
    configured: Any = {
        "issuer": process.issuer,
        "client_id": CLIENT_ID,
        "client_secret": CLIENT_SECRET,
        "person_claim": "preferred_username",
        "groups": {"people": ["finance"], "elsewhere": ["staff"]},
        "roles": {"people": ["approve"], "auditors": ["audit"]},
    }
    theirs: Any = {**configured, "issuer": others.issuer}
    config = Config(
        data_dir=tmp_path,
        public_url=ORIGIN,
        tenants={"other": tmp_path},
        oidc={"default": configured, "other": theirs},
    )
    async with Service.running(tmp_path, {"default": rules(), "other": rules()}, config=config) as running:
        process.now_s = running.clock.at_ms // 1000
        yield running


@pytest.fixture
def provider(process: Provider) -> Iterator[Provider]:
    """Says what is good, until a test changes it."""
    yield process
    fresh = Provider(issuer=process.issuer, own_key=process.own_key)
    for name in ("claims", "algorithm", "key", "document", "answer", "token_status", "padding"):
        setattr(process, name, getattr(fresh, name))


@pytest.fixture
async def browser(service: Service) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(transport=service.client._transport, base_url=ORIGIN) as client:
        yield client


async def come_back(browser: httpx.AsyncClient, *, tenant: str = "default") -> httpx.Response:
    """To the provider and back, as a browser goes."""
    started = await browser.get("/ui/oidc/start", params={"tenant": tenant, "next": "/ui/history"})
    assert started.status_code == 303, started.text
    async with httpx.AsyncClient(trust_env=False) as elsewhere:
        back = await elsewhere.get(started.headers["location"])
    assert back.status_code == 303, back.text
    return await browser.get(back.headers["location"])


async def test_somebody_whom_no_bundle_knows_has_the_mapped_groups_alone(
    service: Service, browser: httpx.AsyncClient, provider: Provider
) -> None:
    page = await come_back(browser)
    assert page.status_code == 200, page.text
    assert 'content="0;url=/ui/history"' in page.text
    person = await service.application.services.people.people.session_of(browser.cookies["authz-session"])
    assert person is not None
    assert (person.person, person.groups) == ("kim", frozenset({"finance"}))
    assert person.account.roles == frozenset({"approve"})
    records = [each for each in await service.records() if each["type"].startswith(("account", "person"))]
    assert [(each["type"], each.get("change")) for each in records] == [
        ("account.changed", "from_provider"),
        ("person.signed_in", None),
    ]
    assert records[1]["groups"] == ["finance"]


async def test_the_cookies_say_how_they_may_travel(browser: httpx.AsyncClient, provider: Provider) -> None:
    started = await browser.get("/ui/oidc/start", params={"tenant": "default"})
    assert "samesite=lax" in started.headers["set-cookie"].lower()
    page = await come_back(browser)
    session = next(each for each in page.headers.get_list("set-cookie") if each.startswith("authz-session="))
    assert {"httponly", "samesite=strict", "path=/"} <= {each.strip().lower() for each in session.split(";")}


_OTHER = rsa.generate_private_key(public_exponent=65537, key_size=2048)
BAD_TOKENS: dict[str, dict[str, Any]] = {
    "issuer": {"claims": {"iss": "https://other.test"}},
    "no issuer": {"claims": {"iss": None}},
    "audience": {"claims": {"aud": "somebody-else"}},
    "two audiences without azp": {"claims": {"aud": [CLIENT_ID, "other"]}},
    "azp": {"claims": {"aud": [CLIENT_ID, "other"], "azp": "other"}},
    "over": {"claims": {"exp": 1000}},
    "no end": {"claims": {"exp": None}},
    "a text for an end": {"claims": {"exp": "never"}},
    "old": {"claims": {"iat": 1000}},
    "nonce": {"claims": {"nonce": "another"}},
    "no nonce": {"claims": {"nonce": None}},
    "no subject": {"claims": {"sub": None}},
    "another key": {"key": _OTHER},
    "a shared secret": {"key": CLIENT_SECRET * 8, "algorithm": "HS256"},
    "no signature": {"key": "", "algorithm": "none"},
    "no person": {"claims": {"preferred_username": None}},
    "a person with a space at the end": {"claims": {"preferred_username": "ada "}},
    "a person in other letters": {"claims": {"preferred_username": "\uff41da"}},
    "a person that nobody sees": {"claims": {"preferred_username": "ada\u200b"}},
    "a person that is no text": {"claims": {"preferred_username": {"__entity": "x"}}},
    "no groups": {"claims": {"groups": None}},
    "groups that are a text": {"claims": {"groups": "people"}},
    "groups without a role": {"claims": {"groups": ["elsewhere"]}},
}


@pytest.mark.parametrize("bad", BAD_TOKENS.values(), ids=BAD_TOKENS.keys())
async def test_what_does_not_hold_signs_nobody_in(
    service: Service, browser: httpx.AsyncClient, provider: Provider, bad: dict[str, Any]
) -> None:
    for name, value in bad.items():
        setattr(provider, name, value)
    page = await come_back(browser)
    assert page.status_code == 401, page.text
    assert "authz-session" not in browser.cookies
    assert (await service.records())[-1]["type"] == "person.sign_in_refused"
    assert await service.ledger.find_accounts("default") == []


@pytest.mark.parametrize(
    "document",
    [
        {"issuer": "https://other.test"},
        {"token_endpoint": "http://169.254.169.254/token"},
        {"jwks_uri": "https://keys.evil.test/jwks"},
        {"authorization_endpoint": None},
    ],
)
async def test_a_provider_leads_nowhere_but_where_it_is_configured(
    browser: httpx.AsyncClient, provider: Provider, document: dict[str, Any]
) -> None:
    provider.document = document
    started = await browser.get("/ui/oidc/start", params={"tenant": "default"})
    assert started.status_code == 401
    assert "location" not in started.headers


async def test_a_provider_that_does_not_answer_is_said_to_be_down(
    browser: httpx.AsyncClient, provider: Provider
) -> None:
    provider.token_status = 500
    page = await come_back(browser)
    assert page.status_code == 503, page.text
    assert "authz-session" not in browser.cookies


async def test_a_provider_that_says_too_much_is_not_heard_out(
    browser: httpx.AsyncClient, provider: Provider
) -> None:
    provider.padding = MAX_DOCUMENT_BYTES
    page = await come_back(browser)
    assert page.status_code == 503, page.text
    assert "authz-session" not in browser.cookies
    provider.padding = 1000
    assert (await come_back(browser)).status_code == 200


@pytest.mark.parametrize("answer", [{"error": "access_denied"}, {"code": ""}, {"iss": "https://other.test"}])
async def test_an_answer_that_is_none_signs_nobody_in(
    browser: httpx.AsyncClient, provider: Provider, answer: dict[str, str]
) -> None:
    provider.answer = answer
    assert (await come_back(browser)).status_code == 401
    assert "authz-session" not in browser.cookies


async def test_a_sign_in_is_finished_where_it_was_begun_and_once(
    service: Service, browser: httpx.AsyncClient, provider: Provider
) -> None:
    started = await browser.get("/ui/oidc/start", params={"tenant": "default"})
    async with httpx.AsyncClient(trust_env=False) as elsewhere:
        back = (await elsewhere.get(started.headers["location"])).headers["location"]
    # Somebody is sent there by an attacker, who began it (login CSRF).
    async with httpx.AsyncClient(transport=service.client._transport, base_url=ORIGIN) as victim:
        assert (await victim.get(back)).status_code == 401
        await victim.get("/ui/oidc/start", params={"tenant": "default"})
        assert (await victim.get(back)).status_code == 401
    cookie = browser.cookies["authz-oidc"]
    assert (await browser.get(back)).status_code == 200
    again = await browser.get(back, headers={"cookie": f"authz-oidc={cookie}"})
    assert again.status_code == 401


async def test_who_somebody_was_at_the_provider_stays(
    service: Service, browser: httpx.AsyncClient, provider: Provider
) -> None:
    assert (await come_back(browser)).status_code == 200
    provider.claims = {"sub": "sub-8"}
    assert (await come_back(browser)).status_code == 401  # another one who calls itself kim
    provider.claims = {"preferred_username": "ada"}
    assert (await come_back(browser)).status_code == 401  # kim, who calls itself ada
    provider.claims = {}
    await order(service, OrderKind.DISABLE, "kim")
    assert (await come_back(browser)).status_code == 401


async def test_a_lost_role_ends_the_sessions_of_before(
    service: Service, browser: httpx.AsyncClient, provider: Provider
) -> None:
    provider.claims = {"groups": ["people", "auditors"]}
    await come_back(browser)
    before = browser.cookies["authz-session"]
    provider.claims = {}
    browser.cookies.clear()
    await come_back(browser)
    people = service.application.services.people.people
    assert await people.session_of(before) is None
    now = await people.session_of(browser.cookies["authz-session"])
    assert now is not None
    assert now.account.roles == frozenset({"approve"})


async def test_another_tenants_provider_gets_no_code_of_this_one(
    service: Service, browser: httpx.AsyncClient, provider: Provider, others: Provider
) -> None:
    """Mix-up (RFC 9700, 4.4): the other provider sends its visitor on to this one, under its own state.

    Where the visitor came back to the place of both, its code went to the other provider, who could finish a
    sign-in with it that it began itself: same challenge, same nonce.
    """
    async with httpx.AsyncClient(transport=service.client._transport, base_url=ORIGIN) as attacker:
        begun = await attacker.get("/ui/oidc/start", params={"tenant": "default"})
    led_to_the_other = await browser.get("/ui/oidc/start", params={"tenant": "other"})
    theirs = httpx.URL(led_to_the_other.headers["location"]).params["state"]
    led_on = httpx.URL(begun.headers["location"]).copy_set_param("state", theirs)
    async with httpx.AsyncClient(trust_env=False) as elsewhere:
        back = (await elsewhere.get(led_on)).headers["location"]
    others.asked.clear()

    page = await browser.get(back)

    assert page.status_code == 401
    assert "token" not in others.asked
    assert httpx.URL(back).path == "/ui/oidc/callback/default"
    assert httpx.URL(led_to_the_other.headers["location"]).params["redirect_uri"].endswith("/callback/other")


async def test_whom_the_provider_turns_away_does_not_come_in_by_passkey(
    service: Service, browser: httpx.AsyncClient, provider: Provider
) -> None:
    made = await invited(service, browser, "heidi")
    await sign_out(browser)
    assert (await sign_in(browser, made)).status_code == 200
    await sign_out(browser)
    provider.claims = {"preferred_username": "heidi"}
    assert (await come_back(browser)).status_code == 200
    await sign_out(browser)
    provider.answer = {"error": "access_denied"}
    assert (await come_back(browser)).status_code == 401

    answered = await sign_in(browser, made)

    assert answered.status_code == 401
    assert "your organization" in answered.json()["message"]
    assert (await service.records())[-1]["why"] == "passkey.provider"
    assert "authz-session" not in browser.cookies


@pytest.mark.parametrize("kept", [[], ["auditors"]])
async def test_what_the_provider_takes_away_is_gone_in_the_sessions_of_before(
    service: Service, browser: httpx.AsyncClient, provider: Provider, kept: list[str]
) -> None:
    """Of its groups as of its roles: it is groups that approve. Also where nobody is let in by it."""
    provider.claims = {"groups": ["people", "elsewhere", "auditors"]}
    await come_back(browser)
    before = browser.cookies["authz-session"]
    provider.claims = {"groups": [*kept, *(["people"] if kept else ["elsewhere"])]}
    browser.cookies.clear()

    page = await come_back(browser)

    assert page.status_code == (200 if kept else 401)
    people = service.application.services.people.people
    assert await people.session_of(before) is None
    account = await service.ledger.find_account_of("default", "kim")
    assert account is not None
    assert account.roles == (frozenset({"approve", "audit"}) if kept else frozenset())
    provider.claims = {}
    assert (await come_back(browser)).status_code == 200, "what it gives back is there again"

"""What keeps other sites, strangers and other people's accounts out of the pages."""

from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import anyio
import httpx
import pytest

from authz.core.account_event import By, Change
from authz.model.account_writes import AccountPut
from tests.support.service import Service
from tests.ui.visitor import IBAN, ask, forms_of, site, visitor

pytestmark = pytest.mark.anyio
PAY = {"iban": IBAN, "amount": 5}
PAGES = ("/ui/", "/ui/history", "/ui/grants", "/ui/decisions", "/ui/delegations")


@pytest.fixture
async def service(tmp_path: Path) -> AsyncIterator[Service]:
    async with site(tmp_path) as running:
        yield running


def check_headers(answered: httpx.Response) -> None:
    """Nothing inline, nothing from elsewhere, in nobody's frame, and nowhere kept."""
    policy = answered.headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self';")
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy
    assert "base-uri 'none'" in policy
    assert "form-action 'self'" in policy
    assert answered.headers["x-frame-options"] == "DENY"
    assert answered.headers["x-content-type-options"] == "nosniff"
    assert answered.headers["referrer-policy"] == "no-referrer"
    assert answered.headers["cross-origin-opener-policy"] == "same-origin"
    assert answered.headers["cache-control"] in ("no-store", "no-cache")


async def test_every_answer_has_the_headers(service: Service) -> None:
    asked = await ask(service, "open/pay", PAY)
    auditor = await visitor(service, "grace", "approve", "audit", "policy")
    paths = [
        *PAGES,
        f"/ui/approvals/{asked}",
        f"/ui/approvals/{asked}/state",
        *("/ui/approvals/none", "/ui/none", "/ui", "/ui/static/none", "/ui/static/ui.css"),
        *("/ui/decisions?effect=none", "/ui/decisions?before=x", "/ui/traces/none", "/ui/delegations/none"),
    ]
    for path in paths:
        answered = await auditor.get(path)
        check_headers(answered)
        assert answered.status_code < 500, path
    check_headers(await auditor.client.get("/ui/"))
    check_headers(await auditor.client.put("/ui/"))


async def test_static_files_are_the_packages_own(service: Service) -> None:
    for path in ("ui.css", "confirmation.js", "inbox.js", "live.js", "passkey.js"):
        answered = await service.client.get(f"/ui/static/{path}")
        assert answered.status_code == 200
        again = await service.client.get(
            f"/ui/static/{path}", headers={"if-none-match": answered.headers["etag"]}
        )
        assert (again.status_code, again.content) == (304, b"")
    for path in ("../render.py", "..%2frender.py", "%2e%2e/templates/layout.html", "none.css", ""):
        assert (await service.client.get(f"/ui/static/{path}")).status_code == 404


async def test_no_page_holds_anything_inline_or_from_elsewhere(service: Service) -> None:
    asked = await ask(service, "open/pay", PAY)
    auditor = await visitor(service, "grace", "approve", "audit", "policy")

    for path in (*PAGES, f"/ui/approvals/{asked}"):
        page = (await auditor.get(path)).text
        assert " style=" not in page
        assert "<style" not in page
        assert " onclick" not in page
        assert page.count("<script") == page.count('<script type="module" src="/ui/static/')
        assert "//" not in "".join(part.split('"')[0] for part in page.split('src="')[1:])


async def test_whoever_is_not_signed_in_is_led_to_the_sign_in_page_and_back(service: Service) -> None:
    plain = (await visitor(service, "grace")).client

    for path in (*PAGES, "/ui/approvals/x", "/ui/decisions?agent=a&rule=b"):
        answered = await plain.get(path)
        assert answered.status_code == 303
        assert answered.headers["location"].startswith("/ui/sign-in?next=%2Fui%2F")
        assert "&rule" not in answered.headers["location"]
    posted = await plain.post("/ui/approvals/x/approve", data={"answer": "approve"})
    assert posted.status_code == 401


async def test_a_key_is_nobody_here(service: Service) -> None:
    """Whatever its roles: pages know people by their cookie alone."""
    asked = await ask(service, "open/pay", PAY)

    answered = await service.client.post(f"/ui/approvals/{asked}/approve", data={"answer": "approve"})

    assert answered.status_code == 401


@pytest.mark.parametrize("act", ["approve", "deny", "reveal", "revoke"])
async def test_a_form_of_elsewhere_changes_nothing(service: Service, act: str) -> None:
    asked = await ask(service, "open/pay", PAY)
    grace, heidi = await visitor(service, "grace"), await visitor(service, "heidi")
    page = await grace.get(f"/ui/approvals/{asked}")
    fields = next(form for form in forms_of(page.text) if form.form_id == "approve").fields
    foreign = forms_of((await heidi.get("/ui/")).text)[0].fields["csrf_token"]
    path, sent = f"/ui/approvals/{asked}/{act}", {**fields, "answer": "approve"}

    tries = [
        await grace.post(path, {name: text for name, text in sent.items() if name != "csrf_token"}),
        await grace.post(path, {**sent, "csrf_token": ""}),
        await grace.post(path, {**sent, "csrf_token": foreign}),
        await grace.post(path, sent, origin="https://evil.example"),
        await grace.post(path, sent, origin="null", **{"sec-fetch-site": "cross-site"}),
        await grace.post(path, sent, origin="http://localhost:8700.evil.example"),
        await grace.post(path, sent, **{"sec-fetch-site": "cross-site"}),
        await grace.post(path, sent, **{"sec-fetch-site": "same-site"}),
    ]

    assert {answered.status_code for answered in tries} == {403}
    for answered in tries:
        check_headers(answered)
    for kind in ("approval.approved", "approval.denied", "approval.revoked"):
        assert await service.records(type=kind) == []


async def test_forms_are_read_strictly(service: Service) -> None:
    asked = await ask(service, "open/pay", PAY)
    grace = await visitor(service, "grace")
    page = await grace.get(f"/ui/approvals/{asked}")
    path = f"/ui/approvals/{asked}/approve"
    fields = next(form for form in forms_of(page.text) if form.form_id == "approve").fields
    headers = {"cookie": grace.cookie, "origin": "http://localhost:8700"}

    as_json = await grace.client.post(path, json=fields, headers=headers)
    as_parts = await grace.client.post(path, files={"csrf_token": b"x"}, headers=headers)
    large = await grace.post(path, {**fields, "reason": "x" * 300_000})
    broken = await grace.client.post(
        path,
        content=b"csrf_token=%ff%fe",
        headers={**headers, "content-type": "application/x-www-form-urlencoded"},
    )
    strange = await grace.submit(page, "/approve", answer="approve", assertion="[1]")

    assert (as_json.status_code, as_parts.status_code, large.status_code) == (415, 415, 413)
    assert (broken.status_code, strange.status_code) == (400, 400)


async def test_roles_open_their_pages_and_no_others(service: Service) -> None:
    approver = await visitor(service, "grace", "approve")
    auditor = await visitor(service, "heidi", "audit")
    keeper = await visitor(service, "nils", "policy")
    opens = {
        "/ui/history": (200, 200, 403),
        "/ui/grants": (200, 200, 200),
        "/ui/decisions": (403, 200, 403),
        "/ui/delegations": (403, 200, 200),
        "/ui/": (200, 303, 303),
    }

    for path, expected in opens.items():
        found = [(await person.get(path)).status_code for person in (approver, auditor, keeper)]
        assert tuple(found) == expected, path
    refused = await approver.get("/ui/decisions")
    assert "your account needs the role `audit`" in refused.text.lower()
    # A menu leads nowhere that is closed.
    assert 'href="/ui/decisions"' not in refused.text


async def test_errors_tell_nothing_of_the_inside(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    grace = await visitor(service, "grace")

    async def broken(*_: object, **__: object) -> None:
        raise RuntimeError("secret internals at /srv/authz/store.py")

    monkeypatch.setattr(type(service.application.services.approvals), "search", broken)
    answered = await grace.get("/ui/")

    assert answered.status_code == 500
    assert "Something went wrong here" in answered.text
    assert "internals" not in answered.text
    assert "Traceback" not in answered.text
    check_headers(answered)


async def test_a_session_that_ended_answers_nothing_any_more(service: Service) -> None:
    asked = await ask(service, "open/pay", PAY)
    grace = await visitor(service, "grace")
    page = await grace.get(f"/ui/approvals/{asked}")

    signed_out = await grace.submit(page, "/sign-out")
    answered = await grace.submit(page, "/approve", answer="approve")

    assert signed_out.status_code == 303
    assert answered.status_code == 401
    assert await service.records(type="approval.approved") == []


async def test_whoever_is_out_before_its_form_is_there_answers_nothing(service: Service) -> None:
    asked = await ask(service, "open/pay", PAY)
    grace = await visitor(service, "grace")
    page = await grace.get(f"/ui/approvals/{asked}")
    form = next(form for form in forms_of(page.text) if form.form_id == "approve")
    body = urlencode({**form.fields, "answer": "approve"}).encode()

    async def meanwhile_disabled() -> AsyncIterator[bytes]:
        yield body[:10]
        account = await service.ledger.find_account_of("default", "grace")
        assert account is not None
        out = replace(account, disabled_at_ms=service.clock.now_ms())
        people = service.application.services.people.people
        await people.change(out, Change.DISABLED, By.OPERATOR, AccountPut(account=out))
        yield body[10:]

    answered = await grace.client.post(
        form.action,
        content=meanwhile_disabled(),
        headers={
            "cookie": grace.cookie,
            "origin": "http://localhost:8700",
            "sec-fetch-site": "same-origin",
            "content-type": "application/x-www-form-urlencoded",
        },
    )

    assert answered.status_code == 401
    assert await service.records(type="approval.approved") == []


@pytest.mark.parametrize(
    ("path", "media_type"),
    [
        ("/ui/sign-in/link", "application/x-www-form-urlencoded"),
        ("/ui/cli-session", "application/json"),
        ("/ui/passkeys/sign-in", "application/json"),
    ],
)
async def test_a_body_that_does_not_come_is_not_waited_for(
    service: Service, monkeypatch: pytest.MonkeyPatch, path: str, media_type: str
) -> None:
    """Strangers may send these: with a connection for each they could keep everybody else out."""
    monkeypatch.setattr("authz.ui.bodies.BODY_TIMEOUT_SECONDS", 0)

    async def never() -> AsyncIterator[bytes]:
        yield b"c"
        await anyio.sleep_forever()

    answered = await service.client.post(path, content=never(), headers={"content-type": media_type})

    assert answered.status_code == 408
    assert answered.headers["connection"] == "close"
    check_headers(answered)


async def test_whoever_leaves_before_its_form_is_there_is_no_fault_of_ours(service: Service) -> None:
    sent: list[Any] = []
    scope = {
        "type": "http",
        "http_version": "1.1",
        "method": "POST",
        "path": "/ui/sign-in/link",
        "raw_path": b"/ui/sign-in/link",
        "query_string": b"",
        "scheme": "http",
        "root_path": "",
        "client": ("127.0.0.1", 5),
        "server": ("localhost", 8700),
        "headers": [(b"host", b"localhost:8700"), (b"content-type", b"application/x-www-form-urlencoded")],
    }
    messages: Iterator[dict[str, Any]] = iter(
        [{"type": "http.request", "body": b"c", "more_body": True}, {"type": "http.disconnect"}]
    )

    async def receive() -> dict[str, Any]:
        return next(messages)

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    await service.application(scope, receive, send)

    assert sent[0]["status"] == 400

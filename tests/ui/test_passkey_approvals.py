"""A yes that a rule wants a passkey for: what is signed is this request as it was shown, once."""

import dataclasses
import json
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from authz.core.approval_assertion import AssertionRefused, VerifiedAssertion, verify_approval_assertion
from authz.model.account import SignedIn
from authz.model.approval_request import ApprovalRequest
from authz.service.passkey_ceremony import PasskeyRefused, Place
from authz.service.passkeys import PasskeyService
from authz.service.people import AccountChanged
from tests.support.authenticator import USER_PRESENT, SoftPasskey
from tests.support.service import Service
from tests.ui.test_signing_in import FROM_US, invited, passkey, post
from tests.ui.visitor import IBAN, ORIGIN, ask, site


@dataclasses.dataclass
class Scene:
    """One request, and one person with a passkey."""

    service: Service
    browser: httpx.AsyncClient
    made: SoftPasskey
    person: SignedIn
    request: ApprovalRequest

    @property
    def passkeys(self) -> PasskeyService:
        return self.service.application.services.people.passkeys

    async def signed(self, **flags: int) -> dict[str, Any]:
        return self.made.get(await self.passkeys.begin_approval(self.person, self.request), **flags)

    async def check(self, assertion: dict[str, Any]) -> VerifiedAssertion:
        return await self.passkeys.check_approval(self.person, self.request, assertion)


@pytest.fixture
async def scene(tmp_path: Path) -> AsyncIterator[Scene]:
    async with (
        site(tmp_path, '@factor("passkey")') as service,
        httpx.AsyncClient(transport=service.client._transport, base_url=ORIGIN) as browser,
    ):
        made = await invited(service, browser)
        people = service.application.services.people.people
        person = await people.session_of(browser.cookies["authz-session"])
        assert person is not None
        asked = await ask(service, "open/pay", {"iban": IBAN, "amount": 5})
        standing = await service.application.services.approvals.find("default", asked)
        yield Scene(service, browser, made, person, standing.request)


async def test_a_yes_with_a_passkey_by_the_page(scene: Scene) -> None:
    path = f"/ui/approvals/{scene.request.id}"
    fields = {
        "csrf_token": scene.person.csrf_token,
        "shown_digest": scene.request.shown_digest,
        "scope": "once",
        "uses": "1",
        "answer": "approve",
    }
    without = await scene.browser.post(f"{path}/approve", data=fields, headers=FROM_US)
    standing = await scene.service.application.services.approvals.find("default", scene.request.id)
    assert (standing.request.state.value, standing.votes) == ("pending", ()), without.text
    options = await post(
        scene.browser,
        "/ui/passkeys/approval/options",
        csrf_token=scene.person.csrf_token,
        approval_id=scene.request.id,
    )
    assert options.status_code == 200, options.text
    assertion = json.dumps(scene.made.get(options.json()))
    done = await scene.browser.post(
        f"{path}/approve", data={**fields, "assertion": assertion}, headers=FROM_US
    )
    assert done.status_code in (200, 303), done.text
    standing = await scene.service.application.services.approvals.find("default", scene.request.id)
    assert standing.request.state.value == "approved", re.sub(r"\s+", " ", done.text)
    assert [vote.factor.value for vote in standing.votes] == ["passkey"]


async def test_what_is_kept_can_be_checked_offline_and_only_for_what_was_shown(scene: Scene) -> None:
    kept = json.loads(json.dumps(dict((await scene.check(await scene.signed())).as_json())))
    expected = {
        "expected_approval_id": scene.request.id,
        "expected_fingerprint": scene.request.asked.fingerprint,
        "expected_shown_digest": scene.request.shown_digest,
        "expected_rp_id": "localhost",
        "expected_origin": ORIGIN,
    }
    assert isinstance(verify_approval_assertion(kept, **expected), VerifiedAssertion)
    for name, value in expected.items():
        other = {**expected, name: value + "x"}
        assert isinstance(verify_approval_assertion(kept, **other), AssertionRefused), name
    for name, held in kept.items():
        changed = _changed(held)
        # The id of a credential is no part of what it signs; whose key it is, the log says.
        if name != "credential_id":
            found = verify_approval_assertion({**kept, name: changed}, **expected)
            assert isinstance(found, AssertionRefused), name
        fewer = {key: each for key, each in kept.items() if key != name}
        assert isinstance(verify_approval_assertion(fewer, **expected), AssertionRefused), name
    assert isinstance(verify_approval_assertion({**kept, "more": 1}, **expected), AssertionRefused)


def _changed(held: Any) -> Any:
    if isinstance(held, bool):
        return not held
    return held + 1 if isinstance(held, int) else ("A" if held[0] != "A" else "B") + held[1:]


async def test_an_assertion_is_used_once(scene: Scene) -> None:
    scene.made.counts = False
    scene.made.sign_count = 0
    signed = await scene.signed()
    await scene.check(signed)
    with pytest.raises(AccountChanged):
        await scene.check(signed)
    records = await scene.service.records()
    assert [each.get("change") for each in records].count("passkey_used") == 1


async def test_it_is_over_in_five_minutes(scene: Scene) -> None:
    signed = await scene.signed()
    scene.service.clock.at_ms += 5 * 60 * 1000
    with pytest.raises(PasskeyRefused):
        await scene.check(signed)


@pytest.mark.parametrize(
    "changes",
    [
        {"id": "0" * 32},
        {"shown_digest": "sha256:" + "0" * 64},
    ],
)
async def test_it_is_for_one_request_as_it_was_shown(scene: Scene, changes: dict[str, Any]) -> None:
    signed = await scene.signed()
    scene.request = dataclasses.replace(scene.request, **changes)
    with pytest.raises(PasskeyRefused):
        await scene.check(signed)


async def test_it_is_for_one_call(scene: Scene) -> None:
    signed = await scene.signed()
    asked = dataclasses.replace(scene.request.asked, fingerprint="sha256:" + "0" * 64)
    scene.request = dataclasses.replace(scene.request, asked=asked)
    with pytest.raises(PasskeyRefused):
        await scene.check(signed)


async def test_another_session_another_passkey_and_an_unverified_user_prove_nothing(scene: Scene) -> None:
    signed = await scene.signed()
    elsewhere = dataclasses.replace(scene.person, session_id="0" * 64)
    with pytest.raises(PasskeyRefused):
        await scene.passkeys.check_approval(elsewhere, scene.request, signed)
    with pytest.raises(PasskeyRefused):
        await scene.check(await scene.signed(flags=USER_PRESENT))
    options = await scene.passkeys.begin_approval(scene.person, scene.request)
    with pytest.raises(PasskeyRefused):
        await scene.check(passkey().get(options))
    for broken in ({}, {**signed, "response": None}, {**signed, "response": {}}, {**signed, "nonce": 7}):
        with pytest.raises(PasskeyRefused):
            await scene.check(broken)


async def test_a_session_of_the_command_line_signs_nothing(scene: Scene) -> None:
    scene.person = dataclasses.replace(scene.person, bearer=True)
    with pytest.raises(Exception, match="passkeys are of a browser"):
        await scene.signed()


@pytest.mark.parametrize(
    ("public_url", "rp_id"),
    [
        ("http://localhost:8700", "localhost"),
        ("https://authz.example.test", "authz.example.test"),
        ("https://authz.example.test:8443", "authz.example.test"),
        ("http://127.0.0.1:8700", None),
        ("https://10.0.0.1", None),
        ("https://[::1]:8700", None),
        ("http://authz.example.test", None),
    ],
)
def test_passkeys_are_where_browsers_have_them(public_url: str, rp_id: str | None) -> None:
    place = Place.of(public_url)
    assert (None if place is None else place.rp_id) == rp_id
    assert place is None or place.origin == public_url

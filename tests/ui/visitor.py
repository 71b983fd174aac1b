"""People who look at pages: the real service, its session cookie, and forms as a page has them.

async with site(tmp_path) as service:
    asked = await ask(service, "open/pay", {"iban": IBAN, "amount": 5})
    grace = await visitor(service, "grace")
    page = await grace.get(f"/ui/approvals/{asked}")
    answered = await grace.submit(page, "approve", answer="approve")
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, Final

import httpx

from authz.config import Config
from authz.core.account_event import By, Change
from authz.core.ruleset import Ruleset
from authz.model.account import Account, SignInMethod
from authz.model.account_writes import AccountPut
from tests.deception.bundle import TOOLS
from tests.support.service import Service
from tests.support.world import world

ORIGIN: Final = "http://localhost:8700"
IBAN: Final = "DE02120300000000202051"
ENTITIES: Final = """\
groups:
  staff: {}
  finance: {groups: [staff]}
users:
  ada: {groups: [finance]}
  grace: {groups: [finance]}
  heidi: {groups: [finance]}
  nils: {groups: [staff]}
agents:
  coder-1: {}
"""
PERMITS: Final = """\
@id("everything") permit (principal, action, resource);
@id("approving") permit (principal in Group::"staff", action in Action::"approve", resource);
"""


def asking(terms: str = "", *, reason: str = "Money leaves the house.") -> str:
    """Rules of which one asks finance about every call; `terms` are further annotations."""
    return (
        f'{PERMITS}@id("asks") @reason("{reason}") @requires("approval") '
        f'@approvers("Group::\\"finance\\"") {terms} '
        "forbid (principal, action, resource);\n"
    )


@cache
def rules(terms: str = "", reason: str = "Money leaves the house.") -> Ruleset:
    """Tools that are described loosely, under a rule that asks about all of them."""
    return world(asking(terms, reason=reason), tools={"open": TOOLS}, entities=ENTITIES)


@asynccontextmanager
async def site(folder: Path, terms: str = "", **settings: Any) -> AsyncIterator[Service]:
    """The service with two tenants under the same rules."""
    rulesets = {"default": rules(terms), "other": rules(terms)}
    config = Config(data_dir=folder, public_url=ORIGIN, tenants={"other": folder}, **settings)
    async with Service.running(folder, rulesets, config=config) as service:
        yield service


async def ask(service: Service, tool: str, arguments: dict[str, Any], **more: Any) -> str:
    """The id of the request that the call makes. Fails where it makes none."""
    said = await service.decide(service.body(tool, arguments, **more))
    assert said["effect"] == "require_approval", said
    return str(said["approval"]["id"])


@dataclass
class Visitor:
    """The browser of one person, without script."""

    client: httpx.AsyncClient
    cookie: str

    async def get(self, path: str, **headers: str) -> httpx.Response:
        return await self.client.get(path, headers={"cookie": self.cookie, **headers})

    async def post(self, path: str, fields: dict[str, Any], **headers: str) -> httpx.Response:
        sent = {"cookie": self.cookie, "origin": ORIGIN, "sec-fetch-site": "same-origin", **headers}
        return await self.client.post(path, data=fields, headers=sent)

    async def submit(self, page: httpx.Response, action: str, **fields: Any) -> httpx.Response:
        """Post the form of the page whose address ends in `action`, as it stands but for `fields`."""
        form = next(form for form in forms_of(page.text) if form.action.endswith(action))
        return await self.post(form.action, {**form.fields, **fields})


async def visitor(
    service: Service, person: str, *roles: str, tenant: str = "default", groups: frozenset[str] = frozenset()
) -> Visitor:
    """Somebody with an account of these roles, or else of `approve`, signed in."""
    people = service.application.services.people.people
    account = Account(
        account_id=f"account-{tenant}-{person}",
        tenant=tenant,
        person=person,
        display_name=person.title(),
        roles=frozenset(roles or ("approve",)),
        created_at_ms=service.clock.now_ms(),
    )
    stored = await service.ledger.find_account(tenant, account.account_id)
    if stored is None:
        await people.change(account, Change.INVITED, By.OPERATOR, AccountPut(account=account))
        stored = await service.ledger.find_account(tenant, account.account_id)
    assert stored is not None
    opened = await people.open_session(stored, SignInMethod.PASSKEY, groups=groups)
    plain = httpx.AsyncClient(
        transport=service.client._transport,
        base_url=ORIGIN,
    )
    return Visitor(client=plain, cookie=f"authz-session={opened.token}")


@dataclass
class Form:
    """A form as a browser without script would send it."""

    action: str
    method: str
    form_id: str = ""
    fields: dict[str, Any] = field(default_factory=dict)
    buttons: list[dict[str, str]] = field(default_factory=list)


class _Forms(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.forms: list[Form] = []
        self.apart: list[tuple[str, dict[str, str]]] = []
        self._open: Form | None = None
        self._area = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        known = {name: value or "" for name, value in attrs}
        if tag == "form":
            self._open = Form(
                action=known.get("action", ""),
                method=known.get("method", "get"),
                form_id=known.get("id", ""),
            )
            self.forms.append(self._open)
        elif tag in ("input", "button", "textarea") and "form" in known:
            self.apart.append((tag, known))
        elif self._open is not None and tag == "textarea":
            self._area = known["name"]
            self._open.fields[self._area] = ""
        elif self._open is not None:
            take(self._open, tag, known)

    def handle_data(self, data: str) -> None:
        if self._area and self._open is not None:
            self._open.fields[self._area] += data

    def handle_endtag(self, tag: str) -> None:
        self._area = "" if tag == "textarea" else self._area
        self._open = None if tag == "form" else self._open


def take(form: Form, tag: str, known: dict[str, str]) -> None:
    """Add one control to its form, if it would be sent."""
    if tag == "button":
        form.buttons.append(known)
    elif tag == "input" and "name" in known:
        if known.get("type") in ("radio", "checkbox") and "checked" not in known:
            return
        form.fields[known["name"]] = known.get("value", "")


def forms_of(markup: str) -> list[Form]:
    """Every form of a page, with the controls elsewhere that say they are its."""
    page = _Forms()
    page.feed(markup)
    page.close()
    for tag, known in page.apart:
        for form in page.forms:
            if form.form_id == known["form"]:
                take(form, tag, known)
    return page.forms

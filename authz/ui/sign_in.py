"""Signing in and out: the sign-in page, one-time links, identity providers, the command line's sessions."""

from typing import Annotated, Final
from urllib.parse import urlsplit

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import RedirectResponse

from authz.core.cedar_context import rfc3339
from authz.errors import Forbidden, Unauthenticated
from authz.model.account_writes import LinkKind
from authz.service.oidc_provider import OidcRefused, OidcUnavailable
from authz.service.people import BEARER_PREFIX, Opened
from authz.ui.access import posted
from authz.ui.error_pages import error_page
from authz.ui.forms import form_of
from authz.ui.json_bodies import answer, for_scripts, json_of, text_of
from authz.ui.render import render
from authz.ui.services import services_of
from authz.ui.session import (
    OIDC,
    OIDC_SECONDS,
    SESSION,
    VISITOR,
    VISITOR_SECONDS,
    check_origin,
    drop_cookie,
    find_person,
    read_cookie,
    safe_next,
    set_cookie,
)

router = APIRouter()
Text = Annotated[str, Query(max_length=4000)]
Next = Annotated[str, Query(alias="next", max_length=4000)]
_LOOPBACK: Final = frozenset({"127.0.0.1", "[::1]"})


@router.get("/ui/sign-in")
async def sign_in_page(request: Request, wanted: Next = "") -> Response:
    """How one may sign in."""
    wanted = safe_next(wanted)
    if (elsewhere := _at_its_own_name(request)) is not None:
        return elsewhere
    if await find_person(request) is not None:
        return RedirectResponse(wanted, 303)
    if request.headers.get("sec-fetch-site") == "cross-site":
        # From a link elsewhere the browser leaves the cookie out; from our own page it sends it.
        return render("sign_in_continue.html", to=wanted)
    visitor = _visitor(request)
    page = render(
        "sign_in.html",
        csrf_token=services_of(request).sign_in.visitor_token(visitor),
        next=wanted,
        providers=services_of(request).oidc.tenants,
        has_passkeys=services_of(request).passkeys.is_possible,
    )
    set_cookie(request, page, VISITOR, visitor, seconds=VISITOR_SECONDS)
    return page


@router.get("/ui/sign-in/link")
async def link_page(request: Request, token: Text = "") -> Response:
    """What a one-time link is for. It stays good: programs open links, and only its button uses it up."""
    services_of(request).sign_in.check_rate(address_of(request))
    if (elsewhere := _at_its_own_name(request)) is not None:
        return elsewhere
    found = await services_of(request).sign_in.look_at_link(token)
    visitor = _visitor(request)
    page = render(
        "sign_in_link.html",
        csrf_token=services_of(request).sign_in.visitor_token(visitor),
        token=token,
        account=found.account,
        is_invitation=found.link.kind is LinkKind.INVITATION,
        has_passkeys=services_of(request).passkeys.is_possible,
    )
    set_cookie(request, page, VISITOR, visitor, seconds=VISITOR_SECONDS)
    return page


@router.post("/ui/sign-in/link")
async def use_link(request: Request) -> Response:
    """Sign in by a link of a dev run."""
    services_of(request).sign_in.check_rate(address_of(request))
    form = await form_of(request)
    check_visitor(request, form.get("csrf_token", ""))
    opened = await services_of(request).sign_in.sign_in_by_link(form.get("token", ""))
    response = RedirectResponse(safe_next(form.get("next", "")), 303)
    await begin_session(request, response, opened)
    return response


@router.post("/ui/sign-out")
async def sign_out(request: Request) -> Response:
    """End this session."""
    person, _ = await posted(request)
    await services_of(request).people.sign_out(person)
    response = RedirectResponse("/ui/sign-in", 303)
    drop_cookie(request, response, SESSION)
    return response


@router.get("/ui/oidc/start")
async def start_oidc(request: Request, tenant: Text = "", wanted: Next = "") -> Response:
    """To the tenant's identity provider. Nothing changes here but a cookie of this browser."""
    services_of(request).sign_in.check_rate(address_of(request))
    try:
        begun = await services_of(request).oidc.begin(tenant, safe_next(wanted))
    except OidcUnavailable as fault:
        return error_page(request, 503, fault.message)
    response = RedirectResponse(begun.url, 303)
    # The answer comes from another site, to which a strict cookie would not be sent.
    set_cookie(request, response, OIDC, begun.cookie, seconds=OIDC_SECONDS, same_site="lax")
    return response


@router.get("/ui/oidc/callback/{tenant}")
async def finish_oidc(request: Request, tenant: str) -> Response:
    """What the identity provider sends the browser back with."""
    services_of(request).sign_in.check_rate(address_of(request))
    answered = dict(request.query_params)
    if len(answered) != len(request.query_params.multi_items()):
        raise OidcRefused("the answer of the identity provider says something twice")
    try:
        finished = await services_of(request).oidc.finish(tenant, read_cookie(request, OIDC) or "", answered)
    except OidcUnavailable as fault:
        return error_page(request, 503, fault.message)
    # A page of ours and no redirect: a browser that comes from elsewhere leaves the new cookie out.
    page = render("sign_in_continue.html", to=safe_next(finished.next_path))
    drop_cookie(request, page, OIDC)
    await begin_session(request, page, finished.opened)
    return page


@router.post("/ui/cli-session")
@for_scripts
async def open_cli_session(request: Request) -> Response:
    """A token for `authz` on the command line, for a code of the account page. It carries no cookie."""
    services_of(request).sign_in.check_rate(address_of(request))
    opened = await services_of(request).sign_in.sign_in_by_code(text_of(await json_of(request), "code"))
    return answer(
        {
            "token": opened.token,
            "person": opened.account.person,
            "tenant": opened.account.tenant,
            "expires_at": rfc3339(opened.expires_at_ms),
        }
    )


@router.delete("/ui/cli-session")
@for_scripts
async def end_cli_session(request: Request) -> Response:
    """End the session whose token comes as `Authorization: Bearer`."""
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    person = None
    if scheme.lower() == "bearer" and token.strip().startswith(BEARER_PREFIX):
        person = await services_of(request).people.session_of(token.strip())
    if person is None:
        raise Unauthenticated("that session is unknown or over")
    await services_of(request).people.sign_out(person)
    return Response(status_code=204)


async def begin_session(request: Request, response: Response, opened: Opened) -> None:
    """Give this browser the new session, under a new token; what it had before ends."""
    before = await find_person(request)
    if before is not None:
        await services_of(request).people.sign_out(before)
    drop_cookie(request, response, VISITOR)
    now_ms = services_of(request).clock.now_ms()
    set_cookie(request, response, SESSION, opened.token, seconds=(opened.expires_at_ms - now_ms) // 1000)


def check_visitor(request: Request, presented: str) -> None:
    """Raise `Forbidden` unless one of our pages in this very browser sends this (login CSRF)."""
    check_origin(request)
    services_of(request).sign_in.check_visitor(read_cookie(request, VISITOR) or "", presented)


def visitor_of(request: Request) -> str:
    """The id of this browser, which `check_visitor` has found to be one. Raises `Forbidden`."""
    visitor = read_cookie(request, VISITOR)
    if visitor is None:
        raise Forbidden("load the page again", code="csrf.refused")
    return visitor


def address_of(request: Request) -> str:
    """Of the client, as the connection has it, or one of the configured `trusted_proxies` says."""
    return request.client.host if request.client is not None else ""


def _visitor(request: Request) -> str:
    """The id of this browser: the one that it has, or a new one."""
    return read_cookie(request, VISITOR) or services_of(request).sign_in.new_visitor()


def _at_its_own_name(request: Request) -> Response | None:
    """To `localhost` from the address of this machine: there are no passkeys at an address."""
    own = urlsplit(services_of(request).public_url)
    here = request.url
    spelled = f"[{here.hostname}]" if ":" in (here.hostname or "") else here.hostname
    if own.hostname != "localhost" or spelled not in _LOOPBACK:
        return None
    query = f"?{here.query}" if here.query else ""
    return RedirectResponse(f"{own.scheme}://{own.netloc}{here.path}{query}", 303)

"""A person's own account: passkeys, and signing in on the command line."""

from fastapi import APIRouter, Request, Response

from authz.model.account import SignedIn
from authz.ui.access import posted
from authz.ui.render import render
from authz.ui.services import services_of
from authz.ui.session import signed_in

router = APIRouter(prefix="/ui/account")


@router.get("")
async def account_page(request: Request) -> Response:
    """What is on record of whoever is signed in."""
    return await _page(request, await signed_in(request))


@router.post("/code")
async def new_code(request: Request) -> Response:
    """A one-time code for `authz sign-in`. Shown now or never, so the page comes without a redirect."""
    person, _ = await posted(request)
    return await _page(request, person, code=await services_of(request).sign_in.new_code(person))


async def _page(request: Request, person: SignedIn, code: str = "") -> Response:
    services = services_of(request)
    return render(
        "account.html",
        person=person,
        here="/ui/account",
        passkeys=await services.passkeys.passkeys_of(person),
        has_passkeys=services.passkeys.is_possible,
        code=code,
        public_url=services.public_url,
    )

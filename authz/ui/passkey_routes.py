"""What `passkey.js` asks for: options for the browser's ceremonies, and their answers."""

from fastapi import APIRouter, Request, Response
from fastapi.responses import RedirectResponse

from authz.model.account import SignedIn
from authz.service.people import Opened
from authz.ui.access import posted
from authz.ui.json_bodies import answer, for_scripts, json_of, object_of, text_of
from authz.ui.services import services_of
from authz.ui.session import check_origin, safe_next, signed_in
from authz.ui.sign_in import address_of, begin_session, check_visitor, visitor_of

router = APIRouter(prefix="/ui/passkeys")


@router.post("/sign-in/options")
@for_scripts
async def sign_in_options(request: Request) -> Response:
    """Whoever asks gets the same: nobody is named."""
    services_of(request).sign_in.check_rate(address_of(request))
    check_visitor(request, text_of(await json_of(request), "csrf_token"))
    return answer(await services_of(request).passkeys.begin_sign_in(visitor_of(request)))


@router.post("/sign-in")
@for_scripts
async def sign_in(request: Request) -> Response:
    """Sign in with a passkey."""
    services_of(request).sign_in.check_rate(address_of(request))
    body = await json_of(request)
    check_visitor(request, text_of(body, "csrf_token"))
    opened = await services_of(request).passkeys.sign_in(visitor_of(request), object_of(body, "credential"))
    return await _went_in(request, opened, text_of(body, "next", default=""))


@router.post("/invitation/options")
@for_scripts
async def invitation_options(request: Request) -> Response:
    """For the first passkey of somebody who was invited."""
    services_of(request).sign_in.check_rate(address_of(request))
    body = await json_of(request)
    check_visitor(request, text_of(body, "csrf_token"))
    return answer(await services_of(request).passkeys.begin_invited(text_of(body, "token")))


@router.post("/invitation")
@for_scripts
async def use_invitation(request: Request) -> Response:
    """Use an invitation up: with it comes a passkey, and a session."""
    services_of(request).sign_in.check_rate(address_of(request))
    body = await json_of(request)
    check_visitor(request, text_of(body, "csrf_token"))
    opened = await services_of(request).passkeys.register_invited(
        text_of(body, "token"), object_of(body, "credential"), text_of(body, "label", default="")
    )
    return await _went_in(request, opened, "/ui/account")


@router.post("/register/options")
@for_scripts
async def register_options(request: Request) -> Response:
    """For another passkey."""
    person, _ = await _person(request)
    return answer(await services_of(request).passkeys.begin_registration(person))


@router.post("/register")
@for_scripts
async def register(request: Request) -> Response:
    """Add it."""
    person, body = await _person(request)
    label = text_of(body, "label", default="")
    await services_of(request).passkeys.register(person, object_of(body, "credential"), label)
    return answer({"location": "/ui/account"})


@router.post("/approval/options")
@for_scripts
async def approval_options(request: Request) -> Response:
    """For signing for one request, as its page shows it."""
    person, body = await _person(request)
    services = services_of(request)
    standing = await services.approvals.find(person.tenant, text_of(body, "approval_id"))
    return answer(await services.passkeys.begin_approval(person, standing.request))


@router.post("/remove")
async def remove(request: Request) -> Response:
    """Take a passkey away. By a form of the account page."""
    person, form = await posted(request)
    await services_of(request).passkeys.remove(person, form.get("credential_id", ""))
    return RedirectResponse("/ui/account", 303)


async def _person(request: Request) -> "tuple[SignedIn, dict[str, object]]":
    """Who is signed in, and what one of our pages of that session posts."""
    await signed_in(request)
    body = dict(await json_of(request))
    # A body can take long to come: whose session it is counts now.
    person = await signed_in(request)
    check_origin(request)
    services_of(request).people.check_csrf(person, text_of(body, "csrf_token"))
    return person, body


async def _went_in(request: Request, opened: Opened, wanted: str) -> Response:
    response = answer({"location": safe_next(wanted)})
    await begin_session(request, response, opened)
    return response

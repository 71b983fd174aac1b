"""Who may see which page, and post its forms."""

from fastapi import Request

from authz.errors import Forbidden
from authz.model.account import SignedIn
from authz.ui.forms import Form, form_of
from authz.ui.session import check_csrf, signed_in


async def member(request: Request, *roles: str) -> SignedIn:
    """Who is signed in, with one of `roles` at least; without any named, whoever it is.

    Raises `Unauthenticated`, which leads to the sign-in page, or `Forbidden`.
    """
    person = await signed_in(request)
    request.state.person = person
    if roles and person.account.roles.isdisjoint(roles):
        named = " or ".join(f"`{role}`" for role in roles)
        raise Forbidden(f"your account needs the role {named} for this", code="caller.role_missing")
    return person


async def posted(request: Request, *roles: str) -> tuple[SignedIn, Form]:
    """Who posts a form of one of our own pages, with one of `roles` as above, and the form.

    A body can take long to come: whose session it is counts when all of it is there, and before, so that
    nothing is read of a stranger's.
    """
    await member(request, *roles)
    form = await form_of(request)
    person = await member(request, *roles)
    check_csrf(request, form, person)
    return person, form

"""Who is signed in, and whether a form came from one of our own pages.

The session's cookie is `SameSite=Strict`: no page elsewhere can make a browser send it. A form besides
carries the token of its session, and a browser says where it comes from.
"""

import re
from typing import Final, Literal
from urllib.parse import urlsplit

from fastapi import Request, Response

from authz.errors import Forbidden, Unauthenticated
from authz.model.account import SignedIn
from authz.service.people import BROWSER_PREFIX
from authz.ui.forms import Form
from authz.ui.services import services_of

SESSION: Final = "authz-session"
VISITOR: Final = "authz-visitor"
"""Of a browser that is not signed in: what its sign-in forms and challenges are bound to."""
OIDC: Final = "authz-oidc"
VISITOR_SECONDS: Final = 3600
OIDC_SECONDS: Final = 600
START: Final = "/ui/"
_LOCAL: Final = re.compile(r"/ui/[A-Za-z0-9_~.%/-]*(\?[A-Za-z0-9_~.%&=:+,/-]*)?")
_NEVER_NEXT: Final = ("/ui/sign-", "/ui/oidc/", "/ui/cli-session", "/ui/passkeys/", "/ui/static/")
MAX_NEXT: Final = 2000


async def signed_in(request: Request) -> SignedIn:
    """The person whose browser this is. Raises `Unauthenticated`, which leads a page to the sign-in page."""
    person = await find_person(request)
    if person is None:
        raise Unauthenticated("sign in first")
    return person


async def find_person(request: Request) -> SignedIn | None:
    """The same, or `None`. Of a session of the command line no cookie is one.

    A page that is left open asks for things by itself, and browsers say so: by that nobody stays signed in.
    """
    token = read_cookie(request, SESSION)
    if token is None or not token.startswith(BROWSER_PREFIX):
        return None
    by_itself = request.method == "GET" and request.headers.get("sec-fetch-dest", "document") != "document"
    return await services_of(request).people.session_of(token, in_use=not by_itself)


def check_csrf(request: Request, form: Form, person: SignedIn) -> None:
    """Raise `Forbidden` (`csrf.refused`) unless one of our pages of this very session posted the form."""
    check_origin(request)
    services_of(request).people.check_csrf(person, form.get("csrf_token", ""))


def check_origin(request: Request) -> None:
    """Raise `Forbidden` (`csrf.refused`) where the browser says that another site sends this.

    Under our `Referrer-Policy` the origin of a form is told as `null`, as a page elsewhere could have it,
    too; `Sec-Fetch-Site`, which no page can set, then says which it is. A client that says nothing of either
    is no browser of today; the token has to come with the form all the same.
    """
    origin, site = request.headers.get("origin"), request.headers.get("sec-fetch-site")
    expected = services_of(request).public_url
    parts = urlsplit(expected)
    hidden = origin == "null" and site == "same-origin"
    foreign = origin not in (None, f"{parts.scheme}://{parts.netloc}") and not hidden
    if foreign or site not in (None, "same-origin"):
        raise Forbidden(
            f"this was not sent by a page of this service, so nothing was done; it is at {expected}",
            code="csrf.refused",
        )


def safe_next(wanted: str) -> str:
    """Where to go after signing in: a page of ours that may be asked for, else the first one.

    Never another host, however a browser would read it: only plain paths beneath `/ui/` are taken.
    """
    fits = len(wanted) <= MAX_NEXT and _LOCAL.fullmatch(wanted) is not None
    path = wanted.partition("?")[0]
    # Browsers resolve dots, plain and encoded, before they ask.
    dotted = "/." in path.lower().replace("%2e", ".").replace("%2f", "/") or "//" in path
    if not fits or dotted or path.startswith(_NEVER_NEXT):
        return START
    return wanted


def read_cookie(request: Request, name: str) -> str | None:
    """Its value, if it came once: a second one of that name somebody else has set."""
    wanted = cookie_name(request, name)
    values = [
        value
        for header in request.headers.getlist("cookie")
        for found, _, value in (part.strip().partition("=") for part in header.split(";"))
        if found == wanted
    ]
    return values[0] if len(values) == 1 and values[0] else None


def set_cookie(
    request: Request,
    response: Response,
    name: str,
    value: str,
    *,
    seconds: int,
    same_site: Literal["strict", "lax"] = "strict",
) -> None:
    """Only for this host, all of its paths, and never for scripts."""
    response.set_cookie(
        cookie_name(request, name),
        value,
        max_age=seconds,
        path="/",
        secure=_is_https(request),
        httponly=True,
        samesite=same_site,
    )


def drop_cookie(request: Request, response: Response, name: str) -> None:
    """Have the browser forget it."""
    response.delete_cookie(
        cookie_name(request, name), path="/", secure=_is_https(request), httponly=True, samesite="strict"
    )


def cookie_name(request: Request, name: str) -> str:
    """With TLS the prefix by which browsers let no other host set it (RFC 6265bis, 4.1.3.2)."""
    return f"__Host-{name}" if _is_https(request) else name


def _is_https(request: Request) -> bool:
    return services_of(request).public_url.startswith("https://")

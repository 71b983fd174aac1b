"""Signing in to a running `authz serve --dev` as a browser would, and from there on the command line."""

import re
from typing import Final

import httpx

from tests.support.server import RunningServer

_LINK: Final = re.compile(r"http://\S+/ui/sign-in/link\?token=\S+")
_CSRF: Final = re.compile(r'name="csrf_token" value="([^"]+)"')
_CODE: Final = re.compile(r"--code ([^<\s]+)")


def command_line_code(server: RunningServer, link: str | None = None) -> str:
    """The one-time code of the account page, after signing in by `link`: by default the one that was printed.

    The printed one is good once for each start of the server.
    """
    link = link or _LINK.findall(server.printed())[-1]
    with httpx.Client(base_url=f"http://localhost:{server.port}", timeout=30, trust_env=False) as browser:
        page = browser.get(link).text
        token = httpx.URL(link).params["token"]
        signed_in = browser.post(
            "/ui/sign-in/link",
            data={"csrf_token": _found(_CSRF, page), "token": token, "next": "/ui/account"},
        )
        assert signed_in.status_code == httpx.codes.SEE_OTHER, signed_in.text
        account = browser.get("/ui/account").text
        shown = browser.post("/ui/account/code", data={"csrf_token": _found(_CSRF, account)})
        return _found(_CODE, shown.text)


def _found(pattern: re.Pattern[str], text: str) -> str:
    found = pattern.search(text)
    assert found is not None, text
    return found[1]

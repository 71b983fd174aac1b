"""A server whose rules ask about everything, calls that it asks about, and people who sign in to answer."""

import itertools
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from playwright.sync_api import Browser, BrowserContext, Page, expect

from tests.browser.conftest import WAIT_MS, new_sign_in_link
from tests.deception.bundle import TOOLS
from tests.support.bundles import write_bundle
from tests.support.server import RunningServer
from tests.ui.visitor import ENTITIES, asking

PAY: Final = {"iban": "DE02120300000000202051", "amount": 12000, "note": "Invoice 2291, as agreed."}
PAY_SAID: Final = {
    "/iban": {"source": "web", "uri": "https://invoices.example.net/2291"},
    "/amount": {"source": "user"},
    "/note": {"source": "user"},
}
WRITE: Final = {"path": "/workspace/a.py", "content": "print(1)\n"}
_CALLS: Final = itertools.count(1)
expect.set_options(timeout=WAIT_MS)


@contextmanager
def asking_server(folder: Path, terms: str = "", **env: str) -> Iterator[RunningServer]:
    """`authz serve --dev` over a bundle that asks about everything, under these `terms`."""
    bundle = write_bundle(folder / "bundle", rules=asking(terms), tools={"open": TOOLS}, entities=ENTITIES)
    with RunningServer(bundle=bundle, data_dir=folder / "data", env=env) as server:
        yield server


def call(tool: str, arguments: dict[str, Any], **more: Any) -> dict[str, Any]:
    """The body of a call under new ids."""
    server, _, name = tool.partition("/")
    return {
        "subject": {"agent": "coder-1", "on_behalf_of": "ada", "session": "s-1"},
        "tool": {"server": server, "name": name},
        "arguments": arguments,
        "context": {
            "trace_id": "t-1",
            "turn_id": "1",
            "tool_call_id": f"call-{next(_CALLS)}",
            "cwd": "/workspace",
            "sandbox_root": "/workspace",
        },
        **more,
    }


def decide(server: RunningServer, body: dict[str, Any]) -> dict[str, Any]:
    """The answer to a call. Fails on anything but HTTP 200."""
    with server.client() as client:
        answered = client.post("/decide", json=body)
    assert answered.status_code == 200, answered.text
    said: dict[str, Any] = answered.json()
    return said


def ask(server: RunningServer, tool: str, arguments: dict[str, Any], **more: Any) -> str:
    """The id of the request that a new call makes. Fails where it makes none."""
    said = decide(server, call(tool, arguments, **more))
    assert said["effect"] == "require_approval", said
    return str(said["approval"]["id"])


def records(server: RunningServer, kind: str) -> list[dict[str, Any]]:
    """Records of that type."""
    with server.client() as client:
        answered = client.get("/decisions", params={"type": kind})
    assert answered.status_code == 200, answered.text
    return [one["record"] for one in answered.json()["records"]]


def answered(server: RunningServer, approval_id: str, kind: str) -> int:
    """How many records of that type there are of that request."""
    return sum(one["approval"]["id"] == approval_id for one in records(server, kind))


@contextmanager
def browsing(
    browser: Browser, server: RunningServer, person: str = "grace", *, tenant: str = "default", **how: Any
) -> Iterator[BrowserContext]:
    """A browser profile of its own in which that person is signed in."""
    made = {"viewport": {"width": 1280, "height": 900}, **how}
    context = browser.new_context(base_url=f"http://localhost:{server.port}", **made)
    context.set_default_timeout(WAIT_MS)
    try:
        enter(context.new_page(), server, person, tenant).close()
        yield context
    finally:
        context.close()


def enter(page: Page, server: RunningServer, person: str = "grace", tenant: str = "default") -> Page:
    """Sign in with a link of the dev server."""
    page.goto(new_sign_in_link(server, person, *(["--tenant", tenant] if tenant != "default" else [])))
    page.get_by_role("button", name=re.compile("Sign in")).click()
    page.wait_for_url(re.compile(r"/ui/(?!sign-in)"))
    return page

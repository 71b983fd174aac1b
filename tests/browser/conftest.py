"""A real chromium, a real `authz serve --dev`, and pictures of what they show.

The browser is of the package and not of the whole run: while it is open its event loop stands in this thread,
and tests of other packages start loops of their own.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright

from tests.support.server import RunningServer

ROOT: Final = Path(__file__).resolve().parents[2]
SCREENSHOTS: Final = Path(__file__).parent / "screenshots"
WAIT_MS: Final = 20_000
"""A loaded machine is slow, not broken."""
_LINK: Final = re.compile(r"http://localhost:\d+/ui/sign-in/link\?token=\S+")
Shot = Callable[[Page, str], Path]


def _chromium() -> str:
    """Where the system's chromium is; without one the test is skipped, and the run says so at its end."""
    named = os.environ.get("CHROMIUM") or "/usr/bin/chromium"
    found = shutil.which(named) or shutil.which("chromium")
    if found is None:
        pytest.skip("there is no chromium (Debian: `apt-get install chromium`)")
    return found


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    """One headless browser for all tests here."""
    path = _chromium()
    with sync_playwright() as playwright:
        # Without a sandbox of its own, since root, as in a container, cannot have one.
        started = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield started
        started.close()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """`authz serve --dev` over the sample bundle on a free port, one for each module."""
    data_dir = tmp_path_factory.mktemp("browser") / "data"
    with RunningServer(bundle=ROOT / "policies", data_dir=data_dir) as running:
        yield running


@pytest.fixture(scope="module")
def site(server: RunningServer) -> str:
    """Where a person finds it, without a final slash. By name: passkeys refuse an address."""
    return f"http://localhost:{server.port}"


@pytest.fixture
def context(browser: Browser, site: str) -> Iterator[BrowserContext]:
    """A browser profile without cookies. Closed at the end."""
    opened = browser.new_context(base_url=site, viewport={"width": 1280, "height": 900})
    opened.set_default_timeout(WAIT_MS)
    yield opened
    opened.close()


@pytest.fixture
def page(context: BrowserContext) -> Iterator[Page]:
    """An empty page. A test fails when the page's own scripts, or its content policy, do."""
    opened = context.new_page()
    faults: list[str] = []
    opened.on("pageerror", lambda error: faults.append(str(error)))
    opened.on(
        "console",
        lambda message: (
            faults.append(message.text)
            if message.type == "error" and "Content Security Policy" in message.text
            else None
        ),
    )
    yield opened
    assert faults == []


@pytest.fixture(scope="session")
def shot() -> Shot:
    """`shot(page, name)` writes a picture of the whole page; Git does not know of them."""
    SCREENSHOTS.mkdir(exist_ok=True)

    def take(page: Page, name: str) -> Path:
        path = SCREENSHOTS / f"{name}.png"
        page.screenshot(path=path, full_page=True)
        return path

    return take


@pytest.fixture
def signed_in(page: Page, server: RunningServer) -> Page:
    """A page whose browser the local approver is signed in with, by a link of the dev server.

    Each link is good for once, so a new one is asked for on the command line.
    """
    page.goto(new_sign_in_link(server))
    page.get_by_role("button", name=re.compile("Sign in")).click()
    page.wait_for_url(re.compile(r"/ui/(?!sign-in)"))
    return page


def printed_link(server: RunningServer) -> str:
    """The one-time sign-in link that the server printed at its last start."""
    found = _LINK.findall(server.output.read_text(encoding="utf-8"))
    assert found, f"the server printed no sign-in link:\n{server.printed()}"
    return str(found[-1])


def new_sign_in_link(server: RunningServer, person: str = "grace", *options: str) -> str:
    """A fresh one by `authz people sign-in-link`."""
    done = run_authz(server, "people", "sign-in-link", person, *options)
    found = _LINK.findall(done)
    assert found, done
    return str(found[-1])


def run_authz(server: RunningServer, *words: str) -> str:
    """A command over the server's data. Its standard output; fails when the command does."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("AUTHZ_")}
    environment |= {
        "AUTHZ_PORT": str(server.port),
        "AUTHZ_DATA_DIR": str(server.data_dir),
        "AUTHZ_POLICIES": str(server.bundle),
    }
    done = subprocess.run(
        [sys.executable, "-m", "authz", *words], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout

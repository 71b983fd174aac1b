"""The same sources in chromium, over its own `fetch` and WebCrypto."""

import json
import os
import shutil
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

import pytest
from authz_client.capabilities import request_digest
from playwright.sync_api import Page, sync_playwright

from tests.clients.python.deciding import body_of
from tests.clients.typescript.noding import PACKAGE

pytestmark = pytest.mark.browser

GOLDEN: Final = PACKAGE.parents[1] / "tests" / "vectors" / "capability_chains.json"
PAGE: Final = b"<!doctype html><title>client</title>"
WAIT_MS: Final = 60_000


class Handler(BaseHTTPRequestHandler):
    """The package's sources, the golden chains, and a service that allows, or sends elsewhere."""

    followed: list[str]

    def do_GET(self) -> None:
        if self.path == "/":
            return self._send(200, "text/html", PAGE)
        if self.path == "/golden.json":
            return self._send(200, "application/json", GOLDEN.read_bytes())
        if not self.path.startswith("/src/"):
            return self._send(404, "text/plain", b"")
        return self._send(200, "text/javascript", (PACKAGE / self.path[1:]).read_bytes())

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.followed.append(self.path)
        if self.path.startswith("/away/"):
            return self._send(307, "text/plain", b"", {"Location": "/decide"})
        allow = body_of(request_digest=request_digest(body), expires_at="2100-01-01T00:00:00Z")
        return self._send(200, "application/json", json.dumps(allow).encode())

    def _send(self, status: int, media_type: str, data: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in (
            {"Content-Type": media_type, "Content-Length": str(len(data))} | (headers or {})
        ).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *arguments: Any) -> None:
        """Nothing: the test says what matters."""


@pytest.fixture(scope="module")
def site() -> Iterator[str]:
    Handler.followed = []
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://localhost:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture(scope="module")
def page(site: str) -> Iterator[Page]:
    path = shutil.which(os.environ.get("CHROMIUM") or "chromium")
    if path is None:
        pytest.skip("there is no chromium (Debian: `apt-get install chromium`)")
    with sync_playwright() as playwright:
        # Without a sandbox of its own, since root, as in a container, cannot have one.
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        opened = browser.new_page()
        opened.set_default_timeout(WAIT_MS)
        opened.goto(site)
        yield opened
        browser.close()


def test_every_golden_chain(page: Page) -> None:
    wrong = page.evaluate(
        """async () => {
          const { checkLine } = await import("/src/capabilities/index.js");
          const cases = await (await fetch("/golden.json")).json();
          const wrong = [cases.length];
          for (const { id, input, expected } of cases) {
            const { reason } = await checkLine(JSON.stringify(input));
            if (reason !== expected.reason) wrong.push([id, reason]);
          }
          return wrong;
        }"""
    )
    assert wrong == [len(json.loads(GOLDEN.read_text(encoding="ascii")))]


def test_deciding(page: Page) -> None:
    found = page.evaluate(
        """async () => {
          const { Client } = await import("/src/index.js");
          const tool = { server: "s", name: "n" };
          const request = { subject: { agent: "a" }, tool, arguments: { x: 1.5 } };
          const ask = (path) => new Client(location.origin + path, { apiKey: "k" }).decide(request);
          const nameOf = async (asked) => (await asked.catch((error) => error)).name;
          const nobody = new Client("http://127.0.0.1:9", { apiKey: "k" }).decide(request);
          return [(await ask("")).allowed, await nameOf(ask("/away")), await nameOf(nobody)];
        }"""
    )
    assert found == [True, "MalformedAnswer", "Unreachable"]
    assert Handler.followed == ["/decide", "/away/decide"], "a redirect is not followed"


def test_signing_with_a_key_that_never_leaves(page: Page) -> None:
    found = page.evaluate(
        """async () => {
          const cap = await import("/src/capabilities/index.js");
          const [issuer, holder] = [await cap.generateKey({ extractable: false }), await cap.generateKey()];
          const whom = { issuer: "https://i.example", audience: "https://d.example" };
          const entry = { type: "agent_tool_call", actions: ["read"], locations: ["file:///w"] };
          const root = await cap.issueRoot(issuer, { ...whom, subject: "ada", holder: holder.public,
            entries: [entry], jti: cap.newJti(), iat: 10, exp: 20, maxDepth: 1 });
          const keys = new Map([[issuer.kid, issuer.public]]);
          const moment = { now: 15, keys, revoked: cap.NOTHING_REVOKED };
          const found = await cap.verifyChain([root], { ...whom, ...moment });
          return [String(found.subject), await issuer.privateJwk().catch((error) => error.name)];
        }"""
    )
    assert found == ["ada", "BadKey"]

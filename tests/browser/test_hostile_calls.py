"""Calls whose every field tries to become a part of the page: nothing runs, nothing breaks out of its box."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from playwright.sync_api import Browser, BrowserContext, Dialog, Page

from tests.browser.asking import ask, asking_server, browsing, call, decide
from tests.browser.test_answers import opened
from tests.support.server import RunningServer

CORPUS: Final = json.loads((Path(__file__).parents[1] / "vectors" / "deception.json").read_bytes())
ENTRIES: Final = [entry for entry in CORPUS["entries"] if entry["bundle"] == "asking"]
PAYLOADS: Final = (
    "<script>window.hit=1</script>",
    "\"><img src=x onerror='window.hit=1'>",
    "'><svg onload=window.hit=1>",
    "</code></div></textarea></title><script>window.hit=1</script>",
    "<!--<script>--><iframe srcdoc='<script>parent.hit=1</script>'>",
    "javascript:window.hit=1",
    "{{ 7 * 7 }}{% if 1 %}{# #}${7*7}",
    "<form action=https://evil.example><button>Approve</button></form>",
    "<style>*{display:none}</style><base href=https://evil.example>",
    "<meta http-equiv=refresh content='0;url=https://evil.example'>",
)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with asking_server(tmp_path_factory.mktemp("hostile")) as running:
        yield running


@pytest.fixture(scope="module")
def grace(browser: Browser, server: RunningServer) -> Iterator[BrowserContext]:
    with browsing(browser, server) as context:
        yield context


class Watch:
    """Everything that a page does and should not."""

    def __init__(self, page: Page) -> None:
        self.seen: list[str] = []
        page.on("dialog", self._dismiss)
        page.on("pageerror", lambda error: self.seen.append(str(error)))
        page.on("request", lambda request: self._note(request.url))
        page.on("console", lambda told: self.seen.append(told.text) if told.type == "error" else None)
        page.on("framenavigated", lambda frame: self._note(frame.url))

    def _dismiss(self, dialog: Dialog) -> None:
        self.seen.append(dialog.message)
        dialog.dismiss()

    def _note(self, url: str) -> None:
        if not url.startswith(("http://localhost:", "about:blank", "data:,")):
            self.seen.append(url)


def check_inert(page: Page, watch: Watch) -> None:
    """No script of the call ran, and no element of it is there."""
    assert page.evaluate("window.hit") is None
    assert watch.seen == []
    found = page.evaluate(
        """() => ({
          scripts: [...document.scripts].map((one) => one.getAttribute("src")),
          strange: document.querySelectorAll("iframe,img,style,base,object,embed,meta[http-equiv]").length,
          actions: [...document.forms].map((form) => new URL(form.action).pathname.split("/").pop()),
          handlers: [...document.querySelectorAll("*")].filter((one) =>
            [...one.attributes].some((at) => at.name.startsWith("on") || at.name === "style")).length,
        })"""
    )
    assert found["strange"] == 0
    assert found["handlers"] == 0
    assert all(path.startswith("/ui/static/") for path in found["scripts"])
    assert set(found["actions"]) <= {"sign-out", "deny", "approve", "decisions", "history"}


def built(value: Any) -> Any:
    """The arguments of an entry, its long texts put together."""
    if isinstance(value, dict) and value.keys() == {"join"}:
        return "".join(
            part if isinstance(part, str) else part["of"] * part["times"] for part in value["join"]
        )
    if isinstance(value, dict):
        return {name: built(member) for name, member in value.items()}
    return [built(item) for item in value] if isinstance(value, list) else value


def hostile(payload: str) -> dict[str, Any]:
    """A call that says it everywhere where a caller may say something."""
    body = call(
        "open/say",
        {"channel": payload, payload: payload, "nested": {payload: [payload, {payload: 1}]}},
        provenance={"/channel": {"source": "web", "uri": payload, "tool": f"a/{payload}", "call": payload}},
    )
    body["subject"] |= {"session": payload, "parent_agent": payload}
    body["context"] |= {"trace_id": payload, "turn_id": payload, "cwd": "/workspace/" + payload}
    return body


@pytest.mark.parametrize("payload", PAYLOADS)
def test_no_field_of_a_call_becomes_a_part_of_any_page(
    server: RunningServer, grace: BrowserContext, payload: str
) -> None:
    said = decide(server, hostile(payload))
    assert said["effect"] == "require_approval", said
    page = grace.new_page()
    watch = Watch(page)
    paths = [f"/ui/approvals/{said['approval']['id']}", "/ui/", "/ui/history", "/ui/decisions"]

    for path in (*paths, f"/ui/decisions/{said['decision_id']}"):
        page.goto(path)
        check_inert(page, watch)
    page.goto(paths[0])
    assert payload in page.locator(".arguments").inner_text()
    page.get_by_label("Why not?").fill(payload)
    page.get_by_role("button", name="Deny").click()
    page.wait_for_load_state()
    check_inert(page, watch)
    page.close()


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry["id"])
def test_no_entry_of_the_corpus_acts_on_the_page(
    server: RunningServer, grace: BrowserContext, entry: dict[str, Any]
) -> None:
    claims = {
        pointer: {name: text for name, text in claim.items() if name in ("source", "uri")}
        for pointer, claim in (entry.get("provenance") or {}).items()
    }
    # Requests of one agent are limited, and there are very many here.
    subject = {"agent": f"agent of {entry['id']}", "on_behalf_of": "ada", "session": "s-1"}
    asked = ask(server, entry["tool"], built(entry["arguments"]), provenance=claims, subject=subject)
    page = opened(grace, asked)
    watch = Watch(page)
    page.reload()

    check_inert(page, watch)
    # Nothing is wider than the page, nothing is drawn outside of its box, and the answer is where it belongs.
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert page.evaluate(
        """() => [...document.querySelectorAll(".block")].every((box) => {
          const outer = box.getBoundingClientRect();
          return [...box.querySelectorAll("*")].every((part) => {
            const inner = part.getBoundingClientRect();
            return inner.left >= outer.left - 1 && inner.right <= outer.right + 1;
          });
        })"""
    )
    last = page.locator("main h2").last
    assert last.inner_text() == "Your answer"
    page.close()
    with server.client() as client:
        assert client.post(f"/approvals/{asked}/cancel").status_code == 200

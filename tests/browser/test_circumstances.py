"""Answers when more than one person, one run, one tenant or one moment is concerned."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from tests.browser.asking import PAY, answered, ask, asking_server, browsing, call, decide
from tests.browser.test_answers import approve, opened, stands
from tests.deception.bundle import TOOLS
from tests.support import server as servers
from tests.support.bundles import write_bundle
from tests.support.server import RunningServer
from tests.ui.visitor import ENTITIES, asking


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with asking_server(tmp_path_factory.mktemp("quorum"), '@quorum("2")') as running:
        yield running


def test_two_people(browser: Browser, server: RunningServer) -> None:
    body = call("open/pay", PAY)
    asked = decide(server, body)["approval"]["id"]
    with browsing(browser, server) as grace, browsing(browser, server, "heidi") as heidi:
        first, second = opened(grace, asked), opened(heidi, asked)
        approve(first)
        expect(first.get_by_text("You said yes already")).to_be_visible()
        assert decide(server, body)["effect"] == "require_approval"

        # The other page shows a request without that yes, so it says so and has to be looked at again.
        expect(second.locator("#changed")).to_be_visible()
        second.get_by_role("link", name="Look again").click()
        expect(second.locator(".votes")).to_contain_text("Yes by grace")
        approve(second)

        stands(second, "Approved")
        expect(first.locator("#changed")).to_be_visible()
        assert decide(server, body)["effect"] == "allow"


def test_one_no_is_enough_after_a_yes(browser: Browser, server: RunningServer) -> None:
    asked = ask(server, "open/pay", {**PAY, "amount": 9})
    with browsing(browser, server) as grace, browsing(browser, server, "heidi") as heidi:
        approve(opened(grace, asked))
        page = opened(heidi, asked)
        page.get_by_role("button", name="Deny").click()
        stands(page, "Denied")


def test_time_runs_out_on_the_page(browser: Browser, tmp_path: Path) -> None:
    with (
        asking_server(tmp_path, AUTHZ_APPROVAL_PENDING_SECONDS="10") as server,
        browsing(browser, server) as grace,
    ):
        asked = ask(server, "open/pay", PAY)
        page = opened(grace, asked)
        stands(page, "Waiting for an answer")

        expect(page.locator("#changed")).to_be_visible()

        expect(page.get_by_role("button", name="Approve", exact=True)).to_be_disabled()
        page.get_by_role("link", name="Look again").click()
        stands(page, "Expired")
        assert answered(server, asked, "approval.denied") == 0


def test_the_server_is_restarted_between_page_and_answer(
    browser: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with asking_server(tmp_path) as server, browsing(browser, server) as grace:
        body = call("open/pay", PAY)
        page = opened(grace, decide(server, body)["approval"]["id"])
        server.stop()
        monkeypatch.setattr(servers, "free_port", lambda: server.port)
        server.start()

        approve(page)

        stands(page, "Approved")
        assert decide(server, body)["effect"] == "allow"


def test_another_tenants_person_finds_nothing(browser: Browser, tmp_path: Path) -> None:
    other = write_bundle(tmp_path / "other", rules=asking(), tools={"open": TOOLS}, entities=ENTITIES)
    config = tmp_path / "authz.toml"
    config.write_text(f'[tenants]\nother = "{other}"\n')
    with (
        asking_server(tmp_path, AUTHZ_CONFIG=str(config)) as server,
        browsing(browser, server, tenant="other") as stranger,
    ):
        asked = ask(server, "open/pay", PAY)

        page = stranger.new_page()
        answer = page.goto(f"/ui/approvals/{asked}")

        assert answer is not None
        assert answer.status == 404
        expect(page.get_by_role("heading", level=1)).to_have_text("There is nothing here")
        page.goto("/ui/")
        expect(page.get_by_text("Nothing waits for you.")).to_be_visible()
        page.goto("/ui/decisions")
        expect(page.get_by_text("open/pay")).to_have_count(0)

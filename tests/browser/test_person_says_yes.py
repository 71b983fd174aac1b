"""README's approval, run as it stands in one shell, with a real browser for the person in between."""

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page

from tests.browser.conftest import ROOT, Shot, printed_link
from tests.support.readme import Shell, make_clone, missing, steps
from tests.support.server import RunningServer

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed"),
]


@pytest.fixture(params=["sqlite", "postgres"])
def database(request: pytest.FixtureRequest) -> dict[str, str]:
    """What says where the data is, beside its folder."""
    if request.param == "sqlite":
        return {}
    return {"AUTHZ_DATABASE_URL": request.getfixturevalue("postgres_url")}


@pytest.fixture
def server(database: dict[str, str], tmp_path: Path) -> Iterator[RunningServer]:
    """The sample bundle, as `make run` serves it, over each store."""
    with RunningServer(bundle=ROOT / "policies", data_dir=tmp_path / "var", env=database) as running:
        yield running


@pytest.fixture
def site(server: RunningServer) -> str:
    """Where a person finds it."""
    return f"http://localhost:{server.port}"


def test_a_person_says_yes_as_readme_shows_it(
    server: RunningServer, database: dict[str, str], page: Page, shot: Shot, tmp_path: Path
) -> None:
    (ask, asked), (again, answered) = steps("A person says yes")
    clone = make_clone(tmp_path / "clone")
    env = {"AUTHZ_DEV_KEY": server.key, "AUTHZ_DATA_DIR": str(server.data_dir), **database}
    with Shell(clone, server.port, log=server.output, env=env) as shell:
        said = shell.run(ask)
        shown = [line.replace(":8700", f":{server.port}") for line in asked]
        assert missing(shown, said) is None, said
        [url] = re.findall(r'"url":"([^"]+)"', said)

        page.goto(printed_link(server))
        page.get_by_role("button", name=re.compile("Sign in")).click()
        page.wait_for_url(re.compile(r"/ui/(?!sign-in)"))
        page.goto(url)
        assert "DE02120300000000202051" in page.locator("h1").inner_text()
        shot(page, "readme-asked")
        page.get_by_role("button", name="Approve").click()
        page.get_by_text("What was approved may run now").wait_for()
        shot(page, "readme-approved")

        said = shell.run(again)
        assert missing(answered, said) is None, said

    with server.client() as client:
        records = client.get("/decisions", params={"trace_id": "t-3"}).json()["records"]
    of = {record["type"]: record for record in reversed([found["record"] for found in records])}
    made = [found["record"] for found in reversed(records) if found["record"]["type"] == "decision.made"]
    check_links(made[0], of["approval.approved"], made[1])


def check_links(asked: dict[str, Any], approved: dict[str, Any], allowed: dict[str, Any]) -> None:
    """Request, what was shown, who approved by which factor, and the use, each naming the others."""
    assert (asked["effect"], asked["approval"]["state"]) == ("require_approval", "pending")
    assert (allowed["effect"], allowed["approval"]["state"]) == ("allow", "consumed")
    approval = asked["approval"]["id"]
    assert [approved["approval"]["id"], allowed["approval"]["id"]] == [approval, approval]
    shown = asked["approval"]["shown_digest"]
    assert [approved["approval"]["shown_digest"], allowed["approval"]["shown_digest"]] == [shown, shown]
    assert approved["decision_id"] == asked["decision_id"]
    assert (approved["person"]["id"], approved["vote"]["factor"]) == ("grace", "session")
    assert allowed["approval"]["approvers"] == [{"person": "grace", "factor": "session"}]
    assert allowed["fingerprint"] == asked["fingerprint"] == approved["approval"]["fingerprint"]

"""README's hand-over to a subagent, run as it stands in one shell, over each store.

Only the port, the place of the environment and the folder that stands for the clone are others. Beyond what
README shows of the answers, the records are held against them.
"""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.readme import Shell, make_clone, missing, steps
from tests.support.server import RunningServer

ROOT = Path(__file__).resolve().parents[2]
MISSING_RULE = "delegated-needs-a-capability"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed"),
]


@pytest.fixture(params=["sqlite", "postgres"])
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[RunningServer]:
    """The sample bundle, as `make run` serves it."""
    env = {}
    if request.param == "postgres":
        env["AUTHZ_DATABASE_URL"] = request.getfixturevalue("postgres_url")
    with RunningServer(bundle=ROOT / "policies", data_dir=tmp_path / "var", env=env) as running:
        yield running


def test_work_is_handed_on_as_readme_shows_it(server: RunningServer, tmp_path: Path) -> None:
    blocks = list(steps("Handing work to a subagent"))
    assert [bool(shown) for _, shown in blocks] == [False, True, True, True]
    clone = make_clone(tmp_path / "clone")
    with Shell(clone, server.port, log=server.output, env={"AUTHZ_DEV_KEY": server.key}) as shell:
        for block, shown in blocks:
            said = shell.run(block)
            assert missing(shown, said) is None, f"{block}\nprinted:\n{said}"
    with server.client() as client:
        answer = client.get("/decisions", params={"limit": 100}).json()
    records = [found["record"] for found in reversed(answer["records"])]
    issued, revoked = (named(records, f"capability.{what}") for what in ("issued", "revoked"))
    assert revoked["reason"] == "the task is over"

    decided = [record for record in records if record["type"] == "decision.made"]
    assert [outcome(record) for record in decided] == [
        ("call_1", "allow", "policy", "policy.permit", ["workspace-read"], None),
        ("call_2", "deny", "capability", "capability.right_missing", [], (1, "R")),
        ("call_3", "deny", "capability", "capability.object_outside", [], (1, "O")),
        ("call_4", "allow", "policy", "policy.permit", ["workspace-read"], None),
        ("call_5", "deny", "reservation", "capability.budget", [spent(decided[0])], (1, "P")),
        ("call_6", "deny", "policy", "policy.forbid", [MISSING_RULE], None),
        ("call_7", "deny", "capability", "capability.revoked", [], (0, None)),
    ]
    for record in decided:
        assert record["subject"]["agent"] == "sub-1"
        assert record["capability"]["presented"] is (record["tool_call_id"] != "call_6")
    for record in (decided[0], decided[3]):
        # The root that was issued, and the link that the service had never seen before.
        assert record["capability"]["links"][0]["link"] == issued["capability"]["link"]
        assert (record["capability"]["root"], record["capability"]["depth"]) == ("coder-1", 1)


def named(records: list[dict[str, Any]], kind: str) -> dict[str, Any]:
    [found] = [record for record in records if record["type"] == kind]
    return found


def spent(allowed: dict[str, Any]) -> str:
    """How the budget of the child's link is named."""
    return f"capability:{allowed['capability']['links'][1]['link']}"


def outcome(record: dict[str, Any]) -> tuple[Any, ...]:
    refused = record["capability"].get("refused")
    return (
        record["tool_call_id"],
        record["effect"],
        record["stage"],
        record["code"],
        [rule["rule"] for rule in record["matched"]],
        refused and (refused["link"], refused["component"]),
    )

"""Five actions, by a main agent and by its child, while a permission lasts and after it has ended.

Workspace read, workspace write, outside read, an allowed domain, an unapproved one: on each store, whatever
is decided names the rule, the resource and when the permission ends, in the answer and in the record.
"""

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest

from authz.core.cedar_context import rfc3339
from authz.store.postgres_url import PostgresUrl
from tests.cases.served import rules_of, told_of
from tests.support.holders import Holder, entry, issue
from tests.support.service import Service
from tests.support.world import PINNED
from tests.support.world import world as world_of

RULES: Final = """\
@id("workspace-read") permit (principal, action in Action::"read", resource in Directory::"/workspace");
@id("workspace-write") permit (principal, action in Action::"write", resource in Directory::"/workspace")
when { context.sandboxed };
@id("outside-files") @reason("Only the workspace.")
forbid (principal, action in [Action::"read", Action::"write"], resource is File)
unless { resource in Directory::"/workspace" };
@id("approved-sites") permit (principal, action in Action::"connect", resource in Domain::"example.com");
@id("unapproved-sites") @reason("Only approved sites.")
forbid (principal, action in Action::"connect", resource is Endpoint)
unless { resource in Domain::"example.com" };
@id("handed-on") permit (principal, action == Action::"issue", resource);
"""
ACTIONS: Final[dict[str, tuple[str, dict[str, Any], str]]] = {
    "workspace read": ("fs/file_read", {"path": "docs/a"}, "file:///workspace/docs/a"),
    "workspace write": ("fs/file_edit", {"path": "docs/a", "text": "x"}, "file:///workspace/docs/a"),
    "outside read": ("fs/file_read", {"path": "../etc/hosts"}, "file:///etc/hosts"),
    "allowed domain": ("web/fetch", {"url": "https://API.example.com/v1"}, "https://api.example.com/v1"),
    "unapproved domain": (
        "web/fetch",
        {"url": "https://example.com.evil.test/"},
        "https://example.com.evil.test/",
    ),
}
FILES: Final = ["fs/file_read", "fs/file_edit"]
MAIN: Final = (
    # More than the rules give: what they forbid is theirs to refuse.
    entry(FILES, ["file:///workspace", "file:///etc"]),
    entry("web/fetch", ["domain:example.com", "domain:evil.test"]),
)
CHILD: Final = (entry(FILES, "file:///workspace/docs"), entry("web/fetch", "domain:example.com"))

Told = tuple[str, str, list[str], tuple[Any, ...] | None]
"""Effect, code, rules, and which link refused for which of R, O, P, E."""


def allowed(rule: str) -> Told:
    return "allow", "policy.permit", [rule], None


def forbidden(rule: str) -> Told:
    return "deny", "policy.forbid", [rule], None


def refused(code: str, link: int, component: str, *rules: str) -> Told:
    return "deny", f"capability.{code}", list(rules), (link, component)


BY_RULES: Final = {
    "workspace read": allowed("workspace-read"),
    "workspace write": allowed("workspace-write"),
    "outside read": forbidden("outside-files"),
    "allowed domain": allowed("approved-sites"),
    "unapproved domain": forbidden("unapproved-sites"),
}

PERMITTED: Final = [name for name, told in BY_RULES.items() if told[0] == "allow"]


@pytest.fixture(params=["sqlite", "postgres"])
async def service(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Service]:
    database = None
    if request.param == "postgres":
        database = PostgresUrl.parse(request.getfixturevalue("postgres_url"))
    async with Service.running(tmp_path, {"default": world_of(RULES)}, database=database) as running:
        yield running


async def table(service: Service, holder: Holder, expires_at: int) -> dict[str, Told]:
    """What each action is answered, by a permission that ends at `expires_at` (seconds since 1970)."""
    # A proof is of now, whenever the permission was given.
    holder = replace(holder, now=service.clock.now_ms() // 1000)
    ends = rfc3339(expires_at * 1000)
    found: dict[str, Told] = {}
    for name, (tool, arguments, uri) in ACTIONS.items():
        server, _, tool_name = tool.partition("/")
        named = {"server": server, "name": tool_name} | (
            {"advertised_digest": PINNED} if server == "web" else {}
        )
        answer, record = await told_of(service, holder.body(tool, arguments, tool=named))
        # The resource, and when the permission ends.
        assert [access["uri"] for access in record["accesses"]] == [uri]
        assert [access["uri"] for access in answer["accesses"]] == [uri]
        assert record["capability"]["expires_at"] == ends
        if answer["effect"] == "allow":
            assert answer["expires_at"] == record["expires_at"] <= ends
        told = answer.get("capability")
        where = told and (told["link"], told.get("component"))
        assert where == refusal_in(record)
        found[name] = answer["effect"], answer["code"], rules_of(answer), where
    return found


def refusal_in(record: dict[str, Any]) -> tuple[Any, ...] | None:
    told = record["capability"].get("refused")
    return told and (told["link"], told["component"])


def exp_of(holder: Holder, seconds: int) -> int:
    return holder.now + seconds


async def test_the_main_agent(service: Service) -> None:
    main = await issue(service, *MAIN, expires_in=120)
    assert await table(service, main, exp_of(main, 120)) == BY_RULES

    once = await issue(service, *(one | {"budget": {"calls": 1}} for one in MAIN), expires_in=120)
    assert await once.reads(service) == "allow"
    spent = refused("budget", 0, "P", f"capability:{once.link}")
    assert await table(service, once, exp_of(once, 120)) == BY_RULES | dict.fromkeys(PERMITTED, spent)

    service.clock.at_ms += 119_000
    assert await table(service, main, exp_of(main, 120)) == BY_RULES
    service.clock.at_ms += 1_000
    for holder in (main, once):
        assert await table(service, holder, exp_of(holder, 120)) == dict.fromkeys(
            ACTIONS, refused("expired", 0, "E")
        )


async def test_its_child(service: Service) -> None:
    main = await issue(service, *MAIN, expires_in=600, max_depth=1)
    outside = refused("object_outside", 1, "O")
    expected = BY_RULES | {"outside read": outside, "unapproved domain": outside}
    child = main.hand_on("sub-1", *CHILD, exp=exp_of(main, 120))
    assert await table(service, child, exp_of(main, 120)) == expected

    once = main.hand_on("sub-2", *(one | {"budget": {"calls": 1}} for one in CHILD), exp=exp_of(main, 120))
    assert await once.reads(service, "/workspace/docs/a") == "allow"
    [link] = (await service.client.get("/capabilities", params={"agent": "sub-2"})).json()["capabilities"]
    spent = refused("budget", 1, "P", f"capability:{link['link']}")
    assert await table(service, once, exp_of(main, 120)) == expected | dict.fromkeys(PERMITTED, spent)

    service.clock.at_ms += 120_000
    for holder in (child, once):
        assert await table(service, holder, exp_of(main, 120)) == dict.fromkeys(
            ACTIONS, refused("expired", 1, "E")
        )
    # What it came from lasts.
    assert await table(service, main, exp_of(main, 600)) == BY_RULES

"""Fixtures of the API tests: one service over the default world, and one with rules that differ."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from authz.store.postgres_url import PostgresUrl
from tests.support.service import Service
from tests.support.world import world as world_of

RULES = """\
@id("workspace") @reason("The sandbox can be discarded.")
permit (principal, action in [Action::"read", Action::"write"], resource in Directory::"/workspace");
@id("secrets") @reason("Secrets stay where they are.")
forbid (principal, action, resource in Directory::"/workspace/.secrets");
@id("removals")
permit (principal, action in Action::"delete", resource in Directory::"/workspace");
@id("money") permit (principal, action in Action::"transact", resource);
@id("money-asks") @requires("approval") @approvers("Group::\\"finance\\"") @quorum("2")
@reason("Money moves only with two people's yes.")
forbid (principal, action in Action::"transact", resource);
"""


ON_EVERY_STORE = ("test_decide", "test_callers", "test_routes", "test_operations", "test_late_reports")
"""Modules about what is stored; the others are about the wire, which no database changes."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run what is about stored things on each database."""
    if "service" in metafunc.fixturenames and metafunc.module.__name__.endswith(ON_EVERY_STORE):
        metafunc.parametrize("service", ["sqlite", "postgres"], indirect=True)


@pytest.fixture
async def service(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Service]:
    """A service whose rules allow, forbid and ask."""
    database = None
    if getattr(request, "param", "sqlite") == "postgres":
        database = PostgresUrl.parse(request.getfixturevalue("postgres_url"))
    async with Service.running(tmp_path, {"default": world_of(RULES)}, database=database) as running:
        yield running

"""Fixtures of the API tests: one service over the default world, and one with rules that differ."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

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


@pytest.fixture
async def service(tmp_path: Path) -> AsyncIterator[Service]:
    """A service whose rules allow, forbid and ask."""
    async with Service.running(tmp_path, {"default": world_of(RULES)}) as running:
        yield running

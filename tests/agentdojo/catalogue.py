"""What servers of the AgentDojo tools would advertise in `tools/list`, made mechanically from the package.

The descriptors in `bundle/tools/` were drafted by `authz tools import` (see `mcp_server.py`) and reviewed by
people; what is compared with them comes from here.
"""

from typing import Any, Final

from agentdojo.task_suite.load_suites import get_suite  # type: ignore[import-untyped]
from agentdojo.task_suite.task_suite import TaskSuite  # type: ignore[import-untyped]

from authz.core.fingerprint import advertised_digest

VERSION: Final = "v1.2.2"
"""The version of the suites, which is not that of the package."""
TUNED: Final = ("workspace", "banking")
"""The suites that rules and descriptors were tuned on; the others are only reported."""
SUITES: Final = (*TUNED, "slack", "travel")


def load_suite(name: str) -> TaskSuite[Any]:
    """One suite of the pinned version."""
    return get_suite(VERSION, name)


def advertised_entries(suite: str) -> list[dict[str, Any]]:
    """The `tools/list` entries of a suite, in the order of the package."""
    return [
        {
            "name": function.name,
            "description": function.description,
            "inputSchema": function.parameters.model_json_schema(),
        }
        for function in load_suite(suite).tools
    ]


def advertised_digests(suite: str) -> dict[str, str]:
    """The advertised digest of every tool of a suite, by name."""
    return {entry["name"]: advertised_digest(entry) for entry in advertised_entries(suite)}

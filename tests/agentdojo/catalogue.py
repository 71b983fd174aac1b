"""What servers of the AgentDojo tools would advertise in `tools/list`, made mechanically from the package.

The descriptors in `bundle/tools/` are reviewed by people; only their digests come from here. As a command
it drafts descriptors for a reviewer to finish, with every argument closed and nothing yet decided:

    python -m tests.agentdojo.catalogue workspace
"""

import sys
from typing import Any, Final

import yaml
from agentdojo.task_suite.load_suites import get_suite  # type: ignore[import-untyped]
from agentdojo.task_suite.task_suite import TaskSuite  # type: ignore[import-untyped]

from authz.core.fingerprint import advertised_digest

VERSION: Final = "v1.2.2"
"""The version of the suites, which is not that of the package."""
SUITES: Final = ("workspace", "banking")


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


def draft_descriptor(entry: dict[str, Any]) -> dict[str, Any]:
    """What a reviewer starts from: identity and schema. Roles, accesses and trust are theirs to write."""
    schema = entry["inputSchema"]
    draft = {
        "type": "object",
        "properties": {name: _bare(schema, node) for name, node in schema["properties"].items()},
        "additionalProperties": False,
    }
    if "required" in schema:
        draft["required"] = schema["required"]
    return {
        "name": entry["name"],
        "description": entry["description"],
        "advertised_digest": advertised_digest(entry),
        "input_schema": draft,
    }


def _bare(root: dict[str, Any], node: dict[str, Any]) -> dict[str, Any]:
    """A schema node with its reference resolved and without the words that are for models."""
    if "$ref" in node:
        node = {**root["$defs"][node["$ref"].rpartition("/")[2]], **node}
    return {key: value for key, value in node.items() if key not in ("$ref", "title", "description")}


if __name__ == "__main__":
    drafts = [draft_descriptor(entry) for entry in advertised_entries(sys.argv[1])]
    print(yaml.safe_dump({"tools": drafts}, sort_keys=False, allow_unicode=True, width=110), end="")

"""Which rules and cases of a bundle name a tool: what a person has to look at again when it changes."""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from authz.bundle.yaml_source import load_yaml
from authz.core.policy import Policy
from authz.errors import BundleError
from authz.model.decision import RuleMatch
from authz.model.resource import escape_cedar


def rules_naming(policies: Iterable[Policy], alias: str, name: str) -> list[RuleMatch]:
    """The rules that write the tool's name, or that of one of its actions, in a literal.

    Rules that reach it by its verb or its level apply to it as to any tool and are not among them.
    """
    named = re.compile(f'"{re.escape(escape_cedar(f"{alias}/{name}"))}(?::[a-z]+:A[0-3])?"')
    return [policy.match for policy in policies if named.search(policy.text)]


def case_files_naming(files: Mapping[str, bytes], alias: str, name: str) -> list[str]:
    """The files of `tests/` that hold a case about the tool."""
    found = []
    for file, data in files.items():
        if not file.startswith("tests/"):
            continue
        try:
            value = load_yaml(file, data).value
        except BundleError:
            # `authz check` says so; here nothing depends on it.
            continue
        if any(node.get("server") == alias and node.get("name") == name for node in _mappings(value)):
            found.append(file)
    return found


def _mappings(value: Any) -> Iterator[Mapping[str, Any]]:
    if isinstance(value, Mapping):
        yield value
    members = value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else ()
    for member in members:
        yield from _mappings(member)

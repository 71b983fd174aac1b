"""The reviewed descriptors are of the tools that the installed package advertises, and of all of them."""

from typing import Any, get_args

import pytest
from pydantic import BaseModel

from authz.bundle.load import load_bundle
from authz.bundle.self_protection import Protected
from authz.core.ruleset import Ruleset
from tests.agentdojo.catalogue import SUITES, advertised_digests, advertised_entries, load_suite
from tests.agentdojo.ground_truth import BUNDLE

SIZES = {"workspace": 24, "banking": 11, "slack": 11, "travel": 28}


def test_all_suites_are_there() -> None:
    assert SIZES.keys() == set(SUITES)
    # Calendar and mail are the same tools in two suites.
    assert len({entry["name"] for suite in SUITES for entry in advertised_entries(suite)}) == 69


@pytest.fixture(scope="module")
def ruleset() -> Ruleset:
    """The bundle, as any service would load it."""
    return load_bundle(BUNDLE, Protected())


@pytest.mark.parametrize("suite", SIZES)
def test_pinned_digests_are_what_the_package_advertises(ruleset: Ruleset, suite: str) -> None:
    pinned = {
        name: tool.descriptor.advertised_digest
        for (server, name), tool in ruleset.tools.items()
        if server == suite
    }
    assert len(pinned) == SIZES[suite]
    assert pinned == advertised_digests(suite)


@pytest.mark.parametrize("suite", SIZES)
def test_reviewed_schemas_take_the_advertised_arguments_and_no_others(ruleset: Ruleset, suite: str) -> None:
    for entry in advertised_entries(suite):
        reviewed = ruleset.tools[suite, entry["name"]].descriptor.input_schema
        advertised = entry["inputSchema"]
        assert reviewed["additionalProperties"] is False
        assert reviewed["properties"].keys() == advertised["properties"].keys()
        assert reviewed.get("required", []) == advertised.get("required", [])
        assert _defaults(reviewed) == _defaults(advertised)


@pytest.mark.parametrize("suite", SIZES)
def test_trusted_fields_are_fields_of_the_result(ruleset: Ruleset, suite: str) -> None:
    """A misspelt field would silently stay untrusted."""
    for function in load_suite(suite).tools:
        fields = ruleset.tools[suite, function.name].descriptor.returns.fields
        inner = get_args(function.return_type)
        model, prefix = (inner[0], "/*/") if len(inner) == 1 else (function.return_type, "/")
        if fields:
            assert issubclass(model, BaseModel), function.name
            assert fields.keys() <= {f"{prefix}{name}" for name in model.model_fields}, function.name


def test_servers_are_remote_so_that_every_call_carries_its_digest(ruleset: Ruleset) -> None:
    assert {server.alias for server in ruleset.servers.values()} == SIZES.keys()
    for server in ruleset.servers.values():
        assert not server.local
        assert server.identity.startswith("https://")


def _defaults(schema: dict[str, Any] | Any) -> dict[str, Any]:
    return {name: node["default"] for name, node in schema["properties"].items() if "default" in node}

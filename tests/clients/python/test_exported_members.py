"""The public surface of authz_client. A change here is a change for everyone who uses it."""

import dataclasses
import importlib.resources
import inspect
from collections.abc import Mapping
from typing import Any

import authz_client
import pytest
from authz_client import AsyncClient, Client, Decision, DecisionUnavailable


def test_exported_names() -> None:
    assert authz_client.__all__ == [
        "Access",
        "Approval",
        "AsyncClient",
        "Client",
        "Decision",
        "DecisionUnavailable",
        "Effect",
        "Lease",
        "MalformedAnswer",
        "MatchedRule",
        "Obligation",
        "RequestNotEncodable",
        "RequestRefused",
        "ServerFailure",
        "Timeout",
        "Unreachable",
    ]


def test_nothing_else_is_public() -> None:
    modules = {"client", "errors", "model"}
    public = {name for name in vars(authz_client) if not name.startswith("_")}
    assert public - modules == set(authz_client.__all__)


@pytest.mark.parametrize(
    "name",
    [
        "MalformedAnswer",
        "RequestNotEncodable",
        "RequestRefused",
        "ServerFailure",
        "Timeout",
        "Unreachable",
    ],
)
def test_every_failure_is_a_refusal_of_its_own_type(name: str) -> None:
    failure = getattr(authz_client, name)
    assert failure.__bases__ == (DecisionUnavailable,)


@pytest.mark.parametrize("client", [Client, AsyncClient])
def test_the_two_clients_are_made_alike(client: type) -> None:
    parameters = inspect.signature(client).parameters
    assert list(parameters) == ["base_url", "api_key", "deadline_seconds", "transport", "clock"]
    keyword_only = [name for name, found in parameters.items() if found.kind is found.KEYWORD_ONLY]
    assert keyword_only == ["api_key", "deadline_seconds", "transport", "clock"]


def test_decide_takes_a_mapping_and_gives_a_decision() -> None:
    assert inspect.get_annotations(Client.decide) == {"request": Mapping[str, Any], "return": Decision}
    assert inspect.get_annotations(AsyncClient.decide) == {"request": Mapping[str, Any], "return": Decision}


def test_members_of_a_decision() -> None:
    assert [field.name for field in dataclasses.fields(Decision)] == [
        "decision_id",
        "effect",
        "stage",
        "code",
        "matched",
        "message",
        "next",
        "retry_unchanged",
        "expires_at",
        "fingerprint",
        "request_digest",
        "accesses",
        "arguments",
        "obligations",
        "idempotency_key",
        "lease",
        "approval",
        "policy_version",
        "dry_run",
        "repeated",
    ]


def test_types_ship_with_the_package() -> None:
    assert importlib.resources.files(authz_client).joinpath("py.typed").is_file()

"""The public surface of authz_client. A change here is a change for everyone who uses it."""

import dataclasses
import importlib
import importlib.resources
import inspect
import subprocess
import sys
from collections.abc import Callable, Mapping
from typing import Any

import authz_client
import pytest
from authz_client import (
    AsyncClient,
    Client,
    Decision,
    DecisionUnavailable,
    addresses,
    errors,
    fetch,
    files,
    guard,
    paths,
    volumes,
)


def test_exported_names() -> None:
    assert authz_client.__all__ == [
        "Access",
        "Approval",
        "ApprovalState",
        "ApprovalStatus",
        "ArgumentError",
        "Asked",
        "AsyncClient",
        "CapabilityRefusal",
        "ClaimedPath",
        "Client",
        "Decision",
        "DecisionUnavailable",
        "Effect",
        "Lease",
        "MalformedAnswer",
        "MatchedRule",
        "Obligation",
        "Operation",
        "OperationState",
        "Outcome",
        "RequestNotEncodable",
        "RequestRefused",
        "ServerFailure",
        "Standing",
        "Timeout",
        "Unreachable",
    ]


MODULES = {
    "addresses": ["AddressClass", "address_classes"],
    "endpoint": [
        "CallRejected",
        "EffectStore",
        "Endpoint",
        "InDoubt",
        "KeyConflict",
        "NotPerformed",
        "PostgresEffects",
        "Received",
        "SqliteEffects",
        "StillRunning",
        "TicketRefused",
        "TicketRules",
    ],
    "fetch": [
        "AddressClass",
        "AddressRefused",
        "FetchFailed",
        "Fetched",
        "Hop",
        "HopRefused",
        "Limits",
        "NotCovered",
        "Resolver",
        "address_classes",
        "fetch",
        "fetch_async",
        "hop_request",
        "system_resolver",
    ],
    "files": [
        "Mode",
        "NotCovered",
        "ObjectChanged",
        "PathRefused",
        "UnsupportedPlatform",
        "create_directory_decided",
        "delete_decided",
        "list_decided",
        "move_decided",
        "open_decided",
    ],
    "guard": [
        "AlreadyDone",
        "ApprovalPending",
        "ApprovalRefused",
        "AsyncGuard",
        "CallDenied",
        "CallInProgress",
        "CallOptions",
        "CallRefused",
        "Guard",
        "IdentityRefused",
        "NoDecision",
        "ObligationUnmet",
        "Outcome",
        "OutcomeUnknown",
        "Pending",
        "Permitted",
        "StartRefused",
        "Unsettled",
        "call_options",
    ],
    "paths": ["Kind", "PathRefused", "ResolvedPath", "UnsupportedPlatform", "resolve"],
    "volumes": ["NameRule", "VolumeRules", "probe"],
}
"""What is not needed to ask for a decision is imported by name, so that asking stays quick to start."""


@pytest.mark.parametrize("name", MODULES)
def test_exported_names_of_a_module(name: str) -> None:
    module = importlib.import_module(f"authz_client.{name}")
    assert module.__all__ == MODULES[name]
    assert all(hasattr(module, member) for member in module.__all__)


def test_asking_does_not_load_what_acts() -> None:
    script = (
        "import sys, authz_client; authz_client.Client; "
        "print(*(m for m in sys.modules if m.startswith('authz_client.')))"
    )
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    loaded = {name.removeprefix("authz_client.") for name in ran.stdout.split()}
    assert "client" in loaded
    assert not loaded & set(MODULES)


@pytest.mark.parametrize(
    "name",
    [
        "AddressRefused",
        "FetchFailed",
        "HopRefused",
        "NotCovered",
        "ObjectChanged",
        "PathRefused",
        "UnsupportedPlatform",
    ],
)
def test_every_refusal_to_act_has_its_own_type(name: str) -> None:
    assert getattr(errors, name).__bases__ == (errors.ExecutionRefused,)
    assert not issubclass(errors.ExecutionRefused, DecisionUnavailable)


@pytest.mark.parametrize(
    ("function", "names"),
    [
        (paths.resolve, ["path", "cwd", "root", "home", "follow_last", "folds_case"]),
        (
            files.open_decided,
            ["decision", "decided", "mode", "permissions", "make_directories", "allow_hard_links", "clock"],
        ),
        (files.list_decided, ["decision", "decided", "clock"]),
        (
            files.create_directory_decided,
            ["decision", "decided", "permissions", "make_directories", "clock"],
        ),
        (files.delete_decided, ["decision", "decided", "clock"]),
        (files.move_decided, ["decision", "source", "target", "allow_hard_links", "clock"]),
        (
            fetch.fetch,
            ["url", "ask", "method", "headers", "body", "allow_address_classes", "limits", "resolver", "tls"]
            + ["clock"],
        ),
        (fetch.hop_request, ["request", "hop", "argument"]),
        (volumes.probe, ["directory"]),
        (addresses.address_classes, ["address"]),
    ],
)
def test_parameters(function: Callable[..., Any], names: list[str]) -> None:
    assert list(inspect.signature(function).parameters) == names


def test_nothing_else_is_public() -> None:
    modules = {
        "capabilities",
        "client",
        "errors",
        "hooks",
        "model",
        "outcomes",
        "permitted",
        "refusals",
        *MODULES,
    }
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
    names = ["base_url", "api_key", "deadline_seconds", "attempts", "uds", "transport", "clock"]
    assert list(parameters) == names
    keyword_only = [name for name, found in parameters.items() if found.kind is found.KEYWORD_ONLY]
    assert keyword_only == names[1:]


METHODS = {
    "decide": ["request"],
    "decide_batch": ["requests"],
    "operation": ["decision_id"],
    "start": ["decision_id", "lease_token", "attempt", "timeout_seconds"],
    "settle": ["decision_id", "lease_token", "outcome", "external_id", "result_digest", "detail"],
    "resolve": ["decision_id", "outcome", "reason", "external_id", "result_digest"],
    "cancel_operation": ["decision_id", "reason"],
    "approval": ["approval_id"],
    "wait_for_approval": ["approval_id", "deadline_seconds"],
    "cancel_approval": ["approval_id"],
}


@pytest.mark.parametrize(("client", "end"), [(Client, "close"), (AsyncClient, "aclose")])
def test_the_two_clients_are_asked_alike(client: type, end: str) -> None:
    found = {name: value for name, value in vars(client).items() if not name.startswith("_")}
    assert found.keys() == {*METHODS, end}
    for name, parameters in METHODS.items():
        assert list(inspect.signature(found[name]).parameters) == ["self", *parameters]


GUARD_METHODS = {
    "tool": ["server", "name", "receives", "options"],
    "call": ["server", "tool", "arguments", "options"],
    "begin": ["server", "tool", "arguments", "options"],
    "end": ["pending", "error"],
}


@pytest.mark.parametrize("kind", [guard.Guard, guard.AsyncGuard])
def test_the_two_guards_are_alike(kind: type) -> None:
    assert list(inspect.signature(kind).parameters) == [
        "client",
        "subject",
        "context",
        "trace_id",
        "provenance",
        "on_pending",
        "approval_seconds",
        "fail_open_for",
        "present",
        "on_unsettled",
    ]
    found = {name: value for name, value in vars(kind).items() if not name.startswith("_")}
    assert found.keys() == GUARD_METHODS.keys()
    for name, parameters in GUARD_METHODS.items():
        assert list(inspect.signature(found[name]).parameters) == ["self", *parameters]


def test_options_of_a_guarded_call() -> None:
    assert sorted(guard.CallOptions.__annotations__) == [
        "advertised_digest",
        "attempt",
        "context",
        "effect",
        "failures",
        "on_pending",
        "provenance",
        "resolve",
        "ticket",
        "timeout_seconds",
        "tool_call_id",
        "trace_id",
        "turn_id",
    ]


def test_asking_loads_no_more_than_it_needs() -> None:
    script = "import sys, authz_client; authz_client.Client; print(*sys.modules)"
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert not set(ran.stdout.split()) & {"cryptography", "jwt", "rfc8785", "can_ada", "psycopg", "sqlite3"}


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
        "authority",
        "side_effect",
        "retry_after_ms",
        "errors",
        "operation",
        "shares_written_resource_with",
        "capability",
        "ticket",
        "asked",
    ]


def test_types_ship_with_the_package() -> None:
    assert importlib.resources.files(authz_client).joinpath("py.typed").is_file()

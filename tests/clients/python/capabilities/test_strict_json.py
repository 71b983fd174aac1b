"""The strict loader in the client takes what the service's takes, and nothing else."""

import json
from typing import Any

import pytest
from authz_client.capabilities.digests import request_digest
from authz_client.capabilities.strict_json import NotStrictJson, loads
from hypothesis import given, settings
from hypothesis import strategies as st

from authz.core import fingerprint, strict_json
from authz.errors import MalformedInput

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=4),
    max_leaves=12,
)
PIECES = st.sampled_from(
    [
        '{"a":1',
        ',"a":2}',
        "}",
        "[",
        "]",
        "1e400",
        "-0",
        "NaN",
        "9007199254740992",
        '"\\ud800"',
        '"\\ud83d\\ude00"',
        " ",
        ",",
        '"\\u0061"',
    ]
)


def verdict(data: bytes) -> Any:
    try:
        return "value", repr(loads(data))
    except NotStrictJson:
        return "refused"


def expected(data: bytes) -> Any:
    try:
        return "value", repr(strict_json.loads(data))
    except MalformedInput:
        return "refused"


@given(
    VALUES.map(json.dumps).map(str.encode)
    | st.binary(max_size=12)
    | st.lists(PIECES, max_size=8).map("".join).map(str.encode)
)
@settings(max_examples=600, deadline=None)
def test_the_two_parsers_agree(data: bytes) -> None:
    assert verdict(data) == expected(data)


@pytest.mark.parametrize(
    "text",
    [
        "[" * 64 + "]" * 64,
        "[" * 65 + "]" * 65,
        "[" * 100_000 + "]" * 100_000,
        '{"a":' * 64 + "1" + "}" * 64,
        "[" + ",".join("1" * 9_999) + "]",
        "[" + ",".join("1" * 10_000) + "]",
        '{"a":[' + ",".join(['{"b":1}'] * 5_000) + "]}",
        '"' + "[" * 200 + '"',
        '{"\\ud800":1}',
        '{"a":1,"\\u0061":2}',
        "1" + "0" * 5_000,
        "",
    ],
    ids=range(12),
)
def test_the_two_parsers_agree_at_the_bounds(text: str) -> None:
    assert verdict(text.encode()) == expected(text.encode())


BODIES = st.dictionaries(
    st.text(max_size=6) | st.sampled_from(["capability", "proof", "arguments"]),
    st.recursive(
        st.none()
        | st.booleans()
        | st.integers(-(2**53) + 1, 2**53 - 1)
        | st.floats(allow_nan=False, allow_infinity=False)
        | st.text(max_size=8),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
        max_leaves=8,
    ),
    max_size=5,
)


@given(BODIES)
@settings(max_examples=300, deadline=None)
def test_client_and_service_digest_a_request_alike(body: dict[str, Any]) -> None:
    assert request_digest(body) == fingerprint.request_digest(body)


def test_the_digest_leaves_capability_and_proof_out() -> None:
    body = {"tool": {"server": "fs", "name": "x"}, "arguments": {"é": 1.0}}
    assert request_digest({**body, "capability": ["a"], "proof": "b"}) == request_digest(body)
    assert request_digest({**body, "dry_run": True}) != request_digest(body)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 2**53, "\ud800", {"a": object()}])
def test_what_has_no_canonical_form_has_no_digest(value: Any) -> None:
    with pytest.raises(ValueError, match="no canonical form"):
        request_digest({"arguments": value})

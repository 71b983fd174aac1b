"""Digests: RFC 8785 to the byte, injective on distinct values, and the same for equal ones."""

import base64
import hashlib
import json
import struct
from dataclasses import replace
from typing import Any

import pytest
import rfc8785
from hypothesis import example, given
from hypothesis import strategies as st

from authz.core.fingerprint import (
    advertised_digest,
    canonical_json,
    digest,
    keyed_digest,
    operation_key,
    request_digest,
    session_key,
)
from authz.core.strict_json import MAX_SAFE_INTEGER, loads
from authz.errors import MalformedInput
from authz.model.call import CallIds
from authz.model.decision import Effect
from authz.model.resource import ResolvedPath
from tests.support.shared import vectors
from tests.support.world import CREDENTIALS, Call, call, caller_of, decide_in, world

# All of Unicode but surrogates, with names on both sides of U+D800, where the two sort orders part.
NAMES = st.text(st.characters(exclude_categories=["Cs"]), max_size=4) | st.sampled_from(
    ["\ud7ff", "\ue000", "\ufb33", "\U00010000", "😀", "\uffff", "z\ue000", "z\U00010000"]
)
SCALARS = st.none() | st.booleans() | st.integers(-MAX_SAFE_INTEGER, MAX_SAFE_INTEGER) | NAMES
VALUES = st.recursive(
    SCALARS | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(NAMES, inner, max_size=5),
    max_leaves=25,
)
WORLD = world()


@given(VALUES)
@example({"\ufb33": 1, "😀": 2})
@example({"a": -0.0, "b": 1e21, "c": 1e-7, "d": 5e-324, "e": 1.0})
@example(["\x7f", "\u2028", "\x00", '"', "\\", "/", "<"])
def test_the_fast_path_writes_what_the_library_writes(value: Any) -> None:
    assert canonical_json(value) == rfc8785.dumps(value)


@pytest.mark.parametrize(
    "value", [float("nan"), float("inf"), 2**53, -(2**53), [2**63], {"a": 10**30}, "\ud800"]
)
def test_what_has_no_canonical_form_is_refused(value: Any) -> None:
    with pytest.raises(ValueError, match=r"."):
        canonical_json(value)


def test_a_name_with_a_lone_surrogate_has_no_canonical_form() -> None:
    with pytest.raises(ValueError, match=r"."):
        canonical_json({"\udc00": 1})


@given(VALUES, VALUES)
def test_equal_values_share_a_digest_and_others_do_not(one: Any, other: Any) -> None:
    """FP1. `==` of Python says True == 1, so JSON text is what tells values apart."""
    same = json.dumps(_as_numbers(one), sort_keys=True) == json.dumps(_as_numbers(other), sort_keys=True)
    assert (digest(one) == digest(other)) is same


def _as_numbers(value: Any) -> Any:
    """1.0 and 1 are one JSON number, as are -0 and 0."""
    if isinstance(value, float):
        return int(value) if value.is_integer() and abs(value) <= MAX_SAFE_INTEGER else value
    if isinstance(value, list):
        return [_as_numbers(item) for item in value]
    if isinstance(value, dict):
        return {name: _as_numbers(item) for name, item in value.items()}
    return value


@given(st.dictionaries(NAMES, SCALARS, max_size=6), st.randoms(use_true_random=False))
def test_key_order_and_white_space_change_nothing(members: dict[str, Any], random: Any) -> None:
    """bug-123: equal objects with another key order share the digest."""
    shuffled = list(members.items())
    random.shuffle(shuffled)
    assert digest(dict(shuffled)) == digest(members)
    assert digest(loads(json.dumps(dict(shuffled), indent=3).encode())) == digest(members)


DISTINCT = [
    {}, {"a": None}, {"a": ""}, {"a": "null"}, {"a": []}, {"a": {}}, {"a": 0}, {"a": False}, {"a": "0"},
    {"a": [None]}, {"a": [""]}, {"a": [[]]}, {"a": "1"}, {"a": 1}, {"a": True}, {"a": [1]}, {"a": " "},
    {"a": "é"}, {"a": "e\u0301"}, {"A": 1}, {"a": {"b": 1}}, {"a.b": 1}, {"a": 1, "b": 2}, {"a": [1, 2]},
    {"a": [2, 1]}, {"a": "1,2"}, {"a": ["1,2"]}, {"a": ["1", "2"]},
]  # fmt: skip


def test_absent_null_empty_and_alike_are_all_different() -> None:
    """FP1."""
    assert len({digest(value) for value in DISTINCT}) == len(DISTINCT)


def test_nothing_is_cut_off_before_hashing() -> None:
    """bug-124: inputs that share any prefix have different fingerprints."""
    for length in (200, 256, 300, 4096, 70_000):
        prints = {
            fingerprint(call("fs/file_edit", path="/workspace/a", text="a" * length + last)) for last in "AB"
        }
        assert len(prints) == 2


def test_large_integers_never_become_one_value() -> None:
    """bug-126: 2^53+1 and 2^53 are refused, not rounded to one another."""
    for text in (b'{"id": 9007199254740993}', b'{"id": 9007199254740992}'):
        with pytest.raises(MalformedInput):
            loads(text)


def fingerprint(made: Call, **known: Any) -> str:
    found = decide_in(WORLD, made, **known).decision.fingerprint
    assert found is not None
    return found


EDIT = {"path": "/workspace/a", "text": "x"}


def test_the_fingerprint_is_of_what_is_judged_not_of_how_it_is_spelled() -> None:
    made = call("fs/file_edit", EDIT)
    assert fingerprint(call("fs/file_edit", {"text": "x", "path": "../workspace/./a"})) == fingerprint(made)
    assert fingerprint(call("fs/file_edit", {**EDIT, "append": False})) == fingerprint(made)
    # What is no part of the contract's fingerprint does not change it.
    assert fingerprint(call("fs/file_edit", EDIT, ids=CallIds(trace="t", turn="9", call="c"))) == fingerprint(
        made
    )
    assert fingerprint(call("fs/file_edit", EDIT, ask=True)) == fingerprint(made)
    assert fingerprint(made, now_ms=1) == fingerprint(made)


@pytest.mark.parametrize(
    "other",
    [
        call("fs/file_edit", {**EDIT, "path": "/workspace/b"}),
        call("fs/file_edit", {**EDIT, "text": "y"}),
        call("fs/file_edit", {**EDIT, "append": True}),
        call("fs/file_edit", EDIT, agent="coder-2"),
        call("fs/file_edit", EDIT, user="grace"),
        call("fs/file_edit", EDIT, user=None),
        call("fs/file_edit", EDIT, session="s-2"),
        call("fs/file_edit", EDIT, session=None),
        call("fs/file_edit", EDIT, cwd="/workspace/sub"),
        call("fs/file_edit", EDIT, cwd=None),
        call("fs/file_edit", EDIT, sandbox_root=None),
        call("fs/file_edit", EDIT, sandbox_root="/workspace/sub"),
        call("fs/file_edit", EDIT, resolved={"/path": ResolvedPath(path="/workspace/b")}),
        call("fs/file_edit", EDIT, resolved={"/path": ResolvedPath(path="/workspace/a", device=1, inode=2)}),
        call("fs/file_remove", path="/workspace/a"),
    ],
)
def test_every_part_of_the_contract_is_in_the_fingerprint(other: Call) -> None:
    """Spec section 1; a changed call after a decision is another call (bug-130, bug-131)."""
    assert fingerprint(other) != fingerprint(call("fs/file_edit", EDIT))


def test_tenant_and_descriptor_are_in_the_fingerprint() -> None:
    made = call("fs/file_edit", EDIT)
    tenant = replace(caller_of(WORLD), tenant="other")
    assert fingerprint(made, caller=tenant) != fingerprint(made)
    # The same descriptor in another bundle has the same digest: policy is not fingerprinted.
    other = world('@id("none") permit (principal, action, resource) when { false };', credentials=CREDENTIALS)
    assert decide_in(other, made).decision.effect is Effect.DENY
    assert (
        other.tools[("fs", "file_edit")].descriptor.digest
        == WORLD.tools[("fs", "file_edit")].descriptor.digest
    )


def test_the_request_digest_leaves_out_capability_and_proof_alone() -> None:
    body = {"tool": {"name": "t"}, "arguments": {"capability": 1}}
    assert request_digest({**body, "capability": ["x"], "proof": "y"}) == request_digest(body)
    assert request_digest({**body, "arguments": {}}) != request_digest(body)
    assert request_digest(body) == "sha256:" + hashlib.sha256(rfc8785.dumps(body)).hexdigest()
    assert advertised_digest(body) == digest(body)


def test_operation_keys_do_not_run_into_each_other() -> None:
    made = call("fs/file_edit", EDIT)
    keys = {operation_key(tenant, made) for tenant in ("a", "b")}
    for trace, turn, tool_call in [("1", "23", "4"), ("12", "3", "4"), ("1", "2", "34"), ("", "", "1234")]:
        keys.add(operation_key("a", replace(made, ids=CallIds(trace=trace, turn=turn, call=tool_call))))
    assert len(keys) == 6
    assert operation_key("a", replace(made, ids=CallIds(trace="1", turn="2"))) is None
    assert session_key("a", made) != session_key("b", made)
    assert session_key("a", replace(made, subject=replace(made.subject, session=None))) is None


@given(st.lists(NAMES, max_size=3), st.lists(NAMES, max_size=3))
def test_the_parts_of_a_keyed_digest_do_not_run_into_each_other(one: list[str], other: list[str]) -> None:
    same = keyed_digest(b"k", "p", *one) == keyed_digest(b"k", "p", *other)
    assert same is (one == other)
    assert keyed_digest(b"k", "p", *one) != keyed_digest(b"l", "p", *one)
    assert keyed_digest(b"k", "p", *one) != keyed_digest(b"k", "q", *one)


@pytest.mark.external
def test_the_vectors_of_rfc_8785() -> None:
    checked = 0
    for vector in vectors("jcs_rfc8785"):
        expected = vector["expected"]
        if expected.get("result") == "reject":
            continue
        value = loads(vector["input"]["json_text"].encode())
        assert canonical_json(value).hex() == expected["canonical_utf8_hex"], vector["id"]
        if "sha256_b64url" in expected:
            raw = base64.urlsafe_b64decode(expected["sha256_b64url"] + "=")
            assert digest(value) == f"sha256:{raw.hex()}"
        checked += 1
    assert checked >= 10


@pytest.mark.external
def test_the_numbers_of_rfc_8785() -> None:
    for vector in vectors("jcs_numbers"):
        (number,) = struct.unpack(">d", bytes.fromhex(vector["input"]["ieee754_hex"]))
        if vector["expected"].get("result") == "reject":
            with pytest.raises(ValueError, match="not representable"):
                canonical_json(number)
        else:
            assert canonical_json(number).decode() == vector["expected"]["json_number"], vector["id"]

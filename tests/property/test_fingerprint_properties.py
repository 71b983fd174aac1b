"""FP1 to FP3 at the decision: what was approved is one canonical call, and no other runs on it.

That digests are injective and blind to the order of keys: `tests/unit/core/test_fingerprint.py`. That there
is one parser, and what it refuses: `tests/unit/core/test_strict_json.py`.
"""

import copy
import json
from functools import cache
from typing import Any, Final

import pytest
from hypothesis import assume, given, reject
from hypothesis import strategies as st

from authz.core.decide import Outcome
from authz.core.facts import NO_APPROVALS
from authz.core.ruleset import Ruleset
from authz.core.strict_json import loads
from authz.errors import MalformedInput
from authz.model.decision import Effect
from tests.support.world import PERMIT_ALL, TEXT, call, decide_in, tool, tool_file, world, yes_to

POLICY: Final = f'{PERMIT_ALL} @id("ask") @requires("approval") forbid (principal, action, resource);'
TOOLS: Final = tool_file(
    "db",
    tool(
        "put",
        [{"verb": "write", "kind": "id", "type": "row", "at": "/key"}],
        {
            "key": TEXT,
            "note": {"type": ["string", "null"], "default": ""},
            "count": {"type": "number", "default": 0},
            "tags": {"type": "array", "items": TEXT, "default": []},
        },
        roles={"/note": "payload"},
    ),
)
ARGUMENTS: Final = st.fixed_dictionaries(
    {"key": st.sampled_from(["a", "b", "é", "x y"])},
    optional={
        "note": st.one_of(st.none(), st.text(max_size=6)),
        "count": st.one_of(
            st.integers(-(2**53) + 1, 2**53 - 1), st.floats(allow_nan=False, allow_infinity=False)
        ),
        "tags": st.lists(st.text(max_size=3), max_size=3),
    },
)


@cache
def ruleset() -> Ruleset:
    return world(POLICY, tools=TOOLS)


def decided(arguments: Any, approved: Any = None) -> Outcome:
    """The decision where a call with the arguments `approved` was said yes to."""
    yes = NO_APPROVALS if approved is None else yes_to(ruleset(), call("db/put", approved))
    return decide_in(ruleset(), call("db/put", arguments), approvals=yes)


def fingerprint(arguments: Any) -> str:
    outcome = decided(arguments)
    assert outcome.decision.effect is Effect.REQUIRE_APPROVAL, outcome.decision
    assert outcome.decision.fingerprint is not None
    return outcome.decision.fingerprint


@given(ARGUMENTS, st.randoms(use_true_random=False), st.sampled_from([None, 1, "\t"]), st.booleans())
def test_fp1_the_bytes_of_a_request_are_its_spelling_only(
    arguments: dict[str, Any], shuffle: Any, indent: Any, ascii_only: bool
) -> None:
    members = list(arguments.items())
    shuffle.shuffle(members)
    text = json.dumps(dict(members), indent=indent, ensure_ascii=ascii_only)
    again = loads(text.encode())
    assert fingerprint(again) == fingerprint(arguments)
    assert decided(again, arguments).decision.effect is Effect.ALLOW


FULL: Final[dict[str, Any]] = {"note": "", "count": 0, "tags": []}


@given(ARGUMENTS, ARGUMENTS)
def test_fp1_calls_that_differ_have_other_fingerprints(one: dict[str, Any], other: dict[str, Any]) -> None:
    """An argument that is left out has its default, so it is the same as giving that."""
    alike = json.dumps(FULL | one, sort_keys=True) == json.dumps(FULL | other, sort_keys=True)
    assume(alike or FULL | one != FULL | other)  # `1` and `1.0` are one number to JSON
    assert (fingerprint(one) == fingerprint(other)) is alike


@given(ARGUMENTS, st.data())
def test_fp2_a_change_after_the_approval_needs_its_own(
    arguments: dict[str, Any], data: st.DataObject
) -> None:
    changed = copy.deepcopy(FULL | arguments)
    member = data.draw(st.sampled_from(["key", "note", "count", "tags"]))
    if member == "count":
        changed["count"] = 7 if changed["count"] != 7 else 8
    elif member == "tags":
        changed["tags"] = [*changed["tags"], data.draw(st.sampled_from(["", "x"]))]
    else:
        changed[member] = f"{changed[member] or ''}x"
    try:
        anew = decided(changed, arguments)
    except ValueError:
        reject()  # denied before rules are asked: nobody approves it
    assert anew.decision.effect is Effect.REQUIRE_APPROVAL
    assert decided(arguments, arguments).decision.effect is Effect.ALLOW


@given(ARGUMENTS, st.sampled_from(["duplicate", "large", "nan", "surrogate", "bytes"]))
def test_fp3_what_two_readers_may_read_differently_is_read_by_none(
    arguments: dict[str, Any], how: str
) -> None:
    text = json.dumps(arguments).encode()
    damaged = {
        "duplicate": text[:-1] + b', "key": "a"}',
        "large": text[:-1] + b', "count2": 9007199254740993}',
        "nan": text[:-1] + b', "count2": NaN}',
        "surrogate": text[:-1] + b', "note2": "\\ud800"}',
        "bytes": text[:-1] + b', "note2": "\xff"}',
    }[how]
    with pytest.raises(MalformedInput):
        loads(damaged)

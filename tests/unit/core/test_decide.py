"""The stages in their order: the earliest decides, and nothing that a requester adds lowers anything."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from authz.model.call import Call
from authz.model.decision import Code, Effect, Next, Stage, strictest
from authz.model.resource import ResolvedPath
from tests.support.world import (
    CREDENTIALS,
    FS,
    NO_IDS,
    PERMIT_ALL,
    TEXT,
    call,
    caller_of,
    decide_in,
    record_of,
    rules_of,
    source,
    tool,
    tool_file,
    world,
)

RULES = """
@id("work") permit (principal, action, resource in Directory::"/workspace");
@id("net") permit (principal, action in Action::"connect", resource);
@id("pay") permit (principal, action in Action::"transact", resource);
@id("no") forbid (principal, action, resource in Directory::"/workspace/no");
@id("ask") @requires("approval") @reason("look first.")
  forbid (principal, action in Action::"transact", resource);
@id("sink") forbid (principal, action in Action::"send", resource);
"""
WORLD = world(RULES, credentials=CREDENTIALS + "  other: {agents: ['*'], users: ['*']}\n")
EDIT = call("fs/file_edit", path="/workspace/a", text="x")
READ = call("fs/file_read", path="/workspace/a")
PAY = call("bank/transfer", to="a-1", amount=5)

# One call each that ends at a stage, in the order of the stages.
WRONG_DIGEST = "sha256:" + "b" * 64
ENDS: list[tuple[Call, Stage, Code]] = [
    (call("fs/nothing"), Stage.TOOL, Code.TOOL_UNKNOWN),
    (call("nowhere/file_read", path="/workspace/a"), Stage.TOOL, Code.TOOL_UNKNOWN),
    (call("bank/mail_send", to="a@example.com", body=""), Stage.TOOL, Code.TOOL_UNKNOWN),
    (call("web/fetch", url="https://example.com/", digest=None), Stage.TOOL, Code.TOOL_DIGEST_REQUIRED),
    (call("web/fetch", url="https://example.com/", digest=WRONG_DIGEST), Stage.TOOL, Code.TOOL_CHANGED),
    (call("fs/file_edit", path="/workspace/a"), Stage.SCHEMA, Code.SCHEMA_INVALID),
    (call("fs/file_edit", path="/workspace/\x00", text=""), Stage.CANONICAL, Code.CANONICAL_REFUSED),
    (
        call("fs/file_edit", path="/workspace/a", text="", ids=NO_IDS),
        Stage.OPERATION,
        Code.OPERATION_IDS_REQUIRED,
    ),
    (call("fs/file_read", path="/workspace/a", capability=("x",)), Stage.CAPABILITY, Code.CAPABILITY_PROOF),
    (call("fs/file_read", path="/workspace/a", proof="x"), Stage.CAPABILITY, Code.CAPABILITY_INVALID),
    (call("fs/file_read", path="/workspace/no/a"), Stage.POLICY, Code.POLICY_FORBID),
    (call("fs/file_read", path="/etc/passwd"), Stage.POLICY, Code.POLICY_NO_MATCH),
    (PAY, Stage.APPROVAL, Code.APPROVAL_REQUIRED),
    (replace(READ, ask=True), Stage.APPROVAL, Code.APPROVAL_REQUESTED),
    (READ, Stage.POLICY, Code.POLICY_PERMIT),
]


@pytest.mark.parametrize(("made", "stage", "code"), ENDS, ids=lambda part: getattr(part, "value", None))
def test_a_decision_names_the_stage_that_settled_it(made: Call, stage: Stage, code: Code) -> None:
    """AU1: and its one record says the same as the answer."""
    outcome = decide_in(WORLD, made)
    decision = outcome.decision
    assert (decision.stage, decision.code) == (stage, code)
    assert (decision.effect is Effect.ALLOW) == (code is Code.POLICY_PERMIT)
    record = record_of(WORLD, made, outcome)
    for name in ("effect", "stage", "code", "fingerprint", "policy_version"):
        value = getattr(decision, name)
        assert record[name] == (getattr(value, "value", value))
    assert [rule["rule"] for rule in record["matched"]] == rules_of(outcome)
    assert record["tool"]["descriptor_digest"] == decision.descriptor_digest
    assert record["subject"]["agent"] == "coder-1"
    if decision.effect is not Effect.ALLOW:
        assert decision.message
        assert decision.next
        assert (decision.lease, decision.idempotency_key, decision.expires_at_ms) == (None, None, None)
        assert decision.exposes == frozenset()


def test_every_code_can_come_out() -> None:
    reached = {code for _, _, code in ENDS}
    reached |= {Code.POLICY_ERROR}  # test_policy_engine
    reached |= {code for code in Code if code.value.startswith("operation.")}  # test_operation
    reached |= {Code.APPROVAL_GRANTED}  # test_operation
    reached |= {Code.APPROVAL_DENIED}  # test_approval_match
    reached |= {Code.APPROVAL_TOO_MANY_PENDING, Code.APPROVAL_ASKED_TOO_OFTEN}  # test_approval_limits
    reached |= {Code.CANONICAL_TOO_MANY}  # test_tools
    reached |= {Code.LIMIT_RATE, Code.LIMIT_CONCURRENCY, Code.LIMIT_COST}  # test_limits
    reached |= {code for code in Code if code.value.startswith("capability.")}  # test_capability, test_budget
    assert reached == set(Code)


def test_the_earliest_stage_decides() -> None:
    """A call with a fault at every later stage as well ends at the first."""
    bad: dict[str, Any] = {"ids": NO_IDS, "capability": ("x",), "ask": True}
    faults = [
        (call("fs/nothing", path="\x00", **bad), Stage.TOOL),
        (call("web/fetch", url=5, digest=WRONG_DIGEST, **bad), Stage.TOOL),
        (call("fs/file_edit", path="/etc/\x00", **bad), Stage.SCHEMA),
        (call("fs/file_edit", path="/etc/\x00", text="", **bad), Stage.CANONICAL),
        (call("fs/file_edit", path="/etc/passwd", text="", **bad), Stage.OPERATION),
        (call("fs/file_read", path="/etc/passwd", capability=("x",), ask=True), Stage.CAPABILITY),
        (call("fs/file_read", path="/etc/passwd", ask=True), Stage.POLICY),
    ]
    for made, stage in faults:
        decision = decide_in(WORLD, made).decision
        assert (decision.effect, decision.stage) == (Effect.DENY, stage)


def test_unknown_unbound_and_hidden_get_the_same_answer() -> None:
    """A tool that the subject may not see is unknown to it; only the record tells them apart."""
    unbound = caller_of(WORLD, "other")
    hidden = call("bank/mail_send", to="a@example.com", body="")
    outcomes = [
        decide_in(WORLD, call("fs/nothing")),
        decide_in(WORLD, call("nothing/nothing")),
        decide_in(WORLD, READ, caller=unbound),
        decide_in(WORLD, hidden),
        # An invalid call, or one with a wrong digest, learns no more of it.
        decide_in(WORLD, call("bank/mail_send", digest=WRONG_DIGEST)),
    ]
    answers = {
        (
            found.decision.stage,
            found.decision.code,
            found.decision.message,
            found.decision.next,
            found.decision.errors,
        )
        for found in outcomes
    }
    assert len(answers) == 1
    assert all(found.decision.descriptor_digest is None for found in outcomes)
    # bug-193: the auditor can tell a policy's denial from a tool that does not exist.
    record = record_of(WORLD, hidden, outcomes[3])
    assert "sink" in record["internal"]
    assert "sink" not in outcomes[3].decision.message


def test_the_digest_of_a_local_tool_may_be_left_out_and_not_of_another() -> None:
    assert decide_in(WORLD, replace(READ, advertised_digest=None)).decision.effect is Effect.ALLOW
    made = call("web/fetch", url="https://example.com/")
    assert decide_in(WORLD, made).decision.effect is Effect.ALLOW
    for digest, code in (
        (None, Code.TOOL_DIGEST_REQUIRED),
        ("", Code.TOOL_CHANGED),
        (WRONG_DIGEST, Code.TOOL_CHANGED),
    ):
        assert decide_in(WORLD, replace(made, advertised_digest=digest)).decision.code is code


def test_a_pinned_local_tool_that_changed_is_changed() -> None:
    """MC4: a digest that is sent is compared, also where none is required."""
    pinned = tool(
        "t", [{"verb": "read", "kind": "path", "at": "/a"}], {"a": TEXT}, advertised_digest=WRONG_DIGEST
    )
    ruleset = world(tools=tool_file("x", pinned))
    assert decide_in(ruleset, call("x/t", a="/a")).decision.code is Code.TOOL_CHANGED
    assert decide_in(ruleset, call("x/t", a="/a", digest=WRONG_DIGEST)).decision.effect is Effect.ALLOW


def test_a_request_for_a_person_raises_an_allow_and_nothing_else() -> None:
    outcome = decide_in(WORLD, replace(EDIT, ask=True))
    assert (outcome.decision.effect, rules_of(outcome)) == (Effect.REQUIRE_APPROVAL, ["authz:caller-asked"])
    assert [rule.rule for rule in outcome.decision.overruled] == ["work"]
    for made, _, code in ENDS:
        if code not in (Code.POLICY_PERMIT, Code.APPROVAL_REQUESTED):
            assert decide_in(WORLD, replace(made, ask=True)).decision.code is code


def test_a_refusal_is_in_words_that_a_model_can_use() -> None:
    """bug-188, bug-189: what the caller got is what the record says."""
    outcome = decide_in(WORLD, PAY)
    assert outcome.decision.message == "a person must approve this: `ask`. look first."
    denied = decide_in(WORLD, call("fs/file_read", path="/workspace/no"))
    assert denied.decision.message.startswith("forbidden by `no`")
    assert Next.CHANGE_ARGUMENTS in denied.decision.next
    assert "/etc" not in decide_in(WORLD, call("fs/file_read", path="/etc/x")).decision.message


def test_a_tree_is_never_allowed_by_its_root_alone() -> None:
    """A rule forbids `/workspace/no`: what lies above it is not removed, what lies beside it is."""
    for path in ("/workspace", "/workspace/no", "/workspace/no/deeper"):
        outcome = decide_in(WORLD, call("fs/file_remove", path=path, recursive=True))
        assert (outcome.decision.effect, rules_of(outcome)) == (Effect.DENY, ["no"]), path
    beside = decide_in(WORLD, call("fs/file_remove", path="/workspace/node", recursive=True))
    assert beside.decision.effect is Effect.ALLOW


CALLS = [made for made, _, _ in ENDS] + [
    EDIT,
    call("fs/file_copy", {"from": "/workspace/a", "to": "/workspace/b"}),
]
FLAGS = st.fixed_dictionaries(
    {},
    optional={
        "ask": st.just(True),
        "dry_run": st.just(True),
        "capability": st.just(("eyJ",)),
        "proof": st.just("eyJ"),
        "versions": st.just({"model": "trusted", "policy": "none"}),
        "occurred_at": st.just("2000-01-01T00:00:00Z"),
        "provenance": st.just({(): source("model", trust="trusted")}),
    },
)
CLAIMED = st.fixed_dictionaries(
    {},
    optional={
        "resolved": st.dictionaries(
            st.sampled_from(["/path", "/from", "/to", ""]),
            st.sampled_from(["/workspace/ok", "/etc", "/workspace/no", "x"]).map(
                lambda path: ResolvedPath(path=path)
            ),
        ),
    },
)


@given(st.sampled_from(CALLS), FLAGS, CLAIMED)
def test_nothing_that_a_requester_adds_lowers_the_effect(
    made: Call, flags: dict[str, Any], claimed: Any
) -> None:
    """AP7: any claim about itself, flag or credential can only make the answer stricter."""
    plain = decide_in(WORLD, made).decision.effect
    louder = replace(made, **flags, claims=replace(made.claims, **claimed))
    assert (
        strictest([plain, decide_in(WORLD, louder).decision.effect])
        is decide_in(WORLD, louder).decision.effect
    )


@given(st.sampled_from(CALLS), st.sampled_from(["no", "ask"]), st.sampled_from(["", '@requires("approval")']))
def test_adding_a_forbid_never_loosens_anything(made: Call, name: str, mark: str) -> None:
    """DE2, PE4: more rules that refuse, no more that is allowed."""
    more = world(
        RULES
        + f'@id("more-{name}") {mark} forbid (principal, action, resource in Directory::"/workspace/a");'
    )
    before, after = decide_in(WORLD, made).decision.effect, decide_in(more, made).decision.effect
    assert strictest([before, after]) is after


def test_every_decision_is_a_function_of_call_and_facts() -> None:
    """PE2."""
    for made in CALLS:
        assert decide_in(WORLD, made) == decide_in(
            world(RULES, credentials=CREDENTIALS + "  other: {agents: ['*'], users: ['*']}\n"), made
        )


def test_nothing_to_judge_is_a_deny() -> None:
    assert strictest([]) is Effect.DENY
    assert strictest([Effect.ALLOW, Effect.REQUIRE_APPROVAL]) is Effect.REQUIRE_APPROVAL
    assert strictest([Effect.REQUIRE_APPROVAL, Effect.DENY, Effect.ALLOW]) is Effect.DENY


def test_results_expose_the_session_by_what_was_reviewed() -> None:
    returned = tool(
        "t", [{"verb": "read", "kind": "path", "at": "/a"}], {"a": TEXT}, returns={"labels": ["finance"]}
    )
    trusted = tool(
        "u", [{"verb": "read", "kind": "path", "at": "/a"}], {"a": TEXT}, returns={"trust": "trusted"}
    )
    ruleset = world(PERMIT_ALL, tools=tool_file("x", returned, trusted))
    assert decide_in(ruleset, call("x/t", a="/a")).decision.exposes == {"finance", "untrusted"}
    assert decide_in(ruleset, call("x/u", a="/a")).decision.exposes == frozenset()
    assert FS  # the default tools say nothing of their results, so those are untrusted
    assert decide_in(WORLD, READ).decision.exposes == {"untrusted"}

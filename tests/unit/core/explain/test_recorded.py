"""A recorded decision explained: what was recorded, what holds now, and what nobody can tell."""

import json
from typing import Any

import pytest

from authz.bundle.cases import parse_cases
from authz.cli.decisions_show import as_test
from authz.core.cases.judging import judge
from authz.core.decide import decide
from authz.core.explain.recorded import explain_record, facts_of_record
from authz.core.log_chain import frame_record
from authz.core.record import decision_event
from authz.core.redact import Redactor
from authz.core.ruleset import Ruleset
from authz.model.call import Call
from tests.support.world import NOW_MS, TEXT, call, facts, source, tool, tool_file, world

RULES = """@id("writes") permit (principal, action in Action::"write", resource in Directory::"/workspace");
@id("reads") permit (principal, action in Action::"read", resource);
@id("mail") permit (principal, action in Action::"send", resource);
@id("secrets") forbid (principal, action, resource in Directory::"/workspace/.secrets");
"""
ABOUT_TEXT = """@id("no-todo") forbid (principal, action == Action::"fs/file_edit:write:A1", resource)
when { context.sandboxed && context.arguments.text like "*TODO*" };
"""
EDIT = call("fs/file_edit", path="/workspace/a", text="a secret text", provenance={"/path": source("user")})


def record_of(ruleset: Ruleset, asked: Call, **known: Any) -> dict[str, Any]:
    """The record that the decision leaves in the log."""
    given = facts(ruleset, **known)
    event = decision_event(
        asked, decide(asked, given), given.caller, ruleset, Redactor(bytes(32)), NOW_MS, given.exposed
    )
    text = frame_record(event, writer="w", sequence=1, previous="0" * 64, recorded_at_ms=NOW_MS)
    record: dict[str, Any] = json.loads(text)
    return record


def explained(record: dict[str, Any], ruleset: Ruleset, **options: Any) -> dict[str, Any]:
    return explain_record(record, facts_of_record(record, ruleset, **options))


def stage(told: dict[str, Any], name: str) -> dict[str, Any]:
    found: dict[str, Any] = next(report for report in told["stages"] if report["stage"] == name)
    return found


def test_under_the_same_policy_what_holds_now_is_what_was_recorded() -> None:
    ruleset = world(RULES)
    for asked in (
        call("fs/file_read", path="/workspace/a"),
        call("fs/file_read", path="/workspace/.secrets/key"),
        call("fs/file_edit", path="/etc/a", text=""),
        call("fs/file_remove", path="/workspace/a"),
        call("fs/nothing", path="/workspace/a"),
        EDIT,
    ):
        told = explained(record_of(ruleset, asked), ruleset)
        recorded = told["recorded"]
        assert recorded["same_policy"]
        assert recorded["agrees"] is True, (asked, recorded)
        assert recorded["not_reevaluated"] == []
        assert told["decision"]["effect"] == recorded["effect"]


def test_another_policy_shows_both_verdicts() -> None:
    record = record_of(world(RULES), EDIT)
    told = explained(record, world(RULES.replace("/workspace/.secrets", "/workspace")))
    assert (told["recorded"]["effect"], told["decision"]["effect"]) == ("allow", "deny")
    assert (told["recorded"]["same_policy"], told["recorded"]["agrees"]) == (False, False)
    assert [rule["rule"] for rule in told["decision"]["matched"]] == ["secrets"]


def test_a_redacted_value_is_named_and_what_stands_in_for_it_is_never_shown() -> None:
    ruleset = world(RULES)
    told = explained(record_of(ruleset, EDIT), ruleset)
    assert told["recorded"]["redacted"] == ["/arguments/text"]
    assert told["recorded"]["arguments"]["path"] == "/workspace/a"
    assert stage(told, "schema")["input"]["arguments"]["text"]["redacted"].startswith("hmac-sha256:")
    assert "xxx" not in json.dumps(told)
    # It was computed over what stands in.
    assert told["decision"]["fingerprint"] is None
    assert stage(told, "operation")["output"]["fingerprint"] is None


def test_a_rule_that_reads_a_redacted_value_leaves_the_verdict_open() -> None:
    ruleset = world(RULES + ABOUT_TEXT)
    told = explained(record_of(ruleset, EDIT), ruleset)
    assert told["decision"] is None
    assert told["recorded"]["effect"] == "allow"
    assert told["recorded"]["agrees"] is None
    assert told["recorded"]["not_reevaluated"] == [
        "rule `no-todo` reads a redacted value, and the verdict depends on it"
    ]
    (access,) = told["accesses"]
    assert (access["effect"], access["depends_on"]) == (None, ["no-todo"])
    open_rule = next(rule for rule in access["examined"] if rule["rule"] == "no-todo")
    assert open_rule["status"] == "unknown"
    assert [part["value"] for part in open_rule["conditions"]] == ["true", "true", "unknown"]
    assert stage(told, "policy")["outcome"] == "not_reached"


def test_a_redacted_value_does_not_matter_where_a_known_condition_already_fails() -> None:
    ruleset = world(RULES + ABOUT_TEXT.replace("context.sandboxed", "context.resolved"))
    told = explained(record_of(ruleset, EDIT), ruleset)
    assert told["recorded"]["agrees"] is True


def test_a_known_forbid_denies_whatever_a_redacted_value_is() -> None:
    ruleset = world(RULES + ABOUT_TEXT)
    asked = call("fs/file_edit", path="/workspace/.secrets/a", text="TODO: more")
    told = explained(record_of(ruleset, asked), ruleset)
    assert told["decision"]["effect"] == "deny"
    # What matched by the redacted value alone is not claimed now.
    assert told["recorded"]["agrees"] is True
    assert [rule["rule"] for rule in told["decision"]["matched"]] == ["secrets"]
    assert [rule["rule"] for rule in told["recorded"]["matched"]] == ["no-todo", "secrets"]


def test_a_redacted_resource_is_not_re_evaluated() -> None:
    ruleset = world(RULES)
    secret = call("fs/file_read", path="/workspace/a", provenance={"/path": source("secret")})
    told = explained(record_of(ruleset, secret), ruleset)
    assert (told["decision"], told["stages"]) == (None, [])
    assert told["recorded"]["not_reevaluated"] == ["`/path` is redacted, and it says what is accessed"]


def test_a_call_with_a_capability_is_not_re_evaluated() -> None:
    ruleset = world(RULES)
    record = record_of(ruleset, call("fs/file_read", path="/workspace/a", capability=("e30.e30.e30",)))
    told = explained(record, ruleset)
    assert told["decision"] is None
    assert told["recorded"]["not_reevaluated"] == ["`/capability/0` is redacted"]


def test_a_default_keeps_the_origin_that_it_had() -> None:
    ruleset = world(
        RULES
        + '@id("odd") forbid (principal, action, resource) when { context.untrusted.contains("option") };'
    )
    filled_in = call("fs/file_edit", path="/workspace/a", text="x", provenance={"/path": source("user")})
    sent = call(
        "fs/file_edit", path="/workspace/a", text="x", append=False, provenance={"/path": source("user")}
    )
    for asked, effect in ((filled_in, "allow"), (sent, "deny")):
        told = explained(record_of(ruleset, asked), ruleset)
        assert told["recorded"]["effect"] == effect
        assert told["recorded"]["agrees"] is True


def test_exposure_and_time_are_those_of_the_record() -> None:
    ruleset = world(
        RULES
        + """@id("exposed") forbid (principal, action in Action::"send", resource)
        when { context.session.exposed.contains("private") };
        @id("late") forbid (principal, action, resource)
        when { context.now > datetime("2026-12-01T00:00:00Z") };"""
    )
    asked = call("bank/mail_send", to="a@example.com", body="x")
    record = record_of(ruleset, asked, exposed={"private"})
    assert [rule["rule"] for rule in explained(record, ruleset)["decision"]["matched"]] == ["exposed"]
    later = explained(record, ruleset, at_ms=NOW_MS + 86_400_000)
    assert [rule["rule"] for rule in later["decision"]["matched"]] == ["exposed", "late"]


def test_a_profile_that_is_gone_may_assert_nothing() -> None:
    ruleset = world(RULES)
    record = record_of(ruleset, EDIT)
    record["caller"]["profile"] = "gone"
    told = explained(record, ruleset)
    assert told["subject_refused"] == "this credential may not act as that agent"
    assert told["decision"] is None


BOMB = {"redacted": "x", "length": 2**31}
LOOKALIKES: list[Any] = [
    BOMB,
    {"redacted": "x", "length": True},
    {"redacted": "x", "length": -1},
    "<<fill in: x>>",
    "hmac-sha256:" + "0" * 32,
]
ODD = tool_file(
    "x",
    tool(
        "note",
        [{"verb": "read", "kind": "path", "at": "/path"}],
        {"path": TEXT, "about": {}, "text": TEXT},
        required=["path"],
        roles={"/text": "payload"},
    ),
)


@pytest.mark.parametrize("value", LOOKALIKES, ids=str)
def test_a_clear_argument_that_looks_redacted_is_what_was_sent(value: Any) -> None:
    ruleset = world(tools=ODD)
    record = record_of(ruleset, call("x/note", path="/workspace/a", about=value, text="y"))
    assert record["arguments"]["about"] == value
    told = explained(record, ruleset)
    assert told["recorded"]["redacted"] == ["/arguments/text"]
    assert told["recorded"]["agrees"] is True
    assert told["recorded"]["not_reevaluated"] == []


@pytest.mark.parametrize("name", ["<<fill in: x>>", "hmac-sha256:" + "0" * 32])
def test_a_clear_resource_that_looks_redacted_is_re_evaluated(name: str) -> None:
    ruleset = world(RULES)
    record = record_of(ruleset, call("fs/file_read", path=f"/workspace/{name}"))
    told = explained(record, ruleset)
    assert (told["recorded"]["redacted"], told["recorded"]["agrees"]) == ([], True)


@pytest.mark.parametrize("length", [2**31, True, -1, "1", None])
def test_no_text_stands_in_whose_length_cannot_be(length: Any) -> None:
    ruleset = world(RULES)
    record = record_of(ruleset, EDIT)
    record["arguments"]["text"]["length"] = length
    told = explained(record, ruleset)
    assert told["decision"] is None
    (note,) = told["recorded"]["not_reevaluated"]
    assert "longer than a request may be" in note or "redacted in part" in note


def test_of_an_earlier_record_what_looks_redacted_is_not_judged() -> None:
    ruleset = world(tools=ODD)
    record = record_of(ruleset, call("x/note", path="/workspace/a", about=BOMB))
    del record["redacted"], record["defaulted"]
    told = explained(record, ruleset)
    assert told["decision"] is None
    assert told["recorded"]["redacted"] == ["/arguments/about"]
    assert told["recorded"]["not_reevaluated"] == [
        "the record is of an earlier version, which does not say what was redacted"
    ]


def test_of_an_earlier_record_arguments_that_may_be_defaults_are_not_judged() -> None:
    ruleset = world(RULES)
    for asked, agrees in (
        (call("fs/file_remove", path="/workspace/a"), None),
        (call("fs/file_read", path="/workspace/a"), True),
    ):
        record = record_of(ruleset, asked)
        del record["redacted"], record["defaulted"]
        told = explained(record, ruleset)
        assert told["recorded"]["agrees"] is agrees
        assert bool(told["recorded"]["not_reevaluated"]) is (agrees is None)


def test_a_pasted_decision_keeps_the_origin_of_a_default() -> None:
    odd = '@id("odd") forbid (principal, action, resource) when { context.untrusted.contains("option") };'
    ruleset = world(RULES + odd)
    asked = {"path": "/workspace/a", "text": ""}
    for more, effect in (({}, "allow"), ({"append": False}, "deny")):
        made = call("fs/file_edit", provenance={"/path": source("user")}, **asked, **more)
        record = record_of(ruleset, made)
        assert record["effect"] == effect
        (case,) = parse_cases("tests/f.yaml", f"cases:\n{as_test(record)}".encode())
        assert case.body["arguments"] == asked | more
        assert judge(case, ruleset).passed

"""How far a value from a tool's result is believed (PR1: the least of everything it may have come from)."""

import pytest

from authz.model.decision import Effect
from tests.support.world import call, decide_in, source, tool, tool_file, world

TEXT = {"type": "string"}
LOOKUP = tool(
    "lookup",
    [{"verb": "read", "kind": "id", "type": "person", "at": "/name"}],
    {"name": TEXT},
    returns={
        "trust": "trusted",
        "fields": {
            "/note": {"trust": "untrusted"},
            "/people/*/email": {"trust": "untrusted", "labels": ["secret"]},
            "/people/*/id": {"trust": "trusted"},
        },
    },
)
SEND = tool(
    "send",
    [{"verb": "send", "kind": "email", "at": "/to"}],
    {"to": TEXT},
    roles={"/to": "destination"},
    side_effect="cumulative",
)
TOOLS = {
    "p": tool_file("p", LOOKUP),
    "q": tool_file("q", LOOKUP, profiles=["other"]),
    "m": tool_file("m", SEND),
}
CREDENTIALS = """\
profiles:
  runtime:
    agents: ["*"]
    users: ["*"]
    sources: [user, tool_result, web, email, file]
  other:
    agents: ["*"]
"""
RULES = """
@id("all") permit (principal, action, resource);
@id("untrusted") forbid (principal, action in Action::"send", resource)
when { context.untrusted.contains("destination") };
@id("secret") forbid (principal, action in Action::"send", resource)
when { context.secret.contains("destination") };
"""
WORLD = world(RULES, tools=TOOLS, credentials=CREDENTIALS)


def rules_for(origin: str, **claim: object) -> list[str]:
    made = call("m/send", to="a@example.com", provenance={"/to": source(origin, **claim)})
    decision = decide_in(WORLD, made).decision
    assert (decision.effect is Effect.ALLOW) == (
        not {rule.rule for rule in decision.matched} & {"untrusted", "secret"}
    )
    return sorted(rule.rule for rule in decision.matched if rule.rule != "all")


@pytest.mark.parametrize(
    ("field", "expected"),
    [
        (("name",), []),
        (("people", "0", "id"), []),
        (("note",), ["untrusted"]),
        (("note", "first"), ["untrusted"]),
        (("people", "0", "email"), ["secret", "untrusted"]),
        (("people", "0"), ["secret", "untrusted"]),
        (("people",), ["secret", "untrusted"]),
        ((), ["secret", "untrusted"]),
        (None, ["secret", "untrusted"]),
    ],
)
def test_a_part_of_a_result_is_worth_the_least_of_what_is_in_it(
    field: tuple[str, ...] | None, expected: list[str]
) -> None:
    assert rules_for("tool_result", tool="p/lookup", field=field) == expected


@pytest.mark.parametrize("origin", ["web", "email", "file"])
def test_another_source_is_not_raised_by_naming_a_tool(origin: str) -> None:
    assert rules_for(origin, tool="p/lookup", field=("name",)) == ["untrusted"]


@pytest.mark.parametrize("named", ["q/lookup", "p/none", "none/lookup"])
def test_a_tool_that_this_credential_cannot_have_used_vouches_for_nothing(named: str) -> None:
    assert rules_for("tool_result", tool=named, field=("name",)) == ["untrusted"]


@pytest.mark.parametrize("place", ["", "/to", "/to/0"])
def test_a_secret_above_or_below_a_leaf_is_a_secret_leaf(place: str) -> None:
    made = call(
        "m/send",
        to="a@example.com",
        provenance={"/to": source("user")} | {place: source("user", labels=["secret"])},
    )
    assert "secret" in {rule.rule for rule in decide_in(WORLD, made).decision.matched}


def test_a_session_that_is_not_named_may_have_read_anything() -> None:
    rules = """
    @id("all") permit (principal, action, resource);
    @id("exposed") forbid (principal, action in Action::"send", resource)
    when { context.session.exposed.containsAll(["untrusted", "secret"]) };
    """
    ruleset = world(rules, tools=TOOLS, credentials=CREDENTIALS)
    made = {"to": "a@example.com"}
    assert decide_in(ruleset, call("m/send", made)).decision.effect is Effect.ALLOW
    unnamed = decide_in(ruleset, call("m/send", made, session=None)).decision
    assert [rule.rule for rule in unnamed.matched] == ["exposed"]


@pytest.mark.parametrize("turned", [False, True])
def test_of_equally_near_descriptions_the_stricter_holds_in_any_order(turned: bool) -> None:
    fields = [("/*/id", {"trust": "trusted"}), ("/peer/*", {"trust": "untrusted"})]
    described = {
        **LOOKUP,
        "returns": {"trust": "trusted", "fields": dict(fields[::-1] if turned else fields)},
    }
    ruleset = world(RULES, tools={**TOOLS, "p": tool_file("p", described)}, credentials=CREDENTIALS)
    claim = source("tool_result", tool="p/lookup", field=("peer", "id"))
    decision = decide_in(ruleset, call("m/send", to="a@example.com", provenance={"/to": claim})).decision
    assert [rule.rule for rule in decision.matched] == ["untrusted"]


def test_a_label_of_a_tool_that_the_credential_cannot_use_is_not_lost() -> None:
    assert rules_for("tool_result", tool="q/lookup", field=("people", "0", "email")) == [
        "secret",
        "untrusted",
    ]

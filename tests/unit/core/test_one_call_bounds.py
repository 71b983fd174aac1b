"""One call stays within bounds, and no part of it is left unjudged."""

import pytest

from authz.core.tools import MAX_ACCESSES
from authz.model.decision import Code, Effect, Stage
from authz.model.resource import ResolvedPath
from tests.support.world import call, decide_in, rules_of, tool, tool_file, world

SECRET = '@id("secret") forbid (principal, action, resource in Directory::"/workspace/secret");'
TEXT = {"type": "string"}
OPS = {
    "type": "array",
    "items": {
        "type": "object",
        "properties": {"path": TEXT, "note": TEXT},
        "additionalProperties": False,
    },
}
TOOLS = tool_file(
    "x",
    tool(
        "many",
        [{"verb": "read", "kind": "path", "at": "/paths", "when_absent": "/workspace/secret"}],
        {"paths": {"type": "array", "items": {"type": ["string", "null"]}}},
        required=[],
    ),
    tool(
        "ops",
        [{"verb": "read", "kind": "path", "at": "/ops/*/path", "when_absent": "/workspace/secret"}],
        {"ops": OPS},
        roles={"/ops": "target"},
    ),
    tool("one", [{"verb": "read", "kind": "path", "at": "/path"}], {"path": TEXT}),
)
RULES = '@id("all") permit (principal, action, resource);' + SECRET


@pytest.mark.parametrize(
    ("name", "arguments", "effect"),
    [
        ("x/ops", {"ops": [{"path": "/workspace/a"}]}, Effect.ALLOW),
        ("x/ops", {"ops": [{"note": "n"}]}, Effect.DENY),
        ("x/ops", {"ops": [{"path": "/workspace/a"}, {"note": "n"}]}, Effect.DENY),
        ("x/ops", {"ops": []}, Effect.DENY),
        ("x/many", {"paths": ["/workspace/a"]}, Effect.ALLOW),
        ("x/many", {"paths": ["/workspace/a", None]}, Effect.DENY),
        ("x/many", {"paths": []}, Effect.DENY),
        ("x/many", {}, Effect.DENY),
    ],
)
def test_each_place_that_lacks_its_value_stands_for_the_default_resource(
    name: str, arguments: dict[str, object], effect: Effect
) -> None:
    """PA6: what one element has does not speak for another."""
    outcome = decide_in(world(RULES, tools=TOOLS), call(name, arguments))
    assert outcome.decision.effect is effect
    if effect is Effect.DENY:
        assert rules_of(outcome) == ["secret"]


def test_a_call_that_touches_too_much_is_refused_before_it_is_judged() -> None:
    ruleset = world(RULES, tools=TOOLS)
    paths = [f"/workspace/{number}" for number in range(MAX_ACCESSES)]
    fits = decide_in(ruleset, call("x/many", {"paths": paths})).decision
    assert (fits.effect, len(fits.verdicts)) == (Effect.ALLOW, MAX_ACCESSES)
    decision = decide_in(ruleset, call("x/many", {"paths": [*paths, "/workspace/more"]})).decision
    assert (decision.effect, decision.stage, decision.code) == (
        Effect.DENY,
        Stage.CANONICAL,
        Code.CANONICAL_TOO_MANY,
    )


def test_where_an_opaque_path_really_lies_is_judged_too() -> None:
    """What must be a deny does not become an ask because the spelled path was not understood."""
    rules = RULES + '@id("opaque") @requires("approval") forbid (principal, action, resource is Opaque);'
    made = call(
        "x/one",
        path="key",
        cwd=None,
        sandbox_root=None,
        resolved={"/path": ResolvedPath(path="/workspace/secret/key")},
    )
    outcome = decide_in(world(rules, tools=TOOLS), made)
    assert (outcome.decision.effect, rules_of(outcome)) == (Effect.DENY, ["secret"])


def test_a_resolved_claim_confirms_only_where_the_credential_may_say_so() -> None:
    rules = RULES + '@id("unsure") forbid (principal, action, resource) unless { context.resolved };'
    made = call("x/one", path="/workspace/a", resolved={"/path": ResolvedPath(path="/workspace/a")})
    assert decide_in(world(rules, tools=TOOLS), made).decision.effect is Effect.ALLOW
    credentials = 'profiles:\n  runtime:\n    agents: ["*"]\n    users: ["*"]\n    sandboxes: [/workspace]\n'
    doubted = decide_in(world(rules, tools=TOOLS, credentials=credentials), made)
    assert rules_of(doubted) == ["unsure"]


def test_deep_paths_count_by_the_folders_they_lie_in() -> None:
    ruleset = world(RULES, tools=TOOLS)
    deep = "/workspace/" + "d/" * 200
    decision = decide_in(
        ruleset, call("x/many", {"paths": [f"{deep}{number}" for number in range(30)]})
    ).decision
    assert decision.code is Code.CANONICAL_TOO_MANY
    fits = decide_in(ruleset, call("x/many", {"paths": [f"{deep}{number}" for number in range(10)]})).decision
    assert fits.effect is Effect.ALLOW


def test_large_arguments_are_told_their_first_fault_only() -> None:
    ruleset = world(RULES, tools=TOOLS)
    few = decide_in(ruleset, call("x/many", {"paths": [1, 2, 3]})).decision
    assert len(few.errors) == 3
    many = decide_in(ruleset, call("x/many", {"paths": [1] * 5000})).decision
    assert (many.code, len(many.errors)) == (Code.SCHEMA_INVALID, 1)


def test_a_literal_object_is_in_its_type_whatever_is_asked_about() -> None:
    # The scope keeps it from being a forbid whatever the call, which would hide the tool.
    rules = """
    @id("all") permit (principal, action, resource);
    @id("typed") forbid (principal, action, resource)
    when { context.scope == "object" && Object::"account:a" in ObjectType::"account" };
    @id("valued") forbid (principal, action, resource)
    when { context.scope == "object" && Object::"account:a".value == "a" };
    """
    outcome = decide_in(world(rules), call("bank/transfer", to="b", amount=1))
    assert rules_of(outcome) == ["typed", "valued"]

"""Literals that conditions look into: each type is loaded with all that it lies in and all that it is.

What the engine says of a condition over literals is held to what Cedar says of it over every entity there is.
"""

import json
from typing import Any

import cedarpy
import pytest
from hypothesis import given
from hypothesis import strategies as st

from authz.core.canonical import canonical_literal, literal_resource
from authz.core.cedar_context import context_values
from authz.core.cedar_request import access_entities, question
from authz.core.cedar_schema import ALL_RESOURCE_TYPES, ENTITY_ATTRIBUTES, WITHIN
from authz.core.entities import EntityDirectory, PreparedEntities
from authz.core.policy import PolicyAnswer
from authz.model.decision import Code, Effect
from authz.model.resource import NotCanonical
from tests.property.full_evaluation import FullEvaluation, Verdict
from tests.property.literals import ALL_TOOLS, LITERALS, cedar, pairs, questions
from tests.property.policy_sets import Names, People
from tests.property.test_policy_index import accesses_of
from tests.support.world import PERMIT_ALL, call, decide_in, rules_of, world

NOBODY = People(groups={}, users={}, agents={})
PEOPLE = ("Agent", "User", "Group", "Tool")
FORBIDS = (
    'Program::"git/push" in Program::"git"',
    'Program::"git".known',
    'Program::"git/push".name == "git"',
    'Branch::"git.example.com/team/app#main" in Repo::"git.example.com/team"',
    'Repo::"git.example.com/team/app" in Host::"git.example.com"',
    'Table::"prod/shop/orders" in Database::"prod"',
    'Mailbox::"ada@example.com" in Domain::"example.com"',
    'Host::"example.com:443" in Host::"example.com"',
    'Domain::"git.example.com" in Domain::"com"',
)


def test_every_type_has_a_literal() -> None:
    """So that the tests of this module, and the random rules, leave out none."""
    assert LITERALS.keys() == (ALL_RESOURCE_TYPES | WITHIN.keys()) - {"Opaque"}
    assert ENTITY_ATTRIBUTES.keys() == {*LITERALS, *PEOPLE, "Opaque"}


@pytest.mark.parametrize("condition", FORBIDS)
def test_a_forbid_that_looks_into_literals_forbids(condition: str) -> None:
    # Without the role, the tool is hidden before any call of it is judged.
    condition = f'context.role == "target" && {condition}'
    ruleset = world(f'{PERMIT_ALL} @id("no") forbid (principal, action, resource) when {{ {condition} }};')
    outcome = decide_in(ruleset, call("fs/file_read", path="/workspace/a"))
    assert (outcome.decision.effect, outcome.decision.code) == (Effect.DENY, Code.POLICY_FORBID)
    assert rules_of(outcome) == ["no"]


def compared(kind: str) -> tuple[PolicyAnswer, Verdict]:
    """(what the engine says, what everything says) of rules that ask all there is to ask of these literals:
    each in each other one, and each of its attributes, one rule per condition.
    """
    conditions = [text for name in LITERALS[kind] for text in questions(kind, name)]
    conditions += [f"{cedar(kind, name)} in {cedar(*other)}" for name in LITERALS[kind] for other in pairs()]
    rules = [
        f'@id("r{number}") permit (principal, action, resource) when {{ {condition} }};'
        for number, condition in enumerate(conditions)
    ]
    ruleset = world("\n".join([*rules, PERMIT_ALL]), tools=ALL_TOOLS)
    full = FullEvaluation(ruleset.engine.policies.values(), ruleset.schema_text, Names.for_size(10), NOBODY)
    ((access, facts),) = accesses_of(call("fs/file_read", path="/nowhere"))
    tool = ruleset.tools["fs", "file_read"]
    asked = question("a0", tool, access, facts)
    principal = ruleset.entities.principal("a0", None)
    (answer,) = ruleset.engine.evaluate([asked], principal, access_entities(access))
    context = context_values(facts, access, tool.encoder, None)
    expected = full.verdict(
        agent="a0", user=None, action=asked.action, resource=access.resource, context=context
    )
    return answer, expected


@pytest.mark.parametrize("kind", LITERALS)
def test_literals_are_what_everything_says_they_are(kind: str) -> None:
    answer, expected = compared(kind)
    assert (answer.effect, answer.code, frozenset(rule.rule for rule in answer.rules)) == expected
    assert answer.effect is Effect.ALLOW, "nothing errs"
    assert len(answer.rules) > len(LITERALS[kind]), "each literal is at least in itself"


@pytest.mark.parametrize("kind", sorted(LITERALS.keys() - {"Database", "ObjectType"}))
def test_a_type_that_is_left_out_is_caught(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The two that are not here lie in nothing and have no attributes: they need not be loaded."""
    real = PreparedEntities.documents

    def documents(self: PreparedEntities, literals: Any) -> Any:
        return {uid: text for uid, text in real(self, literals).items() if uid[0] != kind}

    monkeypatch.setattr(PreparedEntities, "documents", documents)
    answer, expected = compared(kind)
    assert (answer.effect, answer.code, frozenset(rule.rule for rule in answer.rules)) != expected


def test_the_call_knows_better_than_the_literal() -> None:
    """Whether a program is known depends on its arguments, so a rule may ask that of its literal too."""
    ruleset = world(
        f'{PERMIT_ALL} @id("no") forbid (principal, action in Action::"execute", resource)'
        ' when { resource == Program::"unheard-of" && !Program::"unheard-of".known };',
        tools=ALL_TOOLS,
    )
    outcome = decide_in(ruleset, call("shell/run", command="unheard-of"))
    assert (outcome.decision.code, rules_of(outcome)) == (Code.POLICY_FORBID, ["no"])


@given(st.sampled_from(sorted(LITERALS)), st.text() | st.sampled_from([name for _, name in pairs()]))
def test_what_the_loader_lets_through_is_loaded(kind: str, text: str) -> None:
    """A literal that loads and then stands for nothing would take a forbid with it."""
    name = canonical_literal(kind, text)
    if isinstance(name, NotCanonical) or kind == "ObjectType":
        return
    found = literal_resource(kind, name)
    assert found is not None
    assert (kind, name) in {(entity.type, entity.id) for entity in found.chain}
    documents = EntityDirectory([], {}).principal("a0", None).documents([(kind, name)])
    document: dict[str, Any] = json.loads(documents[kind, name])
    assert document["attrs"].keys() == ENTITY_ATTRIBUTES[kind].keys()


def test_a_literal_that_stands_for_nothing_is_no_answer() -> None:
    """No bundle holds one. If one did, a missing ancestor must not be an allow."""
    principal = EntityDirectory([], {}).principal("a0", None)
    with pytest.raises(ValueError, match="no canonical form"):
        principal.documents([("Program", "/bin/sh")])


def test_the_documents_are_entities_of_the_schema() -> None:
    documents = EntityDirectory([], {}).principal("a0", None).documents(pairs())
    text = "[" + ",".join(document.decode() for document in documents.values()) + "]"
    schema = cedarpy.Schema.from_str(world(tools=ALL_TOOLS).schema_text)
    assert cedarpy.Entities.from_json_str(text, schema)

"""The index is sound (spec section 6): what Cedar is handed says what everything would have said.

Effect, determining rules and errors of the real engine equal those of all rules over all entities, at 10,
1,000 and 10,000 rules. That the property can fail is shown by indexes that are broken on purpose.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from authz.core.cedar_context import ContextFacts, context_values
from authz.core.cedar_request import access_entities, question
from authz.core.entities import PreparedEntities
from authz.core.policy import slices
from authz.core.policy.index import PolicyIndex
from authz.core.ruleset import Ruleset
from authz.errors import BundleError
from authz.model.call import Call
from authz.model.capability import NO_CAPABILITY
from authz.model.decision import Access, Code, Effect
from tests.property.full_evaluation import FullEvaluation, Verdict
from tests.property.literals import ALL_TOOLS
from tests.property.policy_sets import Names, People, RuleMaker, random_call, random_people
from tests.support.world import NOW_MS, PERMIT_ALL, decide_in, world

OPEN = world(tools=ALL_TOOLS)
"""Everything is allowed there, so every stage before the rules runs."""
OUTCOMES = {
    Code.POLICY_PERMIT,
    Code.POLICY_FORBID,
    Code.POLICY_NO_MATCH,
    Code.APPROVAL_REQUIRED,
    Code.POLICY_ERROR,
}


class Bundle:
    """Random rules and people, loaded, with the yardstick beside them."""

    def __init__(self, random: Random, rules: int, *, errors: float) -> None:
        self.names = Names.for_size(rules)
        self.people = random_people(random, self.names)
        maker = RuleMaker(random, self.names, rules=rules, errors=errors)
        made = [maker.rule(number) for number in range(rules)]
        if rules < 100 and random.random() < 0.5:
            # Few rules allow little, and only of what is allowed anything is asked.
            made.append(PERMIT_ALL)
        self.ruleset = usable(made, self.people)
        self.full = FullEvaluation(
            self.ruleset.engine.policies.values(), self.ruleset.schema_text, self.names, self.people
        )

    def compare(self, made: Call) -> Iterator[tuple[Verdict, Verdict]]:
        """(what the engine says, what everything says) of each access of a call."""
        for access, facts in accesses_of(made):
            yield self._engine(made, access, facts), self._everything(made, access, facts)

    def _engine(self, made: Call, access: Access, facts: ContextFacts) -> Verdict:
        agent, user = made.subject.agent, made.subject.on_behalf_of
        tool = self.ruleset.tools[made.server, made.tool]
        asked = question(agent, tool, access, facts)
        principal = self.ruleset.entities.principal(agent, user)
        (answer,) = self.ruleset.engine.evaluate([asked], principal, access_entities(access))
        return answer.effect, answer.code, frozenset(rule.rule for rule in answer.rules)

    def _everything(self, made: Call, access: Access, facts: ContextFacts) -> Verdict:
        tool = self.ruleset.tools[made.server, made.tool]
        return self.full.verdict(
            agent=made.subject.agent,
            user=made.subject.on_behalf_of,
            action=question(made.subject.agent, tool, access, facts).action,
            resource=access.resource,
            context=context_values(facts, access, tool.encoder, None),
        )


def accesses_of(made: Call) -> Iterator[tuple[Access, ContextFacts]]:
    """The accesses of a call, with what their contexts are made of."""
    outcome = decide_in(OPEN, made, exposed=["web"])
    assert outcome.provenance is not None
    assert outcome.believed is not None
    assert outcome.decision.arguments is not None
    facts = ContextFacts(
        call=made,
        descriptor=OPEN.tools[made.server, made.tool].descriptor,
        arguments=outcome.decision.arguments,
        provenance=outcome.provenance,
        believed=outcome.believed,
        capability=NO_CAPABILITY,
        exposed=frozenset({"web"}),
        delegated=False,
        now_ms=NOW_MS,
    )
    for access in outcome.decision.accesses:
        yield access, facts


def usable(rules: list[str], people: People) -> Ruleset:
    """The world of these rules less those that are refused at load (a scope that no action has)."""
    kept = [*rules, '@id("none") permit (principal, action, resource) when { false };']
    while True:
        try:
            return world("\n".join(kept), entities=people.yaml, tools=ALL_TOOLS)
        except BundleError as error:
            refused = {problem.line for problem in error.problems}
            if refused <= {None}:
                raise
            kept = [rule for line, rule in enumerate(kept, start=1) if line not in refused]


def outcomes(bundle: Bundle, calls: Iterable[Call]) -> Counter[Code]:
    """How often each outcome came up. Fails where the engine says anything else than everything does."""
    seen: Counter[Code] = Counter()
    for made in calls:
        for found, expected in bundle.compare(made):
            assert found == expected, made
            seen[expected[1]] += 1
    return seen


@pytest.fixture(params=["as shipped", "tiny"])
def limits(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The sizes of sets as shipped, and so small that ten rules already come in many fragments."""
    if request.param == "tiny":
        make_tiny(monkeypatch)
    return str(request.param)


def make_tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every path of a bundle of thousands is then taken by a few dozen rules."""
    for name, value in {"COARSE": 1, "FRAGMENT": 2, "MERGED": 1, "BLOCK": 2}.items():
        monkeypatch.setattr(slices, name, value)


@pytest.mark.usefixtures("limits")
def test_ten_rules() -> None:
    seen: Counter[Code] = Counter()

    @settings(max_examples=100)
    @given(st.integers(0, 2**32), st.integers(1, 14))
    def holds(seed: int, rules: int) -> None:
        # Seeded: what Hypothesis draws by itself is mostly zeros, and then no rule ever holds.
        random = Random(seed)
        bundle = Bundle(random, rules, errors=0.08)
        seen.update(outcomes(bundle, [random_call(random, bundle.names) for _ in range(4)]))

    holds()
    assert seen.keys() >= OUTCOMES, seen


@pytest.mark.usefixtures("limits")
def test_a_thousand_rules() -> None:
    seen: Counter[Code] = Counter()
    for seed in (1, 2):
        random = Random(seed)
        bundle = Bundle(random, 1000, errors=0.02)
        seen += outcomes(bundle, [random_call(random, bundle.names) for _ in range(100)])
    assert seen.keys() >= OUTCOMES, seen


@pytest.mark.slow
def test_ten_thousand_rules() -> None:
    random = Random(7)
    bundle = Bundle(random, 10_000, errors=0.05)
    seen = outcomes(bundle, [random_call(random, bundle.names) for _ in range(100)])
    assert seen.keys() >= OUTCOMES, seen
    stats = bundle.ruleset.engine.cache_stats()
    assert stats.policies_held <= slices.MAX_POLICIES


def _without_literals(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slices, "_literals", lambda policies: frozenset())


def _without_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    real = slices.Slicer.slice_for
    monkeypatch.setattr(
        slices.Slicer,
        "slice_for",
        lambda self, names, resource, holders: real(
            self, names, resource, frozenset(one for one in holders if one[0] == "Agent")
        ),
    )


def _without_ancestors(monkeypatch: pytest.MonkeyPatch) -> None:
    real = slices.Slicer.slice_for
    monkeypatch.setattr(
        slices.Slicer,
        "slice_for",
        lambda self, names, resource, holders: real(self, names, resource[:1], holders),
    )


def _without_is(monkeypatch: pytest.MonkeyPatch) -> None:
    real = PolicyIndex.at

    def at(self: PolicyIndex, *where: Any) -> Iterator[Any]:
        return (one for one in real(self, *where) if one.resource_type is None)

    monkeypatch.setattr(PolicyIndex, "at", at)


def _without_the_user(monkeypatch: pytest.MonkeyPatch) -> None:
    real = PreparedEntities.documents

    def documents(self: PreparedEntities, literals: Any) -> Any:
        return {
            uid: text for uid, text in real(self, literals).items() if uid[0] != "User" or uid in literals
        }

    monkeypatch.setattr(PreparedEntities, "documents", documents)


def _without_wide_actions(monkeypatch: pytest.MonkeyPatch) -> None:
    real = PolicyIndex.at

    def at(self: PolicyIndex, spot: Any, names: Any, kind: str) -> Iterator[Any]:
        return real(self, spot, [name for name in names if name], kind)

    monkeypatch.setattr(PolicyIndex, "at", at)


def _without_a_fragment(monkeypatch: pytest.MonkeyPatch) -> None:
    real = slices.pack
    monkeypatch.setattr(slices, "pack", lambda cells: real(cells)[:1])


@pytest.mark.parametrize(
    "breaks",
    [
        _without_literals,
        _without_groups,
        _without_ancestors,
        _without_is,
        _without_the_user,
        _without_wide_actions,
        _without_a_fragment,
    ],
)
def test_a_broken_index_is_caught(
    breaks: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    make_tiny(monkeypatch)
    breaks(monkeypatch)

    def is_caught(seed: int) -> bool:
        random = Random(seed)
        bundle = Bundle(random, 60, errors=0.01)
        calls = [random_call(random, bundle.names) for _ in range(60)]
        return any(found != expected for made in calls for found, expected in bundle.compare(made))

    assert any(is_caught(seed) for seed in range(20))


def test_a_blocked_owner_is_no_allow() -> None:
    """The entity behind an attribute decides: without it, `unless` would be an allow without any error."""
    rules = '@id("p") permit (principal, action, resource) unless { principal.on_behalf_of in Group::"g1" };'
    people = People(groups={"g0": [], "g1": []}, users={"u0": (["g1"], {})}, agents={})
    random = Random(0)
    ruleset = world(rules, entities=people.yaml)
    made = random_call(random, Names.for_size(10))
    for user, effect in (("u0", Effect.DENY), ("u1", Effect.ALLOW)):
        principal = ruleset.entities.principal("a0", user)
        for access, facts in accesses_of(made):
            asked = question("a0", ruleset.tools[made.server, made.tool], access, facts)
            (answer,) = ruleset.engine.evaluate([asked], principal, access_entities(access))
            assert answer.effect is effect

"""Where values came from: believed only from who may say it, and missing means untrusted (PR1 to PR4)."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from authz.core.provenance import SOURCES, ArgumentProvenance, RoleTable, check_provenance
from authz.model.call import ProvenanceClaim
from authz.model.caller import Profile
from authz.model.decision import Effect
from authz.model.tool import Role
from tests.support.world import PERMIT_ALL, call, decide_in, rules_of, source, world

ROLES = RoleTable(
    {
        ("to",): Role.DESTINATION,
        ("body",): Role.PAYLOAD,
        ("body", "*", "cc"): Role.DESTINATION,
        ("key",): Role.CREDENTIAL,
        ("n",): Role.OPTION,
    }
)
EVERY = Profile(name="p", sources=SOURCES)


def judged(
    arguments: dict[str, Any],
    provenance: dict[str, ProvenanceClaim],
    profile: Profile = EVERY,
    *,
    exposed: tuple[str, ...] = (),
    **parts: Any,
) -> ArgumentProvenance:
    made = call("x/t", arguments, provenance=provenance, **parts)
    return check_provenance(made, arguments, ROLES, profile, frozenset(exposed))


@pytest.mark.parametrize(
    ("name", "untrusted"),
    [
        ("user", False),
        ("system", False),
        ("project", False),
        ("secret", False),
        ("tool_result", True),
        ("file", True),
        ("web", True),
        ("email", True),
        ("memory", True),
        ("agent", True),
        ("model", False),  # of a session that has read nothing untrusted
        ("missing", True),
        ("User", True),
        ("user ", True),
        ("", True),
        ("anything", True),
    ],
)
def test_each_source_has_its_trust(name: str, untrusted: bool) -> None:
    found = judged({"to": "a"}, {"/to": source(name)})
    assert found.untrusted == ({"destination"} if untrusted else frozenset())
    assert found.sources == {"destination": {name if name in SOURCES else "missing"}}
    assert found.unknown_sources == (frozenset() if name in SOURCES else {name})


def test_missing_provenance_is_untrusted() -> None:
    """PR4."""
    found = judged({"to": "a", "body": "b"}, {"/body": source("user")})
    assert found.untrusted == {"destination"}
    assert found.sources == {"destination": {"missing"}, "payload": {"user"}}
    assert judged({"to": "a"}, {}).untrusted == {"destination"}
    assert judged({"to": "a"}, {"/too": source("user"), "/to/x": source("user")}).untrusted == {"destination"}


def test_a_call_without_arguments_has_nothing_untrusted() -> None:
    assert judged({}, {}).untrusted == frozenset()


def test_an_empty_list_is_a_value_too() -> None:
    assert judged({"to": []}, {}).untrusted == {"destination"}
    assert judged({"to": []}, {"/to": source("user")}).untrusted == frozenset()


def test_a_source_that_the_credential_may_not_declare_is_not_believed() -> None:
    """PR2: labels come from whom the bundle lets set them."""
    narrow = Profile(name="p", sources=frozenset({"web"}))
    found = judged({"to": "a"}, {"/to": source("user")}, narrow)
    assert (found.untrusted, found.unknown_sources) == ({"destination"}, {"user"})
    assert judged({"to": "a"}, {"": source("user")}, Profile(name="p")).untrusted == {"destination"}


def test_the_role_is_as_trusted_as_its_worst_value() -> None:
    """PR1: the minimum over all sources."""
    values = {"to": ["a", "b"], "body": [{"cc": "c"}, {"text": "d"}]}
    claims = {"": source("user"), "/to/1": source("web"), "/body/0/cc": source("email")}
    found = judged(values, claims)
    assert found.untrusted == {"destination"}
    assert found.sources == {"destination": {"user", "web", "email"}, "payload": {"user"}}


def test_the_nearest_claim_is_the_one_that_counts() -> None:
    assert judged({"to": {"a": "b"}}, {"": source("web"), "/to": source("user")}).untrusted == frozenset()
    assert judged({"to": {"a": "b"}}, {"": source("user"), "/to/a": source("web")}).untrusted == {
        "destination"
    }


@pytest.mark.parametrize("name", sorted(SOURCES))
def test_a_claim_of_trust_may_only_lower(name: str) -> None:
    assert judged({"to": "a"}, {"/to": source(name, trust="untrusted")}).untrusted == {"destination"}
    plain = judged({"to": "a"}, {"/to": source(name)})
    assert judged({"to": "a"}, {"/to": source(name, trust="trusted")}).untrusted == plain.untrusted


def test_what_a_model_wrote_is_worth_the_worst_that_its_session_read() -> None:
    """PR1: trust survives the model's rewriting."""
    claim = {"/to": source("model")}
    assert judged({"to": "a"}, claim, exposed=("untrusted",)).untrusted == {"destination"}
    assert judged({"to": "a"}, claim, exposed=("finance",)).untrusted == frozenset()
    assert judged({"to": "a"}, claim, session=None).untrusted == {"destination"}


def test_secrets_are_taken_from_any_claim() -> None:
    """Believing that something is secret can only make a call stricter."""
    nobody = Profile(name="p")
    for claim in (source("secret"), source("user", labels=["secret"]), source("anything", labels=["secret"])):
        for profile in (EVERY, nobody):
            found = judged({"body": "s", "n": 1}, {"/body": claim, "/n": source("user")}, profile)
            assert found.secret == {"payload"}
            assert found.secret_leaves == {("body",)}
    assert judged({"key": "s"}, {"/key": source("user")}).secret == {"credential"}


def test_defaults_come_from_the_reviewed_descriptor() -> None:
    made = call("x/t", {"to": "a"}, provenance={"/to": source("user")})
    found = check_provenance(made, {"to": "a", "n": 3, "body": {"x": 1}}, ROLES, EVERY, frozenset())
    assert found.untrusted == frozenset()
    assert found.sources == {"destination": {"user"}, "option": {"system"}, "payload": {"system"}}
    # A claim about what was never sent is no reason to believe it less or more than that claim.
    made = call("x/t", {"to": "a"}, provenance={"": source("web")})
    assert check_provenance(made, {"to": "a", "n": 3}, ROLES, EVERY, frozenset()).untrusted == {
        "destination",
        "option",
    }


def test_an_argument_without_a_role_is_never_taken_for_a_reviewed_one() -> None:
    found = judged({"surplus": "a", "target": "b"}, {})
    assert found.untrusted == {"undeclared"}
    assert judged({"body": [{"cc": "x"}]}, {}).untrusted == {"destination"}
    assert judged({"body": [{"bcc": "x"}]}, {}).untrusted == {"payload"}


def test_a_list_that_canonicalization_rewrote_keeps_its_sources() -> None:
    made = call("x/t", {"to": "a, b"}, provenance={"/to": source("web")})
    assert check_provenance(made, {"to": "a"}, ROLES, EVERY, frozenset()).untrusted == {"destination"}


CLAIMS = st.builds(
    source,
    st.sampled_from([*sorted(SOURCES), "other"]),
    labels=st.lists(st.sampled_from(["secret", "pii"]), max_size=2),
    trust=st.sampled_from([None, "trusted", "untrusted"]),
)
POINTERS = ["", "/to", "/to/0", "/body", "/body/0/cc", "/key", "/n"]
VALUES: dict[str, Any] = {"to": ["a", "b"], "body": [{"cc": "c"}], "key": "k", "n": 1}


@given(st.dictionaries(st.sampled_from(POINTERS), CLAIMS, max_size=5), st.data())
def test_worse_knowledge_never_makes_anything_better(
    claims: dict[str, ProvenanceClaim], data: st.DataObject
) -> None:
    """Marking a value untrusted, exposing the session, believing fewer sources: untrusted only grows."""
    before = judged(VALUES, claims)
    assert judged(VALUES, claims, exposed=("untrusted",)).untrusted >= before.untrusted
    fewer = Profile(name="p", sources=frozenset(data.draw(st.sets(st.sampled_from(sorted(SOURCES))))))
    assert judged(VALUES, claims, fewer).untrusted >= before.untrusted
    assert judged(VALUES, claims, fewer).secret == before.secret
    pointer = data.draw(st.sampled_from(POINTERS))
    worse = {**claims, pointer: source("web", labels=["secret"])}
    if pointer in claims:
        assert judged(VALUES, worse).untrusted >= before.untrusted
        assert judged(VALUES, worse).secret >= before.secret


TRUST = world(
    PERMIT_ALL
    + '@id("steered") forbid (principal, action in Action::"send", resource)'
    + ' when { context.untrusted.contains("destination") };'
    + '@id("leak") forbid (principal, action in Action::"send", resource)'
    + ' when { context.secret.contains("payload") };'
)


@pytest.mark.parametrize(
    ("claims", "rules"),
    [
        ({"": source("user")}, ["everything"]),
        ({"/to": source("user"), "/body": source("web")}, ["everything"]),
        ({"/to": source("web"), "/body": source("user")}, ["steered"]),
        ({"/body": source("user")}, ["steered"]),
        ({"/to": source("user"), "/body": source("secret")}, ["leak"]),
        ({}, ["steered"]),
    ],
)
def test_a_sink_is_judged_with_provenance(claims: dict[str, ProvenanceClaim], rules: list[str]) -> None:
    """PR3: what is not trusted may not choose where a message goes; a secret may not go out in it."""
    outcome = decide_in(TRUST, call("bank/mail_send", to="a@example.com", body="b", provenance=claims))
    assert rules_of(outcome) == rules
    assert outcome.decision.effect is (Effect.ALLOW if rules == ["everything"] else Effect.DENY)

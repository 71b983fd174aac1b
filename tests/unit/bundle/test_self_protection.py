"""What decides is out of every agent's reach, whatever the allow (CF3)."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from authz.bundle.self_protection import SELF_FILE, SELF_RULE, Protected
from authz.model.decision import Code, Effect
from authz.model.resource import ResolvedPath
from tests.support.world import CREDENTIALS, call, decide_in, record_of, rules_of, world

PROTECTED = Protected(
    directories=frozenset({"/srv/authz/Policies", "/workspace/.policy"}),
    files=frozenset({"/workspace/.agent/settings.json", '/srv/o"dd name'}),
    hosts=frozenset({"authz.example.com"}),
    port=8099,
)
WORLD = world(protected=PROTECTED)
TOUCHING = [
    ("fs/file_read", "path", {}),
    ("fs/file_edit", "path", {"text": ""}),
    ("fs/file_remove", "path", {}),
    ("fs/file_copy", "from", {"to": "/workspace/x"}),
    ("fs/file_copy", "to", {"from": "/workspace/x"}),
]


def is_protected(name: str, argument: str, more: dict[str, Any], value: str, **parts: Any) -> bool:
    outcome = decide_in(WORLD, call(name, {**more, argument: value}, **parts))
    return (outcome.decision.effect, rules_of(outcome)) == (Effect.DENY, [SELF_RULE])


@pytest.mark.parametrize(("name", "argument", "more"), TOUCHING)
@pytest.mark.parametrize(
    "path",
    [
        "/srv/authz/Policies",
        "/srv/authz/Policies/rules/new.cedar",
        "/workspace/.policy/host.yaml",
        "/workspace/../workspace/.policy",
        ".policy/host.yaml",
        "file:///workspace/.policy/host.yaml",
        "/workspace/.agent/settings.json",
        "/workspace/.agent/settings.json/x",
        '/srv/o"dd name',
    ],
)
def test_no_tool_touches_the_bundle_or_its_settings(
    name: str, argument: str, more: dict[str, Any], path: str
) -> None:
    """bug-169, bug-170: protected by name, whether it exists or not, against any permit."""
    assert is_protected(name, argument, more, path)


@pytest.mark.parametrize(("name", "argument", "more"), TOUCHING)
def test_the_rule_that_protects_is_named(name: str, argument: str, more: dict[str, Any]) -> None:
    assert is_protected(name, argument, more, "/workspace/.policy/host.yaml")
    made = call(name, {**more, argument: "/workspace/.policy/host.yaml"})
    record = record_of(WORLD, made, decide_in(WORLD, made))
    assert record["matched"] == [
        {
            "rule": SELF_RULE,
            "kind": "forbid",
            "file": SELF_FILE,
            "line": 1,
            "reason": "This is where authorization is decided; no agent may reach it.",
        }
    ]


def test_neighbours_are_free() -> None:
    for path in (
        "/workspace/.policyx",
        "/workspace/policy",
        "/srv/authz",
        "/workspace/.agent",
        "/srv/authz/policies",
    ):
        outcome = decide_in(WORLD, call("fs/file_read", path=path))
        if path != "/srv/authz/policies":  # its key on a volume that folds case
            assert outcome.decision.effect is Effect.ALLOW, path


def test_a_link_to_it_is_it() -> None:
    made = call(
        "fs/file_read", path="/workspace/a", resolved={"/path": ResolvedPath(path="/srv/authz/Policies/x")}
    )
    assert rules_of(decide_in(WORLD, made)) == [SELF_RULE]


@given(
    st.sampled_from(["/srv/authz/Policies/x", "/workspace/.policy", "/workspace/.agent/settings.json"]),
    st.randoms(),
)
def test_no_letter_case_gets_around_it_where_the_volume_folds_case(path: str, random: Any) -> None:
    folding = world(credentials=CREDENTIALS + "    volume: {case_sensitive: false}\n", protected=PROTECTED)
    spelled = "".join(random.choice([char.lower(), char.upper()]) for char in path)
    outcome = decide_in(folding, call("fs/file_edit", path=spelled, text=""))
    assert rules_of(outcome) == [SELF_RULE]


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:8099/decide",
        "http://localhost:8099/",
        "http://127.1:8099/",
        "http://0x7f000001:8099/",
        "http://2130706433:8099/",
        "http://[::1]:8099/",
        "http://[::ffff:127.0.0.1]:8099/",
        "http://0.0.0.0:8099/",
        "http://[::]:8099/",
        "http://127.9.9.9:8099/ui",
        "http://authz.example.com:8099/",
        "http://AUTHZ.example.com.:8099/",
        "https://a.localhost:8099/",
    ],
)
def test_no_spelling_of_its_own_address_is_reached(url: str) -> None:
    outcome = decide_in(WORLD, call("web/fetch", url=url))
    assert outcome.decision.effect is Effect.DENY
    assert outcome.decision.code in (Code.POLICY_FORBID, Code.CANONICAL_REFUSED)


def test_other_ports_and_hosts_are_free() -> None:
    for url in ("http://127.0.0.1:8098/", "https://example.com:8099/", "https://authz.example.com/"):
        assert decide_in(WORLD, call("web/fetch", url=url)).decision.effect is Effect.ALLOW, url


def test_nor_is_the_address_that_callers_know_it_by() -> None:
    """Whatever the path: on that port of that host, and on no other."""
    ruleset = world(protected=Protected(port=8099, public=("gateway.example.com", 443)))
    for url in (
        "https://gateway.example.com/decide",
        "https://GATEWAY.example.com./x",
        "http://127.0.0.1:8099/",
    ):
        assert rules_of(decide_in(ruleset, call("web/fetch", url=url))) == [SELF_RULE], url
    for url in ("https://gateway.example.com:8099/", "http://gateway.example.com/", "https://a.example.com/"):
        assert decide_in(ruleset, call("web/fetch", url=url)).decision.effect is Effect.ALLOW, url


def test_a_listener_on_every_address_is_behind_every_address_that_is_not_global() -> None:
    ruleset = world(protected=Protected(hosts=frozenset({"192.0.2.7"}), port=8099, non_global_addresses=True))
    for url in ("http://10.1.2.3:8099/", "http://[fd00::1]:8099/", "http://192.0.2.7:8099/"):
        assert rules_of(decide_in(ruleset, call("web/fetch", url=url))) == [SELF_RULE], url
    for url in ("http://10.1.2.3:8098/", "http://93.184.216.34:8099/"):
        assert decide_in(ruleset, call("web/fetch", url=url)).decision.effect is Effect.ALLOW, url


def test_a_bundle_without_places_has_the_rule_and_it_never_matches() -> None:
    ruleset = world()
    assert SELF_RULE in ruleset.engine.policies
    assert decide_in(ruleset, call("web/fetch", url="http://127.0.0.1:8099/")).decision.effect is Effect.ALLOW


def test_an_approval_rule_of_the_bundle_cannot_turn_it_into_an_ask() -> None:
    ruleset = world(
        '@id("p") permit (principal, action, resource);'
        '@id("a") @requires("approval") forbid (principal, action, resource);',
        protected=PROTECTED,
    )
    outcome = decide_in(ruleset, call("fs/file_edit", path="/workspace/.policy/x", text=""))
    assert (outcome.decision.effect, rules_of(outcome)) == (Effect.DENY, [SELF_RULE])

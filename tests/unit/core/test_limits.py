"""Which limits a call falls under, what it takes of them, and how it is refused when one is reached."""

from dataclasses import replace
from typing import Any

import pytest

from authz.core.decide import Outcome
from authz.core.limits import MAX_RESERVATIONS, counter_time, reservations_of
from authz.model.capability import CapabilityFacts
from authz.model.decision import Code, Effect, Next, RuleKind, Stage
from authz.model.limit import Reached, Reservation
from authz.model.operation import OperationRecord, OperationState
from tests.support.world import (
    NO_IDS,
    NOW_MS,
    PERMIT_ALL,
    call,
    decide_in,
    facts,
    record_of,
    rules_of,
    tool,
    tool_file,
    world,
    yes_to,
)

SEARCH = tool_file(
    "search",
    tool(
        "paid",
        [{"verb": "connect", "kind": "url", "at": "/url"}],
        {"url": {"type": "string"}},
        cost={"amount": "0.25", "currency": "USD"},
    ),
    tool(
        "free",
        [{"verb": "connect", "kind": "url", "at": "/url"}],
        {"url": {"type": "string"}},
        cost={"amount": "0", "currency": "USD"},
    ),
)
EDIT = call("fs/file_edit", path="/workspace/a", text="x")


def limited(*limits: str, rules: str | None = None, **files: Any) -> Any:
    """A bundle with these entries of `limits:`, each a YAML flow mapping."""
    text = "limits:\n" + "".join(f"  - {entry}\n" for entry in limits)
    return world(rules or PERMIT_ALL, limits=text, **files)


def taken(ruleset: Any, made: Any, **known: Any) -> list[tuple[str, dict[str, str], int]]:
    decision = decide_in(ruleset, made, **known).decision
    assert decision.effect is Effect.ALLOW, decision
    return [(each.limit, dict(each.partition), each.amount) for each in decision.reservations]


def only(outcome: Outcome) -> Reservation:
    (reservation,) = outcome.decision.reservations
    return reservation


@pytest.mark.parametrize(
    ("per", "expected"),
    [
        ("[tenant]", {}),
        ("[agent]", {"agent": "coder-1"}),
        ("[user]", {"user": "ada"}),
        ("[session]", {"session": "s-1"}),
        ("[tool]", {"tool": "fs/file_edit"}),
        ("[server]", {"server": "fs"}),
        ("[user, agent]", {"agent": "coder-1", "user": "ada"}),
    ],
)
def test_what_has_a_counter_of_its_own(per: str, expected: dict[str, str]) -> None:
    ruleset = limited(f"{{id: l, reason: r, calls: 2, seconds: 60, per: {per}}}")
    assert taken(ruleset, EDIT) == [("l", expected, 1)]


def test_no_name_shares_one_counter() -> None:
    """Leaving out the session or the user escapes nothing."""
    ruleset = limited("{id: l, reason: r, calls: 2, seconds: 60, per: [user, session]}")
    one = only(decide_in(ruleset, call("fs/file_read", path="/a", user=None, session=None)))
    two = only(decide_in(ruleset, call("fs/file_read", path="/b", user=None, session=None, agent="x")))
    assert one.key == two.key
    assert one.key != only(decide_in(ruleset, call("fs/file_read", path="/a"))).key


def test_counters_differ_by_everything_but_cap_and_window() -> None:
    def key(entry: str, made: Any = EDIT) -> str:
        return only(decide_in(limited(entry), made)).key

    base = "{id: l, reason: r, calls: 2, seconds: 60, per: [agent]}"
    assert key(base) == key(base.replace("calls: 2", "calls: 9").replace("60", "90"))
    others = [
        key(base.replace("id: l", "id: m")),
        key(base.replace("[agent]", "[user]")),
        key(base.replace("calls: 2, seconds: 60", "concurrency: 2")),
        key(base, call("fs/file_edit", path="/workspace/a", text="x", agent="coder-2")),
    ]
    assert len({key(base), *others}) == 5


@pytest.mark.parametrize(
    ("where", "applies"),
    [
        ("{agents: [coder-1, x]}", True),
        ("{agents: [x]}", False),
        ("{users: [ada]}", True),
        ("{users: [grace]}", False),
        ("{groups: [staff]}", True),
        ("{groups: [finance]}", False),
        ("{tools: [fs/file_edit]}", True),
        ("{tools: [fs/file_read]}", False),
        ("{servers: [fs]}", True),
        ("{servers: [web]}", False),
        ("{verbs: [write, send]}", True),
        ("{verbs: [read]}", False),
        ("{levels: [A1]}", True),
        ("{levels: [A3]}", False),
        ('{resources: ["file:///workspace"]}', True),
        ('{resources: ["file:///workspace/a"]}', True),
        ('{resources: ["file:///workspace/a/b"]}', False),
        ('{resources: ["file:///work"]}', False),
        ('{resources: ["domain:example.com"]}', False),
        ("{agents: [coder-1], users: [grace]}", False),
        ('{verbs: [write], resources: ["file:///elsewhere"]}', False),
    ],
)
def test_which_calls_it_is_about(where: str, applies: bool) -> None:
    ruleset = limited(f"{{id: l, reason: r, calls: 2, seconds: 60, per: [agent], where: {where}}}")
    assert bool(taken(ruleset, EDIT)) is applies


def test_groups_are_followed_for_agents_and_users() -> None:
    ruleset = limited("{id: l, reason: r, calls: 2, seconds: 60, per: [tenant], where: {groups: [staff]}}")
    assert taken(ruleset, replace(EDIT, subject=replace(EDIT.subject, on_behalf_of="grace")))
    assert not taken(ruleset, replace(EDIT, subject=replace(EDIT.subject, on_behalf_of="nobody")))
    assert not taken(ruleset, replace(EDIT, subject=replace(EDIT.subject, on_behalf_of=None)))


def test_verb_level_and_resource_hold_of_one_access() -> None:
    """A copy reads here and writes there: that is no write here."""
    copy = call("fs/file_copy", {"from": "/workspace/a", "to": "/workspace/out/b"})
    entry = (
        "{{id: l, reason: r, calls: 2, seconds: 60, per: [agent], where: {{verbs: [{}], resources: [{}]}}}}"
    )
    assert not taken(limited(entry.format("read", '"file:///workspace/out"')), copy)
    assert taken(limited(entry.format("write", '"file:///workspace/out"')), copy)


ASKING = (
    '@id("asks") @requires("approval") @approvers("Group::\\"staff\\"") '
    'forbid (principal, action in Action::"delete", resource);'
)


def test_a_tree_reaches_down_to_what_is_named() -> None:
    rules = '@id("all") permit (principal, action, resource);'
    where = 'where: {resources: ["file:///workspace/deep/below"]}'
    ruleset = limited(f"{{id: l, reason: r, calls: 2, seconds: 60, per: [agent], {where}}}", rules=rules)
    one = call("fs/file_remove", path="/workspace/deep")
    assert not taken(ruleset, one)
    tree = call("fs/file_remove", path="/workspace/deep", recursive=True)
    assert [name for name, *_ in taken(ruleset, tree)] == ["l"]


def test_what_an_approval_lifts_takes_and_an_ask_does_not() -> None:
    asking = ASKING + '@id("all") permit (principal, action, resource);'
    ruleset = limited("{id: l, reason: r, calls: 2, seconds: 60, per: [agent]}", rules=asking)
    one = call("fs/file_remove", path="/workspace/deep")
    asked = decide_in(ruleset, one).decision
    assert asked.effect is Effect.REQUIRE_APPROVAL
    assert not asked.reservations
    assert [name for name, *_ in taken(ruleset, one, approvals=yes_to(ruleset, one))] == ["l"]


class TestDomains:
    def test_each_host_without_its_port(self) -> None:
        ruleset = limited("{id: l, reason: r, calls: 2, seconds: 60, per: [domain]}")
        for url in ("https://API.example.com./x", "http://api.example.com:8080/y?z"):
            assert taken(ruleset, call("web/fetch", url=url)) == [("l", {"domain": "api.example.com"}, 1)]

    def test_mail_by_the_domain_of_each_recipient_once(self) -> None:
        ruleset = limited("{id: l, reason: r, calls: 2, seconds: 60, per: [domain]}")
        mail = call("bank/mail_send", to="a@x.example, b@x.example, c@y.example", body="hi")
        assert taken(ruleset, mail) == [("l", {"domain": "x.example"}, 1), ("l", {"domain": "y.example"}, 1)]

    def test_a_declared_domain_holds_its_subdomains_together(self) -> None:
        """Label by label: what merely ends the same is another domain."""
        where = "where: {resources: ['domain:example.com']}"
        ruleset = limited(f"{{id: l, reason: r, calls: 2, seconds: 60, per: [domain], {where}}}")
        for host in ("example.com", "a.example.com", "b.c.example.com"):
            found = taken(ruleset, call("web/fetch", url=f"https://{host}/"))
            assert found == [("l", {"domain": "example.com"}, 1)]
        for host in ("notexample.com", "example.com.evil.example"):
            assert not taken(ruleset, call("web/fetch", url=f"https://{host}/"))

    def test_a_file_has_none(self) -> None:
        ruleset = limited("{id: l, reason: r, calls: 2, seconds: 60, per: [domain]}")
        assert not taken(ruleset, EDIT)


def test_what_is_not_understood_may_lie_anywhere() -> None:
    where = "where: {resources: ['file:///secret']}"
    ruleset = limited(f"{{id: l, reason: r, calls: 2, seconds: 60, per: [agent], {where}}}")
    relative = call("fs/file_read", path="a", cwd=None, sandbox_root=None)
    assert decide_in(ruleset, relative).decision.accesses[0].resource.kind == "opaque"
    assert taken(ruleset, relative) == [("l", {"agent": "coder-1"}, 1)]


def test_cost_is_counted_in_millionths() -> None:
    entry = "{id: l, reason: r, cost: {amount: '1.5', currency: USD}, seconds: 60, per: [user]"
    ruleset = limited(f"{entry}, where: {{servers: [search]}}}}", tools={"search": SEARCH})
    found = only(decide_in(ruleset, call("search/paid", url="https://a.example/")))
    assert (found.amount, found.cap, found.window_ms) == (250_000, 1_500_000, 60_000)
    assert not taken(ruleset, call("search/free", url="https://a.example/"))


def test_a_cost_that_came_to_be_unknown_fits_no_limit() -> None:
    entry = "{id: l, reason: r, cost: {amount: '1.5', currency: USD}, seconds: 60, per: [user]"
    ruleset = limited(f"{entry}, where: {{servers: [search]}}}}", tools={"search": SEARCH})
    key = ("search", "paid")
    bare = replace(ruleset.tools[key], descriptor=replace(ruleset.tools[key].descriptor, cost=None))
    found = only(
        decide_in(replace(ruleset, tools={key: bare}), call("search/paid", url="https://a.example/"))
    )
    assert found.amount > found.cap


LIMITS = limited(
    "{id: rate, reason: Slowly., calls: 2, seconds: 60, per: [agent]}",
    "{id: slots, reason: Few., concurrency: 3, per: [user]}",
    rules='@id("work") permit (principal, action, resource);'
    '@id("no") forbid (principal, action, resource in Directory::"/no");'
    '@id("ask") @requires("approval") forbid (principal, action, resource in Directory::"/ask");',
)


def reached(outcome: Outcome, **frees_at_ms: int | None) -> tuple[Reached, ...]:
    return tuple(
        Reached(key=each.key, frees_at_ms=frees_at_ms[each.limit])
        for each in outcome.decision.reservations
        if each.limit in frees_at_ms
    )


def test_a_limit_that_is_reached_denies_and_says_when_to_come_back() -> None:
    allowed = decide_in(LIMITS, EDIT)
    outcome = decide_in(LIMITS, EDIT, reached=reached(allowed, rate=NOW_MS + 12_345))
    decision = outcome.decision
    assert (decision.effect, decision.stage, decision.code) == (
        Effect.DENY,
        Stage.RESERVATION,
        Code.LIMIT_RATE,
    )
    (rule,) = decision.matched
    assert (rule.rule, rule.kind, rule.file, rule.line, rule.reason) == (
        "rate",
        RuleKind.LIMIT,
        "limits.yaml",
        2,
        "Slowly.",
    )
    assert decision.message == (
        "the limit `rate` is reached: at most 2 calls in 60 s for one agent. Slowly. "
        "wait 13 s, then send the call again as it is"
    )
    assert (decision.next, decision.retry_unchanged, decision.retry_after_ms) == (
        (Next.WAIT, Next.STOP),
        True,
        12_345,
    )
    assert decision.lease is None
    assert decision.reservations == ()
    assert [verdict.effect for verdict in decision.verdicts] == [Effect.ALLOW], "what the rules said stays"
    body = record_of(LIMITS, EDIT, outcome)
    assert body["matched"][0]["kind"] == "limit"
    assert body["retry_after_ms"] == 12_345
    assert "limits" not in body


def test_of_several_the_last_to_free_decides() -> None:
    allowed = decide_in(LIMITS, EDIT)
    found = reached(allowed, rate=NOW_MS + 1000, slots=NOW_MS + 9000)
    outcome = decide_in(LIMITS, EDIT, reached=found)
    assert rules_of(outcome) == ["rate", "slots"]
    assert (outcome.decision.code, outcome.decision.retry_after_ms) == (Code.LIMIT_CONCURRENCY, 9000)


def test_what_never_fits_is_not_to_be_waited_for() -> None:
    allowed = decide_in(LIMITS, EDIT)
    decision = decide_in(LIMITS, EDIT, reached=reached(allowed, rate=None, slots=NOW_MS + 1)).decision
    assert (decision.next, decision.retry_unchanged) == ((Next.ESCALATE, Next.STOP), False)
    assert decision.retry_after_ms is None
    assert decision.code is Code.LIMIT_RATE


def test_what_is_free_already_is_a_millisecond_away() -> None:
    allowed = decide_in(LIMITS, EDIT)
    outcome = decide_in(LIMITS, EDIT, reached=reached(allowed, rate=NOW_MS - 5))
    assert outcome.decision.retry_after_ms == 1


def test_only_an_allow_takes() -> None:
    for made in (
        call("fs/file_edit", path="/no/a", text="x"),
        call("fs/file_edit", path="/ask/a", text="x"),
        replace(EDIT, ids=NO_IDS),
        replace(EDIT, ask=True),
        call("fs/nothing"),
    ):
        decision = decide_in(LIMITS, made).decision
        assert decision.effect is not Effect.ALLOW
        assert decision.reservations == ()


def test_a_deny_by_rule_is_not_turned_into_one_by_limit() -> None:
    allowed = decide_in(LIMITS, EDIT)
    found = reached(allowed, rate=NOW_MS + 5, slots=NOW_MS + 5)
    no = decide_in(LIMITS, call("fs/file_edit", path="/no/a", text="x"), reached=found).decision
    assert no.code is Code.POLICY_FORBID
    ask = decide_in(LIMITS, call("fs/file_edit", path="/ask/a", text="x"), reached=found).decision
    assert ask.code is Code.APPROVAL_REQUIRED


def test_a_repeat_takes_nothing_and_is_not_refused() -> None:
    first = decide_in(LIMITS, EDIT, decision_id="d-first")
    assert first.decision.fingerprint is not None
    operation = OperationRecord(
        key="k",
        fingerprint=first.decision.fingerprint,
        state=OperationState.RESERVED,
        decision_id="d-first",
        expires_at_ms=NOW_MS + 60_000,
        version=1,
    )
    again = decide_in(LIMITS, EDIT, operation=operation, reached=reached(first, rate=NOW_MS + 5)).decision
    assert (again.effect, again.repeated, again.reservations) == (Effect.ALLOW, True, ())


def test_a_dry_run_is_told_what_would_be_taken() -> None:
    dry = replace(EDIT, dry_run=True)
    outcome = decide_in(LIMITS, dry)
    assert [each.limit for each in outcome.decision.reservations] == ["rate", "slots"]
    assert outcome.decision.lease is None
    body = record_of(LIMITS, dry, outcome)
    assert body["dry_run"] is True
    assert [entry["limit"] for entry in body["limits"]] == ["rate", "slots"]
    refused = decide_in(LIMITS, dry, reached=reached(outcome, rate=NOW_MS + 5)).decision
    assert refused.code is Code.LIMIT_RATE


def test_the_record_says_what_was_taken() -> None:
    outcome = decide_in(LIMITS, EDIT)
    (rate, slots) = record_of(LIMITS, EDIT, outcome)["limits"]
    assert rate == {
        "limit": "rate",
        "per": {"agent": "coder-1"},
        "amount": 1,
        "cap": 2,
        "window_ms": 60_000,
        "counter": outcome.decision.reservations[0].key,
    }
    assert (slots["limit"], slots["window_ms"]) == ("slots", 0)
    assert outcome.decision.reservations[1].expires_at_ms == outcome.decision.expires_at_ms


def test_every_agent_of_a_chain_is_counted() -> None:
    """A parent does not get round its limit by what its children do."""
    tool_found = LIMITS.tools[("fs", "file_edit")]
    chain = CapabilityFacts(presented=True, agents=("root-agent", "coder-1"))
    accesses = decide_in(LIMITS, EDIT).decision.accesses
    found = reservations_of(EDIT, facts(LIMITS), tool_found, accesses, chain)
    assert [dict(each.partition) for each in found if each.limit == "rate"] == [
        {"agent": "root-agent"},
        {"agent": "coder-1"},
    ]


def test_a_bundle_without_limits_costs_nothing() -> None:
    assert world().limits_by_tool == {}
    assert decide_in(world(), EDIT).decision.reservations == ()


@pytest.mark.parametrize(
    ("now_ms", "seen_ms", "expected"),
    [(10, 5, 10), (10, 10, 10), (10, 11, 11), (10, 300_010, 300_010), (10, 300_011, 10)],
)
def test_the_time_of_a_counter_stands_still_for_a_while(now_ms: int, seen_ms: int, expected: int) -> None:
    assert counter_time(now_ms, seen_ms) == expected


HOSTS = tool_file(
    "web",
    tool(
        "fetch",
        [{"verb": "connect", "kind": "url", "at": "/urls/*"}],
        {"urls": {"type": "array", "items": {"type": "string"}}},
    ),
)


@pytest.mark.parametrize(("hosts", "allowed"), [(MAX_RESERVATIONS, True), (MAX_RESERVATIONS + 1, False)])
def test_one_call_takes_of_a_bounded_number_of_counters(hosts: int, allowed: bool) -> None:
    """Each is locked while others wait, so a call that names hundreds is refused before it is asked."""
    ruleset = limited("{id: per-host, reason: r, calls: 9, seconds: 60, per: [domain]}", tools={"web": HOSTS})
    urls = [f"https://h{number}.example.com/" for number in range(hosts)]

    decision = decide_in(ruleset, call("web/fetch", urls=urls)).decision

    if allowed:
        assert decision.effect is Effect.ALLOW
        assert len({each.key for each in decision.reservations}) == hosts
        return
    assert (decision.effect, decision.stage, decision.code) == (
        Effect.DENY,
        Stage.RESERVATION,
        Code.LIMIT_RATE,
    )
    assert decision.next == (Next.CHANGE_ARGUMENTS, Next.STOP)
    assert [(match.rule, match.kind) for match in decision.matched] == [("per-host", RuleKind.LIMIT)]
    assert not decision.reservations
    assert not decision.retry_unchanged
    assert "at most 64 counters" in decision.message

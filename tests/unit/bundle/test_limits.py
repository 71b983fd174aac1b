"""`limits.yaml`: what it may say, and every slip with its line and what to write instead."""

from pathlib import Path
from typing import Any

import pytest

from authz.bundle.load import load_bundle
from authz.bundle.self_protection import Protected
from authz.errors import BundleProblem
from authz.model.limit import Count, Partition
from authz.model.resource import Authority, Verb
from tests.support.bundles import write_bundle
from tests.support.world import CREDENTIALS, fault_of, faults_of, tool, tool_file, world

RULES = '@id("everything") permit (principal, action, resource);'
FOLDING = CREDENTIALS + "    volume: {case_sensitive: false, normalization: nfc}\n"
COUNTED = "id: l, reason: r, cost: {{amount: '{}', currency: {}}}, seconds: 9"
COST = COUNTED + ", per: [user], where: {{tools: [{}]}}"
RATE = "calls: 2, seconds: 60, per: [agent]"


def limits_file(*entries: str) -> str:
    return "limits:\n" + "".join(f"  - {{{entry}}}\n" for entry in entries)


def slip(*entries: str, **files: Any) -> BundleProblem:
    problem = fault_of(RULES, limits=limits_file(*entries), **files)
    assert problem.file == "limits.yaml"
    return problem


def test_it_is_read_whole() -> None:
    text = """\
limits:
  - id: first
    reason: Why.
    calls: 5
    seconds: 60
    per: [user, agent]
    where:
      agents: [coder-1]
      groups: [finance]
      verbs: [write]
      levels: [A1, A2]
      resources: ["file:///workspace", "domain:example.com"]
  - id: second
    reason: Why.
    concurrency: 3
    per: [tenant]
"""
    first, second = world(RULES, limits=text).limits
    assert (first.id, first.count, first.cap, first.window_ms) == ("first", Count.CALLS, 5, 60_000)
    assert first.per == (Partition.AGENT, Partition.USER), "in one order, so that the counters stay the same"
    assert (first.file, first.line) == ("limits.yaml", 2)
    assert first.where.verbs == frozenset({Verb.WRITE})
    assert first.where.levels == frozenset({Authority.A1, Authority.A2})
    assert first.where.members == (frozenset(), frozenset({"grace"}))
    assert first.where.resources is not None
    assert [scope.container for scope in first.where.resources] == [
        ("Directory", "/workspace"),
        ("Domain", "example.com"),
    ]
    assert (second.count, second.cap, second.window_ms, second.line) == (Count.CONCURRENCY, 3, 0, 13)


def test_it_may_be_absent_or_empty(tmp_path: Path) -> None:
    assert world(RULES).limits == ()
    assert world(RULES, limits="limits: []\n").limits == ()
    folder = write_bundle(tmp_path / "bundle", limits=limits_file(f"id: l, reason: r, {RATE}"))
    assert [limit.id for limit in load_bundle(folder, Protected()).limits] == ["l"]


def test_a_change_of_it_is_another_version() -> None:
    one, two = (world(RULES, limits=limits_file(f"id: {name}, reason: r, {RATE}")) for name in "ab")
    assert len({world(RULES).version, one.version, two.version}) == 3


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        (f"id: l, reason: r, {RATE}, whree: {{}}", "unknown key"),
        (f"id: l, reason: r, {RATE}, where: {{agent: [a]}}", "unknown key"),
        ("id: l, reason: r, calls: 2, seconds: 60", "missing"),
        (f"id: l, {RATE}", "missing"),
        (f"reason: r, {RATE}", "missing"),
        (f"id: 'a b', reason: r, {RATE}", "pattern"),
        ("id: l, reason: r, calls: 0, seconds: 60, per: [agent]", "greater than or equal to 1"),
        ("id: l, reason: r, calls: '2', seconds: 60, per: [agent]", "integer"),
        ("id: l, reason: r, calls: 2, seconds: 0, per: [agent]", "greater than or equal to 1"),
        ("id: l, reason: r, calls: 2, seconds: 60, per: []", "at least 1 item"),
        ("id: l, reason: r, calls: 2, seconds: 60, per: [host]", "tenant"),
        (f"id: l, reason: r, {RATE}, where: {{agents: []}}", "at least 1 item"),
        (f"id: l, reason: r, {RATE}, where: {{agents: ['a ']}}", "blank"),
        (f"id: l, reason: r, {RATE}, where: {{verbs: [writes]}}", "administer"),
    ],
)
def test_what_the_format_refuses(entry: str, words: str) -> None:
    problem = slip(entry)
    assert words in problem.message
    assert problem.line == 2


@pytest.mark.parametrize(
    ("entry", "code", "words"),
    [
        ("id: l, reason: r, seconds: 60, per: [agent]", "limit.count", "none of them"),
        (
            "id: l, reason: r, calls: 2, concurrency: 2, seconds: 60, per: [agent]",
            "limit.count",
            "`calls` and `concurrency`",
        ),
        ("id: l, reason: r, calls: 2, per: [agent]", "limit.count", "needs `seconds`"),
        ("id: l, reason: r, concurrency: 2, seconds: 60, per: [agent]", "limit.count", "has no `seconds`"),
        (
            COST.format("0", "EUR", "bank/paid"),
            "limit.count",
            "would allow nothing",
        ),
        ("id: l, reason: r, calls: 2, seconds: 60, per: [agent, agent]", "limit.per", "twice"),
        ("id: l, reason: r, calls: 2, seconds: 60, per: [tenant, agent]", "limit.per", "stands alone"),
        (f"id: everything, reason: r, {RATE}", "limit.id-twice", "a rule is called `everything`"),
        (f"id: l, reason: r, {RATE}, where: {{groups: [finnance]}}", "limit.unknown-group", "`finnance`"),
        (f"id: l, reason: r, {RATE}, where: {{tools: [fs/file_raed]}}", "limit.unknown-tool", "file_raed"),
        (f"id: l, reason: r, {RATE}, where: {{servers: [sf]}}", "limit.unknown-server", "`sf`"),
        (
            f"id: l, reason: r, {RATE}, where: {{resources: ['domain:Example.com.']}}",
            "limit.not-canonical",
            "not canonical",
        ),
        (
            f"id: l, reason: r, {RATE}, where: {{resources: ['file:///a/../b']}}",
            "limit.not-canonical",
            "not canonical",
        ),
        (
            f"id: l, reason: r, {RATE}, where: {{resources: ['/workspace']}}",
            "limit.not-canonical",
            "can never match",
        ),
        (
            f"id: l, reason: r, {RATE}, where: {{resources: ['https://a.example/x?y=1']}}",
            "limit.not-canonical",
            "no place",
        ),
        (
            f"id: l, reason: r, {RATE}, where: {{tools: [fs/file_read], verbs: [write]}}",
            "limit.never-holds",
            "no tool makes such an access",
        ),
        (
            COST.format("1", "EUR", "fs/file_read"),
            "limit.cost-unknown",
            "`fs/file_read` falls under it and declares no cost",
        ),
        (
            COST.format("1", "USD", "bank/paid"),
            "limit.cost-unknown",
            "has its cost in EUR",
        ),
        (
            COST.format("0.1", "EUR", "bank/paid"),
            "limit.cost-over",
            "costs more than the limit",
        ),
    ],
)
def test_what_could_never_hold_or_would_let_calls_past(entry: str, code: str, words: str) -> None:
    fs = tool_file("fs", tool("file_read", [{"verb": "read", "kind": "path", "at": "/path"}], TEXT_PATH))
    paid = tool(
        "paid",
        [{"verb": "read", "kind": "path", "at": "/path"}],
        TEXT_PATH,
        cost={"amount": "0.5", "currency": "EUR"},
    )
    problem = slip(entry, tools={"fs": fs, "bank": tool_file("bank", paid)})
    assert problem.code == code
    assert words in problem.message
    assert problem.line == 2
    if code != "limit.id-twice":
        assert problem.hint or code == "limit.per"


TEXT_PATH = {"path": {"type": "string"}}


def test_the_hint_is_what_to_write() -> None:
    close = slip(f"id: l, reason: r, {RATE}, where: {{tools: [fs/file_raed]}}")
    assert close.hint == "did you mean `fs/file_read`?"
    spelled = slip(f"id: l, reason: r, {RATE}, where: {{resources: ['domain:Example.com.']}}")
    assert spelled.hint == "write domain:example.com"


def test_literals_hold_on_every_volume() -> None:
    problem = slip(
        f"id: l, reason: r, {RATE}, where: {{resources: ['file:///Workspace']}}", credentials=FOLDING
    )
    assert (problem.code, problem.hint) == ("limit.not-canonical", "write file:///workspace")


def test_two_of_one_name() -> None:
    problem = slip(f"id: l, reason: r, {RATE}", f"id: l, reason: other, {RATE}")
    assert (problem.code, problem.line) == ("limit.id-twice", 3)


def test_every_fault_is_told() -> None:
    entries = (
        f"id: l, reason: r, {RATE}, where: {{tools: [a/b], groups: [c]}}",
        "id: m, reason: r, per: [x]",
    )
    assert len(faults_of(RULES, limits=limits_file(entries[0]))) == 2
    assert len(faults_of(RULES, limits=limits_file(*entries))) == 1, "a file with a wrong form is not read on"


def test_a_tool_that_has_faults_of_its_own_is_no_unknown_tool() -> None:
    broken = tool_file("bank", tool("paid", [{"verb": "read", "kind": "path", "at": "/nothing"}], TEXT_PATH))
    found = faults_of(
        RULES, limits=limits_file(f"id: l, reason: r, {RATE}, where: {{tools: [bank/paid]}}"), tools=broken
    )
    assert {problem.file for problem in found} == {"tools/main.yaml"}

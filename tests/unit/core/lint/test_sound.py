"""What lint says of a rule is true of its decisions: random rules, decided over calls of every tool."""

from collections.abc import Iterator
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from authz.bundle.check import check_files
from authz.bundle.load import BundleSources, compile_bundle
from authz.bundle.self_protection import Protected
from authz.core.ruleset import Ruleset
from authz.errors import BundleError
from tests.support.world import bundle_files, call, decide_in, source, world
from tests.unit.core.test_policy_narrow import _CLAUSES, _RULES

READS = call("fs/file_read", path="/workspace/x")
CALLS = [
    READS,
    call("fs/file_edit", path="/workspace/x", text="x", append=True),
    call("fs/file_edit", path="/etc/x", text="y"),
    call("fs/file_remove", path="/workspace/a", recursive=True),
    call("fs/file_copy", {"from": "/workspace/a", "to": "/srv/b.x"}),
    call("web/fetch", url="https://example.com/a"),
    call("bank/transfer", to="a-1", amount=10),
    call("bank/mail_send", to="ada@example.com", body="x", provenance={"/to": source("email")}),
    replace(READS, claims=replace(READS.claims, cwd=None, sandbox_root=None)),
    call("fs/file_read", path="x", cwd=None),
]


def decided_by(ruleset: Ruleset, rule: str) -> Iterator[bool]:
    """Whether the rule was among those that decided, call by call."""
    for one in CALLS:
        decision = decide_in(ruleset, one).decision
        yield rule in {match.rule for match in decision.matched}


def permits(rules: list[str]) -> str:
    return "\n".join(f'@id("r{n}") {rule.replace("forbid", "permit", 1)}' for n, rule in enumerate(rules))


@settings(max_examples=60, deadline=None)
@given(st.lists(_RULES, min_size=1, max_size=3))
def test_a_rule_that_can_never_match_never_does(rules: list[str]) -> None:
    files = bundle_files(rules=permits(rules))
    try:
        ruleset = compile_bundle(BundleSources(files=files), Protected())
    except BundleError:
        return
    for finding in check_files(files, with_tools=False).findings:
        if finding.code == "rule.never-matches":
            assert finding.line is not None
            assert not any(decided_by(ruleset, f"r{finding.line - 1}"))


@settings(max_examples=60, deadline=None)
@given(_CLAUSES)
def test_a_condition_that_always_holds_changes_nothing(clauses: list[tuple[str, str]]) -> None:
    scope = '@id("r0") permit (principal, action in Action::"read", resource is File)'
    text = scope + " " + " ".join(f"{word} {{ {condition} }}" for word, condition in clauses) + ";"
    files = bundle_files(rules=text)
    try:
        ruleset = compile_bundle(BundleSources(files=files), Protected())
    except BundleError:
        return
    report = check_files(files, with_tools=False)
    if sum(one.code == "rule.condition-always-holds" for one in report.findings) == len(clauses):
        bare = world(scope + ";")
        assert list(decided_by(ruleset, "r0")) == list(decided_by(bare, "r0"))


@settings(max_examples=60, deadline=None)
@given(st.lists(_RULES, min_size=2, max_size=4))
def test_what_is_permitted_without_a_redundant_permit_is_the_same(rules: list[str]) -> None:
    text = permits(rules)
    files = bundle_files(rules=text)
    try:
        ruleset = compile_bundle(BundleSources(files=files), Protected())
    except BundleError:
        return
    report = check_files(files, with_tools=False)
    dropped = {one.line for one in report.findings if one.code == "rule.redundant"}
    left = [line for number, line in enumerate(text.split("\n"), start=1) if number not in dropped]
    if dropped:
        # At least one of any number of equal permits is left.
        without = world("\n".join(left))
        for one in CALLS:
            assert decide_in(ruleset, one).decision.effect == decide_in(without, one).decision.effect


def test_these_calls_reach_every_tool_and_some_rule() -> None:
    """Or the properties above would say nothing."""
    ruleset = world('@id("r0") permit (principal, action, resource);')
    assert sum(decided_by(ruleset, "r0")) >= 9
    assert {f"{one.server}/{one.tool}" for one in CALLS} >= {"fs/file_read", "web/fetch", "bank/transfer"}

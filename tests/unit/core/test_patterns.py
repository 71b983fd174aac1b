"""Accesses to what a pattern matches: judged at the places that it reaches, and at no other."""

import pytest

from authz.model.decision import Decision, Effect
from tests.support.world import (
    TEXT,
    bundle_files,
    call,
    decide_in,
    record_of,
    rules_of,
    tool,
    tool_file,
    world,
)

SHELL = tool_file(
    "shell",
    tool(
        "run",
        [{"verb": "execute", "kind": "shell", "at": "/command"}],
        {"command": TEXT},
        roles={"/command": "command"},
        side_effect="cumulative",
    ),
)
PERMIT = '@id("all") permit (principal, action, resource);'
SECRETS = '@id("secrets") forbid (principal, action, resource in Directory::"/workspace/secrets");'
DEEP = '@id("deep") forbid (principal, action, resource in Directory::"/workspace/a/b/secrets");'
HIDDEN = '@id("hidden") forbid (principal, action, resource in Directory::"/workspace/.hidden");'


def decide(rules: str, line: str) -> Decision:
    return decide_in(world(rules, tools=SHELL), call("shell/run", command=line)).decision


def effect(rules: str, line: str) -> tuple[Effect, list[str]]:
    decided = decide(rules, line)
    return decided.effect, [rule.rule for rule in decided.matched]


@pytest.mark.parametrize(
    "line",
    [
        "cat *.md",
        "rm build/*.o",
        "rm -r build/*",
        "grep -r x src/**/*.py",
        "cat [a-c]*.py",
        "ls doc*",
        "cat docs/*/x.md",
        "cp *.md docs",
        'for f in *.md; do cat "$f"; done',
    ],
)
def test_a_pattern_that_cannot_match_the_forbidden_place_is_no_access_to_it(line: str) -> None:
    assert effect(PERMIT + SECRETS, line) == (Effect.ALLOW, ["all"])


@pytest.mark.parametrize(
    "line",
    [
        "cat *",
        "cat s*",
        "cat */*",
        "cat */key",
        "cat */*.md",
        "rm -r *",
        "rm -r s*",
        "cat sec?ets/key",
        "cat [s]ecrets/key",
        "cat SEC*/key",
        "cat **/key",
        "ls **/*.md",
        "cat {secrets,docs}/x",
        "cat {sec,doc}*/x",
        "ls s*/",
        "cat ./s*",
        "cat docs/../s*",
        "cat /workspace/s*",
        "cat /work*/secrets/x",
        "cat /*/secrets",
        "cd docs && cat ../s*",
        "grep -r x s*",
        "tar cz *",
        'for d in *; do cat "$d/key"; done',
        "git add s*",
        "sh -c 'cat s*'",
        # git's own patterns cross folders.
        "git grep x -- '*.md'",
        "echo */x*",
        "frob s*",
        "frob --in=s*",
    ],
)
def test_a_pattern_that_may_match_it_is_denied(line: str) -> None:
    found, rules = effect(PERMIT + SECRETS, line)
    assert (found, rules) == (Effect.DENY, ["secrets"])


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        # A matched folder is a tree only to a program that descends into it.
        ("cat a*", Effect.ALLOW),
        ("rm a*", Effect.ALLOW),
        ("grep x a*", Effect.ALLOW),
        ("rm -r a*", Effect.DENY),
        ("cp -r a* /workspace/z", Effect.DENY),
        ("mv a* z", Effect.DENY),
        ("grep -r x a*", Effect.DENY),
        ("chmod -R 600 a*", Effect.DENY),
        ("du a*", Effect.DENY),
        ("rm -r b*", Effect.ALLOW),
        ("rm -r a/c*", Effect.ALLOW),
        ("rm -r a/b*", Effect.DENY),
        ("cat a/*/*", Effect.DENY),
        ("cat a/**/x", Effect.DENY),
    ],
)
def test_what_lies_deeper_than_what_matches(line: str, expected: Effect) -> None:
    assert effect(PERMIT + DEEP, line)[0] is expected


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("cat *", Effect.ALLOW),
        ("rm -r *", Effect.ALLOW),
        ("cat .h*", Effect.DENY),
        ("cat ./.??dden/x", Effect.DENY),
        # In what is reached whole, it is there as any other name is.
        ("rm -r ../work*", Effect.DENY),
        # With a setting of the line nothing of it is understood.
        ("shopt -s dotglob; cat *", Effect.REQUIRE_APPROVAL),
        ("bash -O dotglob -c 'cat *'", Effect.REQUIRE_APPROVAL),
        ("GLOBIGNORE=x; cat *", Effect.REQUIRE_APPROVAL),
    ],
)
def test_a_leading_dot_is_matched_by_a_dot(line: str, expected: Effect) -> None:
    opaque = '@id("ask") @requires("approval") forbid (principal, action, resource is Opaque);'
    assert effect(PERMIT + HIDDEN + opaque, line)[0] is expected


def test_a_volume_that_folds_case() -> None:
    folding = bundle_files()["credentials.yaml"].replace(
        b"    home:", b"    volume: {case_sensitive: false, normalization: nfc}\n    home:"
    )
    street = '@id("street") forbid (principal, action, resource in Directory::"/workspace/strasse");'
    ruleset = world(PERMIT + street, tools=SHELL, credentials=folding.decode())
    for line, expected in (
        ("cat Stra?e/x", Effect.DENY),  # `straße` is one character shorter on the disk
        ("cat STR*/x", Effect.DENY),
        ("cat *.md", Effect.ALLOW),
    ):
        decided = decide_in(ruleset, call("shell/run", command=line)).decision
        assert decided.effect is expected, line


@pytest.mark.parametrize(
    ("rule", "line", "expected"),
    [
        ('when { resource.extension == "pem" }', "cat *.md", Effect.ALLOW),
        ('when { resource.extension == "pem" }', "cat *.PEM", Effect.REQUIRE_APPROVAL),
        ('when { resource.extension == "pem" }', "cat *.p?m", Effect.REQUIRE_APPROVAL),
        ('when { resource.extension == "pem" }', "cat key*", Effect.REQUIRE_APPROVAL),
        ('when { ["pem", "key"].contains(resource.extension) }', "cat *.md", Effect.ALLOW),
        ('when { ["pem", "key"].contains(resource.extension) }', "cat *.ke?", Effect.REQUIRE_APPROVAL),
        # The folder itself has none either.
        ('when { resource.extension == "" }', "cat *.md", Effect.DENY),
        ('when { resource.names.contains(".ssh") }', "cat *.md", Effect.ALLOW),
        ('when { resource.names.contains(".ssh") }', "cat .s*", Effect.REQUIRE_APPROVAL),
        ('when { resource.names.contains(".ssh") }', "cat */x.md", Effect.ALLOW),
        ('when { resource.names.contains("keys") }', "cat */x.md", Effect.REQUIRE_APPROVAL),
        ('when { resource.names.containsAny([".ssh", "x.md"]) }', "cat docs/*.md", Effect.REQUIRE_APPROVAL),
        ('when { resource.names.containsAny([".ssh", ".aws"]) }', "cat docs/*.md", Effect.ALLOW),
        ('when { resource.name like "*.env.*" }', "cat *.md", Effect.REQUIRE_APPROVAL),
        ('when { resource.name like ".env*" }', "cat a*", Effect.ALLOW),
        ('when { resource.name like ".env*" && resource.extension == "x" }', "cat *.md", Effect.ALLOW),
        (
            'when { resource.name like "a*" && resource.extension == "md" }',
            "cat *.md",
            Effect.REQUIRE_APPROVAL,
        ),
        ('when { resource.name == "x.md" }', "cat *.md", Effect.REQUIRE_APPROVAL),
        ('when { resource.name == "x.txt" }', "cat *.md", Effect.ALLOW),
        ('when { resource == File::"/workspace/x.txt" && resource.name like "*" }', "cat *.md", Effect.ALLOW),
        (
            'when { resource.name like "a*" && !(["md"].contains(resource.extension)) }',
            "cat *.md",
            Effect.ALLOW,
        ),
        (
            'when { resource.name like "a*" && !(["md"].contains(resource.extension)) }',
            "cat *.MD",
            Effect.ALLOW,
        ),
        (
            'when { resource.name like "a*" && !(["md"].contains(resource.extension)) }',
            "cat *md",
            Effect.REQUIRE_APPROVAL,
        ),
        # The folder itself does not have it.
        ('unless { ["md"].contains(resource.extension) }', "cat *.md", Effect.DENY),
        ('unless { resource.name != "y" }', "cat *.md", Effect.ALLOW),
        ('unless { resource.name != "y.md" }', "cat *.md", Effect.REQUIRE_APPROVAL),
        # Of what lies in a matched folder no name is known.
        ('when { resource.extension == "pem" }', "grep -r x *.md", Effect.REQUIRE_APPROVAL),
        ('when { resource.extension == "pem" }', "cat */*.md", Effect.REQUIRE_APPROVAL),
        ('when { resource.names.contains("pem") }', "cat **/*.md", Effect.REQUIRE_APPROVAL),
        # What may fail to be evaluated may hold for all that is known here.
        (
            'when { context.now.toDate() < datetime("2020-01-01") && resource.name like "a*" }',
            "cat b*.md",
            Effect.REQUIRE_APPROVAL,
        ),
        (
            'when { resource.name like "a*" && context.now.toDate() < datetime("2020-01-01") }',
            "cat b*.md",
            Effect.ALLOW,
        ),
    ],
)
def test_a_rule_that_looks_closer_asks_only_where_it_may_hold(rule: str, line: str, expected: Effect) -> None:
    closer = f'@id("closer") forbid (principal, action in Action::"read", resource is File) {rule};'
    found, rules = effect(PERMIT + closer, line)
    assert found is expected, rules
    if expected is Effect.REQUIRE_APPROVAL:
        assert rules == ["authz:tree"]


@pytest.mark.parametrize(
    "line", ["ls -R", "ls -R .", "find . -name x", "find .", "tree", "du -a", "rg --files"]
)
def test_a_listing_of_a_tree_is_a_read_of_it(line: str) -> None:
    """Names are what a folder holds: who may not read it may not list it from above either."""
    assert effect(PERMIT + SECRETS, line) == (Effect.DENY, ["secrets"])
    assert effect(PERMIT + SECRETS, f"cd docs && {line}") == (Effect.ALLOW, ["all"])


def test_a_listing_of_one_folder_tells_nothing_of_what_lies_deeper() -> None:
    assert effect(PERMIT + SECRETS, "ls") == (Effect.ALLOW, ["all"])
    assert effect(PERMIT + SECRETS, "ls secrets") == (Effect.DENY, ["secrets"])


def test_the_pattern_is_in_the_record_and_in_the_fingerprint() -> None:
    ruleset = world(PERMIT, tools=SHELL)
    fingerprints = set()
    for line in ("cat *.md", "cat *.txt", "cat -- *.md"):
        made = call("shell/run", command=line)
        outcome = decide_in(ruleset, made)
        fingerprints.add(outcome.decision.fingerprint)
        told = [
            access["pattern"]
            for access in record_of(ruleset, made, outcome)["accesses"]
            if "pattern" in access
        ]
        assert told == [line.rpartition(" ")[2]]
        assert rules_of(outcome) == ["all"]
    assert len(fingerprints) == 3


def test_two_patterns_in_one_folder_are_two_accesses() -> None:
    decided = decide(PERMIT + SECRETS, "cat *.md s*")
    patterns = [access.pattern.text for access in decided.accesses if access.pattern is not None]
    assert patterns == ["*.md", "s*"]
    assert decided.effect is Effect.DENY

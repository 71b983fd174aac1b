"""Accesses to trees: judged at the root, and at every place beneath it that a rule names (spec section 4)."""

import pytest

from authz.core import judge
from authz.model.decision import Code, Decision, Effect
from authz.model.resource import Authority, Verb
from tests.support.world import TEXT, call, decide_in, tool, tool_file, world

FORBIDS = '@id("secret") forbid (principal, action, resource in Directory::"/w/a/.secrets");'
PERMITS = '@id("all") permit (principal, action, resource in Directory::"/w");'
ASKS = (
    '@id("asks") @requires("approval") @approvers("Group::\\"staff\\"") '
    'forbid (principal, action, resource in Directory::"/w/a/asked");'
)


def effect(
    rules: str, path: str, *, recursive: bool = True
) -> tuple[Effect, list[str], list[tuple[str, ...]]]:
    decided = decide_in(world(rules), call("fs/file_remove", path=path, recursive=recursive)).decision
    return (
        decided.effect,
        [rule.rule for rule in decided.matched],
        [verdict.beneath for verdict in decided.verdicts],
    )


@pytest.mark.parametrize("path", ["/w", "/w/a", "/w/b/../a", "/w/a/.secrets", "/w/a/.secrets/x"])
def test_a_forbidden_place_beneath_denies_the_folder(path: str) -> None:
    found = effect(PERMITS + FORBIDS, path)
    assert found[:2] == (Effect.DENY, ["secret"])


def test_the_record_says_which_place_it_was() -> None:
    assert effect(PERMITS + FORBIDS, "/w")[2] == [("file:///w/a/.secrets",)]
    assert effect(PERMITS + FORBIDS, "/w/a/.secrets")[2] == [()]


@pytest.mark.parametrize("path", ["/w/b", "/w/a/.secrets2", "/w/a/x"])
def test_a_neighbour_is_not_denied(path: str) -> None:
    assert effect(PERMITS + FORBIDS, path)[:2] == (Effect.ALLOW, ["all"])


def test_the_folder_itself_is_no_tree() -> None:
    assert effect(PERMITS + FORBIDS, "/w/a", recursive=False)[:2] == (Effect.ALLOW, ["all"])


def test_a_place_beneath_that_asks_asks_for_the_folder() -> None:
    assert effect(PERMITS + ASKS, "/w")[:2] == (Effect.REQUIRE_APPROVAL, ["asks"])
    assert effect(PERMITS + ASKS + FORBIDS, "/w")[:2] == (Effect.DENY, ["secret"])


@pytest.mark.parametrize(
    "rule",
    [
        '@id("x") forbid (principal, action, resource is File) when { resource.names.contains(".env") };',
        '@id("x") forbid (principal, action, resource is File) when { resource.extension == "pem" };',
        '@id("x") forbid (principal, action, resource is File) when { resource.name like "*.k" };',
    ],
)
def test_a_rule_that_looks_closer_than_at_places_asks(rule: str) -> None:
    """Nobody has looked whether the folder holds what the rule is about."""
    assert effect(PERMITS + rule, "/w/b")[:2] == (Effect.REQUIRE_APPROVAL, ["authz:tree"])
    other = rule.replace("principal, action,", 'principal, action in Action::"read",')
    assert effect(PERMITS + other, "/w/b")[:2] == (Effect.ALLOW, ["all"]), "it is about another action"


@pytest.mark.parametrize(
    "permit",
    [
        '@id("one") permit (principal, action, resource == File::"/w/b");',
        '@id("one") permit (principal, action, resource) when { resource == File::"/w/b" };',
        '@id("one") permit (principal, action, resource) when { resource.name == "b" };',
    ],
)
def test_what_is_permitted_for_one_object_is_not_for_what_it_holds(permit: str) -> None:
    rules = permit.replace("resource)", "resource is File)")
    assert effect(rules, "/w/b", recursive=False)[:2] == (Effect.ALLOW, ["one"])
    assert effect(rules, "/w/b")[:2] == (Effect.REQUIRE_APPROVAL, ["authz:tree"])


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        # A permit that leaves a place out does not reach into it.
        (
            (
                '@id("p") permit (principal, action, resource in Directory::"/w") '
                'unless { resource in Directory::"/w/a/out" };'
            ),
            Effect.DENY,
        ),
        # A forbid that spares a place holds at the root.
        (
            (
                f'{PERMITS} @id("f") forbid (principal, action, resource) '
                'unless { resource in Directory::"/w/a/spared" };'
            ),
            Effect.DENY,
        ),
        ('@id("p") permit (principal, action, resource) when { resource is File };', Effect.ALLOW),
        (PERMITS + '@id("f") forbid (principal, action, resource in Directory::"/elsewhere");', Effect.ALLOW),
    ],
)
def test_what_rules_of_places_say_of_a_tree(rules: str, expected: Effect) -> None:
    assert effect(rules, "/w")[0] is expected


REPO = tool_file(
    "vcs",
    tool(
        "push",
        [{"verb": "write", "kind": "repo", "at": "/remote", "ref_at": "/branch"}],
        {"remote": TEXT, "branch": {"type": "string", "default": "main"}},
    ),
    tool("mirror", [{"verb": "write", "kind": "repo", "at": "/remote", "scope": "tree"}], {"remote": TEXT}),
)
SQL = tool_file(
    "db",
    tool(
        "run",
        [
            {
                "verb": "read",
                "kind": "sql",
                "at": "/statement",
                "database": "prod",
                "dialect": "postgres",
                "default_schema": "scratch",
            }
        ],
        {"statement": TEXT},
    ),
)
ALL = '@id("all") permit (principal, action, resource);'


@pytest.mark.parametrize(
    "rule",
    [
        'forbid (principal, action, resource == Branch::"git.example.com/team/app#main");',
        'forbid (principal, action, resource in Repo::"git.example.com/team/app/sub");',
    ],
)
def test_what_lies_in_a_repository(rule: str) -> None:
    ruleset = world(f'{ALL} @id("f") {rule}', tools=REPO)
    for remote in ("https://git.example.com/team/app", "git@git.example.com:team"):
        decided = decide_in(ruleset, call("vcs/mirror", remote=remote)).decision
        assert decided.effect is Effect.DENY, remote
    beside = decide_in(ruleset, call("vcs/mirror", remote="https://git.example.com/team/apple")).decision
    assert beside.effect is Effect.ALLOW


@pytest.mark.parametrize(
    "rules",
    [
        f'{ALL} @id("f") forbid (principal, action, resource is Branch);',
        f'{ALL} @id("f") forbid (principal, action, resource) when {{ resource is Branch }};',
        '@id("p") permit (principal, action, resource is Repo);',
    ],
)
def test_a_rule_about_one_of_the_types_in_a_repository_looks_closer(rules: str) -> None:
    decided = decide_in(
        world(rules, tools=REPO), call("vcs/mirror", remote="git@git.example.com:a/b")
    ).decision
    assert (decided.effect, [rule.rule for rule in decided.matched]) == (
        Effect.REQUIRE_APPROVAL,
        ["authz:tree"],
    )


@pytest.mark.parametrize("statement", ["DROP SCHEMA shop", "DROP SCHEMA shop CASCADE"])
def test_what_lies_in_a_schema(statement: str) -> None:
    forbid = '@id("f") forbid (principal, action, resource == Table::"prod/shop/orders");'
    decided = decide_in(world(ALL + forbid, tools=SQL), call("db/run", statement=statement)).decision
    assert decided.effect is Effect.DENY


@pytest.mark.parametrize(
    "rules",
    [
        f'{PERMITS} @id("f") forbid (principal, action, resource) unless {{ resource == File::"/w" }};',
        f'{PERMITS} @id("f") forbid (principal, action, resource) when {{ resource != File::"/w" }};',
        f'{PERMITS} @id("f") forbid (principal, action, resource) unless {{ resource in File::"/w" }};',
        '@id("p") permit (principal, action, resource in File::"/w");',
        '@id("p") permit (principal, action, resource) when { resource in [File::"/w"] };',
        '@id("p") permit (principal, action, resource) when { File::"/w" in resource };',
    ],
)
def test_a_rule_about_one_object_says_nothing_of_what_it_holds(rules: str) -> None:
    assert effect(rules, "/w", recursive=False)[0] is Effect.ALLOW
    assert effect(rules, "/w")[0] is not Effect.ALLOW


def test_the_places_of_one_call_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    rules = PERMITS + "".join(
        f'@id("p{n}") permit (principal, action, resource in Directory::"/w/{n}");' for n in range(4)
    )
    monkeypatch.setattr(judge, "MAX_PLACES", 4)
    assert effect(rules, "/w")[0] is Effect.ALLOW
    monkeypatch.setattr(judge, "MAX_PLACES", 3)
    decided = decide_in(world(rules), call("fs/file_remove", path="/w", recursive=True)).decision
    assert (decided.effect, decided.code) == (Effect.DENY, Code.POLICY_ERROR)


class TestOneBranch:
    RULES = f'{ALL} @id("f") forbid (principal, action, resource == Branch::"git.example.com/team/app#main");'

    def decided(self, **arguments: object) -> Decision:
        return decide_in(world(self.RULES, tools=REPO), call("vcs/push", **arguments)).decision

    @pytest.mark.parametrize("branch", ["main", "heads/main", "refs/heads/main", None])
    def test_every_spelling_is_the_branch(self, branch: str | None) -> None:
        named = {} if branch is None else {"branch": branch}
        decided = self.decided(remote="git@git.example.com:team/app.git", **named)
        assert decided.effect is Effect.DENY

    def test_the_executor_gets_the_canonical_branch(self) -> None:
        decided = self.decided(remote="git@git.example.com:team/app.git", branch="refs/heads/dev")
        assert decided.effect is Effect.ALLOW
        assert decided.arguments == {"remote": "ssh://git@git.example.com/team/app", "branch": "dev"}

    @pytest.mark.parametrize(
        "remote", ["https://git.example.com/team/app#dev", "git@git.example.com:team/app#x"]
    )
    def test_a_branch_that_is_named_twice_is_refused(self, remote: str) -> None:
        decided = self.decided(remote=remote, branch="main")
        assert (decided.effect, decided.code) == (Effect.DENY, Code.CANONICAL_REFUSED)


@pytest.mark.parametrize(
    "statement", ["COPY t TO PROGRAM 'id'", "DROP FUNCTION x", "SELECT pg_read_file('/x')"]
)
def test_a_statement_that_is_not_understood_is_no_read(statement: str) -> None:
    """Whatever verb the descriptor has: it is executed, at A3."""
    reads = '@id("r") permit (principal, action in Action::"read", resource);'
    decided = decide_in(world(reads, tools=SQL), call("db/run", statement=statement)).decision
    assert decided.effect is Effect.DENY
    [access] = decided.accesses
    assert (access.verb, access.authority) == (Verb.EXECUTE, Authority.A3)
    good = decide_in(world(reads, tools=SQL), call("db/run", statement="SELECT 1 FROM a.b")).decision
    assert good.effect is Effect.ALLOW


def test_who_may_only_read_sees_a_tool_that_can_read() -> None:
    """Its descriptor says `write`, its statements say what they do."""
    writes = SQL.replace('"verb": "read"', '"verb": "write"').replace('"none"', '"cumulative"')
    reads = '@id("r") permit (principal, action in Action::"read", resource);'
    ruleset = world(reads, tools=writes)
    assert decide_in(ruleset, call("db/run", statement="SELECT 1 FROM a.b")).decision.effect is Effect.ALLOW
    denied = decide_in(ruleset, call("db/run", statement="DELETE FROM a.b")).decision
    assert (denied.effect, denied.code) == (Effect.DENY, Code.POLICY_NO_MATCH)

"""Rule files at load: what is refused, with file and line, before it could ever decide wrongly."""

import pytest

from authz.core.cedar_schema import ENTITY_ATTRIBUTES
from authz.core.policy import parse_rule_file
from authz.errors import BundleError, BundleProblem
from authz.model.approval import AskTerms, Factor
from authz.model.decision import Effect, RuleKind
from tests.support.world import PERMIT_ALL, call, decide_in, fault_of, faults_of, rules_of, world

READ = 'action in Action::"read"'


def problem_of(text: str) -> BundleProblem:
    """The only fault of a rule file."""
    with pytest.raises(BundleError) as caught:
        parse_rule_file("rules/a.cedar", text)
    (problem,) = caught.value.problems
    assert problem.file == "rules/a.cedar"
    return problem


def terms_of(annotations: str) -> AskTerms:
    (policy,) = parse_rule_file(
        "a", f'@id("a") @requires("approval") {annotations} forbid (principal, action, resource);'
    )
    assert policy.match.kind is RuleKind.ASK
    assert policy.match.terms is not None
    return policy.match.terms


LISTING = """\
// A comment with a ; and a "quote, which is no rule.

@id("one") // and one here; permit (principal, action, resource);
@reason("a; \\"quoted\\" // reason")
permit (principal, action, resource)
when { context.role like "a;b*" || true /* no comment in Cedar */ };
"""


def test_a_rule_knows_its_file_and_line() -> None:
    text = LISTING.replace(" /* no comment in Cedar */", "") + (
        '\n\n@id("two") forbid (principal, action, resource) when { "//" == ";" }; @id("three")\n'
        "permit (principal, action, resource);\n"
    )
    found = parse_rule_file("rules/a.cedar", text)
    assert [(policy.match.rule, policy.match.line) for policy in found] == [
        ("one", 3),
        ("two", 9),
        ("three", 9),
    ]
    assert found[0].match.reason == 'a; "quoted" // reason'
    assert {policy.match.file for policy in found} == {"rules/a.cedar"}


def test_a_comment_that_cedar_does_not_have_is_refused_where_it_stands() -> None:
    problem = problem_of(LISTING)
    assert problem.line == 3
    assert "not a Cedar policy" in problem.message


def test_an_empty_file_has_no_rules() -> None:
    assert parse_rule_file("a", "// nothing; here\n") == []


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("permit (principal, action, resource);", 1, "without a usable `@id`"),
        ('// x\n\n@reason("r")\nforbid (principal, action, resource);', 3, "without a usable `@id`"),
        ('@id("") permit (principal, action, resource);', 1, "without a usable `@id`"),
        ('@id("a b") permit (principal, action, resource);', 1, "`a b` is no usable"),
        ('@id("a:b") permit (principal, action, resource);', 1, "no usable"),
        ('@id("-a") permit (principal, action, resource);', 1, "no usable"),
        ('@id("a\\n") permit (principal, action, resource);', 1, "no usable"),
        ('@id("é") permit (principal, action, resource);', 1, "no usable"),
        (f'@id("{"a" * 129}") permit (principal, action, resource);', 1, "no usable"),
        ('@id("a") permit (principal == ?principal, action, resource);', 1, "template"),
        ('@id("a") permit (principal, action, resource in ?resource);', 1, "template"),
        ('@id("a") permit (principal, action, resource)', 1, "not a Cedar policy"),
        ('@id("a") permit (principal, action, resource); }', 1, "not a Cedar policy"),
        ('@id("a") allow (principal, action, resource);', 1, "not a Cedar policy"),
        (";", 1, "not a Cedar policy"),
        ('@id("a") permit (principal, action, resource) when { "x };', 1, "not a Cedar policy"),
        ('@id("a") @id("b") permit (principal, action, resource);', 1, "not a Cedar policy"),
        (
            '@id("a") permit (principal, action, resource) when { 9223372036854775808 == 1 };',
            1,
            "not a Cedar",
        ),
    ],
)
def test_what_is_no_usable_rule(text: str, line: int, words: str) -> None:
    problem = problem_of(text)
    assert words in problem.message
    assert problem.line == line


@pytest.mark.parametrize(
    ("char", "words"),
    [
        ("\r", "carriage return"),
        ("\ufeff", "byte order mark"),
        ("\u202e", "bidirectional"),
        ("\u2066", "bidirectional"),
        ("\u200f", "bidirectional"),
        ("\u061c", "bidirectional"),
        ("\u2028", "line separator"),
        ("\u2029", "paragraph separator"),
        ("\x00", "control"),
        ("\x0b", "control"),
        ("\x1b", "control"),
        ("\x7f", "control"),
        ("\x85", "control"),
    ],
)
def test_characters_that_could_hide_a_rule_are_refused(char: str, words: str) -> None:
    """A bare CR ends a Cedar comment: what an editor shows as a comment would be a rule."""
    hidden = '@id("hidden") permit (principal, action, resource);'
    for text in (
        f"// x\n// harmless {char}{hidden}",
        f'// x\n@id("a{char}") {hidden}',
        f"// x\n{char}{hidden}",
    ):
        problem = problem_of(text)
        assert words in problem.message
        assert problem.line == 2


def test_windows_line_ends_are_fine_and_counted() -> None:
    found = parse_rule_file("a", '// x\r\n\r\n@id("a")\r\npermit (principal, action, resource);\r\n')
    assert [(policy.match.rule, policy.match.line) for policy in found] == [("a", 3)]


def test_every_fault_of_a_file_is_named() -> None:
    text = 'permit (principal, action, resource);\n@id("ok") permit (principal, action, resource);\nx;\n'
    with pytest.raises(BundleError) as caught:
        parse_rule_file("a", text)
    assert [problem.line for problem in caught.value.problems] == [1, 3]


def test_a_name_is_used_once_and_both_places_are_told() -> None:
    """Cedar takes a duplicate `@id` without a word."""
    rule = '@id("same") permit (principal, action, resource);'
    problem = fault_of({"a": f"\n{rule}", "b": f"// b\n\n{rule}"})
    assert (problem.file, problem.line) == ("rules/b.cedar", 3)
    assert "rules/a.cedar:2" in problem.message
    problem = fault_of(f"{rule}\n{rule}")
    assert (problem.line, "rules/main.cedar:1" in problem.message) == (2, True)
    assert fault_of('@id("authz.self-protection") permit (principal, action, resource);').line is not None


def test_names_stay_with_their_rules_whatever_stands_around_them() -> None:
    """Cedar names policies by position; positions never reach a decision."""
    one = f'@id("one") permit (principal, {READ}, resource);'
    two = '@id("two") permit (principal, action in Action::"write", resource);'
    expected = {"fs/file_read": ["one"], "fs/file_edit": ["two"]}
    for files in (
        {"a": f"{one}\n{two}"},
        {"a": f"{two}\n{one}"},
        {"a": two, "b": one},
        {"z": one, "b": two, "c": '@id("policy0") permit (principal, action, resource) when { false };'},
        {"a": f'@id("policy1") forbid (principal, action, resource) when {{ false }};{one}{two}'},
    ):
        ruleset = world(files)
        for name, rules in expected.items():
            arguments = {"path": "/a"} if name == "fs/file_read" else {"path": "/a", "text": ""}
            assert rules_of(decide_in(ruleset, call(name, arguments))) == rules


def test_an_ask_carries_its_terms() -> None:
    assert terms_of("") == AskTerms()
    given = '@approvers("Group::\\"finance\\", User::\\"ada\\"") @quorum("2") @ttl("10m") @factor("passkey")'
    assert terms_of(given) == AskTerms(
        approvers=('Group::"finance"', 'User::"ada"'), quorum=2, ttl_seconds=600, factor=Factor.PASSKEY
    )
    assert [terms_of(f'@ttl("{text}")').ttl_seconds for text in ("30s", "2h", "1d")] == [30, 7200, 86400]


@pytest.mark.parametrize(
    ("annotations", "words"),
    [
        ('@requires("aproval")', "@requires"),
        ('@requires("")', "@requires"),
        ("@requires", "@requires"),
        ('@requires("approval") @quorum("0")', "@quorum"),
        ('@requires("approval") @quorum("two")', "@quorum"),
        ('@requires("approval") @quorum("100")', "@quorum"),
        ('@requires("approval") @quorum("²")', "@quorum"),
        ('@requires("approval") @ttl("10")', "@ttl"),
        ('@requires("approval") @ttl("0m")', "@ttl"),
        ('@requires("approval") @ttl("-1m")', "@ttl"),
        ('@requires("approval") @ttl("10 m")', "@ttl"),
        ('@requires("approval") @factor("sms")', "@factor"),
        ('@requires("approval") @approvers("")', "@approvers"),
        ('@requires("approval") @approvers("finance")', "@approvers"),
        ('@requires("approval") @approvers("Agent::\\"coder-1\\"")', "@approvers"),
        ('@requires("approval") @approvers("Group::\\"a\\" Group::\\"b\\"")', "@approvers"),
        ('@quorum("2")', "does not ask"),
        ('@approvers("Group::\\"finance\\"")', "does not ask"),
        ('@factor("passkey")', "does not ask"),
        ('@ttl("1m")', "does not ask"),
    ],
)
def test_annotations_of_an_ask_are_checked(annotations: str, words: str) -> None:
    problem = problem_of(f'\n@id("a") {annotations} forbid (principal, action, resource);')
    assert words in problem.message
    assert problem.line == 2


def test_a_permit_cannot_ask() -> None:
    problem = problem_of('@id("a") @requires("approval") permit (principal, action, resource);')
    assert "on a permit" in problem.message


def test_a_misspelt_annotation_is_refused() -> None:
    """CF1: an `@aprovers` that is dropped would let anybody approve."""
    for annotation in ('@aprovers("Group::\\"finance\\"")', '@require("approval")', '@Id("b")'):
        problem = problem_of(
            f'@id("a") @requires("approval") {annotation} forbid (principal, action, resource);'
        )
        assert annotation.partition("(")[0] in problem.message


@pytest.mark.parametrize(
    ("literal", "instead"),
    [
        ('Directory::"/workspace/"', 'Directory::"/workspace"'),
        ('Directory::"/workspace/../etc"', 'Directory::"/etc"'),
        ('Directory::"//workspace"', 'Directory::"/workspace"'),
        ('File::"/workspace/./a"', 'File::"/workspace/a"'),
        ('File::"file:///workspace/a%20b"', 'File::"/workspace/a b"'),
        ('Directory::"workspace"', "never match"),
        ('Directory::"~/x"', "never match"),
        ('Host::"EXAMPLE.com"', 'Host::"example.com"'),
        ('Host::"example.com."', 'Host::"example.com"'),
        ('Host::"0x7f.1"', 'Host::"127.0.0.1"'),
        ('Domain::"Example.COM"', 'Domain::"example.com"'),
        ('Endpoint::"https://example.com:443/a"', 'Endpoint::"https://example.com/a"'),
        ('UrlPath::"https://EXAMPLE.com/a"', "UrlPath::"),
        ('Mailbox::"Ada <ada@EXAMPLE.com>"', 'Mailbox::"ada@example.com"'),
        ('Object::"iban:de89 3704 0044 0532 0130 00"', 'Object::"iban:DE89370400440532013000"'),
        ('Object::"iban:DE00370400440532013000"', "never match"),
        ('Object::"account: a-1 "', 'Object::"account:a-1"'),
        ('ObjectType::"Account"', "never match"),
    ],
)
def test_a_literal_that_no_request_could_spell_is_refused(literal: str, instead: str) -> None:
    """Rules and requests are spelled by the same function; a rule is not rewritten, it is refused."""
    for rule in (
        f"permit (principal, action, resource == {literal});",
        f"permit (principal, action, resource) when {{ [{literal}].contains(resource) }};",
        f"forbid (principal, action, resource) unless {{ resource == {literal} }};",
    ):
        problem = problem_of(f'\n\n@id("a") {rule}')
        assert problem.line == 3
        assert instead in f"{problem.message} {problem.hint}"


EDITING = 'action in Action::"fs/file_edit", resource'


@pytest.mark.parametrize(
    "rule",
    [
        '(principal, action in Action::"raed", resource);',
        '(principal, action in Action::"fs/file_raed", resource);',
        '(principal, action == Action::"fs/file_read:read:A9", resource);',
        '(principal, action in [Action::"read", Action::"A4"], resource);',
        '(principal in Gruop::"staff", action, resource);',
        "(principal is Person, action, resource);",
        "(principal, action, resource is Fiel);",
        '(principal, action in Action::"fs/file_read", resource) when { resource.nmae == "a" };',
        f'(principal, {EDITING}) when {{ resource is File && resource.nmae == "a" }};',
        '(principal, action, resource) when { principal.on_behalf == User::"ada" };',
        f'(principal, {EDITING}) when {{ context.arguments.pth == "a" }};',
        f'(principal, {EDITING}) when {{ context.argments.path == "a" }};',
        f"(principal, {EDITING}) when {{ context.arguments.path > 3 }};",
        f"(principal, {EDITING}) when {{ context.sandbox }};",
        '(principal, action, resource) when { context.sources.destinaton.contains("web") };',
        '(principal, action, resource) when { context.arguments.path == "a" };',
    ],
)
def test_a_misspelt_name_is_an_error_at_load_and_no_rule_that_never_matches(rule: str) -> None:
    problems = faults_of({"ok": PERMIT_ALL, "typo": f'// first\n\n@id("typo")\npermit {rule}'})
    assert {(problem.file, problem.line) for problem in problems} == {("rules/typo.cedar", 3)}
    assert all("`typo`" in problem.message for problem in problems)


@pytest.mark.parametrize(
    "condition",
    [
        'context.arguments has pth && context.arguments.pth == "a"',
        "context has argments && context.arguments has path",
        "context.arguments has path && context has sandbox",
        'principal has on_behalf && principal.on_behalf == User::"ada"',
        "context.capability has dept",
    ],
)
def test_a_misspelt_has_is_an_error_at_load(condition: str) -> None:
    """Cedar's validator lets a `has` of anything pass: the forbid would never match."""
    rule = f'\n@id("typo") forbid (principal, {EDITING}) when {{ {condition} }};'
    problems = faults_of({"ok": PERMIT_ALL, "typo": rule})
    assert {(problem.file, problem.line) for problem in problems} == {("rules/typo.cedar", 2)}


def test_a_has_of_an_argument_that_only_some_tools_have_is_fine() -> None:
    condition = 'context.arguments has text && context.arguments.text == "stop"'
    ruleset = world(PERMIT_ALL + f'@id("f") forbid (principal, action, resource) when {{ {condition} }};')
    edit = {"path": "/workspace/a", "text": "stop"}
    assert decide_in(ruleset, call("fs/file_edit", edit)).decision.effect is Effect.DENY
    assert decide_in(ruleset, call("fs/file_read", path="/workspace/a")).decision.effect is Effect.ALLOW


def test_unsafe_access_to_what_may_be_absent_is_an_error_at_load() -> None:
    tools = 'action in Action::"bank/transfer"'
    rule = f'@id("a") forbid (principal, {tools}, resource) when {{ context.arguments.amount.long > 5 }};'
    assert "optional attribute" in fault_of(rule).message
    guarded = rule.replace(
        "context.arguments.amount.long >",
        "context.arguments.amount has long && context.arguments.amount.long >",
    )
    world(guarded)


def test_the_attributes_of_entities_are_read_off_the_schema() -> None:
    assert ENTITY_ATTRIBUTES["Agent"] == {"on_behalf_of": "User"}
    assert ENTITY_ATTRIBUTES["File"] == {"name": "String", "extension": "String", "names": "Set<String>"}
    assert ENTITY_ATTRIBUTES["Endpoint"]["has_query"] == "Bool"
    assert ENTITY_ATTRIBUTES["User"] == {"on_behalf_of": "User"}
    assert ENTITY_ATTRIBUTES["Group"] == {}

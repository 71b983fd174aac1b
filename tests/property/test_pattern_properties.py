"""What holds of every pattern and of every name: one meaning, nothing wider than meant (GL1 to GL4).

There is one pattern language, Cedar's `like`: a star stands for any characters, none and `/` and line ends
included. Places are matched by containment and never by a pattern: `tests/unit/core/test_policy_engine.py`.
"""

import re
from typing import Any, Final

from hypothesis import given, settings
from hypothesis import strategies as st

from authz.core.ruleset import Ruleset
from authz.model.call import Call
from authz.model.decision import Code, Effect
from authz.model.resource import escape_cedar
from tests.cases.served import SHELL
from tests.support.world import (
    PERMIT_ALL,
    PINNED,
    TEXT,
    TOOLS,
    call,
    decide_in,
    rules_of,
    tool,
    tool_file,
    world,
)

STAR: Final = None
"""A star of a pattern; everything else in one stands for itself."""
CHARACTERS: Final = st.sampled_from([*"ab/ .*?[]\\\"'$\n", "é", "𝄞"])
PATTERNS: Final = st.lists(st.just(STAR) | CHARACTERS, max_size=7)
VALUES: Final = st.lists(CHARACTERS, max_size=9).map("".join)


def cedar(pattern: list[str | None]) -> str:
    """The pattern as Cedar writes it."""
    return "".join("*" if part is STAR else literal(part) for part in pattern)


def literal(text: str) -> str:
    """Text that stands for itself in a pattern."""
    return escape_cedar(text).replace("*", "\\*")


def is_matched(pattern: list[str | None], value: str) -> bool:
    """What the pattern means, told without Cedar."""
    expression = "".join(".*" if part is STAR else re.escape(part) for part in pattern)
    return re.fullmatch(expression, value, re.DOTALL) is not None


def fitting(pattern: list[str | None], fillings: list[str]) -> str:
    """A value that the pattern matches: each star by one of the fillings."""
    left = iter([*fillings, *[""] * len(pattern)])
    return "".join(next(left) if part is STAR else part for part in pattern)


NOTE: Final = tool_file(
    "note",
    tool(
        "take",
        [{"verb": "read", "kind": "id", "type": "note", "resource": "all"}],
        {"text": TEXT, "lines": {"type": "array", "items": TEXT}},
        roles={"/text": "option", "/lines": "option"},
    ),
)


@settings(max_examples=60)
@given(PATTERNS, st.lists(VALUES, max_size=4), st.lists(VALUES, max_size=7))
def test_gl1_a_pattern_has_one_meaning(
    pattern: list[str | None], values: list[str], fillings: list[str]
) -> None:
    """As an allow and as a deny, at the end and inside, with and without a slash in the value."""
    scope = '(principal, action in Action::"note/take", resource)'
    condition = f'{scope} when {{ context.arguments.text like "{cedar(pattern)}" }};'
    allowing = world(f'@id("like") permit {condition}', tools=NOTE)
    denying = world(f'{PERMIT_ALL} @id("like") forbid {condition}', tools=NOTE)
    fits = fitting(pattern, fillings)
    assert is_matched(pattern, fits)
    for value in (fits, *values):
        made = call("note/take", text=value, lines=[], digest=None)
        matched = is_matched(pattern, value)
        assert (decide_in(allowing, made).decision.effect is Effect.ALLOW) == matched
        assert (decide_in(denying, made).decision.effect is Effect.DENY) == matched


FILE_NAMES: Final = st.text(
    st.sampled_from([*"ab.*?[]{}()\"'$!%&; ~#@^+", "é", "字"]), min_size=1, max_size=8
).filter(lambda name: name.strip(". ") and name == name.strip())


@settings(max_examples=50)
@given(FILE_NAMES, st.lists(FILE_NAMES, max_size=3), st.data())
def test_gl2_a_rule_made_of_an_approved_value_matches_that_value_only(
    name: str, others: list[str], data: st.DataObject
) -> None:
    """By its resource and by its argument; every other value stays as it was, near ones too."""
    path = f"/workspace/{name}"
    [access] = decide_in(OPEN, call("fs/file_read", path=path)).decision.accesses
    by_resource = f'permit (principal, action, resource == File::"{escape_cedar(access.resource.entity.id)}")'
    by_value = (
        'permit (principal, action in Action::"fs/file_read", resource) '
        f'when {{ context.arguments.path like "{literal(path)}" }}'
    )
    place = data.draw(st.integers(0, len(name) - 1))
    near = [name[:place] + name[place + 1 :], name[:place] + "a" + name[place + 1 :], f"{name}a", f"{name}/a"]
    for rule in (by_resource, by_value):
        ruleset = world(f'@id("saved") {rule}; {ELSEWHERE}')
        assert rules_of(decide_in(ruleset, call("fs/file_read", path=path))) == ["saved"]
        for other in {*others, *near} - {name, "", ".", ".."}:
            if other.strip(". ") and other == other.strip():
                found = decide_in(ruleset, call("fs/file_read", path=f"/workspace/{other}")).decision
                assert (found.effect, found.code) == (Effect.DENY, Code.POLICY_NO_MATCH), other


OPEN: Final = world()
ELSEWHERE: Final = '@id("elsewhere") permit (principal, action, resource in Directory::"/elsewhere");'
PARTS: Final = st.lists(st.sampled_from(["a", "b", "ab"]), max_size=3)
LISTING: Final = tool_file(
    "fs",
    tool(
        "glob",
        [{"verb": "read", "kind": "path", "at": "/path", "scope": "tree"}],
        {"pattern": TEXT, "path": TEXT},
        roles={"/pattern": "option"},
    ),
)


def folder(parts: list[str]) -> str:
    return "/".join(["/workspace", *parts])


@given(PARTS, PARTS, st.sampled_from(["Directory", "File"]), st.sampled_from(["**", "*.txt", "a", ""]))
def test_gl3_a_query_is_denied_where_it_could_return_what_is_denied(
    root: list[str], secret: list[str], kind: str, pattern: str
) -> None:
    """Whatever its own pattern says; beside what is denied it is free."""
    scope = (
        f'resource == File::"{folder(secret)}"'
        if kind == "File"
        else f'resource in Directory::"{folder(secret)}"'
    )
    ruleset = world(f'{PERMIT_ALL} @id("secret") forbid (principal, action, {scope});', tools=LISTING)
    decision = decide_in(ruleset, call("fs/glob", path=folder(root), pattern=pattern, digest=None)).decision
    beneath = secret[: len(root)] == root
    within = kind == "Directory" and root[: len(secret)] == secret
    if beneath or within:
        assert decision.effect is Effect.DENY
        assert [rule.rule for rule in decision.matched] == ["secret"]
    else:
        assert decision.effect is Effect.ALLOW


CONDITIONS: Final = (
    'resource.names.contains("secret.txt")',
    'resource.name like "*secret*"',
    'resource.name == "secret.txt"',
    'resource.extension == "txt"',
    'context has role && resource.name != "public.txt"',
)


@given(PARTS, st.sampled_from(CONDITIONS), st.sampled_from(["", '@requires("approval")']))
def test_gl3_nor_is_one_allowed_where_no_place_is_named(root: list[str], condition: str, mark: str) -> None:
    """What is denied by its own name may lie anywhere beneath, so a person looks at the query."""
    rule = f'@id("secret") {mark} forbid (principal, action, resource is File) when {{ {condition} }};'
    ruleset = world(f"{PERMIT_ALL} {rule}", tools=LISTING)
    made = call("fs/glob", path=folder(root), pattern="**", digest=None)
    assert decide_in(ruleset, made).decision.effect is not Effect.ALLOW


JSON: Final = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53) + 1, 2**53 - 1) | st.floats(allow_nan=False) | VALUES,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(VALUES, inner, max_size=2),
    max_leaves=4,
)
PROPER: Final[dict[str, st.SearchStrategy[dict[str, Any]]]] = {
    "fs/file_read": st.fixed_dictionaries({"path": VALUES}),
    "fs/file_edit": st.fixed_dictionaries(
        {"path": VALUES, "text": VALUES}, optional={"append": st.booleans()}
    ),
    "fs/file_remove": st.fixed_dictionaries({"path": VALUES}, optional={"recursive": st.booleans()}),
    "fs/file_copy": st.fixed_dictionaries({"from": VALUES, "to": VALUES}),
    "web/fetch": st.fixed_dictionaries({"url": VALUES.map(lambda text: f"https://example.com/{text}")}),
    "bank/transfer": st.fixed_dictionaries({"to": VALUES, "amount": st.integers(0, 9) | st.floats(0, 9)}),
    "bank/mail_send": st.fixed_dictionaries({"to": st.just("ada@example.com"), "body": VALUES}),
    "shell/run": st.fixed_dictionaries(
        {"command": VALUES | st.sampled_from(["ls", "rm -rf /", "a && b | c"])}
    ),
}
ALL_TOOLS: Final = {**TOOLS, "shell": SHELL}
OUTRIGHT: Final = {
    name: world(
        f'{PERMIT_ALL} @id("no") forbid (principal, action in Action::"{name}", resource);', tools=ALL_TOOLS
    )
    for name in PROPER
}
SOMETIMES: Final = {
    name: world(
        f'{PERMIT_ALL} @id("no") forbid (principal, action in Action::"{name}", resource) '
        'when { context.session.id == "s-1" };',
        tools=ALL_TOOLS,
    )
    for name in PROPER
}


def made_of(name: str, arguments: dict[str, Any]) -> Call:
    return call(name, arguments, digest=PINNED if name.startswith("web/") else None)


def came_to_rules(ruleset: Ruleset, made: Call) -> bool:
    """Whether nothing refused the call before its rules were asked."""
    return bool(decide_in(ruleset, made).decision.verdicts)


UNRULED: Final = world(tools=ALL_TOOLS)


@settings(max_examples=200)
@given(st.data(), st.sampled_from(sorted(PROPER)))
def test_gl4_a_deny_on_a_name_covers_every_call_of_it(data: st.DataObject, name: str) -> None:
    """With any arguments, those of the schema and any others; and no other name."""
    arguments = data.draw(PROPER[name] | st.dictionaries(VALUES, JSON, max_size=3))
    made = made_of(name, arguments)
    hidden = decide_in(OUTRIGHT[name], made).decision
    assert (hidden.effect, hidden.code) == (Effect.DENY, Code.TOOL_UNKNOWN)
    decision = decide_in(SOMETIMES[name], made).decision
    assert decision.effect is Effect.DENY
    if came_to_rules(UNRULED, made):
        assert decision.code is Code.POLICY_FORBID
        assert {rule.rule for verdict in decision.verdicts for rule in verdict.rules} == {"no"}
    other = data.draw(st.sampled_from(sorted(PROPER.keys() - {name})))
    assert decide_in(SOMETIMES[other], made).decision.effect is decide_in(UNRULED, made).decision.effect


def test_gl4_every_tool_of_the_world_is_tried() -> None:
    assert {tool_.descriptor.qualified_name for tool_ in UNRULED.tools.values()} == PROPER.keys()

"""What is allowed of a pattern is allowed of every file that it matches, whatever the rules look at.

The pattern is judged once, over names that nobody has listed; each file is judged by itself, by Cedar.
"""

from functools import cache
from typing import Final

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from authz.core.ruleset import Ruleset
from authz.model.decision import Effect
from tests.property.shell_oracle import is_matched
from tests.support.world import TEXT, call, decide_in, tool, tool_file, world

SHELL: Final = tool_file(
    "shell",
    tool(
        "run",
        [{"verb": "execute", "kind": "shell", "at": "/command"}],
        {"command": TEXT},
        roles={"/command": "command"},
        side_effect="cumulative",
    ),
)
CONDITIONS: Final = (
    'resource.extension == "a"',
    'resource.extension == ""',
    '["a", "ab"].contains(resource.extension)',
    'resource.name == "a.b"',
    'resource.name like "a*b"',
    'resource.name like ".a*" || resource.extension == "b"',
    'resource.name like "*.a.*" && !(["b"].contains(resource.extension))',
    'resource.names.contains("a")',
    'resource.names.containsAny([".a", "b"])',
    'resource.names.containsAll(["a", "b"])',
    'resource in Directory::"/workspace/a"',
    'resource in [Directory::"/workspace/a/b", Directory::"/workspace/b"]',
    'resource == File::"/workspace/a/b"',
    'resource != File::"/workspace/a.b" && resource.name like "a?*"',
    'resource is File && resource.extension == "a"',
    'resource is File in Directory::"/workspace/b"',
    'if resource.name == "a" then true else resource.extension == "b"',
    'resource.names.contains("workspace") && resource.name like "*.b"',
    '!(resource.name like "*a*")',
    '!(resource.extension == "a" || resource.name == "b")',
)
FORMS: Final = ("when", "unless")
NAME: Final = st.text("aAb.", min_size=1, max_size=4).filter(lambda name: name.strip("."))
PART: Final = st.text("aAb.*?", min_size=1, max_size=5).filter(
    lambda part: not part.startswith(".")
) | st.just("*")
PATHS: Final = st.lists(st.lists(NAME, min_size=1, max_size=2), min_size=1, max_size=4)


@cache
def ruleset(condition: str, form: str) -> Ruleset:
    return world(
        '@id("all") permit (principal, action, resource);'
        '@id("closer") forbid (principal, action in Action::"read", resource is File) '
        f"{form} {{ {condition} }};",
        tools=SHELL,
    )


def effect(rules: Ruleset, *words: str) -> Effect:
    decided = decide_in(rules, call("shell/run", command=" ".join(("cat", *words)))).decision
    return decided.effect


@pytest.mark.slow
@given(
    condition=st.sampled_from(CONDITIONS),
    form=st.sampled_from(FORMS),
    parts=st.lists(PART, min_size=1, max_size=2),
    paths=PATHS,
)
def test_what_is_allowed_of_a_pattern_is_allowed_of_what_it_matches(
    condition: str, form: str, parts: list[str], paths: list[list[str]]
) -> None:
    pattern = "/".join(parts)
    rules = ruleset(condition, form)
    outcome = decide_in(rules, call("shell/run", command=f"cat {pattern}")).decision
    if outcome.effect is not Effect.ALLOW:
        event("not allowed")
        return
    for names in paths:
        path = "/workspace/" + "/".join(names)
        matched = any(
            access.pattern is not None and is_matched(access.pattern, access.resource.entity.id, path)
            for access in outcome.accesses
        )
        hidden = any(
            name.startswith(".") and part[:1] in "*?" for name, part in zip(names, parts, strict=False)
        )
        if matched and not hidden:
            event("allowed of a file")
            assert effect(rules, path) is Effect.ALLOW, path

"""The public failure cases of kind `glob`, each told in this product's words."""

from pathlib import Path
from typing import Final

import pytest

from tests.cases.served import SHELL, ids_of_kind, ids_of_tests, rules_of, told, verdict_of
from tests.support.service import Service
from tests.support.world import PERMIT_ALL, TEXT, tool, tool_file, world


async def test_bug_068_a_star_in_an_argument_crosses_any_character(tmp_path: Path) -> None:
    """Wherever the star stands, and whatever it has to cross. For all patterns: `tests/property`."""
    deny = (
        '@id("no-rm") forbid (principal, action, resource) '
        'when { context.arguments has command && context.arguments.command like "*rm -rf*" };'
    )
    ruleset = world({"allow": PERMIT_ALL, "deny": deny}, tools=SHELL)
    async with Service.running(tmp_path, {"default": ruleset}) as service:
        for command in (
            "rm -rf /",
            "rm -rf tmp",
            "rm -rf",
            "cd /a/b && rm -rf /",
            "true\nrm -rf a\nb",
            "* rm -rf *",
        ):
            answer, _ = await told(service, "shell/run", {"command": command})
            assert verdict_of(answer) == ("deny", "policy.forbid", ["no-rm"]), command
        for command in ("rm -r tmp", "ls /", "echo rm  -rf"):
            answer, _ = await told(service, "shell/run", {"command": command})
            assert "no-rm" not in rules_of(answer), command


GLOB: Final = tool_file(
    "fs",
    tool(
        "glob",
        [{"verb": "read", "kind": "path", "at": "/path", "scope": "tree", "when_absent": "."}],
        {"pattern": TEXT, "path": {"type": "string", "default": "."}},
    ),
)


@pytest.mark.parametrize(
    ("deny", "effect"),
    [
        ('resource in Directory::"/workspace/a/secret.txt"', "deny"),
        ('resource == File::"/workspace/a/secret.txt"', "deny"),
        # What names no place may lie anywhere in the tree, so a person looks: never an allow.
        ('resource is File) when { resource.names.contains("secret.txt") }', "require_approval"),
        ('resource is File) when { resource.name like "*secret*" }', "require_approval"),
    ],
)
async def test_bug_070_a_query_is_judged_by_what_it_may_return(
    tmp_path: Path, deny: str, effect: str
) -> None:
    """A judgement call, held to its stricter answer: there is no filter of results to rely on."""
    scope = deny if ")" in deny else f"{deny})"
    ruleset = world(
        f'{PERMIT_ALL} @id("no-secret") forbid (principal, action in Action::"read", {scope};', tools=GLOB
    )
    async with Service.running(tmp_path, {"default": ruleset}) as service:
        answer, record = await told(service, "fs/glob", {"pattern": "**/*.txt"})
        assert answer["effect"] == effect
        assert record["accesses"][0]["scope"] == "tree"
        if effect == "deny":
            assert rules_of(answer) == ["no-secret"]
        elsewhere, _ = await told(service, "fs/glob", {"pattern": "*", "path": "/workspace/b"})
        assert elsewhere["effect"] == ("allow" if effect == "deny" else effect)


def test_every_case_of_this_kind_is_here() -> None:
    assert ids_of_tests(globals()) == ids_of_kind("glob")

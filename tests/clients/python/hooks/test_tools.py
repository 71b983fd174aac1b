"""The mapping of tools: an input is asked about whole, and what was judged is what it says again."""

import json
from typing import Any, Final

import pytest
from authz_client.hooks._event import EventKind, ToolEvent
from authz_client.hooks._failed import NotMapped
from authz_client.hooks._tools import DEFAULT_TOOLS, ToolTable, same_input
from hypothesis import given
from hypothesis import strategies as st

TABLE: Final = ToolTable.read(DEFAULT_TOOLS)


def event(tool: str, **tool_input: Any) -> ToolEvent:
    return ToolEvent(
        kind=EventKind.BEFORE,
        session="s",
        cwd="/w",
        tool=tool,
        tool_use_id="t",
        tool_input=tool_input,
        prompt_id=None,
        agent_id=None,
        mcp_server=None,
        response=None,
        is_interrupted=False,
    )


@pytest.mark.parametrize(
    ("tool", "tool_input", "words"),
    [
        ("Bash", {"command": "ls", "shell": "zsh"}, "the input has `shell`"),
        (
            "Bash",
            {"command": "ls", "run_in_background": True},
            "`run_in_background` of `Bash` may only be false",
        ),
        ("Bash", {"command": "ls", "run_in_background": 0}, "may only be false"),
        ("Bash", {"command": "ls", "dangerouslyDisableSandbox": True}, "may only be false"),
        ("Bash", {"command": "ls", "timeout": 1500}, "a multiple of 1000"),
        ("Bash", {"command": "ls", "timeout": 1000.0}, "a multiple of 1000"),
        ("Bash", {"command": "ls", "timeout": True}, "a multiple of 1000"),
        (
            "WebSearch",
            {"query": "a", "allowed_domains": ["secret.example.com"]},
            "the input has `allowed_domains`",
        ),
        ("Agent", {"prompt": "a", "subagent_type": "b", "mode": "bypassPermissions"}, "may only be"),
        ("MultiEdit", {"file_path": "/w/a", "edits": []}, "no tool of the registry is named"),
        ("NotebookEdit", {"notebook_path": "/w/a", "new_source": ""}, "no tool of the registry is named"),
        ("bash", {"command": "ls"}, "no tool of the registry is named"),
        ("mcp__a__b", {}, "no tool of the registry is named"),
    ],
)
def test_an_input_that_could_not_be_judged_whole_is_refused(
    tool: str, tool_input: dict[str, Any], words: str
) -> None:
    made = event(tool, **tool_input)
    with pytest.raises(NotMapped) as refused:
        TABLE.find(made).arguments_of(made)
    assert words in refused.value.message


@pytest.mark.parametrize(
    "pattern",
    [
        "/etc/*",
        "../**",
        "src/../../*",
        "~/.ssh/*",
        "{/etc,src}/*",
        "{src,/etc}/*",
        "src/{a,../b}",
        "C:/*",
        "a\\b",
        3,
    ],
)
def test_a_pattern_that_leads_out_of_its_folder_is_refused(pattern: Any) -> None:
    for made in (event("Glob", pattern=pattern), event("Grep", pattern="a", glob=pattern)):
        with pytest.raises(NotMapped, match="must not lead out of the folder"):
            TABLE.find(made).arguments_of(made)


@pytest.mark.parametrize("pattern", ["**/*.py", "*.{ts,tsx}", "src/[a-z]*.rs", ".github/**", "a~b/*"])
def test_a_pattern_beneath_its_folder_is_asked_about(pattern: str) -> None:
    made = event("Glob", pattern=pattern)
    assert TABLE.find(made).arguments_of(made) == {"path": "/w", "pattern": pattern}


@pytest.mark.parametrize(
    ("judged", "words"),
    [
        ({"command": "ls", "timeout_seconds": 1.5}, "no way to say `timeout_seconds`"),
        ({"command": "ls", "timeout_seconds": "120"}, "a multiple of 1000"),
        ({"command": "ls", "environment": {}}, "no place for `environment`"),
        ({"timeout_seconds": 120}, "`command` was given and not judged"),
    ],
)
def test_what_was_judged_and_cannot_be_said_is_refused(judged: dict[str, Any], words: str) -> None:
    made = event("Bash", command="ls")
    with pytest.raises(NotMapped) as refused:
        TABLE.find(made).input_of(made, judged)
    assert words in refused.value.message or "a multiple of 1000" in refused.value.message


JSON: Final = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
MEMBERS: Final = st.sampled_from(
    sorted({member.name for mapped in TABLE.tools.values() for member in (mapped.arguments or {}).values()})
    + ["description", "run_in_background", "mode", "-i", "unheard_of"]
)


@given(tool=st.sampled_from(sorted(TABLE.tools)), tool_input=st.dictionaries(MEMBERS, JSON, max_size=5))
def test_the_way_there_and_back_loses_nothing(tool: str, tool_input: dict[str, Any]) -> None:
    made = event(tool, **tool_input)
    mapped = TABLE.tools[tool]
    try:
        arguments = mapped.arguments_of(made)
        back = mapped.input_of(made, arguments)
    except NotMapped:
        return
    given_folder = {"path": "/w"} if tool in ("Glob", "Grep") and "path" not in tool_input else {}
    assert same_input(back, {**tool_input, **given_folder})


def test_values_are_compared_as_json() -> None:
    assert not same_input({"a": 1}, {"a": True})
    assert not same_input({"a": 1}, {"a": 1.0})
    assert same_input({"a": 1, "b": [None]}, json.loads('{"b": [null], "a": 1}'))

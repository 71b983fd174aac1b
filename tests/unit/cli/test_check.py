"""`authz check` and `authz tools lint` as commands: what they print, and how they end."""

import json
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

from authz.bundle.check import check_folder
from authz.cli import check, tools_lint
from authz.cli.findings import Printer
from authz.cli.main import main
from tests.support.bundles import write_bundle
from tests.support.command import run_command
from tests.support.world import tool, tool_file

READ = tool("read", [{"verb": "read", "kind": "path", "at": "/path"}], {"path": {"type": "string"}})
CLEAN = """\
@id("ok")
@reason("Reading is fine.")
permit (principal, action in Action::"read", resource is File);
"""
WARNED = (
    CLEAN
    + """
@id("slip")
@reason("Never.")
forbid (principal in Group::"stafff", action, resource);
"""
)
BROKEN = (
    WARNED
    + """
@id("typo")
permit (principal, action in Action::"raed", resource);
"""
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "bundle"


def write(folder: Path, rules: str, **parts: Any) -> str:
    return str(write_bundle(folder, rules=rules, **parts))


def test_a_clean_bundle_ends_with_0_and_one_line(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(check, "--policies", write(folder, CLEAN), "--no-lint", "--strict") == 0
    assert capsys.readouterr().out == ("1 rule, 7 tools: 0 errors, 0 warnings, 1 info (shown with --info)\n")


@pytest.mark.parametrize(
    ("rules", "options", "code"),
    [
        (CLEAN, ["--strict"], 0),
        (WARNED, [], 0),
        (WARNED, ["--strict"], 1),
        (BROKEN, [], 1),
        (BROKEN, ["--strict"], 1),
    ],
)
def test_the_exit_code_says_whether_something_fails(
    folder: Path, rules: str, options: list[str], code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command(check, "--policies", write(folder, rules), "--no-lint", *options) == code
    assert run_command(check, "--policies", str(folder), "--no-lint", "--json", *options) == code
    document = capsys.readouterr().out.strip().rpartition("\n")[2]
    assert json.loads(document)["ok"] == (code == 0)


def test_a_finding_has_its_place_code_and_hint(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(check, "--policies", write(folder, BROKEN), "--no-lint") == 1
    assert capsys.readouterr().out == (
        "rules/main.cedar:5  warning  `slip`: the group `stafff` is not declared, so nobody is in it"
        "  [rule.group-undeclared]\n"
        "    did you mean `staff`?\n"
        'rules/main.cedar:9  error  `typo`: there is no action "raed"  [rule.unknown-action]\n'
        "    did you mean `read`?\n"
        "\n"
        "3 rules, 7 tools: 1 error, 1 warning, 2 infos (shown with --info)\n"
    )


def test_infos_are_shown_when_asked_for(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(check, "--policies", write(folder, CLEAN), "--no-lint", "--info") == 0
    assert "rules/main.cedar:1  info  `ok`: no test expects it  [rule.untested]\n" in capsys.readouterr().out


def test_json_is_one_document_of_a_stable_shape(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(check, "--policies", write(folder, WARNED, tools=tool_file("x", READ)), "--json") == 0
    document = json.loads(capsys.readouterr().out)
    assert document == {
        "version": 1,
        "folder": str(folder),
        "ok": True,
        "strict": False,
        "complete": True,
        "summary": {"errors": 0, "warnings": 2, "infos": 2, "accepted": 0, "rules": 2, "tools": 1},
        "findings": [
            {
                "severity": "info",
                "code": "rule.untested",
                "file": "rules/main.cedar",
                "line": 1,
                "pointer": "",
                "message": "`ok`: no test expects it",
                "hint": "add a case to tests/*.yaml",
            },
            {
                "severity": "warning",
                "code": "rule.group-undeclared",
                "file": "rules/main.cedar",
                "line": 5,
                "pointer": "",
                "message": "`slip`: the group `stafff` is not declared, so nobody is in it",
                "hint": "did you mean `staff`?",
            },
            {
                "severity": "info",
                "code": "rule.untested",
                "file": "rules/main.cedar",
                "line": 5,
                "pointer": "",
                "message": "`slip`: no test expects it",
                "hint": "add a case to tests/*.yaml",
            },
            {
                "severity": "warning",
                "code": "tool.unbounded-string",
                "file": "tools/main.yaml",
                "line": 17,
                "pointer": "/properties/path",
                "message": "`x/read`: `path` is a text of any length",
                "hint": "write `maxLength`",
            },
        ],
        "accepted": [],
        "catalogue": {
            "turns": 30,
            "tokens_per_turn": 42,
            "tokens": 1260,
            "tokenizer": "estimate: one token for 4 characters of compact JSON",
            "tools": [{"tool": "x/read", "tokens": 42}],
        },
    }


def test_what_is_accepted_is_shown_with_its_reason(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    allow = '@lint_allow("rule.group-undeclared: people come later")\nforbid'
    command = ("--no-lint", "--strict", "--policies", write(folder, WARNED.replace("forbid", allow)))
    assert run_command(check, *command) == 0
    out = capsys.readouterr().out
    assert "people come later" not in out
    assert out.endswith(", 1 accepted (shown with --info)\n")
    assert run_command(check, *command, "--info") == 0
    out = capsys.readouterr().out
    assert "rules/main.cedar:5  accepted  `slip`: the group `stafff`" in out
    assert "    because people come later\n" in out
    assert out.endswith(", 1 accepted\n")


def test_parts_that_could_not_be_read_are_said_to_be_missing(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command(check, "--policies", write(folder, WARNED, tools="server: ["), "--no-lint") == 1
    assert "Rules were not linted" in capsys.readouterr().out
    run_command(check, "--policies", str(folder), "--json")
    assert json.loads(capsys.readouterr().out)["complete"] is False


def test_a_folder_that_is_not_there_cannot_be_checked(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for command in (["check"], ["tools", "lint"]):
        assert main([*command, "--policies", str(folder)]) == 2
        captured = capsys.readouterr()
        assert (captured.out, "there is no such folder" in captured.err) == ("", True)
    with pytest.raises(SystemExit) as ended:
        main(["check", "--nonsense"])
    assert ended.value.code == 2


def test_the_help_says_what_the_document_and_the_codes_are(capsys: pytest.CaptureFixture[str]) -> None:
    for command in (["check"], ["tools", "lint"]):
        with pytest.raises(SystemExit) as ended:
            main([*command, "--help"])
        assert ended.value.code == 0
        text = capsys.readouterr().out
        for word in ("tokens_per_turn", "tool.no-settlement", "Exit code"):
            assert word in text


def test_a_terminal_gets_colours_and_nothing_that_it_would_obey(folder: Path) -> None:
    class Terminal(StringIO):
        def isatty(self) -> bool:
            return True

    evil = '@id("r") permit (principal, action, resource in Directory::"/a/../\\u{1b}[2J");'
    out = Terminal()
    Printer(out).report(check_folder(Path(write(folder, evil)), with_tools=False), with_infos=True)
    text = out.getvalue()
    assert "\\u{1b}[2J" in text
    assert "\x1b[2J" not in text


def test_tools_lint_prints_what_the_catalogue_costs(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = write(folder, "nonsense", tools=tool_file("x", READ, {**READ, "name": "other"}))
    assert run_command(tools_lint, "--policies", files, "--turns", "10", "--strict") == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == (
        "tools/main.yaml:17  warning  `x/read`: `path` is a text of any length  [tool.unbounded-string]"
    )
    assert lines[1].strip() == "at /properties/path of its schema"
    assert [line.split() for line in lines[-5:-1]] == [
        ["tool", "tokens", "each", "turn", "in", "10", "turns"],
        ["x/other", "42", "420"],
        ["x/read", "42", "420"],
        ["all", "2", "tools", "84", "840"],
    ]
    # Faults of rules are none of its business.
    assert not any("rules/" in line for line in lines)


@pytest.mark.parametrize("turns", ["0", "-1", "x", "1000000"])
def test_turns_are_a_number_of_turns(turns: str) -> None:
    with pytest.raises(SystemExit) as ended:
        run_command(tools_lint, "--turns", turns)
    assert ended.value.code == 2


def test_tools_lint_speaks_json_too(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bundle = write(folder, CLEAN, tools=tool_file("x", READ))
    assert run_command(tools_lint, "--policies", bundle, "--json") == 0
    document = json.loads(capsys.readouterr().out)
    assert [one["code"] for one in document["findings"]] == ["tool.unbounded-string"]
    assert document["catalogue"]["tokens"] == 30 * document["catalogue"]["tokens_per_turn"]

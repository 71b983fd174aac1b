"""`authz check` as a function: every fault at once, and nothing that only follows from another."""

from functools import cache
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from authz.bundle.check import CODES, SCHEMA_STALE, check_files, check_folder, lint_tools
from authz.bundle.load import BundleSources, compile_bundle, read_folder
from authz.bundle.self_protection import Protected
from authz.errors import BundleError
from tests.support.bundles import write_bundle
from tests.support.world import CREDENTIALS, FS, MANIFEST, bundle_files, tool, tool_file, world
from tests.unit.core.lint.bundles import ALLOWED, check, codes, found

SAMPLE = Path(__file__).resolve().parents[3] / "policies"
READ = tool("read", [{"verb": "read", "kind": "path", "at": "/path"}], {"path": {"type": "string"}})


def test_faults_of_every_file_and_stage_are_told_at_once() -> None:
    report = check(
        {
            "parse": '@id("a") permit (principal, action, resource) when { nonsense };\n' + ALLOWED,
            "typed": '\n@id("b") permit (principal, action in Action::"raed", resource);',
            "hidden": '@id("c") permit (principal, action, resource); // \u202e',
            "twice": ALLOWED
            + '\n@id("ok") permit (principal, action in Action::"delete", resource is File);',
            "spelled": '@id("d") permit (principal, action, resource in Directory::"/w/");',
            "ask": '@id("e") @requires("approval") @approvers("Group::\\"x\\"") '
            "forbid (principal, action, resource) when { context has nwo };",
        },
        manifest=MANIFEST + "more: 1\n",
        credentials=CREDENTIALS.replace("[user,", "[usr,"),
        entities="users:\n  ada: {groups: [nowhere]}\n",
        tests="cases: []\nunknown: 1\n",
    )
    assert {(one.file, one.line, one.code) for one in report.findings if one.severity == "error"} >= {
        ("bundle.yaml", 3, "format.unknown-key"),
        ("credentials.yaml", 7, "profile.unknown-source"),
        ("entities.yaml", 2, "group.undeclared"),
        ("rules/ask.cedar", 1, "rule.approver-undeclared"),
        ("rules/ask.cedar", 1, "rule.has-unknown"),
        ("rules/hidden.cedar", 1, "text.hidden-character"),
        ("rules/parse.cedar", 1, "rule.parse"),
        ("rules/spelled.cedar", 1, "rule.not-canonical"),
        ("rules/twice.cedar", 1, "rule.id-duplicate"),
        ("rules/twice.cedar", 2, "rule.id-duplicate"),
        ("rules/typed.cedar", 2, "rule.unknown-action"),
    }


def test_a_rule_beside_a_broken_one_is_still_validated() -> None:
    text = "nonsense;\n" + '@id("r") permit (principal, action, resource is Fiel);'
    assert [(one.code, one.line) for one in check(text).findings] == [
        ("rule.parse", 1),
        ("rule.unknown-type", 2),
    ]


@pytest.mark.parametrize(
    "tools",
    [
        {"fs": FS, "x": tool_file("x", {**READ, "roles": {}})},
        {"fs": FS, "x": tool_file("x", {**READ, "input_schema": {"type": "array"}})},
        {"fs": FS, "x": "server: ["},
        {"fs": FS, "x": tool_file("x", READ).replace('"tools"', '"toolz"')},
    ],
    ids=["no role", "no arguments", "no YAML", "unknown key"],
)
def test_a_rule_about_a_broken_tool_is_no_fault_of_its_own(tools: dict[str, str]) -> None:
    """What follows from one fault is not told beside it; another fault of a rule is."""
    rules = (
        ALLOWED
        + '@id("about") permit (principal, action in Action::"x/read", resource is File) '
        + "when { context.arguments has path };\n"
        + '@id("slip") permit (principal, action in Action::"fs/file_read", resource is Fiel);'
    )
    report = check(rules, tools=tools)
    assert "tools/x.yaml" in {one.file for one in report.findings}
    assert [one.code for one in report.findings if one.file != "tools/x.yaml"] == ["rule.unknown-type"]
    assert not report.linted


def test_rules_are_linted_where_everything_that_they_name_could_be_read() -> None:
    everything = '@id("a") permit (principal, action, resource);\n'
    report = check(everything + '@id("b") permit (principal, action, resource is Fiel);')
    assert report.linted
    assert codes(report) == {"rule.permits-everything", "rule.unknown-type", "rule.unasked"}


def test_a_rule_that_is_an_error_is_not_linted_as_well() -> None:
    twice = ALLOWED + "\n" + ALLOWED
    assert codes(check(twice)) == {"rule.id-duplicate"}


def test_a_stale_schema_is_told_with_what_to_run() -> None:
    text = world().schema_text
    assert codes(check(schema=text)) == set()
    (finding,) = found(check(schema=text + "\n"), SCHEMA_STALE)
    assert (finding.file, finding.severity, "authz schema" in finding.hint) == (
        "schema.cedarschema",
        "warning",
        True,
    )


def test_the_sample_bundle_has_nothing_to_find() -> None:
    report = check_folder(SAMPLE)
    assert [str(one) for one in report.findings] == []
    assert all(one.reason for one in report.accepted)
    assert [str(one) for one in lint_tools(SAMPLE).findings] == []


def test_files_that_cannot_be_read_are_told_and_the_others_are_checked(tmp_path: Path) -> None:
    folder = write_bundle(tmp_path, rules=ALLOWED + '@id("r") permit (principal, action, resource is Fiel);')
    (folder / "rules" / "a.ceder").write_text("", encoding="utf-8")
    assert codes(check_folder(folder, with_tools=False)) == {"file.unknown", "rule.unknown-type"}
    with pytest.raises(BundleError, match="no such folder"):
        check_folder(folder / "nothing")


def test_the_lint_of_tools_tells_the_errors_of_tools_alone(tmp_path: Path) -> None:
    folder = write_bundle(tmp_path, rules="nonsense", tools=tool_file("x", {**READ, "roles": {}}))
    assert {one.code for one in lint_tools(folder).findings} == {"tool.no-role", "tool.unbounded-string"}


def test_no_code_is_used_twice() -> None:
    assert len(CODES) == len(set(CODES))
    assert all(code.count(".") == 1 and code == code.lower() for code in CODES)


@cache
def sample_files() -> dict[str, bytes]:
    """The sample bundle without its cases, which take longest to read."""
    files, problems = read_folder(SAMPLE)
    assert not problems
    return {name: data for name, data in files.items() if not name.startswith("tests/")}


@st.composite
def mutations(draw: st.DrawFn) -> dict[str, bytes]:
    """The sample bundle with one line or word of one file changed, as a slip would."""
    files = dict(sample_files())
    name = draw(st.sampled_from(sorted(set(files) - {"README.md", "schema.cedarschema"})))
    lines = files[name].decode().split("\n")
    at = draw(st.integers(0, len(lines) - 1))
    slip = draw(st.sampled_from(["delete", "repeat", "cut", "misspell", "move", "other"]))
    line = lines[at]
    if slip == "delete":
        del lines[at]
    elif slip == "repeat":
        lines.insert(at, line)
    elif slip == "move":
        lines.insert(draw(st.integers(0, len(lines) - 1)), lines.pop(at))
    elif slip == "cut":
        lines[at] = line[: draw(st.integers(0, len(line)))]
    elif slip == "other":
        lines[at] = line.replace(
            *draw(st.sampled_from([("read", "write"), ("File", "Mailbox"), ("in", "==")]))
        )
    elif line:
        place = draw(st.integers(0, len(line) - 1))
        lines[at] = line[:place] + draw(st.sampled_from("xA/ .:")) + line[place + 1 :]
    files[name] = "\n".join(lines).encode()
    return files


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(mutations())
def test_what_check_passes_loads_and_what_it_refuses_does_not(files: dict[str, bytes]) -> None:
    report = check_files(files, with_tools=False)
    sources = BundleSources(
        files={name: data for name, data in files.items() if name != "schema.cedarschema"}
    )
    try:
        compile_bundle(sources, Protected())
    except BundleError as error:
        refused = sorted(map(str, error.problems))
    else:
        refused = []
    assert sorted(str(one) for one in report.findings if one.severity == "error") == refused
    assert report.fails(strict=False) == bool(refused)


def test_the_default_world_has_only_what_it_is_known_for() -> None:
    """So that a table of broken bundles starts from a clean one."""
    assert check_files(bundle_files(rules=ALLOWED), with_tools=False).count("warning") == 0

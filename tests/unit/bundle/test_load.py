"""A bundle loads whole or not at all, and every fault is told with file, line and what to write."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from authz.bundle.load import MAX_FILE_BYTES, BundleSources, compile_bundle, load_bundle, read_sources
from authz.bundle.self_protection import Protected
from authz.bundle.yaml_source import load_yaml
from authz.errors import BundleError, BundleProblem
from authz.model.decision import Code, Effect
from tests.support.world import (
    CREDENTIALS,
    ENTITIES,
    MANIFEST,
    PERMIT_ALL,
    TEXT,
    bundle_files,
    call,
    caller_of,
    decide_in,
    fault_of,
    faults_of,
    tool,
    tool_file,
    world,
)

SIMPLE = tool("t", [{"verb": "read", "kind": "path", "at": "/a"}], {"a": TEXT})


def place(problem: BundleProblem) -> tuple[str, int | None]:
    return problem.file, problem.line


FAULTS: list[tuple[dict[str, Any], str, int | None, str]] = [
    ({"manifest": "format: 1\nname: test\nfromat: 2\n"}, "bundle.yaml", 3, "unknown key"),
    ({"manifest": "format: 2\nname: test\n"}, "bundle.yaml", 1, "format"),
    ({"manifest": "name: test\n"}, "bundle.yaml", 1, "missing"),
    ({"manifest": "format: '1'\nname: test\n"}, "bundle.yaml", 1, "format"),
    ({"manifest": "format: 1\nname: test\nname: other\n"}, "bundle.yaml", 3, "`name` stands here twice"),
    ({"manifest": "format: 1\nname: yes\n"}, "", None, ""),
    ({"manifest": "format: true\nname: test\n"}, "bundle.yaml", 1, "format"),
    ({"manifest": "format: 1\nname: 12\n"}, "bundle.yaml", 2, "string"),
    ({"manifest": "- format: 1\n"}, "bundle.yaml", 1, ""),
    ({"manifest": ""}, "bundle.yaml", None, ""),
    ({"manifest": "format: [1\n"}, "bundle.yaml", 2, "not YAML"),
    ({"manifest": "format: 1\nname: test\n---\nformat: 1\nname: other\n"}, "bundle.yaml", 3, "not YAML"),
    ({"manifest": "format: 1\nname: &a test\ndescription: *a\n"}, "bundle.yaml", 3, "alias"),
    ({"manifest": "format: 1\n<<: {name: test}\n"}, "bundle.yaml", 2, "plain text"),
    ({"manifest": "format: !!int 1\nname: test\n"}, "bundle.yaml", 1, "tag"),
    ({"manifest": "format: 1\nname: !!python/object/apply:os.getcwd []\n"}, "bundle.yaml", 2, "tag"),
    ({"manifest": "format: 1\nname: !x test\n"}, "bundle.yaml", 2, "tag"),
    ({"manifest": "format: 1\nname: !!bool maybe\n"}, "bundle.yaml", 2, "tag"),
    ({"manifest": "format: 1\nname: " + "[" * 5000 + "]" * 5000}, "bundle.yaml", 2, "nesting"),
    ({"manifest": 'format: 1\nname: test\ndescription: "\\ud800"\n'}, "bundle.yaml", 3, "invalid Unicode"),
    ({"manifest": "format: 9007199254740993\nname: test\n"}, "bundle.yaml", 1, "2^53"),
    ({"manifest": "format: 1.0e+400\nname: test\n"}, "bundle.yaml", 1, "double"),
    ({"manifest": "format: 1\n# a comment\rname: test\n"}, "bundle.yaml", 2, "carriage return"),
    ({"manifest": "format: 1\n# a comment\x85name: test\n"}, "bundle.yaml", 2, "control"),
    ({"manifest": "format: 1\n# a comment\u2028name: test\n"}, "bundle.yaml", 2, "line separator"),
    ({"manifest": "format: 1\nname: test # \u202e\n"}, "bundle.yaml", 2, "bidirectional"),
    ({"manifest": "format: 1\nname: te\u200bst\n"}, "bundle.yaml", 2, "U+200B ZERO WIDTH SPACE"),
    ({"manifest": 'format: 1\nname: "te\u00adst"\n'}, "bundle.yaml", 2, "U+00AD SOFT HYPHEN"),
    ({"manifest": "format: 1\nname: >\n  te\u2060st\n"}, "bundle.yaml", 3, "U+2060 WORD JOINER"),
    ({"manifest": "format: 1\nname: te\u00a0st\n"}, "bundle.yaml", 2, "U+00A0 NO-BREAK SPACE"),
    ({"manifest": "format: 1\nname: te\ue000st\n"}, "bundle.yaml", 2, "U+E000"),
    ({"manifest": "format: 1\nna\u200dme: test\n"}, "bundle.yaml", 2, "U+200D ZERO WIDTH JOINER"),
    ({"entities": "groups:\n  sta\u200bff: {}\n"}, "entities.yaml", 2, "U+200B ZERO WIDTH SPACE"),
    (
        {"rules": '@id("r")\nforbid (principal in Group::"sta\u200bff", action, resource);'},
        "rules/main.cedar",
        2,
        "U+200B ZERO WIDTH SPACE",
    ),
    (
        {"rules": '@id("r")\nforbid (principal in Group::"st\u0430ff", action, resource);'},
        "rules/main.cedar",
        2,
        "several scripts in `st\u0430ff` (if they are meant, write `st\\u{430}ff`)",
    ),
    (
        {"credentials": "profiles:\n  runtime:\n    agents: []\n    agent: []\n"},
        "credentials.yaml",
        4,
        "unknown key",
    ),
    ({"credentials": "profiles:\n  runtime: {}\n"}, "credentials.yaml", 2, "missing"),
    ({"credentials": "profiles:\n  runtime: {agents: '*'}\n"}, "credentials.yaml", 2, "list"),
    ({"credentials": "profiles:\n  runtime: {agents: [5]}\n"}, "credentials.yaml", 2, "string"),
    (
        {"credentials": CREDENTIALS.replace("[/workspace]", "[/workspace/]")},
        "credentials.yaml",
        5,
        "not canonical",
    ),
    ({"credentials": CREDENTIALS.replace("[/workspace]", "[/]")}, "credentials.yaml", 5, "whole file system"),
    ({"credentials": CREDENTIALS.replace("[/workspace]", "[work]")}, "credentials.yaml", 5, "no directory"),
    (
        {"credentials": CREDENTIALS.replace("[user,", "[usr,")},
        "credentials.yaml",
        7,
        "`usr` is no provenance source",
    ),
    ({"credentials": CREDENTIALS.replace("runtime", "other")}, "", None, ""),
    ({"entities": "groups:\n  a: {groups: [b]}\n  b: {groups: [a]}\n"}, "", None, ""),
    ({"entities": "groups:\n  a: {groups: [a]}\n"}, "entities.yaml", 2, "`a` is inside itself"),
    ({"entities": "users:\n  ada:\n    groups: [staff]\n"}, "entities.yaml", 3, "`staff` is not declared"),
    ({"entities": "agents:\n  coder-1: {gruops: []}\n"}, "entities.yaml", 2, "unknown key"),
    ({"entities": "users:\n  ada: {tags: {level: 5}}\n"}, "entities.yaml", 2, "string"),
    ({"entities": 'users:\n  "": {}\n'}, "entities.yaml", 2, ""),
    ({"entities": "people:\n  ada: {}\n"}, "entities.yaml", 1, "unknown key"),
    ({"rules": {}}, "rules", None, "no rules"),
    ({"rules": "// nothing\n"}, "rules/main.cedar", None, "the file has no rules"),
    ({"rules": {"main": PERMIT_ALL, "more": ""}}, "rules/more.cedar", None, "the file has no rules"),
    ({"rules": "permit (principal, action, resource);"}, "rules/main.cedar", 1, "@id"),
]


@pytest.mark.parametrize(("files", "file", "line", "words"), [fault for fault in FAULTS if fault[1]])
def test_a_fault_is_told_with_file_and_line(
    files: dict[str, Any], file: str, line: int | None, words: str
) -> None:
    """CF1: unknown keys, wrong types and duplicates are errors, never dropped."""
    problem = fault_of(**files)
    assert problem.file == file
    assert words in problem.message
    if line is not None:
        assert problem.line == line
    assert str(problem).startswith(file)


FORBID = '@id("never") forbid (principal, action, resource);'
LIMITS = "limits: []\n"


@pytest.mark.parametrize("name", sorted({*bundle_files(limits=LIMITS), "tests/main.yaml"}))
def test_a_file_that_was_emptied_is_refused(name: str) -> None:
    """As each is while it is written: what it forbade, or bounded, must not be gone until it is there."""
    files = bundle_files(rules={"main": PERMIT_ALL, "more": FORBID}, limits=LIMITS)
    files = files | {"tests/main.yaml": b""} | {name: b""}
    with pytest.raises(BundleError) as caught:
        compile_bundle(BundleSources(files=files), Protected())
    assert name in [problem.file for problem in caught.value.problems]


def test_a_cycle_and_an_undeclared_profile_are_named_wherever_they_show() -> None:
    problems = faults_of(entities="groups:\n  a: {groups: [b]}\n  b: {groups: [a]}\n")
    assert [place(problem) for problem in problems] == [("entities.yaml", 2), ("entities.yaml", 3)]
    problems = faults_of(credentials=CREDENTIALS.replace("runtime", "other"))
    assert len(problems) == 3  # one for every server that names it
    assert all("`runtime` is not declared" in problem.message for problem in problems)


def test_yaml_1_1_words_are_text() -> None:
    """`yes`, `on`, dates and `1:30` mean what they say; only JSON's words are anything else."""
    words = "yes no on off True Yes ~x 1:30 2026-11-30 0x10 0o7 017 1_000 1e5 .5 .inf .NaN Null".split()
    tags = "".join(f"      t{index}: {word}\n" for index, word in enumerate(words))
    ruleset = world(
        '@id("p") permit (principal, action, resource) when {'
        + " && ".join(
            f'principal.hasTag("t{index}") && principal.getTag("t{index}") == "{word}"'
            for index, word in enumerate(words)
        )
        + "};",
        entities=f"agents:\n  coder-1:\n    tags:\n{tags}",
    )
    assert decide_in(ruleset, call("fs/file_read", path="/workspace/a")).decision.effect is Effect.ALLOW
    assert fault_of(tools=tool_file("x", SIMPLE).replace('"local": true', '"local": yes'))


@given(
    st.sampled_from(["{}", '"{}"', "'{}'", "x # {}", "[{}]", "{{{}: x}}", "|\n    {}", ">\n    {}"]),
    st.characters(categories=["Cf", "Co", "Zl", "Zp"])
    | st.characters(categories=["Zs"], exclude_characters=" "),
)
def test_nothing_in_a_yaml_file_is_invisible(form: str, hidden: str) -> None:
    text = "a: x\nb: " + form.format(f"secr{hidden}ets")
    with pytest.raises(BundleError) as caught:
        load_yaml("a.yaml", text.encode())
    assert [problem.line for problem in caught.value.problems] == [text.count("\n") + 1]
    # Written as an escape it shows what it holds.
    escaped = f'b: "secr\\U{ord(hidden):08x}ets"'
    assert load_yaml("a.yaml", escaped.encode()).value == {"b": f"secr{hidden}ets"}


def test_rule_like_keys_in_the_wrong_file_are_errors() -> None:
    """bug-164: rules that were put where nothing reads them are not dropped without a word."""
    for name, text in (("manifest", MANIFEST), ("credentials", CREDENTIALS), ("entities", ENTITIES)):
        problem = fault_of(**{name: text + "bash: {'git *': ask}\n"})
        assert problem.message == "`bash`: unknown key"


def test_empty_is_not_absent() -> None:
    """CF2, bug-165: an explicit empty list allows nothing."""
    nobody = CREDENTIALS.replace('agents: ["*"]', "agents: []")
    assert world(credentials=nobody).profiles["runtime"].agents == frozenset()
    unbound = tool_file("x", SIMPLE, profiles=[])
    assert decide_in(world(tools=unbound), call("x/t", a="/a")).decision.code is Code.TOOL_UNKNOWN
    ruleset = world(credentials=CREDENTIALS.split("    sources")[0])
    assert caller_of(ruleset).profile.sources == frozenset()
    assert "empty set" in fault_of('@id("r") permit (principal, action in [], resource);').message


def test_a_bad_file_among_good_ones_loads_nothing_and_every_fault_is_told() -> None:
    """bug-162, bug-154: an invalid part is no empty part, and a partial load is no load."""
    problems = faults_of(
        {"allow": PERMIT_ALL, "deny": '@id("deny") forbid (principal, action, resource) when { nonsense };'},
        manifest="format: 1\nname: test\nmore: 1\n",
        entities="users:\n  ada: {groups: [staff]}\n",
        tools=tool_file("x", {**SIMPLE, "roles": {}}),
    )
    assert {problem.file for problem in problems} == {
        "bundle.yaml",
        "entities.yaml",
        "rules/deny.cedar",
        "tools/main.yaml",
    }


@pytest.mark.parametrize("name", ["bundle.yaml", "credentials.yaml", "entities.yaml"])
def test_a_missing_file_is_an_error(name: str) -> None:
    files = {key: data for key, data in bundle_files().items() if key != name}
    with pytest.raises(BundleError) as caught:
        compile_bundle(BundleSources(files=files), Protected())
    assert [(problem.file, problem.message) for problem in caught.value.problems] == [
        (name, "the file is missing")
    ]


@pytest.mark.parametrize("text", ["[]", "3", "text"])
@pytest.mark.parametrize("name", ["bundle.yaml", "credentials.yaml", "entities.yaml", "tools/main.yaml"])
def test_a_file_of_the_wrong_kind_is_told_as_such(name: str, text: str) -> None:
    with pytest.raises(BundleError) as caught:
        compile_bundle(BundleSources(files=bundle_files() | {name: text.encode()}), Protected())
    assert f"{name}:1: the file: expected a mapping" in [str(problem) for problem in caught.value.problems]


@pytest.mark.parametrize("name", ["bundle.yaml", "rules/main.cedar", "tools/fs.yaml"])
def test_a_file_that_is_no_utf_8_is_an_error(name: str) -> None:
    files = bundle_files() | {name: b"\xff\xfe"}
    with pytest.raises(BundleError, match="not valid UTF-8") as caught:
        compile_bundle(BundleSources(files=files), Protected())
    assert caught.value.problems[0].file == name


def write(folder: Path, files: dict[str, bytes]) -> Path:
    for name, data in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    return folder


def test_a_folder_loads_as_its_files_do(tmp_path: Path) -> None:
    files = bundle_files()
    folder = write(tmp_path, files | {"README.md": b"x", ".git/config": b"x", "schema.cedarschema": b"stale"})
    loaded = load_bundle(folder, Protected())
    in_order = read_sources(folder)
    assert loaded.version == in_order.version
    # The generated schema is derived, and the order in which files are read changes nothing.
    shuffled = BundleSources(files=dict(reversed(list(in_order.files.items()))))
    assert shuffled.version == in_order.version
    changed = BundleSources(files={**in_order.files, "README.md": b"y"})
    assert changed.version != in_order.version


@pytest.mark.parametrize(
    "name",
    [
        "rules/a.ceder",
        "rules/deep/a.cedar",
        "rules.cedar",
        "tools/a.yml",
        "policy.yaml",
        "tools/a.json",
        "x/a.cedar",
    ],
)
def test_a_file_that_nothing_would_read_is_an_error(tmp_path: Path, name: str) -> None:
    """CF1: a rule in a file with a misspelt ending would silently not hold."""
    with pytest.raises(BundleError) as caught:
        read_sources(write(tmp_path, bundle_files() | {name: b""}))
    (problem,) = caught.value.problems
    assert (problem.file, "not a file of a bundle" in problem.message) == (name, True)
    assert problem.hint


def test_a_folder_that_is_missing_or_too_large_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(BundleError, match="no such folder"):
        read_sources(tmp_path / "nothing")
    folder = write(tmp_path, {"rules/big.cedar": b"/" * (MAX_FILE_BYTES + 1)})
    with pytest.raises(BundleError, match="over"):
        read_sources(folder)


@given(st.sampled_from(sorted(bundle_files())), st.binary(max_size=12), st.data())
def test_whatever_the_bytes_the_loader_answers_with_a_bundle_or_its_faults(
    name: str, inserted: bytes, data: st.DataObject
) -> None:
    """A broken file is never an exception of another kind, and never half a bundle."""
    files = bundle_files()
    at = data.draw(st.integers(0, len(files[name])))
    cut = data.draw(st.integers(0, 30))
    files[name] = files[name][:at] + inserted + files[name][at + cut :]
    try:
        ruleset = compile_bundle(BundleSources(files=files), Protected())
    except BundleError as error:
        faults = error.problems
    else:
        assert len(ruleset.engine.policies) >= 2  # the rules of the file, and the one that protects itself
        return
    assert faults
    assert all(problem.file for problem in faults)


def test_a_literal_that_no_declared_volume_could_spell_is_an_error() -> None:
    """PA5: where every volume folds case, a forbid on `/workspace/Secrets` would never match."""
    rule = PERMIT_ALL + '@id("f") forbid (principal, action, resource in Directory::"/workspace/Secrets");'
    problem = fault_of(rule, credentials=CREDENTIALS + "    volume: {case_sensitive: false}\n")
    assert "/workspace/secrets" in f"{problem.message} {problem.hint}"


def test_approvers_that_are_not_declared_are_an_error() -> None:
    """CF1: nobody could ever approve what only a misspelt group may approve."""
    terms = '@id("a") @requires("approval") @approvers("Group::\\"finanse\\"")'
    assert "finanse" in fault_of(f"{PERMIT_ALL} {terms} forbid (principal, action, resource);").message

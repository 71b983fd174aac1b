"""SH1 to SH7: a line is judged by everything that it does, however it is put together and spelled.

That bash itself does no more than was predicted: `test_shell_oracle`, `test_shell_oracle_odd`.
"""

import shlex
from collections.abc import Sequence
from functools import cache
from typing import Final

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from authz.core.ruleset import Ruleset
from authz.model.decision import Effect, strictest
from tests.cases.judged import OPAQUE, READS, WRITES, runs
from tests.cases.served import SHELL
from tests.support.world import FS, call, decide_in, world
from tests.unit.core.canonical.test_shell import shown

POLICY: Final = (
    READS
    + WRITES
    + OPAQUE
    + runs("cat", "ls", "touch", "git", "bash", "sh", "find", "grep", "cd", "env", "nohup", "timeout", "nice")
    + runs("sort", "tee", "head", "rm", "echo", "command", "xargs", "true").replace('"runs"', '"runs-more"')
    + '@id("other") permit (principal, action, resource is Program);'
    '@id("other-asks") @requires("approval") forbid '
    '(principal, action in Action::"execute", resource is Program) unless { action in Action::"A0" };'
    '@id("no-clean") forbid (principal, action, resource in Program::"git/clean");'
    '@id("no-secrets") forbid (principal, action, resource in Directory::"/workspace/secrets");'
)


@cache
def ruleset() -> Ruleset:
    return world(POLICY, tools={"shell": SHELL, "fs": FS})


def effect_of(line: str) -> Effect:
    return decide_in(ruleset(), call("shell/run", {"command": line})).decision.effect


SIMPLE: Final = {
    "cat a.txt": Effect.ALLOW,
    "ls src": Effect.ALLOW,
    "touch b": Effect.ALLOW,
    "git status": Effect.ALLOW,
    "grep -n x a.txt": Effect.ALLOW,
    "frobnicate": Effect.REQUIRE_APPROVAL,
    "make test": Effect.REQUIRE_APPROVAL,
    "python3 -c 1": Effect.REQUIRE_APPROVAL,
    "git clean -fd": Effect.DENY,
    "cat secrets/key": Effect.DENY,
    "rm /etc/passwd": Effect.DENY,
    "echo x > secrets/key": Effect.DENY,
}
COMPOSED: Final = (
    *(
        "{} && {}",
        "{} || {}",
        "{}; {}",
        "{} | {}",
        "{} |& {}",
        "{} & {}",
        "{}\n{}",
        "({}); {}",
        "{{ {}; }}; {}",
    ),
    *(
        "if {}; then {}; fi",
        "while {}; do {}; done",
        "until {}; do {}; done",
        "for x in 1 2; do {}; {}; done",
    ),
    *(
        "case a in a) {};; *) {};; esac",
        "f() {{ {}; }}; f; {}",
        "echo $({}); {}",
        'echo "`{}`"; {}',
        "! {} && {}",
    ),
    *(
        "cat <({}); {}",
        '{}; cat <<< "$({})"',
        "cat <<EOF && {}\n$({})\nEOF",
        "time {}; {}",
        "true; {} && ({})",
    ),
)


def test_each_of_the_lines_alone() -> None:
    assert {line: effect_of(line) for line in SIMPLE} == SIMPLE


@settings(max_examples=150)
@given(st.sampled_from(COMPOSED), st.sampled_from(list(SIMPLE)), st.sampled_from(list(SIMPLE)))
def test_sh1_a_composition_is_as_strict_as_its_strictest_part(form: str, left: str, right: str) -> None:
    """Never weaker; and stricter only where the form itself is not understood, which is then asked for."""
    together = effect_of(form.format(left, right))
    parts = strictest([SIMPLE[left], SIMPLE[right]])
    assert strictest([together, parts]) is together
    if parts is Effect.DENY:
        assert together is Effect.DENY
    if together is not parts:
        assert together is Effect.REQUIRE_APPROVAL
        assert form in _NOT_UNDERSTOOD, form


_NOT_UNDERSTOOD: Final = (*("cat <({}); {}", 'echo "`{}`"; {}'),)
"""Forms whose words nobody knows: a process substitution as an operand of `cat`."""


@given(
    st.text(alphabet="ab /.-$(){}[]<>|&;'\"`\\\n!*?~#=\r\x00\u00a0catrmgislenv", max_size=40),
    st.sampled_from(["", "cat a; ", "ls && ", "bash -c "]),
)
def test_sh2_what_is_not_understood_is_never_allowed(text: str, start: str) -> None:
    if "opaque" in shown(start + text):
        assert effect_of(start + text) is not Effect.ALLOW


@given(st.text(max_size=30), st.sampled_from(["git clean -fd", "cat /workspace/secrets/key"]))
def test_sh2_nor_does_it_hide_what_is_denied(text: str, denied: str) -> None:
    """Anything behind an understood line, on a line of its own, leaves what that does in force."""
    assume("\\" not in text[:1])
    lines = f"{denied}\n{text}"
    if not any(reason in shown(lines) for reason in ("opaque",)):
        assert effect_of(lines) is Effect.DENY
    else:
        assert effect_of(lines) is not Effect.ALLOW


PLACES: Final = (
    "a.txt",
    "secrets/key",
    "secretsX/key",
    "src/../secrets/key",
    "/etc/passwd",
    "../workspace/b",
    "b c",
)
EFFECTS: Final = {
    "fs/file_read": (
        "cat {}",
        "head -n 1 {}",
        "cat < {}",
        "sort {}",
        "grep x {}",
        'echo "$(cat {})"',
        "tee < {}",
    ),
    "fs/file_edit": (
        "touch {}",
        "echo x > {}",
        "ls &>> {}",
        "tee {}",
        "sort -o {}",
        ": 2>| {}",
        "{{ ls; }} > {}",
    ),
    "fs/file_remove": ("rm {}", "rm -f -- {}", "find {} -delete", "unlink {}"),
}


@given(st.sampled_from(list(EFFECTS)), st.sampled_from(PLACES), st.data())
def test_sh3_and_pa7_a_file_has_one_verdict_by_whatever_tool(
    tool: str, place: str, data: st.DataObject
) -> None:
    arguments = {"path": place, **({"text": "x"} if tool == "fs/file_edit" else {})}
    by_tool = decide_in(ruleset(), call(tool, arguments)).decision.effect
    form = data.draw(st.sampled_from(EFFECTS[tool]))
    assert effect_of(form.format(shlex.quote(place))) is by_tool


WRAPPERS: Final = (
    *(
        "env {}",
        "env A=b {}",
        "nohup {}",
        "timeout 5 {}",
        "timeout -k 1 -s KILL 5 {}",
        "nice -n 5 {}",
        "command {}",
    ),
    *(
        "sh -c {q}",
        "bash -lc {q}",
        "eval {q}",
        "xargs -a a.txt {}",
        "stdbuf -oL {}",
        "setsid -w {}",
        "time {}",
    ),
    *("/usr/bin/env {}", "find . -maxdepth 0 -exec {} \\;", "busybox {}", "exec {}", "! {}", "flock lock {}"),
    *("unheard-of --option {}", "watch {q}", "ionice -c 3 {}", "taskset 1 {}", "bash <<< {q}", "{{ {}; }}"),
)
PATHS: Final = ("{}", "/usr/bin/{}", "/bin/{}", "'{}'", '"{}"', "\\{}")


@given(st.lists(st.sampled_from(WRAPPERS), max_size=3), st.sampled_from(PATHS))
def test_sh4_a_program_is_itself_behind_any_launcher_and_by_any_path(wrappers: list[str], path: str) -> None:
    line = f"{path.format('git')} clean -fd"
    for wrapper in wrappers:
        line = wrapper.format(line, q=shlex.quote(line))
    found = shown(line)
    if {"git/clean", "git/clean?"} & found:
        assert effect_of(line) is Effect.DENY
    else:
        assert effect_of(line) is not Effect.ALLOW


# (program, its subcommand, options in every spelling, operands). A beginning of an option is one where every
# option of the program is listed: elsewhere it may be another's, and is asked for.
SPELLINGS: Final[list[tuple[str, list[list[list[str]]], list[str]]]] = [
    (
        "rm",
        [[["-r"], ["-R"], ["--recursive"], ["--recurs"]], [["-f"], ["--force"], ["--forc"]]],
        ["a", "b c"],
    ),
    ("cp", [[["-r"], ["-R"], ["--recursive"]], [["-v"], ["--verbose"]]], ["a", "b"]),
    (
        "grep",
        [
            [["-r"], ["--recursive"]],
            [["-n"], ["--line-number"]],
            [["-A", "2"], ["-A2"], ["--after-context=2"]],
        ],
        ["x", "src"],
    ),
    (
        "grep",
        [[["-e", "x"], ["-ex"], ["--regexp=x"], ["--regexp", "x"]], [["-i"], ["--ignore-case"]]],
        ["src", "a"],
    ),
    (
        "sort",
        [
            [["-o", "out"], ["-oout"], ["--output=out"], ["--output", "out"]],
            [["-u"], ["--unique"]],
        ],
        ["a"],
    ),
    (
        "tar",
        [[["-c"], ["--create"]], [["-f", "a.tar"], ["-fa.tar"], ["--file=a.tar"]], [["-z"], ["--gzip"]]],
        ["src"],
    ),
    (
        "tar",
        [
            [["-x"], ["--extract"], ["--get"]],
            [["-f", "a.tar"], ["--file", "a.tar"]],
            [["-C", "d"], ["--directory=d"]],
        ],
        [],
    ),
    (
        "curl",
        [[["-o", "f"], ["-of"], ["--output", "f"]], [["-s"], ["--silent"]], [["-d", "x"], ["--data", "x"]]],
        ["https://e.example/a"],
    ),
    ("git log", [[["-n", "1"], ["-n1"], ["-1"], ["--max-count=1"]], [["--oneline"]]], ["a"]),
    ("git clean", [[["-f"], ["--force"]], [["-d"]], [["-q"], ["--quiet"]]], ["build"]),
    ("git push", [[["-f"], ["--force"]], [["-q"], ["--quiet"]]], ["https://h.example/a/b", "main"]),
    ("touch", [[["-r", "x"], ["-rx"], ["--reference=x"]], [["-a"]], [["-m"]]], ["a"]),
]


def _word(data: st.DataObject, text: str) -> str:
    """The word in one of the ways to quote it, and an end of it may be quoted alone."""
    forms = [f"'{text}'", f'"{text}"', f"{shlex.quote(text[:1])}'{text[1:]}'"]
    if " " not in text:
        forms += [text, text, f"\\{text}" if text[0].isalpha() else text]
    return data.draw(st.sampled_from(forms))


@given(st.data(), st.sampled_from(SPELLINGS))
def test_sh5_options_that_mean_the_same_are_the_same(
    data: st.DataObject, told: tuple[str, list[list[list[str]]], list[str]]
) -> None:
    program, options, operands = told
    plain = [word for option in options for word in option[0]]
    expected = shown(shlex.join([*program.split(), *plain, *operands]))
    assert "opaque" not in expected
    chosen = [data.draw(st.sampled_from(option)) for option in data.draw(st.permutations(options))]
    flags = [each[0] for each in chosen if len(each) == 1 and len(each[0]) == 2]
    if data.draw(st.booleans()) and len(flags) > 1:
        rest = [each for each in chosen if each != [each[0]] or each[0] not in flags]
        chosen = [["-" + "".join(flag[1] for flag in flags)], *rest]
    parts: list[list[str]] = [*chosen]
    for operand in operands:  # in their order, among the options in any
        # Before its options, an operand of `tar` is options itself.
        least = int(program == "tar")
        at = max((index + 1 for index, part in enumerate(parts) if part[0] in operands), default=least)
        parts.insert(data.draw(st.integers(at, len(parts))), [operand])
    words = [word for part in parts for word in part]
    line = " ".join([program, *(_word(data, word) for word in words)])
    assert shown(line) == expected, line


HARMLESS: Final = ("LANG=C", "TZ=UTC", "LC_ALL=C.UTF-8", "NO_COLOR=1", "x=y", "GIT_AUTHOR_NAME='A B'", "CI=1")
HARMFUL: Final = (
    *(
        "LD_PRELOAD=x",
        "GIT_PAGER=x",
        "GIT_SSH_COMMAND=x",
        "EDITOR=x",
        "PAGER=x",
        "PYTHONSTARTUP=x",
        "LESSOPEN=x",
    ),
    *(
        "NODE_OPTIONS=x",
        "GIT_DIR=x",
        "http_proxy=x",
        "LANGUAGE=../x",
        "LC_ALL=$(cat a)",
        "UNHEARD_OF=1",
        "GCONV_PATH=x",
    ),
    *("PATH=x:$PATH", "BASH_ENV=x", "IFS=/", "HOME=/", "CDPATH=/", "SHELLOPTS=x", "PS4=x", "ENV=x"),
)
HOW: Final = ("{a} {l}", "env {a} {l}", "export {a}; {l}", "{a}; {l}", "true && {a} {l}", "nohup env {a} {l}")


@given(st.lists(st.sampled_from(HARMLESS), min_size=1, max_size=3), st.sampled_from(HOW))
def test_sh6_harmless_variables_change_nothing(assigned: list[str], how: str) -> None:
    line = how.format(a=" ".join(assigned), l="git status")
    assert effect_of(line) is Effect.ALLOW
    assert effect_of(how.format(a=" ".join(assigned), l="git clean -fd")) is Effect.DENY


@given(
    st.sampled_from(HARMFUL), st.lists(st.sampled_from(HARMLESS), max_size=2), st.sampled_from(HOW), st.data()
)
def test_sh6_any_other_takes_the_allow_away_and_never_a_denial(
    harmful: str, harmless: list[str], how: str, data: st.DataObject
) -> None:
    assigned = " ".join(data.draw(st.permutations([harmful, *harmless])))
    assert effect_of(how.format(a=assigned, l="git status")) is not Effect.ALLOW
    # A line that sets what the shell itself reads is not understood at all, and what it names is still seen.
    assert effect_of(how.format(a=assigned, l="cat /workspace/secrets/key")) is Effect.DENY


STEPS: Final = {
    "cd src": "src",
    "cd ..": "..",
    "cd /etc": "/etc",
    "cd ./secrets": "secrets",
    "cd /workspace": "/workspace",
}
SCOPED: Final = (
    "({}); ",
    "echo $({}); ",
    "{} | cat; ",
    "{} & ",
    "bash -c '{}'; ",
    "if false; then :; fi; ({}) && ",
)


@given(
    st.lists(st.sampled_from(list(STEPS)), max_size=4),
    st.lists(st.sampled_from(SCOPED), max_size=2),
    st.data(),
)
def test_sh7_each_command_is_judged_where_it_runs(
    steps: list[str], scoped: Sequence[str], data: st.DataObject
) -> None:
    """What moves in a scope of its own moves nothing else."""
    before = "".join(form.format(data.draw(st.sampled_from(list(STEPS)))) for form in scoped)
    place = "/workspace"
    for step in steps:
        place = f"/{place}/{STEPS[step]}" if not STEPS[step].startswith("/") else STEPS[step]
    line = before + " && ".join([*steps, "cat key"])
    assert f"read {_normal(place)}/key".replace("//", "/") in _reads(line)
    inside = {f"read {_normal(place)}/key".replace("//", "/")}
    assert {one for one in _reads(line) if one.endswith("/key")} == inside, line


def _reads(line: str) -> set[str]:
    outcome = decide_in(ruleset(), call("shell/run", {"command": line}))
    return {f"{one.verb} {one.resource.value}" for one in outcome.decision.accesses}


def _normal(path: str) -> str:
    found: list[str] = []
    for part in path.split("/"):
        if part == "..":
            del found[-1:]
        elif part not in ("", "."):
            found.append(part)
    return "/" + "/".join(found)


@given(
    st.sampled_from(["cd -", "cd $UNSET", "cd $(cat a)", "pushd src", "cd ~bob", "cd 'a' 'b'", "cd -P src"])
)
def test_sh7_an_unknown_directory_is_not_the_workspace(step: str) -> None:
    assert effect_of(f"{step} && cat key") is not Effect.ALLOW
    assert effect_of(f"{step}; rm -rf build") is not Effect.ALLOW
    assert effect_of('git -C "$UNSET" status') is not Effect.ALLOW

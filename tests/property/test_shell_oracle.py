"""What bash does with a line is among what was predicted, for generated lines (SH1 to SH7)."""

import os
import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from authz.core.canonical.shell import ShellAccess, analyse_shell
from authz.model.resource import Base, NotCanonical, Scope, Verb
from tests.property.shell_oracle import BashOracle, Ran

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed"),
]

NAMES = ["a", "b c", "d.txt", "e.txt", "sub", "sub/x", "sub/../a", "./a", "new", "sub/deep", "*.txt", "sub/*"]


def _quoted(name: str) -> st.SearchStrategy[str]:
    if "*" in name:
        return st.just(name)
    plain = [] if " " in name else [name]
    escaped = name.replace(" ", "\\ ")
    split = f'{name[:1]}"{name[1:]}"'
    return st.sampled_from([*plain, f"'{name}'", f'"{name}"', escaped, split, f"$'{name}'"])


WORD = st.sampled_from(NAMES).flatmap(_quoted)
VARIABLE = st.sampled_from(
    ['"$v"', "$v", "${v}", '"${w:-a}"', "~/a", '"$HOME/a"', "$PWD/a", "{a,d.txt}", "$((1+1))"]
)
OPERAND = st.one_of(WORD, WORD, WORD, VARIABLE, st.deferred(lambda: st.builds("$({})".format, LINE)))
PROGRAM = st.sampled_from(
    ["cat", "rm -f", "touch", "ls -la", "mkdir -p", "head -n 2", "'rm'", "\\rm", 'r"m"']
)
REDIRECT = st.builds("{}{}{}".format, st.sampled_from([">", ">>", "2>", "&>", ">|", "<"]), st.just(" "), WORD)
WRAPPER = st.sampled_from(["", "", "", "command ", "FOO=1 ", "x=2 ", "eval ", "exec ", "! "])
SIMPLE = st.builds(
    lambda wrapper, program, operands, redirects: (
        f"{wrapper}{program} {' '.join(operands)} {' '.join(redirects)}"
    ),
    WRAPPER,
    PROGRAM,
    st.lists(OPERAND, min_size=1, max_size=2),
    st.lists(REDIRECT, max_size=1),
)
MOVES = st.sampled_from(
    ["cd sub", "cd ..", "cd nowhere", "cd sub/deep", "cd", "v=a", "v='b c'", "v=sub", "exit", "false"]
)
LINE = st.recursive(
    st.one_of(SIMPLE, SIMPLE, MOVES),
    lambda inner: st.one_of(
        st.builds("{} && {}".format, inner, inner),
        st.builds("{} || {}".format, inner, inner),
        st.builds("{}; {}".format, inner, inner),
        st.builds("{}\n{}".format, inner, inner),
        st.builds("{} | {}".format, inner, inner),
        st.builds("({})".format, inner),
        st.builds("{{ {}; }}".format, inner),
        st.builds("if {}; then {}; else {}; fi".format, inner, inner, inner),
        st.builds("for v in a sub 'b c'; do {}; done".format, inner),
        st.builds("for v in *.txt; do {}; done".format, inner),
        st.builds("f() {{ {}; }}; f; {}".format, inner, inner),
        st.builds("case a in a) {};; *) {};; esac".format, inner, inner),
        st.builds("({}) > new".format, inner),
        st.builds("cat <<'EOF' && {}\nrm -rf $x `a`\nEOF\n{}".format, inner, inner),
        st.builds("cat <({})".format, inner),
        st.builds("bash -c '{}'".format, inner.filter(lambda line: "'" not in line)),
    ),
    max_leaves=4,
)


@pytest.fixture(scope="module")
def bash(tmp_path_factory: pytest.TempPathFactory) -> BashOracle:
    return BashOracle(tmp_path_factory.mktemp("bash"))


@settings(
    max_examples=200,
    suppress_health_check=[
        HealthCheck.too_slow,
        HealthCheck.function_scoped_fixture,
        HealthCheck.filter_too_much,
    ],
)
@given(line=LINE)
def test_what_bash_does_was_predicted(line: str, bash: BashOracle) -> None:
    work = str(bash.work)
    found = analyse_shell(line, Base(cwd=work, home=work))
    assert not isinstance(found, NotCanonical)
    is_opaque = any(access.resource.kind == "opaque" for access in found)
    event("opaque" if is_opaque else "understood")
    if is_opaque:
        return  # it is asked for, whatever it does
    ran, changed = bash.run(line)
    programs = {access.resource.entity.id.split("/")[0] for access in found if access.verb is Verb.EXECUTE}
    for one in ran:
        assert one.name in programs, (line, one)
        _check_operands(line, one, found)
    for path in changed:
        assert _covers(found, Verb.WRITE, path), (line, path)


def _check_operands(line: str, ran: Ran, found: Sequence[ShellAccess]) -> None:
    verb = {"rm": Verb.DELETE, "touch": Verb.WRITE, "mkdir": Verb.WRITE}.get(ran.name, Verb.READ)
    skipped = {"-f", "-la", "-p", "-n", "2"}
    for argument in ran.arguments:
        if argument in skipped or argument.startswith("/dev/fd/"):
            continue
        path = os.path.normpath(os.path.join(ran.cwd, argument))
        assert _covers(found, verb, path), (line, ran, path)


def _covers(found: Sequence[ShellAccess], verb: Verb, path: str) -> bool:
    for access in found:
        resource = access.resource.entity
        if access.verb is not verb or resource.type != "File":
            continue
        if resource.id == path or (access.scope is Scope.TREE and Path(path).is_relative_to(resource.id)):
            return True
    return False

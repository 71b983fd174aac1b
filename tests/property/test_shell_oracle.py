"""What bash does with a line is among what was predicted, for generated lines (SH1 to SH7)."""

import shutil

import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from tests.property.shell_oracle import BashOracle, check_predicted

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
    event("opaque" if check_predicted(line, bash) else "understood")

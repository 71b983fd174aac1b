"""Odd lines of bash at random: everything that its grammar has, and whatever got past the analysis once."""

import shlex

from hypothesis import strategies as st

ODD_WORD = st.sampled_from(
    [
        *(
            "a",
            "'b c'",
            "sub/x",
            "$'d.txt'",
            '"a"',
            "s'u'b/\"x\"",
            "b\\ c",
            "./a",
            "new",
            "3",
            "sub/../a",
            "-",
        ),
        *("*", "*.txt", "sub/*", "./*", "[ad]*", "*/x", "*/../a", "'*'", "\\*", '"$v"*', "?", "s*b/x", "-*"),
        *(
            "{a,sub/x}",
            "s{ub/x,ub/a}",
            '{a,"b c"}',
            "{a}",
            "{a,b",
            "x{1..2}",
            "{a,}",
            "{$v,e.txt}",
            "a{b,c}d",
        ),
        *(
            "$v",
            '"$v"',
            "${v}",
            '"${v}/x"',
            "$w",
            '"${w:-a}"',
            "${v%a}",
            "${#v}",
            "${v:0:1}",
            "$HOME/a",
            "$_",
        ),
        *(
            "~/a",
            "~",
            "x=~/a",
            "x=a:~/a",
            '~"/a"',
            "'~/a'",
            "$PWD/a",
            "$OLDPWD",
            "$((1+2))",
            "$?",
            "$1",
            "$@",
        ),
        *("$(echo a)", "`echo a`", '"$(cat d.txt)"', "$(< a)", "<(cat a)", '"a$(rm e.txt)"', '"`touch q`"'),
        *(
            "a#b",
            "'#'",
            '"\\$v"',
            "a\\\nb",
            "\\\n a",
            "$'a\\x62'",
            "!(a)",
            "a=b",
            "--",
            "-n",
            "#c",
            '$"a"',
            "é",
        ),
    ]
)
PLAIN_WORD = st.sampled_from(
    ["a", "'b c'", "sub/x", "d.txt", "new", "./a", "sub", "sub/../a", "e.txt", "$v", '"$v"', "*"]
)
WORD = st.one_of(PLAIN_WORD, PLAIN_WORD, ODD_WORD)
PROGRAM = st.sampled_from(
    ["cat", "rm -f", "touch", "ls -la", "mkdir -p", "head -n 2", "\\rm", "r'm'", "git log"]
)
TARGET = st.sampled_from(
    ["new", "'b c'", "sub/new", "$v", "/dev/null", "a", "nowhere/x", "*", "~/new", "/no/x"]
)
REDIRECT = st.builds(
    "{}{}{}".format,
    st.sampled_from([">", ">>", "2>", "&>", ">|", "<", "2>&1 >", "3>", "<>", ">&", "{fd}>", "0<", "3<"]),
    st.sampled_from(["", " "]),
    TARGET,
)
ODD_PREFIX = st.sampled_from(
    [
        *(
            "",
            "",
            "",
            "",
            "command ",
            "builtin ",
            "exec ",
            "! ",
            "time ",
            "time -p ",
            "v=sub ",
            "FOO=1 ",
            "v= ",
        ),
        *(
            "env ",
            "env V=1 ",
            "env -i ",
            "nohup ",
            "nice -n 1 ",
            "timeout 5 ",
            "command -p ",
            "\\time ",
            "x=1 time ",
        ),
        *(
            "find sub -exec ",
            "find . -name x -exec ",
            "find sub -execdir ",
            "xargs -a d.txt ",
            "echo a | xargs ",
        ),
        *(
            "echo a | xargs -I{} ",
            "echo a | xargs -n1 ",
            "<a ",
            ">new ",
            "2>new ",
            "eval ",
            "coproc ",
            "\n",
            "\t",
        ),
    ]
)


PREFIX = st.one_of(st.just(""), st.just(""), ODD_PREFIX)


def _simple(prefix: str, program: str, words: list[str], redirects: list[str]) -> str:
    end = " {} \\;" if prefix.startswith("find") else ""
    return f"{prefix}{program} {' '.join(words)}{end} {' '.join(redirects)}"


SIMPLE = st.builds(
    _simple,
    PREFIX,
    PROGRAM,
    st.lists(WORD, min_size=1, max_size=2),
    st.one_of(st.just([]), st.lists(REDIRECT, max_size=2)),
)
ODD_BUILTIN = st.sampled_from(
    [
        *(
            "cd sub",
            "cd ..",
            "cd nowhere",
            "cd",
            "cd -",
            "cd sub >new",
            "cd -- sub",
            "pushd sub",
            "false",
            ":",
        ),
        *(
            "v=a",
            "v='b c'",
            "v=sub/x",
            "v=",
            "v+=x",
            "export v=a",
            "local v=e.txt",
            "readonly v=d.txt",
            "unset v",
        ),
        *(
            "exit",
            "exit 1 2",
            "exit >/no/x",
            "return",
            "break",
            "continue",
            "break 2",
            "shift",
            "logout",
            "set -f",
        ),
        *(
            "exec >new",
            "exec <a",
            "exec 3>new",
            "set -e",
            "set -u",
            "set -- a b",
            "read v <<< a",
            "read v < a",
        ),
        *(
            "printf -v v x",
            "printf -vv x",
            "unset -f f",
            "unset cat",
            "true # x",
            "trap 'rm a' EXIT",
            "v=(a b)",
        ),
        *(
            "[ -f a ]",
            '[ "$v" = a ]',
            "[ $v ]",
            "[[ $v == a* ]]",
            "[[ a =~ $(rm a) ]]",
            "[[ -n $v ]]",
            "((v=1))",
        ),
        *(
            "[[ 1 -eq $v ]]",
            "let v=1",
            "test -v v",
            "wait",
            "jobs -x rm a",
            "hash",
            "alias cat=rm",
            "shopt -s nullglob",
        ),
        *(
            "cat() { rm a; }",
            "rm() { cat a; }",
            "f() { cd sub && return; cd .. || exit; }",
            "f",
            "function f { touch q; }",
        ),
        *(
            "f() { v=sub/x; }",
            'f() { cat "$v"; }',
            "v=e.txt f",
            "f > new",
            "f() { bash; } <a",
            "g() { f; }; g",
        ),
        *(
            "bash < a",
            "sh -c sh < a",
            "bash -s",
            "echo 'rm a' | bash",
            "bash <<< 'rm a'",
            "sh <<< 'rm a'",
            "bash a",
        ),
    ]
)
PLAIN_BUILTIN = st.sampled_from(
    ["cd sub", "cd ..", "v=a", "v=sub/x", "f", "f() { cd sub; }", "exit", "break", "false", "return"]
)
BUILTIN = st.one_of(PLAIN_BUILTIN, ODD_BUILTIN)
PLAIN_BETWEEN = st.sampled_from([" && ", " || ", "; ", "\n"])
BETWEEN = st.sampled_from(
    [" && ", " || ", "; ", "\n", " | ", " & ", " |& ", ";\n\n", " &&\n", "\r\n", " \\\n&& "]
)


def _quoted(form: str, inner: str) -> str:
    return form.replace("%", shlex.quote(inner))


AROUND = st.sampled_from(
    [
        *(
            "({})",
            "{{ {}; }}",
            "( {} ) > new",
            "{{ {}; }} > /no/x",
            "{{ {}; }} 2>&1 | cat",
            "! {{ {}; }}",
            "time {}",
        ),
        *(
            "if {}; then :; fi",
            "if false; then :; else {}; fi",
            "if cd sub; then {}; fi",
            "({}) &",
            "{} &\nwait",
        ),
        *(
            "for v in a sub/x; do {}; done",
            "for v in *; do {}; done",
            "for v; do {}; done",
            "for v in; do {}; done",
        ),
        *(
            "while true; do {}; break; done",
            "until false; do {}; break; done",
            "while read v; do {}; done < a",
        ),
        *(
            "while read -r v; do {}; done <<< 'x'",
            "for v in 1 2; do cd sub && break; done; {}",
            "until {}; do break; done",
        ),
        *(
            "case a in a) {} ;; esac",
            "case $v in *) {} ;& b) ls ;; esac",
            "case a in $(rm q)) : ;; *) {};; esac",
        ),
        *(
            "f() {{ {}; }}; f",
            "f() {{ {}; }}; f x | cat",
            "function f {{ {}; }}; f > new",
            "f() ( {} ); f; f",
        ),
        *(
            "cat <<EOF\n$({})\nEOF",
            "cat <<'EOF'\n$({})\nEOF",
            "cat <<-EOF\n\ta\n\tEOF\n{}",
            "cat <<EOF && {}\nx\nEOF",
        ),
        *(
            "{} <<EOF\nx\nEOF",
            "cat <<A <<B\nx\nA\n$v\nB\n{}",
            "cat <<'EOF' | {}\nrm a\nEOF",
            'cat <<"E"\n`rm a`\nE\n{}',
        ),
        *(
            "cat <({})",
            "cat > >({})",
            "echo $({})",
            'echo "$({})"',
            "v=$({}); cat a",
            "echo `{}`",
            'cat <<< "$({})"',
        ),
        *(
            "echo ${{v:-$({})}}",
            "echo ${{v#$({})}}",
            "[[ -n $({}) ]]",
            "select v in a; do {}; done",
            "x=a {}",
        ),
        *(
            "{} # rm q",
            "# {}",
            "{}\n# x",
            "echo '{}",
            "cd sub; {}",
            "cd sub && {}",
            "(cd sub); {}",
            "cd sub | {}",
        ),
        *(
            "cd sub & {}",
            "cd sub || exit; {}",
            "v=a; {}",
            "v='b c'; {}",
            "v=-rf; {}",
            "set -f; {}",
            "exec 2>&1; {}",
        ),
    ]
)
SHELLS = st.sampled_from(
    [
        *(
            "eval %",
            "bash -c %",
            "sh -c %",
            "bash -lc %",
            "bash -c % x /etc",
            "sh -c % < a",
            "bash <<< %",
            "dash -c %",
        ),
        *(
            "env bash -c %",
            "echo a | xargs -I{} sh -c %",
            "find sub -name x -exec sh -c % {} \\;",
            "echo % | sh",
        ),
        *(
            "bash -ec %",
            "bash -c % > new",
            "timeout 5 bash -c %",
            "command eval %",
            "eval eval %",
            "v=e.txt eval %",
        ),
        *(
            "bash <<'X'\n%\nX",
            "env -S %",
            "exec bash -c %",
            "bash -O extglob -c %",
            "nohup sh -c % &",
            "source %",
        ),
    ]
)
LINE = st.recursive(
    st.one_of(SIMPLE, SIMPLE, BUILTIN),
    lambda inner: st.one_of(
        st.builds("{}{}{}".format, inner, BETWEEN, inner),
        st.builds("{}{}{}".format, inner, PLAIN_BETWEEN, inner),
        st.builds("{}{}{}".format, BUILTIN, PLAIN_BETWEEN, inner),
        st.builds("{}{}{}".format, inner, PLAIN_BETWEEN, inner),
        st.builds(lambda form, line: form.format(line), AROUND, inner),
        st.builds(_quoted, SHELLS, inner),
    ),
    max_leaves=4,
)

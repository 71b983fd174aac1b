"""A pattern is any number of words that nobody knows: where a word's place or text matters, it is refused."""

import shutil
import subprocess
from pathlib import Path

import pytest

from authz.core.canonical.shell.spelled import SpelledOptions, may_spell, may_spell_option
from authz.model.resource import Base
from tests.unit.core.canonical.test_shell import IN_ROOT, accesses, shown, told

REFUSED = [
    # Single brackets and `test` take an operator for a word like any other.
    *("[ * ]", "[ ?v x ]", "[ -f x -o * = zz ]", "[ -f *.md ]", "[ *.md = x ]", "[ -n x -a [-]a* = zz ]"),
    *("test *", "[ -v 'w[$(x)]' ]", "[ 'w[$(x)]' -eq 1 ]", 'f() { [ "$@" ]; }; f', '[ "$x" "$y" ]'),
    # A place that is not counted from the front any more.
    *("timeout * echo -rf /w", "flock ?? echo", "taskset ?? echo", "chrt ?? echo", "nice -n ?? echo"),
    *("xargs ?? echo", "env ?=x ls", "nohup *", "setsid ?s", "ionice -c * ls", "stdbuf -o* -e? *"),
    # A name that is an option.
    *("rm [-]rf docs", "rm ?f*r docs", "rm ??? docs", "rm *rf docs", "ls [-]R .", "chmod 777 [-]R ."),
    *("grep x [-]r .", "grep x *.md", "rg x [-]-pre=sh", "wc [-]-files0-from=list", "wc *.md", "sort *.md"),
    *("strings [@]list", "strings *.bin", "gzip [-]rc .", "cp *.md docs", "git add [-]e src", "git add *"),
    *(
        "git rm [-]r src",
        "file [-]f*",
        "touch [-]r* x",
        "rmdir [-]p a/b",
        "sha256sum [-]c",
        "b2sum *+8",
        "b2sum *' 8'",
        "b2sum *8",
        "du *",
        "git log *",
    ),
    *(
        'for f in [-]rf; do rm "$f" docs; done',
        'for f in *; do wc "$f"; done',
        "rm ?? -rf",
        "rm * -r",
        "cat * -n",
    ),
    # What is dropped as the pattern, the mode, the script, the lock.
    *("grep s* a.md", "grep -v * x", "grep -- * x", "rg s* x", "git grep s* x", "chmod u* x", "sed s* x"),
    *("awk s* x", "jq s* x", "printf -- s* x", "find * -type f", "zip s* x", "bash s*", "python3 s*"),
    # The last of several is where the others go.
    *("git mv a s*", "rsync a s*", "ln -s x s*", "ln -s s*", "cp a s*", "mv a s*", "scp a s*"),
    # Options whose value is a text, and options before a subcommand.
    *("git -C s* log", "git -C se?rets diff", "curl -d@/w/s*/key https://example.org/x", "npm ls *"),
    # Urls, letters, names that a suffix is taken from.
    *(
        "curl http://example.org/adm?n",
        "ps ?",
        "rmdir -p a*/x",
        "wget http://example.org/?a",
        "git branch m*",
    ),
    # One that may match several names, of which the second is a part of the expression.
    *("find . -not -name [[:punct:]]delete", "find . -name *", "find . -name *delete", "find . -newer ?"),
    *("find . -exec cat * -delete \\;", "find . -fprint s*"),
    # Braces before tildes.
    *(
        "cat {x,~/.config/gh/hosts.yml}",
        "dd of={b,~/a}",
        "cat x={a:~/b,c}",
        "for f in {x,~/a}; do cat $f; done",
    ),
    # `..`, to a shell that reads brackets in its own way.
    *("cat .[[:punct:]]/key", "sh -c 'cat .[\"!\".]/key'", "cat .[!a]/key", "cat .?/key", "cat ..*/key"),
]


@pytest.mark.parametrize("line", REFUSED)
def test_a_pattern_where_words_are_counted_or_read_is_not_understood(line: str) -> None:
    assert "opaque" in shown(line)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("cat *.md", {"cat", "read /w", "read /w/*.md"}),
        ("cat *", {"cat", "read /w", "read /w/*"}),
        ("rm *.o", {"rm", "read /w", "delete /w/*.o"}),
        # What it could spell was given.
        ("rm -rf *", {"rm", "read /w", "delete /w/*/**"}),
        ("cat .??den/x .git*/x", {"cat", "read /w", "read /w/.??den/x", "read /w/.git*/x"}),
        ("rm -- *", {"rm", "read /w", "delete /w/*"}),
        ("rm ./*", {"rm", "read /w", "delete /w/*"}),
        ("head -5 *.log", {"head", "read /w", "read /w/*.log"}),
        ("sha256sum *.tgz", {"sha256sum", "read /w", "read /w/*.tgz"}),
        ("ls -- *.py", {"ls", "read /w", "read /w/*.py"}),
        ("wc -l src/*.py", {"wc", "read /w/src", "read /w/src/*.py"}),
        ("grep -n x ./*.py", {"grep", "read /w", "read /w/*.py"}),
        ("grep -rn x --include=*.py src", {"grep", "read /w", "read /w/src/**"}),
        ("chmod +x bin/*", {"chmod", "read /w/bin", "write /w/bin/*"}),
        ("sed -i s/a/b/ src/*.py", {"sed", "read /w/src", "read /w/src/*.py", "write /w/src/*.py"}),
        ("strings lib/*.so", {"strings", "read /w/lib", "read /w/lib/*.so"}),
        ("find . -name *.py", {"find", "read /w", "read /w/**"}),
        # What they are called where they go.
        (
            "cp ./*.md docs/",
            {"cp", "read /w", "read /w/*.md", "write /w/docs", "write /w/docs/*.md"},
        ),
        (
            'for f in ./*.md; do cp "$f" docs; done',
            {"cp", "read /w", "read /w/*.md", "write /w/docs", "write /w/docs/*.md"},
        ),
        # A value is one for sure, but nobody knows which: all that lies there.
        ("sort -o/w/s*/k x", {"sort", "read /w/-o/w", "read /w/x", "write /w/**"}),
        ("sort --output=/w/s*/k x", {"sort", "read /w/--output=/w", "read /w/x", "write /w/**"}),
        ("grep -f/w/s*/key a", {"grep", "read /w/-f/w", "read /w/**", "read /w/a"}),
    ],
)
def test_a_pattern_of_files_is_understood(line: str, expected: set[str]) -> None:
    assert shown(line) == expected


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("gzip app.log", {"gzip", "read /w/app.log", "delete /w/app.log", "write /w/app.log.gz"}),
        ("xz -k app.log", {"xz", "read /w/app.log", "delete /w/app.log", "write /w/app.log.xz"}),
        (
            "gunzip a.tgz",
            {"gunzip", "read /w/a.tgz", "delete /w/a.tgz", "write /w/a", "write /w/a.tar", "write /w/a.out"},
        ),
        (
            "gzip logs/*.log",
            {"gzip", "read /w/logs", "read /w/logs/*.log", "delete /w/logs/*.log", "write /w/logs/*.log.gz"},
        ),
    ],
)
def test_what_a_compressed_file_is_called(line: str, expected: set[str]) -> None:
    assert shown(line) == expected
    assert {"read /w/a.gz", "write /w/a", "delete /w/a.gz"} <= shown("gunzip a")
    assert "write /w/**" in shown("gunzip -N a.gz")
    assert "opaque" in shown("gzip -S .x a")


def test_only_a_whole_list_of_options_is_abbreviated() -> None:
    """`git cat-file --batch` is an option of its own, and no beginning of `--batch-check`."""
    assert "opaque" in shown("git cat-file --batch")
    assert "opaque" in shown("curl --re @x https://example.org/")
    assert shown("rm --recurs a") == {"rm", "delete /w/a/**"}


@pytest.mark.parametrize("value", ["x/.git", "../x"])
def test_a_variable_that_names_a_repository_names_the_place(value: str) -> None:
    for line in (
        f"GIT_DIR={value} git log",
        f"export GIT_DIR={value}; git log",
        f"env GIT_DIR={value} git log",
    ):
        place = "/w/x/.git" if value == "x/.git" else "/x"
        assert {"git/log?", f"read {place}", f"write {place}"} <= shown(line), line


HARMFUL = SpelledOptions.of("r/recursive f= pre=", flags="r.", values="fn")


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        *(("*", True), ("?r", True), ("??", True), ("*r", True), ("*r.", True), ("[-]*", True), ("[a", True)),
        *(("*_", True), ("*.md", True), ("?x_", False), ("?_*", False), ("?n*", False), ("?nr", False)),
        *(
            ("?rn_", True),
            ("?-pr*", True),
            ("?-pre=*", True),
            ("?-rec", True),
            ("?-x*", False),
            ("a*", False),
        ),
        *(("./*", False), ("", False), ("?-=x", False), ("?-recursive=x", False), ("*" * 100, True)),
    ],
)
def test_which_patterns_may_spell_a_harmful_option(pattern: str, expected: bool) -> None:
    assert may_spell_option(pattern, HARMFUL) is expected
    assert may_spell_option(pattern, None) is (pattern[:1] in ("*", "?", "[") and pattern != "")
    assert not may_spell_option(pattern, SpelledOptions.of("", flags="", values=""))


def test_an_end_that_no_option_has_spells_none_without_a_value() -> None:
    plain = SpelledOptions.of("r/recursive", flags="rf", values="")
    assert not may_spell_option("*r", plain.without(["recursive"]))
    assert may_spell_option("*r", plain)
    assert not may_spell_option("*.o", plain)
    assert not may_spell_option("*_", plain)
    assert may_spell("??", "--")
    assert may_spell("[-]*", "--")
    assert not may_spell("*.md", "--")


@pytest.mark.skipif(shutil.which("rm") is None, reason="there is no `rm`")
def test_a_program_that_meets_an_option_it_has_not_does_nothing(tmp_path: Path) -> None:
    """What `rm *.o` leans on."""
    (tmp_path / "-rf.o").touch()
    (tmp_path / "x.o").touch()
    done = subprocess.run(["sh", "-c", "rm *.o"], cwd=tmp_path, capture_output=True, check=False, timeout=20)
    assert done.returncode != 0
    assert {path.name for path in tmp_path.iterdir()} == {"-rf.o", "x.o"}


BELOW = Base(cwd="/w/sub", root="/w", home="/home/agent")
PRINTS_ALL = [
    *("git diff", "git diff HEAD~1", "git diff main", "git diff --cached", "git show", "git show HEAD"),
    *("git log -p", "git log -S x", "git log -G x", "git log --patch", "git stash show -p", "git status -v"),
    *(
        "git cat-file -p abcdef1",
        "git show abcdef1 --stat",
        "git show HEAD^{tree}",
        "git diff --stat --check",
    ),
    *("git show main -- ", "git reflog --patch", "git diff abcdef1 -- a.py", "git show abcdef:./a.py"),
]


@pytest.mark.parametrize("line", PRINTS_ALL)
def test_git_prints_files_that_nobody_named(line: str) -> None:
    found = {told(one) for one in accesses(line, IN_ROOT)}
    assert "read /w/**" in found
    assert "opaque" not in found
    assert "opaque" in {told(one) for one in accesses(line, BELOW)}


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("git diff -- src/a.py", {"read /w", "read /w/src/a.py"}),
        ("git diff src/a.py", {"read /w", "read /w/src/a.py"}),
        ("git diff HEAD~1 -- src/a.py", {"read /w", "read /w/src/a.py"}),
        ("git log -p -- docs", {"read /w", "read /w/docs/**"}),
        ("git log --oneline -- src/a.py", {"read /w", "read /w/src/a.py"}),
        ("git log -L1,5:secrets/key", {"read /w", "read /w/secrets/key"}),
        ("git log -L :fun:a.py", {"read /w", "read /w/fun:a.py", "read /w/a.py"}),
        ("git show HEAD:README.md", {"read /w", "read /w/README.md"}),
        ("git show :secrets/key", {"read /w", "read /w/secrets/key"}),
        ("git show --stat", {"read /w"}),
        ("git show HEAD --name-only", {"read /w"}),
        ("git diff --stat", {"read /w"}),
        ("git log --oneline -5", {"read /w"}),
        ("git status -uno", {"read /w"}),
        ("git rev-parse HEAD", {"read /w"}),
        ("git blame src/a.py", {"read /w", "read /w/src/a.py"}),
        ("git cat-file -p HEAD:secrets/key", {"read /w", "read /w/secrets/key"}),
        ("git grep x", {"read /w", "read /w/**"}),
        ("git grep x -- src/", {"read /w", "read /w/src/**"}),
        ("git add src/a.py", {"read /w/src/a.py", "write /w"}),
        ("git restore a.py", {"write /w", "write /w/a.py", "delete /w/a.py"}),
        # Outside of a repository it compares any two.
        ("git diff /dev/null docs", {"read /w", "read /w/docs", "read /w/docs/**", "read /dev/null/**"}),
    ],
)
def test_git_prints_what_is_named(line: str, expected: set[str]) -> None:
    assert {told(one) for one in accesses(line, IN_ROOT)} - {f"git/{line.split()[1]}"} == expected


def test_a_path_of_a_revision_begins_at_the_top_of_the_work_tree() -> None:
    assert {told(one) for one in accesses("git show HEAD:./key", BELOW)} == {
        "git/show",
        "read /w/sub",
        "read /w/sub/key",
    }
    assert {"read /w/key", "opaque"} <= {told(one) for one in accesses("git show HEAD:key", BELOW)}


@pytest.mark.parametrize(
    "line",
    [
        *("git branch src/a.py", "git tag a.md", "git checkout -b a.md", "git switch -c docs/x.py"),
        *("git worktree add ../a.md", "git tag t HEAD:secrets", "git tag t abcdef1", "git tag t HEAD^{tree}"),
        *("git fetch https://h.example/a.git x:refs/tags/a.md", "git fetch --tags https://h.example/a.git"),
    ],
)
def test_a_name_that_would_pass_for_a_file_or_a_commit_is_asked_for(line: str) -> None:
    assert "opaque" in shown(line)


@pytest.mark.parametrize("name", ["archive HEAD", "format-patch -1", "diff-tree -p HEAD", "whatchanged -p"])
def test_what_is_not_described_of_git_and_prints_files_reads_them(name: str) -> None:
    assert {"read /w/**", "opaque"} <= shown(f"git {name}")

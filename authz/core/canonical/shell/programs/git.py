"""`git`: each subcommand by itself, as `Program::"git/clean"` in `Program::"git"`.

Options before the subcommand that run programs or move the repository (`-c`, `--exec-path`, `-p`) make the
command one that is not known; `-C` changes the directory in force. A repository's own configuration and hooks
can run programs as well: rules guard the files that hold them. A folder without `.git` is a (bare) repository
only with a file `HEAD` in it, so guarding that name is enough for those built by hand. One that comes
with a clone or an archive cannot be told from its name: runtimes set `safe.bareRepository`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from authz.core.canonical.shell.builtins import below
from authz.core.canonical.shell.effects import Unreduced
from authz.core.canonical.shell.options import OptionSpec, Parsed, parse_options, spec
from authz.core.canonical.shell.programs.describe import Description
from authz.core.canonical.shell.programs.git_contents import (
    blames,
    diffs,
    greps,
    lists,
    lists_status,
    logs,
    prints_object,
    shows,
    whole_tree,
)
from authz.core.canonical.shell.programs.git_remotes import clones, fetches, pulls, pushes
from authz.core.canonical.shell.programs.git_trees import (
    adds,
    branches,
    changes_files,
    checks_out,
    cleans,
    commits,
    inits,
    moves,
    reflog,
    refuses_operands,
    removes,
    resets,
    restores,
    stashes,
    worktree,
)
from authz.core.canonical.shell.run import Run, known_text
from authz.core.canonical.shell.words import Word
from authz.model.resource import Verb


@dataclass(frozen=True, slots=True, kw_only=True)
class _Subcommand:
    """What one subcommand takes and does."""

    options: OptionSpec
    describe: Callable[[Run, Parsed], None]


def _git(run: Run) -> None:
    arguments = list(run.arguments)
    while arguments and arguments[0].is_option:
        option = known_text(arguments.pop(0))
        if option in ("--version", "--help", "-h", "-v"):
            run.program("git")
            return
        if option == "-C" and arguments and not arguments[0].is_glob:
            run = _moved(run, known_text(arguments.pop(0)))
        elif option not in _GLOBAL:
            _name(run, arguments)
            raise Unreduced("unknown_option")
    if not arguments:
        run.program("git")
        return
    name = known_text(arguments[0])
    found = SUBCOMMANDS.get(name)
    if found is None:
        # An alias of the configuration may stand behind any other name, and run any program.
        run.program(f"git/{name}" if name.replace("-", "").isalnum() else "git", known=False, changes=True)
        if name in _PRINTING:
            whole_tree(run, Verb.READ)
        raise Unreduced("subcommand")
    try:
        parsed = parse_options(arguments[1:], found.options)
    except Unreduced:
        run.program(f"git/{name}", known=False, changes=True)
        raise
    run.program(f"git/{name}")
    try:
        found.describe(run, parsed)
    except Unreduced:
        run.program(f"git/{name}", known=False, changes=True)
        raise


_GLOBAL: Final = ("--no-pager", "--no-optional-locks", "--literal-pathspecs", "-P", "--no-replace-objects")
_PRINTING: Final = frozenset(
    ("archive", "bundle", "diff-files", "diff-index", "diff-tree", "difftool", "fast-export", "format-patch")
    + ("range-diff", "whatchanged")
)
"""Not described, and known to print or to write what files hold."""


def _name(run: Run, arguments: Sequence[Word]) -> None:
    """Name the subcommand behind options that were not understood, so that a rule on it holds."""
    for word in arguments:
        if word.text in SUBCOMMANDS:
            run.program(f"git/{word.text}", known=False, changes=True)


def _moved(run: Run, text: str) -> Run:
    return replace(run, directories=frozenset(below(text, one) for one in run.directories))


def _sub(
    describe: Callable[[Run, Parsed], None],
    flags: str = "",
    values: str = "",
    long: str = "",
    *,
    optional: str = "",
) -> _Subcommand:
    return _Subcommand(options=spec(flags, values, long, optional=optional), describe=describe)


_LOG = (
    "oneline graph all decorate? stat? patch no-patch name-only name-status since= until= after= "
    "before= author= "
    "grep= max-count= format= pretty? abbrev-commit first-parent merges no-merges follow reverse "
    "date= cached staged "
    "color? no-color word-diff? ignore-all-space ignore-space-change shortstat numstat summary check "
    "raw unified= "
    "find-renames? diff-filter= branches? tags? remotes? left-right cherry quiet exit-code minimal "
    "no-ext-diff full-index"
)
SUBCOMMANDS: Final[Mapping[str, _Subcommand]] = {
    "status": _sub(
        lists_status,
        "sbvz",
        "",
        "short branch porcelain? long verbose untracked-files? ignored? column?",
        optional="u",
    ),
    "log": _sub(logs, "pqswbuzi0", "nSGL", _LOG),
    "shortlog": _sub(logs, "nse", "", _LOG),
    "show": _sub(shows, "pqswbuz0", "U", _LOG),
    "diff": _sub(diffs, "pqswbuzRa0", "US", _LOG),
    "blame": _sub(blames, "wefnslt", "LC", "porcelain"),
    "describe": _sub(lists, "", "", "all tags long always dirty? abbrev= match="),
    "rev-parse": _sub(
        lists,
        "q",
        "",
        "abbrev-ref? short? verify show-toplevel is-inside-work-tree git-dir show-prefix show-cdup",
    ),
    "rev-list": _sub(lists, "0", "n", _LOG + " count objects"),
    "ls-files": _sub(
        lists, "cdmosuztvik", "x", "cached deleted modified others stage exclude-standard full-name"
    ),
    "ls-tree": _sub(lists, "rdtlz", "", "name-only name-status long full-name full-tree"),
    "cat-file": _sub(prints_object, "tspe", "", "batch-check"),
    "reflog": _sub(reflog, "0", "n", _LOG),
    "grep": _sub(
        greps,
        "inwvlLhHcEFPp0",
        "eABC",
        "ignore-case line-number count word-regexp cached files-with-matches",
    ),
    "merge-base": _sub(lists, "a", "", "all is-ancestor octopus fork-point"),
    "add": _sub(adds, "AufvnN", "", "all update force verbose dry-run intent-to-add renormalize chmod="),
    "stage": _sub(adds, "Aufvn", "", "all update force verbose dry-run"),
    "commit": _sub(
        commits,
        "aqvsn",
        "mFC",
        "all message= file= amend no-edit allow-empty quiet verbose signoff no-verify "
        "author= date= fixup= squash= dry-run",
    ),
    "stash": _sub(
        stashes,
        "uakqp",
        "m",
        "include-untracked keep-index all message= quiet patch stat name-only name-status",
    ),
    "checkout": _sub(checks_out, "fqt", "bB", "force quiet track? detach ours theirs orphan="),
    "switch": _sub(
        checks_out, "fqtd", "cC", "create= force-create= force quiet track? detach discard-changes"
    ),
    "restore": _sub(restores, "qWS", "s", "source= staged worktree quiet ours theirs"),
    "reset": _sub(resets, "q", "", "soft mixed hard merge keep quiet"),
    "merge": _sub(
        changes_files, "qn", "m", "ff-only no-ff squash abort continue no-commit no-edit message= quiet stat"
    ),
    "cherry-pick": _sub(changes_files, "xn", "", "abort continue skip no-commit"),
    "revert": _sub(changes_files, "n", "", "abort continue no-edit no-commit"),
    "clean": _sub(cleans, "dfnqxX", "e", "force dry-run quiet exclude="),
    "rm": _sub(removes, "rfnq", "", "cached force dry-run quiet ignore-unmatch"),
    "mv": _sub(moves, "fknv", "", "force dry-run verbose"),
    "branch": _sub(
        branches,
        "avrdDmMcCfqi",
        "u",
        "all list? show-current delete move copy force merged? no-merged? contains? "
        "sort= format= verbose set-upstream-to= unset-upstream color? remotes",
    ),
    "tag": _sub(branches, "aldfn0", "m", "list delete force message= sort= points-at= contains? annotate"),
    "remote": _sub(refuses_operands, "v", "", "verbose"),
    "init": _sub(inits, "q", "b", "quiet bare initial-branch="),
    "clone": _sub(
        clones, "qvn", "b", "depth= branch= single-branch no-tags quiet verbose no-checkout bare mirror"
    ),
    "fetch": _sub(
        fetches, "qvptan", "", "all prune tags no-tags depth= quiet verbose dry-run unshallow force"
    ),
    "pull": _sub(
        pulls, "qvr", "", "rebase? ff-only no-rebase quiet verbose no-edit autostash no-ff prune tags"
    ),
    "push": _sub(
        pushes,
        "fqnudv",
        "",
        "force force-with-lease? all mirror tags follow-tags prune delete dry-run "
        "set-upstream quiet verbose no-verify porcelain atomic",
    ),
    "worktree": _sub(worktree, "f", "b", "force"),
}
# Left out on purpose, so not known: `config`, `rebase` (`--exec`), `bisect run`, `submodule foreach`,
# `filter-branch`, `difftool`, `mergetool`, `daemon`, `send-email`, `archive --remote`, `gc`, `am`, `apply`.

PROGRAMS: Final[Mapping[str, Description]] = {"git": _git}

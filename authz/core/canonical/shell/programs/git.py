"""`git`: each subcommand by itself, as `Program::"git/clean"` in `Program::"git"`.

Options before the subcommand that run programs or move the repository (`-c`, `--exec-path`, `-p`) make the
command one that is not known; `-C` and `--git-dir` change the directory in force. A repository's own
configuration and hooks can run programs as well: rules guard the files that hold them.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from authz.core.canonical.repo import canonicalize_repo, pushed_ref
from authz.core.canonical.shell.builtins import below
from authz.core.canonical.shell.effects import Unreduced
from authz.core.canonical.shell.options import OptionSpec, Parsed, parse_options, spec
from authz.core.canonical.shell.programs.describe import Description
from authz.core.canonical.shell.run import Run, known_text
from authz.core.canonical.shell.words import Word
from authz.model.resource import NotCanonical, Verb


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
        if option == "-C" and arguments:
            run = _moved(run, known_text(arguments.pop(0)))
        elif option not in (
            "--no-pager",
            "--no-optional-locks",
            "--literal-pathspecs",
            "-P",
            "--no-replace-objects",
        ):
            _name(run, arguments)
            raise Unreduced("unknown_option")
    if not arguments:
        run.program("git")
        return
    name = known_text(arguments[0])
    found = _SUBCOMMANDS.get(name)
    if found is None:
        # An alias of the configuration may stand behind any other name, and run any program.
        run.program(f"git/{name}" if name.replace("-", "").isalnum() else "git", known=False, changes=True)
        raise Unreduced("subcommand")
    try:
        parsed = parse_options(arguments[1:], found.options)
    except Unreduced:
        run.program(f"git/{name}", known=False, changes=True)
        raise
    run.program(f"git/{name}")
    patterns = any(word.is_glob and (word.text or "")[:1] in "*?[" for word in parsed.operands)
    if patterns and name not in ("add", "stage", "rm"):
        run.opaque("pattern_as_option")
    found.describe(run, parsed)


def _name(run: Run, arguments: Sequence[Word]) -> None:
    """Name the subcommand behind options that were not understood, so that a rule on it holds."""
    for word in arguments:
        if word.text in _SUBCOMMANDS:
            run.program(f"git/{word.text}", known=False, changes=True)


def _moved(run: Run, text: str) -> Run:
    return replace(run, directories=frozenset(below(text, one) for one in run.directories))


def _inspects(run: Run, found: Parsed) -> None:
    """Looks at the repository. Files that are named are read, as they lie there or as they once were."""
    _no_output(found)
    run.here(Verb.READ, tree=False)
    _reads_named(run, found.operands)


def _reads_named(run: Run, operands: Sequence[Word]) -> None:
    """Operands may be revisions or paths; `REVISION:path` is a path, and a pattern is git's own."""
    for word in operands:
        text = known_text(word)
        if text.startswith((":(", ":!", ":^", ":/")):
            raise Unreduced("pathspec")
        text = text.rpartition(":")[2] if ":" in text else text
        if text:
            run.read(Word(text=text, is_glob=any(mark in text for mark in "*?[")), tree=True)


def _refuses_operands(run: Run, found: Parsed) -> None:
    """`git remote`: with operands it changes remotes, or asks them."""
    if found.operands:
        raise Unreduced("subcommand")
    _inspects(run, found)


def _reflog(run: Run, found: Parsed) -> None:
    if any(word.text in ("expire", "delete", "drop", "write") for word in found.operands):
        raise Unreduced("subcommand")
    _inspects(run, found)


def _inits(run: Run, found: Parsed) -> None:
    run.write(*(found.operands or (Word(text="."),)), tree=True)


def _worktree(run: Run, found: Parsed) -> None:
    verb = known_text(found.operands[0]) if found.operands else ""
    if verb not in ("add", "list"):
        raise Unreduced("subcommand")
    run.here(Verb.READ, tree=False)
    if verb == "add":
        run.here(Verb.WRITE, tree=False)
        run.write(*found.operands[1:2], tree=True)


def _no_output(found: Parsed) -> None:
    # `git log`, `diff` and `show` take `--output=FILE` and `--ext-diff`: neither is among their options here.
    if found.has("output", "ext-diff"):
        raise Unreduced("unknown_option")


def _greps(run: Run, found: Parsed) -> None:
    """The first operand is the pattern unless `-e` gave it."""
    run.here(Verb.READ, tree=False)
    _reads_named(run, found.operands if found.has("e") else found.operands[1:])


def _adds(run: Run, found: Parsed) -> None:
    """Takes up what files hold: they are read, and the repository is written."""
    paths = found.operands or (Word(text="."),)
    run.read(*paths, tree=True)
    run.here(Verb.WRITE, tree=False)


def _commits(run: Run, found: Parsed) -> None:
    run.read(*found.values("F", "file"))
    run.read(*found.operands, tree=True)
    run.here(Verb.WRITE, tree=False)


def _changes_files(run: Run, found: Parsed) -> None:
    """Writes and deletes files of the working tree."""
    run.here(Verb.WRITE)
    run.here(Verb.DELETE)
    above = [word for word in found.operands if known_text(word).startswith(("/", "..", ":"))]
    if any(known_text(word).startswith(":") for word in above):
        raise Unreduced("pathspec")
    run.write(*above, tree=True)
    run.delete(*above, tree=True)


def _cleans(run: Run, found: Parsed) -> None:
    if found.has("n", "dry-run"):
        run.here(Verb.READ)
        return
    targets = found.operands or (Word(text="."),)
    run.delete(*targets, tree=True)


def _removes(run: Run, found: Parsed) -> None:
    run.here(Verb.WRITE, tree=False)
    if not found.has("cached", "n", "dry-run"):
        run.delete(*found.operands, tree=True)


def _moves(run: Run, found: Parsed) -> None:
    if len(found.operands) < 2:
        raise Unreduced("operands")
    *sources, target = found.operands
    run.read(*sources, tree=True)
    run.delete(*sources, tree=True)
    run.write(target, tree=True)


def _branches(run: Run, found: Parsed) -> None:
    if found.operands or found.has(
        "d", "D", "m", "M", "c", "C", "delete", "move", "copy", "f", "force", *_UPSTREAM
    ):
        run.here(Verb.WRITE, tree=False)
    run.here(Verb.READ, tree=False)


_UPSTREAM: Final = ("u", "set-upstream-to", "unset-upstream")


def _remote(run: Run, word: Word, verb: Verb, ref: str = "") -> None:
    """An access to a remote. One that only the repository can resolve (`origin`) is opaque."""
    text = known_text(word)
    # The canonical form without a scheme is a folder to git.
    is_remote = "://" in text or ":" in text.partition("/")[0]
    resource = canonicalize_repo(f"{text}#{ref}" if ref else text) if is_remote else _LOCAL
    run.effects.resource(verb, resource if isinstance(resource, NotCanonical) else resource[0], text)


_LOCAL: Final = NotCanonical(code="repo.local", message="the remote is a name", understood=False)


def _clones(run: Run, found: Parsed) -> None:
    if not 1 <= len(found.operands) <= 2:
        raise Unreduced("operands")
    _remote(run, found.operands[0], Verb.READ)
    _remote(run, found.operands[0], Verb.CONNECT)
    name = (
        known_text(found.operands[0]).rstrip("/").rpartition("/")[2].rpartition(":")[2].removesuffix(".git")
    )
    target = found.operands[1] if len(found.operands) == 2 else Word(text=name or ".")
    run.write(target, tree=True)
    if len(found.operands) == 1 and found.has("bare", "mirror"):
        run.write(Word(text=f"{name}.git"), tree=True)


def _fetches(run: Run, found: Parsed) -> None:
    remote = found.operands[0] if found.operands else Word(text="origin")
    _remote(run, remote, Verb.READ)
    _remote(run, remote, Verb.CONNECT)
    run.here(Verb.WRITE, tree=False)


def _pulls(run: Run, found: Parsed) -> None:
    _fetches(run, found)
    _changes_files(run, found)


def _pushes(run: Run, found: Parsed) -> None:
    """`git push`: writes refs of the remote. Which ones, only the repository knows unless they are named."""
    remote = found.operands[0] if found.operands else Word(text="origin")
    refspecs = found.operands[1:]
    run.here(Verb.READ, tree=False)
    forces = found.has("f", "force", "force-with-lease", "mirror", "prune")
    if found.has("all", "mirror", "tags", "follow-tags", "prune") or not refspecs:
        _remote(run, remote, Verb.WRITE)
        run.opaque("which_refs")
    for word in refspecs:
        pushed = pushed_ref(known_text(word))
        if isinstance(pushed, NotCanonical) or pushed.is_tree:
            _remote(run, remote, Verb.WRITE)
            run.opaque("which_refs")
            continue
        forced = forces or pushed.forces
        _remote(run, remote, Verb.WRITE, pushed.ref)
        if pushed.deletes or forced or found.has("d", "delete"):
            _remote(run, remote, Verb.DELETE, pushed.ref)
    if forces:
        run.program("git/push", changes=True)


def _sub(
    describe: Callable[[Run, Parsed], None], flags: str = "", values: str = "", long: str = ""
) -> _Subcommand:
    return _Subcommand(options=spec(flags, values, long), describe=describe)


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
_SUBCOMMANDS: Final[Mapping[str, _Subcommand]] = {
    "status": _sub(
        _inspects, "sbuvz", "", "short branch porcelain? long verbose untracked-files? ignored? column?"
    ),
    "log": _sub(_inspects, "pqswbuzi0", "nSGL", _LOG),
    "shortlog": _sub(_inspects, "nse", "", _LOG),
    "show": _sub(_inspects, "pqswbuz0", "U", _LOG),
    "diff": _sub(_inspects, "pqswbuzRa0", "US", _LOG),
    "blame": _sub(_inspects, "wefnslt", "LC", "porcelain"),
    "describe": _sub(_inspects, "", "", "all tags long always dirty? abbrev= match="),
    "rev-parse": _sub(
        _inspects,
        "q",
        "",
        "abbrev-ref? short? verify show-toplevel is-inside-work-tree git-dir show-prefix show-cdup",
    ),
    "rev-list": _sub(_inspects, "0", "n", _LOG + " count objects"),
    "ls-files": _sub(
        _inspects, "cdmosuztvik", "x", "cached deleted modified others stage exclude-standard full-name"
    ),
    "ls-tree": _sub(_inspects, "rdtlz", "", "name-only name-status long full-name full-tree"),
    "cat-file": _sub(_inspects, "tspe", "", "batch-check"),
    "reflog": _sub(_reflog, "0", "n", _LOG),
    "grep": _sub(
        _greps,
        "inwvlLhHcEFPp0",
        "eABC",
        "ignore-case line-number count word-regexp cached files-with-matches",
    ),
    "merge-base": _sub(_inspects, "a", "", "all is-ancestor octopus fork-point"),
    "add": _sub(_adds, "AufvnN", "", "all update force verbose dry-run intent-to-add renormalize chmod="),
    "stage": _sub(_adds, "Aufvn", "", "all update force verbose dry-run"),
    "commit": _sub(
        _commits,
        "aqvsn",
        "mFC",
        "all message= file= amend no-edit allow-empty quiet verbose signoff no-verify "
        "author= date= fixup= squash= dry-run",
    ),
    "stash": _sub(_changes_files, "uakq", "m", "include-untracked keep-index all message= quiet"),
    "checkout": _sub(_changes_files, "fqt", "bB", "force quiet track? detach ours theirs orphan="),
    "switch": _sub(
        _changes_files, "fqtd", "cC", "create= force-create= force quiet track? detach discard-changes"
    ),
    "restore": _sub(_changes_files, "qWS", "s", "source= staged worktree quiet ours theirs"),
    "reset": _sub(_changes_files, "q", "", "soft mixed hard merge keep quiet"),
    "merge": _sub(
        _changes_files, "qn", "m", "ff-only no-ff squash abort continue no-commit no-edit message= quiet stat"
    ),
    "cherry-pick": _sub(_changes_files, "xn", "", "abort continue skip no-commit"),
    "revert": _sub(_changes_files, "n", "", "abort continue no-edit no-commit"),
    "clean": _sub(_cleans, "dfnqxX", "e", "force dry-run quiet exclude="),
    "rm": _sub(_removes, "rfnq", "", "cached force dry-run quiet ignore-unmatch"),
    "mv": _sub(_moves, "fknv", "", "force dry-run verbose"),
    "branch": _sub(
        _branches,
        "avrdDmMcCfqi",
        "u",
        "all list? show-current delete move copy force merged? no-merged? contains? "
        "sort= format= verbose set-upstream-to= unset-upstream color? remotes",
    ),
    "tag": _sub(_branches, "aldfn0", "m", "list delete force message= sort= points-at= contains? annotate"),
    "remote": _sub(_refuses_operands, "v", "", "verbose"),
    "init": _sub(_inits, "q", "b", "quiet bare initial-branch="),
    "clone": _sub(
        _clones, "qvn", "b", "depth= branch= single-branch no-tags quiet verbose no-checkout bare mirror"
    ),
    "fetch": _sub(
        _fetches, "qvptan", "", "all prune tags no-tags depth= quiet verbose dry-run unshallow force"
    ),
    "pull": _sub(
        _pulls, "qvr", "", "rebase? ff-only no-rebase quiet verbose no-edit autostash no-ff prune tags"
    ),
    "push": _sub(
        _pushes,
        "fqnudv",
        "",
        "force force-with-lease? all mirror tags follow-tags prune delete dry-run "
        "set-upstream quiet verbose no-verify porcelain atomic",
    ),
    "worktree": _sub(_worktree, "f", "b", "force"),
}
# Left out on purpose, so not known: `config`, `rebase` (`--exec`), `bisect run`, `submodule foreach`,
# `filter-branch`, `difftool`, `mergetool`, `daemon`, `send-email`, `archive --remote`, `gc`, `am`, `apply`.

PROGRAMS: Final[Mapping[str, Description]] = {"git": _git}

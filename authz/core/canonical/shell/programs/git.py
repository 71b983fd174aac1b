"""`git`: each subcommand by itself, as `Program::"git/clean"` in `Program::"git"`.

Options before the subcommand that run programs or move the repository (`-c`, `--exec-path`, `-p`) make the
command one that is not known; `-C` changes the directory in force. A repository's own configuration and hooks
can run programs as well: rules guard the files that hold them. A folder without `.git` is a (bare) repository
only with a file `HEAD` in it, so guarding that name is enough for those built by hand. One that comes
with a clone or an archive cannot be told from its name: runtimes set `safe.bareRepository`.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from authz.core.canonical.pattern import is_pattern
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
    globs = [word for word in parsed.operands if word.is_glob and (word.text or "")[:1] in "*?["]
    if globs and name not in ("add", "stage", "rm"):
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
            run.read(_pathspec(text), tree=True)


def _pathspecs(operands: Sequence[Word]) -> list[Word]:
    """Operands that are paths. Magic ones (`:/`, `:!x`) begin at the top, or mean everything else."""
    texts = [known_text(word) for word in operands]
    if any(text.startswith(":") for text in texts):
        raise Unreduced("pathspec")
    return [_pathspec(text) for text in texts]


def _pathspec(text: str) -> Word:
    """A pattern crosses folders, also one that the shell found no match for and handed on as it is."""
    return Word(text=text, is_glob=is_pattern(text))


def _whole_tree(run: Run, *verbs: Verb) -> None:
    """All of the work tree, whose top may lie above: only the declared root is known to be one."""
    for verb in verbs:
        run.here(verb)
    if not run.directories <= {run.root}:
        run.opaque("work_tree")


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
    run.read(*_pathspecs(found.operands), tree=True)
    if not found.operands:
        # `-A` and `-u` alone are about the whole tree, wherever they stand.
        _whole_tree(run, Verb.READ)
    run.here(Verb.WRITE, tree=False)


def _commits(run: Run, found: Parsed) -> None:
    run.read(*found.values("F", "file"))
    run.read(*_pathspecs(found.operands), tree=True)
    if found.has("a", "all"):
        _whole_tree(run, Verb.READ)
    run.here(Verb.WRITE, tree=False)


def _changes_files(run: Run, found: Parsed) -> None:
    """Writes and deletes files all over the working tree: `merge`, `pull`, `revert`."""
    _whole_tree(run, Verb.WRITE, Verb.DELETE)


def _changes_named(run: Run, paths: Sequence[Word]) -> None:
    """Writes and deletes the files that are named, relative to where it runs."""
    words = _pathspecs(paths)
    run.here(Verb.WRITE, tree=False)
    run.write(*words, tree=True)
    run.delete(*words, tree=True)


def _checks_out(run: Run, found: Parsed) -> None:
    """`git checkout`: paths for sure are only those behind `--`; a new branch alone changes no file."""
    texts = [word.text for word in run.arguments]
    paths = run.arguments[texts.index("--") + 1 :] if "--" in texts else ()
    if paths:
        _changes_named(run, paths)
    elif found.has("b", "c", "create") and not found.operands:
        run.here(Verb.WRITE, tree=False)
    else:
        _changes_files(run, found)


def _restores(run: Run, found: Parsed) -> None:
    if not found.operands:
        raise Unreduced("operands")
    _changes_named(run, found.operands)


def _resets(run: Run, found: Parsed) -> None:
    """`git reset`: only these modes touch files, the others the index."""
    if found.has("hard", "merge", "keep"):
        _changes_files(run, found)
    else:
        run.here(Verb.WRITE, tree=False)


def _stashes(run: Run, found: Parsed) -> None:
    if found.operands and found.operands[0].text in ("list", "show"):
        run.here(Verb.READ, tree=False)
    else:
        _changes_files(run, found)


def _cleans(run: Run, found: Parsed) -> None:
    if found.has("n", "dry-run"):
        run.here(Verb.READ)
        return
    targets = _pathspecs(found.operands) or (Word(text="."),)
    run.delete(*targets, tree=True)


def _removes(run: Run, found: Parsed) -> None:
    run.here(Verb.WRITE, tree=False)
    if not found.has("cached", "n", "dry-run"):
        run.delete(*_pathspecs(found.operands), tree=True)


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
    if len(found.operands) == 2:
        run.write(found.operands[1], tree=True)
        return
    name = _folder_of(known_text(found.operands[0]))
    run.write(Word(text=name or "."), tree=True)
    if name and found.has("bare", "mirror"):
        run.write(Word(text=f"{name}.git"), tree=True)


def _folder_of(remote: str) -> str:
    """The folder that a clone makes; empty where git makes a name of something else than the last part."""
    path = remote.partition("://")[2].partition("/")[2] if "://" in remote else remote.partition(":")[2]
    name = path.rstrip("/").rpartition("/")[2].removesuffix(".git")
    return name if re.fullmatch(r"(?!\.)[A-Za-z0-9_.+-]+", name) else ""


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
    "stash": _sub(_stashes, "uakq", "m", "include-untracked keep-index all message= quiet"),
    "checkout": _sub(_checks_out, "fqt", "bB", "force quiet track? detach ours theirs orphan="),
    "switch": _sub(
        _checks_out, "fqtd", "cC", "create= force-create= force quiet track? detach discard-changes"
    ),
    "restore": _sub(_restores, "qWS", "s", "source= staged worktree quiet ours theirs"),
    "reset": _sub(_resets, "q", "", "soft mixed hard merge keep quiet"),
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

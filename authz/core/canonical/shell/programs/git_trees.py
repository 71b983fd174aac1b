"""What the commands of `git` do to the work tree and to the repository that it belongs to."""

import posixpath
from collections.abc import Sequence
from typing import Final

from authz.core.canonical.shell.effects import Unreduced
from authz.core.canonical.shell.options import Parsed
from authz.core.canonical.shell.programs.git_contents import (
    check_named_object,
    check_new_name,
    lists,
    logs,
    touch_named,
    whole_tree,
)
from authz.core.canonical.shell.run import Run, known_text
from authz.core.canonical.shell.words import Word
from authz.model.resource import Verb


def refuses_operands(run: Run, found: Parsed) -> None:
    """`git remote`: with operands it changes remotes, or asks them."""
    if found.operands:
        raise Unreduced("subcommand")
    lists(run, found)


def reflog(run: Run, found: Parsed) -> None:
    """`git reflog`: some of its own commands change it."""
    if any(word.text in ("expire", "delete", "drop", "write") for word in found.operands):
        raise Unreduced("subcommand")
    logs(run, found)


def inits(run: Run, found: Parsed) -> None:
    """`git init`: makes a repository, here or where it is told."""
    run.write(*(found.operands or (Word(text="."),)), tree=True)


def worktree(run: Run, found: Parsed) -> None:
    """`git worktree`: only what lists work trees and what adds one."""
    verb = known_text(found.operands[0]) if found.operands else ""
    if verb not in ("add", "list"):
        raise Unreduced("subcommand")
    run.here(Verb.READ, tree=False)
    if verb == "add":
        # Without `-b` the branch is called as the folder is.
        for word in (*found.values("b", "B"), *found.operands[1:2]):
            check_new_name(posixpath.basename(known_text(word).rstrip("/")))
        run.here(Verb.WRITE, tree=False)
        run.write(*found.operands[1:2], tree=True)


def adds(run: Run, found: Parsed) -> None:
    """Takes up what files hold: they are read, and the repository is written."""
    touch_named(run, found.operands, Verb.READ)
    if not found.operands:
        # `-A` and `-u` alone are about the whole tree, wherever they stand.
        whole_tree(run, Verb.READ)
    run.here(Verb.WRITE, tree=False)


def commits(run: Run, found: Parsed) -> None:
    """`git commit`: takes up files, and the message from one."""
    run.read(*found.values("F", "file"))
    touch_named(run, found.operands, Verb.READ)
    if found.has("a", "all"):
        whole_tree(run, Verb.READ)
    run.here(Verb.WRITE, tree=False)


def changes_files(run: Run, found: Parsed) -> None:
    """Writes and deletes files all over the working tree: `merge`, `pull`, `revert`."""
    whole_tree(run, Verb.WRITE, Verb.DELETE)


def _changes_named(run: Run, paths: Sequence[Word]) -> None:
    """Writes and deletes the files that are named, relative to where it runs."""
    run.here(Verb.WRITE, tree=False)
    touch_named(run, paths, Verb.WRITE, Verb.DELETE)


def checks_out(run: Run, found: Parsed) -> None:
    """`git checkout`: paths for sure are only those behind `--`; a new branch alone changes no file."""
    for word in found.values("b", "B", "c", "C", "create", "force-create", "orphan"):
        check_new_name(known_text(word))
    paths = () if found.ended is None else found.operands[found.ended :]
    if paths:
        _changes_named(run, paths)
    elif found.has("b", "c", "create") and not found.operands:
        run.here(Verb.WRITE, tree=False)
    else:
        changes_files(run, found)


def restores(run: Run, found: Parsed) -> None:
    """`git restore`: puts named files back."""
    if not found.operands:
        raise Unreduced("operands")
    _changes_named(run, found.operands)


def resets(run: Run, found: Parsed) -> None:
    """`git reset`: only these modes touch files, the others the index."""
    if found.has("hard", "merge", "keep"):
        changes_files(run, found)
    else:
        run.here(Verb.WRITE, tree=False)


def stashes(run: Run, found: Parsed) -> None:
    """`git stash`: unless it only looks, it takes changes out of the work tree or puts them back."""
    verb = known_text(found.operands[0]) if found.operands else ""
    if verb not in ("list", "show"):
        if found.has("p", "patch"):
            raise Unreduced("interactive")
        changes_files(run, found)
        return
    run.here(Verb.READ, tree=False)
    if found.has("p", "patch"):
        whole_tree(run, Verb.READ)


def cleans(run: Run, found: Parsed) -> None:
    """`git clean`: deletes what is not tracked, beneath where it runs or what is named."""
    if found.has("n", "dry-run"):
        run.here(Verb.READ)
        return
    touch_named(run, found.operands or (Word(text="."),), Verb.DELETE)


def removes(run: Run, found: Parsed) -> None:
    """`git rm`: out of the index, and mostly out of the work tree."""
    run.here(Verb.WRITE, tree=False)
    if not found.has("cached", "n", "dry-run"):
        touch_named(run, found.operands, Verb.DELETE)


def moves(run: Run, found: Parsed) -> None:
    """`git mv`."""
    if len(found.operands) < 2:
        raise Unreduced("operands")
    *sources, target = found.operands
    known_text(target)  # of names that match, the last is where the others go
    run.read(*sources, tree=True)
    run.delete(*sources, tree=True)
    run.write(target, tree=True)


def branches(run: Run, found: Parsed) -> None:
    """`git branch`, `git tag`: with a name or an option that changes one, the repository is written."""
    if not found.has("d", "D", "delete", "l", "list"):
        names = [known_text(word) for word in found.operands]
        for name in names:
            check_new_name(name)
        for name in names[1:]:
            check_named_object(name)
    if found.operands or found.has(
        "d", "D", "m", "M", "c", "C", "delete", "move", "copy", "f", "force", *_UPSTREAM
    ):
        run.here(Verb.WRITE, tree=False)
    run.here(Verb.READ, tree=False)


_UPSTREAM: Final = ("u", "set-upstream-to", "unset-upstream")

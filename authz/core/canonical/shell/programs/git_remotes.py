"""What the commands of `git` do to other repositories, and bring from there."""

import re
from typing import Final

from authz.core.canonical.repo import canonicalize_repo, pushed_ref
from authz.core.canonical.shell.effects import Unreduced
from authz.core.canonical.shell.options import Parsed
from authz.core.canonical.shell.programs.git_trees import changes_files
from authz.core.canonical.shell.run import Run, known_text
from authz.core.canonical.shell.words import Word
from authz.model.resource import NotCanonical, Verb


def _remote(run: Run, word: Word, verb: Verb, ref: str = "") -> None:
    """An access to a remote. One that only the repository can resolve (`origin`) is opaque."""
    text = known_text(word)
    # The canonical form without a scheme is a folder to git.
    is_remote = "://" in text or ":" in text.partition("/")[0]
    resource = canonicalize_repo(f"{text}#{ref}" if ref else text) if is_remote else _LOCAL
    run.effects.resource(verb, resource if isinstance(resource, NotCanonical) else resource[0], text)


_LOCAL: Final = NotCanonical(code="repo.local", message="the remote is a name", understood=False)


def clones(run: Run, found: Parsed) -> None:
    """`git clone`: brings a repository into a folder, its own name's or the one that is named."""
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


def fetches(run: Run, found: Parsed) -> None:
    """`git fetch`: brings commits into the repository; no file of the work tree changes."""
    remote = found.operands[0] if found.operands else Word(text="origin")
    if found.has("t", "tags") or any(":" in known_text(word) for word in found.operands[1:]):
        run.opaque("which_refs")  # they may be called as files are
    _remote(run, remote, Verb.READ)
    _remote(run, remote, Verb.CONNECT)
    run.here(Verb.WRITE, tree=False)


def pulls(run: Run, found: Parsed) -> None:
    """`git pull`: fetches, and merges into the work tree."""
    fetches(run, found)
    changes_files(run, found)


def pushes(run: Run, found: Parsed) -> None:
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

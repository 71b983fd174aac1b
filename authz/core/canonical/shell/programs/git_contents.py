"""What the commands of `git` print of the files of a repository, and which of them are named.

A revision holds every file that was ever tracked, so what prints a difference, a commit or what it finds may
print any of them: it reads the whole work tree, unless paths say which part of it. What only lists names
(`--stat`, `--name-only`, `status`, `log` alone) reads none.

An operand may be a revision or a path, and only the repository knows which. What stands behind `--` is a
path, and so is what no revision may be called (`./x`, `x/`). What is called as files are is taken for a file
too: git refuses it where there are both, and nobody makes a branch or a tag of such a name unasked. A name
stands for commits, and not for some folder's files in other places, as long as nobody names another object:
that is asked for as well. A number may be the number of anything.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Final

from authz.core.canonical.pattern import is_pattern
from authz.core.canonical.shell.effects import Unreduced
from authz.core.canonical.shell.options import Parsed
from authz.core.canonical.shell.run import Run, known_text, pattern_text
from authz.core.canonical.shell.words import Word
from authz.model.resource import Verb

_HEADS: Final = re.compile(r"(?:@|[A-Z_]*HEAD)(?:[~^]\d*|@\{\d+\})*")
_COMMIT: Final = re.compile(
    r"(?![0-9A-Fa-f]{4,64}(?:[~^@]|\Z))(?!.*-g[0-9a-f]{4,}(?:[~^@]|\Z))"
    r"(?:@|[A-Za-z0-9_][A-Za-z0-9_./+-]*)(?:[~^]\d*|@\{\d+\})*"
)
_OPERATES: Final = re.compile(r"[~^]|@\{|\.\.")
"""What only a revision has in it."""
_FILE_NAME: Final = re.compile(
    r"(?:.*/)?(?:[^/]*[^/.][^/]*\.(?:asc|bash|bat|cc?|cfg|cjs|conf|cpp|cs|css|csv|cxx|ejs|gif|go|gradle|graphql"
    r"|h|hpp|html?|ico|ini|ipynb|java|jpe?g|js|json|jsx|kt|less|lock|lua|md|mjs|mm|php|pl|png|proto|ps1|pyi?|rb"
    r"|rs|rst|sass|scala|scss|sh|sql|svg|swift|tex|toml|tsx?|txt|vue|xml|ya?ml|zsh)"
    r"|README|LICENSE|Makefile|Dockerfile|CHANGELOG|\.gitignore|\.gitattributes|\.editorconfig)"
)
_NO_REVISION: Final = re.compile(r"\.{0,2}/|.*/\Z|\.{1,2}\Z", re.DOTALL)
_STAGE: Final = re.compile(r"[0-3]?")
_MAX_COLONS: Final = 4
_SHOWS_CONTENTS: Final = ("p", "u", "patch", "S", "G", "L", "U", "unified", "word-diff", "check")
_LISTS: Final = (
    *("s", "no-patch", "stat", "name-only", "name-status", "shortstat", "numstat", "summary", "raw", "quiet"),
)


def looks_like_file(text: str) -> bool:
    """Whether it is called as files are, and neither folders nor revisions."""
    return _FILE_NAME.fullmatch(text) is not None


def touch_named(run: Run, operands: Sequence[Word], *verbs: Verb) -> None:
    """Accesses to what paths name: a file, or all that lies in a folder.

    Magic ones (`:/`, `:!x`) begin at the top, or mean everything else.
    """
    for operand in operands:
        text = pattern_text(operand)
        if text.startswith(":"):
            raise Unreduced("pathspec")
        # A pattern crosses folders, also one that the shell found no match for and handed on as it is.
        word = Word(text=text, is_glob=is_pattern(text))
        for verb in verbs:
            touches = {Verb.READ: run.read, Verb.WRITE: run.write, Verb.DELETE: run.delete}[verb]
            touches(word, tree=not looks_like_file(text))


def whole_tree(run: Run, *verbs: Verb) -> None:
    """All of the work tree, whose top may lie above: only the declared root is known to be one."""
    for verb in verbs:
        run.here(verb)
    if not run.directories <= {run.root}:
        run.opaque("work_tree")


def lists(run: Run, found: Parsed) -> None:
    """`git ls-files`: prints names alone."""
    _looks(run, found, prints=False)


def logs(run: Run, found: Parsed) -> None:
    """`git log`: prints contents where it is told to."""
    _looks(run, found, prints=found.has(*_SHOWS_CONTENTS))


def diffs(run: Run, found: Parsed) -> None:
    """`git diff`: prints contents unless it is told to print names alone."""
    _looks(run, found, prints=found.has(*_SHOWS_CONTENTS) or not found.has(*_LISTS))
    if len(found.operands) == 2:
        # Outside of a repository it compares any two folders.
        for text in _revisions(found):
            if ":" not in text and _may_be_path(text):
                run.read(Word(text=text), tree=True)


def shows(run: Run, found: Parsed) -> None:
    """`git show`: like `git diff`, but what is a file it prints whatever it is told of formats."""
    is_file = any(_is_uncertain(text) for text in _revisions(found))
    _looks(run, found, prints=is_file or found.has(*_SHOWS_CONTENTS) or not found.has(*_LISTS))


def lists_status(run: Run, found: Parsed) -> None:
    """`git status`: names alone, but with `-v` what was changed in them."""
    run.here(Verb.READ, tree=False)
    if found.has("v", "verbose"):
        whole_tree(run, Verb.READ)
    touch_named(run, found.operands, Verb.READ)


def blames(run: Run, found: Parsed) -> None:
    """`git blame`: one of its operands is the file, and it prints no other."""
    run.here(Verb.READ, tree=False)
    for word in found.operands:
        run.read(Word(text=known_text(word)))


def prints_object(run: Run, found: Parsed) -> None:
    """`git cat-file`: prints an object, or what it is."""
    if found.has("e", "t", "s", "batch-check"):
        lists(run, found)
        return
    run.here(Verb.READ, tree=False)
    texts = [known_text(word) for word in found.operands]
    for text in texts[-1:]:
        if ":" in text:
            _read_object(run, text)
        elif _is_uncertain(text):
            whole_tree(run, Verb.READ)


def greps(run: Run, found: Parsed) -> None:
    """`git grep`: the first operand is the pattern unless `-e` gave it. It looks beneath where it runs."""
    skipped = 0 if found.has("e") else 1
    for word in found.operands[:skipped]:
        known_text(word)
    ended = None if found.ended is None else max(0, found.ended - skipped)
    rest = Parsed(options=found.options, operands=found.operands[skipped:], ended=ended)
    run.here(Verb.READ, tree=False)
    if not _read_named(run, rest):
        run.here(Verb.READ)
    elif any(_is_uncertain(text) for text in _revisions(rest)):
        whole_tree(run, Verb.READ)


def _looks(run: Run, found: Parsed, *, prints: bool) -> None:
    """Looks at what is named; where contents are printed and no path says whose, at the whole work tree."""
    run.here(Verb.READ, tree=False)
    for word in found.values("L"):
        _read_lines_of(run, known_text(word))
    named = _read_named(run, found) or found.has("L")
    if prints and (not named or any(_is_uncertain(text) for text in _revisions(found))):
        whole_tree(run, Verb.READ)


def _revisions(found: Parsed) -> Iterator[str]:
    """The operands that may be revisions."""
    for word in found.operands[: found.ended]:
        if found.ended is not None or not _is_path(word):
            yield known_text(word)


def _paths(found: Parsed) -> Sequence[Word]:
    """The operands that are paths."""
    if found.ended is not None:
        return found.operands[found.ended :]
    return [word for word in found.operands if _is_path(word)]


def _is_path(word: Word) -> bool:
    """Whether an operand that stands where a revision may is none."""
    text = pattern_text(word)
    if ":" in text:
        return False
    return word.is_glob or is_pattern(text) or _NO_REVISION.match(text) is not None or looks_like_file(text)


def _may_be_path(text: str) -> bool:
    """Whether a revision, by its looks, may be a path all the same."""
    return _OPERATES.search(text) is None and _HEADS.fullmatch(text) is None


def _is_uncertain(text: str) -> bool:
    """Whether the revision may be something else than commits."""
    if ":" in text:
        before = text.partition(":")[0]
        return _STAGE.fullmatch(before) is None and _COMMIT.fullmatch(before) is None
    ends = re.split(r"\.{2,3}", text.removeprefix("^"))
    return any(_COMMIT.fullmatch(end) is None for end in ends if end)


def _read_named(run: Run, found: Parsed) -> bool:
    """Read what operands name; whether that is all that is looked at: paths, or files of revisions alone."""
    revisions, paths = list(_revisions(found)), _paths(found)
    for text in revisions:
        if text.startswith((":(", ":!", ":^", ":/")):
            raise Unreduced("pathspec")
        if ":" in text:
            _read_object(run, text)
        elif _may_be_path(text):
            run.read(Word(text=text))
    touch_named(run, paths, Verb.READ)
    return bool(paths) or (bool(revisions) and all(":" in text for text in revisions))


def _read_object(run: Run, text: str) -> None:
    """`REVISION:path` and `:path`: from the top of the work tree, unless it begins with a dot and a slash."""
    if text.count(":") > _MAX_COLONS:
        raise Unreduced("pathspec")
    if _is_uncertain(text):
        whole_tree(run, Verb.READ)
    while ":" in text:
        text = text.partition(":")[2]
        if text.startswith(("./", "../")) or text in (".", ".."):
            run.read(Word(text=text))
        else:
            _read_from_top(run, text or ".")


def _read_from_top(run: Run, text: str) -> None:
    run.read(Word(text=text))
    if not run.directories <= {run.root}:
        if run.root is not None:
            run.read(Word(text=f"{run.root}/{text}"))
        run.opaque("work_tree")


def _read_lines_of(run: Run, text: str) -> None:
    """`-L 1,5:path`, `-L :function:path`: what stands before the path may have colons as well."""
    if not 0 < text.count(":") <= _MAX_COLONS:
        raise Unreduced("pathspec")
    while ":" in text:
        text = text.partition(":")[2]
        if text:
            run.read(Word(text=text))
            _read_from_top(run, text)


def check_new_name(name: str) -> None:
    """Refuse a branch or a tag that is called as files are: what names the file would mean it."""
    if looks_like_file(name) or is_pattern(name):
        raise Unreduced("name_of_file")


def check_named_object(text: str) -> None:
    """Refuse to give something else than a commit a name: what is printed of it, lies in other places."""
    if ":" in text or _is_uncertain(text):
        raise Unreduced("name_of_object")

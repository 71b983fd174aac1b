"""Whatever bash expands a pattern to, the access reaches: for generated folders, names and patterns.

Bash decides, also under settings that a line does not show.
"""

import os
import shutil
import subprocess
from pathlib import Path
from typing import Final

import pytest
from hypothesis import HealthCheck, assume, event, given, settings
from hypothesis import strategies as st

from authz.core.canonical.pattern import reaches
from authz.core.canonical.shell import analyse_shell
from authz.model.resource import Base, NotCanonical, PathPattern, Scope, Verb
from tests.property.shell_oracle import is_matched

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed"),
]

NAME: Final = st.text("aAbB.-[]!^*? \u00e9", min_size=1, max_size=4).filter(
    lambda name: name not in (".", "..")
)
TREE: Final = st.lists(st.lists(NAME, min_size=1, max_size=3), min_size=1, max_size=8)
PIECE: Final = st.sampled_from(
    [
        *"aAbB*?*?.-",
        "[ab]",
        "[!a]",
        "[^b]",
        "[a-b]",
        "[]a]",
        "[",
        "]",
        "[[:alpha:]]",
        "**",
        "{a,b}",
        '"a"',
        "''",
    ]
    + ["\u00e9", '"]"', "'['", "\\a", "\\*", '"$v"', "$v", "@(a|b)", "!(a)", "*(a)", "~"]
)
PART: Final = st.lists(PIECE, min_size=1, max_size=4).map("".join) | st.sampled_from(["**", "*", ".", ".."])
PATTERN: Final = st.lists(PART, min_size=1, max_size=3).map("/".join)
SETTINGS: Final = st.lists(st.sampled_from(["nocaseglob", "globstar", "extglob", "nullglob"]), unique=True)


def expanded(folder: Path, pattern: str, options: list[str]) -> list[str]:
    """The words that bash makes of the pattern."""
    switched = [word for option in options for word in ("-O", option)]
    bash = shutil.which("bash") or "bash"
    done = subprocess.run(
        [bash, "--norc", "--noprofile", *switched, "-c", f"v=a; printf '%s\\0' {pattern}"],
        cwd=folder,
        env={"PATH": "/nowhere", "LC_ALL": "C.UTF-8", "HOME": str(folder)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=20,
        check=False,
    )
    assume(done.returncode == 0)
    return [os.fsdecode(word) for word in done.stdout.split(b"\0")[:-1] if word]


@settings(
    max_examples=300,
    suppress_health_check=[
        HealthCheck.too_slow,
        HealthCheck.function_scoped_fixture,
        HealthCheck.filter_too_much,
    ],
)
@given(tree=TREE, pattern=PATTERN, options=SETTINGS)
def test_every_name_that_bash_expands_to_is_reached(
    tree: list[list[str]], pattern: str, options: list[str], tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("names")
    for names in tree:
        path = folder.joinpath(*names)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()
        except (FileExistsError, NotADirectoryError):
            continue
    found = analyse_shell(f"v=a; rm -- {pattern}", Base(cwd=str(folder), home=str(folder)))
    assert not isinstance(found, NotCanonical)
    if any(access.resource.kind == "opaque" for access in found):
        event("not understood")
        return
    reached = [access for access in found if access.verb is Verb.DELETE]
    for word in expanded(folder, pattern, options):
        named = os.path.normpath(os.path.join(folder, word))
        assert any(
            _holds(access.pattern, access.scope, access.resource.entity.id, named) for access in reached
        ), (pattern, options, tree, word)
    event("a pattern" if any(access.pattern for access in reached) else "no pattern")


def _holds(pattern: PathPattern | None, scope: Scope, folder: str, path: str) -> bool:
    if pattern is None:
        return path == folder or (scope is Scope.TREE and Path(path).is_relative_to(folder))
    if not is_matched(pattern, folder, path):
        return False
    # What it matches, it also reaches: in the words of the judge.
    assert reaches(pattern, path[len(folder) + 1 :].split("/"))
    return True

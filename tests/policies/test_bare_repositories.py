"""What makes git take a folder for a repository, whose settings it then obeys: never without a file `HEAD`.

So a rule that guards the writing of `HEAD` guards against repositories that somebody builds by hand.
"""

import shutil
import subprocess
from itertools import combinations
from pathlib import Path

import pytest

from authz.core.decide import decide
from authz.model.decision import Effect
from tests.policies.deciding import facts_for, sample_ruleset
from tests.support.world import call

PARTS = ("HEAD", "objects", "refs", "config", "hooks", "commondir")


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
def test_a_folder_without_head_is_no_repository(tmp_path: Path) -> None:
    taken = []
    for count in range(len(PARTS) + 1):
        for parts in combinations(PARTS, count):
            folder = tmp_path / ("-".join(parts) or "nothing")
            folder.mkdir()
            for part in parts:
                _make(folder / part)
            asked = subprocess.run(
                ["git", "rev-parse", "--git-dir"],
                cwd=folder,
                env={"PATH": "/usr/bin:/bin", "GIT_CEILING_DIRECTORIES": str(tmp_path)},
                capture_output=True,
                check=False,
            )
            if asked.returncode == 0:
                taken.append(parts)
    assert taken, "with all of them it is one"
    assert all("HEAD" in parts for parts in taken)


def _make(path: Path) -> None:
    if path.name in ("objects", "refs", "hooks"):
        path.mkdir()
    else:
        text = {"HEAD": "ref: refs/heads/main\n", "commondir": ".\n"}.get(
            path.name, "[core]\n\tbare = true\n"
        )
        path.write_text(text)


@pytest.mark.parametrize(
    ("line", "rules"),
    [
        ("touch src/HEAD", {"git-internals-ask"}),
        ("touch src/head", {"git-internals-ask"}),
        ("cp a src/HEAD", {"git-internals-ask"}),
        ("echo x > HEAD", {"git-internals-ask"}),
        ("touch src/H*", {"authz:tree"}),
        ("ln -s a HEAD", {"authz:tree", "git-internals-ask"}),
        ("mv -n a src/HEAD", {"authz:tree", "git-internals-ask"}),
    ],
)
def test_the_sample_asks_for_every_way_to_write_it(line: str, rules: set[str]) -> None:
    facts = facts_for(sample_ruleset(), "runtime")
    decided = decide(call("shell/run", command=line), facts).decision
    assert decided.effect is Effect.REQUIRE_APPROVAL
    assert {rule.rule for rule in decided.matched} == rules

"""What a load leaves to the one after it: by content, and only what had no fault."""

import pytest

from authz.bundle.files import KnownFiles, Tried
from authz.bundle.load import BundleSources, compile_tried_bundle
from authz.bundle.self_protection import Protected
from authz.core.policy import ValidationCache
from authz.core.ruleset import Ruleset, Tool
from authz.errors import BundleError
from tests.support.world import CREDENTIALS, PERMIT_ALL, bundle_files

READ_FILE = ("fs", "file_read")


def load(files: dict[str, bytes], known: KnownFiles | None = None) -> tuple[Ruleset, KnownFiles]:
    tried = Tried(passed=ValidationCache(), known=known or KnownFiles())
    return compile_tried_bundle(BundleSources(files=files), Protected(), tried), tried.read


def file_read(ruleset: Ruleset) -> Tool:
    return ruleset.tools[READ_FILE]


def changed(files: dict[str, bytes], name: str, old: str, new: str) -> dict[str, bytes]:
    text = files[name].decode()
    assert old in text
    return files | {name: text.replace(old, new, 1).encode()}


def test_tools_of_files_that_have_not_changed_are_not_compiled_again() -> None:
    files = bundle_files(rules=PERMIT_ALL)
    before, known = load(files)
    other_rules = bundle_files(rules='@id("none") forbid (principal, action, resource);')
    after, known_then = load(other_rules, known)
    assert file_read(after) is file_read(before)
    # Nothing is forgotten on the way to a third.
    assert file_read(load(files, known_then)[0]) is file_read(before)


def test_tools_of_a_file_that_has_changed_are_its_own() -> None:
    files = bundle_files(rules=PERMIT_ALL)
    before, known = load(files)
    (name,) = [name for name in files if name.startswith("tools/") and b"file_read" in files[name]]
    described = file_read(before).descriptor.description
    after, _ = load(changed(files, name, described or "file_read", "Something else."), known)
    assert file_read(after).descriptor.description == "Something else."


def test_tools_are_compiled_again_where_other_profiles_are_declared() -> None:
    """Whether a server's profiles are declared is asked when it is compiled."""
    files = bundle_files(rules=PERMIT_ALL)
    before, known = load(files)
    more = bundle_files(rules=PERMIT_ALL, credentials=CREDENTIALS + "  other:\n    agents: [coder-1]\n")
    after, _ = load(more, known)
    assert file_read(after) is not file_read(before)
    assert set(after.profiles) == {"runtime", "other"}


def test_what_has_left_the_bundle_is_forgotten() -> None:
    files = bundle_files(rules=PERMIT_ALL)
    _, known = load(files)
    _, known_then = load(changed(files, "bundle.yaml", "name: test", "name: other"), known)
    names = [name for name, _ in known_then.parsed]
    assert len(names) == len(set(names)) == len(known.parsed)
    assert known_then.parsed.keys() != known.parsed.keys()


def test_a_file_with_a_fault_is_not_remembered() -> None:
    files = changed(bundle_files(rules=PERMIT_ALL), "bundle.yaml", "name:", "nmae:")
    tried = Tried(passed=ValidationCache())
    for _ in range(2):
        with pytest.raises(BundleError, match="unknown key"):
            compile_tried_bundle(BundleSources(files=files), Protected(), tried)
        assert "bundle.yaml" not in [name for name, _ in tried.read.parsed]

"""What a decision is bound to: the object that was asked about, its one name, and for a folder the tree."""

import asyncio
import json
import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from authz_client import Asked, AsyncClient, ClaimedPath, Client, Decision
from authz_client.files import (
    NotCovered,
    PathRefused,
    create_directory_decided,
    delete_decided,
    list_decided,
    move_decided,
    open_decided,
)
from authz_client.paths import ResolvedPath, resolve

from tests.clients.python.deciding import asked_about, body_of, clock, decision, of_path
from tests.clients.python.webs import Answer, Request, serving

SECRET = b"nobody may see or change this"


@pytest.fixture
def work(tmp_path: Path) -> Path:
    (tmp_path / "folder" / "deep").mkdir(parents=True)
    (tmp_path / "folder" / "deep" / "secret").write_bytes(SECRET)
    (tmp_path / "file").write_bytes(b"decided")
    (tmp_path / "secret").write_bytes(SECRET)
    return tmp_path


def at(work: Path, path: str) -> ResolvedPath:
    return resolve(path, cwd=str(work), follow_last=False)


def allow(verb: str, found: ResolvedPath, *, asked: Asked | None) -> Decision:
    return decision(of_path(verb, found.path), asked=asked)


# The object.

Use = Callable[[Decision, ResolvedPath], object]
USES: dict[str, tuple[str, str, Use]] = {
    "read": ("file", "read", lambda given, found: open_decided(given, found, "read", clock=clock).close()),
    "write": ("file", "write", lambda given, found: open_decided(given, found, "write", clock=clock).close()),
    "create": (
        "new",
        "write",
        lambda given, found: open_decided(given, found, "create", clock=clock).close(),
    ),
    "list": ("folder", "read", lambda given, found: list_decided(given, found, clock=clock)),
    "make": ("new", "write", lambda given, found: create_directory_decided(given, found, clock=clock)),
    "delete": ("file", "delete", lambda given, found: delete_decided(given, found, clock=clock)),
}


@pytest.mark.parametrize("use", USES)
def test_every_use_is_bound_to_the_claim_that_was_sent(work: Path, use: str) -> None:
    path, verb, run = USES[use]
    found = at(work, path)
    before = sorted(work.rglob("*"))
    for asked in (
        None,
        Asked.now({}),
        asked_about(),
        asked_about(at(work, "secret")),
        Asked(
            claims=frozenset({ClaimedPath(path=found.path, device=found.device, inode=found.inode + 1)}),
            at_ns=asked_about().at_ns,
        ),
    ):
        with pytest.raises(NotCovered, match="no claim"):
            run(allow(verb, found, asked=asked), found)
    assert sorted(work.rglob("*")) == before
    assert (work / "file").read_bytes() == b"decided"
    run(allow(verb, found, asked=asked_about(found)), found)


@pytest.mark.parametrize("use", USES)
def test_what_is_found_after_it_was_asked_about_is_another_object(work: Path, use: str) -> None:
    """It may make the same claim: ext4 gives the number of a removed file to the next one."""
    path, verb, run = USES[use]
    first = at(work, path)
    given = allow(verb, first, asked=asked_about(first))
    again = at(work, path)
    assert again.claim() == first.claim()
    with pytest.raises(NotCovered, match="after it was asked"):
        run(given, again)
    run(given, first)


def test_another_object_under_an_old_decision(work: Path) -> None:
    first = at(work, "file")
    given = allow("read", first, asked=asked_about(first))
    (work / "secret").replace(work / "file")
    with pytest.raises(NotCovered):
        open_decided(given, at(work, "file"), "read", clock=clock)


def test_both_ends_of_a_move_are_bound(work: Path) -> None:
    source, target = at(work, "file"), at(work, "new")
    accesses = (of_path("delete", source.path), of_path("write", target.path))
    for claimed in ([source], [target], []):
        with pytest.raises(NotCovered, match="no claim"):
            move_decided(decision(*accesses, asked=asked_about(*claimed)), source, target, clock=clock)
    move_decided(decision(*accesses, asked=asked_about(source, target)), source, target, clock=clock)
    assert (work / "new").read_bytes() == b"decided"


def decided_by_client(url: str, request: dict[str, object]) -> Decision:
    with Client(url, api_key="key", clock=clock) as client:
        return client.decide(request)


def decided_by_async_client(url: str, request: dict[str, object]) -> Decision:
    async def run() -> Decision:
        async with AsyncClient(url, api_key="key", clock=clock) as client:
            return await client.decide(request)

    return asyncio.run(run())


@pytest.mark.parametrize("decide", [decided_by_client, decided_by_async_client])
def test_a_decision_of_a_client_says_what_it_answers(
    work: Path, decide: Callable[[str, dict[str, object]], Decision]
) -> None:
    found, other = at(work, "file"), at(work, "secret")
    resolved = {"/path": found.claim()}
    answered: list[int] = []

    def answer(request: Request) -> Answer:
        answered.append(time.monotonic_ns())
        # What the caller makes of its dict meanwhile was not asked about.
        resolved["/path"] = other.claim()
        accesses = [of_path("read", path.path) for path in (found, other)]
        return 200, {"Content-Type": "application/json"}, json.dumps(body_of(*accesses)).encode()

    with serving(answer) as web:
        given = decide(f"http://127.0.0.1:{web.port}", {"context": {"resolved": resolved}})
    assert given.asked is not None
    assert given.asked.claims == {
        ClaimedPath(path=found.path, device=found.device, inode=found.inode),
    }
    assert found.found_ns <= given.asked.at_ns <= answered[0]
    with open_decided(given, found, "read", clock=clock) as file:
        assert file.read() == b"decided"
    with pytest.raises(NotCovered, match="no claim"):
        open_decided(given, other, "read", clock=clock)
    with pytest.raises(NotCovered, match="after it was asked"):
        open_decided(given, at(work, "file"), "read", clock=clock)


@pytest.mark.parametrize(
    "request_",
    [
        {},
        {"context": None},
        {"context": {"resolved": ["x"]}},
        {"context": {"resolved": {"/path": "x"}}},
        {"context": {"resolved": {"/path": {"path": "/x", "device": 1}}}},
        {"context": {"resolved": {"/path": {"path": "/x", "device": 1, "inode": True}}}},
        {"context": {"resolved": {"/path": {"path": 1, "device": 1, "inode": 1}}}},
    ],
)
def test_what_is_no_claim_is_none(request_: dict[str, object]) -> None:
    assert Asked.now(request_).claims == frozenset()


# Its one name.


@pytest.mark.parametrize("mode", ["read", "write", "update", "append"])
@pytest.mark.parametrize("when", ["before it was resolved", "after it was resolved", "and its name is gone"])
def test_a_second_name_of_a_file_is_refused(work: Path, mode: str, when: str) -> None:
    os.link(work / "secret", work / "link")
    if when == "after it was resolved":
        (work / "secret").unlink()
    found = at(work, "link")
    if when == "after it was resolved":
        os.link(work / "link", work / "secret")
    if when == "and its name is gone":
        (work / "secret").unlink()
    given = allow("read" if mode == "read" else "write", found, asked=asked_about(found))
    with pytest.raises(PathRefused) as caught:
        open_decided(given, found, mode, clock=clock)  # type: ignore[arg-type]
    assert caught.value.code == "path.hard_links"
    assert (work / "link").read_bytes() == SECRET
    open_decided(given, found, mode, allow_hard_links=True, clock=clock).close()  # type: ignore[arg-type]


def test_a_second_name_is_not_moved_to_where_it_can_be_seen(work: Path) -> None:
    os.link(work / "secret", work / "link")
    source, target = at(work, "link"), at(work, "new")
    given = decision(
        of_path("delete", source.path), of_path("write", target.path), asked=asked_about(source, target)
    )
    with pytest.raises(PathRefused) as caught:
        move_decided(given, source, target, clock=clock)
    assert caught.value.code == "path.hard_links"
    assert not (work / "new").exists()
    move_decided(given, source, target, allow_hard_links=True, clock=clock)
    assert (work / "new").read_bytes() == SECRET


def test_deleting_takes_a_name_and_no_file_from_another(work: Path) -> None:
    os.link(work / "secret", work / "link")
    found = at(work, "link")
    delete_decided(allow("delete", found, asked=asked_about(found)), found, clock=clock)
    assert not (work / "link").exists()
    assert (work / "secret").read_bytes() == SECRET


# The tree.


def moving(work: Path, *accesses: tuple[str, str, str]) -> None:
    source, target = at(work, "folder"), at(work, "moved")
    given = decision(
        *(of_path(verb, str(work / path), scope=scope) for verb, path, scope in accesses),
        asked=asked_about(source, target),
    )
    move_decided(given, source, target, clock=clock)


WHOLE = (("read", "folder", "tree"), ("delete", "folder", "tree"), ("write", "moved", "tree"))


@pytest.mark.parametrize("short", range(3))
@pytest.mark.parametrize("how", ["object", "missing", "below"])
def test_a_folder_goes_with_all_that_it_holds(work: Path, short: int, how: str) -> None:
    accesses = list(WHOLE)
    verb, path, _ = accesses.pop(short)
    if how == "object":
        accesses.append((verb, path, "object"))
    elif how == "below":
        accesses.append((verb, f"{path}/deep", "tree"))
    with pytest.raises(NotCovered, match=f"no access `{verb}` with scope `tree`"):
        moving(work, *accesses)
    assert (work / "folder" / "deep" / "secret").exists()
    assert not (work / "moved").exists()


def test_a_tree_is_moved(work: Path) -> None:
    moving(work, *WHOLE)
    assert (work / "moved" / "deep" / "secret").read_bytes() == SECRET


@pytest.mark.parametrize("name", ["folder/deep/secret", "folder"])
def test_what_a_pattern_matches_is_no_object_to_open(work: Path, name: str) -> None:
    """A shell finds out what it is; a tree that is decided only for that holds nothing for sure."""
    found, asked = at(work, name), asked_about(at(work, name))
    tree = of_path("delete", at(work, "folder").path, scope="tree")
    for more in ({"pattern": "*.md"}, {"pattern": "*/**"}):
        given = decision({**tree, **more}, asked=asked)
        with pytest.raises(NotCovered):
            delete_decided(given, found, clock=clock)
    assert (work / name).exists()

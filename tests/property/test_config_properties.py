"""What holds of everything that is configured: refused whole, empty is nothing, narrowed only, written whole.

Also held elsewhere: the old set stays in force (CF1, `tests/unit/service/test_reload_property.py`); what
decides is out of reach (CF3, `test_out_of_reach.py`); what a requester says of itself lowers nothing (CF4,
`tests/unit/core/test_decide.py` and `test_provenance.py`).
"""

import copy
import json
import os
import re
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier, Thread
from typing import Any, Final

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from authz.bundle.import_run import Import, ImportedFile
from authz.bundle.kept_entries import write_atomically
from authz.bundle.load import BundleSources, compile_bundle
from authz.bundle.mcp_catalogue import Catalogue
from authz.bundle.self_protection import Protected
from authz.core.claims import check_claims, check_subject
from authz.errors import AuthzError, BundleError
from authz.model.decision import Code, strictest
from tests.property.test_engine_properties import SHOWN, Rule, rules
from tests.support.bundles import write_bundle
from tests.support.world import BANK, FS, bundle_files, call, caller_of, decide_in, tool_file, world

Path_ = tuple[str | int, ...]
FILES: Final = bundle_files(
    tools={"fs": FS, "bank": BANK},
    entities="groups: {staff: {}, finance: {groups: [staff]}}\n"
    "users: {ada: {groups: [staff], tags: {team: red}}}\nagents: {coder-1: {groups: [finance]}}\n",
    limits="limits:\n  - {id: reads, reason: Enough., calls: 3, seconds: 60, per: [agent], "
    "where: {tools: [fs/file_read], resources: ['file:///workspace']}}\n",
)


def nodes(value: Any, path: Path_ = ()) -> Iterator[tuple[Path_, Any]]:
    """Every value within a document, with its place."""
    yield path, value
    members: Any = (
        value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    )
    for key, member in members:
        yield from nodes(member, (*path, key))


def in_schema(path: Path_) -> bool:
    """Within the JSON Schema of a tool, whose words are not the bundle's."""
    return "input_schema" in path


DOCUMENTS: Final = {name: yaml.safe_load(data) for name, data in FILES.items() if name.endswith(".yaml")}
EVERYWHERE: Final = [
    (name, path, value) for name, document in DOCUMENTS.items() for path, value in nodes(document)
]
OURS: Final = [place for place in EVERYWHERE if not in_schema(place[1])]
MAPPINGS: Final = [place for place in OURS if isinstance(place[2], dict)]
FILLED: Final = [place for place in EVERYWHERE if isinstance(place[2], dict) and place[2]]
SCHEMAS: Final = [
    place
    for place in EVERYWHERE
    if isinstance(place[2], dict) and in_schema(place[1]) and place[1][-1] != "properties"
]


def with_value(name: str, path: Path_, new: Any) -> dict[str, bytes]:
    """The bundle with another value in one place of one file."""
    document = copy.deepcopy({"": DOCUMENTS[name]})
    at: Any = document
    keys: Path_ = ("", *path)
    for key in keys[:-1]:
        at = at[key]
    at[keys[-1]] = new
    return FILES | {name: json.dumps(document[""]).encode()}


def refusal(files: dict[str, bytes]) -> BundleError | None:
    """Why the bundle does not load, or `None` when it does."""
    try:
        compile_bundle(BundleSources(files=files), Protected())
    except BundleError as error:
        return error
    return None


def test_the_bundle_that_is_changed_below_is_fine() -> None:
    for name, document in DOCUMENTS.items():
        assert refusal(FILES | {name: json.dumps(document).encode()}) is None, name
    assert len(EVERYWHERE) > 150


@settings(max_examples=60)
@given(st.sampled_from(MAPPINGS), st.sampled_from(["zz", "rules", "bash", "allow"]))
def test_cf1_an_unknown_key_is_an_error_wherever_it_stands(place: tuple[str, Path_, Any], key: str) -> None:
    name, path, value = place
    error = refusal(with_value(name, path, {**value, key: 7}))
    assert error is not None, place
    assert {problem.file for problem in error.problems} >= {name}


@settings(max_examples=60)
@given(st.sampled_from(OURS), st.sampled_from([{"zz": [7]}, [{"zz": 7}], 7.5, True, ["\0"]]))
def test_cf1_a_value_of_another_type_is_an_error_wherever_it_stands(
    place: tuple[str, Path_, Any], new: Any
) -> None:
    name, path, value = place
    if not isinstance(new, type(value)):
        assert refusal(with_value(name, path, new)) is not None, place


def doubled(value: Any, path: Path_) -> str:
    """The document as JSON, with the first member of the mapping at `path` written twice."""
    if isinstance(value, list):
        return "[" + ", ".join(doubled(item, _under(path, index)) for index, item in enumerate(value)) + "]"
    if not isinstance(value, dict):
        return json.dumps(value)
    members = [f"{json.dumps(key)}: {doubled(member, _under(path, key))}" for key, member in value.items()]
    return "{" + ", ".join(members[:1] + members if path == () else members) + "}"


def _under(path: Path_, key: str | int) -> Path_:
    """The rest of the path below this key; a path that leads elsewhere stays one that leads nowhere."""
    return path[1:] if path and path[0] == key else ("elsewhere",) if path != ("elsewhere",) else path


@settings(max_examples=60)
@given(st.sampled_from(FILLED))
def test_cf1_a_key_that_stands_twice_is_an_error_wherever_it_stands(place: tuple[str, Path_, Any]) -> None:
    """Also with the same value: whoever reads the first and whoever reads the last must read the same."""
    name, path, _ = place
    error = refusal(FILES | {name: doubled(DOCUMENTS[name], path).encode()})
    assert error is not None, place
    assert all(problem.file == name for problem in error.problems)
    assert any(re.search("twice|duplicate", problem.message) for problem in error.problems)


@pytest.mark.parametrize("keyword", ["maxLenght", "patern", "minimun", "addtionalProperties"])
def test_cf1_a_misspelt_constraint_of_an_argument_is_an_error(keyword: str) -> None:
    for name, path, value in SCHEMAS:
        error = refusal(with_value(name, path, {**value, keyword: 7}))
        assert error is not None, (path, keyword)
        assert {(problem.file, problem.code) for problem in error.problems} == {
            (name, "tool.unknown-keyword")
        }


def test_cf1_a_key_without_a_value_is_an_error() -> None:
    kept = [
        place
        for place in OURS
        if place[2] is not None and place[1] and refusal(with_value(place[0], place[1], None)) is None
    ]
    assert kept == []


NAMES: Final = st.sampled_from(["coder-1", "coder-2", "Coder-1", "coder-1 ", "", "*x"])
LISTS: Final = st.none() | st.lists(st.sampled_from(["coder-1", "coder-2", "*"]), max_size=2, unique=True)


def listed(members: list[str] | None, name: str) -> bool:
    """What a list of names allows: absent and empty are nobody."""
    return members is not None and ("*" in members or name in members)


@settings(max_examples=60)
@given(agents=LISTS, users=LISTS, agent=NAMES, user=st.none() | NAMES)
def test_cf2_a_list_allows_what_it_lists_and_an_empty_one_nothing(
    agents: list[str] | None, users: list[str] | None, agent: str, user: str | None
) -> None:
    stated = {"agents": agents, "users": users, "sandboxes": [], "sources": []}
    profile = {key: value for key, value in stated.items() if value is not None}
    try:
        ruleset = world(credentials=json.dumps({"profiles": {"runtime": profile}}))
    except BundleError:
        # A list that is required is not simply left out.
        assert agents is None
        return
    found = ruleset.profiles["runtime"]
    refused = check_subject(call("fs/file_read", agent=agent, user=user), found)
    assert (refused is None) == (listed(agents, agent) and (user is None or listed(users, user)))
    believed = check_claims(call("fs/file_read").claims, found)
    assert (believed.sandbox_root, believed.base.cwd) == (None, None)
    assert not found.sources


@given(profiles=st.lists(st.sampled_from(["runtime", "other"]), max_size=2, unique=True))
def test_cf2_a_server_is_for_the_profiles_that_it_lists(profiles: list[str]) -> None:
    bound = tool_file("fs", *json.loads(FS)["tools"], profiles=profiles)
    credentials = (
        "profiles:\n  runtime: {agents: ['*'], users: ['*']}\n  other: {agents: ['*'], users: ['*']}\n"
    )
    ruleset = world(tools=bound, credentials=credentials)
    for profile in ("runtime", "other"):
        made = call("fs/file_read", path="/workspace/a", digest=None)
        decision = decide_in(ruleset, made, caller=caller_of(ruleset, profile)).decision
        assert (decision.code is Code.TOOL_UNKNOWN) == (profile not in profiles)


@settings(max_examples=40)
@given(rules(), rules(), st.sampled_from(["/workspace/x", "/workspace/a/b", "/etc/x"]))
def test_cf4_what_can_only_forbid_and_ask_only_narrows(
    trusted: list[Rule], more: list[Rule], path: str
) -> None:
    """A file that may not permit, whoever wrote it, loosens nothing, whatever the rules beside it are."""
    narrowing = "".join(
        f"{rule.text}".replace('@id("r', '@id("x') for rule in more if rule.kind != "permit" and not rule.errs
    )
    base = {"trusted": "".join(rule.text for rule in trusted), "shown": SHOWN}
    made = call("fs/file_edit", path=path, text="x")
    before = decide_in(world(base), made).decision.effect
    both = {**base, "less-trusted": narrowing} if narrowing else base
    after = decide_in(world(both), made).decision.effect
    assert strictest([before, after]) is after


ENTRY: Final = {"description": "Does it.", "inputSchema": {"type": "object", "properties": {}}}
WANTED: Final = Import(alias="notes", identity="notes-server", command=("notes-server",))


def catalogue(*names: str) -> Catalogue:
    return Catalogue(
        entries=tuple({"name": name, **ENTRY} for name in names), server_name="notes", protocol="2025-11-25"
    )


@settings(max_examples=25)
@given(st.data())
def test_cf5_a_file_that_is_damaged_anywhere_is_merged_whole_or_left_as_it_is(data: st.DataObject) -> None:
    """An import adds to what it can read; of what it cannot read it changes no byte."""
    with tempfile.TemporaryDirectory() as name:
        path = write_bundle(Path(name), tools={"fs": FS}) / "tools" / "notes.yaml"
        ImportedFile.read(path, WANTED).bring_in(catalogue("ping"))
        good = path.read_bytes()
        start = data.draw(st.integers(0, len(good)))
        end = data.draw(st.integers(start, min(len(good), start + 12)))
        damage = data.draw(
            st.sampled_from([b"", b"\n", b"[", b"}", b"tools: []\n", b"\xff", b": ", b"x", b"  "])
        )
        before = good[:start] + damage + good[end:]
        path.write_bytes(before)
        try:
            outcome = ImportedFile.read(path, WANTED).bring_in(catalogue("ping", "new"))
        except AuthzError:
            assert path.read_bytes() == before
        else:
            assert outcome.written == (path.read_bytes() != before)
            assert before.rstrip() in path.read_bytes() or b"new" in before
        assert [left.name for left in path.parent.iterdir() if left.suffix == ".tmp"] == []


WRITERS: Final = 6


def race(path: Path, rounds: int) -> Iterator[tuple[list[str], set[bytes]]]:
    """(texts whose writers were told that they wrote, everything that was read meanwhile) of each round."""
    texts = [f"# {number}\n" * 2000 for number in range(WRITERS)]
    with ThreadPoolExecutor(WRITERS) as pool:
        for number in range(rounds):
            before = f"round {number}\n".encode()
            path.write_bytes(before)
            start = Barrier(WRITERS + 1)

            def write(text: str, expected: bytes = before, start: Barrier = start) -> bool:
                start.wait()
                return write_atomically(path, text, expected=expected)

            writing = [pool.submit(write, text) for text in texts]
            start.wait()
            seen = {path.read_bytes() for _ in range(10)}
            wrote = [text for text, one in zip(texts, writing, strict=True) if one.result()]
            assert path.read_text() in wrote
            yield wrote, seen - {before, *(text.encode() for text in texts)}


def test_cf5_nobody_ever_reads_a_part_of_a_file(tmp_path: Path) -> None:
    for _, torn in race(tmp_path / "notes.yaml", 30):
        assert not torn
    assert [left.name for left in tmp_path.iterdir()] == ["notes.yaml"]


@pytest.mark.slow
def test_cf5_of_six_writers_at_once_one_writes_in_every_round(tmp_path: Path) -> None:
    counts = [len(wrote) for wrote, _ in race(tmp_path / "notes.yaml", 600)]
    assert counts == [1] * 600


def test_cf5_of_writers_at_once_who_read_the_same_one_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other is told, so that what it would have taken away is not lost."""
    path, replace = tmp_path / "notes.yaml", os.replace
    path.write_bytes(b"before")
    others: list[Thread] = []
    wrote: list[str] = []

    def write(text: str) -> None:
        if write_atomically(path, text, expected=b"before"):
            wrote.append(text)

    def interrupted(source: str, target: Path) -> None:
        if not others:
            # The second writer does all that it can before the first replaces the file.
            others.append(Thread(target=write, args=("second",)))
            others[0].start()
            others[0].join(timeout=2)
        replace(source, target)

    monkeypatch.setattr(os, "replace", interrupted)
    write("first")
    others[0].join()
    assert len(wrote) == 1
    assert path.read_text() == wrote[0]

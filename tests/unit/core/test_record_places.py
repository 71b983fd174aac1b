"""A record says itself what in it is a digest, so that a value in the clear may look like anything."""

import json
from collections.abc import Mapping
from typing import Any, Final

from hypothesis import example, given
from hypothesis import strategies as st

from authz.bundle.case_text import dump_case
from authz.bundle.cases import parse_cases
from authz.core.cases.from_record import case_of_record, request_of_record
from authz.core.decide import decide
from authz.core.pointer import Tokens, find, format_pointer, leaves, parse_pointer, replace_leaf
from authz.core.record_places import MAX_LENGTH, redaction_members
from authz.core.redact import Redactor
from authz.model.call import ProvenanceClaim
from tests.support.world import PERMIT_ALL, TEXT, call, facts, record_of, source, tool, tool_file, world

ANYTHING: Final[dict[str, Any]] = {}
WORLD: Final = world(
    PERMIT_ALL,
    tools=tool_file(
        "x",
        tool(
            "note",
            [{"verb": "read", "kind": "path", "at": "/path"}],
            {
                "path": TEXT,
                "shown": ANYTHING,
                "hidden": ANYTHING,
                "level": {"type": "integer", "default": 1},
                "items": {
                    "type": "array",
                    "items": {
                        "type": "object",
                        "properties": {"at": TEXT, "mode": {"type": "string", "default": "r"}},
                    },
                },
            },
            required=["path"],
            roles={"/hidden": "payload"},
        ),
    ),
)
DIGEST: Final = "hmac-sha256:" + "0" * 32
LOOKALIKES: Final = st.sampled_from(
    [
        DIGEST,
        f"redacted:{DIGEST}",
        f"https://example.com/?a={DIGEST}",
        "<<fill in: x>>",
        f"<<fill in: {DIGEST}, 3 characters>>",
        {"redacted": "x", "length": 2**31},
        {"redacted": DIGEST, "length": True, "leaves": 3},
        {"redacted": DIGEST, "length": -1},
        {DIGEST: 1, "<<fill in: y>>": "z"},
        {"redacted": "", "length": None},
    ]
)
SECRET: Final = "password=" + "hunter2"
"""Looks like one, so it is a digest in a clear role too, as a name as well."""
VALUES: Final = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-9, 9)
    | st.text("ab <>:", max_size=3)
    | LOOKALIKES
    | st.just(SECRET),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["a", "redacted", "length", DIGEST, SECRET]), inner, max_size=3)
    ),
    max_leaves=8,
)


def recorded(sent: Mapping[str, Any], provenance: Mapping[str, Any] | None = None) -> dict[str, Any]:
    asked = call("x/note", provenance=provenance or {"/path": source("user")}, path="/a", **sent)
    record = record_of(WORLD, asked, decide(asked, facts(WORLD)))
    return json.loads(json.dumps(record | {"occurred_at": "2026-11-30T10:00:00Z"}))  # type: ignore[no-any-return]


def at(value: Any, place: Tokens) -> Any:
    ((_, found),) = find(value, place)
    return found


@given(VALUES, VALUES)
@example({"redacted": "x", "length": 2**31}, {"redacted": "", "length": 2**31})
def test_what_is_named_is_a_digest_and_what_is_not_is_what_was_sent(shown: Any, hidden: Any) -> None:
    record = recorded({"shown": shown, "hidden": hidden})
    found = request_of_record(record)
    assert found.redactions.stated
    named = {one.place for one in found.hidden}
    # Every value that is not named, or stands under a name that is, is the one that was sent.
    sent = {"path": "/a", "shown": shown, "hidden": hidden}
    for place, value in leaves(found.body["arguments"]):
        if not any(("arguments", *place[:length]) in named for length in range(len(place) + 1)):
            assert value == at(sent, place)
    for one in found.hidden:
        if one.length is not None:
            digest = at(record, ("arguments", *one.place[1:])) if SECRET not in str(sent) else None
            assert digest is None or digest["length"] == one.length
    # And nothing that was to be hidden is in the clear.
    for place, value in leaves(hidden):
        if value not in (None, "", [], {}) and SECRET not in str(hidden):
            assert ("arguments", "hidden", *place) in named


@given(VALUES, VALUES)
def test_a_pasted_case_is_refused_for_what_is_hidden_and_for_nothing_else(shown: Any, hidden: Any) -> None:
    found = case_of_record(recorded({"shown": shown, "hidden": hidden}), "one")
    text = "cases:\n" + dump_case(found.entry)
    if not found.redacted:
        (case,) = parse_cases("tests/f.yaml", text.encode())
        assert case.body["arguments"]["shown"] == shown
        return
    if SECRET in str({"shown": shown, "hidden": hidden}):
        # A name that is a digest has no value of its own to fill in.
        return
    filled = found.entry["call"]
    for pointer in found.redacted:
        filled = replace_leaf(filled, parse_pointer(pointer), "filled in")
    # A value that is filled in under a name that is spelled like a mark: what stands there is meant.
    odd = [pointer for pointer in found.redacted if pointer.rpartition("/")[2].startswith("<<")]
    entry = {**found.entry, "call": filled, "verbatim": [*found.entry.get("verbatim", []), *odd]}
    (case,) = parse_cases("tests/f.yaml", ("cases:\n" + dump_case(entry)).encode())
    assert case.body["arguments"]["shown"] == shown


def test_redacted_names_are_told_apart_from_values() -> None:
    record = recorded({"shown": {SECRET: 5}})
    (name,) = record["arguments"]["shown"]
    assert record["redacted_names"] == [f"/arguments/shown/{name}"]
    assert record["redacted"] == []
    # Without any, the member is not there.
    assert "redacted_names" not in recorded({})


def test_pointers_lead_to_everything_that_was_redacted_wherever_it_stands() -> None:
    record = recorded(
        {"hidden": "x"},
        {
            "/path": ProvenanceClaim(
                source="web", uri="https://example.com/?token=abc", labels=frozenset({SECRET})
            ),
            "/hidden": source("secret"),
        },
    )
    found = {pointer: at(record, parse_pointer(pointer)) for pointer in record["redacted"]}
    assert set(found) == {
        "/arguments/hidden",
        "/provenance/leaves/~1path/uri",
        "/provenance/leaves/~1path/labels/0",
        "/fingerprint",
        "/request_digest",
    }
    assert all("hmac-sha256:" in str(value) for value in found.values())


def test_of_very_many_places_what_they_stand_in_is_named() -> None:
    redactor = Redactor(b"r" * 32)
    many = redactor.arguments(
        {"a" * 200: {"b" * 200: ["x"] * 1000}, "c": "y"}, lambda _: "payload", frozenset()
    )
    members = redaction_members({"arguments": many, "effect": "allow"})
    assert members == {"redacted": ["/arguments/" + "a" * 200, "/arguments/c"]}
    wide = {f"{number:0200}": "x" for number in range(1000)}
    named = redaction_members({"arguments": redactor.arguments(wide, lambda _: "payload", frozenset())})
    assert named == {"redacted": ["/arguments"]}
    assert len(str(members)) < MAX_LENGTH


def test_of_too_many_places_no_value_is_claimed_to_be_in_the_clear() -> None:
    record = recorded({"shown": "clear", "hidden": ["x"] * 20_000})
    assert record["redacted"] == ["/arguments/hidden"]
    found = case_of_record(record, "one")
    assert found.redacted == ("/arguments/hidden",)
    assert found.entry["call"]["arguments"]["shown"] == "clear"


def test_defaults_are_named_at_their_topmost_places() -> None:
    record = recorded({"items": [{"at": "a"}, {"at": "b", "mode": "w"}]})
    assert record["arguments"]["level"] == 1
    assert record["defaulted"] == ["/arguments/items/0/mode", "/arguments/level"]
    assert recorded({"level": 1})["defaulted"] == []
    sent = request_of_record(record).body["arguments"]
    assert sent == {"path": "/a", "items": [{"at": "a"}, {"at": "b", "mode": "w"}]}


def test_of_very_many_defaults_none_is_named() -> None:
    record = recorded({"items": [{}] * 5000})
    assert record["defaulted"] is None
    assert not request_of_record(record).sent_only
    assert case_of_record(record, "one").with_defaults


@given(st.lists(st.fixed_dictionaries({}, optional={"mode": st.just("r")}), max_size=4), st.booleans())
def test_without_what_was_filled_in_a_request_is_the_one_that_was_sent(
    items: list[dict[str, str]], with_level: bool
) -> None:
    sent: dict[str, Any] = {"items": items} | ({"level": 1} if with_level else {})
    found = request_of_record(recorded(sent))
    assert found.body["arguments"] == {"path": "/a", **sent}


def test_a_record_that_does_not_say_is_read_by_what_looks_like_a_digest() -> None:
    record = recorded({"shown": DIGEST, "hidden": "x"})
    for name in ("redacted", "defaulted"):
        del record[name]
    found = case_of_record(record, "one")
    assert set(found.redacted) == {"/arguments/shown", "/arguments/hidden"}
    assert found.with_defaults
    for bad in ("x", [1], ["no-pointer"]):
        assert set(case_of_record(record | {"redacted": bad}, "one").redacted) == set(found.redacted)


def test_a_clear_value_that_looks_like_a_mark_is_meant_as_it_stands() -> None:
    sent = {"shown": {"a": "<<fill in: x>>", "<<fill in: y>>": 1}}
    found = case_of_record(recorded(sent), "one")
    assert found.redacted == ()
    assert set(found.entry["verbatim"]) == {
        format_pointer(("arguments", "shown", "a")),
        format_pointer(("arguments", "shown", "<<fill in: y>>")),
    }
    (case,) = parse_cases("tests/f.yaml", ("cases:\n" + dump_case(found.entry)).encode())
    assert case.body["arguments"]["shown"] == sent["shown"]

"""Secrets are redacted before anything is written: structure kept, values as keyed digests (AU3)."""

import json
import re
import string
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from authz.core.record import decision_event, refusal_event
from authz.core.redact import MAX_CLEAR_LENGTH, MAX_UNKNOWN_LEAVES, Redactor, looks_secret
from authz.model.call import Call
from authz.model.resource import ResolvedPath
from tests.support.world import (
    NO_IDS,
    NOW_MS,
    TEXT,
    call,
    caller_of,
    decide_in,
    record_of,
    source,
    tool,
    tool_file,
    world,
)

KEYED = Redactor(b"k" * 32)
ROLES = {
    "to": "destination",
    "body": "payload",
    "key": "credential",
    "at": "target",
    "n": "amount",
    "list": "option",
}


def written(arguments: dict[str, Any], secret: tuple[tuple[str, ...], ...] = ()) -> Any:
    return KEYED.arguments(arguments, lambda tokens: ROLES.get(tokens[0], "undeclared"), frozenset(secret))


def test_a_value_is_in_the_clear_only_where_its_role_says_so() -> None:
    found = written(
        {"to": "a@example.com", "body": "hello", "key": "k-1", "at": "/a", "n": 5, "other": "x", "list": [1]}
    )
    assert {name for name, value in found.items() if not isinstance(value, dict)} == {"to", "at", "n", "list"}
    assert (found["to"], found["n"], found["list"]) == ("a@example.com", 5, [1])
    assert found["body"].keys() == {"redacted", "length"}
    assert found["body"]["length"] == 5


def test_structure_is_kept_and_equal_values_can_be_told_to_be_equal() -> None:
    found = written(
        {"body": [{"a": "same", "b": ["same", "other"]}, None, ""], "list": ["same", {"x": 1}]},
        (("list", "0"),),
    )
    (first, null, empty) = found["body"]
    assert (null, empty) == (None, "")
    assert first["a"] == first["b"][0] != first["b"][1]
    assert found["list"][0] == first["a"]
    assert found["list"][1] == {"x": 1}


def test_the_digest_needs_the_key() -> None:
    assert Redactor(b"k" * 32).digest_of("1234") == KEYED.digest_of("1234")
    assert Redactor(b"l" * 32).digest_of("1234") != KEYED.digest_of("1234")
    assert "k" * 8 not in repr(KEYED)


def test_an_unknown_tool_has_no_harmless_argument() -> None:
    found = KEYED.arguments({"a": "x", "b": [1, {"c": True}]}, None, frozenset())
    assert found["a"].keys() == found["b"][0].keys() == found["b"][1]["c"].keys() == {"redacted", "length"}


class Counting(Redactor):
    """Counts its digests: each is an HMAC over a canonical form."""

    def __init__(self) -> None:
        super().__init__(b"k" * 32)
        self.digests = 0

    def digest_of(self, value: Any) -> dict[str, Any]:
        self.digests += 1
        return super().digest_of(value)


LEAVES: list[Any] = [1, "x", True, 1.5, "y", "z", [], {}]


@pytest.mark.parametrize("count", [MAX_UNKNOWN_LEAVES + 1, 10_000])
def test_of_an_unknown_tool_with_many_values_one_digest_is_recorded(count: int) -> None:
    redactor = Counting()
    arguments = {"name-of-it": [LEAVES[number % len(LEAVES)] for number in range(count)]}
    found = redactor.arguments(arguments, None, frozenset())
    assert found == KEYED.digest_of(arguments) | {"leaves": count}
    assert "name-of-it" not in json.dumps(found)
    assert redactor.digests == 1
    assert found != redactor.arguments({"name-of-it": [*arguments["name-of-it"][1:], 2]}, None, frozenset())


@pytest.mark.parametrize(
    "arguments",
    [
        {"a": ["x"] * MAX_UNKNOWN_LEAVES},
        {"a": {str(number): number for number in range(MAX_UNKNOWN_LEAVES - 2)}, "b": [], "c": None},
    ],
)
def test_up_to_the_bound_the_structure_of_an_unknown_tool_is_kept(arguments: dict[str, Any]) -> None:
    assert KEYED.arguments(arguments, None, frozenset()).keys() == arguments.keys()


def test_of_a_known_tool_the_structure_is_kept_however_many_values_there_are() -> None:
    many = [f"zq{number}" for number in range(MAX_UNKNOWN_LEAVES * 2)]
    found = written({"to": "a@example.com", "body": many, "list": many})
    assert (found["to"], found["list"]) == ("a@example.com", many)
    assert [leaf["length"] for leaf in found["body"]] == [len(item) for item in many]


# Put together here, so that nothing that scans this file takes them for real ones.
FILLER = "aB3" * 12
SHAPES = [
    *(
        prefix + FILLER
        for prefix in "sk-ant- sk_live_ ghp_ gho_ github_pat_ glpat- xoxb- AIza npm_ azk_".split()
    ),
    "AKIA" + "ABCD1234" * 2,
    "pypi-" + FILLER * 2,
    ".".join(["eyJ" + "hbGciOiJF", "eyJ" + "zdWIiOiJh", "c2ln"]),
    "Authorization: Bearer abcdefgh12345",
    "Authorization: Basic YWRhOmh1bnRlcjI=",
    "-----BEGIN RSA PRIVATE " + "KEY-----",
    "password=hunter2",
    "PASSWORD: hunter2",
    "api_key=abc123",
    "token='abc123'",
    "secret: abc",
    "https://ada:hunter2@example.com/",
]


@pytest.mark.parametrize("shape", SHAPES)
def test_what_looks_like_a_credential_is_redacted_in_a_clear_role_too(shape: str) -> None:
    """A second net: a command line or a url may carry a secret that nobody labelled."""
    for text in (shape, f"curl -H '{shape}' x", f"a\n{shape}\nb"):
        assert shape not in json.dumps(written({"at": text, "list": [text]}))
    assert shape not in json.dumps(written({"list": {f"x {shape}": 1}}))


# What a token is, without regard to how long the search for one takes.
TOKEN = re.compile(
    r"""
      \b(?:sk|pk|rk)[-_](?:live|test|ant|proj)?[-_]?[A-Za-z0-9_-]{16,}
    | \bgh[pousr]_[A-Za-z0-9]{20,} | \bgithub_pat_[A-Za-z0-9_]{20,} | \bglpat-[A-Za-z0-9_-]{16,}
    | \bxox[abeprs]-[A-Za-z0-9-]{10,} | \bAIza[A-Za-z0-9_-]{30,} | \b(?:AKIA|ASIA)[A-Z0-9]{12,}
    | \bazk_[A-Za-z0-9_-]{20,} | \bnpm_[A-Za-z0-9]{30,} | \bpypi-[A-Za-z0-9_-]{40,}
    | \beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*
    """,
    re.VERBOSE,
)
PREFIXES = "sk- pk_live_ rk-test- ghp_ github_pat_ glpat- xoxb- AIza AKIA azk_ npm_ pypi- eyJ".split()
NEAR_TOKENS = st.lists(
    st.sampled_from(PREFIXES)
    | st.builds(
        lambda char, count: char * count, st.sampled_from("aB3_-."), st.sampled_from([1, 7, 8, 9, 30])
    )
    | st.sampled_from(
        ["Ab3dEf7h", "A" * 11, "A" * 12, "é", "ſ", " ", "/", "\n", "x", "-eyJ", ".eyJ", "_eyJ"]
    ),
    max_size=10,
).map("".join)


@given(NEAR_TOKENS)
@settings(max_examples=500)
@example("a-eyJ" + "a" * 8 + "." + "b" * 8 + ".")
@example("éeyJ-eyJ" + "a" * 8 + "." + "b" * 8 + ".")
@example("eyJ" + "a" * 7 + ".eyJ" + "a" * 8 + "." + "b" * 8 + ".")
@example("_eyJ" + "a" * 8 + "." + "b" * 8 + ".")
def test_the_bounded_search_finds_the_tokens_that_the_shapes_describe(text: str) -> None:
    assert looks_secret(text) is (TOKEN.search(text) is not None)


@pytest.mark.parametrize(
    "piece",
    [
        *("-eyJaaaa", "eyJ-", "eyJaaaaaaaa.eyJ.", "-sk-", "sk-live-abc.", "ghp_abc-", "xoxb-a.", "AKIAA-"),
        *("password  ", "auth", "://a:b", "://", "bearer  ", "basic", "-----BEGIN ", "PRIVATE KEY"),
        *("a", "-", "_", ".", "aaaaaaaaaaa ", "é"),
    ],
)
def test_a_megabyte_of_what_almost_is_a_token_is_searched(piece: str) -> None:
    """Where a search looked at each place for the whole rest of the text, this would not end today."""
    text = piece * (1_000_000 // len(piece))
    assert looks_secret(text) is (TOKEN.search(piece * 50) is not None)
    assert looks_secret(f"{text} eyJ{'a' * 8}.{'b' * 8}.c")


@pytest.mark.parametrize(
    "text",
    ["/workspace/a.py", "ls -la", "DE89370400440532013000", "please pass the salt", "a" * MAX_CLEAR_LENGTH],
)
def test_what_is_harmless_stays_readable(text: str) -> None:
    """AU3: records keep enough to tell why."""
    assert written({"at": text}) == {"at": text}


def test_long_values_are_digests() -> None:
    assert written({"at": "a" * (MAX_CLEAR_LENGTH + 1)})["at"]["length"] == MAX_CLEAR_LENGTH + 1


@pytest.mark.parametrize(
    ("uri", "gone", "kept"),
    [
        ("https://example.com/a?token=hunter2&x=1", "hunter2", "&x=1"),
        ("https://example.com/a?X-Amz-Signature=hunter2", "hunter2", "example.com/a"),
        ("https://example.com/a?access_token=hunter2#x", "hunter2", "example.com/a"),
        ("https://example.com/a?%74oken=hunter2abc", "hunter2", "example.com"),
        ("https://example.com/?q=password%3Dhunter2", "hunter2", "example.com"),
        (f"https://example.com/?ghp_{FILLER}", FILLER, "example.com"),
        ("https://example.com/#access_token=hunter2", "hunter2", ""),
        ("https://ada:hunter2@example.com/", "hunter2", ""),
    ],
)
def test_a_url_keeps_its_place_and_loses_its_secrets(uri: str, gone: str, kept: str) -> None:
    found = KEYED.uri(uri)
    assert gone not in found
    assert kept in found
    assert gone not in json.dumps(written({"at": uri}))


def test_a_url_with_more_secrets_than_a_record_holds_is_one_digest() -> None:
    redactor = Counting()
    uri = "https://example.com/?" + "&".join(f"token={number}" for number in range(100_000))
    assert redactor.uri(uri) == f"redacted:{KEYED.digest_of(uri)['redacted']}"
    assert redactor.digests < MAX_CLEAR_LENGTH // 16


def test_a_long_secret_in_a_url_does_not_take_its_place_away() -> None:
    found = KEYED.uri(f"https://example.com/a?page=2&x={'z' * 100_000}&y=3")
    assert found.startswith("https://example.com/a?page=2&x=hmac-sha256:")
    assert found.endswith("&y=3")
    assert KEYED.uri("https://example.com/" + "a" * 5000).startswith("redacted:")
    assert KEYED.uri("https://example.com/?" + "a=b&" * 1500).startswith("redacted:")


def test_a_plain_url_is_left_alone() -> None:
    for uri in (
        "https://example.com/a?page=2&q=cats",
        "file:///workspace/a",
        "mailto:ada@example.com",
        "x://y?",
    ):
        assert KEYED.uri(uri) == uri


PLACES = {
    "path": TEXT, "text": TEXT, "list": {"type": "array"}, "row": {"type": "object"}, "any": {}, "key": TEXT,
    "number": {"type": ["number", "null"]},
}  # fmt: skip
WORLD = world(
    '@id("p") permit (principal, action, resource);'
    '@id("f") forbid (principal, action, resource in Directory::"/forbidden");',
    tools=tool_file(
        "x",
        tool(
            "t",
            [
                {"verb": "write", "kind": "path", "at": "/path"},
                {"verb": "read", "kind": "path", "at": "/list"},
            ],
            PLACES,
            required=["path"],
            roles={
                "/key": "credential",
                "/text": "payload",
                "/path": "target",
                "/list": "target",
                "/any": "command",
            },
        ),
    ),
)
SECRETS = st.text(string.ascii_letters + string.digits, min_size=12, max_size=24).map(
    lambda text: f"zq{text}"
)


def holding(pointer: str, secret: str) -> dict[str, Any]:
    """Arguments that have the secret at `pointer` and harmless values elsewhere."""
    arguments: dict[str, Any] = {"path": "/workspace/a", "list": ["/b"], "row": {"x": "y"}}
    name, _, rest = pointer[1:].partition("/")
    arguments[name] = {"": secret, "0": [secret], "a": {"a": secret}}[rest]
    return arguments


def leaks(made: Call, secret: str, **known: Any) -> bool:
    """Whether the secret stands anywhere in the record of the call's decision."""
    outcome = decide_in(WORLD, made, **known)
    event = decision_event(made, outcome, caller_of(WORLD), WORLD, KEYED, NOW_MS)
    columns = "".join(
        (event.decision_id, event.trace_id, event.agent, event.user, event.tool, event.effect, *event.rules)
    )
    return secret in event.body.decode() + columns


POINTERS = ["/path", "/text", "/list/0", "/row/a", "/any", "/any/0", "/any/a", "/key"]
LABELS = [
    source("secret"),
    source("user", labels=["secret"]),
    source("web", labels=["secret", "pii"]),
    source("anything", labels=["secret"]),
]
FATES: list[dict[str, Any]] = [
    {},
    {"digest": "sha256:0"},
    {"capability": ("x",)},
    {"ask": True},
    {"dry_run": True},
    {"ids": NO_IDS},
]


@given(SECRETS, st.sampled_from(POINTERS), st.sampled_from(LABELS), st.sampled_from(FATES), st.booleans())
@settings(max_examples=250)
def test_a_labelled_secret_is_never_written_in_the_clear(
    secret: str, pointer: str, label: Any, fate: dict[str, Any], whole: bool
) -> None:
    """Wherever it stands, however it is labelled, and whatever becomes of the call at stage 4 and later."""
    place = "" if whole else pointer
    assert not leaks(call("x/t", holding(pointer, secret), provenance={place: label}, **fate), secret)


@given(SECRETS, st.sampled_from(POINTERS), st.booleans())
def test_a_secret_of_a_call_that_was_refused_early_is_not_written(
    secret: str, pointer: str, whole: bool
) -> None:
    """An unknown tool, arguments that do not fit, a path that is none: the record still has no secret."""
    arguments = holding(pointer, secret)
    place = "" if whole else pointer
    for made in (
        call("x/unknown", arguments, provenance={place: source("secret")}),
        call("x/t", {**arguments, "number": "no number"}, provenance={place: source("secret")}),
        call("x/t", {**arguments, "path": f"\x00{secret}"}, provenance={"": source("secret")}),
    ):
        assert not leaks(made, secret)


def invalid(secret: str, label: Any, pointer: str = "/any") -> Call:
    return call("x/t", {**holding(pointer, secret), "number": "no number"}, provenance={pointer: label})


def test_a_label_counts_like_the_source_in_a_call_that_was_refused_early() -> None:
    """`labels: [secret]` says what `source: secret` says, also when the arguments did not fit."""
    for label in LABELS:
        assert not leaks(invalid("zqSECRETvalue", label), "zqSECRETvalue")


def test_where_a_secret_path_really_lies_is_as_secret_as_the_path() -> None:
    made = call(
        "x/t",
        path="/workspace/zqSECRETvalue",
        provenance={"/path": source("secret")},
        resolved={"/path": ResolvedPath(path="/elsewhere/zqSECRETvalue")},
    )
    assert not leaks(made, "zqSECRETvalue")


def test_a_credential_is_secret_without_any_label() -> None:
    assert not leaks(call("x/t", holding("/key", "zqSECRETvalue")), "zqSECRETvalue")


def test_the_record_keeps_what_tells_why() -> None:
    made = call("x/t", path="/forbidden/a", text="zqSECRETvalue", provenance={"/text": source("secret")})
    record = record_of(WORLD, made, decide_in(WORLD, made))
    assert record["code"] == "policy.forbid"
    assert record["arguments"]["path"] == "/forbidden/a"
    assert record["arguments"]["text"]["length"] == len("zqSECRETvalue")
    assert record["provenance"]["secret"] == ["payload"]
    assert record["accesses"][0]["uri"] == "file:///forbidden/a"
    assert record["policy_version"] == WORLD.version


def test_a_refusal_before_a_decision_has_a_record_of_its_own() -> None:
    event = refusal_event(
        caller=caller_of(WORLD),
        code="input.not_json",
        message="no JSON",
        pointer="/a",
        status=400,
        redactor=KEYED,
        now_ms=NOW_MS,
    )
    body = json.loads(event.body)
    assert (body["code"], body["pointer"], body["status"]) == ("input.not_json", "/a", 400)
    assert body["caller"] == {"key_id": "key-1", "profile": "runtime"}
    assert (event.tenant, event.type.value) == ("acme", "request.refused")


def test_proof_and_capability_are_not_written() -> None:
    made = replace(call("x/t", path="/workspace/a"), capability=("zqSECRETvalue",), proof="zqSECRETvalue")
    assert not leaks(made, "zqSECRETvalue")


@pytest.mark.parametrize(
    "line",
    [
        "mysql --password zqSECRETvalue -e 'select 1'",
        "mysql -pzqSECRETvalue shop",
        "mysqldump -u root -p zqSECRETvalue",
        "curl -u ada:zqSECRETvalue https://example.com",
        "curl --user ada:zqSECRETvalue https://example.com",
        "sshpass -p zqSECRETvalue ssh host",
        "aws configure set aws_secret_access_key zqSECRETvalue",
        "echo zqSECRETvalue | docker login --password-stdin",
        "export API_TOKEN=zqSECRETvalue",
        "gh auth login --with-token zqSECRETvalue",
        "redis-cli -a zqSECRETvalue ping",
        "tool --client-secret=zqSECRETvalue",
    ],
)
def test_a_secret_on_a_command_line_is_not_written(line: str) -> None:
    assert "zqSECRETvalue" not in str(Redactor(b"k" * 32).command(line))


@pytest.mark.parametrize(
    "line",
    [
        "ls -la",
        "git commit -m 'fix the parser'",
        "pytest -p no:cacheprovider",
        "tar -czf a.tgz b",
        "cp -p a b",
    ],
)
def test_an_ordinary_command_line_stays_readable(line: str) -> None:
    assert Redactor(b"k" * 32).command(line) == line

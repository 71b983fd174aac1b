"""What is fuzzed: each target takes bytes that an attacker or a hurried colleague could have written.

A target returns quietly for whatever is refused by name, and raises for anything else: an exception that
is not ours, a value that two readers would read differently, a form that is not final.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import rfc8785

from authz.bundle.load import BundleSources, compile_bundle
from authz.bundle.self_protection import Protected
from authz.bundle.yaml_source import load_yaml
from authz.core import strict_json
from authz.core.canonical import KINDS, canonicalize
from authz.core.canonical.repo import canonicalize_repo
from authz.core.canonical.shell import analyse_shell
from authz.core.canonical.sql import DIALECTS, Connection, analyse_sql
from authz.core.policy import parse_rule_file
from authz.errors import BundleError, MalformedInput, TooLarge
from authz.model.resource import Base, NotCanonical, Volume
from tests.fuzz.structure import ByteReader, changed_value
from tests.support.world import bundle_files

SAMPLE: Final = Path(__file__).resolve().parents[2] / "policies"
SMALL: Final = bundle_files()
NO_TOOLS: Final = {name: data for name, data in SMALL.items() if not name.startswith("tools/")}
PROTECTED: Final = Protected()


def parse_json(data: bytes) -> None:
    """The strict parser accepts a subset of JSON, and what it accepts every reader reads alike."""
    try:
        value = strict_json.loads(data)
    except (MalformedInput, TooLarge) as refused:
        _check(bool(refused.code), "a refusal without a code")
        return
    text = data.decode("utf-8")
    assert _same(json.loads(text, object_pairs_hook=_no_duplicates), value)
    # What it accepts has one canonical form, which means the same. Only `1e20` is accepted while its
    # canonical form is not: there it is written as an integer, and no integer that big is.
    try:
        again = strict_json.loads(rfc8785.dumps(value))
    except MalformedInput as refused:
        _check(refused.code == "input.unsafe_integer" and _largest(value) >= 2**53, refused.code)
        return
    assert _same(again, value)


def read_yaml(data: bytes) -> None:
    """A YAML file of the bundle is plain data, or its fault has a place."""
    try:
        document = load_yaml("tools/fuzzed.yaml", data)
    except BundleError as refused:
        _check_problems(refused)
        return
    json.dumps(document.value, allow_nan=False)


def read_rules(data: bytes) -> None:
    """A rule file is its rules, one by one and as a whole, or its fault has a place."""
    try:
        text = data.decode("utf-8")
        policies = parse_rule_file("rules/fuzzed.cedar", text)
    except UnicodeDecodeError:
        return
    except BundleError as refused:
        _check_problems(refused)
        return
    lines = text.split("\n")
    for policy in policies:
        assert policy.text in text
        assert policy.match.line is not None
        assert 1 <= policy.match.line <= len(lines)


def compile_descriptors(data: bytes) -> None:
    """A file of tools in an otherwise good bundle: it loads whole, or is refused whole.

    Changed bytes rarely are YAML, so the input says what to change in the values of a file that loads.
    """
    changes = ByteReader(data)
    start = changes.pick(_TOOL_FILES)
    _compile(NO_TOOLS | {"tools/fuzzed.yaml": json.dumps(changed_value(start, changes)).encode()})


def compile_changed_bundle(data: bytes) -> None:
    """A bundle with one of its files replaced. The first byte says which."""
    if data:
        names = sorted(SMALL)
        _compile(SMALL | {names[data[0] % len(names)]: data[1:]})


def canonical_form(data: bytes) -> None:
    """A canonical form is final: what it names is spelled so, and nothing else is.

    The first byte says which kind, the second on which volume.
    """
    if len(data) < 2:
        return
    kinds = sorted(set(KINDS) | {"path"})
    kind = kinds[data[0] % len(kinds)]
    text = data[2:].decode("utf-8", errors="surrogateescape")
    volume = Volume(case_sensitive=not data[1] & 1, normalization="nfc" if data[1] & 2 else "none")
    base = Base(cwd="/workspace", home="/home/agent", volume=volume)
    object_type = "iban" if data[1] & 4 else "account"
    found = canonicalize(kind, text, base, object_type=object_type)
    if isinstance(found, NotCanonical):
        assert found.code
        assert found.message
        return
    for resource in found:
        if resource.kind == "opaque":
            continue
        again = canonicalize(kind, resource.value, base, object_type=object_type)
        assert not isinstance(again, NotCanonical), (kind, text, resource.value, again)
        assert [one.entity for one in again] == [resource.entity], (kind, text, resource.value)


def shell_line(data: bytes) -> None:
    """A line is a set of accesses, the same every time, and never nothing."""
    line = data.decode("utf-8", errors="surrogateescape")
    base = Base(cwd="/workspace", home="/home/agent")
    found = analyse_shell(line, base)
    assert not isinstance(found, NotCanonical)
    assert found
    assert analyse_shell(line, base) == found


def sql_statement(data: bytes) -> None:
    """A statement is a set of accesses, or it is not understood. The first byte says which dialect."""
    if not data:
        return
    dialects = sorted(DIALECTS)
    connection = Connection(
        database="prod", dialect=dialects[data[0] % len(dialects)], default_schema="public"
    )
    found = analyse_sql(data[1:].decode("utf-8", errors="surrogateescape"), connection)
    if isinstance(found, NotCanonical):
        assert not found.understood
    else:
        assert found


def repo_remote(data: bytes) -> None:
    """A remote has one name, which names it again."""
    text = data.decode("utf-8", errors="surrogateescape")
    found = canonicalize_repo(text)
    if not isinstance(found, NotCanonical):
        assert canonicalize_repo(found[0].value) == found


def _compile(files: Mapping[str, bytes]) -> None:
    try:
        ruleset = compile_bundle(BundleSources(files=files), PROTECTED)
    except BundleError as refused:
        _check_problems(refused)
        return
    assert ruleset.engine.policies, "a bundle without rules was loaded"


def _check(holds: bool, otherwise: str) -> None:
    assert holds, otherwise


def _check_problems(refused: BundleError) -> None:
    assert refused.problems
    for problem in refused.problems:
        assert problem.file, problem
        assert problem.message, problem


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    assert len(dict(pairs)) == len(pairs), "a duplicate name was accepted"
    return dict(pairs)


def _same(left: Any, right: Any) -> bool:
    """Equality that tells 1 from True, and 1 from 1.0 only where JSON's canonical form does."""
    if isinstance(left, bool) or isinstance(right, bool) or left is None or right is None:
        return left is right
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(_same(left[name], right[name]) for name in left)
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(_same(one, two) for one, two in zip(left, right, strict=True))
    return bool(left == right)


def _largest(value: Any) -> float:
    if isinstance(value, dict | list):
        members = value.values() if isinstance(value, dict) else value
        return max(map(_largest, members), default=0.0)
    return abs(value) if isinstance(value, int | float) else 0.0


TARGETS: Final[Mapping[str, Callable[[bytes], None]]] = {
    "json": parse_json,
    "yaml": read_yaml,
    "rules": read_rules,
    "descriptors": compile_descriptors,
    "bundle": compile_changed_bundle,
    "canonical": canonical_form,
    "shell": shell_line,
    "sql": sql_statement,
    "repo": repo_remote,
}


def seeds(target: str) -> Iterator[bytes]:
    """Inputs to start from: what the product itself ships, and the shapes that are known to be hard."""
    if target in _TEXTS:
        yield from (text.encode() for text in _TEXTS[target])
    elif target == "yaml":
        yield from (path.read_bytes() for path in sorted(SAMPLE.glob("tools/*.yaml")))
        yield SMALL["tools/fs.yaml"]
    elif target == "rules":
        yield from (path.read_bytes() for path in sorted(SAMPLE.glob("rules/*.cedar")))
        yield b'@id("a") permit (principal == ?principal, action, resource);'
        yield b'@id("a") // \r forbid\npermit (principal, action, resource) when { "\\u{202e}" like "*;" };'
    elif target == "descriptors":
        for number in range(len(_TOOL_FILES)):
            yield bytes([0, number, 0, 1, *range(8)])
            yield bytes([0, number, 0, 3, *range(100, 124)])
    elif target == "bundle":
        for number, name in enumerate(sorted(SMALL)):
            yield bytes([number]) + SMALL[name]
    else:
        yield from _canonical_seeds()


def _canonical_seeds() -> Iterator[bytes]:
    for number, (kind, texts) in enumerate(_CANONICAL.items()):
        assert kind == sorted(set(KINDS) | {"path"})[number]
        for text in texts:
            yield bytes([number, number]) + text.encode()


_TOOL_FILES: Final = [
    load_yaml(path.name, path.read_bytes()).value for path in sorted(SAMPLE.glob("tools/*.yaml"))
]
_JSON: Final = json.dumps(
    {
        "subject": {"agent": "coder-1", "on_behalf_of": "ada"},
        "tool": {"server": "fs", "name": "file_edit"},
        "arguments": {"path": "/workspace/a", "n": 1.5, "deep": [[[{}]]]},
        "provenance": {"/path": {"source": "user"}},
    }
)
_TEXTS: Final = {
    "json": (_JSON, '{"a": [1, -0.0, 1e5, "\\ud83d\\ude00"], "b": {"c": null}}', '{"a":1,"a":2}'),
    "shell": (
        "cd sub && cat 'a b' | head -5 > out 2>&1; for f in *.txt; do rm \"$f\"; done",
        "bash -c 'rm x' <<'EOF'\ntext $(id)\nEOF\nfind . -exec rm {} \\; & X=1 git -C a push b +c",
        "if [ -f x ]; then cat <(ls) ${x:-$(id)}; else f() { ls; }; f; fi; case $x in a) ls;; esac",
    ),
    "sql": (
        "\x00SELECT a.x FROM shop.a JOIN b ON a.x = b.y WHERE a.z IN (SELECT 1) -- note\n; DROP TABLE c",
        "\x01WITH x AS (DELETE FROM t RETURNING *) INSERT INTO y SELECT * FROM x",
    ),
    "repo": ("git@git.example.com:team/app.git#refs/heads/main", "https://x.example:8443/a%20b/c.git/"),
}
_CANONICAL: Final = {
    "email": ('"Ada, L" <ada@example.com>, Bob@EXAMPLE.com', '"a b"@example.com', "ü@bücher.example"),
    "host": ("EXAMPLE.com.", "0x7f.1", "[::ffff:127.0.0.1]", "xn--bcher-kva.example", "１２７.0.0.1"),
    "id": ("DE89 3704 0044 0532 0130 00", " a ", "e\u0301"),
    "path": (
        "/workspace/../etc//passwd",
        "~/x",
        "file:///a%20b",
        "C:\\x:y",
        "\\\\h\\s\\f",
        "a/./b/..",
        "//x",
    ),
    "repo": ("git@Git.example.com.:/a/b.git/", "ssh://h:022/a#heads/x", "ext::sh", "https://u@h/a", "h:a:b"),
    "url": ("HTTP://EXAMPLE.com:80/%2e%2e/a?b#c", "http://2130706433/", "http:\\\\x\\y", "https://u@x/"),
}

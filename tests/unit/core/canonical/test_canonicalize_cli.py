"""`authz canonicalize`: one JSON object out for every line in."""

import argparse
import hashlib
import io
import json
import os
import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import pytest

from authz.cli import canonicalize as command
from authz.cli.canonicalize import MAX_LINE_BYTES
from authz.cli.line_input import bounded_lines

Answer = dict[str, Any]


@pytest.fixture
def ask(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    def run(arguments: str, text: str | bytes) -> list[Answer]:
        parser = argparse.ArgumentParser()
        command.add_arguments(parser)
        data = text if isinstance(text, bytes) else text.encode()
        monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(data)))
        assert command.run(parser.parse_args(arguments.split())) == 0
        out = capsys.readouterr().out
        assert out.isascii()
        return [json.loads(line) for line in out.splitlines()]

    return run


def test_a_value_is_answered_with_its_canonical_form(ask: Any) -> None:
    assert ask("--kind path --cwd /w", '"../w/a.py"\n') == [
        {
            "accesses": [
                {
                    "verb": None,
                    "type": "File",
                    "id": "/w/a.py",
                    "uri": "file:///w/a.py",
                    "scope": "object",
                    "parents": [{"type": "Directory", "id": path} for path in ("/w/a.py", "/w", "/")],
                    "attrs": {"name": "a.py", "extension": "py", "names": ["w", "a.py"]},
                }
            ],
            "canonical": "/w/a.py",
            "opaque": False,
            "error": None,
        }
    ]


def test_a_line_may_bring_its_own_base(ask: Any) -> None:
    lines = (
        '{"path": "a", "cwd": "/x"}\n{"value": "~/b", "home": "/h", "root": "/h"}\n'
        '{"path": "a", "cwd": null}\n"a"\n'
    )
    answers = ask("--kind path --cwd /w", lines)
    assert [answer.get("canonical") for answer in answers] == ["/x/a", "/h/b", None, "/w/a"]


def test_options_of_the_volume(ask: Any) -> None:
    [answer] = ask("--kind path --case-insensitive --nfc", '"/W/Cafe\\u0301"')
    assert answer["canonical"] == "/W/Café"
    assert answer["accesses"][0]["id"] == "/w/café"
    [answer] = ask("--kind path", '{"value": "/W/Cafe\\u0301", "os": "darwin"}')
    assert answer["accesses"][0]["id"] == "/w/café"


def test_kinds(ask: Any) -> None:
    assert ask("--kind url", '"HTTP://Example.com"')[0]["canonical"] == "http://example.com/"
    assert ask("--kind host", '{"host": "[::1]:80"}')[0]["accesses"][0]["uri"] == "host:[::1]:80"
    assert ask("--kind id --object-type account", "7")[0]["accesses"][0]["id"] == "account:7"
    assert ask("--kind id", '{"id": 7, "object_type": "order"}')[0]["accesses"][0]["uri"] == "id:order:7"
    [answer] = ask("--kind repo", '"git@Git.example.com:a/b.git"')
    assert answer["canonical"] == "git.example.com/a/b"


def test_a_line_and_a_statement_are_several_accesses(ask: Any) -> None:
    [answer] = ask("--kind shell", '{"value": "cat a && rm -r b", "cwd": "/w"}')
    assert [(one["verb"], one["uri"], one["scope"]) for one in answer["accesses"]] == [
        ("execute", "program:cat", "object"),
        ("read", "file:///w/a", "object"),
        ("execute", "program:rm", "object"),
        ("delete", "file:///w/b", "tree"),
    ]
    assert answer["opaque"] is False
    [answer] = ask("--kind sql --database prod", '{"value": "DELETE FROM s.t", "dialect": "postgres"}')
    assert [(one["verb"], one["uri"]) for one in answer["accesses"]] == [("delete", "sql:prod/s/t")]
    assert ask("--kind sql", '"SELECT 1"')[0]["error"]["code"] == "sql.dialect"


def test_json_has_a_canonical_text_and_a_digest(ask: Any) -> None:
    good, duplicate, unsafe, wrong = ask(
        "--kind json",
        '{"json_text": "{\\"b\\": 1.0, \\"a\\": [true]}"}\n{"json_text": "{\\"a\\":1,\\"a\\":2}"}\n'
        '{"json_text": "9007199254740993"}\n"{}"\n',
    )
    assert good["canonical"] == '{"a":[true],"b":1}'
    assert good["sha256"] == hashlib.sha256(b'{"a":[true],"b":1}').hexdigest()
    assert duplicate["error"]["code"] == "input.duplicate_name"
    assert unsafe["error"]["code"] == "input.unsafe_integer"
    assert wrong["error"]["code"] == "input.malformed"


def test_a_list_has_an_access_for_each(ask: Any) -> None:
    [answer] = ask("--kind email", '"Ada <ada@a.example>, bob@b.example"')
    assert answer["canonical"] == "ada@a.example, bob@b.example"
    assert [each["uri"] for each in answer["accesses"]] == ["mailto:ada@a.example", "mailto:bob@b.example"]


def test_a_refusal_is_an_answer(ask: Any) -> None:
    [answer] = ask("--kind url", '"https://ada:secret@example.com/"')
    assert answer["error"].keys() == {"code", "message"}
    assert answer["error"]["code"] == "url.userinfo"
    assert (answer["accesses"], answer["canonical"], answer["opaque"]) == ([], None, False)
    assert "secret" not in json.dumps(answer)


def test_what_is_not_understood_is_the_opaque_that_it_becomes(ask: Any) -> None:
    [answer] = ask("--kind path", '"a"')
    digest = "ca978112ca1bbdcafac231b39a23dc4d"
    assert (answer["error"], answer["canonical"], answer["opaque"]) == (None, None, True)
    assert answer["accesses"] == [
        {
            "verb": None,
            "type": "Opaque",
            "id": f"path:{digest}",
            "uri": f"opaque:path:{digest}",
            "scope": "object",
            "parents": [],
            "attrs": {"kind": "path", "reason": "path.relative_without_directory"},
        }
    ]


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"{",
        b'"a" "b"',
        b"\xff",
        b'{"path": "a", "path": "b"}',
        b'{"path": "a", "value": "b"}',
        b'{"url": "a"}',
        b"{}",
        b'{"path": "a", "cdw": "/"}',
        b'{"path": "a", "cwd": 1}',
        b'{"path": "a", "os": "beos"}',
        b'{"path": ["a"]}',
        b"[]",
        b"NaN",
        b'"\\ud800"',
        b"[" * 100_000,
        b'"' + b"a" * (1 << 20) + b'"',
    ],
)
def test_a_bad_line_is_answered_too(ask: Any, line: bytes) -> None:
    bad, good = ask("--kind path", line + b'\n"/a"\n')
    assert bad["error"]["code"] == "input.malformed"
    assert good["canonical"] == "/a"


def test_usage_errors_are_two(capsys: pytest.CaptureFixture[str]) -> None:
    parser = argparse.ArgumentParser()
    command.add_arguments(parser)
    with pytest.raises(SystemExit) as stopped:
        parser.parse_args([])
    assert stopped.value.code == 2
    assert "--kind" in capsys.readouterr().err


def test_help_is_one_line() -> None:
    assert command.HELP
    assert "\n" not in command.HELP


def test_answers_are_flushed_line_by_line() -> None:
    program = (
        "import argparse; from authz.cli import canonicalize as c; p = argparse.ArgumentParser(); "
        "c.add_arguments(p); raise SystemExit(c.run(p.parse_args(['--kind', 'path'])))"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for name in ("a", "b"):
            process.stdin.write(f'"/{name}"\n'.encode())
            process.stdin.flush()
            assert json.loads(process.stdout.readline())["canonical"] == f"/{name}"
        process.stdin.close()
        assert process.wait(timeout=10) == 0


def test_a_line_without_end_is_not_kept_in_memory() -> None:
    """However long a line is, its reader holds a bounded part, and the next line is read as usual."""
    longest = 0

    class Watched(io.BytesIO):
        def readline(self, size: int | None = -1, /) -> bytes:
            nonlocal longest
            line = super().readline(size)
            longest = max(longest, len(line))
            return line

    stream = Watched(b"x" * (5 * MAX_LINE_BYTES) + b'\n"/a"\n"/b"')
    first, *others = bounded_lines(stream, MAX_LINE_BYTES)
    assert len(first) > MAX_LINE_BYTES
    assert others == [b'"/a"\n', b'"/b"']
    assert longest <= MAX_LINE_BYTES + 2

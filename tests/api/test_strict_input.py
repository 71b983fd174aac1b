"""What is no request: refused before anything reads it, with the place named, and recorded."""

import json

import pytest

from tests.support.service import Service

JSON = {"content-type": "application/json"}


@pytest.mark.parametrize(
    ("text", "code", "pointer"),
    [
        (b'{"subject": {"agent": "a", "agent": "b"}}', "input.duplicate_name", "/subject/agent"),
        (b'{"arguments": {"n": NaN}}', "input.not_a_number", "/arguments/n"),
        (b'{"arguments": {"n": -Infinity}}', "input.not_a_number", "/arguments/n"),
        (b'{"arguments": {"n": [0, 9007199254740993]}}', "input.unsafe_integer", "/arguments/n/1"),
        (b'{"arguments": {"n": 1e400}}', "input.number_overflow", "/arguments/n"),
        (b'{"arguments": {"s": "\\ud800"}}', "input.lone_surrogate", "/arguments/s"),
        (b'{"arguments": ' + b"[" * 64 + b"]" * 64 + b"}", "input.too_deep", None),
        (b'{"arguments": {"s": "\xff"}}', "input.invalid_utf8", None),
        (b'{"arguments": {', "input.not_json", "/arguments"),
        (b"", "input.not_json", ""),
        (b"\xef\xbb\xbf{}", "input.not_json", ""),
    ],
)
async def test_text_that_is_not_strict_json(
    service: Service, text: bytes, code: str, pointer: str | None
) -> None:
    for path in ("/decide", "/decide/batch", "/tools/visible"):
        response = await service.client.post(path, content=text, headers=JSON)
        problem = response.json()
        assert (response.status_code, problem["code"]) == (400, code), path
        assert problem.get("pointer") == pointer
        assert problem["line"] == 1
        assert problem["column"] >= 1
    # Every refusal is recorded, since the caller is known.
    records = await service.records()
    assert [(record["type"], record["code"]) for record in records] == [("request.refused", code)] * 3
    assert records[0]["caller"]["profile"] == "runtime"


@pytest.mark.parametrize(
    ("change", "pointer"),
    [
        ({"subject": {}}, "/subject/agent"),
        ({"subject": {"agent": ""}}, "/subject/agent"),
        ({"subject": {"agent": 7}}, "/subject/agent"),
        ({"subject": {"agent": "a\nb"}}, "/subject/agent"),
        ({"subject": {"agent": "a" * 257}}, "/subject/agent"),
        ({"subject": {"agent": "coder-3 "}}, "/subject/agent"),
        ({"subject": {"agent": "coder-3\u200b"}}, "/subject/agent"),
        ({"subject": {"agent": "coder-3\ufe0f"}}, "/subject/agent"),
        ({"subject": {"agent": "coder-3\u034f"}}, "/subject/agent"),
        ({"subject": {"agent": "coder\u00a03"}}, "/subject/agent"),
        ({"subject": {"agent": "cafe\u0301"}}, "/subject/agent"),
        ({"subject": {"agent": "a", "session": "\u202es-1"}}, "/subject/session"),
        ({"subject": {"agent": "a", "role": "admin"}}, "/subject/role"),
        ({"effect": "allow"}, "/effect"),
        ({"arguments": []}, "/arguments"),
        ({"arguments": None}, "/arguments"),
        ({"dry_run": "false"}, "/dry_run"),
        ({"dry_run": 0}, "/dry_run"),
        ({"context": {"ask": 1}}, "/context/ask"),
        ({"context": {"now": "2020-01-01"}}, "/context/now"),
        ({"capability": "token"}, "/capability"),
        ({"provenance": {"path": {"source": "user"}}}, "/provenance/path"),
        ({"provenance": {"/path": {"trust": "trusted"}}}, "/provenance/~1path/source"),
        (
            {"tool": {"server": "fs", "name": "x", "advertised_digest": "sha256:00"}},
            "/tool/advertised_digest",
        ),
    ],
)
async def test_members_that_are_not_the_contracts(
    service: Service, change: dict[str, object], pointer: str
) -> None:
    body = {
        "subject": {"agent": "coder-1"},
        "tool": {"server": "fs", "name": "file_read"},
        "arguments": {"path": "/workspace/a"},
    } | change
    response = await service.client.post("/decide", json=body)
    problem = response.json()
    assert (response.status_code, problem["code"], problem["pointer"]) == (400, "input.invalid", pointer)
    (record,) = await service.records()
    assert (record["type"], record["pointer"]) == ("request.refused", pointer)


async def test_a_refusal_does_not_echo_what_was_sent(service: Service) -> None:
    secret = "correct-horse-battery-staple"
    body = {"subject": {"agent": {"password": secret}}, "tool": secret, "arguments": {}}
    response = await service.client.post("/decide", json=body)
    assert response.status_code == 400
    assert secret not in response.text
    assert secret not in json.dumps(await service.records())

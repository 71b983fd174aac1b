"""What holds of every record: one for each answer, without secrets, and enough to tell why (AU1, AU3).

What is told in place of a value: `tests/unit/core/test_redact.py`; kills, full disks and lost answers:
`tests/store`. Here it is the whole service, and the files that it wrote. AU2: `test_log_properties.py`.
"""

import asyncio
import contextlib
import hashlib
import json
import sqlite3
import tempfile
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cases.served import ALIKE, rules_of
from tests.property.test_log_properties import verified
from tests.support.service import Service
from tests.support.world import CREDENTIALS, world

RULES: Final = """
@id("work") permit (principal, action, resource in Directory::"/workspace");
@id("money") permit (principal, action in [Action::"transact", Action::"send", Action::"connect"], resource);
@id("money-asks") @requires("approval") forbid (principal, action in Action::"transact", resource);
@id("secrets") @reason("Not these.") forbid (principal, action, resource in Directory::"/workspace/.secrets");
@id("broken") forbid (principal, action in Action::"delete", resource)
when { 9223372036854775807 + context.now.toTime().toMilliseconds() > 0 };
@id("no-mail-for-lin") forbid (principal, action in Action::"bank/mail_send", resource)
when { principal.on_behalf_of == User::"lin" };
"""
LIMITS: Final = (
    "limits:\n  - {id: copies, reason: Enough., calls: 1, seconds: 60, per: [tenant], "
    "where: {tools: [fs/file_copy]}}\n"
)
RULESET: Final = world(
    RULES, limits=LIMITS, credentials=CREDENTIALS.replace('agents: ["*"]', "agents: [coder-1]")
)
JSON: Final = {"content-type": "application/json"}
A: Final = {"path": "/workspace/a", "text": "x"}

# What a decision can come to: the call, and its effect and code.
DECISIONS: Final[dict[str, tuple[str, dict[str, Any], dict[str, Any], str, str]]] = {
    "allow": ("fs/file_edit", A, {}, "allow", "policy.permit"),
    "forbid": ("fs/file_read", {"path": "/workspace/.secrets/a"}, {}, "deny", "policy.forbid"),
    "no match": ("fs/file_read", {"path": "/etc/a"}, {}, "deny", "policy.no_match"),
    "error": ("fs/file_remove", {"path": "/workspace/a"}, {}, "deny", "policy.error"),
    "ask": ("bank/transfer", {"to": "a", "amount": 1}, {}, "require_approval", "approval.required"),
    "asked for": ("fs/file_edit", A, {"context": {"ask": True}}, "require_approval", "approval.requested"),
    "unknown": ("fs/nothing", {"a": 1}, {}, "deny", "tool.unknown"),
    "hidden": (
        *("bank/mail_send", {"to": "a@example.com", "body": ""}),
        *({"subject": {"agent": "coder-1", "on_behalf_of": "lin", "session": "s"}}, "deny", "tool.unknown"),
    ),
    "no digest": ("web/fetch", {"url": "https://example.com/"}, {}, "deny", "tool.digest_required"),
    "schema": ("fs/file_edit", {"path": 1}, {}, "deny", "schema.invalid"),
    "no place": ("fs/file_read", {"path": "a\0b"}, {}, "deny", "canonical.refused"),
    "capability": (
        "fs/file_read",
        {"path": "/workspace/a"},
        {"capability": ["e30.e30.e30"]},
        "deny",
        "capability.proof",
    ),
    "dry run": ("fs/file_edit", A, {"dry_run": True}, "allow", "policy.permit"),
}


async def decision(service: Service, kind: str) -> list[dict[str, Any]]:
    """The answer to a call of that kind."""
    name, arguments, more, effect, code = DECISIONS[kind]
    answer = await service.decide(service.body(name, arguments, **more))
    assert (answer["effect"], answer["code"]) == (effect, code), kind
    return [answer]


async def repeat(service: Service) -> list[dict[str, Any]]:
    body = service.body("fs/file_edit", A)
    first, second = await service.decide(body), await service.decide(body)
    assert (second["repeated"], second["decision_id"]) == (True, first["decision_id"])
    return [first, second]


async def conflict(service: Service) -> list[dict[str, Any]]:
    body = service.body("fs/file_edit", A)
    answers = [await service.decide(body), await service.decide({**body, "arguments": {**A, "text": "y"}})]
    assert answers[1]["code"] == "operation.conflict"
    return answers


async def over_a_limit(service: Service) -> list[dict[str, Any]]:
    arguments = {"from": "/workspace/a", "to": "/workspace/b"}
    answers = [await service.decide(service.body("fs/file_copy", arguments)) for _ in range(2)]
    assert answers[1]["code"] == "limit.rate"
    return answers


async def batch(service: Service) -> list[dict[str, Any]]:
    calls = [service.body(*DECISIONS[kind][:2]) for kind in ("allow", "forbid", "ask", "schema")]
    response = await service.client.post("/decide/batch", json={"calls": calls})
    assert response.status_code == 200
    answers: list[dict[str, Any]] = response.json()["decisions"]
    return answers


async def at_once(service: Service) -> list[dict[str, Any]]:
    bodies = [service.body(*DECISIONS[kind][:2]) for kind in ("allow", "ask", "no match") for _ in range(3)]
    return list(await asyncio.gather(*(service.decide(body) for body in [*bodies, *bodies])))


DECIDE: Final[dict[str, Callable[[Service], Awaitable[list[dict[str, Any]]]]]] = {
    "repeat": repeat,
    "conflict": conflict,
    "over a limit": over_a_limit,
    "batch": batch,
    "at once": at_once,
}
# What is refused before a decision: the request, its status, and how many records it leaves.
REFUSED: Final[dict[str, tuple[dict[str, Any], int, int]]] = {
    "no json": ({"content": b"{", "headers": JSON}, 400, 1),
    "twice": ({"content": b'{"tool": 1, "tool": 2}', "headers": JSON}, 400, 1),
    "no members": ({"json": {}}, 400, 1),
    "no media type": ({"content": b"{}"}, 415, 1),
    "a stranger": ({"json": {}, "headers": {"Authorization": "Bearer nobody"}}, 401, 0),
}
REFUSED_SUBJECT: Final = "not its subject"
KINDS: Final = st.sampled_from([*DECISIONS, *DECIDE, *REFUSED, REFUSED_SUBJECT])


def check_told(answers: list[dict[str, Any]], records: list[dict[str, Any]]) -> None:
    """One record for each answer, which says what was answered."""
    assert sorted(answer["sequence"] for answer in answers) == [record["sequence"] for record in records]
    by_sequence = {record["sequence"]: record for record in records}
    for answer in answers:
        record = by_sequence[answer["sequence"]]
        assert {name: record[name] for name in ALIKE} == {name: answer[name] for name in ALIKE}
        assert rules_of(record) == rules_of(answer)
        assert record["type"] == ("decision.repeated" if answer.get("repeated") else "decision.made")
        assert record["fingerprint"] == answer.get("fingerprint")
        assert record["caller"]["key_id"]
        assert record["dry_run"] == answer.get("dry_run", False)
        # Refused before its rules were asked, a call has no verdicts to tell.
        if "accesses" in answer:
            assert places_of(record) == places_of(answer)


def places_of(told: dict[str, Any]) -> list[tuple[str, str, str]]:
    """(verb, resource, effect) of each access."""
    return [(access["verb"], access["uri"], access["effect"]) for access in told["accesses"]]


@settings(max_examples=12)
@given(st.lists(KINDS, min_size=3, max_size=14))
async def test_au1_every_answer_has_one_record_that_says_what_was_answered(kinds: list[str]) -> None:
    """Of every effect and code, of refusals before a decision too; and what was read back is on the disk."""
    with tempfile.TemporaryDirectory() as name:
        told: list[dict[str, Any]] = []
        async with Service.running(Path(name), {"default": RULESET}) as service:
            for kind in kinds:
                if kind in REFUSED or kind == REFUSED_SUBJECT:
                    subject = {"agent": "somebody"}
                    sent, status, count = REFUSED.get(
                        kind, ({"json": service.body("fs/file_edit", A, subject=subject)}, 403, 1)
                    )
                    refused = await service.client.post("/decide", **sent)
                    assert (refused.status_code, "effect" in refused.json()) == (status, False)
                    records = (await service.records())[len(told) :]
                    assert [(one["type"], one["status"], one["code"]) for one in records] == [
                        ("request.refused", status, refused.json()["code"])
                    ] * count
                else:
                    # A minute later every limit is free again.
                    service.clock.at_ms += 61_000
                    run = DECIDE.get(kind)
                    answers = await (run(service) if run else decision(service, kind))
                    records = (await service.records())[len(told) :]
                    check_told(answers, records)
                told += records
            (Path(name) / "jwks.json").write_bytes(
                (await service.client.get("/.well-known/jwks.json")).content
            )
        with contextlib.closing(sqlite3.connect(Path(name) / "authz.db")) as database:
            rows = database.execute("SELECT text FROM events ORDER BY sequence").fetchall()
        written = [json.loads(text) for (text,) in rows]
        assert [one["sequence"] for one in written] == list(range(1, len(told) + 1))
        assert [(one["type"], one.get("decision_id"), one.get("effect")) for one in written] == [
            (one["type"], one.get("decision_id"), one.get("effect")) for one in told
        ]
        assert verified(Path(name))["findings"] == []


def test_au1_the_kinds_above_are_most_of_what_a_decision_can_come_to() -> None:
    """So that the property is about all effects, and about the stages that can refuse today."""
    assert {effect for *_, effect, _ in DECISIONS.values()} == {"allow", "deny", "require_approval"}
    stages = {code.partition(".")[0] for *_, code in DECISIONS.values()} | {"operation", "limit"}
    assert stages == {"tool", "schema", "canonical", "operation", "capability", "policy", "approval", "limit"}


SECRET: Final = st.text("abcdefghjkmnpqrstuvwxyzABCDEFGHJKLMNPQRSTUVWXYZ23456789", min_size=16, max_size=24)


@dataclass(frozen=True)
class Hiding:
    """A call with a secret in it, and what its record must still tell."""

    name: str
    arguments: Callable[[str], dict[str, Any]]
    code: str
    kept: tuple[str, ...]
    """Names of arguments, or parts of the text of the record, that are no secret."""
    more: Callable[[str], dict[str, Any]] = lambda _: {}


LABELLED: Final = {"provenance": {"/path": {"source": "secret"}}}
HIDINGS: Final = {
    "payload": Hiding(
        "fs/file_edit",
        lambda s: {"path": "/workspace/a", "text": s},
        "policy.permit",
        ("file:///workspace/a",),
    ),
    "credential": Hiding(
        "bank/mail_send",
        lambda s: {"to": "ada@example.com", "body": "x", "password": s},
        "policy.permit",
        ("mailto:ada@example.com", "password"),
    ),
    "labelled path": Hiding(
        "fs/file_read",
        lambda s: {"path": f"/workspace/.secrets/{s}"},
        "policy.forbid",
        ("Not these.",),
        lambda _: LABELLED,
    ),
    "unknown tool": Hiding("x/y", lambda s: {"a": [s, {"b": s}]}, "tool.unknown", ("no such tool",)),
    "undeclared": Hiding(
        "fs/file_read", lambda s: {"path": "/workspace/a", "token": s}, "schema.invalid", ("token",)
    ),
    "name": Hiding(
        "fs/file_read", lambda s: {"path": "/workspace/a", f"sk_live_{s}": 1}, "schema.invalid", ()
    ),
    "url": Hiding(
        "web/fetch",
        lambda s: {"url": f"https://example.com/a?token={s}"},
        "tool.digest_required",
        ("digest",),
    ),
    "assignment": Hiding(
        "fs/file_read", lambda s: {"path": f"/workspace/password={s}"}, "policy.permit", ("/path",)
    ),
    "known shape": Hiding(
        "fs/file_read", lambda s: {"path": f"/etc/ghp_{s}{s}"}, "policy.no_match", ("read",)
    ),
    "note": Hiding(
        "bank/transfer", lambda s: {"to": "a", "amount": 1, "note": s}, "approval.required", ("money-asks",)
    ),
}


@settings(max_examples=12)
@given(st.lists(st.tuples(st.sampled_from(sorted(HIDINGS)), SECRET, SECRET), min_size=4, max_size=8))
async def test_au3_no_secret_is_on_the_disk_and_the_record_tells_why(
    drawn: list[tuple[str, str, str]],
) -> None:
    """Neither as it is nor as a digest that could be tried out without the key of the service."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        async with Service.running(folder, {"default": RULESET}) as service:
            for kind, secret, other in drawn:
                hiding = HIDINGS[kind]
                records = []
                for value in (secret, secret, other):
                    answer = await service.decide(
                        service.body(hiding.name, hiding.arguments(value), **hiding.more(value))
                    )
                    record = (await service.records())[-1]
                    assert (record["code"], record["effect"]) == (hiding.code, answer["effect"]), kind
                    assert rules_of(record) == rules_of(answer)
                    text = json.dumps(record)
                    assert all(part in text for part in hiding.kept), (kind, text)
                    records.append(record["arguments"])
                # Equal secrets can be told to be equal, and others to be others.
                assert records[0] == records[1]
                assert (records[0] == records[2]) == (secret == other)
            # Also while it is written, before any checkpoint of the journal.
            check_disk(folder, drawn)
        check_disk(folder, drawn)


async def test_au3_what_no_schema_declares_is_a_digest_beneath_an_argument_too(tmp_path: Path) -> None:
    """Nobody reviewed a member of what should have been a text, so it is as secret as any undeclared one."""
    async with Service.running(tmp_path, {"default": RULESET}) as service:
        arguments = {"path": {"nobody": "knows-what-this-is"}}
        answer = await service.decide(service.body("fs/file_read", arguments))
        assert answer["code"] == "schema.invalid"
        [record] = await service.records()
        assert "knows-what-this-is" not in json.dumps(record)


def check_disk(folder: Path, drawn: list[tuple[str, str, str]]) -> None:
    held = b"".join(path.read_bytes() for path in folder.iterdir() if path.is_file())
    assert b"decision.made" in held
    for _, *secrets in drawn:
        for secret in secrets:
            plain = hashlib.sha256(secret.encode()).hexdigest()
            for form in (secret, plain, hashlib.sha256(json.dumps(secret).encode()).hexdigest()):
                assert form.encode() not in held

"""What the cases have in common: one call through the whole service, with the one record that it leaves."""

import json
from collections.abc import Mapping
from typing import Any, Final

from tests.support.service import Service
from tests.support.shared import require_shared
from tests.support.world import TEXT, tool, tool_file

SHELL: Final = tool_file(
    "shell",
    tool(
        "run",
        [{"verb": "execute", "kind": "shell", "at": "/command"}],
        {"command": TEXT},
        roles={"/command": "command"},
        side_effect="cumulative",
    ),
)
"""A shell whose command lines are understood, program by program."""

ALIKE: Final = ("decision_id", "effect", "stage", "code", "policy_version")
"""What the caller is told and the record says in the same words."""


async def told(
    service: Service, name: str, arguments: Mapping[str, Any] | None = None, **more: Any
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The answer to one new call of `server/tool`, and the record that it left."""
    return await told_of(service, service.body(name, arguments or {}, **more))


async def told_of(service: Service, body: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The same of a request. Fails unless there is one new record, and it says what was answered."""
    before = len(await service.records())
    answer = await service.decide(body)
    [record] = (await service.records())[before:]
    assert {member: record[member] for member in ALIKE} == {member: answer[member] for member in ALIKE}
    assert rules_of(record) == rules_of(answer)
    assert record["subject"]["agent"] == body["subject"]["agent"]
    return answer, record


def rules_of(told: Mapping[str, Any]) -> list[str]:
    """The names of the rules that decided, as the answer or the record tells them."""
    return [rule["rule"] for rule in told["matched"]]


def verdict_of(answer: Mapping[str, Any]) -> tuple[str, str, list[str]]:
    """(effect, code, rules) of an answer."""
    return answer["effect"], answer["code"], rules_of(answer)


def ids_of_kind(kind: str) -> set[str]:
    """The ids of the public cases of a kind."""
    text = (require_shared() / "cases" / "cases.jsonl").read_text(encoding="utf-8")
    known = [json.loads(line) for line in text.split("\n") if line]
    return {case["id"] for case in known if case["kind"] == kind}


def ids_of_tests(module: Mapping[str, object]) -> set[str]:
    """The ids of the cases that a module tests: `test_bug_068_…` is the case `bug-068`."""
    return {"-".join(name.split("_")[1:3]) for name in module if name.startswith("test_bug_")}

"""What holds of every set of rules: precedence, errors, starts, changes, and full coverage (PE1 to PE5).

That the index of a large bundle loses nothing of this: `test_policy_index.py`. That the last good bundle
decides whatever becomes of the files (PE1, PE3): `tests/unit/service/test_reload_property.py`.
"""

import json
import os
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from authz.core.cases.deciding import Answered, answer
from authz.core.cases.mutation import with_policies
from authz.core.policy import parse_rule_file
from authz.model.call import Call
from authz.model.decision import AccessVerdict, Code, Effect, strictest
from authz.service.bundles import BundlesInForce
from tests.cases.served import verdict_of
from tests.policies.deciding import sample_cases, sample_ruleset
from tests.support.service import Service
from tests.support.world import PERMIT_ALL, call, decide_in, world

ROOT: Final = Path(__file__).parents[2]

# Always permits, and never matches: with it no tool is hidden, so that every call comes to the rules.
SHOWN: Final = '@id("shown") permit (principal, action, resource) when { context.session.id == "nobody\'s" };'
VERBS: Final = ("read", "write", None)
FOLDERS: Final = ("/workspace", "/workspace/a", "/workspace/a/b", "/etc", None)
SESSIONS: Final = ("s-1", "s-2", None)
FAILS: Final = "9223372036854775807 + context.now.toTime().toMilliseconds() > 0"


@dataclass(frozen=True)
class Rule:
    """A rule, and by itself what it should do: nothing here asks Cedar."""

    name: str
    kind: str
    verb: str | None
    folder: str | None
    session: str | None
    errs: bool

    @property
    def text(self) -> str:
        mark, effect = ('@requires("approval")', "forbid") if self.kind == "ask" else ("", self.kind)
        action = f'action in Action::"{self.verb}"' if self.verb else "action"
        resource = f'resource in Directory::"{self.folder}"' if self.folder else "resource"
        conditions = [f'context.session.id == "{self.session}"'] if self.session else ['context.role != ""']
        conditions += [FAILS] if self.errs else []
        return (
            f'@id("{self.name}") {mark} {effect} (principal, {action}, {resource})\n'
            f"when {{ {' && '.join(conditions)} }};\n"
        )

    def is_about(self, verb: str, path: str, session: str) -> bool:
        return (
            self.verb in (None, verb)
            and (self.folder is None or f"{path}/".startswith(f"{self.folder}/"))
            and self.session in (None, session)
        )


@st.composite
def rules(draw: st.DrawFn) -> list[Rule]:
    kinds = draw(st.lists(st.sampled_from(["permit", "permit", "forbid", "ask"]), min_size=1, max_size=7))
    return [
        Rule(
            name=f"r{number}",
            kind=kind,
            verb=draw(st.sampled_from(VERBS)),
            folder=draw(st.sampled_from(FOLDERS)),
            session=draw(st.sampled_from(SESSIONS)),
            errs=draw(st.sampled_from([False] * 9 + [True])),
        )
        for number, kind in enumerate(kinds)
    ]


@st.composite
def in_files(draw: st.DrawFn, made: list[Rule]) -> dict[str, str]:
    """The rules in any order, in one file or in several, whose names sort in any way."""
    names = draw(st.permutations(["a", "m", "z", "0"]))[:3]
    files: dict[str, str] = {}
    for rule in draw(st.permutations(made)):
        name = draw(st.sampled_from(names))
        files[name] = files.get(name, "") + rule.text
    return {**files, "shown": SHOWN}


def expected(made: list[Rule], verb: str, path: str, session: str) -> tuple[Effect, Code, set[str]]:
    """Deny, then ask, then allow, then deny by default; and an error of what is asked is a deny."""
    about = [rule for rule in made if rule.is_about(verb, path, session)]
    settled = [rule for rule in about if rule.kind != "ask"]
    if erring := {rule.name for rule in settled if rule.errs}:
        return Effect.DENY, Code.POLICY_ERROR, erring
    if forbids := {rule.name for rule in settled if rule.kind == "forbid"}:
        return Effect.DENY, Code.POLICY_FORBID, forbids
    permits = {rule.name for rule in settled}
    if not permits:
        return Effect.DENY, Code.POLICY_NO_MATCH, set()
    asking = [rule for rule in about if rule.kind == "ask"]
    if erring := {rule.name for rule in asking if rule.errs}:
        return Effect.DENY, Code.POLICY_ERROR, erring
    if asks := {rule.name for rule in asking}:
        return Effect.REQUIRE_APPROVAL, Code.APPROVAL_REQUIRED, asks
    return Effect.ALLOW, Code.POLICY_PERMIT, permits


def found(verdict: AccessVerdict) -> tuple[Effect, Code, set[str]]:
    return verdict.effect, verdict.code, {rule.rule for rule in verdict.rules}


PATHS: Final = ("/workspace/x", "/workspace/a/x", "/workspace/a/b", "/workspace/ab", "/etc/x")


@given(st.data(), rules())
def test_pe1_pe4_precedence_is_one_whatever_the_order_and_the_files(
    data: st.DataObject, made: list[Rule]
) -> None:
    ruleset = world(data.draw(in_files(made)))
    session = data.draw(st.sampled_from(["s-1", "s-2", "s-3"]))
    source, target = data.draw(st.sampled_from(PATHS)), data.draw(st.sampled_from(PATHS))
    decision = decide_in(
        ruleset, call("fs/file_copy", {"from": source, "to": target}, session=session)
    ).decision
    each = [expected(made, "read", source, session), expected(made, "write", target, session)]
    assert [found(verdict) for verdict in decision.verdicts] == each
    assert decision.effect is strictest([effect for effect, _, _ in each])
    named = [rules for effect, _, rules in each if effect is decision.effect]
    assert {rule.rule for rule in decision.matched} == set().union(*named)


STARTS: Final = 5
AT_A_TIME: Final = 2


@pytest.mark.slow
def test_pe2_every_start_in_a_process_of_its_own_answers_alike() -> None:
    """Whatever the seed of hashes, so that no order of a set or of a mapping is in any answer or record."""

    def start(seed: str) -> dict[str, str]:
        done = subprocess.run(
            [sys.executable, "-m", "tests.property.fresh_start"],
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, done.stderr.decode()
        answers: dict[str, str] = json.loads(done.stdout)
        return answers

    with ThreadPoolExecutor(AT_A_TIME) as pool:
        starts = list(pool.map(start, [*map(str, range(STARTS - 1)), "random"]))
    assert all(each == starts[0] for each in starts)
    # What was compared is not one code over and over.
    assert {"policy.permit", "policy.forbid", "policy.no_match", "policy.error"} <= set(
        starts[0]["codes"].split()
    )


VERSIONS: Final[dict[str, dict[str, Any]]] = {
    "allow": {"rules": PERMIT_ALL},
    "deny": {
        "rules": f'{PERMIT_ALL} @id("r") forbid (principal, action, resource in Directory::"/workspace/a");'
    },
    "ask": {"rules": f'{PERMIT_ALL} @id("r") @requires("approval") forbid (principal, action, resource);'},
    "hide": {"rules": f'{PERMIT_ALL} @id("r") forbid (principal, action in Action::"read", resource);'},
    "staff": {
        "rules": '@id("everything") permit (principal, action, resource) '
        'when { principal.on_behalf_of in Group::"staff" };'
    },
    "left": {
        "rules": '@id("everything") permit (principal, action, resource) '
        'when { principal.on_behalf_of in Group::"staff" };',
        "entities": "groups: {staff: {}}\nusers: {ada: {}}\nagents: {coder-1: {}}\n",
    },
}
IN_SERVICE: Final = {name: world(**parts) for name, parts in VERSIONS.items()}
REQUESTS: Final = (
    ("fs/file_read", {"path": "/workspace/a"}),
    ("fs/file_edit", {"path": "/workspace/a", "text": "x"}),
    ("fs/file_edit", {"path": "/workspace/b", "text": "x"}),
)
Verdict = tuple[str, str, list[str]]
PERMITTED: Final[Verdict] = ("allow", "policy.permit", ["everything"])
FORBIDDEN: Final[Verdict] = ("deny", "policy.forbid", ["r"])
ASKED: Final[Verdict] = ("require_approval", "approval.required", ["r"])
UNKNOWN: Final[Verdict] = ("deny", "tool.unknown", [])
# Written down and not asked of an engine, which could remember the same wrong thing.
EXPECTED: Final[dict[str, tuple[Verdict, Verdict, Verdict]]] = {
    "allow": (PERMITTED, PERMITTED, PERMITTED),
    "deny": (FORBIDDEN, FORBIDDEN, PERMITTED),
    "ask": (ASKED, ASKED, ASKED),
    "hide": (UNKNOWN, PERMITTED, PERMITTED),
    "staff": (PERMITTED, PERMITTED, PERMITTED),
    "left": (UNKNOWN, UNKNOWN, UNKNOWN),
}
EVERY_TOOL: Final = ["file_copy", "file_edit", "file_read", "file_remove"]
VISIBLE: Final = dict.fromkeys(VERSIONS, EVERY_TOOL) | {"hide": ["file_edit", "file_remove"], "left": []}


async def shown_by(service: Service) -> tuple[list[str], str]:
    body = {"subject": {"agent": "coder-1", "on_behalf_of": "ada"}, "servers": [{"server": "fs"}]}
    response = await service.client.post("/tools/visible", json=body)
    assert response.status_code == 200, response.text
    [server] = response.json()["servers"]
    return sorted(entry["name"] for entry in server["tools"]), response.json()["policy_version"]


@settings(max_examples=15)
@given(
    st.lists(
        st.tuples(st.sampled_from(sorted(VERSIONS)), st.lists(st.integers(0, len(REQUESTS) - 1), max_size=4)),
        min_size=2,
        max_size=6,
    )
)
async def test_pe3_nothing_outlives_the_version_that_it_was_decided_by(
    steps: list[tuple[str, list[int]]],
) -> None:
    """New calls, and repeats under the ids of the first, are answered by the rules of now."""
    with tempfile.TemporaryDirectory() as folder:
        bundles = BundlesInForce({"default": IN_SERVICE["allow"]})
        async with Service.running(Path(folder), bundles) as service:
            first = [service.body(name, arguments) for name, arguments in REQUESTS]
            for version, asked in steps:
                bundles.swap("default", IN_SERVICE[version], service.clock.now_ms())
                for number in asked:
                    name, arguments = REQUESTS[number]
                    for body in (first[number], service.body(name, arguments)):
                        answered = await service.decide(body)
                        assert verdict_of(answered) == EXPECTED[version][number], version
                        assert answered["policy_version"] == IN_SERVICE[version].version
                assert await shown_by(service) == (VISIBLE[version], IN_SERVICE[version].version)


EARLIER: Final = 'context.now < datetime("1970-01-01T00:00:00Z")'
NEVER: Final = f'@id("never") permit (principal, action, resource) when {{ {EARLIER} }};'
EVERY: Final = f'@id("every") forbid (principal, action, resource) when {{ !({EARLIER}) }};'


def under(text: str) -> list[tuple[str, list[AccessVerdict]]]:
    """(tool, verdicts) of each of the sample's cases that comes to its rules, under other rules."""
    ruleset = with_policies(sample_ruleset(), list(parse_rule_file("other.cedar", text)))
    seen = []
    for case in sample_cases():
        before = answer(case, sample_ruleset())
        # A limit that is full is full only for what rules allow.
        if isinstance(before, Answered) and before.outcome.decision.verdicts and not case.given.reached:
            after = answer(case, ruleset)
            assert isinstance(after, Answered)
            assert after.outcome.decision.effect is Effect.DENY
            seen.append((before.call.tool_name, list(after.outcome.decision.verdicts)))
    assert {name for name, _ in seen} == {
        tool.descriptor.qualified_name for tool in sample_ruleset().tools.values()
    }
    return seen


def test_pe5_every_access_of_every_tool_comes_to_the_rules() -> None:
    """No kind of action is decided elsewhere: the default denies it, and a rule about it does."""
    for name, verdicts in under(NEVER):
        assert {(verdict.code, len(verdict.rules)) for verdict in verdicts} == {(Code.POLICY_NO_MATCH, 0)}, (
            name
        )
    for name, verdicts in under(NEVER + EVERY):
        assert {found(verdict)[1:] == (Code.POLICY_FORBID, {"every"}) for verdict in verdicts} == {True}, name


NAME: Final = st.text(min_size=1, max_size=12) | st.sampled_from(
    [
        "fs",
        "FS",
        "fs ",
        "file_read",
        "file_read ",
        "file-read",
        "*",
        "fs/file_read",
        "mcp__fs__file_read",
        "web",
    ]
)


@given(NAME, NAME, st.dictionaries(st.text(max_size=4), st.integers(0, 3) | st.text(max_size=4), max_size=3))
def test_pe5_what_is_not_in_the_registry_is_denied(server: str, name: str, arguments: dict[str, Any]) -> None:
    """Where everything is permitted, and whatever else the call says."""
    ruleset = IN_SERVICE["allow"]
    made = Call(
        **{
            **{field: getattr(call("fs/file_read"), field) for field in Call.__dataclass_fields__},
            "server": server,
            "tool": name,
            "arguments": arguments,
        }
    )
    decision = decide_in(ruleset, made).decision
    if (server, name) in ruleset.tools:
        assert decision.code is not Code.TOOL_UNKNOWN
    else:
        assert (decision.effect, decision.code, decision.matched) == (Effect.DENY, Code.TOOL_UNKNOWN, ())

"""The decision without a server: the core as a whole, its stages, and Cedar alone."""

import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import cedarpy
import orjson

from authz.api.wire import decision_out, dump, parse_decide
from authz.bundle.load import load_bundle
from authz.bundle.self_protection import Protected
from authz.core.claims import check_claims
from authz.core.decide import Outcome, check_arguments, decide, find_tool
from authz.core.facts import Facts
from authz.core.fingerprint import call_fingerprint, operation_key, session_key
from authz.core.judge import evaluate_policy
from authz.core.provenance import check_provenance
from authz.core.record import decision_event
from authz.core.redact import Redactor
from authz.core.ruleset import Ruleset, Tool
from authz.core.strict_json import loads
from authz.core.tools import CanonicalCall, canonicalize_call
from authz.model.call import Call
from authz.model.caller import Caller
from authz.model.capability import NO_CAPABILITY
from authz.model.decision import Effect
from authz.model.record import Committed
from tests.bench.calls import VARIANTS, call_body, spread_body
from tests.bench.timing import cpu_us

NOW_MS = 1_796_000_000_000
SECRET = b"bench-secret-of-thirty-two-bytes"
# Places like those of a real process, so that the built-in rule has its usual size.
PROTECTED = Protected(
    directories=frozenset({"/opt/authz/policies", "/opt/authz/var"}),
    hosts=frozenset({"localhost"}),
    port=8700,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """One call against one bundle, with everything that the stages hand on to each other."""

    body: bytes
    call: Call
    facts: Facts
    tool: Tool
    outcome: Outcome
    canonical: CanonicalCall

    @classmethod
    def load(cls, bundle: Path) -> "World":
        """Load `bundle` and decide the benchmark's call once."""
        return cls.of(load_bundle(bundle, PROTECTED))

    @classmethod
    def of(cls, ruleset: Ruleset) -> "World":
        """Decide the benchmark's call once under `ruleset`."""
        body = orjson.dumps(call_body("000000000001"))
        call = parse_decide(loads(body))
        caller = Caller(
            key_id="bench", tenant="default", roles=frozenset({"decide"}), profile=ruleset.profiles["runtime"]
        )
        facts = Facts(
            caller=caller,
            ruleset=ruleset,
            now_ms=NOW_MS,
            decision_id="00000000-0000-4000-8000-000000000000",
            operation=None,
            exposed=frozenset(),
            secret=SECRET,
            ttl_ms=300_000,
        )
        tool = find_tool(call, facts)
        assert isinstance(tool, Tool), tool
        outcome = decide(call, facts)
        assert outcome.decision.effect is Effect.ALLOW, outcome.decision
        believed = check_claims(call.claims, caller.profile)
        canonical = canonicalize_call(call, tool.descriptor, tool.roles, call.arguments, believed)
        assert isinstance(canonical, CanonicalCall), canonical
        return cls(body=body, call=call, facts=facts, tool=tool, outcome=outcome, canonical=canonical)


def measure_core(bundle: Path, *, runs: int, calls: int) -> dict[str, float]:
    """CPU µs per call of the core, of its stages, and of what stands around it on the way of a request."""
    world = World.load(bundle)
    call, facts, tool, canonical = world.call, world.facts, world.tool, world.canonical
    caller, ruleset = facts.caller, facts.ruleset
    believed = check_claims(call.claims, caller.profile)
    provenance = check_provenance(call, canonical.arguments, tool.roles, caller.profile, facts.exposed)
    parsed = loads(world.body)
    redactor = Redactor(SECRET)
    committed = Committed(writer="bench", sequence=1, recorded_at_ms=NOW_MS, hash="0" * 64)

    def fingerprint() -> str:
        return call_fingerprint(
            tenant=caller.tenant,
            call=call,
            descriptor=tool.descriptor,
            arguments=canonical.arguments,
            accesses=canonical.accesses,
            cwd=believed.base.cwd,
            root=believed.base.root,
        )

    pieces: dict[str, Any] = {
        "strict_parse": lambda: loads(world.body),
        "wire_validation": lambda: parse_decide(parsed),
        "operation_and_session_key": lambda: (
            operation_key(caller.tenant, call),
            session_key(caller.tenant, call),
        ),
        "decide": lambda: decide(call, facts),
        "decide.find_tool": lambda: find_tool(call, facts),
        "decide.check_arguments": lambda: check_arguments(call, tool),
        "decide.canonicalize": lambda: canonicalize_call(
            call, tool.descriptor, tool.roles, call.arguments, believed
        ),
        "decide.provenance": lambda: check_provenance(
            call, canonical.arguments, tool.roles, caller.profile, facts.exposed
        ),
        "decide.fingerprint": fingerprint,
        "decide.policy": lambda: evaluate_policy(
            call, facts, tool, canonical, believed, provenance, NO_CAPABILITY
        ),
        "record": lambda: decision_event(call, world.outcome, caller, ruleset, redactor, NOW_MS),
        "answer": lambda: dump(decision_out(call, world.outcome.decision, committed)),
    }
    pieces["decide.spread"] = _spread(world)
    measured = {name: cpu_us(piece, runs=runs, calls=calls) for name, piece in pieces.items()}
    asked = _questions_to_cedar(world)
    measured["cedar_alone"] = cpu_us(lambda: [ask() for ask in asked], runs=runs, calls=calls)
    measured["cedar_evaluations"] = float(len(asked))
    return measured


def spread_calls() -> list[Call]:
    """The calls that are spread over tools, principals and places."""
    return [
        parse_decide(loads(orjson.dumps(spread_body(variant, f"{variant:012d}"))))
        for variant in range(VARIANTS)
    ]


def calls_of_strangers(count: int) -> Iterator[Call]:
    """Calls of agents that no bundle knows, no two of them by one agent or in one place."""
    for number in range(count):
        body = spread_body(4 * number, f"{number:012d}")
        body["subject"] |= {"agent": f"stranger-{number}", "on_behalf_of": f"unknown-{number}"}
        body["arguments"]["path"] = f"/workspace/service-{number % 1000}/.pipeline/{number}.yaml"
        yield parse_decide(loads(orjson.dumps(body)))


def _spread(world: World) -> Callable[[], object]:
    """Decides the next of the calls that are spread over tools, principals and places, in turn."""
    calls = spread_calls()
    for call in calls:
        # Both the check that each is allowed, and the warm-up.
        decision = decide(call, world.facts).decision
        assert decision.effect is Effect.ALLOW, (call, decision)
    turn = itertools.cycle(calls)
    return lambda: decide(next(turn), world.facts)


def _questions_to_cedar(world: World) -> list[Any]:
    """The very calls that one decision makes to Cedar, to be made again without anything around them."""
    asked: list[Any] = []
    with _recording("is_authorized", asked):
        decide(world.call, world.facts)
    assert asked, "the decision did not ask Cedar"
    return asked


@contextmanager
def _recording(name: str, asked: list[Any]) -> Iterator[None]:
    real = getattr(cedarpy, name)

    def ask(*args: Any, **kwargs: Any) -> Any:
        asked.append(lambda: real(*args, **kwargs))
        return real(*args, **kwargs)

    with mock.patch.object(cedarpy, name, ask):
        yield

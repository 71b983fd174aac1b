"""What a capability adds to a decision whose chain is remembered: with and without one, in turn.

    python -m tests.bench.capabilities_decided

In process the same call is decided by the same facts, once as it stands and once with a chain of 1, 3 or 8
links and a proof. What is added beyond stage 6 is the policies' evaluation for each further agent. Over HTTP
one server is asked in turn by whoever presents nothing and by holders: that counts everything, the longer
body, the digest that the proof signs, the look-up of the chain and the longer record included.
"""

import itertools
import json
import os
import statistics
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

import httpx
from authz_client.capabilities import (
    SigningKey,
    generate_key,
    narrow,
    new_jti,
    now_seconds,
    prove,
    request_digest,
    verify_proof,
)

from authz.core.capability import check_capability
from authz.core.decide import decide
from authz.core.facts import Facts
from authz.core.possession import Held, check_possession
from authz.model.call import Call
from authz.model.capability import CapabilityFacts
from authz.model.decision import Effect
from tests.bench.bundle import write_bundle
from tests.bench.calls import ALLOWED, call_body, render
from tests.bench.core import World
from tests.bench.load import send_all
from tests.bench.server import Cores, Server, serving_authz
from tests.bench.timing import cpu_us_in_turn, median_difference
from tests.support.chains import entry, handed_on, issued, presented, proof_of, root_record, token_rules
from tests.support.chains import tool_digests as digests_of

LINKS: Final = (1, 3, 8)
TENANT: Final = "default"
WORK: Final = entry("fs/file_edit", "file:///workspace")
BUDGET: Final = entry("fs/file_edit", "file:///workspace", budget={"calls": 1_000_000})
ISSUING: Final = '@id("issuing") permit (principal, action == Action::"issue", resource);\n'
WARM_UP: Final = 300
GIVEN: Final = b'"access_token"'


def measure_added(bundle: Path, *, runs: int, calls: int) -> dict[str, dict[str, float]]:
    """CPU µs by number of links: a decision without and with, what that adds, and stage 6 alone."""
    world = World.load(bundle)
    return {str(links): _added(world, links, runs=runs, calls=calls) for links in LINKS}


def _added(world: World, links: int, *, runs: int, calls: int) -> dict[str, float]:
    call, facts = _holding(world, links)
    without = replace(call, capability=(), proof=None)
    held = check_possession(call, facts)
    assert isinstance(held, Held), held

    def stage_6() -> Any:
        found = check_possession(call, facts)
        assert isinstance(found, Held)
        return check_capability(call, facts, world.tool, world.canonical, found)

    assert isinstance(stage_6(), CapabilityFacts)
    assert {decide(one, facts).decision.effect for one in (call, without)} == {Effect.ALLOW}
    assert facts.tokens is not None
    rules = facts.tokens

    def proof() -> Any:
        return verify_proof(
            call.proof or "",
            chain=held.chain,
            audience=rules.audience,
            request_digest=call.request_digest,
            now=facts.now_ms // 1000,
        )

    pieces: dict[str, Callable[[], object]] = {
        "without": lambda: decide(without, facts),
        "with": lambda: decide(call, facts),
        "stage_6": stage_6,
        "proof": proof,
    }
    found = cpu_us_in_turn(pieces, runs=runs, calls=calls)
    told = {name: statistics.median(values) for name, values in found.items()}
    told["added"] = median_difference(found["with"], found["without"])
    return {name: round(value, 1) for name, value in told.items()}


def _holding(world: World, links: int) -> tuple[Call, Facts]:
    """The benchmark's call by the leaf of a chain, and the facts with the chain remembered."""
    now = world.facts.now_ms // 1000
    chain = issued([WORK], iat=now, exp=now + 600)
    for _ in range(1, links):
        chain = handed_on(chain, iat=now)
    agent = "coder-1" if links == 1 else f"sub-{links - 1}"
    call = replace(world.call, subject=replace(world.call.subject, agent=agent), capability=chain)
    call = replace(call, proof=proof_of(chain, call.request_digest, iat=now))
    root = root_record(chain, tenant=TENANT, tool_digests=digests_of(world.facts.ruleset))
    known = presented(chain, world.facts.ruleset, root=root, recorded=True)
    return call, replace(world.facts, presented=known, tokens=token_rules())


@dataclass(frozen=True, slots=True, kw_only=True)
class _Holder:
    """A chain that a running service has issued, and its leaf's key."""

    chain: tuple[str, ...]
    key: SigningKey
    agent: str
    audience: str

    def hand_on(self, agent: str) -> "_Holder":
        key = generate_key()
        chain = narrow(self.chain, self.key, holder=key.public, agent=agent, jti=new_jti(), iat=now_seconds())
        return _Holder(chain=chain, key=key, agent=agent, audience=self.audience)

    def prove(self, body: dict[str, Any]) -> str:
        return prove(
            self.chain[-1],
            self.key,
            audience=self.audience,
            request_digest=request_digest(body),
            jti=new_jti(),
            iat=now_seconds(),
        )


def measure_held(folder: Path, cores: Cores, *, runs: int, requests: int) -> dict[str, float]:
    """CPU µs of the server by what is sent; `plain` presents nothing. On one connection."""
    bundle = folder / "held-bundle"
    write_bundle(bundle, 100)
    (bundle / "rules" / "issuing.cedar").write_text(ISSUING, encoding="utf-8")
    with serving_authz("held", bundle, folder / "held-var", cores) as server:
        return _in_turn(server, runs=runs, requests=requests)


def _in_turn(server: Server, *, runs: int, requests: int) -> dict[str, float]:
    key: str = server.requests.key  # type: ignore[union-attr]
    root, counted = _issue(server, key, WORK), _issue(server, key, BUDGET)
    holders: dict[str, _Holder | None] = {"plain": None, "1 link": root, "1 link, budget": counted}
    child = root
    for depth in range(1, max(LINKS)):
        child = child.hand_on(f"sub-{depth}")
        if depth + 1 in LINKS:
            holders[f"{depth + 1} links"] = child
    numbers = itertools.count(1)
    kinds: dict[str, Callable[[int], list[bytes]]] = {
        name: partial(_calls, holder, key, numbers) for name, holder in holders.items()
    }
    kinds["attenuate"] = lambda count: [_exchange(root, key) for _ in range(count)]
    found: dict[str, list[float]] = {name: [] for name in kinds}
    for name, made in kinds.items():
        _cpu_us(server, name, made(WARM_UP))
    for _ in range(runs):
        for name, made in kinds.items():
            found[name].append(_cpu_us(server, name, made(requests)))
    told = {name: statistics.median(values) for name, values in found.items()}
    for name in list(holders)[1:]:
        told[f"{name}, added"] = median_difference(found[name], found["plain"])
    return {name: round(value, 1) for name, value in told.items()}


def _cpu_us(server: Server, name: str, made: list[bytes]) -> float:
    before = server.cpu_seconds()
    is_exchange = name == "attenuate"
    send_all(
        server.port,
        made,
        connections=1,
        expected=GIVEN if is_exchange else ALLOWED,
        status=b"201" if is_exchange else b"200",
    )
    return (server.cpu_seconds() - before) / len(made) * 1e6


def _calls(holder: _Holder | None, key: str, numbers: Iterator[int], count: int) -> list[bytes]:
    """Signed before they are sent, and soon enough: a proof is taken for a minute."""
    made = []
    for number in itertools.islice(numbers, count):
        body = call_body(f"{number:012d}")
        if holder is not None:
            body["subject"]["agent"] = holder.agent
            body |= {"proof": holder.prove(body), "capability": list(holder.chain)}
        made.append(render("POST", "/decide", json.dumps(body).encode(), key))
    return made


def _issue(server: Server, key: str, work: dict[str, Any]) -> _Holder:
    holder = generate_key()
    body = {
        "agent": "coder-1",
        "on_behalf_of": "ada",
        "holder": holder.public.jwk,
        "authorization_details": [work],
        "expires_in": 3600,
        "max_depth": 8,
    }
    headers = {"Authorization": f"Bearer {key}"}
    with httpx.Client(base_url=f"http://127.0.0.1:{server.port}", trust_env=False) as client:
        given = client.post("/capabilities", json=body, headers=headers).raise_for_status().json()
    return _Holder(
        chain=tuple(given["capability"]), key=holder, agent=given["agent"], audience=given["audience"]
    )


def _exchange(holder: _Holder, key: str) -> bytes:
    body: dict[str, Any] = {
        "grant_type": "urn:ietf:params:oauth:grant-type:token-exchange",
        "subject_token_type": "urn:ietf:params:oauth:token-type:jwt",
        "agent": "sub-1",
        "holder": holder.key.public.jwk,
        "expires_in": 60,
    }
    body |= {"proof": holder.prove(body), "subject_token": list(holder.chain)}
    return render("POST", "/capabilities/attenuate", json.dumps(body).encode(), key)


def main() -> None:
    """Measure this alone, and print."""
    cores = Cores.choose()
    os.sched_setaffinity(0, {cores.load})
    with tempfile.TemporaryDirectory(prefix="authz-bench-") as name:
        folder = Path(name)
        write_bundle(folder / "bundle", 100)
        found = {
            "in process": measure_added(folder / "bundle", runs=7, calls=500),
            "http": measure_held(folder, cores, runs=5, requests=500),
        }
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()

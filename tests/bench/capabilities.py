"""What capabilities cost: chains of 1, 3 and 8 links, a proof, an attenuation, a remembered chain."""

import hashlib
import json
from collections.abc import Callable
from typing import Any, Final

from authz_client.capabilities import (
    NOTHING_REVOKED,
    CallAccess,
    SigningKey,
    ToolCall,
    VerifiedChain,
    chain_digest,
    check_call,
    issue_root,
    narrow,
    prove,
    recheck,
    request_digest,
    signing_key,
    verify_chain,
    verify_proof,
)

from tests.bench.timing import cpu_us

NOW: Final = 1_800_000_000
AUDIENCE: Final = "https://pdp.example.com"
ISSUER: Final = "https://issuer.example.com"
ENTRY: Final = {
    "type": "agent_tool_call",
    "actions": ["fs/file_read", "fs/file_edit"],
    "locations": ["file:///srv/work"],
    "constraints": {"max_bytes": {"max": 1000}},
}
CALL: Final = ToolCall(
    tool="fs/file_edit",
    accesses=(CallAccess(verb="write", uri="file:///srv/work/app/main.py", argument="/path"),),
    arguments={"path": "/srv/work/app/main.py", "max_bytes": 500},
)
BODY: Final = {
    "subject": {"agent": "a"},
    "tool": {"server": "fs", "name": "file_edit"},
    "arguments": dict(CALL.arguments),
}


def _key(name: int) -> SigningKey:
    return signing_key(hashlib.sha256(f"a key for the bench only: {name}".encode()).digest())


KEYS: Final = [_key(number) for number in range(10)]
PUBLISHED: Final = {"root": KEYS[9].public}


def _chain(links: int) -> tuple[str, ...]:
    chain: tuple[str, ...] = (
        issue_root(
            KEYS[9], kid="root", issuer=ISSUER, audience=AUDIENCE, subject="ada", holder=KEYS[0].public,
            entries=[ENTRY], jti="j-0", iat=NOW, exp=NOW + 600, max_depth=8,
        ),
    )  # fmt: skip
    for depth in range(1, links):
        chain = narrow(
            chain, KEYS[depth - 1], holder=KEYS[depth].public, agent=f"s-{depth}", jti=f"j-{depth}", iat=NOW
        )
    return chain


def _verified(chain: tuple[str, ...]) -> VerifiedChain:
    found = verify_chain(
        chain, now=NOW, audience=AUDIENCE, issuer=ISSUER, keys=PUBLISHED, revoked=NOTHING_REVOKED
    )
    assert isinstance(found, VerifiedChain), found
    return found


def measure_capabilities(*, runs: int, calls: int) -> dict[str, float]:
    """CPU µs each. `remembered` is what a cached chain of 8 costs for every use, without its proof."""
    chains = {links: _chain(links) for links in (1, 3, 8)}
    verified = {links: _verified(chain) for links, chain in chains.items()}
    digest = request_digest(BODY)
    leaf = KEYS[7]
    proof = prove(chains[8][-1], leaf, audience=AUDIENCE, request_digest=digest, jti="p", iat=NOW)
    wire = json.dumps(BODY).encode()

    def remembered() -> Any:
        chain_digest(chains[8])
        recheck(
            verified[8], now=NOW, audience=AUDIENCE, issuer=ISSUER, keys=PUBLISHED, revoked=NOTHING_REVOKED
        )
        return check_call(verified[8].entries, CALL)

    def proved() -> Any:
        return verify_proof(proof, chain=verified[8], audience=AUDIENCE, request_digest=digest, now=NOW)

    measured: dict[str, Callable[[], Any]] = {
        **{f"verify {links}": (lambda chain=chain: _verified(chain)) for links, chain in chains.items()},
        "verify proof": proved,
        "prove": lambda: prove(
            chains[8][-1],
            leaf,
            audience=AUDIENCE,
            request_digest=request_digest(json.loads(wire)),
            jti="p",
            iat=NOW,
        ),
        "attenuate": lambda: narrow(chains[3], KEYS[2], holder=KEYS[3].public, agent="x", jti="j", iat=NOW),
        "remembered": remembered,
        "remembered, with proof": lambda: (remembered(), proved()),
    }
    return {name: round(cpu_us(function, runs=runs, calls=calls), 1) for name, function in measured.items()}


if __name__ == "__main__":
    for name, cost in measure_capabilities(runs=5, calls=200).items():
        print(f"{name:24} {cost:8.1f} µs")

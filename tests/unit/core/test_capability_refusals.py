"""How stage 6 refuses: every answer, and every record, says which link refused and by what.

The refusals of the format itself are those of the token profile (`tests/clients/python/capabilities`).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final

import pytest
from authz_client.capabilities import Reason, chain_digest

from authz.core.capability_refusals import CODES, OwnReason
from authz.core.decide import Outcome, decide
from authz.model.call import Call
from authz.model.capability import LinkOrigin, Presented
from authz.model.decision import Code, Effect, Next, Stage
from authz.model.resource import ResolvedPath
from tests.support.chains import (
    HOLDERS,
    NOW_S,
    decide_holding,
    entry,
    handed_on,
    holding,
    issued,
    presented,
    proof_of,
    revoking,
    root_record,
    token_rules,
    tool_digests,
    verified,
)
from tests.support.world import (
    NOW_MS,
    call,
    facts,
    record_of,
    world,
)

WORLD = world()
ALL = ["fs/file_read", "fs/file_edit", "fs/file_remove", "fs/file_copy"]
ROOT = issued([entry(ALL, "file:///workspace")])
CHILD = handed_on(ROOT, [entry("fs/file_read", "file:///workspace/a")])
GRANDCHILD = handed_on(CHILD)
READ = call("fs/file_read", path="/workspace/a/x")
CHILD_READ = call("fs/file_read", path="/workspace/a/x", agent="sub-1")


def allowed(outcome: Outcome) -> bool:
    return outcome.decision.effect is Effect.ALLOW


@dataclass(frozen=True, kw_only=True)
class Refusal:
    """A call that stage 6 refuses, and what the answer and the record say of it."""

    name: str
    code: Code
    reason: str
    made: Call = CHILD_READ
    chain: Sequence[str] = CHILD
    known: Callable[[], dict[str, Any]] = dict
    proof: dict[str, Any] = field(default_factory=dict)
    link: int | None = 1
    agent: str | None = "sub-1"
    component: str | None = None
    uses_proof: bool = False
    """Whether the proof held, and is used up."""


def presenting(chain: Sequence[str] = CHILD, **changes: Any) -> Callable[[], dict[str, Any]]:
    return lambda: {"presented": presented(chain, WORLD, **changes)}


def on_record(**changes: Any) -> Callable[[], dict[str, Any]]:
    """The chain, with a record of its root that is otherwise than it was issued."""
    return presenting(root=root_record(CHILD, **({"tool_digests": tool_digests(WORLD)} | changes)))


def by_rules(**changes: Any) -> Callable[[], dict[str, Any]]:
    return lambda: {"tokens": token_rules(**changes)}


def revoked(**sets: Sequence[str]) -> Callable[[], dict[str, Any]]:
    return by_rules(revoked=revoking(**sets))


def reading(path: str, **more: Any) -> Call:
    return call("fs/file_read", path=path, agent="sub-1", **more)


def editing(text: str) -> Call:
    return call("fs/file_edit", path="/workspace/a/x", text=text, agent="sub-1")


def for_user(user: str | None) -> Call:
    return replace(CHILD_READ, subject=replace(CHILD_READ.subject, on_behalf_of=user))


LINKS = verified(CHILD).links
CONDITIONED = handed_on(
    ROOT, [entry("fs/file_edit", "file:///workspace", constraints={"text": {"max_length": 3}})]
)
FUTURE = handed_on(ROOT, nbf=NOW_S + 300)
FORGED = (*ROOT, CHILD[1][:-4] + "AAAA")
OTHER = "https://other.example.com"
NOBODYS: Final[dict[str, Any]] = {"link": None, "agent": None}
ROOTS: Final[dict[str, Any]] = {"link": 0, "agent": "coder-1"}
INVALID = partial(Refusal, code=Code.CAPABILITY_INVALID)
UNKNOWN = partial(Refusal, code=Code.CAPABILITY_UNKNOWN, reason="root_unknown", **ROOTS)
REVOKED = partial(Refusal, code=Code.CAPABILITY_REVOKED)
PROOF = partial(Refusal, code=Code.CAPABILITY_PROOF)
SUBJECT = partial(Refusal, code=Code.CAPABILITY_SUBJECT, uses_proof=True)
OUTSIDE = partial(
    Refusal, code=Code.CAPABILITY_OBJECT_OUTSIDE, reason="object_outside", component="O", uses_proof=True
)
NO_RIGHT = partial(
    Refusal, code=Code.CAPABILITY_RIGHT_MISSING, reason="right_missing", component="R", uses_proof=True
)
CHANGED = partial(
    Refusal,
    code=Code.CAPABILITY_TOOL_CHANGED,
    reason="tool_changed",
    component="R",
    uses_proof=True,
    **ROOTS,
)
AS_RECORDED: Final[dict[str, Any]] = {
    "tenant": "other",
    "link_hash": LINKS[1].link_hash,
    "origin": LinkOrigin.SEEN,
    "jti": "j-9",
    "holder": LINKS[1].holder.thumbprint,
    "agent": "other",
    "subject": "grace",
    "expires_at_ms": 0,
    "inherited": ((),),
}
REFUSALS = [
    INVALID(name="not loaded", reason="not_loaded", known=lambda: {"presented": None}, **NOBODYS),
    INVALID(name="no rules", reason="not_loaded", known=lambda: {"tokens": None}, **NOBODYS),
    INVALID(name="of another chain", reason="not_loaded", known=presenting(ROOT), **NOBODYS),
    INVALID(
        name="forged", reason="signature_invalid", chain=FORGED, known=presenting(FORGED), link=1, agent=None
    ),
    INVALID(name="another key", reason="kid_unknown", known=by_rules(keys={}), **ROOTS),
    INVALID(name="another issuer", reason="iss_mismatch", known=by_rules(issuer=OTHER), **ROOTS),
    INVALID(name="another audience", reason="aud_mismatch", known=by_rules(audience=OTHER), **ROOTS),
    UNKNOWN(
        name="on no record",
        known=lambda: {"presented": Presented(digest=chain_digest(CHILD), verified=verified(CHILD))},
    ),
    *(
        UNKNOWN(name=f"on record with another {name}", known=on_record(**{name: value}))
        for name, value in AS_RECORDED.items()
    ),
    UNKNOWN(name="not narrowed", known=on_record(origin=LinkOrigin.NARROWED, inherited=((),))),
    Refusal(
        name="expired",
        code=Code.CAPABILITY_EXPIRED,
        reason="expired",
        known=lambda: {"now_ms": (NOW_S + 600) * 1000},
        component="E",
        **ROOTS,
    ),
    Refusal(
        name="not yet",
        code=Code.CAPABILITY_NOT_YET_VALID,
        reason="not_yet_valid",
        chain=FUTURE,
        known=presenting(FUTURE),
        component="E",
    ),
    REVOKED(name="its link", reason="revoked_link", known=revoked(links=[LINKS[1].link_hash])),
    REVOKED(name="the root", reason="revoked_link", known=revoked(links=[LINKS[0].link_hash]), **ROOTS),
    REVOKED(name="its jti", reason="revoked_jti", known=revoked(jtis=["j-1"])),
    REVOKED(
        name="a holder",
        reason="revoked_holder",
        known=revoked(holders=[LINKS[0].holder.thumbprint]),
        **ROOTS,
    ),
    PROOF(name="by another", reason="signature_invalid", proof={"signer": HOLDERS[0]}),
    PROOF(name="for a leaf", reason="ath_mismatch", proof={"chain": ROOT, "signer": HOLDERS[1]}),
    PROOF(name="for a call", reason="request_mismatch", proof={"request_digest": "sha256:" + "e" * 64}),
    PROOF(name="for an audience", reason="aud_mismatch", proof={"audience": OTHER}),
    PROOF(name="too old", reason="proof_too_old", proof={"iat": NOW_S - 60}),
    PROOF(name="of tomorrow", reason="iat_in_future", proof={"iat": NOW_S + 61}),
    PROOF(name="used before", reason="proof_replayed", known=presenting(replayed=True)),
    SUBJECT(name="another agent", reason="agent_mismatch", made=READ),
    SUBJECT(name="another user", reason="subject_mismatch", made=for_user("grace"), **ROOTS),
    SUBJECT(name="no user", reason="subject_mismatch", made=for_user(None), **ROOTS),
    Refusal(
        name="too deep",
        code=Code.CAPABILITY_DEPTH,
        reason="depth_exceeded",
        known=by_rules(max_depth=0),
        uses_proof=True,
    ),
    NO_RIGHT(name="not handed on", made=editing("")),
    NO_RIGHT(name="never given", made=call("web/fetch", url="https://a.example/", agent="sub-1"), **ROOTS),
    OUTSIDE(name="beyond", made=reading("/workspace/b")),
    OUTSIDE(name="beside", made=reading("/workspace/ab")),
    OUTSIDE(name="beyond the root", made=reading("/workspace/../etc/passwd"), **ROOTS),
    OUTSIDE(
        name="really elsewhere",
        made=reading("/workspace/a/x", resolved={"/path": ResolvedPath(path="/etc/passwd")}),
        **ROOTS,
    ),
    OUTSIDE(name="opaque", made=reading("x", cwd=None), **ROOTS),
    Refusal(
        name="constraint",
        code=Code.CAPABILITY_CONSTRAINT,
        reason="constraint_unmet",
        made=editing("long"),
        chain=CONDITIONED,
        known=presenting(CONDITIONED),
        component="P",
        uses_proof=True,
    ),
    CHANGED(name="reviewed anew", known=on_record(tool_digests={"fs/file_read": "sha256:" + "0" * 64})),
    CHANGED(name="not there then", known=on_record(tool_digests={})),
]


@pytest.mark.parametrize("case", REFUSALS, ids=lambda case: f"{case.code.value} {case.name}")
def test_a_refusal_says_which_link_refused_and_by_what(case: Refusal) -> None:
    """AU1: in the answer, and in the one record of it."""
    made = replace(
        case.made,
        capability=tuple(case.chain),
        proof=proof_of(**({"chain": case.chain, "request_digest": case.made.request_digest} | case.proof)),
    )
    given: dict[str, Any] = {"tokens": token_rules(), "presented": presented(CHILD, WORLD)} | case.known()
    outcome = decide(made, facts(WORLD, **given))
    decision, found = outcome.decision, outcome.decision.capability
    assert (decision.effect, decision.stage, decision.code) == (Effect.DENY, Stage.CAPABILITY, case.code)
    assert found is not None
    assert (found.reason, found.link, found.agent, found.component) == (
        case.reason,
        case.link,
        case.agent,
        case.component,
    )
    assert (decision.matched, decision.lease, decision.expires_at_ms, decision.reservations) == (
        (),
        None,
        None,
        (),
    )
    assert decision.message
    assert decision.next
    # The holder showed its key: the proof is used up, whatever came of the call.
    assert (outcome.proof is not None) == case.uses_proof
    record = record_of(WORLD, made, outcome)
    assert (record["stage"], record["code"]) == ("capability", case.code.value)
    assert record["capability"]["presented"] is True
    assert record["capability"]["refused"] == {
        "reason": case.reason,
        "link": case.link,
        "agent": case.agent,
        "component": case.component,
    }
    holder = verified(case.chain).leaf.holder.thumbprint if case.uses_proof else None
    assert record["capability"]["holder"] == holder
    # Who was in a chain whose signatures hold is on record also where it is refused.
    known = isinstance(given["presented"], Presented) and case.name not in (
        "forged",
        "of another chain",
    )
    assert [link["sub"] for link in record["capability"].get("links", [])] == (
        ["coder-1", "sub-1"] if known else []
    )


def test_every_reason_of_the_profile_has_a_code_of_the_capability() -> None:
    assert CODES.keys() == {*Reason, *OwnReason}
    assert {code.value.partition(".")[0] for code in CODES.values()} == {"capability"}


def test_every_code_of_a_capability_can_come_out() -> None:
    """The budgets' own are in `test_budget`."""
    reached = {case.code for case in REFUSALS} | {Code.CAPABILITY_BUDGET, Code.CAPABILITY_RATE}
    assert reached == {code for code in Code if code.value.startswith("capability.")}


def test_half_of_a_capability_is_refused() -> None:
    """What is presented is judged or refused: leaving a half out does not make it absent."""
    for made, code, reason in (
        (replace(READ, proof="x"), Code.CAPABILITY_INVALID, Reason.CHAIN_EMPTY.value),
        (replace(READ, capability=ROOT), Code.CAPABILITY_PROOF, OwnReason.PROOF_MISSING.value),
    ):
        decision = decide(made, facts(WORLD, tokens=token_rules(), presented=presented(ROOT, WORLD))).decision
        assert (decision.effect, decision.code) == (Effect.DENY, code)
        assert decision.capability is not None
        assert decision.capability.reason == reason


def test_what_is_not_valid_yet_says_how_long_to_wait() -> None:
    decision = decide_holding(WORLD, replace(CHILD_READ), FUTURE).decision
    # Clocks may differ by a minute; of the time of the decision 123 ms have passed.
    assert (decision.retry_unchanged, decision.retry_after_ms) == (True, 240_000 - NOW_MS % 1000)
    assert decision.next == (Next.WAIT, Next.STOP)
    later: dict[str, Any] = {"now_ms": NOW_MS + 240_000, "presented": presented(FUTURE, WORLD)}
    made = holding(CHILD_READ, FUTURE, iat=NOW_S + 240)
    assert allowed(decide(made, facts(WORLD, tokens=token_rules(), **later)))


def test_skew_never_lengthens_a_life() -> None:
    for now_s, code in ((NOW_S + 599, Code.POLICY_PERMIT), (NOW_S + 600, Code.CAPABILITY_EXPIRED)):
        made = holding(CHILD_READ, CHILD, iat=now_s)
        known: dict[str, Any] = {"now_ms": now_s * 1000 + 999, "presented": presented(CHILD, WORLD)}
        assert decide(made, facts(WORLD, tokens=token_rules(), **known)).decision.code is code


def test_the_first_link_that_does_not_allow_a_call_is_named() -> None:
    """Who gave it up: asking the one above it may help, and asking the one below never does."""
    wide = issued([entry(["read", "write"], "file:///workspace")])
    middle = handed_on(wide, [entry("read", "file:///workspace")])
    leaf = handed_on(middle, [entry("fs/file_read:read", "file:///workspace/a")])
    for name, arguments, link, component in (
        ("fs/file_read", {"path": "/workspace/b"}, 2, "O"),
        ("fs/file_edit", {"path": "/workspace/a", "text": ""}, 1, "R"),
        ("fs/file_remove", {"path": "/workspace/a"}, 0, "R"),
    ):
        found = decide_holding(WORLD, call(name, arguments, agent="sub-2"), leaf).decision.capability
        assert found is not None
        assert (found.link, found.component) == (link, component)


def test_the_message_does_not_hold_what_the_call_names() -> None:
    """It is recorded, and a resource may be a secret."""
    made = call("fs/file_read", path="/workspace/b/hunter2", agent="sub-1")
    outcome = decide_holding(WORLD, made, CHILD)
    assert "`/path`" in outcome.decision.message
    assert "hunter2" not in outcome.decision.message

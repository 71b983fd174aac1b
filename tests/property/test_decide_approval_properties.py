"""AP1–AP5 and FP2 over the decision service: what is asked, answered, changed and used, in whatever order.

What an allow may rest on is said here a second time, by hand: of the document that people saw who said yes.
"""

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from hypothesis import given, settings
from hypothesis import strategies as st

from authz.core.approval_moves import Refused
from authz.core.pointer import format_pointer, leaves
from authz.core.shown_types import ShownDocument
from authz.model.approval import ScopeKind
from authz.model.approval_writes import ApprovalStanding
from authz.model.call import Call
from authz.model.decision import Decision, Effect, RuleKind
from tests.support.answering import PERMITS, TENANT, Answering, asking, ruleset_of, signed_in
from tests.support.world import IDS, call, source

ASKING: Final = asking()
RULES: Final = {
    "asks": ASKING,
    "asks more": ASKING
    + '@id("more") @reason("M.") @requires("approval") forbid (principal, action, resource);\n',
    "asks otherwise": asking(reason="Other words."),
    "asks two": asking('@quorum("2")'),
    "permits": PERMITS,
    "forbids": PERMITS
    + '@id("never") forbid (principal, action, resource) when { context.scope == "object" };\n',
}
PATHS: Final = ("/workspace/d", "/workspace/d/e", "/workspace/f")
SOURCES: Final = ("user", "web", "")
SCOPES: Final = ((ScopeKind.ONCE, 1), (ScopeKind.TIMES, 2), (ScopeKind.SESSION, None))

CALLS: Final = st.builds(
    lambda path, where, session, agent, number: replace(
        call(
            "fs/file_read",
            path=path,
            session=session,
            agent=agent,
            provenance={"/path": source(where)} if where else {},
        ),
        ids=replace(IDS, call=f"c-{number}"),
    ),
    st.sampled_from(PATHS),
    st.sampled_from(SOURCES),
    st.sampled_from(("s-1", "s-1", "s-2", None)),
    st.sampled_from(("coder-1", "coder-1", "coder-2")),
    st.integers(0, 3),
)
STEPS: Final = st.one_of(
    st.tuples(st.just("decide"), CALLS),
    st.tuples(st.just("decide"), CALLS),
    st.tuples(st.just("grant"), CALLS, st.sampled_from(SCOPES)),
    st.tuples(st.just("grant"), CALLS, st.sampled_from(SCOPES)),
    st.tuples(st.just("again"), st.integers(0, 5)),
    st.tuples(st.just("near"), CALLS, st.integers(0, 3)),
    st.tuples(st.just("near"), CALLS, st.integers(0, 3)),
    st.tuples(
        st.just("approve"), st.integers(0, 3), st.sampled_from(("grace", "linus")), st.sampled_from(SCOPES)
    ),
    st.tuples(st.just("deny"), st.integers(0, 3)),
    st.tuples(st.just("revoke"), st.integers(0, 3)),
    st.tuples(st.just("rules"), st.sampled_from(sorted(RULES))),
    st.tuples(st.just("wait"), st.sampled_from((1_000, 61_000, 901_000))),
)


@dataclass
class Yes:
    """What people said yes to, as they saw it."""

    document: ShownDocument
    key_id: str
    people: set[str] = field(default_factory=set)
    scope: ScopeKind = ScopeKind.SESSION
    uses: float = float("inf")
    granted_at_ms: int = 0
    revoked: bool = False
    used_by: list[str] = field(default_factory=list)
    """Operations, each once."""


class History:
    """One tenant's history, with what it may come to."""

    def __init__(self, world: Answering) -> None:
        self.world = world
        self.asked: list[str] = []
        self.yeses: dict[str, Yes] = {}
        self.denied: set[tuple[str | None, str]] = set()
        """(session, fingerprint)."""
        self.made: list[Call] = []
        self.operations: dict[str, str] = {}
        """By identity, the decision that allowed it."""

    async def decide(self, made: Call) -> None:
        self.made.append(made)
        decision = await self.world.decide(made)
        if decision.effect is Effect.ALLOW:
            self.check_allow(made, decision)
        elif decision.effect is Effect.REQUIRE_APPROVAL:
            assert decision.approval is not None
            assert (made.subject.session, decision.fingerprint) not in self.denied
            if decision.approval.id not in self.asked:
                self.asked.append(decision.approval.id)

    def check_allow(self, made: Call, decision: Decision) -> None:
        assert (made.subject.session, decision.fingerprint) not in self.denied, "a no was not heeded"
        asking_now = [rule for rule in decision.overruled if rule.kind is RuleKind.ASK]
        if not asking_now:
            assert decision.approval is None
            return
        assert decision.approval is not None
        yes = self.yeses[decision.approval.id]
        identity = json.dumps([made.subject.agent, made.ids.call])
        shown = yes.document
        # The rules that ask now were shown, for the same reason.
        known = {rule["rule"]: rule["reason"] for rule in shown["asked_by"]}
        assert all(known.get(rule.rule) == rule.reason for rule in asking_now)
        needed = max(rule.terms.quorum for rule in asking_now if rule.terms is not None)
        assert len(yes.people) >= needed
        requester = shown["requester"]
        assert (made.subject.agent, made.subject.session) == (requester["agent"], requester["session"])
        if yes.scope is ScopeKind.SESSION:
            assert made.subject.session is not None
            assert all(_lies_beneath(access.resource.uri, shown) for access in decision.accesses)
        else:
            assert decision.fingerprint == shown["fingerprint"]
            assert _values(decision.arguments or {}) == {
                argument["pointer"]: argument["value"] for argument in shown["arguments"]
            }
        trusted = {argument["pointer"] for argument in shown["arguments"] if not argument["untrusted"]}
        for pointer in trusted:
            claim = made.provenance.get(tuple(pointer.split("/")[1:]))
            assert claim is not None, "a value of no known source was shown as trusted"
            assert claim.source == "user", "a value of a worse source than was shown"
        if identity not in yes.used_by:
            assert not yes.revoked, "a revoked yes was used"
            assert self.world.clock.at_ms < yes.granted_at_ms + 900_000, "a yes was used after its end"
            yes.used_by.append(identity)
        assert len(yes.used_by) <= yes.uses, "a yes was used more often than was said"

    async def approve(self, approval_id: str, person: str, scope: tuple[ScopeKind, int | None]) -> None:
        page = await self.world.approvals.page(signed_in(person), approval_id)
        if page.shown is None:
            return
        kind, uses = scope
        answered = await self.world.approve(signed_in(person), approval_id, scope=kind, uses=uses)
        if isinstance(answered, Refused):
            return
        document = page.shown.document
        yes = self.yeses.setdefault(approval_id, Yes(document=document, key_id=""))
        assert yes.document == document, "two people saw different things"
        yes.people.add(person)
        yes.granted_at_ms = self.world.clock.at_ms
        order = [choice for choice, _ in SCOPES]
        yes.scope = min(yes.scope, kind, key=order.index)
        yes.uses = min(yes.uses, float("inf") if uses is None else uses)

    async def deny(self, approval_id: str) -> None:
        answered = await self.world.deny(signed_in("grace"), approval_id)
        if isinstance(answered, ApprovalStanding):
            asked = answered.request.asked
            self.denied.add((asked.requester.session, asked.fingerprint))

    async def revoke(self, approval_id: str) -> None:
        answered = await self.world.approvals.revoke(signed_in("grace"), approval_id)
        if isinstance(answered, ApprovalStanding) and approval_id in self.yeses:
            self.yeses[approval_id].revoked = True

    async def step(self, kind: str, *values: Any) -> None:
        if kind == "decide":
            await self.decide(values[0])
        elif kind == "again" and self.made:
            await self.decide(self.made[values[0] % len(self.made)])
        elif kind == "near" and self.made:
            # A call that was made before, and one thing of it is otherwise.
            part = ("arguments", "provenance", "subject", "ids")[values[1]]
            await self.decide(replace(self.made[-1], **{part: getattr(values[0], part)}))
        elif kind == "grant":
            known = len(self.asked)
            await self.decide(values[0])
            if len(self.asked) > known:
                await self.approve(self.asked[-1], "grace", values[1])
                await self.decide(values[0])
        elif kind == "rules":
            self.world.bundles.swap(TENANT, ruleset_of(RULES[values[0]]), 1)
        elif kind == "wait":
            self.world.clock.at_ms += values[0]
        elif kind in ("approve", "deny", "revoke") and self.asked:
            chosen = self.asked[-1 - values[0] % len(self.asked)]
            await getattr(self, kind)(chosen, *values[1:])


def _values(arguments: Mapping[str, Any]) -> dict[str, Any]:
    return {format_pointer(tokens): value for tokens, value in leaves(arguments)}


def _lies_beneath(uri: str, shown: ShownDocument) -> bool:
    return any(uri == one["uri"] or uri.startswith(one["uri"] + "/") for one in shown["accesses"])


async def _run(steps: list[tuple[Any, ...]]) -> None:
    history = History(await Answering.of(ASKING))
    for kind, *values in steps:
        await history.step(kind, *values)
    told = [json.loads(record.text) for record in history.world.ledger.records]
    used: dict[str, list[str]] = {}
    for record in told:
        if record.get("approval", {}).get("used"):
            used.setdefault(record["approval"]["id"], []).append(record["decision_id"])
    for approval_id, decisions in used.items():
        assert len(decisions) <= history.yeses[approval_id].uses, "the log tells of more uses than were given"
        assert len(set(decisions)) == len(decisions)


@settings(max_examples=150, deadline=None)
@given(st.lists(STEPS, min_size=4, max_size=24))
def test_nothing_is_allowed_but_what_was_shown(steps: list[tuple[Any, ...]]) -> None:
    asyncio.run(_run(steps))

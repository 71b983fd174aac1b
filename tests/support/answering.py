"""People who answer, over the decision service and the ledger in memory: all but disk, wire and sign-in.

world = await Answering.of(RULES)
asked = await world.ask(call("fs/file_read", path="/workspace/a"))
answered = await world.approve(signed_in("grace"), asked)
"""

import itertools
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, Final

from authz_client.capabilities import PublicKey, Signer, generate_key

from authz.core.redact import Redactor
from authz.core.ruleset import Ruleset
from authz.model.account import Account, SignedIn, SignInMethod
from authz.model.approval import ApprovalState
from authz.model.call import Call
from authz.model.caller import Caller
from authz.model.decision import Decision, Effect
from authz.service.approval_ballots import AssertionChecker, BallotIn
from authz.service.approval_waits import ApprovalWaits
from authz.service.approvals import Answered, ApprovalService
from authz.service.bundles import Admitted, BundlesInForce
from authz.service.decide import DecisionService
from authz.store.memory import MemoryLedger
from tests.support.service import SettableClock
from tests.support.world import IDS, TOOLS, call, caller_of, world

TENANT: Final = "acme"
PUBLIC_URL: Final = "https://authz.example"
ENTITIES: Final = """\
groups:
  staff: {}
  finance: {groups: [staff]}
users:
  ada: {groups: [finance]}
  grace: {groups: [finance]}
  linus: {groups: [finance]}
  mallory: {groups: [staff]}
agents:
  coder-1: {}
"""
PERMITS: Final = """\
@id("everything") permit (principal, action, resource);
@id("approving") permit (principal in Group::"staff", action in Action::"approve", resource);
"""
RECEIPT_KEY: Final = generate_key()


def asking(terms: str = "", *, name: str = "asks", reason: str = "It is looked at.") -> str:
    """Rules of which one asks finance about everything; `terms` are further annotations."""
    return (
        f'{PERMITS}@id("{name}") @reason("{reason}") @requires("approval") '
        f'@approvers("Group::\\"finance\\"") {terms} '
        'forbid (principal, action in [Action::"read", Action::"write"], resource);\n'
    )


def ruleset_of(rules: str, **files: Any) -> Ruleset:
    """The usual tools and several people, under these rules."""
    return world(rules, **{"entities": ENTITIES, "tools": TOOLS, **files}) if files else _usual(rules)


@cache
def _usual(rules: str) -> Ruleset:
    return world(rules, entities=ENTITIES, tools=TOOLS)


class OneKey:
    """`ports.CapabilityKeys` with the key that signs receipts here."""

    def signer(self, now_ms: int) -> Signer:
        return RECEIPT_KEY

    def verifying(self, now_ms: int) -> Mapping[str, PublicKey]:
        return {RECEIPT_KEY.kid: RECEIPT_KEY.public}

    async def find(self, kid: str, now_ms: int) -> PublicKey | None:
        return self.verifying(now_ms).get(kid)

    def jwks(self, now_ms: int) -> Mapping[str, Any]:
        return {"keys": []}


class Ids:
    """`ports.IdSource` that counts."""

    def __init__(self) -> None:
        self._count = itertools.count(1)

    def new_id(self) -> str:
        return f"id-{next(self._count)}"


@dataclass
class Told:
    """What observers were told."""

    outcomes: list[str] = field(default_factory=list)

    def decided(self, tenant: str, decision: Decision) -> None:
        pass

    def approval(self, tenant: str, outcome: str) -> None:
        self.outcomes.append(outcome)


def signed_in(name: str, *roles: str, tenant: str = TENANT, groups: frozenset[str] = frozenset()) -> SignedIn:
    """Somebody who is signed in; with the role `approve` unless roles are said."""
    return SignedIn(
        session_id=f"session-of-{name}",
        account=Account(
            account_id=f"account-of-{name}",
            tenant=tenant,
            person=name,
            display_name=name.title(),
            roles=frozenset(roles or ("approve",)),
            created_at_ms=1,
        ),
        method=SignInMethod.OIDC,
        groups=groups,
        created_at_ms=1,
        expires_at_ms=2**52,
        csrf_token="c",
    )


@dataclass
class Answering:
    """One tenant, its decisions, and its people."""

    clock: SettableClock
    ledger: MemoryLedger
    bundles: BundlesInForce
    decisions: DecisionService
    approvals: ApprovalService
    told: Told
    _calls: "itertools.count[int]" = field(default_factory=lambda: itertools.count(1))

    @classmethod
    async def of(
        cls, rules: str, *, passkeys: AssertionChecker | None = None, waiters: int = 64, **files: Any
    ) -> "Answering":
        clock, told = SettableClock(), Told()
        ledger = MemoryLedger(clock=clock, vault_key=b"v" * 32)
        ruleset = ruleset_of(rules, **files)
        bundles = BundlesInForce({TENANT: ruleset, "other": ruleset})
        parts: dict[str, Any] = {
            "ledger": ledger,
            "bundles": bundles,
            "clock": clock,
            "redactor": Redactor(b"r" * 32),
            "observer": told,
        }
        approvals = ApprovalService(
            **parts,
            keys=OneKey(),
            passkeys=passkeys,
            public_url=PUBLIC_URL,
            waits=ApprovalWaits(ledger, most_of_one=waiters),
        )
        decisions = DecisionService(
            **parts, ids=Ids(), operation_secret=b"k" * 32, ttl_ms=60_000, approvals=approvals
        )
        return cls(
            clock=clock, ledger=ledger, bundles=bundles, decisions=decisions, approvals=approvals, told=told
        )

    @property
    def caller(self) -> Caller:
        """Whose key sends the calls."""
        ruleset = self.bundles.in_force(TENANT)
        assert ruleset is not None
        return replace(caller_of(ruleset), tenant=TENANT)

    async def decide(self, made: Call) -> Decision:
        """The decision on the call, under its own ids."""
        ruleset = self.bundles.in_force(TENANT)
        assert ruleset is not None
        answer = await self.decisions.decide(made, Admitted(caller=self.caller, ruleset=ruleset))
        return answer.decision

    def fresh(self, made: Call) -> Call:
        """The call under new ids."""
        return replace(made, ids=replace(IDS, call=f"call-{next(self._calls)}"))

    async def ask(self, made: Call | None = None) -> str:
        """Id of the request that the call makes. Fails where it makes none."""
        decision = await self.decide(self.fresh(made or call("fs/file_read", path="/workspace/a")))
        assert decision.effect is Effect.REQUIRE_APPROVAL, decision.message
        assert decision.approval is not None
        return decision.approval.id

    async def approve(self, person: SignedIn, approval_id: str, **more: Any) -> Answered:
        """A yes, once, to what is shown, with all that is folded opened; `more` of the ballot differs."""
        standing = await self.approvals.find(TENANT, approval_id)
        page = await self.approvals.page(person, approval_id)
        opened = page.shown.document["must_open"] if page.shown is not None else ()
        ballot = BallotIn(shown_digest=standing.request.shown_digest, opened=frozenset(opened))
        return await self.approvals.approve(person, approval_id, replace(ballot, **more))

    async def deny(self, person: SignedIn, approval_id: str, reason: str = "no") -> Answered:
        """A no."""
        return await self.approvals.deny(person, approval_id, reason)

    async def state(self, approval_id: str) -> ApprovalState:
        """As it is written down."""
        return (await self.approvals.find(TENANT, approval_id)).request.state

    def records(self, *kinds: str) -> list[dict[str, Any]]:
        """Records of approvals, oldest first; of these types, where some are said."""
        told = [json.loads(record.text) for record in self.ledger.records]
        return [one for one in told if one["type"] in (kinds or (one["type"],)) and "approval" in one]

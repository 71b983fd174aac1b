"""Decisions and their settlement over any ledger, without the wire: for races and generated histories."""

import itertools
import json
from collections.abc import Awaitable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from authz_client.capabilities import PublicKey, Signer

from authz.core.redact import Redactor
from authz.core.ruleset import Ruleset
from authz.core.settlement import Outcome
from authz.errors import OperationConflict
from authz.model.call import Start
from authz.model.caller import Caller
from authz.model.decision import Decision
from authz.model.operation import OperationState
from authz.model.record import EventQuery
from authz.ports import Ledger
from authz.service.bundles import Admitted, BundlesInForce
from authz.service.decide import DecisionService
from authz.service.lapses import Lapses
from authz.service.operations import OperationService, OperationView
from authz.service.tickets import ServiceTickets
from tests.support.chains import ISSUER_KEY
from tests.support.world import IDS, call, caller_of, tool, tool_file, world

TENANT = "acme"
SECRET = b"k" * 32
CAP = 3
TTL_MS = 60_000
LIMITS = f"""\
limits:
  - id: few
    reason: A few a day.
    calls: {CAP}
    seconds: 86400
    per: [agent]
"""


def spending_world() -> Ruleset:
    """One tool that may not run twice, of which each agent may have `CAP` calls a day."""
    edit = tool(
        "edit",
        [{"verb": "write", "kind": "path", "at": "/path"}],
        {"path": {"type": "string"}},
        leaves_sandbox=False,
    )
    return world(tools={"fs": tool_file("fs", edit)}, limits=LIMITS)


class MovableClock(Protocol):
    """A clock that tests move."""

    at_ms: int

    def now_ms(self) -> int: ...


class Nobody:
    """`ports.Observer` that is told and says nothing."""

    def decided(self, tenant: str, decision: Decision) -> None:
        pass


class OneKey:
    """`ports.CapabilityKeys` with the one key of the tests' chains."""

    def signer(self, now_ms: int) -> Signer:
        return ISSUER_KEY

    def verifying(self, now_ms: int) -> Mapping[str, PublicKey]:
        return {ISSUER_KEY.kid: ISSUER_KEY.public}

    async def find(self, kid: str, now_ms: int) -> PublicKey | None:
        return self.verifying(now_ms).get(kid)

    def jwks(self, now_ms: int) -> Mapping[str, Any]:
        return {"keys": []}


_NUMBERS = itertools.count(1)


class Ids:
    """`ports.IdSource` that never repeats in this process."""

    def new_id(self) -> str:
        return f"d-{next(_NUMBERS)}"


@dataclass
class Runtime:
    """One replica of the service, as one agent's runtime and a person use it."""

    ledger: Ledger
    clock: MovableClock
    ruleset: Ruleset
    decisions: DecisionService
    operations: OperationService
    runtime: Caller
    person: Caller
    tokens: dict[str, str] = field(default_factory=dict)
    """By decision."""

    @classmethod
    def over(cls, ledger: Ledger, clock: MovableClock, ruleset: Ruleset) -> "Runtime":
        redactor = Redactor(b"r" * 32)
        decisions = DecisionService(
            ledger=ledger,
            bundles=BundlesInForce({TENANT: ruleset}),
            clock=clock,
            ids=Ids(),
            observer=Nobody(),
            operation_secret=SECRET,
            redactor=redactor,
            ttl_ms=TTL_MS,
            tickets=ServiceTickets(keys=OneKey(), issuer=lambda tenant: f"https://{tenant}.example"),
        )
        operations = OperationService(ledger=ledger, clock=clock, redactor=redactor, operation_secret=SECRET)
        runtime = caller_of(ruleset)
        person = replace(runtime, key_id="key-2", roles=frozenset({"approve"}))
        return cls(ledger, clock, ruleset, decisions, operations, runtime, person)

    @property
    def lapses(self) -> Lapses:
        return self.operations.lapses

    async def decide(
        self,
        agent: str,
        turn: str,
        *,
        settles: bool = True,
        attempt: str | None = None,
        ticket: bool = False,
    ) -> Decision:
        """Ask for the call of that turn."""
        made = replace(
            call("fs/edit", path="/workspace/a", agent=agent, ids=replace(IDS, turn=turn)),
            settles=settles or attempt is not None,
            start=None if attempt is None else Start(attempt=attempt),
            ticket=ticket,
        )
        answer = await self.decisions.decide(made, Admitted(caller=self.runtime, ruleset=self.ruleset))
        if answer.decision.lease is not None:
            self.tokens[answer.decision.decision_id] = answer.decision.lease.token
        return answer.decision

    async def start(self, decision_id: str, attempt: str) -> "OperationView | OperationConflict":
        """Begin, or say why not."""
        return await _tried(
            self.operations.start(self.runtime, decision_id, self.tokens[decision_id], attempt, None)
        )

    async def settle(
        self, decision_id: str, state: OperationState, external_id: str = ""
    ) -> "OperationView | OperationConflict":
        """Settle, or say why not."""
        outcome = Outcome(state=state, external_id=external_id)
        return await _tried(
            self.operations.settle(self.runtime, decision_id, self.tokens[decision_id], outcome, "")
        )

    async def resolve(self, decision_id: str, state: OperationState) -> "OperationView | OperationConflict":
        """Resolve, or say why not."""
        return await _tried(
            self.operations.resolve(self.person, decision_id, Outcome(state=state), "looked it up")
        )

    async def cancel(self, decision_id: str) -> "OperationView | OperationConflict":
        """Ask to cancel, or say why not."""
        return await _tried(self.operations.cancel(self.person, decision_id, ""))

    async def records(self, agent: str) -> list[dict[str, Any]]:
        """Everything on record of that agent, oldest first."""
        found = await self.ledger.search(EventQuery(tenant=TENANT, agent=agent, limit=1000))
        return [json.loads(record.text) for record in reversed(found)]


async def _tried(asked: Awaitable[OperationView]) -> OperationView | OperationConflict:
    try:
        return await asked
    except OperationConflict as refused:
        return refused

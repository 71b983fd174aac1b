"""One attempt at a decision: its facts gathered, the stages run, and everything that it would write."""

from dataclasses import dataclass, replace

from authz_client.capabilities import Ancestor

from authz.core.approval_asking import needs_approvals
from authz.core.decide import Facts, Outcome, decide
from authz.core.facts import NO_APPROVALS
from authz.core.fingerprint import operation_key
from authz.core.lines import Lines
from authz.core.record import decision_event
from authz.core.redact import Redactor
from authz.core.settlement import is_due
from authz.errors import StoreUnavailable
from authz.model.account_writes import AccountMoved
from authz.model.approval_writes import ApprovalFacts, ApprovalMoved
from authz.model.call import Call
from authz.model.capability import Presented
from authz.model.decision import Decision, Effect
from authz.model.limit import LimitReached, Reached
from authz.model.record import Conflict, Replayed
from authz.ports import CapabilitySource, Clock, CommitUnit, IdSource, Ledger, TicketSigner
from authz.service.asking import Asking, AskWrites
from authz.service.bundles import Admitted
from authz.service.decision_unit import decision_unit
from authz.service.faults import log_faults
from authz.service.lapses import Lapses
from authz.service.sessions import Remembered, read_session
from authz.service.tickets import UNAVAILABLE


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """A decision that is not durable yet."""

    decision: Decision
    unit: CommitUnit
    ticket: str | None
    handles: tuple[Ancestor, ...]
    """Of the capability that it rests on."""


Refused = LimitReached | Conflict | Replayed | ApprovalMoved | AccountMoved
"""What a commit answers that wrote nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Gathered:
    """The facts of one attempt, and what else it is written by."""

    key: str | None
    remembered: Remembered
    facts: Facts


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What earlier attempts at the same call have found out."""

    look_up: bool
    reached: tuple[Reached, ...] = ()
    presented: Presented | None = None
    swept: bool = False
    """Ends of leases were written down for this call already."""
    turn: str = ""
    """Id of a grant of which others took a use meanwhile, and there may be more."""

    def after(self, refused: Refused) -> "Found":
        """With what a commit answered that wrote nothing."""
        if isinstance(refused, Replayed):
            presented = self.presented
            return replace(self, presented=replace(presented, replayed=True) if presented else None)
        if isinstance(refused, LimitReached):
            # Unless it is a repeat, which takes nothing: the next attempt knows, and denies if not. It may
            # also take of another budget instead, so that what was found full before counts, too.
            return replace(self, look_up=True, reached=self.reached + refused.reached)
        # What was full then may be free by now: only a commit's own last word is a refusal. That a yes or a
        # request moved is found out by reading it again.
        return replace(self, look_up=True, reached=())


class Attempts:
    """Makes decisions that are not durable yet, by facts that are read for each anew."""

    def __init__(
        self,
        *,
        ledger: Ledger,
        clock: Clock,
        ids: IdSource,
        redactor: Redactor,
        operation_secret: bytes,
        ttl_ms: int,
        lapses: Lapses,
        asking: Asking,
        capabilities: CapabilitySource | None,
        tickets: TicketSigner | None,
    ) -> None:
        self._ledger = ledger
        self._clock = clock
        self._ids = ids
        self._redactor = redactor
        self._secret = operation_secret
        self._ttl_ms = ttl_ms
        self._lapses = lapses
        self._asking = asking
        self._capabilities = capabilities
        self._tickets = tickets

    async def make(self, call: Call, admitted: Admitted, found: Found, lines: Lines) -> Attempt | None:
        """One decision by what is known now, and what it would write.

        `None` when the end of a lease had to be written down first. Raises as `DecisionService.decide` does.
        """
        gathered = await self._gather(call, admitted, found, lines)
        if gathered is None:
            return None
        outcome, asked = decide(call, gathered.facts), None
        if needs_approvals(outcome, may_be_denied=gathered.remembered.may_be_denied):
            # Few calls come here, so that the others do not pay for it.
            gathered = await self._with_approvals(call, admitted, found, lines, gathered, outcome)
            if gathered is None:
                return None
            outcome = decide(call, gathered.facts)
            if outcome.decision.effect is Effect.REQUIRE_APPROVAL:
                outcome, asked = await self._asking.ask(call, outcome, gathered.facts)
            outcome = self._asking.linked(outcome)
        return self._written(call, gathered, outcome, asked)

    async def _with_approvals(
        self,
        call: Call,
        admitted: Admitted,
        found: Found,
        lines: Lines,
        gathered: _Gathered,
        outcome: Outcome,
    ) -> _Gathered | None:
        """The facts once more, with what is on record of approvals. `None` as of `_gather`."""
        found = replace(found, look_up=True)
        approvals = await self._asking.known(call, outcome, gathered.facts)
        after = await self._gather(call, admitted, found, lines, approvals)
        if after is None or not _is_behind(after.facts):
            return after
        # The call was allowed under the same ids between these two readings.
        approvals = await self._asking.known(call, outcome, gathered.facts)
        return await self._gather(call, admitted, found, lines, approvals)

    async def _gather(
        self,
        call: Call,
        admitted: Admitted,
        found: Found,
        lines: Lines,
        approvals: ApprovalFacts = NO_APPROVALS,
    ) -> _Gathered | None:
        """The facts as they are now. `None` when the end of a lease had to be written down first."""
        caller, presented = admitted.caller, found.presented
        key = operation_key(caller.tenant, call)
        operation = await self._ledger.find_operation(key) if key is not None and found.look_up else None
        remembered = await read_session(self._ledger, caller.tenant, call)
        # Nothing waits from here on: a revocation or an expiry counts up to this moment.
        source = self._capabilities if presented is not None else None
        rules = source.rules(caller.tenant) if source is not None else None
        now_ms = self._clock.now_ms()
        if operation is not None and not call.dry_run and is_due(operation, now_ms):
            await self._lapses.write_down(caller.tenant, operation)
            return None
        facts = Facts(
            caller=caller,
            ruleset=admitted.ruleset,
            now_ms=now_ms,
            decision_id=self._ids.new_id(),
            operation=operation,
            exposed=remembered.exposed,
            approvals=approvals,
            secret=self._secret,
            ttl_ms=self._ttl_ms,
            lines=lines,
            reached=found.reached,
            presented=presented,
            tokens=rules,
            delegated=remembered.delegated,
        )
        return _Gathered(key=key, remembered=remembered, facts=facts)

    def _written(self, call: Call, gathered: _Gathered, outcome: Outcome, asked: AskWrites | None) -> Attempt:
        """The attempt with its record, and all that is written with that."""
        facts, remembered = gathered.facts, gathered.remembered
        log_faults(outcome.decision)
        event = decision_event(
            call,
            outcome,
            facts.caller,
            facts.ruleset,
            self._redactor,
            facts.now_ms,
            remembered.exposed,
            delegated=remembered.delegated,
        )
        unit = decision_unit(
            event=event,
            key=gathered.key,
            call=call,
            caller=facts.caller,
            outcome=outcome,
            operation=facts.operation,
            remembered=remembered,
            presented=facts.presented,
            redactor=self._redactor,
            asked=asked,
        )
        return Attempt(
            decision=outcome.decision,
            unit=unit,
            ticket=self._ticket(call, facts, outcome),
            handles=outcome.capability.handles,
        )

    def _ticket(self, call: Call, facts: Facts, outcome: Outcome) -> str | None:
        """The ticket of an allow, where one is asked for. Before the commit: an allow without it is none."""
        decision = outcome.decision
        if not call.ticket or call.dry_run or decision.effect is not Effect.ALLOW:
            return None
        if self._tickets is None:
            raise StoreUnavailable("this service signs no tickets; ask without one", code=UNAVAILABLE)
        return self._tickets.sign(
            tenant=facts.caller.tenant,
            decision=decision,
            call=call,
            descriptor=facts.ruleset.tools[(call.server, call.tool)].descriptor,
            capability=outcome.capability,
            now_ms=facts.now_ms,
        )


def _is_behind(facts: Facts) -> bool:
    """Whether the operation rests on an approval that is newer than what was read of them."""
    operation = facts.operation
    if operation is None or not operation.approval:
        return False
    return operation.approval not in {grant.request_id for grant in facts.approvals.grants}

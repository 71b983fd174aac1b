"""Decides calls: stage 0's binding, facts for the core, and stage 10's commit (spec section 2)."""

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from authz_client.capabilities import Ancestor
from authz_client.capabilities.revocations import check_revoked

from authz.core.claims import check_subject
from authz.core.decide import Facts, Outcome, decide
from authz.core.fingerprint import operation_key
from authz.core.lines import Lines
from authz.core.record import decision_event, refusal_event
from authz.core.redact import Redactor
from authz.core.settlement import is_due
from authz.errors import AuthzError, Forbidden, StoreUnavailable
from authz.model.call import Call
from authz.model.caller import Caller
from authz.model.capability import Presented
from authz.model.decision import Decision, Effect
from authz.model.limit import LimitReached, Reached
from authz.model.record import Committed, Conflict, Replayed
from authz.ports import (
    Bundles,
    CapabilitySource,
    Clock,
    CommitUnit,
    IdSource,
    Ledger,
    LineReader,
    Observer,
    TicketSigner,
)
from authz.service.bundles import Admitted
from authz.service.decision_unit import decision_unit
from authz.service.faults import log_faults
from authz.service.lapses import Lapses
from authz.service.lines import read_lines
from authz.service.sessions import read_session
from authz.service.tickets import UNAVAILABLE

logger = logging.getLogger("authz.service")

MAX_ATTEMPTS: Final = 8
"""How often a decision is made again because its operation moved under it, before a 503."""
MAX_BATCH_SECONDS: Final = 10.0
"""For which a batch is decided by the key and the bundle that held at its start; the rest is a 503."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A decision whose record is durable."""

    decision: Decision
    committed: Committed
    ticket: str | None = None
    """For the tool server, where the call asked for one and is allowed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Attempt:
    """A decision that is not durable yet."""

    decision: Decision
    unit: CommitUnit
    ticket: str | None
    handles: tuple[Ancestor, ...]
    """Of the capability that it rests on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    """What earlier attempts at the same call have found out."""

    look_up: bool
    reached: tuple[Reached, ...] = ()
    presented: Presented | None = None
    swept: bool = False
    """Ends of leases were written down for this call already."""

    def after(self, refused: LimitReached | Conflict | Replayed) -> "_Found":
        """With what a commit answered that wrote nothing."""
        if isinstance(refused, Replayed):
            presented = self.presented
            return replace(self, presented=replace(presented, replayed=True) if presented else None)
        if isinstance(refused, LimitReached):
            # Unless it is a repeat, which takes nothing: the next attempt knows, and denies if not. It may
            # also take of another budget instead, so that what was found full before counts, too.
            return replace(self, look_up=True, reached=self.reached + refused.reached)
        # What was full then may be free by now: only a commit's own last word is a refusal.
        return replace(self, look_up=True, reached=())


class DecisionService:
    """Answers calls. No answer leaves before its record is on disk."""

    def __init__(
        self,
        *,
        ledger: Ledger,
        bundles: Bundles,
        clock: Clock,
        ids: IdSource,
        observer: Observer,
        operation_secret: bytes,
        redactor: Redactor,
        ttl_ms: int,
        lines: LineReader | None = None,
        capabilities: CapabilitySource | None = None,
        tickets: TicketSigner | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._ledger = ledger
        self._bundles = bundles
        self._clock = clock
        self._ids = ids
        self._observer = observer
        self._secret = operation_secret
        self._redactor = redactor
        self._lapses = Lapses(ledger=ledger, clock=clock, redactor=redactor)
        self._ttl_ms = ttl_ms
        self._lines = lines
        self._capabilities = capabilities
        self._tickets = tickets
        self._monotonic = monotonic

    async def decide(self, call: Call, admitted: Admitted) -> Answer:
        """Decide one call and record it.

        Raises `Forbidden` when the credential may not assert the subject (stage 0), `BundleStale` when
        the bundle in force may no longer decide, `RevocationsStale` when nobody can say whether the
        capability still holds, and `StoreUnavailable` when the record cannot be made durable or the ticket
        not be signed; then no decision was made.
        """
        # One ruleset a request: who the caller is and what it may do come from the same version.
        caller, ruleset = admitted.caller, admitted.ruleset
        self._bundles.check_fresh(caller.tenant)
        refused = check_subject(call, caller.profile)
        if refused is not None:
            raise Forbidden(refused, code="subject.not_bound", pointer="/subject")
        presented = await self._load(call, caller)
        lines = await read_lines(self._lines, call, ruleset, caller.profile)
        # Most calls are new, so the first attempt takes the operation for absent and leaves it to the commit
        # to find out: whatever rests on that inserts the operation, and only where there is none. A dry run
        # inserts nothing, so it looks first.
        found = _Found(look_up=call.dry_run, presented=presented)
        for _ in range(MAX_ATTEMPTS):
            attempt = await self._attempt(call, admitted, found, lines)
            if attempt is None:
                continue
            committed = await self._ledger.commit(attempt.unit)
            if not isinstance(committed, Committed):
                found = await self._after(found, committed)
                continue
            if self._capabilities is not None and attempt.unit.links and presented is not None:
                self._capabilities.recorded(presented.digest)
            self._observer.decided(caller.tenant, attempt.decision)
            if attempt.decision.effect is Effect.ALLOW:
                self._check_still_in_force(caller, attempt.handles)
            return Answer(decision=attempt.decision, committed=committed, ticket=attempt.ticket)
        raise StoreUnavailable(
            "the operation kept changing while it was decided; send the call again", code="store.contended"
        )

    async def _after(self, found: "_Found", refused: LimitReached | Conflict | Replayed) -> "_Found":
        """What is known after a commit that wrote nothing.

        What is full may be full of calls that never began and whose time is over: first they are given back.
        """
        if isinstance(refused, LimitReached) and not found.swept:
            swept = await self._lapses.sweep()
            found = replace(found, swept=True)
            if swept:
                return replace(found, look_up=True, reached=())
        return found.after(refused)

    async def _load(self, call: Call, caller: Caller) -> Presented | None:
        """The capability that the call presents. Without a source there is none, and it is refused."""
        if self._capabilities is None or not call.capability:
            return None
        return await self._capabilities.load(caller, call)

    async def _attempt(
        self, call: Call, admitted: Admitted, found: "_Found", lines: Lines
    ) -> "_Attempt | None":
        """One decision by what is known now, and what it would write. Raises as `decide` does.

        `None` when the lease of the operation had ended, which had to be written down first.
        """
        caller, ruleset, presented = admitted.caller, admitted.ruleset, found.presented
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
            ruleset=ruleset,
            now_ms=now_ms,
            decision_id=self._ids.new_id(),
            operation=operation,
            exposed=remembered.exposed,
            approvals=(),
            secret=self._secret,
            ttl_ms=self._ttl_ms,
            lines=lines,
            reached=found.reached,
            presented=presented,
            tokens=rules,
            delegated=remembered.delegated,
        )
        outcome = decide(call, facts)
        log_faults(outcome.decision)
        event = decision_event(
            call,
            outcome,
            caller,
            ruleset,
            self._redactor,
            now_ms,
            remembered.exposed,
            delegated=remembered.delegated,
        )
        unit = decision_unit(
            event=event,
            key=key,
            call=call,
            caller=caller,
            outcome=outcome,
            operation=operation,
            remembered=remembered,
            presented=presented,
            redactor=self._redactor,
        )
        return _Attempt(
            decision=outcome.decision,
            unit=unit,
            ticket=self._ticket(call, facts, outcome),
            handles=outcome.capability.handles,
        )

    def _check_still_in_force(self, caller: Caller, handles: tuple[Ancestor, ...]) -> None:
        """Withhold an allow whose capability was revoked while its record went to disk.

        The record says allow and what was reserved stays so: nobody was told, and nobody can begin it, since
        the same call is denied from now on. Raises `StoreUnavailable`, and `RevocationsStale` when so much
        time has passed that nobody knows.
        """
        if self._capabilities is None or not handles:
            return
        if check_revoked(handles, self._capabilities.rules(caller.tenant).revoked) is not None:
            raise StoreUnavailable(
                "the capability was revoked while this was put on record: it is not allowed",
                code="capability.revoked_meanwhile",
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

    async def decide_all(self, calls: Sequence[Call], admitted: Admitted) -> list[Answer | AuthzError]:
        """Decide calls in order, each with its own record; a later one sees what earlier ones did.

        All by the key and the version that held when deciding began: its calls belong together. So that
        neither a revoked key nor an old version lives on in a long batch, what is not decided within
        `MAX_BATCH_SECONDS` is refused.
        Every subject is bound before the first call is decided, so that a refusal decides nothing. What
        fails the first call is raised. Once one is decided its answer must go out, since its record and
        its reservation stand: from there on a call that fails has its error for an answer.
        """
        for index, call in enumerate(calls):
            refused = check_subject(call, admitted.caller.profile)
            if refused is not None:
                raise Forbidden(refused, code="subject.not_bound", pointer=f"/calls/{index}/subject")
        answers: list[Answer | AuthzError] = []
        ends_s = self._monotonic() + MAX_BATCH_SECONDS
        for call in calls:
            if self._monotonic() > ends_s:
                answers.append(StoreUnavailable(BATCH_TOO_SLOW, code="store.slow"))
                continue
            try:
                answers.append(await self.decide(call, admitted))
            except AuthzError as error:
                if not answers:
                    raise
                answers.append(error)
            except Exception:
                if not answers:
                    raise
                logger.exception("a call of a batch failed")
                answers.append(AuthzError("internal error"))
        return answers

    async def record_refusal(self, caller: Caller, error: AuthzError, status: int) -> None:
        """Record that a known caller's request was refused before a decision."""
        await self._ledger.commit(
            CommitUnit(
                event=refusal_event(
                    caller=caller,
                    code=error.code,
                    message=error.message,
                    pointer=error.pointer,
                    status=status,
                    redactor=self._redactor,
                    now_ms=self._clock.now_ms(),
                )
            )
        )


BATCH_TOO_SLOW: Final = (
    f"the batch was not decided within {MAX_BATCH_SECONDS:g} seconds; send the calls without a decision again"
)

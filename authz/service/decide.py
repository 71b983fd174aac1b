"""Decides calls: stage 0's binding, facts for the core, and stage 10's commit (spec section 2)."""

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from authz_client.capabilities import Ancestor
from authz_client.capabilities.revocations import check_revoked

from authz.core.claims import check_subject
from authz.core.lines import Lines
from authz.core.record import refusal_event
from authz.core.redact import Redactor
from authz.errors import AuthzError, Forbidden, StoreUnavailable
from authz.model.approval_writes import ApprovalMoved
from authz.model.call import Call
from authz.model.caller import Caller
from authz.model.capability import Presented
from authz.model.decision import Decision, Effect
from authz.model.limit import LimitReached
from authz.model.record import Committed
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
from authz.service.approvals import ApprovalService
from authz.service.asking import DEFAULT_TERMS, Asking, AskingTerms, Turns, lost
from authz.service.attempt import Attempts, Found, Refused
from authz.service.bundles import Admitted
from authz.service.lapses import Lapses
from authz.service.lines import read_lines

logger = logging.getLogger("authz.service")

MAX_ATTEMPTS: Final = 8
"""How often a decision is made again because its operation or approval moved under it, before a 503."""
MAX_BATCH_SECONDS: Final = 10.0
"""For which a batch is decided by the key and the bundle that held at its start; the rest is a 503."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A decision whose record is durable."""

    decision: Decision
    committed: Committed
    ticket: str | None = None
    """For the tool server, where the call asked for one and is allowed."""


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
        asking: AskingTerms = DEFAULT_TERMS,
        approvals: ApprovalService | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._ledger = ledger
        self._bundles = bundles
        self._clock = clock
        self._observer = observer
        self._redactor = redactor
        self._lapses = Lapses(ledger=ledger, clock=clock, redactor=redactor)
        self._lines = lines
        self._capabilities = capabilities
        self._approvals = approvals
        self._turns = Turns()
        self._monotonic = monotonic
        self._attempts = Attempts(
            ledger=ledger,
            clock=clock,
            ids=ids,
            redactor=redactor,
            operation_secret=operation_secret,
            ttl_ms=ttl_ms,
            lapses=self._lapses,
            asking=Asking(ledger=ledger, ids=ids, terms=asking),
            capabilities=capabilities,
            tickets=tickets,
        )

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
        found = Found(look_up=call.dry_run, presented=presented)
        for _ in range(MAX_ATTEMPTS):
            if found.turn:
                async with self._turns.of(found.turn):
                    tried = await self._try(call, admitted, replace(found, turn=""), lines)
            else:
                tried = await self._try(call, admitted, found, lines)
            if isinstance(tried, Answer):
                return tried
            found = tried
        raise StoreUnavailable(
            "the operation kept changing while it was decided; send the call again", code="store.contended"
        )

    async def _try(self, call: Call, admitted: Admitted, found: Found, lines: Lines) -> Answer | Found:
        """The answer once it is durable, or what is known better for the next attempt. Raises as `decide`."""
        caller, presented = admitted.caller, found.presented
        attempt = await self._attempts.make(call, admitted, found, lines)
        if attempt is None:
            return found
        committed = await self._ledger.commit(attempt.unit)
        if not isinstance(committed, Committed):
            return await self._after(found, committed, attempt.unit)
        if self._capabilities is not None and attempt.unit.links and presented is not None:
            self._capabilities.recorded(presented.digest)
        if self._approvals is not None and (attempt.unit.asks or attempt.unit.consumes) is not None:
            self._approvals.waits.wake(caller.tenant)
        self._observer.decided(caller.tenant, attempt.decision)
        if attempt.decision.effect is Effect.ALLOW:
            self._check_still_in_force(caller, attempt.handles)
        return Answer(decision=attempt.decision, committed=committed, ticket=attempt.ticket)

    async def _after(self, found: Found, refused: Refused, unit: CommitUnit) -> Found:
        """What is known after a commit that wrote nothing.

        What is full may be full of calls that never began and whose time is over: first they are given back.
        """
        if isinstance(refused, LimitReached) and not found.swept:
            swept = await self._lapses.sweep()
            found = replace(found, swept=True)
            if swept:
                return replace(found, look_up=True, reached=())
        if isinstance(refused, ApprovalMoved):
            if unit.asks is not None and self._approvals is not None:
                # One that is over waits still, as long as its end is not on record.
                await self._approvals.lapses.write_down(unit.event.tenant, refused.request_id)
            found = replace(found, turn=lost(unit))
        return found.after(refused)

    async def _load(self, call: Call, caller: Caller) -> Presented | None:
        """The capability that the call presents. Without a source there is none, and it is refused."""
        if self._capabilities is None or not call.capability:
            return None
        return await self._capabilities.load(caller, call)

    def _check_still_in_force(self, caller: Caller, handles: tuple[Ancestor, ...]) -> None:
        """Withhold an allow whose capability was revoked while its record went to disk.

        The record says allow, and nobody is told: neither the lease's token nor a ticket leaves here, and the
        same call is judged by what is revoked, or by something else than its permission rests on, from now
        on. What was reserved is given back as of any permission that nobody uses: at the end of its lease
        where the runtime settles and the act was not to begin with the decision, else by whoever looks.
        Raises `StoreUnavailable`, and `RevocationsStale` when so much time has passed that nobody knows.
        """
        if self._capabilities is None or not handles:
            return
        if check_revoked(handles, self._capabilities.rules(caller.tenant).revoked) is not None:
            raise StoreUnavailable(
                "the capability was revoked while this was put on record: it is not allowed",
                code="capability.revoked_meanwhile",
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

"""Decides calls: stage 0's binding, facts for the core, and stage 10's commit (spec section 2)."""

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from authz.core.claims import check_subject
from authz.core.decide import Facts, Outcome, decide
from authz.core.fingerprint import operation_key, session_key
from authz.core.record import decision_event, refusal_event
from authz.core.redact import Redactor
from authz.errors import AuthzError, Forbidden, StoreUnavailable
from authz.model.call import Call
from authz.model.caller import Caller
from authz.model.decision import Decision, Effect, Stage
from authz.model.limit import LimitReached, Reached
from authz.model.operation import OperationRecord, OperationState, OperationWrite
from authz.model.record import Committed, Conflict
from authz.ports import Bundles, Clock, CommitUnit, ExposureWrite, IdSource, Ledger, LineReader, Observer
from authz.service.bundles import Admitted
from authz.service.lines import read_lines

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
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._ledger = ledger
        self._bundles = bundles
        self._clock = clock
        self._ids = ids
        self._observer = observer
        self._secret = operation_secret
        self._redactor = redactor
        self._ttl_ms = ttl_ms
        self._lines = lines
        self._monotonic = monotonic

    async def decide(self, call: Call, admitted: Admitted) -> Answer:
        """Decide one call and record it.

        Raises `Forbidden` when the credential may not assert the subject (stage 0), `BundleStale` when
        the bundle in force may no longer decide, and `StoreUnavailable` when the record cannot be made
        durable; then no decision was made.
        """
        # One ruleset a request: who the caller is and what it may do come from the same version.
        caller, ruleset = admitted.caller, admitted.ruleset
        self._bundles.check_fresh(caller.tenant)
        refused = check_subject(call, caller.profile)
        if refused is not None:
            raise Forbidden(refused, code="subject.not_bound", pointer="/subject")
        key = operation_key(caller.tenant, call)
        session = session_key(caller.tenant, call)
        # Most calls are new, so the first attempt takes the operation for absent and leaves it to the commit
        # to find out: whatever rests on that inserts the operation, and only where there is none. A dry run
        # inserts nothing, so it looks first.
        look_up = call.dry_run
        reached: tuple[Reached, ...] = ()
        lines = await read_lines(self._lines, call, ruleset, caller.profile)
        for _ in range(MAX_ATTEMPTS):
            operation = await self._ledger.find_operation(key) if key is not None and look_up else None
            exposed = await self._ledger.session_exposure(session) if session is not None else frozenset()
            now_ms = self._clock.now_ms()
            facts = Facts(
                caller=caller,
                ruleset=ruleset,
                now_ms=now_ms,
                decision_id=self._ids.new_id(),
                operation=operation,
                exposed=exposed,
                approvals=(),
                secret=self._secret,
                ttl_ms=self._ttl_ms,
                lines=lines,
                reached=reached,
            )
            outcome = decide(call, facts)
            decision = outcome.decision
            event = decision_event(call, outcome, caller, ruleset, self._redactor, now_ms, exposed)
            committed = await self._ledger.commit(
                CommitUnit(
                    event=event,
                    operation=_operation_write(key, call, caller, outcome, operation),
                    exposure=_exposure_write(session, call, decision, exposed),
                    reservations=decision.reservations,
                    only_checked=call.dry_run,
                )
            )
            if isinstance(committed, LimitReached):
                # Unless it is a repeat, which takes nothing: the next attempt knows, and denies if not.
                reached, look_up = committed.reached, True
                continue
            if isinstance(committed, Conflict):
                # What was full then may be free by now: only a commit's own last word is a refusal.
                reached, look_up = (), True
                continue
            self._observer.decided(caller.tenant, decision)
            return Answer(decision=decision, committed=committed)
        raise StoreUnavailable(
            "the operation kept changing while it was decided; send the call again", code="store.contended"
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
_STATES: Final = {
    Effect.ALLOW: OperationState.RESERVED,
    Effect.REQUIRE_APPROVAL: OperationState.WAITING,
    Effect.DENY: OperationState.REFUSED,
}


def _operation_write(
    key: str | None, call: Call, caller: Caller, outcome: Outcome, operation: OperationRecord | None
) -> OperationWrite | None:
    """What the decision does to the operation; `None` when it leaves it as it is."""
    decision = outcome.decision
    if key is None or call.dry_run or decision.repeated or decision.fingerprint is None:
        return None
    if decision.stage is Stage.OPERATION:
        return None
    # A permission that was given stays on record, whatever is answered later: forgetting it would
    # let the same call be allowed a second time.
    given = operation is not None and operation.state is OperationState.RESERVED
    if given and decision.effect is not Effect.ALLOW:
        return None
    # The same refusal, or the same question, once more: nothing moves, so nothing is contended for.
    state = _STATES[decision.effect]
    if operation is not None and decision.effect is not Effect.ALLOW and operation.state is state:
        return None
    return OperationWrite(
        tenant=caller.tenant,
        key=key,
        fingerprint=decision.fingerprint,
        state=state,
        decision_id=decision.decision_id,
        expires_at_ms=decision.expires_at_ms or 0 if decision.effect is Effect.ALLOW else 0,
        expected_version=operation.version if operation is not None else None,
    )


def _exposure_write(
    session: str | None, call: Call, decision: Decision, exposed: frozenset[str]
) -> ExposureWrite | None:
    if session is None or call.dry_run or decision.effect is not Effect.ALLOW:
        return None
    added = decision.exposes - exposed
    return ExposureWrite(session_key=session, labels=added) if added else None

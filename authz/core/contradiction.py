"""Outcomes that are told too late, or otherwise than before: kept, and what may have run runs no more.

A holder can report after its lease ended and what it had reserved was given back, or after the call was
decided anew. Such a word settles nothing: it gives nothing back and takes nothing. Yet where it says that an
effect may stand, then that effect was not counted and could be had a second time. So the operation becomes
unknown, whoever holds it by then, and only a person or a probe says what is true (spec section 9).
Reads are the exception: they may be retried, so nothing is stopped because an earlier one came to its end.
"""

from dataclasses import dataclass, replace
from typing import Final

from authz.core.settlement import NEVER_ALLOWED, By, Move, Outcome, state_at
from authz.model.operation import OperationRecord, OperationState
from authz.model.record import EventType

_S: Final = OperationState
_MAY_STAND: Final = frozenset({_S.SUCCEEDED, _S.FAILED_FINAL, _S.UNKNOWN})
"""Outcomes after which the call is not to be tried again. `failed_retryable` says that it may be."""
_HELD: Final = frozenset({_S.RESERVED, _S.EXECUTING})
_MAY_RUN: Final = _HELD | {_S.FAILED_RETRYABLE, _S.NOT_EXECUTED}
"""States in which the act is going on, or from which it may begin again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Contradiction:
    """An outcome that does not follow from where its decision left the operation."""

    outcome: Outcome
    move: Move
    """For the record of the decision that it was told for."""
    after: OperationRecord
    """The operation from now on. Where it `stops`, it is unknown; else it is as it was, at that moment."""
    stops: bool
    superseded: bool
    """The call was decided anew since that decision."""


def check_contradiction(
    own: OperationRecord, current: OperationRecord, now_ms: int, outcome: Outcome, *, is_read: bool
) -> Contradiction | None:
    """What becomes of an outcome that was not taken; `None` where it is only too early, or about nothing.

    `own` is how the decision that it was told for left the operation, `current` how that stands: the same,
    unless the call was decided anew.
    """
    before = state_at(own, now_ms)
    superseded = own.decision_id != current.decision_id
    if before in NEVER_ALLOWED or (before in _HELD and not superseded):
        return None
    state = state_at(current, now_ms)
    stops = (
        outcome.state in _MAY_STAND
        and not is_read
        and (state in _MAY_RUN or (superseded and state is _S.UNKNOWN and not current.is_contradicted))
    )
    # The end of an undeclared lease is written down nowhere, and yet it counts.
    after = replace(current, state=state)
    if stops:
        after = replace(
            current,
            state=_S.UNKNOWN,
            external_id=outcome.external_id,
            result_digest=outcome.result_digest,
            settled_at_ms=now_ms,
        )
    move = Move(
        event=EventType.OPERATION_CONTRADICTED,
        source=before,
        by=By.CONTRADICTION,
        after=replace(own, state=before) if superseded or not stops else after,
    )
    return Contradiction(outcome=outcome, move=move, after=after, stops=stops, superseded=superseded)

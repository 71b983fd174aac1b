"""A call that may run now, and how it ended."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from authz_client.outcomes import Outcome

if TYPE_CHECKING:
    from collections.abc import Mapping

    from authz_client.errors import DecisionUnavailable
    from authz_client.model import Decision, Lease


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """What is told of a call that is over."""

    outcome: Outcome
    external_id: str | None = None
    result_digest: str | None = None
    detail: str = ""


class Permitted:
    """One call that may run now, once, with `arguments`: those that were judged, defaults included."""

    def __init__(
        self,
        tool: str,
        arguments: Mapping[str, Any],
        *,
        decision: Decision | None,
        attempt: str | None,
        is_settled: bool,
    ) -> None:
        self.tool = tool
        """`server/name`"""
        self.arguments = arguments
        self.decision = decision
        """`None` only where no decision was to be had and the tool may run all the same."""
        self.attempt = attempt
        self.is_settled = is_settled
        """Whether it is told how it ended."""
        self.ended: Ended | None = None

    @classmethod
    def of(cls, tool: str, decision: Decision, *, attempt: str, is_settled: bool) -> Self:
        """By an allow that is whole."""
        arguments = decision.arguments
        if arguments is None:
            raise ValueError("the decision names no arguments")
        return cls(tool, arguments, decision=decision, attempt=attempt, is_settled=is_settled)

    @classmethod
    def fail_open(cls, tool: str, arguments: Mapping[str, Any]) -> Self:
        """Without a decision: see `Guard`, `fail_open_for`."""
        return cls(tool, arguments, decision=None, attempt=None, is_settled=False)

    @property
    def known_decision(self) -> Decision:
        """The decision, where there is one. Raises `ValueError`."""
        if self.decision is None:
            raise ValueError("there was no decision")
        return self.decision

    @property
    def lease(self) -> Lease:
        """The right to settle. Raises `ValueError` where there is none."""
        lease = self.known_decision.lease
        if lease is None:
            raise ValueError("the decision carries no lease")
        return lease

    @property
    def idempotency_key(self) -> str | None:
        """For the endpoint: the same for every try of this call."""
        return self.decision.idempotency_key if self.decision is not None else None

    @property
    def ticket(self) -> str | None:
        """For the endpoint, where one was asked for."""
        return self.decision.ticket if self.decision is not None else None

    def succeeded(
        self, *, external_id: str | None = None, result_digest: str | None = None, detail: str = ""
    ) -> None:
        """It took effect. Told when the call is over; what is raised afterwards does not change it."""
        self.ended = Ended(
            outcome=Outcome.SUCCEEDED, external_id=external_id, result_digest=result_digest, detail=detail
        )

    def failed(self, outcome: Outcome, *, external_id: str | None = None, detail: str = "") -> None:
        """It did not do what it should: `failed_retryable`, `failed_final`, or `unknown` if it may have."""
        if outcome not in _FAILURES:
            raise ValueError(f"`{outcome}` is no failure: use one of {', '.join(sorted(_FAILURES))}")
        self.ended = Ended(outcome=Outcome(outcome), external_id=external_id, detail=detail)


_FAILURES = frozenset({Outcome.FAILED_RETRYABLE, Outcome.FAILED_FINAL, Outcome.UNKNOWN})


@dataclass(frozen=True, slots=True, kw_only=True)
class Unsettled:
    """An outcome that could not be told. The call is over all the same, and must not be repeated.

    With `permitted.decision.decision_id`, `permitted.lease.token` and `ended` it may be told later
    (`Client.settle`); until then its operation becomes `unknown` when its lease ends.
    """

    permitted: Permitted
    ended: Ended
    failure: DecisionUnavailable

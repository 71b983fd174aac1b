"""Why a guarded call did not run, or must not run again: each is a `CallRefused`, with words for a model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from authz_client.model import Approval, ArgumentError, Decision
    from authz_client.outcomes import ApprovalStatus, Operation, Standing

_NEXT_WORDS: Final = {
    "change_arguments": "change the arguments",
    "request_approval": "ask for an approval",
    "wait": "wait",
    "query_status": "ask what became of the call",
    "escalate": "ask a person",
    "stop": "leave it",
}


class CallRefused(Exception):
    """The call does not run now. Never to be answered by running it another way.

    `next` says what may be tried, in the words of the wire (`change_arguments`, `wait`, …).
    """

    may_have_run = False
    """Whether the tool may have taken effect, by this try or by an earlier one."""

    def __init__(
        self,
        message: str,
        *,
        tool: str,
        code: str,
        next: tuple[str, ...] = ("stop",),  # noqa: A002 - the name on the wire
        decision: Decision | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.tool = tool
        """`server/name`"""
        self.code = code
        self.next = next
        self.decision = decision

    @property
    def rules(self) -> tuple[tuple[str, str], ...]:
        """(name, reason) of each rule that refused."""
        matched = self.decision.matched if self.decision is not None else ()
        return tuple((rule.rule, rule.reason) for rule in matched)

    @property
    def retry_unchanged(self) -> bool:
        """Whether the same call may be answered otherwise later."""
        return self.decision is not None and self.decision.retry_unchanged

    def for_model(self) -> str:
        """What to hand the model in place of a result."""
        parts = [f"{self._lead()}: {self.message.rstrip('.')}."]
        parts += [f"{error.message.rstrip('.')} (at `{error.pointer or '/'}`)." for error in self._faults()]
        parts += [
            f"Rule `{name}`: {reason.rstrip('.')}." if reason else f"Rule `{name}`."
            for name, reason in self.rules
            if name not in self.message
        ]
        steps = [_NEXT_WORDS.get(step, step) for step in self.next]
        if steps:
            parts.append(f"What you may do: {', or '.join(steps)}.")
        if not self.retry_unchanged:
            parts.append("The same call again is not answered otherwise.")
        return " ".join(parts)

    def _lead(self) -> str:
        return (
            f"The call of `{self.tool}` may have run" if self.may_have_run else f"`{self.tool}` did not run"
        )

    def _faults(self) -> tuple[ArgumentError, ...]:
        return self.decision.errors if self.decision is not None else ()


class CallDenied(CallRefused):
    """The service decided: no. `decision` names the rule, or the stage that refused."""


class ApprovalPending(CallRefused):
    """A person has to agree, and has not yet. Send the same call with the same ids later."""

    def __init__(self, message: str, *, tool: str, decision: Decision, approval: Approval) -> None:
        super().__init__(message, tool=tool, code=decision.code, next=("wait",), decision=decision)
        self.approval = approval

    @property
    def retry_unchanged(self) -> bool:
        """With the same ids, once somebody has answered."""
        return True


class ApprovalRefused(CallRefused):
    """A person said no, or the request ended without a yes; `state` says which."""

    def __init__(
        self,
        message: str,
        *,
        tool: str,
        decision: Decision,
        state: str,
        status: ApprovalStatus | None = None,
    ) -> None:
        steps = decision.next if status is None else ("change_arguments", "stop")
        super().__init__(message, tool=tool, code=f"approval.{state}", next=steps, decision=decision)
        self.state = state
        self.status = status

    @property
    def retry_unchanged(self) -> bool:
        """A no stays a no."""
        return False


class CallInProgress(CallRefused):
    """Another try of this very call has begun, and its lease has not ended: it may take effect still."""

    may_have_run = True


class AlreadyDone(CallRefused):
    """This very call ran before, and is not run again. `outcome` is what came of it."""

    may_have_run = True

    def __init__(self, message: str, *, tool: str, decision: Decision, outcome: Standing) -> None:
        super().__init__(message, tool=tool, code=decision.code, next=decision.next, decision=decision)
        self.outcome = outcome

    def _lead(self) -> str:
        came = f"`{self.outcome.external_id}`" if self.outcome.external_id else "nothing that is known by id"
        return f"`{self.tool}` was called before (`{self.outcome.state}`, came of it: {came})"


class OutcomeUnknown(CallRefused):
    """It may have taken effect, and that is not known. It must be looked up, not tried again."""

    may_have_run = True


class ObligationUnmet(CallRefused):
    """The allow is bound to something that this runtime does not do."""


class IdentityRefused(CallRefused):
    """What the call is about cannot be told, or is not what was decided on. Resolve and ask again."""


class StartRefused(CallRefused):
    """The call was allowed, but it must not begin: it was cancelled, say. Nothing ran."""

    def __init__(
        self,
        message: str,
        *,
        tool: str,
        code: str,
        decision: Decision,
        operation: Operation | None = None,
    ) -> None:
        super().__init__(message, tool=tool, code=code, next=("query_status", "stop"), decision=decision)
        self.operation = operation


class NoDecision(CallRefused):
    """There is no decision. `__cause__` is the `DecisionUnavailable` that says why."""

    def __init__(self, message: str, *, tool: str) -> None:
        super().__init__(message, tool=tool, code="decision.unavailable", next=("wait", "stop"))

    @property
    def retry_unchanged(self) -> bool:
        """With the same ids it never runs twice."""
        return True

"""How stage 6 says no: a code for every reason of the token profile and of its own, and words for a model."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from authz_client.capabilities import Component, Reason

from authz.model.capability import CapabilityRefused
from authz.model.decision import Code, Next, Refusal, Stage


class OwnReason(StrEnum):
    """Why a capability is refused by what only the service knows."""

    NOT_LOADED = "not_loaded"
    """This service could not or does not verify capabilities."""
    ROOT_UNKNOWN = "root_unknown"
    PROOF_MISSING = "proof_missing"
    PROOF_REPLAYED = "proof_replayed"
    AGENT_MISMATCH = "agent_mismatch"
    SUBJECT_MISMATCH = "subject_mismatch"
    TOOL_CHANGED = "tool_changed"
    COST_UNKNOWN = "cost_unknown"
    """The entry has a cost budget, and what the call costs cannot be counted against it."""
    BUDGET_SPENT = "budget_spent"
    RATE_REACHED = "rate_reached"
    COUNTERS_TOO_MANY = "counters_too_many"


AnyReason = Reason | OwnReason

_NARROWER: Final[Mapping[AnyReason, Code]] = {
    Reason.CHAIN_TOO_LONG: Code.CAPABILITY_DEPTH,
    Reason.DEPTH_EXCEEDED: Code.CAPABILITY_DEPTH,
    Reason.EXPIRED: Code.CAPABILITY_EXPIRED,
    Reason.NOT_YET_VALID: Code.CAPABILITY_NOT_YET_VALID,
    Reason.IAT_IN_FUTURE: Code.CAPABILITY_NOT_YET_VALID,
    Reason.REVOKED_LINK: Code.CAPABILITY_REVOKED,
    Reason.REVOKED_JTI: Code.CAPABILITY_REVOKED,
    Reason.REVOKED_HOLDER: Code.CAPABILITY_REVOKED,
    Reason.ATH_MISMATCH: Code.CAPABILITY_PROOF,
    Reason.REQUEST_MISMATCH: Code.CAPABILITY_PROOF,
    Reason.PROOF_TOO_OLD: Code.CAPABILITY_PROOF,
    Reason.RIGHT_MISSING: Code.CAPABILITY_RIGHT_MISSING,
    Reason.OBJECT_OUTSIDE: Code.CAPABILITY_OBJECT_OUTSIDE,
    Reason.CONSTRAINT_UNMET: Code.CAPABILITY_CONSTRAINT,
    OwnReason.ROOT_UNKNOWN: Code.CAPABILITY_UNKNOWN,
    OwnReason.PROOF_MISSING: Code.CAPABILITY_PROOF,
    OwnReason.PROOF_REPLAYED: Code.CAPABILITY_PROOF,
    OwnReason.AGENT_MISMATCH: Code.CAPABILITY_SUBJECT,
    OwnReason.SUBJECT_MISMATCH: Code.CAPABILITY_SUBJECT,
    OwnReason.TOOL_CHANGED: Code.CAPABILITY_TOOL_CHANGED,
    OwnReason.COST_UNKNOWN: Code.CAPABILITY_CONSTRAINT,
    OwnReason.BUDGET_SPENT: Code.CAPABILITY_BUDGET,
    OwnReason.RATE_REACHED: Code.CAPABILITY_RATE,
    OwnReason.COUNTERS_TOO_MANY: Code.CAPABILITY_BUDGET,
}
CODES: Final[Mapping[AnyReason, Code]] = {
    # Whatever else is wrong with a chain makes it no capability at all.
    reason: _NARROWER.get(reason, Code.CAPABILITY_INVALID)
    for reason in (*Reason, *OwnReason)
}
"""The code of every reason. Of a proof every reason is `capability.proof`."""

_CHANGE: Final = (Next.CHANGE_ARGUMENTS, Next.ESCALATE, Next.STOP)
_ESCALATE: Final = (Next.ESCALATE, Next.STOP)
_WAIT: Final = (Next.WAIT, Next.STOP)
_WORDS: Final[Mapping[Code, tuple[str, str, tuple[Next, ...]]]] = {
    # code: what is wrong, what to do, what is allowed next
    Code.CAPABILITY_INVALID: (
        "the capability is not accepted",
        "ask whoever handed it over for a good one",
        _ESCALATE,
    ),
    Code.CAPABILITY_UNKNOWN: (
        "the capability is not known here",
        "ask whoever handed it over for one that this service issued",
        _ESCALATE,
    ),
    Code.CAPABILITY_SUBJECT: (
        "the capability is somebody else's",
        "act as the agent, and for the user, that it was given to",
        _ESCALATE,
    ),
    Code.CAPABILITY_PROOF: (
        "the capability is not proved to be held",
        "sign a new proof for this very request with the key that it was given to",
        _ESCALATE,
    ),
    Code.CAPABILITY_EXPIRED: ("the capability has expired", "ask for a new one", _ESCALATE),
    Code.CAPABILITY_NOT_YET_VALID: ("the capability is not valid yet", "ask for one that is", _ESCALATE),
    Code.CAPABILITY_REVOKED: ("the capability was revoked", "stop, or ask whoever gave it", _ESCALATE),
    Code.CAPABILITY_DEPTH: (
        "the capability was handed on too often",
        "ask for one that was handed on less often",
        _ESCALATE,
    ),
    Code.CAPABILITY_RIGHT_MISSING: (
        "the capability does not give this right",
        "ask whoever handed it over for more, or do without",
        _ESCALATE,
    ),
    Code.CAPABILITY_OBJECT_OUTSIDE: (
        "the capability does not reach this resource",
        "stay within what was given, or ask for more",
        _CHANGE,
    ),
    Code.CAPABILITY_CONSTRAINT: (
        "the capability does not allow the call like this",
        "change what it constrains, or ask for more",
        _CHANGE,
    ),
    Code.CAPABILITY_TOOL_CHANGED: (
        "the tool is not the one that the capability was given for",
        "ask for a new capability",
        _ESCALATE,
    ),
    Code.CAPABILITY_BUDGET: (
        "the budget of the capability is spent",
        "ask whoever handed it over for more",
        _ESCALATE,
    ),
    Code.CAPABILITY_RATE: (
        "the capability allows no calls as fast as this",
        "ask whoever handed it over for more",
        _ESCALATE,
    ),
}


def refused(
    reason: AnyReason,
    detail: str,
    *,
    code: Code | None = None,
    stage: Stage = Stage.CAPABILITY,
    link: int | None = None,
    agent: str | None = None,
    component: Component | None = None,
    wait_ms: int | None = None,
) -> Refusal:
    """The refusal for a reason. `detail` says what is wrong, without values that the caller sent.

    With `wait_ms` the same call, with a new proof, can be let through after that long.
    """
    code = code or CODES[reason]
    wrong, remedy, allowed = _WORDS[code]
    if wait_ms is not None:
        seconds = -(-wait_ms // 1000)
        remedy, allowed = f"wait {seconds} s, then send the call again with a new proof", _WAIT
    return Refusal(
        stage=stage,
        code=code,
        message=f"{wrong}: {detail}{_place(link, agent)}; {remedy}",
        next=allowed,
        retry_unchanged=wait_ms is not None,
        retry_after_ms=wait_ms,
        capability=CapabilityRefused(
            reason=reason.value,
            link=link,
            agent=agent,
            component=component.value if component is not None else None,
        ),
    )


def _place(link: int | None, agent: str | None) -> str:
    held = f"held by `{agent}`" if agent is not None else ""
    if link is None:
        return f" ({held})" if held else ""
    return f" (link {link}, {held})" if held else f" (link {link})"

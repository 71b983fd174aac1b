"""What is remembered of a call's session and trace: what was read there, and who was delegated."""

from dataclasses import dataclass

from authz.core.delegation import (
    delegated_label,
    delegated_trace_label,
    is_marked,
    proves_delegation,
    without_marks,
)
from authz.core.fingerprint import session_key, trace_key
from authz.model.approval import DENIED_MARK
from authz.model.call import Call
from authz.model.capability import CapabilityFacts
from authz.ports import ExposureWrite, Ledger


@dataclass(frozen=True, slots=True, kw_only=True)
class Remembered:
    """What the ledger knows of a call's session and trace."""

    session: str | None
    """Key of the session; `None` when the call names none."""
    trace: str | None
    labels: frozenset[str]
    exposed: frozenset[str]
    """Labels of what was read: what policies see."""
    delegated: bool
    may_be_denied: bool
    """Whether a person may have said no in the session: one that is not named may be any."""

    def exposure_write(self, call: Call, exposes: frozenset[str]) -> ExposureWrite | None:
        """What an allow adds."""
        added = exposes - self.labels
        if self.session is None or call.dry_run or not added:
            return None
        return ExposureWrite(session_key=self.session, labels=added)

    def delegation_write(self, call: Call, capability: CapabilityFacts) -> tuple[ExposureWrite, ...]:
        """The mark of a delegated agent, whatever its call came to: later it may leave out what it said now.

        Of both the session and the trace, since it may leave out either, too. The mark names the agent: a
        parent in the same session or trace is not marked by what its child does.
        """
        agent = call.subject.agent
        marks = ((self.session, delegated_label(agent)), (self.trace, delegated_trace_label(agent)))
        missing = [(key, label) for key, label in marks if key is not None and label not in self.labels]
        if not missing or not proves_delegation(call, capability):
            return ()
        return tuple(ExposureWrite(session_key=key, labels=frozenset({label})) for key, label in missing)


async def read_session(ledger: Ledger, tenant: str, call: Call) -> Remembered:
    """What is remembered of session and trace, in one request. Raises `StoreUnavailable`."""
    session = session_key(tenant, call)
    trace = trace_key(tenant, call.ids.trace) if call.ids.trace is not None else None
    keys = [key for key in (session, trace) if key is not None]
    labels = await ledger.session_exposure(*keys) if keys else frozenset()
    return Remembered(
        session=session,
        trace=trace,
        labels=labels,
        exposed=without_marks(labels),
        delegated=is_marked(labels, call.subject.agent),
        may_be_denied=session is None or DENIED_MARK in labels,
    )

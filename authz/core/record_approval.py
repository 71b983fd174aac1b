"""What the record of a decision says of the approval that it waits for, rests on, or is refused by."""

from typing import Any

from authz.core.cedar_context import rfc3339
from authz.core.redact import Redactor
from authz.model.approval import ApprovalState, ApprovalTold


def approval_member(told: ApprovalTold, redactor: Redactor) -> dict[str, Any]:
    """The member `approval`: the request and what was shown; of a yes also who gave it, by which factor."""
    member: dict[str, Any] = {"id": told.id, "state": told.state.value}
    if told.expires_at_ms is not None:
        member["expires_at"] = rfc3339(told.expires_at_ms)
    if told.shown_digest:
        shown = told.shown_digest
        member["shown_digest"] = redactor.digest_of(shown) if told.is_guessable else shown
    if told.state is ApprovalState.PENDING:
        member["joined"] = told.joined
    if told.scope is not None:
        member["scope"] = told.scope.value
        member["uses_left"] = told.uses_left
        member["approvers"] = [{"person": one.person, "factor": one.factor.value} for one in told.approvers]
    if told.denied_by:
        member["denied_by"] = told.denied_by
    return member

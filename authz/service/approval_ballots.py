"""Answers as they come in, and what it takes to believe the strongest of them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from authz.errors import MalformedInput
from authz.model.account import SignedIn
from authz.model.approval import ScopeKind
from authz.model.approval_request import ApprovalRequest

MAX_REASON: Final = 1000
"""Characters of a denial's reason: it goes to an agent, and to whoever reads the log."""


class Proof(Protocol):
    """What a passkey said, verified."""

    def as_json(self) -> Mapping[str, Any]:
        """All that it takes to verify it again, later and elsewhere."""
        ...


class AssertionChecker(Protocol):
    """Verifies what a passkey signed for one approval."""

    async def check_approval(
        self, person: SignedIn, request: ApprovalRequest, assertion: Mapping[str, Any]
    ) -> Proof:
        """The verified assertion, used up. Raises `AuthzError` for one that does not hold."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class BallotIn:
    """A yes as it came in. Nothing of it is believed."""

    shown_digest: str
    scope: ScopeKind = ScopeKind.ONCE
    uses: int | None = 1
    opened: frozenset[str] = frozenset()
    """JSON Pointers of folded arguments that the person opened."""
    assertion: Mapping[str, Any] | None = field(default=None, repr=False)


def check_reason(reason: str) -> None:
    """Raise `MalformedInput` for what is not a short text."""
    if len(reason) > MAX_REASON:
        raise MalformedInput(
            f"the reason is over {MAX_REASON} characters; say it shorter",
            code="input.invalid",
            pointer="/reason",
        )
    try:
        reason.encode()
    except UnicodeEncodeError:
        raise MalformedInput("the reason is no text", code="input.invalid", pointer="/reason") from None
    if "\0" in reason:
        raise MalformedInput(
            "the reason must not hold a NUL character", code="input.invalid", pointer="/reason"
        )

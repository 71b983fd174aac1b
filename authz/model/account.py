"""Human accounts, how they sign in, and what a signed-in person may do (spec section 11, approvals)."""

from dataclasses import dataclass
from enum import StrEnum

from authz.model.approval import Factor

PERSON_ROLES = frozenset({"approve", "policy", "audit"})
"""Roles of people. `decide` and `issue` are of callers alone."""


class SignInMethod(StrEnum):
    """How a person proved to be who it is."""

    PASSKEY = "passkey"
    OIDC = "oidc"
    DEV_LINK = "dev_link"
    """A link that `authz serve --dev` printed. It counts nowhere else."""
    INVITATION = "invitation"
    """A link that an operator handed over: good for registering a passkey, and for nothing else."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """One human account of a tenant."""

    account_id: str
    tenant: str
    person: str
    """Id of the `User` in the tenant's bundle."""
    display_name: str
    roles: frozenset[str]
    created_at_ms: int
    disabled_at_ms: int = 0
    dev: bool = False
    """Made by `authz serve --dev`: in other runs it is as if absent."""
    version: int = 0
    """Counts its changes; by it a change is a compare-and-set. 0: not stored yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SignedIn:
    """The live session of a person, as of this request. Nothing in it comes from the request."""

    session_id: str
    """Digest of the session's token; the token itself is not kept."""
    account: Account
    method: SignInMethod
    groups: frozenset[str]
    """Ids of bundle groups that the sign-in mapped this person into, beside those of the bundle."""
    created_at_ms: int
    expires_at_ms: int
    csrf_token: str
    """What every form of this session posts back."""
    bearer: bool = False
    """Of the command line: it carries no cookie and needs no CSRF token."""

    @property
    def factor(self) -> Factor:
        """What the session by itself proves. A passkey approval needs its own assertion, each time."""
        return Factor.SESSION

    @property
    def tenant(self) -> str:
        """Of the account."""
        return self.account.tenant

    @property
    def person(self) -> str:
        """Id of the `User`."""
        return self.account.person

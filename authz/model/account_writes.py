"""What is stored of people beside their accounts, and what a commit changes of it.

Nothing secret is in any of it: of tokens, links and codes there is a digest, of passkeys the public key.
"""

from dataclasses import dataclass
from enum import StrEnum

from authz.model.account import Account, SignInMethod


@dataclass(frozen=True, slots=True, kw_only=True)
class Passkey:
    """A WebAuthn credential of an account."""

    credential_id: str
    """Base64url, as the browser names it."""
    tenant: str
    account_id: str
    public_key: str
    """The COSE key, base64url."""
    sign_count: int
    """As the authenticator last said. Many say 0 for ever."""
    label: str
    created_at_ms: int
    used_at_ms: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class PersonSession:
    """A session of a person, of a browser or of the command line."""

    session_id: str
    """SHA-256 of its token, hex."""
    tenant: str
    account_id: str
    method: SignInMethod
    groups: frozenset[str]
    """Bundle groups that the sign-in mapped the person into."""
    created_at_ms: int
    expires_at_ms: int
    seen_at_ms: int
    bearer: bool = False
    dev: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredSession:
    """A session with the account that it is of, as one reading."""

    session: PersonSession
    account: Account


class LinkKind(StrEnum):
    """What a one-time secret is good for, and that alone."""

    INVITATION = "invitation"
    """Registering a passkey."""
    DEV_LINK = "dev_link"
    """Signing in to a run with `--dev`."""
    CLI_CODE = "cli_code"
    """One session of the command line, beneath the browser session that asked for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SignInLink:
    """A one-time link or code, by the digest of its secret."""

    digest: str
    tenant: str
    account_id: str
    kind: LinkKind
    created_at_ms: int
    expires_at_ms: int
    session_id: str = ""
    """Of `CLI_CODE`: the browser session that asked. With its end the code ends, too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OidcIdentity:
    """Who an account is at a provider. Bound at the first sign-in, for good."""

    tenant: str
    issuer: str
    subject: str
    account_id: str


class OrderKind(StrEnum):
    """What an operator with access to the data may ask a running service to do about people."""

    INVITE = "invite"
    DISABLE = "disable"
    ENABLE = "enable"
    DEV_LINK = "dev_link"


@dataclass(frozen=True, slots=True, kw_only=True)
class PersonOrder:
    """An operator's order. It changes nothing until a service carries it out, with its record."""

    order_id: str
    tenant: str
    kind: OrderKind
    person: str
    display_name: str
    roles: frozenset[str]
    link_digest: str
    """Of the link that the operator was shown; empty where there is none."""
    link_expires_at_ms: int
    at_ms: int
    outcome: str = ""
    """Empty until it was carried out (`DONE`) or refused (why)."""


DONE = "done"


# What a unit changes. Each is a compare-and-set: where what it expects does not hold, nothing of the unit is
# written and the answer is `AccountMoved`.


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountPut:
    """Make the account, where its `version` is 0 and nobody has its person, or change that version of it."""

    account: Account


@dataclass(frozen=True, slots=True, kw_only=True)
class PasskeyAdd:
    """A new passkey; its id must be nobody's."""

    passkey: Passkey


@dataclass(frozen=True, slots=True, kw_only=True)
class PasskeyUse:
    """It was used: its count goes from `from_sign_count` on."""

    tenant: str
    credential_id: str
    from_sign_count: int
    sign_count: int
    used_at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PasskeyRemove:
    """It must be there, and of this account."""

    tenant: str
    account_id: str
    credential_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionOpen:
    """A new session. With it go those that are over."""

    session: PersonSession


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionEnd:
    """One session ends, which must be there; codes that it asked for go with it."""

    tenant: str
    session_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionsEnd:
    """All sessions and links of an account, however many there are."""

    tenant: str
    account_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkAdd:
    """A new link. With it go those that are over, and earlier ones of this kind and account."""

    link: SignInLink


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkUse:
    """Use a link up, which must be there."""

    tenant: str
    digest: str
    kind: LinkKind


@dataclass(frozen=True, slots=True, kw_only=True)
class IdentityAdd:
    """Bind an account to who it is at a provider; nobody else may be it."""

    identity: OidcIdentity


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderDone:
    """An order was carried out or refused, once."""

    order_id: str
    outcome: str
    at_ms: int


AccountWrite = (
    AccountPut
    | PasskeyAdd
    | PasskeyUse
    | PasskeyRemove
    | SessionOpen
    | SessionEnd
    | SessionsEnd
    | LinkAdd
    | LinkUse
    | IdentityAdd
    | OrderDone
)


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountMoved:
    """Something of an account is no longer as it was when this was decided: nothing was written."""

    what: str
    """The name of the write that did not hold."""

"""Where notices are delivered."""

from dataclasses import dataclass, field
from enum import StrEnum


class WebhookFormat(StrEnum):
    """What a receiver takes."""

    AUTHZ = "authz"
    """The body of a notice as it is: the envelope of the Standard Webhooks specification."""
    SLACK = "slack"
    """A message for an incoming webhook of Slack."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Webhook:
    """One receiver of a tenant's notices."""

    tenant: str
    name: str
    url: str = field(repr=False)
    """A secret: of some receivers whoever knows it may post."""
    keys: tuple[bytes, ...] = field(default=(), repr=False)
    """Each signs: while a receiver changes from one to the next there are two."""
    format: WebhookFormat = WebhookFormat.AUTHZ
    events: frozenset[str]
    """Kinds of notices that it gets."""

"""An identity provider that a tenant trusts, and what its word is worth here."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class OidcProvider:
    """One OpenID provider of one tenant."""

    tenant: str
    issuer: str
    client_id: str
    client_secret: str = field(repr=False)
    scopes: tuple[str, ...]
    person_claim: str
    """The claim of the ID token that is the id of the `User`."""
    groups_claim: str
    groups: Mapping[str, frozenset[str]]
    """Groups of the bundle by a group of the provider's."""
    roles: Mapping[str, frozenset[str]]
    """Roles by a group of the provider's. Who is in none of them is not signed in."""
    origins: frozenset[str] = frozenset()
    """Where else than at the issuer its endpoints may be."""

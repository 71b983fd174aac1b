"""What a checked capability comes to (spec section 7). Verification is stage 6's own work."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class CapabilityFacts:
    """What policies are told of the capability that a call was made with.

    `NO_CAPABILITY` is itself a fact that policies see: the shipped rules deny delegated agents
    that have none.
    """

    presented: bool
    agents: tuple[str, ...] = ()
    """Every agent of the delegation chain, root first. Policy is evaluated for each."""
    depth: int | None = None
    holder: str | None = None
    root: str | None = None
    expires_at_ms: int | None = None


NO_CAPABILITY = CapabilityFacts(presented=False)

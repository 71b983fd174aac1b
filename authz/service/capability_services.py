"""The use cases of capabilities, made once and together: they share chains and revocations."""

from dataclasses import dataclass

from authz.core.redact import Redactor
from authz.ports import Bundles, CapabilityKeys, CapabilityObserver, Clock, IdSource, Ledger
from authz.service.capabilities import CapabilityIssuer
from authz.service.capabilities_narrow import CapabilityNarrower
from authz.service.capabilities_revoke import CapabilityRevoker
from authz.service.capabilities_view import CapabilityViews
from authz.service.capability_chains import CapabilityChains
from authz.service.revocations import RevocationsInForce


@dataclass(frozen=True, slots=True, kw_only=True)
class CapabilityServices:
    """What the routes and the decisions need of capabilities."""

    clock: Clock
    revocations: RevocationsInForce
    chains: CapabilityChains
    issuer: CapabilityIssuer
    narrower: CapabilityNarrower
    revoker: CapabilityRevoker
    views: CapabilityViews

    def now_ms(self) -> int:
        """The time by the service's clock."""
        return self.clock.now_ms()

    @classmethod
    def over(
        cls,
        *,
        ledger: Ledger,
        bundles: Bundles,
        clock: Clock,
        ids: IdSource,
        keys: CapabilityKeys,
        redactor: Redactor,
        observer: CapabilityObserver,
        public_url: str,
        max_lifetime_seconds: int,
        max_staleness_seconds: float,
    ) -> "CapabilityServices":
        """All of them over one ledger."""
        revocations = RevocationsInForce(ledger, clock, max_staleness_seconds=max_staleness_seconds)
        chains = CapabilityChains(
            ledger=ledger,
            keys=keys,
            clock=clock,
            revocations=revocations,
            public_url=public_url,
            max_lifetime_seconds=max_lifetime_seconds,
        )
        issuer = CapabilityIssuer(
            ledger=ledger,
            bundles=bundles,
            clock=clock,
            ids=ids,
            keys=keys,
            chains=chains,
            redactor=redactor,
            observer=observer,
            max_lifetime_seconds=max_lifetime_seconds,
        )
        return cls(
            clock=clock,
            revocations=revocations,
            chains=chains,
            issuer=issuer,
            narrower=CapabilityNarrower(issuer),
            revoker=CapabilityRevoker(
                ledger=ledger,
                clock=clock,
                chains=chains,
                redactor=redactor,
                observer=observer,
                max_lifetime_seconds=max_lifetime_seconds,
            ),
            views=CapabilityViews(ledger=ledger, clock=clock, chains=chains, redactor=redactor),
        )

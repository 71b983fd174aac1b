"""Tickets that go with an allow: signed for the tool server, which never sees the chain (spec section 7)."""

from collections.abc import Callable
from typing import Final

from authz_client.capabilities import BadKey, Refused, sign_ticket
from authz_client.capabilities.tickets import MAX_TICKET_SECONDS

from authz.errors import StoreUnavailable
from authz.model.call import Call
from authz.model.capability import CapabilityFacts
from authz.model.decision import Decision
from authz.model.tool import Descriptor
from authz.ports import CapabilityKeys

UNAVAILABLE: Final = "ticket.unavailable"


class ServiceTickets:
    """`ports.TicketSigner` by the service's own keys."""

    def __init__(self, *, keys: CapabilityKeys, issuer: Callable[[str], str]) -> None:
        self._keys = keys
        self._issuer = issuer
        """The issuer URL of a tenant."""

    def sign(
        self,
        *,
        tenant: str,
        decision: Decision,
        call: Call,
        descriptor: Descriptor,
        capability: CapabilityFacts,
        now_ms: int,
    ) -> str:
        """See `ports.TicketSigner`."""
        fingerprint, arguments = decision.fingerprint, decision.arguments
        ends_ms = decision.expires_at_ms
        if ends_ms is None or fingerprint is None or arguments is None:
            raise StoreUnavailable("only an allow has a ticket", code=UNAVAILABLE)
        agent = call.subject.agent
        # Whoever acts for no user has the first agent of its chain for a subject.
        subject = call.subject.on_behalf_of or capability.root or agent
        now = now_ms // 1000
        # By what is allowed, and not by the lease: that may be stretched to the length of the act.
        if capability.expires_at_ms is not None:
            ends_ms = min(ends_ms, capability.expires_at_ms)
        try:
            return sign_ticket(
                self._keys.signer(now_ms),
                issuer=self._issuer(tenant),
                audience=descriptor.server.identity,
                subject=subject,
                # Said also where a user has the name of the agent: without it nobody is acted for.
                agent=agent if agent != subject or call.subject.on_behalf_of is not None else None,
                tool=descriptor.qualified_name,
                fingerprint=fingerprint,
                arguments=arguments,
                decision_id=decision.decision_id,
                holder_thumbprint=capability.holder,
                ancestors=capability.handles,
                jti=decision.decision_id,
                iat=now,
                exp=min(ends_ms // 1000, now + MAX_TICKET_SECONDS),
            )
        except (Refused, BadKey, ValueError) as error:
            raise StoreUnavailable(
                "no ticket could be signed for this call, so it is not allowed; ask without one",
                code=UNAVAILABLE,
                internal=type(error).__name__,
            ) from None

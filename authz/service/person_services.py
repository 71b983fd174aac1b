"""The use cases about people, made of one set of parts."""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Self

from authz.core.redact import Redactor
from authz.model.oidc import OidcProvider
from authz.ports import Bundles, Clock, Ledger
from authz.service.oidc import OidcService
from authz.service.one_time import Challenges
from authz.service.passkeys import PasskeyService
from authz.service.people import PeopleService, SessionTerms
from authz.service.person_orders import PersonOrders
from authz.service.rate_limits import RateLimits
from authz.service.sign_in import SignInService


@dataclass(frozen=True, slots=True, kw_only=True)
class PersonServices:
    """All of them, over one ledger."""

    people: PeopleService
    sign_in: SignInService
    passkeys: PasskeyService
    oidc: OidcService
    orders: PersonOrders

    @classmethod
    def over(
        cls,
        *,
        ledger: Ledger,
        bundles: Bundles,
        clock: Clock,
        redactor: Redactor,
        derive: Callable[[str], bytes],
        terms: SessionTerms,
        providers: Iterable[OidcProvider],
        public_url: str,
        dev: bool = False,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> Self:
        """`derive` makes a key for each purpose, the same in every replica."""
        providers = tuple(providers)
        limits, challenges = RateLimits(monotonic), Challenges(derive("challenges"))
        people = PeopleService(
            ledger=ledger,
            bundles=bundles,
            clock=clock,
            redactor=redactor,
            key=derive("sessions"),
            terms=terms,
            dev=dev,
        )
        sign_in = SignInService(
            people=people, ledger=ledger, clock=clock, limits=limits, key=derive("visitors")
        )
        return cls(
            people=people,
            sign_in=sign_in,
            passkeys=PasskeyService(
                people=people,
                sign_in=sign_in,
                ledger=ledger,
                clock=clock,
                challenges=challenges,
                limits=limits,
                public_url=public_url,
                provided=frozenset(provider.tenant for provider in providers),
            ),
            oidc=OidcService(
                providers=providers,
                people=people,
                ledger=ledger,
                clock=clock,
                challenges=challenges,
                public_url=public_url,
            ),
            orders=PersonOrders(
                people=people, ledger=ledger, bundles=bundles, clock=clock, redactor=redactor
            ),
        )

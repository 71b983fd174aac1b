"""What the pages need from the use cases; made by `authz.app`."""

from dataclasses import dataclass

from fastapi import Request

from authz.ports import Clock, Ledger
from authz.service.approvals import ApprovalService
from authz.service.capability_services import CapabilityServices
from authz.service.oidc import OidcService
from authz.service.passkeys import PasskeyService
from authz.service.people import PeopleService
from authz.service.sign_in import SignInService


@dataclass(frozen=True, slots=True, kw_only=True)
class UiServices:
    """One value for all pages: `services_of(request)`."""

    approvals: ApprovalService
    people: PeopleService
    passkeys: PasskeyService
    sign_in: SignInService
    oidc: OidcService
    ledger: Ledger
    capabilities: CapabilityServices
    clock: Clock
    public_url: str
    """Where people reach the pages: the origin that forms and passkeys are bound to."""


def services_of(request: Request) -> UiServices:
    """The services of the application that answers `request`."""
    services: UiServices = request.app.state.services
    return services

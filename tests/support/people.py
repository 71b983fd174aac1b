"""People with accounts, signed in as the command line is: by a session that is sent as a bearer."""

from authz.core.account_event import By, Change
from authz.model.account import Account, SignInMethod
from authz.model.account_writes import AccountPut
from authz.service.people import PeopleService
from tests.support.service import Service


def people_of(service: Service) -> PeopleService:
    """The accounts of a service."""
    return service.application.services.people.people


async def sign_in(
    service: Service,
    person: str,
    *roles: str,
    tenant: str = "default",
    method: SignInMethod = SignInMethod.PASSKEY,
) -> dict[str, str]:
    """Make an account and return the headers of a session of it; it has the role `approve` by default."""
    people = people_of(service)
    account = Account(
        account_id=f"account-{tenant}-{person}",
        tenant=tenant,
        person=person,
        display_name=person.title(),
        roles=frozenset(roles or ("approve",)),
        created_at_ms=service.clock.now_ms(),
    )
    await people.change(account, Change.INVITED, By.OPERATOR, AccountPut(account=account))
    stored = await service.ledger.find_account(tenant, account.account_id)
    assert stored is not None
    opened = await people.open_session(stored, method, bearer=True)
    return {"Authorization": f"Bearer {opened.token}"}

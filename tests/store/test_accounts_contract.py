"""What every ledger does with people: all of a unit or nothing of it, and nothing without its record."""

import asyncio
import dataclasses

import pytest
from sqlalchemy import insert

from authz.errors import StoreUnavailable
from authz.model.account import Account, SignInMethod
from authz.model.account_writes import (
    DONE,
    AccountMoved,
    AccountPut,
    AccountWrite,
    IdentityAdd,
    LinkAdd,
    LinkKind,
    LinkUse,
    OidcIdentity,
    OrderDone,
    OrderKind,
    Passkey,
    PasskeyAdd,
    PasskeyRemove,
    PasskeyUse,
    PersonOrder,
    PersonSession,
    SessionEnd,
    SessionOpen,
    SessionsEnd,
    SignInLink,
)
from authz.model.operation import OperationState
from authz.model.record import CommitOutcome, Committed, EventQuery, EventType
from authz.ports import CommitUnit
from authz.store.account_rows import order_row
from authz.store.account_tables import PERSON_ORDERS
from authz.store.database import open_session
from authz.store.memory import MemoryLedger
from authz.store.sqlite import SqliteLedger
from tests.store.test_ledger_contract import AnyLedger, ledger
from tests.store.world import START_MS, event, operation

__all__ = ["ledger"]

GRACE = Account(
    account_id="a-1",
    tenant="default",
    person="grace",
    display_name="Grace",
    roles=frozenset({"approve", "audit"}),
    created_at_ms=START_MS,
)
PASSKEY = Passkey(
    credential_id="c-1",
    tenant="default",
    account_id="a-1",
    public_key="AA",
    sign_count=3,
    label="laptop",
    created_at_ms=START_MS,
)
SESSION = PersonSession(
    session_id="s-1",
    tenant="default",
    account_id="a-1",
    method=SignInMethod.PASSKEY,
    groups=frozenset({"finance", "staff"}),
    created_at_ms=START_MS,
    expires_at_ms=START_MS + 1000,
    seen_at_ms=START_MS,
)
LINK = SignInLink(
    digest="l-1",
    tenant="default",
    account_id="a-1",
    kind=LinkKind.INVITATION,
    created_at_ms=START_MS,
    expires_at_ms=START_MS + 1000,
)
CODE = dataclasses.replace(LINK, digest="l-2", kind=LinkKind.CLI_CODE, session_id="s-1")
IDENTITY = OidcIdentity(tenant="default", issuer="https://idp.test", subject="7", account_id="a-1")
ORDER = PersonOrder(
    order_id="o-1",
    tenant="default",
    kind=OrderKind.INVITE,
    person="grace",
    display_name="Grace",
    roles=frozenset({"approve"}),
    link_digest="l-1",
    link_expires_at_ms=START_MS + 1000,
    at_ms=START_MS,
)
EVERYTHING = (
    AccountPut(account=GRACE),
    PasskeyAdd(passkey=PASSKEY),
    SessionOpen(session=SESSION),
    LinkAdd(link=LINK),
    LinkAdd(link=CODE),
    IdentityAdd(identity=IDENTITY),
)
MISSES: list[AccountWrite] = [
    AccountPut(account=dataclasses.replace(GRACE, account_id="a-2")),
    AccountPut(account=dataclasses.replace(GRACE, version=2)),
    AccountPut(account=dataclasses.replace(GRACE, account_id="a-9", version=1)),
    PasskeyAdd(passkey=dataclasses.replace(PASSKEY, account_id="a-2")),
    PasskeyUse(tenant="default", credential_id="c-1", from_sign_count=2, sign_count=4, used_at_ms=1),
    PasskeyUse(tenant="default", credential_id="c-9", from_sign_count=3, sign_count=4, used_at_ms=1),
    PasskeyRemove(tenant="default", account_id="a-2", credential_id="c-1"),
    SessionOpen(session=SESSION),
    SessionEnd(tenant="default", session_id="s-9"),
    LinkUse(tenant="default", digest="l-1", kind=LinkKind.DEV_LINK),
    LinkUse(tenant="default", digest="l-9", kind=LinkKind.INVITATION),
    IdentityAdd(identity=dataclasses.replace(IDENTITY, account_id="a-2")),
    OrderDone(order_id="o-9", outcome=DONE, at_ms=START_MS),
]


def unit(*writes: AccountWrite, number: int = 1) -> CommitUnit:
    changed = event(number, event_type=EventType.ACCOUNT_CHANGED)
    return CommitUnit(event=changed, accounts=writes)


async def write(ledger: AnyLedger, *writes: AccountWrite) -> CommitOutcome:
    return await ledger.commit(unit(*writes))


async def records(ledger: AnyLedger) -> int:
    return len(await ledger.search(EventQuery(tenant="default")))


async def test_everything_is_found_again_as_it_was_written(ledger: AnyLedger) -> None:
    assert isinstance(await write(ledger, *EVERYTHING), Committed)
    stored = dataclasses.replace(GRACE, version=1)
    assert await ledger.find_account("default", "a-1") == stored
    assert await ledger.find_account_of("default", "grace") == stored
    assert list(await ledger.find_accounts("default")) == [stored]
    assert await ledger.find_passkey("c-1") == PASSKEY
    assert list(await ledger.find_passkeys("default", "a-1")) == [PASSKEY]
    found = await ledger.find_person_session("s-1")
    assert found is not None
    assert (found.session, found.account) == (SESSION, stored)
    assert list(await ledger.find_person_sessions("default", "a-1")) == [SESSION]
    assert await ledger.find_sign_in_link("l-1") == LINK
    assert await ledger.find_sign_in_link("l-2") == CODE
    assert await ledger.find_identity("default", "https://idp.test", "7") == IDENTITY
    assert await ledger.has_identity("default", "a-1")


@pytest.mark.parametrize("text", ["nobody", "", "\0", "\ud800"])
async def test_what_is_not_there_is_none(ledger: AnyLedger, text: str) -> None:
    await write(ledger, *EVERYTHING)
    assert await ledger.find_account("default", text) is None
    assert await ledger.find_account_of("default", text) is None
    assert await ledger.find_passkey(text) is None
    assert await ledger.find_person_session(text) is None
    assert list(await ledger.find_person_sessions("default", text)) == []
    assert await ledger.find_sign_in_link(text) is None
    assert await ledger.find_identity("default", "https://idp.test", text) is None
    assert not await ledger.has_identity("default", text)


async def test_another_tenants_people_are_as_if_absent(ledger: AnyLedger) -> None:
    await write(ledger, *EVERYTHING)
    assert await ledger.find_account("other", "a-1") is None
    assert await ledger.find_account_of("other", "grace") is None
    assert list(await ledger.find_accounts("other")) == []
    assert list(await ledger.find_passkeys("other", "a-1")) == []
    assert list(await ledger.find_person_sessions("other", "a-1")) == []
    assert await ledger.find_identity("other", "https://idp.test", "7") is None
    with pytest.raises(StoreUnavailable) as refused:
        await write(ledger, AccountPut(account=dataclasses.replace(GRACE, tenant="other", account_id="x")))
    assert refused.value.code == "store.unwritable"


@pytest.mark.parametrize("missing", MISSES, ids=lambda write: type(write).__name__)
async def test_one_that_does_not_hold_keeps_all_of_its_unit_out(
    ledger: AnyLedger, missing: AccountWrite
) -> None:
    await write(ledger, *EVERYTHING)
    before = await records(ledger)
    first = SessionOpen(session=dataclasses.replace(SESSION, session_id="s-2"))
    moved, other = await asyncio.gather(
        ledger.commit(unit(first, missing)), ledger.commit(unit(LinkUse(**_link("l-1")), number=2))
    )
    assert moved == AccountMoved(what=type(missing).__name__)
    # Others of the same batch go through.
    assert isinstance(other, Committed)
    assert await records(ledger) == before + 1
    assert await ledger.find_person_session("s-2") is None


def _link(digest: str) -> "dict[str, object]":
    return {"tenant": "default", "digest": digest, "kind": LinkKind.INVITATION}


async def test_a_link_is_used_once_however_many_try(ledger: AnyLedger) -> None:
    await write(ledger, *EVERYTHING)
    use = LinkUse(tenant="default", digest="l-1", kind=LinkKind.INVITATION)
    outcomes = await asyncio.gather(*(ledger.commit(unit(use, number=each)) for each in range(8)))
    assert sum(isinstance(outcome, Committed) for outcome in outcomes) == 1
    assert await ledger.find_sign_in_link("l-1") is None


async def test_two_changes_of_one_version_are_one(ledger: AnyLedger) -> None:
    await write(ledger, *EVERYTHING)
    now = await ledger.find_account("default", "a-1")
    assert now is not None
    fewer = dataclasses.replace(now, roles=frozenset({"audit"}))
    off = dataclasses.replace(now, disabled_at_ms=START_MS + 5)
    outcomes = await asyncio.gather(*(ledger.commit(unit(AccountPut(account=each))) for each in (fewer, off)))
    assert [type(outcome) for outcome in outcomes] == [Committed, AccountMoved]
    assert await ledger.find_account("default", "a-1") == dataclasses.replace(fewer, version=2)


async def test_the_sign_count_moves_from_where_it_was(ledger: AnyLedger) -> None:
    await write(ledger, *EVERYTHING)
    use = PasskeyUse(
        tenant="default", credential_id="c-1", from_sign_count=3, sign_count=4, used_at_ms=START_MS + 9
    )
    outcomes = await asyncio.gather(ledger.commit(unit(use)), ledger.commit(unit(use, number=2)))
    assert [type(outcome) for outcome in outcomes] == [Committed, AccountMoved]
    found = await ledger.find_passkey("c-1")
    assert found == dataclasses.replace(PASSKEY, sign_count=4, used_at_ms=START_MS + 9)


async def test_a_session_ends_with_its_codes_and_all_end_with_the_account(ledger: AnyLedger) -> None:
    await write(ledger, *EVERYTHING, SessionOpen(session=dataclasses.replace(SESSION, session_id="s-2")))
    await write(ledger, SessionEnd(tenant="default", session_id="s-1"))
    assert await ledger.find_person_session("s-1") is None
    assert await ledger.find_sign_in_link("l-2") is None
    assert await ledger.find_person_session("s-2") is not None
    await write(ledger, SessionsEnd(tenant="default", account_id="a-1"))
    assert await ledger.find_person_session("s-2") is None
    assert await ledger.find_sign_in_link("l-1") is None


async def test_what_is_over_is_swept_away_by_the_next_of_its_kind(ledger: AnyLedger) -> None:
    await write(ledger, *EVERYTHING)
    later = START_MS + 1000
    await write(
        ledger,
        SessionOpen(
            session=dataclasses.replace(
                SESSION, session_id="s-2", created_at_ms=later, expires_at_ms=later + 1
            )
        ),
        LinkAdd(
            link=dataclasses.replace(
                LINK, digest="l-3", account_id="a-2", created_at_ms=later, expires_at_ms=later + 1
            )
        ),
    )
    assert await ledger.find_person_session("s-1") is None
    assert await ledger.find_sign_in_link("l-1") is None
    assert await ledger.find_sign_in_link("l-3") is not None


async def test_a_new_link_voids_the_earlier_one_of_its_kind(ledger: AnyLedger) -> None:
    await write(ledger, *EVERYTHING)
    await write(ledger, LinkAdd(link=dataclasses.replace(LINK, digest="l-3")))
    assert await ledger.find_sign_in_link("l-1") is None
    assert await ledger.find_sign_in_link("l-2") is not None


async def test_seen_only_moves_on_and_brings_no_session_back(ledger: AnyLedger) -> None:
    await write(ledger, *EVERYTHING)
    await ledger.note_session_seen("s-1", START_MS + 50)
    await ledger.note_session_seen("s-1", START_MS + 20)
    found = await ledger.find_person_session("s-1")
    assert found is not None
    assert found.session.seen_at_ms == START_MS + 50
    await write(ledger, SessionEnd(tenant="default", session_id="s-1"))
    await ledger.note_session_seen("s-1", START_MS + 60)
    assert await ledger.find_person_session("s-1") is None


async def test_an_order_is_carried_out_once(ledger: AnyLedger) -> None:
    put_order(ledger, ORDER)
    assert list(await ledger.open_orders(10)) == [ORDER]
    done = OrderDone(order_id="o-1", outcome=DONE, at_ms=START_MS)
    outcomes = await asyncio.gather(
        ledger.commit(unit(AccountPut(account=GRACE), done)), ledger.commit(unit(done, number=2))
    )
    assert [type(outcome) for outcome in outcomes] == [Committed, AccountMoved]
    assert list(await ledger.open_orders(10)) == []


async def test_people_and_operations_are_not_one_unit(ledger: AnyLedger) -> None:
    both = CommitUnit(
        event=event(1),
        operation=operation("k", state=OperationState.RESERVED),
        accounts=(AccountPut(account=GRACE),),
    )
    with pytest.raises(StoreUnavailable):
        await ledger.commit(both)
    assert await ledger.find_account("default", "a-1") is None


def put_order(ledger: AnyLedger, order: PersonOrder) -> None:
    """As the command line does, beside the service."""
    if isinstance(ledger, MemoryLedger):
        ledger.add_order(order)
        return
    database = ledger._path if isinstance(ledger, SqliteLedger) else ledger._url
    row = dict(zip(PERSON_ORDERS.columns.keys(), order_row(order), strict=True))
    with open_session(database, "write") as session:
        session.run(insert(PERSON_ORDERS).values(row))

"""The vault on every ledger: sealed, bound to its place and time, gone when it is over."""

import asyncio
import contextlib
import sqlite3
from dataclasses import replace

import psycopg
import pytest

from authz.errors import StoreUnavailable
from authz.model.approval_writes import ApprovalMoved
from authz.model.record import Committed
from authz.store.approval_check import MAX_KEPT_BYTES
from authz.store.keys import ServiceKeys
from authz.store.memory import MemoryLedger
from authz.store.postgres import PostgresLedger
from authz.store.postgres_url import PostgresUrl
from authz.store.sqlite import SqliteLedger
from authz.store.vault import SealedEntry, Vault
from authz.store.vault_writes import SWEPT_AT_ONCE
from tests.store.approval_world import (
    NOW_MS,
    TENANT,
    VAULT_KEY,
    AnyLedger,
    asking,
    clock_of,
    commit,
    keeping,
    ledger,
    read_request,
    records,
    still_clock,
    whole_unit,
)
from tests.store.durable import DurableStore
from tests.store.world import QUIET

__all__ = ["ledger"]

SECRET = b"transfer 4711 to DE02-1203 \x00 \xff secret words"
UNTIL_MS = NOW_MS + 60_000
KEPT_LONGER_MS = 5 * 60_000
"""For so long after its end an entry stays, since clocks go back."""


async def test_what_is_kept_is_found_until_it_is_over(ledger: AnyLedger) -> None:
    await commit(ledger, keeping("shown:ap-1", SECRET))
    assert await ledger.find_kept(TENANT, "shown:ap-1", NOW_MS) == SECRET
    assert await ledger.find_kept(TENANT, "shown:ap-1", UNTIL_MS - 1) == SECRET
    assert await ledger.find_kept(TENANT, "shown:ap-1", UNTIL_MS) is None
    assert await ledger.find_kept("other", "shown:ap-1", NOW_MS) is None
    assert await ledger.find_kept(TENANT, "shown:ap-2", NOW_MS) is None
    assert await ledger.find_kept(TENANT, "shown\0", NOW_MS) is None


async def test_what_is_there_stays_until_it_is_over(ledger: AnyLedger) -> None:
    await commit(ledger, keeping("a", b"first"), keeping("a", b"second", until_ms=UNTIL_MS + 9))
    assert await ledger.find_kept(TENANT, "a", NOW_MS) == b"first"
    clock_of(ledger).at_ms = UNTIL_MS
    await commit(ledger, keeping("a", b"third", until_ms=UNTIL_MS + 9))
    assert await ledger.find_kept(TENANT, "a", UNTIL_MS) == b"third"


async def test_several_are_kept_by_one_unit_and_of_one_batch(ledger: AnyLedger) -> None:
    kept = [write for ref in "ab" for write in keeping(ref, ref.encode()).kept]
    await asyncio.gather(ledger.commit(whole_unit(kept=kept)), ledger.commit(keeping("c", b"c")))
    assert [await ledger.find_kept(TENANT, ref, NOW_MS) for ref in "abc"] == [b"a", b"b", b"c"]


async def test_nothing_and_four_megabytes_are_kept_and_more_is_not(ledger: AnyLedger) -> None:
    largest = bytes(range(256)) * (MAX_KEPT_BYTES // 256)
    await commit(ledger, keeping("empty", b""), keeping("largest", largest))
    assert await ledger.find_kept(TENANT, "empty", NOW_MS) == b""
    assert await ledger.find_kept(TENANT, "largest", NOW_MS) == largest
    with pytest.raises(StoreUnavailable) as refused:
        await ledger.commit(keeping("larger", largest + b"x"))
    assert refused.value.code == "store.unwritable"


async def test_nothing_is_kept_of_a_unit_that_does_not_go_through(ledger: AnyLedger) -> None:
    await commit(ledger, asking(read_request()))
    again = asking(read_request("ap-2"), kept=keeping("shown:ap-2", SECRET).kept)
    assert await ledger.commit(again) == ApprovalMoved(request_id="ap-1")
    assert await ledger.find_kept(TENANT, "shown:ap-2", NOW_MS) is None


@pytest.mark.parametrize("wrong", ["tenant", "ref", "until"])
async def test_what_does_not_fit_is_refused(ledger: AnyLedger, wrong: str) -> None:
    (write,) = keeping("a", b"x").kept
    changed = {"tenant": {"tenant": "other"}, "ref": {"ref": "\0"}, "until": {"until_ms": 2**63}}[wrong]
    with pytest.raises(StoreUnavailable) as refused:
        await ledger.commit(whole_unit(kept=[replace(write, **changed)]))  # type: ignore[arg-type]
    assert refused.value.code == "store.unwritable"
    assert await records(ledger) == 0


def open_with(store: DurableStore, key: bytes | None, signer: ServiceKeys) -> SqliteLedger | PostgresLedger:
    if isinstance(store.database, PostgresUrl):
        return PostgresLedger.open(
            store.database,
            store.folder,
            clock=still_clock(),
            signer=signer,
            limits=QUIET,
            vault_key=key,
        )
    return SqliteLedger.open(store.database, clock=still_clock(), signer=signer, limits=QUIET, vault_key=key)


async def test_without_the_key_nothing_is_kept_or_opened(store: DurableStore) -> None:
    signer = ServiceKeys.generate()
    async with open_with(store, VAULT_KEY, signer) as one:
        await commit(one, keeping("a", SECRET))
    for key in (None, bytes(32)):
        async with open_with(store, key, signer) as other:
            assert await other.find_kept(TENANT, "b", NOW_MS) is None
            with pytest.raises(StoreUnavailable) as refused:
                await other.find_kept(TENANT, "a", NOW_MS)
            assert refused.value.code == "store.vault"
    async with open_with(store, None, signer) as other:
        ordinary, kept = await asyncio.gather(
            other.commit(whole_unit()), other.commit(keeping("b", b"x")), return_exceptions=True
        )
        assert isinstance(ordinary, Committed), "others go on"
        assert isinstance(kept, StoreUnavailable)
        assert await records(other) == 2
    async with open_with(store, VAULT_KEY, signer) as one:
        assert await one.find_kept(TENANT, "a", NOW_MS) == SECRET


async def test_a_ledger_in_memory_needs_a_key_too() -> None:
    async with MemoryLedger(clock=still_clock()) as opened:
        with pytest.raises(StoreUnavailable):
            await opened.commit(keeping("a", b"x"))
        assert await records(opened) == 0


async def test_the_database_does_not_tell_it(store: DurableStore) -> None:
    async with open_with(store, VAULT_KEY, ServiceKeys.generate()) as opened:
        await commit(opened, keeping("shown:ap-1", SECRET * 100))
        if isinstance(store.database, PostgresUrl):
            with contextlib.closing(psycopg.connect(store.database.conninfo)) as server:
                tables = [
                    name
                    for (name,) in server.execute(
                        "SELECT tablename FROM pg_tables WHERE schemaname = 'public'"
                    ).fetchall()
                ]
                texts = [str(server.execute(f"SELECT * FROM {name}".encode()).fetchall()) for name in tables]
            dump = "".join(texts).encode()
            assert b"shown:ap-1" in dump
        else:
            files = [path for path in store.folder.iterdir() if path.name.startswith("authz.db")]
            assert any(path.name.endswith("-wal") and path.stat().st_size for path in files)
            dump = b"".join(path.read_bytes() for path in files)
            assert b"shown:ap-1" in dump
        for words in (b"4711", b"secret words", b"DE02-1203"):
            assert words not in dump


@pytest.mark.parametrize(
    "change",
    ["until_ms = until_ms + 1", "ref = 'b'", "tenant = 'other'", "nonce = sealed", "sealed = nonce"],
)
async def test_what_was_changed_is_not_opened(store: DurableStore, change: str) -> None:
    signer = ServiceKeys.generate()
    async with open_with(store, VAULT_KEY, signer) as opened:
        await commit(opened, keeping("a", SECRET))
    statement = f"UPDATE vault SET {change}"
    if isinstance(store.database, PostgresUrl):
        with contextlib.closing(psycopg.connect(store.database.conninfo, autocommit=True)) as server:
            server.execute(statement.encode())
    else:
        with contextlib.closing(sqlite3.connect(store.database, isolation_level=None)) as file:
            file.execute(statement)
    where = {"ref = 'b'": (TENANT, "b"), "tenant = 'other'": ("other", "a")}.get(change, (TENANT, "a"))
    async with open_with(store, VAULT_KEY, signer) as opened:
        with pytest.raises(StoreUnavailable) as refused:
            await opened.find_kept(*where, NOW_MS)
        assert refused.value.code == "store.vault"


async def test_what_is_over_is_swept_away_a_few_at_a_time(store: DurableStore) -> None:
    async with open_with(store, VAULT_KEY, ServiceKeys.generate()) as opened:
        for number in range(3):
            kept = [
                write
                for each in range(12)
                for write in keeping(f"{number}-{each}", b"x", until_ms=NOW_MS + number).kept
            ]
            await commit(opened, whole_unit(kept=kept))
        clock_of(opened).at_ms = NOW_MS + 1 + KEPT_LONGER_MS
        assert store.rows_on_disk("vault") == 36
        await commit(opened, keeping("new", b"y", until_ms=clock_of(opened).at_ms + 1))
        assert store.rows_on_disk("vault") == 37 - (SWEPT_AT_ONCE + 2)
        await commit(opened, whole_unit())
        assert store.rows_on_disk("vault") == 37 - 24, "also by a commit that keeps nothing"
        await commit(opened, whole_unit())
        assert store.rows_on_disk("vault") == 37 - 24, "what ended a millisecond ago stays for a while"
        clock_of(opened).at_ms += 60_000
        await commit(opened, whole_unit())
        assert store.rows_on_disk("vault") == 1
        assert await opened.find_kept(TENANT, "new", NOW_MS) == b"y"


def test_each_entry_is_sealed_anew_and_for_itself() -> None:
    vault = Vault(VAULT_KEY)
    (write,) = keeping("a", SECRET).kept
    one, other = vault.seal(write), vault.seal(write)
    assert one.nonce != other.nonce
    assert one.sealed != other.sealed
    assert vault.open(one) == vault.open(other) == SECRET
    mixed = SealedEntry(
        tenant=one.tenant, ref=one.ref, until_ms=one.until_ms, nonce=one.nonce, sealed=other.sealed
    )
    with pytest.raises(StoreUnavailable):
        vault.open(mixed)


@pytest.mark.parametrize("size", [0, 16, 31, 33])
def test_a_key_has_one_size(size: int) -> None:
    with pytest.raises(ValueError, match="32 bytes"):
        Vault(bytes(size))

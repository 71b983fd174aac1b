"""The durable store that is configured, whichever it is."""

from pathlib import Path

from authz.config import Config
from authz.core.log_checkpoint import Signer
from authz.ports import Clock
from authz.store.database import Database
from authz.store.postgres import PostgresLedger
from authz.store.postgres_url import PostgresUrl
from authz.store.sqlite import SqliteLedger

DurableLedger = SqliteLedger | PostgresLedger
DATABASE_NAME = "authz.db"


def locate_database(config: Config) -> Database:
    """Where the data is, by the configuration. Raises `ConfigError`, which does not quote the url."""
    if config.database_url is not None:
        return PostgresUrl.parse(config.database_url.get_secret_value())
    return config.data_dir / DATABASE_NAME


def open_ledger(
    database: Database, data_dir: Path, *, clock: Clock, signer: Signer, vault_key: bytes | None = None
) -> DurableLedger:
    """Open it, or create it where it is absent. Raises `StoreUnavailable`, `LogCorrupt`.

    `vault_key`: 32 bytes for the vault alone (`authz.store.vault.Vault`). Without it nothing can be kept.
    """
    if isinstance(database, PostgresUrl):
        return PostgresLedger.open(database, data_dir, clock=clock, signer=signer, vault_key=vault_key)
    return SqliteLedger.open(database, clock=clock, signer=signer, vault_key=vault_key)

"""Fixtures of the store's tests: every database that a ledger can stand on."""

from pathlib import Path

import pytest

from authz.store.postgres_url import PostgresUrl
from tests.store.durable import DurableStore


@pytest.fixture(params=["sqlite", "postgres"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> DurableStore:
    """An empty database of each kind."""
    if request.param == "sqlite":
        return DurableStore(database=tmp_path / "authz.db", folder=tmp_path)
    url = PostgresUrl.parse(request.getfixturevalue("postgres_url"))
    return DurableStore(database=url, folder=tmp_path)

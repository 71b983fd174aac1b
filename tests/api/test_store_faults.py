"""What a caller is told when the store fails: that it does, not where it stands nor how it broke."""

import logging
from pathlib import Path

import pytest

from authz.store.postgres_url import PostgresUrl
from tests.support.postgres import NoPostgres, Postgres
from tests.support.service import Service
from tests.support.world import PERMIT_ALL, world


async def test_a_stranger_is_not_told_where_the_database_is(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    try:
        own = Postgres.running()
        cluster = own.__enter__()
    except NoPostgres as fault:
        pytest.skip(str(fault))
    try:
        with cluster.connect("postgres") as admin:
            admin.execute("CREATE DATABASE whereabouts TEMPLATE template0")
        url = PostgresUrl.parse(cluster.url("whereabouts"))
        async with Service.running(tmp_path, {"default": world(PERMIT_ALL)}, database=url) as service:
            body = service.body("fs/file_read", {"path": "/workspace/a"})
            assert (await service.decide(body))["effect"] == "allow"
            cluster.stop()
            stranger = {"Authorization": "Bearer made-up"}
            caplog.clear()
            with caplog.at_level(logging.ERROR, logger="authz.store"):
                answers = [
                    await service.client.post("/decide", json=body, headers=headers)
                    for headers in ({}, stranger, stranger)
                ]
            for answer in answers:
                problem = answer.json()
                assert (answer.status_code, problem["code"]) == (503, "store.unavailable")
                for internal in (str(url), url.label, "whereabouts", "57P", "08", "Error", ".s.PGSQL"):
                    assert internal not in answer.text
            assert answers[-1].json()["detail"] == "the store cannot be reached"
            told = [str(getattr(record, "why", "")) for record in caplog.records]
            assert any(str(url) in why for why in told), "the operators are"
    finally:
        own.__exit__(None, None, None)

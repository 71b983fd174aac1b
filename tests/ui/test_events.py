"""The stream that keeps pages fresh: ids of one tenant's approvals, for as long as the session lives."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.service import Service
from tests.support.streams import streaming
from tests.ui.visitor import IBAN, ask, site, visitor

pytestmark = pytest.mark.anyio
PAY = {"iban": IBAN, "amount": 5}


@pytest.fixture
async def service(tmp_path: Path) -> AsyncIterator[Service]:
    async with site(tmp_path) as running:
        yield running


async def test_it_tells_of_requests_of_the_own_tenant_by_their_ids_alone(service: Service) -> None:
    grace = await visitor(service, "grace")
    stranger = await visitor(service, "grace", tenant="other")
    async with (
        streaming(service.application, "/ui/events", {"cookie": grace.cookie}) as stream,
        streaming(service.application, "/ui/events", {"cookie": stranger.cookie}) as elsewhere,
    ):
        assert stream.headers["content-type"].startswith("text/event-stream")
        assert stream.headers["cache-control"] == "no-store"
        assert await stream.piece() == b"event: ready\ndata:\n\n"
        assert await elsewhere.piece() == b"event: ready\ndata:\n\n"

        asked = await ask(service, "open/pay", PAY)

        piece = await stream.piece()
        assert piece is not None
        assert piece.decode().splitlines()[1:3] == ["event: approval", f"data: {asked}"]
        # The other tenant's stream has said nothing when the service ends it.
        service.application.services.approvals.waits.close()
        assert await elsewhere.piece() is None


async def test_it_ends_with_its_session(service: Service) -> None:
    grace = await visitor(service, "grace")
    async with streaming(service.application, "/ui/events", {"cookie": grace.cookie}) as stream:
        assert await stream.piece() == b"event: ready\ndata:\n\n"
        await grace.submit(await grace.get("/ui/"), "/sign-out")

        await ask(service, "open/pay", PAY)

        assert await stream.piece() is None


async def test_nobody_listens_without_a_session(service: Service) -> None:
    answered = await service.client.get("/ui/events")

    assert answered.status_code == 303

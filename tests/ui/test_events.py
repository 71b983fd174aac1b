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


async def test_a_person_has_so_many_streams_in_all_of_its_sessions(tmp_path: Path) -> None:
    async with site(tmp_path, approval_waiters_per_caller=1) as service:
        grace, elsewhere = await visitor(service, "grace"), await visitor(service, "grace")
        heidi = await visitor(service, "heidi")
        streams = [
            streaming(service.application, "/ui/events", {"cookie": each.cookie})
            for each in (grace, elsewhere, heidi)
        ]
        async with streams[0] as first, streams[1] as second, streams[2] as other:
            assert await first.piece() == b"event: ready\ndata:\n\n"
            assert await second.piece() == b": too many pages are open\n\n"
            assert await other.piece() == b"event: ready\ndata:\n\n"

"""Waiting for answers over HTTP: long polls and streams, how they resume, and how they end."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from authz.api import approvals_stream, sse
from authz.api.approvals_wire import ApprovalEventOut
from authz.config import Config
from authz.errors import StoreUnavailable
from tests.support.answering import asking, ruleset_of
from tests.support.people import people_of, sign_in
from tests.support.service import Service
from tests.support.streams import streaming
from tests.support.waiting import until


@pytest.fixture
async def service(tmp_path: Path) -> AsyncIterator[Service]:
    """A service of two tenants whose rules ask finance about every read and write; two may wait at a time."""
    config = Config(data_dir=tmp_path, approval_waiters_per_caller=2)
    rulesets = {name: ruleset_of(asking()) for name in ("default", "other")}
    async with Service.running(tmp_path, rulesets, config=config) as running:
        yield running


async def ask(service: Service, name: str = "a", headers: dict[str, str] | None = None) -> str:
    body = service.body("fs/file_read", {"path": f"/workspace/{name}"})
    return str((await service.decide(body, headers))["approval"]["id"])


async def cancel(service: Service, approval_id: str, headers: dict[str, str] | None = None) -> None:
    response = await service.client.post(f"/approvals/{approval_id}/cancel", headers=headers)
    assert response.status_code == 200, response.text


def own(service: Service) -> dict[str, str]:
    return {"Authorization": service.client.headers["Authorization"]}


async def polling(service: Service, tenants: int = 1) -> None:
    async def polls() -> bool:
        return service.application.services.approvals.waits.polling == tenants

    await until(polls)


async def test_a_long_poll_ends_with_the_answer(service: Service) -> None:
    approval_id = await ask(service)
    waiting = asyncio.create_task(service.client.get(f"/approvals/{approval_id}?wait=55"))
    await polling(service)
    grace = await sign_in(service, "grace")
    await service.client.post(f"/approvals/{approval_id}/deny", json={"reason": "no"}, headers=grace)
    told = (await waiting).json()
    assert (told["state"], told["denial"]["reason"]) == ("denied", "no")
    # What has ended is told at once, whatever the wait.
    again = await service.client.get(f"/approvals/{approval_id}?wait=55")
    assert again.json()["state"] == "denied"


async def test_a_long_poll_that_is_over_says_pending_and_a_longer_one_is_refused(service: Service) -> None:
    approval_id = await ask(service)
    assert (await service.client.get(f"/approvals/{approval_id}?wait=1")).json()["state"] == "pending"
    assert (await service.client.get(f"/approvals/{approval_id}?wait=56")).status_code == 400


async def test_a_key_that_is_revoked_while_it_waits_is_told_nothing(service: Service) -> None:
    runtime = await service.add_key("runtime", "decide")
    approval_id = await ask(service, headers=runtime)
    waiting = asyncio.create_task(service.client.get(f"/approvals/{approval_id}?wait=55", headers=runtime))
    await polling(service)
    (key,) = [one for one in await service.ledger.list_api_keys() if one.name == "runtime"]
    await service.ledger.revoke_api_key(key.key_id)
    grace = await sign_in(service, "grace")
    await service.client.post(f"/approvals/{approval_id}/deny", json={}, headers=grace)
    assert (await waiting).status_code == 401


async def test_of_one_caller_only_so_many_wait_and_others_are_not_kept_out(service: Service) -> None:
    approval_id = await ask(service)
    path = f"/approvals/{approval_id}"
    async with (
        streaming(service.application, f"{path}/events", own(service)) as first,
        streaming(service.application, "/approvals/events", own(service)),
    ):
        assert first.status == 200
        for refused in (f"{path}?wait=1", f"{path}/events", "/approvals/events"):
            response = await service.client.get(refused)
            told = response.json()
            assert (response.status_code, told["code"]) == (429, "approval.too_many_waiting")
            assert told["retry_unchanged"]
        assert (await service.client.get(path)).status_code == 200
        auditor = await service.add_key("auditor", "audit")
        assert (await service.client.get(f"{path}?wait=1", headers=auditor)).status_code == 200
    assert (await service.client.get(f"{path}?wait=1")).status_code == 200, "the places are free again"
    assert service.application.services.approvals.waits.count == 0


async def test_the_stream_of_one_request_tells_where_it_stands_at_once_and_at_each_change(
    service: Service,
) -> None:
    approval_id, other = await ask(service), await ask(service, "b")
    async with streaming(service.application, f"/approvals/{approval_id}/events", own(service)) as stream:
        assert (stream.status, stream.headers["content-type"]) == (200, "text/event-stream; charset=utf-8")
        assert stream.headers["cache-control"] == "no-store"
        (now,) = await stream.events()
        ApprovalEventOut.model_validate(now)
        assert (now["id"], now["state"], now["version"]) == (approval_id, "pending", 0)
        await cancel(service, other)
        await cancel(service, approval_id)
        (then,) = await stream.events()
        assert (then["id"], then["state"], then["version"]) == (approval_id, "cancelled", 1)


async def test_the_stream_of_all_tells_what_the_asker_sees_and_nothing_of_others(service: Service) -> None:
    runtime = await service.add_key("runtime", "decide")
    stranger = await service.add_key("stranger", "decide", "audit", tenant="other")
    async with (
        streaming(service.application, "/approvals/events", runtime) as mine,
        streaming(service.application, "/approvals/events", stranger) as theirs,
        streaming(service.application, "/approvals/events", own(service)) as every,
    ):
        await polling(service, tenants=2)
        first = await ask(service)
        second = await ask(service, "b", runtime)
        assert [one["id"] for one in await mine.events()] == [second]
        heard: list[str] = []
        while len(heard) < 2:
            heard += [one["id"] for one in await every.events()]
        assert heard == [first, second]
        mark = await theirs.piece()
        assert mark is not None
        assert theirs.read(mark) == []


async def test_a_stream_resumes_after_what_was_seen_and_tells_all_that_changed_since(
    service: Service,
) -> None:
    first = await ask(service)
    async with streaming(service.application, "/approvals/events", own(service)) as stream:
        mark = await stream.piece()
        assert mark is not None
        stream.read(mark)
        seen = stream.number
    assert seen is not None
    second = await ask(service, "b")
    await cancel(service, first)
    resumed = {**own(service), "Last-Event-ID": str(seen)}
    async with streaming(service.application, "/approvals/events", resumed) as stream:
        told = await stream.events()
        assert [(one["id"], one["state"]) for one in told] == [(second, "pending"), (first, "cancelled")]
        assert stream.number is not None
        assert stream.number > seen
        third = await ask(service, "c")
        assert [one["id"] for one in await stream.events()] == [third]


@pytest.mark.parametrize("last", ["x", "-1", "1.5", "9" * 19, "٣"])
async def test_a_place_to_resume_at_that_is_none_is_refused(service: Service, last: str) -> None:
    headers = {b"last-event-id": last.encode()}
    response = await service.client.get("/approvals/events", headers=headers)
    assert response.status_code == 400


async def test_a_place_of_another_database_means_from_now_on(service: Service) -> None:
    resumed = {**own(service), "Last-Event-ID": "999999"}
    async with streaming(service.application, "/approvals/events", resumed) as stream:
        first = await ask(service)
        assert [one["id"] for one in await stream.events()] == [first]


async def test_something_is_sent_when_nothing_happens_and_a_revoked_key_ends_its_stream(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(approvals_stream, "HEARTBEAT_SECONDS", 0.02)
    runtime = await service.add_key("runtime", "decide")
    async with streaming(service.application, "/approvals/events", runtime) as stream:
        await stream.piece()
        assert await stream.piece() == sse.HEARTBEAT
        (key,) = [one for one in await service.ledger.list_api_keys() if one.name == "runtime"]
        await service.ledger.revoke_api_key(key.key_id)
        while (piece := await stream.piece()) is not None:
            assert piece == sse.HEARTBEAT
    assert service.application.services.approvals.waits.polling == 0


async def test_who_signs_out_ends_the_streams_of_the_session(service: Service) -> None:
    approval_id = await ask(service)
    grace = await sign_in(service, "grace")
    async with streaming(service.application, f"/approvals/{approval_id}/events", grace) as stream:
        await stream.events()
        person = await people_of(service).session_of(grace["Authorization"].removeprefix("Bearer "))
        assert person is not None
        await people_of(service).sign_out(person)
        await cancel(service, approval_id)
        assert await stream.piece() is None, "it ends without telling the change"


async def test_with_the_service_every_stream_and_poll_ends(service: Service) -> None:
    approval_id = await ask(service)
    waiting = asyncio.create_task(service.client.get(f"/approvals/{approval_id}?wait=55"))
    async with streaming(service.application, "/approvals/events", own(service)) as stream:
        await stream.piece()
        await polling(service)
        service.application.services.approvals.waits.close()
        assert await stream.piece() is None
        assert (await waiting).json()["state"] == "pending"


async def test_a_stream_whose_store_fails_ends_so_that_the_client_comes_back(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fails(*_: Any, **__: Any) -> Any:
        raise StoreUnavailable("the disk is gone")

    async with streaming(service.application, "/approvals/events", own(service)) as stream:
        await stream.piece()
        approval_id = await ask(service)
        await stream.events()
        with monkeypatch.context() as broken:
            broken.setattr(service.ledger, "find_approval", fails)
            await ask(service, "b")
            assert await stream.piece() is None
    resumed = {**own(service), "Last-Event-ID": str(stream.number)}
    async with streaming(service.application, "/approvals/events", resumed) as stream:
        assert approval_id not in [one["id"] for one in await stream.events()]


async def test_a_client_that_takes_nothing_loses_its_stream_and_keeps_no_place(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sse, "SEND_SECONDS", 0.02)
    closed: list[str] = []

    async def events() -> Any:
        try:
            while True:
                yield b"x"
        finally:
            closed.append("events")

    async def receive() -> dict[str, Any]:
        await asyncio.Event().wait()
        raise AssertionError

    async def send(message: Any) -> None:
        if message["type"] == "http.response.body":
            await asyncio.Event().wait()

    place = ExitStack()
    place.callback(closed.append, "place")
    scope = {"type": "http", "asgi": {"spec_version": "2.3"}}
    await sse.EventStream(events(), place)(scope, receive, send)
    assert closed == ["events", "place"]

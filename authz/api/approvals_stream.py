"""The streams of `/approvals`: where requests stand, as they change.

What is sent is where a request stands when it is sent, so a client that missed a change between two others
misses nothing that is still true. Who reads is looked at again before anything is sent: a key that was
revoked, or a session that is over, ends its streams.
"""

from collections.abc import AsyncGenerator, Callable

from fastapi import Request

from authz.api.approvals_request import READERS, service_of
from authz.api.approvals_wire import approval_event_out
from authz.api.request import admit_anyone
from authz.api.sse import HEARTBEAT, HEARTBEAT_SECONDS, bookmark, event
from authz.errors import AuthzError, NotFound
from authz.model.account import SignedIn
from authz.model.approval_writes import ApprovalStanding
from authz.model.caller import Caller
from authz.service.approval_waits import Changes
from authz.service.approvals_view import is_listed_to, may_see

_NAME = "approval"


async def stream_one(request: Request, asker: Caller | SignedIn, approval_id: str) -> AsyncGenerator[bytes]:
    """Where one request stands: at once, and after each change of it."""
    waits = service_of(request).waits
    async with waits.listen(asker.tenant) as listener:
        own = Changes(number=listener.number, approval_ids=(approval_id,))
        yield await _told(request, asker, own, may_see)
        while True:
            changes = await listener.next(HEARTBEAT_SECONDS)
            reader = await _reader_now(request)
            if listener.is_over or reader is None:
                return
            if changes is None:
                yield HEARTBEAT
            elif approval_id in changes.approval_ids:
                own = Changes(number=changes.number, approval_ids=(approval_id,))
                yield await _told(request, reader, own, may_see)


async def stream_all(request: Request, asker: Caller | SignedIn, last: int | None) -> AsyncGenerator[bytes]:
    """Where each request that the asker sees stands, as it changes; first those that did since `last`."""
    waits = service_of(request).waits
    async with waits.listen(asker.tenant) as listener:
        # An id that is higher than any is of another database: from here on, then.
        seen = listener.number if last is None else min(last, listener.number)
        yield bookmark(seen)
        while seen < listener.number and (missed := await waits.since(asker.tenant, seen)) is not None:
            seen = missed.number
            yield await _told(request, asker, missed, is_listed_to)
        while True:
            changes = await listener.next(HEARTBEAT_SECONDS)
            reader = await _reader_now(request)
            if listener.is_over or reader is None:
                return
            if changes is None:
                yield HEARTBEAT
            elif changes.number > seen:
                yield await _told(request, reader, changes, is_listed_to)


async def _reader_now(request: Request) -> Caller | SignedIn | None:
    """Who reads, with the roles that it has by now; `None` for who may not any more."""
    try:
        return await admit_anyone(request, READERS)
    except AuthzError:
        return None


async def _told(
    request: Request,
    asker: Caller | SignedIn,
    changes: Changes,
    sees: Callable[[Caller | SignedIn, ApprovalStanding], bool],
) -> bytes:
    """Events of one batch. Only the last has its number: whoever got fewer of them gets all of them again."""
    service = service_of(request)
    standings: list[ApprovalStanding] = []
    for approval_id in changes.approval_ids:
        try:
            standing = await service.find(asker.tenant, approval_id)
        except NotFound:
            continue
        if sees(asker, standing):
            standings.append(standing)
    events = [event(_NAME, approval_event_out(standing, service.now_ms())) for standing in standings]
    return b"".join(events) + bookmark(changes.number)

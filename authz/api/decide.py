"""`POST /decide` and `POST /decide/batch`: the hot path, lean but with the same contract.

These are plain ASGI handlers: no per-request parsing of anything static, one validation, one
serialization. `authz.api.application` documents them with the wire types that they use.
"""

import logging
import time
from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from typing import Any, Final

from authz.api.auth import Authenticator
from authz.api.problems import PROBLEM_JSON, problem, status_of
from authz.api.wire import decision_out, dump, parse_batch, parse_decide
from authz.core.strict_json import loads
from authz.errors import AuthzError, MalformedInput, TooLarge
from authz.model.caller import Caller
from authz.model.resource import Scope, Verb
from authz.ports import RequestObserver
from authz.service.decide import Answer, DecisionService

AsgiScope = dict[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]

logger = logging.getLogger("authz.api")

JSON: Final = "application/json"


class DecideApi:
    """The two decision routes."""

    def __init__(
        self,
        *,
        authenticator: Authenticator,
        service: DecisionService,
        observer: RequestObserver,
        max_body_bytes: int,
    ) -> None:
        self._authenticator = authenticator
        self._service = service
        self.observer = observer
        self._max_body_bytes = max_body_bytes

    async def decide(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        """One call, one answer."""
        await self._handle(scope, receive, send, self._decide_one)

    async def batch(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        """Several calls, decided in order."""
        await self._handle(scope, receive, send, self._decide_many)

    async def _decide_one(self, body: Any, caller: Caller) -> bytes:
        call = parse_decide(body)
        answer = await self._service.decide(call, caller)
        return dump(decision_out(call, answer.decision, answer.committed))

    async def _decide_many(self, body: Any, caller: Caller) -> bytes:
        calls = parse_batch(body)
        answers = await self._service.decide_all(calls, caller)
        shared = shared_written_resources(answers)
        decisions = []
        for index, (call, answer) in enumerate(zip(calls, answers, strict=True)):
            out = decision_out(call, answer.decision, answer.committed)
            if shared[index]:
                out["shares_written_resource_with"] = shared[index]
            decisions.append(out)
        return dump({"decisions": decisions})

    async def _handle(
        self,
        scope: AsgiScope,
        receive: Receive,
        send: Send,
        answer: Callable[[Any, Caller], Awaitable[bytes]],
    ) -> None:
        started = time.perf_counter()
        caller: Caller | None = None
        status, media_type = 200, JSON
        try:
            caller = await self._authenticator.caller(scope["headers"], "decide")
            check_media_type(scope["headers"])
            body = loads(await read_body(receive, self._max_body_bytes))
            payload = await answer(body, caller)
        except AuthzError as error:
            status, payload = await self._refuse(error, caller)
            media_type = PROBLEM_JSON
        except Exception:
            # A fault of ours: logged with its trace here, and told without it.
            logger.exception("a decision request failed")
            status, payload = await self._refuse(AuthzError("internal error"), caller)
            media_type = PROBLEM_JSON
        await send_response(send, status, media_type, payload)
        self.observer.answered(scope["path"], status, time.perf_counter() - started)

    async def _refuse(self, error: AuthzError, caller: Caller | None) -> tuple[int, bytes]:
        """A refusal before a decision leaves a record when the caller is known, a metric when not."""
        status, _ = status_of(error)
        self.observer.refused(error.code)
        if caller is not None and status < 500:
            try:
                await self._service.record_refusal(caller, error, status)
            except AuthzError as unrecorded:
                error = unrecorded
        return dump_problem(error)


def dump_problem(error: AuthzError) -> tuple[int, bytes]:
    """(status, JSON bytes) of an error as problem+json."""
    status, body = problem(error)
    return status, dump(body)


def check_media_type(headers: Sequence[tuple[bytes, bytes]]) -> None:
    """Bodies are JSON and say so. Raises `MalformedInput` (`input.media_type`)."""
    for name, value in headers:
        if name == b"content-type":
            if value.partition(b";")[0].strip().lower() == b"application/json":
                return
            break
    raise MalformedInput("send `Content-Type: application/json`", code="input.media_type")


async def read_body(receive: Receive, max_bytes: int) -> bytes:
    """The whole body, or `TooLarge` as soon as it is longer than `max_bytes`."""
    chunks: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise MalformedInput("the client went away before the body was complete", code="input.incomplete")
        chunk = message.get("body", b"")
        size += len(chunk)
        if size > max_bytes:
            raise TooLarge(f"the body is over {max_bytes} bytes", code="input.too_large")
        chunks.append(chunk)
        if not message.get("more_body", False):
            return chunks[0] if len(chunks) == 1 else b"".join(chunks)


async def send_response(send: Send, status: int, media_type: str, payload: bytes) -> None:
    """Send a complete response that no cache keeps."""
    headers = [
        (b"content-type", media_type.encode("ascii")),
        (b"content-length", str(len(payload)).encode("ascii")),
        (b"cache-control", b"no-store"),
    ]
    if status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": payload})


_READING: Final = frozenset({Verb.READ, Verb.CONNECT})


def shared_written_resources(answers: Sequence[Answer]) -> list[list[int]]:
    """For each call, the others that touch a resource which one of the two writes.

    A runtime that executes a batch in parallel must not run these together.
    """
    touched = [_touched(answer) for answer in answers]
    shared: list[list[int]] = [[] for _ in answers]
    for left in range(len(answers)):
        for right in range(left + 1, len(answers)):
            if _overlap(touched[left], touched[right]):
                shared[left].append(right)
                shared[right].append(left)
    return shared


Touched = list[tuple[frozenset[tuple[str, str]], tuple[str, str], bool, bool]]


def _touched(answer: Answer) -> Touched:
    found: Touched = []
    for access in answer.decision.accesses:
        chain = [(entity.type, entity.id) for entity in access.resource.chain]
        # What a tree reaches is named by the container of the same spelling, if the kind has one.
        root = chain[1] if access.scope is Scope.TREE and len(chain) > 1 else chain[0]
        found.append((frozenset(chain), root, access.scope is Scope.TREE, access.verb not in _READING))
    return found


def _overlap(left: Touched, right: Touched) -> bool:
    return any(
        (writes_a or writes_b)
        and (root_a == root_b or (tree_a and root_a in chain_b) or (tree_b and root_b in chain_a))
        for chain_a, root_a, tree_a, writes_a in left
        for chain_b, root_b, tree_b, writes_b in right
    )

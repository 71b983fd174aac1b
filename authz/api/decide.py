"""`POST /decide` and `POST /decide/batch`: the hot path, lean but with the same contract.

These are plain ASGI handlers: no per-request parsing of anything static, one validation, one
serialization. `authz.api.application` documents them with the wire types that they use.
"""

import logging
import time
from collections.abc import Awaitable, Callable
from typing import Any, Final

from authz.api.auth import Authenticator, check_role
from authz.api.body import Receive, check_media_type, read_body
from authz.api.problems import INTERNAL, PROBLEM_JSON, dump_problem, problem
from authz.api.refusals import refuse
from authz.api.wire import decision_out, dump, parse_batch, parse_decide
from authz.core.overlap import shared_written_resources
from authz.core.strict_json import loads
from authz.errors import AuthzError
from authz.model.caller import Caller
from authz.ports import RequestObserver
from authz.service.bundles import Admitted
from authz.service.decide import Answer, DecisionService

AsgiScope = dict[str, Any]
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
        """Several calls, decided in order, all by what is in force once the body is there."""
        await self._handle(scope, receive, send, self._decide_many)

    async def _decide_one(self, body: Any, admitted: Admitted) -> bytes:
        call = parse_decide(body)
        answer = await self._service.decide(call, admitted)
        return dump(decision_out(call, answer.decision, answer.committed, answer.ticket))

    async def _decide_many(self, body: Any, admitted: Admitted) -> bytes:
        calls = parse_batch(body)
        answers = await self._service.decide_all(calls, admitted)
        # Of a call that failed nothing is known, and it may not be executed: it shares nothing.
        decided = [index for index, answer in enumerate(answers) if isinstance(answer, Answer)]
        shared = shared_written_resources(
            [answer.decision.accesses for answer in answers if isinstance(answer, Answer)]
        )
        sharing = {
            index: [decided[other] for other in others]
            for index, others in zip(decided, shared, strict=True)
            if others
        }
        decisions: list[dict[str, Any]] = []
        for index, (call, answer) in enumerate(zip(calls, answers, strict=True)):
            if isinstance(answer, AuthzError):
                decisions.append({"problem": problem(await self._refuse(answer, admitted.caller))[1]})
                continue
            out = decision_out(call, answer.decision, answer.committed, answer.ticket)
            if index in sharing:
                out["shares_written_resource_with"] = sharing[index]
            decisions.append(out)
        return dump({"decisions": decisions})

    async def _handle(
        self,
        scope: AsgiScope,
        receive: Receive,
        send: Send,
        answer: Callable[[Any, Admitted], Awaitable[bytes]],
    ) -> None:
        started = time.perf_counter()
        caller: Caller | None = None
        status, media_type = 200, JSON
        try:
            admitted = await self._authenticator.admit(scope["headers"])
            caller = admitted.caller
            check_role(admitted, "decide")
            check_media_type(scope["headers"])
            body = loads(await read_body(receive, self._max_body_bytes))
            # A body may take a minute. The first look kept strangers from sending one; what is decided
            # rests on the second: a key that was revoked meanwhile is refused, and the rules are those
            # in force now.
            admitted = await self._authenticator.admit(scope["headers"])
            caller = admitted.caller
            check_role(admitted, "decide")
            payload = await answer(body, admitted)
        except AuthzError as error:
            status, payload = dump_problem(await self._refuse(error, caller))
            media_type = PROBLEM_JSON
        except Exception:
            # A fault of ours: logged with its trace here, and told without it.
            logger.exception("a decision request failed")
            status, payload = dump_problem(await self._refuse(AuthzError(INTERNAL), caller))
            media_type = PROBLEM_JSON
        await send_response(send, status, media_type, payload)
        self.observer.answered(scope["path"], status, time.perf_counter() - started)

    async def _refuse(self, error: AuthzError, caller: Caller | None) -> AuthzError:
        return await refuse(error, caller, self._service, self.observer)


async def send_response(send: Send, status: int, media_type: str, payload: bytes) -> None:
    """Send a complete response that no cache keeps."""
    headers = [
        (b"content-type", media_type.encode("ascii")),
        (b"content-length", str(len(payload)).encode("ascii")),
        (b"cache-control", b"no-store"),
    ]
    if status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    if status == 408:
        # What else arrives on this connection would be the rest of the old body.
        headers.append((b"connection", b"close"))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": payload})

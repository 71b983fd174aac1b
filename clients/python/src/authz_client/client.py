"""The two clients: one flow for each request, driven over a blocking and an asynchronous connection."""

import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, Final, Self

import httpx

from authz_client import _requests
from authz_client._driver import AsyncDriver, Driver
from authz_client._flow import Terms
from authz_client.errors import DecisionUnavailable
from authz_client.model import Decision
from authz_client.outcomes import ApprovalStatus, Operation, Outcome

DEFAULT_DEADLINE_SECONDS: Final = 5.0
DEFAULT_ATTEMPTS: Final = 3


def _utc_now() -> datetime:
    return datetime.now(UTC)


class Client:
    """Asks for decisions and tells what became of them. Keeps its connections; threads may share it.

    `deadline_seconds` bounds a request with all its repeats: the wait for a connection, for the answer to
    begin, and for its body as a whole. What is safe to send again unchanged is sent up to `attempts` times;
    a try that may be followed by another waits for half of what is left. With `uds` it connects to that Unix
    socket. A transport of one's own (`httpx.BaseTransport`) takes the place of the network. Proxies and
    credentials from the environment are not used, and redirects are not followed.
    """

    def __init__(
        self,
        base_url: str,
        *,
        api_key: str,
        deadline_seconds: float = DEFAULT_DEADLINE_SECONDS,
        attempts: int = DEFAULT_ATTEMPTS,
        uds: str | None = None,
        transport: httpx.BaseTransport | None = None,
        clock: Callable[[], datetime] = _utc_now,
    ) -> None:
        _check_one_way(uds, transport)
        self.terms = _terms(deadline_seconds, attempts, clock)
        self.driver = Driver(
            httpx.Client(
                base_url=_checked_base_url(base_url),
                headers=_headers(api_key),
                timeout=deadline_seconds,
                transport=transport if uds is None else httpx.HTTPTransport(uds=uds),
                follow_redirects=False,
                trust_env=False,
            )
        )
        """Takes the steps of this package's flows, as `terms` says how. No part of the stable surface."""

    def decide(self, request: Mapping[str, Any]) -> Decision:
        """The decision on one call (the body of `POST /decide`, spec section 11).

        Where no answer came it is sent again unchanged, if `context` has all three ids and there is no proof.
        Raises `DecisionUnavailable`, always as one of its subclasses, when there is none.
        """
        return self.driver.run(_requests.decide(request, self.terms))

    def decide_batch(
        self, requests: Sequence[Mapping[str, Any]]
    ) -> tuple[Decision | DecisionUnavailable, ...]:
        """The decisions on several calls, in order; the place of a call without one says why.

        Raises `DecisionUnavailable` when there is no answer at all.
        """
        return self.driver.run(_requests.decide_batch(requests, self.terms))

    def operation(self, decision_id: str) -> Operation:
        """Where the operation of a decision stands. Raises `DecisionUnavailable`, as all of these."""
        return self.driver.run(_requests.operation(decision_id, self.terms))

    def start(
        self, decision_id: str, *, lease_token: str, attempt: str, timeout_seconds: int | None = None
    ) -> Operation:
        """The act begins now. `attempt` is the runtime's own name for this one try.

        `RequestRefused` with status 409: it must not begin; `code` and `state` say why.
        """
        return self.driver.run(
            _requests.start(
                decision_id,
                lease_token=lease_token,
                attempt=attempt,
                timeout_seconds=timeout_seconds,
                terms=self.terms,
            )
        )

    def settle(
        self,
        decision_id: str,
        *,
        lease_token: str,
        outcome: Outcome,
        external_id: str | None = None,
        result_digest: str | None = None,
        detail: str = "",
    ) -> Operation:
        """How the act ended. The same report may be sent again; another is refused with status 409."""
        return self.driver.run(
            _requests.settle(
                decision_id,
                lease_token=lease_token,
                outcome=outcome,
                external_id=external_id,
                result_digest=result_digest,
                detail=detail,
                terms=self.terms,
            )
        )

    def resolve(
        self,
        decision_id: str,
        *,
        outcome: Outcome,
        reason: str,
        external_id: str | None = None,
        result_digest: str | None = None,
    ) -> Operation:
        """What was found out about an operation that is `unknown`: `succeeded` or `not_executed`.

        With a credential that may, never the one that asked for the decision.
        """
        return self.driver.run(
            _requests.resolve(
                decision_id,
                outcome=outcome,
                reason=reason,
                external_id=external_id,
                result_digest=result_digest,
                terms=self.terms,
            )
        )

    def cancel_operation(self, decision_id: str, *, reason: str = "") -> Operation:
        """Ask that the act does not happen. What has begun goes on until its runtime settles it."""
        return self.driver.run(_requests.cancel_operation(decision_id, reason=reason, terms=self.terms))

    def approval(self, approval_id: str) -> ApprovalStatus:
        """Where a request for an approval stands."""
        return self.driver.run(_requests.approval(approval_id, self.terms))

    def wait_for_approval(self, approval_id: str, *, deadline_seconds: float) -> ApprovalStatus:
        """Wait until somebody has answered, at most so long: then it is `pending` still.

        It waits on while the service restarts. Then send the same call with the same ids: a yes that was
        given is judged there once more.
        """
        return self.driver.run(_requests.wait_for_approval(approval_id, deadline_seconds, self.terms))

    def cancel_approval(self, approval_id: str) -> ApprovalStatus:
        """Take a request back that this credential asked for."""
        return self.driver.run(_requests.cancel_approval(approval_id, self.terms))

    def close(self) -> None:
        """Close the connections."""
        self.driver.http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class AsyncClient:
    """`Client` for asyncio. Its deadline bounds the whole exchange."""

    def __init__(
        self,
        base_url: str,
        *,
        api_key: str,
        deadline_seconds: float = DEFAULT_DEADLINE_SECONDS,
        attempts: int = DEFAULT_ATTEMPTS,
        uds: str | None = None,
        transport: httpx.AsyncBaseTransport | None = None,
        clock: Callable[[], datetime] = _utc_now,
    ) -> None:
        _check_one_way(uds, transport)
        self.terms = _terms(deadline_seconds, attempts, clock)
        self.driver = AsyncDriver(
            httpx.AsyncClient(
                base_url=_checked_base_url(base_url),
                headers=_headers(api_key),
                timeout=deadline_seconds,
                transport=transport if uds is None else httpx.AsyncHTTPTransport(uds=uds),
                follow_redirects=False,
                trust_env=False,
            )
        )
        """Takes the steps of this package's flows, as `terms` says how. No part of the stable surface."""

    async def decide(self, request: Mapping[str, Any]) -> Decision:
        """See `Client.decide`."""
        return await self.driver.run(_requests.decide(request, self.terms))

    async def decide_batch(
        self, requests: Sequence[Mapping[str, Any]]
    ) -> tuple[Decision | DecisionUnavailable, ...]:
        """See `Client.decide_batch`."""
        return await self.driver.run(_requests.decide_batch(requests, self.terms))

    async def operation(self, decision_id: str) -> Operation:
        """See `Client.operation`."""
        return await self.driver.run(_requests.operation(decision_id, self.terms))

    async def start(
        self, decision_id: str, *, lease_token: str, attempt: str, timeout_seconds: int | None = None
    ) -> Operation:
        """See `Client.start`."""
        return await self.driver.run(
            _requests.start(
                decision_id,
                lease_token=lease_token,
                attempt=attempt,
                timeout_seconds=timeout_seconds,
                terms=self.terms,
            )
        )

    async def settle(
        self,
        decision_id: str,
        *,
        lease_token: str,
        outcome: Outcome,
        external_id: str | None = None,
        result_digest: str | None = None,
        detail: str = "",
    ) -> Operation:
        """See `Client.settle`."""
        return await self.driver.run(
            _requests.settle(
                decision_id,
                lease_token=lease_token,
                outcome=outcome,
                external_id=external_id,
                result_digest=result_digest,
                detail=detail,
                terms=self.terms,
            )
        )

    async def resolve(
        self,
        decision_id: str,
        *,
        outcome: Outcome,
        reason: str,
        external_id: str | None = None,
        result_digest: str | None = None,
    ) -> Operation:
        """See `Client.resolve`."""
        return await self.driver.run(
            _requests.resolve(
                decision_id,
                outcome=outcome,
                reason=reason,
                external_id=external_id,
                result_digest=result_digest,
                terms=self.terms,
            )
        )

    async def cancel_operation(self, decision_id: str, *, reason: str = "") -> Operation:
        """See `Client.cancel_operation`."""
        return await self.driver.run(_requests.cancel_operation(decision_id, reason=reason, terms=self.terms))

    async def approval(self, approval_id: str) -> ApprovalStatus:
        """See `Client.approval`."""
        return await self.driver.run(_requests.approval(approval_id, self.terms))

    async def wait_for_approval(self, approval_id: str, *, deadline_seconds: float) -> ApprovalStatus:
        """See `Client.wait_for_approval`."""
        return await self.driver.run(_requests.wait_for_approval(approval_id, deadline_seconds, self.terms))

    async def cancel_approval(self, approval_id: str) -> ApprovalStatus:
        """See `Client.cancel_approval`."""
        return await self.driver.run(_requests.cancel_approval(approval_id, self.terms))

    async def aclose(self) -> None:
        """Close the connections."""
        await self.driver.http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()


def _headers(api_key: str) -> dict[str, str]:
    return {
        "Authorization": f"Bearer {api_key}",
        "Accept": "application/json, application/problem+json",
        "Accept-Encoding": "identity",
    }


def _checked_base_url(base_url: str) -> str:
    url = httpx.URL(base_url)
    if url.scheme not in ("http", "https") or not url.host:
        raise ValueError("`base_url` must be an absolute http or https url")
    if url.userinfo or url.query or url.fragment:
        raise ValueError("`base_url` must have no user, query or fragment")
    return base_url


def _check_one_way(uds: str | None, transport: object) -> None:
    if uds is not None and transport is not None:
        raise ValueError("give `uds` or `transport`, not both")


def _terms(deadline_seconds: float, attempts: int, clock: Callable[[], datetime]) -> Terms:
    if not 0 < deadline_seconds < float("inf"):
        raise ValueError("`deadline_seconds` must be positive and finite")
    if attempts < 1:
        raise ValueError("`attempts` must be at least 1")
    return Terms(
        deadline_seconds=deadline_seconds,
        attempts=attempts,
        read_now=clock,
        read_monotonic=time.monotonic,
    )

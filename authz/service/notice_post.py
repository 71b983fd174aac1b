"""One attempt to deliver a notice over HTTP."""

import asyncio
import ssl
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Self

import httpx

from authz.core.notice import sign_headers
from authz.core.notice_slack import slack_message
from authz.model.webhook import Webhook, WebhookFormat
from authz.ports.notices import Delivery

TIMEOUT_SECONDS: Final = 10.0
MAX_RETRY_AFTER_SECONDS: Final = 3600
USER_AGENT: Final = "authz"


class PostOutcome(StrEnum):
    """How an attempt ended."""

    DELIVERED = "delivered"
    FAILED = "failed"
    """Another attempt may end otherwise."""
    GONE = "gone"
    """The receiver wants no more of it (410)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Posted:
    """An attempt, over. `fault` is in this service's words: nothing of what the receiver said is kept."""

    outcome: PostOutcome
    fault: str = ""
    retry_after_seconds: int = 0
    """What the receiver asked for, bounded."""


class Poster:
    """Posts to a fixed set of receivers, over connections that are kept."""

    def __init__(self, webhooks: Iterable[Webhook], *, timeout_seconds: float = TIMEOUT_SECONDS) -> None:
        self._timeout_seconds = timeout_seconds
        verify = ssl.create_default_context()
        # A proxy of the environment only where TLS keeps the message from it.
        self._clients = {
            is_https: httpx.AsyncClient(
                verify=verify,
                trust_env=is_https,
                follow_redirects=False,
                timeout=timeout_seconds,
                headers={"User-Agent": USER_AGENT},
            )
            for is_https in {webhook.url.startswith("https:") for webhook in webhooks}
        }

    async def post(self, webhook: Webhook, delivery: Delivery, *, now_ms: int) -> Posted:
        """Try once. Never raises for what the receiver does or is.

        Of the answer only the status is read. A redirect is not followed: it would give the message to
        somebody whom nobody configured.
        """
        body = delivery.notice.body
        if webhook.format is WebhookFormat.SLACK:
            body = slack_message(body)
        signed = sign_headers(
            webhook.keys, message_id=delivery.message_id, at_seconds=now_ms // 1000, body=body
        )
        headers = {"Content-Type": "application/json", **signed}
        client = self._clients[webhook.url.startswith("https:")]
        try:
            async with (
                asyncio.timeout(self._timeout_seconds),
                client.stream("POST", webhook.url, content=body, headers=headers) as response,
            ):
                return _judge(response)
        except (TimeoutError, httpx.TimeoutException):
            return _failed(f"there was no answer within {self._timeout_seconds:g} seconds")
        except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
            return _failed(f"it could not be sent ({type(error).__name__})")

    async def close(self) -> None:
        """Let go of all connections."""
        for client in self._clients.values():
            await client.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


def _judge(response: httpx.Response) -> Posted:
    if response.is_success:
        return Posted(outcome=PostOutcome.DELIVERED)
    if response.status_code == httpx.codes.GONE:
        return Posted(outcome=PostOutcome.GONE, fault="the receiver answered 410: it wants no more")
    what = "a redirect, which is not followed" if response.is_redirect else str(response.status_code)
    return _failed(f"the receiver answered {what}", _retry_after_seconds(response))


def _failed(fault: str, retry_after_seconds: int = 0) -> Posted:
    return Posted(outcome=PostOutcome.FAILED, fault=fault, retry_after_seconds=retry_after_seconds)


def _retry_after_seconds(response: httpx.Response) -> int:
    said = response.headers.get("Retry-After", "")
    if not (said.isascii() and said.isdecimal() and len(said) < 10):
        return 0  # the form with a date is not worth a clock of the receiver's
    return min(int(said), MAX_RETRY_AFTER_SECONDS)

"""Headers that every answer under `/ui` has, whoever made it (OWASP secure headers; CSP Level 3)."""

from collections.abc import Awaitable, Callable
from typing import Any, Final

CONTENT_SECURITY_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
"""Nothing inline, nothing from elsewhere, in nobody's frame."""
_ALWAYS: Final = (
    (b"content-security-policy", CONTENT_SECURITY_POLICY.encode()),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"permissions-policy", b"camera=(), geolocation=(), microphone=(), payment=()"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"x-robots-tag", b"noindex, nofollow"),
)
_NO_STORE: Final = (b"cache-control", b"no-store")
_TRANSPORT: Final = (b"strict-transport-security", b"max-age=31536000")

Asgi = Callable[[dict[str, Any], Any, Any], Awaitable[None]]


class SecurityHeaders:
    """ASGI middleware. An answer that says nothing of caching is not kept: back shows the present state."""

    def __init__(self, app: Asgi, *, https: bool) -> None:
        self._app = app
        self._https = https

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        """Pass the request on, and add to what comes back."""

        async def send_with_headers(message: dict[str, Any]) -> None:
            if message["type"] == "http.response.start":
                ours = {name for name, _ in _ALWAYS}
                headers = [pair for pair in message["headers"] if pair[0].lower() not in ours]
                if not any(pair[0].lower() == b"cache-control" for pair in headers):
                    headers.append(_NO_STORE)
                if self._https:
                    headers.append(_TRANSPORT)
                if message["status"] == 408:
                    # What else arrives on this connection would be the rest of the old body.
                    headers.append((b"connection", b"close"))
                message = {**message, "headers": [*headers, *_ALWAYS]}
            await send(message)

        await self._app(scope, receive, send_with_headers)

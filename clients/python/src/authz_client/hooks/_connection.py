"""Drives the flows of this package over the standard library's http client, which starts quickly."""

import http.client
import socket
import time
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlsplit

from authz_client._flow import Do, Flow, HandOver, Incoming, Outgoing, Pause
from authz_client.errors import MalformedAnswer, RequestNotEncodable, Timeout, Unreachable
from authz_client.hooks._failed import HookFailed

MAX_ANSWER_BYTES: Final = 4 * 1024 * 1024
_CHUNK_BYTES: Final = 64 * 1024
_LEAST_SECONDS: Final = 0.001
"""Zero would mean `do not wait` to a socket."""


class Finished:
    """A flow has ended with this."""

    def __init__(self, result: Any) -> None:
        self.result = result


class Connection:
    """One service, asked with one key. A connection is kept for the next request while it lasts.

    Proxies of the environment are not used and redirects are not followed: neither may get the key.
    """

    def __init__(self, url: str, key: str, *, uds: str | None) -> None:
        parts = urlsplit(url)
        try:
            port = parts.port
        except ValueError:
            port = -1
        if parts.scheme not in ("http", "https") or not parts.hostname or port == -1:
            raise HookFailed("`url` must be an absolute http or https url")
        if parts.username is not None or parts.query or parts.fragment:
            raise HookFailed("`url` must have no user, query or fragment")
        self._prefix = parts.path.rstrip("/")
        self._http: http.client.HTTPConnection
        if uds is not None:
            self._http = _UnixConnection(parts.hostname, uds)
        elif parts.scheme == "https":
            self._http = http.client.HTTPSConnection(parts.hostname, port)
        else:
            self._http = http.client.HTTPConnection(parts.hostname, port)
        self._headers = {
            "Authorization": f"Bearer {key}",
            "Accept": "application/json, application/problem+json",
            "Accept-Encoding": "identity",
        }

    def advance(self, flow: Flow[Any], sent: Any = None) -> HandOver | Finished:
        """Take the steps of the flow up to where it hands over, or to its end."""
        try:
            step = flow.send(sent)
            while not isinstance(step, HandOver):
                try:
                    came = self._take(step)
                except Exception as error:  # noqa: BLE001 - the flow goes on, or raises it again
                    step = flow.throw(error)
                else:
                    step = flow.send(came)
        except StopIteration as finished:
            return Finished(finished.value)
        return step

    def close(self) -> None:
        """Let go of the connection."""
        self._http.close()

    def _take(self, step: Outgoing | Pause | Do) -> Any:
        if isinstance(step, Outgoing):
            return self._exchange(step)
        if isinstance(step, Pause):
            return time.sleep(step.seconds)
        return step.function()

    def _exchange(self, outgoing: Outgoing) -> Incoming:
        """`Timeout` and `Unreachable` mean that no answer began; what breaks off later is malformed."""
        ends_at = time.monotonic() + outgoing.seconds
        has_begun = False
        try:
            response = self._send(outgoing, ends_at)
            has_begun = True
            if response.headers.get("Content-Encoding", "identity").lower() != "identity":
                raise MalformedAnswer("the answer is compressed, which was not asked for")
            return Incoming(
                status=response.status,
                media_type=response.headers.get("Content-Type", "").split(";")[0].strip().lower(),
                body=self._body(response, ends_at),
            )
        except MalformedAnswer:
            self._http.close()
            raise
        except (OSError, http.client.HTTPException) as error:
            self._http.close()
            raise _refusal(error, has_begun=has_begun) from error

    def _send(self, outgoing: Outgoing, ends_at: float) -> http.client.HTTPResponse:
        content: Mapping[str, str] = {} if outgoing.body is None else {"Content-Type": "application/json"}
        self._give(ends_at)
        self._http.request(
            outgoing.method,
            self._prefix + outgoing.path,
            body=outgoing.body,
            headers={**self._headers, **content},
        )
        self._give(ends_at)
        return self._http.getresponse()

    def _body(self, response: http.client.HTTPResponse, ends_at: float) -> bytes:
        body = bytearray()
        while True:
            self._give(ends_at)
            chunk = response.read1(_CHUNK_BYTES)
            if not chunk:
                break
            body += chunk
            if len(body) > MAX_ANSWER_BYTES:
                raise MalformedAnswer(f"the answer is longer than {MAX_ANSWER_BYTES} bytes")
        if response.length:
            # `read1` tells an early end by nothing at all.
            raise http.client.IncompleteRead(bytes(body), response.length)
        # `read1` does not notice the end of a body whose length was told, and the next request waits for it.
        response.close()
        return bytes(body)

    def _give(self, ends_at: float) -> None:
        """The next wait ends with the deadline."""
        left = ends_at - time.monotonic()
        if left <= 0:
            raise TimeoutError
        self._http.timeout = left
        if self._http.sock is not None:
            self._http.sock.settimeout(max(left, _LEAST_SECONDS))


class _UnixConnection(http.client.HTTPConnection):
    """By a Unix socket; the host is only told."""

    def __init__(self, host: str, path: str) -> None:
        super().__init__(host)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


def _refusal(error: Exception, *, has_begun: bool) -> Exception:
    if isinstance(error, http.client.InvalidURL):
        return RequestNotEncodable("the request cannot be sent: check the url")
    # `RemoteDisconnected` is both: an answer never began. Any other one is of an answer that is not HTTP.
    no_answer = isinstance(error, OSError) and not has_begun
    if isinstance(error, TimeoutError) and no_answer:
        return Timeout("no answer within the deadline")
    if no_answer:
        return Unreachable("the service cannot be reached")
    return MalformedAnswer("the answer broke off, or is not HTTP", broke_off=True)

"""The client by which commands ask a service over HTTP, with a key that only the service may see."""

import ipaddress
import json
from collections.abc import Mapping
from typing import Any, Final

import httpx

from authz.errors import StoreUnavailable

TIMEOUT_SECONDS: Final = 30.0


def service_client(url: str, key: str) -> httpx.Client:
    """A client for the service at `url`. Raises `httpx.InvalidURL`.

    By a proxy of the environment only where TLS keeps the key from it: never to this machine, and never in
    plain text.
    """
    return httpx.Client(
        headers={"Authorization": f"Bearer {key}"},
        timeout=TIMEOUT_SECONDS,
        trust_env=_may_use_a_proxy(httpx.URL(url)),
    )


def ask_service(
    url: str,
    key: str,
    method: str,
    path: str,
    *,
    body: Mapping[str, Any] | None = None,
    params: Mapping[str, str] | None = None,
    timeout_seconds: float = TIMEOUT_SECONDS,
) -> tuple[httpx.Response, Any]:
    """The answer and its JSON. Raises `StoreUnavailable` where there is none that can be read."""
    url = url.rstrip("/")
    try:
        with service_client(url, key) as client:
            response = client.request(method, url + path, json=body, params=params, timeout=timeout_seconds)
        return response, json.loads(response.content)
    except (httpx.HTTPError, httpx.InvalidURL, ValueError) as error:
        what = type(error).__name__
        raise StoreUnavailable(f"`{url}` gave no answer that can be read: {what}") from None


def _may_use_a_proxy(url: httpx.URL) -> bool:
    return url.scheme == "https" and not _is_this_machine(url.host)


def _is_this_machine(host: str) -> bool:
    name = host.rstrip(".").lower()
    if name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        address = ipaddress.ip_address(name)
    except ValueError:
        return False
    return address.is_loopback or address.is_unspecified

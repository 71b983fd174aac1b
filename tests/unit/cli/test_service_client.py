"""Which services are asked by a proxy of the environment: none that would hand it the key."""

import pytest

from authz.cli.service_client import service_client

PROXY = "http://proxy.example:3128"


@pytest.fixture(autouse=True)
def proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, PROXY)
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(
    ("url", "proxied"),
    [
        ("http://localhost:8700", False),
        ("http://127.0.0.1:8700", False),
        ("https://127.8.9.1", False),
        ("https://[::1]:8700", False),
        ("https://LOCALHOST.", False),
        ("https://a.localhost", False),
        ("https://0.0.0.0:1", False),
        ("http://authz.example.com", False),
        ("https://authz.example.com", True),
        ("https://10.0.0.1", True),
    ],
)
def test_the_key_goes_to_no_proxy_that_could_read_it(url: str, proxied: bool) -> None:
    with service_client(url, "key") as client:
        assert client.trust_env is proxied
        assert client.headers["Authorization"] == "Bearer key"

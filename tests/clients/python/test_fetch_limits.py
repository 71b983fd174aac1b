"""What a fetch may cost, and whom it believes: time, size, and certificates. Real servers on loopback."""

import asyncio
import inspect
import socket
import threading
from collections.abc import Sequence
from contextlib import closing
from contextvars import ContextVar
from pathlib import Path

import pytest
from authz_client import Decision
from authz_client.fetch import FetchFailed, Hop, Limits, fetch, fetch_async

from tests.clients.python.fetching import LOOPBACK, Asked, Fetch, answering, ok, using
from tests.clients.python.webs import Answer, Request, Web, certify, serving


@pytest.mark.parametrize("declared", [True, False], ids=["declared", "chunked"])
def test_a_response_that_is_too_long(get: Fetch, declared: bool) -> None:
    def answer(request: Request) -> Answer:
        if declared:
            return 200, {}, b"x" * 1001
        chunk = b"64\r\n" + b"x" * 100 + b"\r\n"
        return 200, {"Transfer-Encoding": "chunked", "Content-Length": ""}, chunk * 11 + b"0\r\n\r\n"

    with serving(answer) as web, pytest.raises(FetchFailed):
        get(f"http://127.0.0.1:{web.port}/", ask=Asked(), limits=Limits(max_bytes=1000))
    with serving(lambda _: (200, {}, b"x" * 1000)) as web:
        page = get(f"http://127.0.0.1:{web.port}/", ask=Asked(), limits=Limits(max_bytes=1000))
        assert len(page.body) == 1000


def test_a_response_that_is_compressed(get: Fetch) -> None:
    with (
        serving(lambda _: (200, {"Content-Encoding": "gzip"}, b"\x1f\x8b")) as web,
        pytest.raises(FetchFailed, match="compressed"),
    ):
        get(f"http://127.0.0.1:{web.port}/", ask=Asked())


@pytest.mark.parametrize(
    "begin",
    [
        b"",
        b"HTTP/1.1 200 OK\r\nX: ",  # a header that goes on for ever, a byte at a time
        b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n",  # and so does a body
    ],
    ids=["silent", "header", "body"],
)
def test_a_response_that_does_not_end(get: Fetch, begin: bytes) -> None:
    stop = threading.Event()
    with closing(socket.create_server(("127.0.0.1", 0))) as listening:

        def drip() -> None:
            connection, _ = listening.accept()
            with closing(connection):
                try:
                    connection.sendall(begin)
                    # Faster than any timeout of a single read, which each byte would start anew.
                    while not stop.wait(0.02):
                        if begin:
                            connection.sendall(b"x")
                except OSError:
                    pass  # it has given up, as it should

        thread = threading.Thread(target=drip)
        thread.start()
        try:
            with pytest.raises(FetchFailed, match="deadline"):
                get(
                    f"http://127.0.0.1:{listening.getsockname()[1]}/",
                    ask=Asked(),
                    limits=Limits(deadline_seconds=0.5),
                )
        finally:
            stop.set()
            thread.join()


def test_a_resolver_that_does_not_end(get: Fetch) -> None:
    stop = threading.Event()

    def resolver(host: str, port: int) -> Sequence[str]:
        stop.wait()
        return ["127.0.0.1"]

    try:
        with pytest.raises(FetchFailed, match="deadline"):
            get("http://a.example/", ask=Asked(), resolver=resolver, limits=Limits(deadline_seconds=0.3))
    finally:
        stop.set()


def test_an_answer_that_does_not_come() -> None:
    """The decision point is no exception: whoever waits for a fetch waits no longer than its deadline."""
    stop = threading.Event()

    def ask(hop: Hop) -> Decision:
        assert not stop.wait(60), "it was waited for"
        return using(hop.url)

    async def ask_asynchronously(hop: Hop) -> Decision:
        await asyncio.sleep(60)
        pytest.fail("it was waited for")

    url, soon = "http://127.0.0.1:1/", Limits(deadline_seconds=0.3)
    try:
        with pytest.raises(FetchFailed, match="decided on at the deadline"):
            fetch(url, ask=ask, limits=soon)
        with pytest.raises(FetchFailed, match="decided on at the deadline"):
            asyncio.run(fetch_async(url, ask=ask_asynchronously, limits=soon))
    finally:
        stop.set()


def test_a_timeout_of_the_asking_is_its_own(get: Fetch) -> None:
    def ask(hop: Hop) -> Decision:
        raise TimeoutError("mine")

    with pytest.raises(TimeoutError, match="mine"):
        get("http://127.0.0.1:1/", ask=ask)


def test_who_is_asked_sees_the_context_of_the_caller(get: Fetch, web: Web) -> None:
    variable: ContextVar[str] = ContextVar("variable")
    variable.set("the caller's")

    def ask(hop: Hop) -> Decision:
        assert variable.get() == "the caller's"
        return using(hop.url)

    assert get(f"http://127.0.0.1:{web.port}/", ask=ask).body == b"page"


def test_nobody_listens(get: Fetch) -> None:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        with pytest.raises(FetchFailed, match="ConnectError"):
            get(f"http://127.0.0.1:{bound.getsockname()[1]}/", ask=Asked())


def test_proxies_of_the_environment_are_not_used(
    get: Fetch, web: Web, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving(lambda _: (200, {}, b"proxy")) as proxy:
        for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{proxy.port}")
        assert get(f"http://127.0.0.1:{web.port}/", ask=Asked()).body == b"page"
        assert proxy.requests == []


# TLS.


def test_the_certificate_is_the_name_s_and_the_address_the_pinned_one(get: Fetch, tmp_path: Path) -> None:
    client, server = certify(tmp_path, "secure.example")
    with serving(ok, tls=server) as web:
        page = get(
            f"https://secure.example:{web.port}/x",
            ask=Asked(),
            resolver=answering(["127.0.0.1"]),
            allow_address_classes=LOOPBACK,
            tls=client,
        )
        assert page.body == b"page"
        [request] = web.requests
        assert request.sni == "secure.example"
        assert request.headers["Host"] == f"secure.example:{web.port}"


def test_a_certificate_of_another_name_or_authority_is_refused(get: Fetch, tmp_path: Path) -> None:
    client, server = certify(tmp_path, "secure.example")
    stranger, _ = certify(tmp_path, "other.example")
    with serving(ok, tls=server) as web:
        for name, tls in (("other.example", client), ("secure.example", stranger), ("secure.example", None)):
            with pytest.raises(FetchFailed):
                get(
                    f"https://{name}:{web.port}/",
                    ask=Asked(),
                    resolver=answering(["127.0.0.1"]),
                    allow_address_classes=LOOPBACK,
                    tls=tls,
                )
        assert web.requests == []


def test_a_second_name_at_the_same_address_is_checked_anew(get: Fetch, tmp_path: Path) -> None:
    """A connection that is verified for one name must not carry requests for another."""
    client, server = certify(tmp_path, "secure.example")

    def answer(request: Request) -> Answer:
        return 302, {"Location": f"https://other.example:{web.port}/b"}, b""

    with serving(answer, tls=server) as web:
        with pytest.raises(FetchFailed):
            get(
                f"https://secure.example:{web.port}/a",
                ask=Asked(),
                resolver=answering(["127.0.0.1"]),
                allow_address_classes=LOOPBACK,
                tls=client,
            )
        assert [request.path for request in web.requests] == ["/a"]


def test_a_certificate_of_an_address(get: Fetch, tmp_path: Path) -> None:
    client, server = certify(tmp_path, "127.0.0.1")
    with serving(ok, tls=server) as web:
        assert get(f"https://127.0.0.1:{web.port}/", ask=Asked(), tls=client).body == b"page"


def test_a_downgrade_is_a_new_decision_and_says_so(get: Fetch, tmp_path: Path, web: Web) -> None:
    client, server = certify(tmp_path, "127.0.0.1")
    target = f"http://127.0.0.1:{web.port}/plain"
    with serving(lambda _: (301, {"Location": target}, b""), tls=server) as secure:
        asked = Asked()
        page = get(f"https://127.0.0.1:{secure.port}/", ask=asked, tls=client)
        assert page.url == target
        assert [hop.downgrade for hop in asked.hops] == [False, True]


def test_the_two_are_made_alike() -> None:
    one, other = (inspect.signature(function).parameters for function in (fetch, fetch_async))
    assert list(one) == list(other)
    assert [p.default for p in one.values()] == [p.default for p in other.values()]

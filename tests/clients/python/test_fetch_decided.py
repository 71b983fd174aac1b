"""A fetch is held to its decision: that url, and what its method does there. Real servers on loopback."""

import itertools

import pytest
from authz_client import Decision
from authz_client._urls import canonical_url
from authz_client.fetch import Hop, NotCovered
from hypothesis import example, given
from hypothesis import strategies as st

from authz.core.canonical import canonicalize
from authz.model.resource import Base, NotCanonical
from tests.clients.python.deciding import access, decision
from tests.clients.python.fetching import Asked, Fetch, ok, using
from tests.clients.python.webs import Answer, Request, Web, serving

METHODS = {
    "GET": {"read"},
    "HEAD": {"read"},
    "OPTIONS": {"read"},
    "POST": {"send", "write"},
    "PUT": {"send", "write"},
    "PATCH": {"send", "write"},
    "DELETE": {"delete"},
}
VERBS = ["read", "write", "delete", "execute", "connect", "send", "transact", "administer"]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("verb", VERBS)
def test_a_method_needs_its_verb(get: Fetch, web: Web, method: str, verb: str) -> None:
    url = f"http://127.0.0.1:{web.port}/"
    allow = decision(access("connect", url), access(verb, url))
    if verb in METHODS[method]:
        get(url, ask=lambda hop: allow, method=method)
        assert [request.method for request in web.requests] == [method]
        return
    with pytest.raises(NotCovered, match=f"a `{method}` needs"):
        get(url, ask=lambda hop: allow, method=method)
    assert web.connections == 0


@pytest.mark.parametrize("method", ["GET", "OPTIONS", "DELETE"])
def test_a_body_needs_to_be_sent_whatever_the_method(get: Fetch, web: Web, method: str) -> None:
    url = f"http://127.0.0.1:{web.port}/"
    with pytest.raises(NotCovered, match="`send`"):
        get(url, ask=lambda hop: using(url, method), method=method, body=b"out")
    assert web.connections == 0
    get(url, ask=lambda hop: using(url, method, has_body=True), method=method, body=b"out")
    assert web.requests[0].body == b"out"


@pytest.mark.parametrize("method", ["TRACE", "CONNECT", "PROPFIND", "", "GET / HTTP/1.1\r\nX: y\r\n\r\nGET"])
def test_another_method_is_not_sent(get: Fetch, web: Web, method: str) -> None:
    url = f"http://127.0.0.1:{web.port}/"
    allow = decision(*(access(verb, url) for verb in VERBS))
    with pytest.raises(NotCovered, match="method"):
        get(url, ask=lambda hop: allow, method=method)
    assert web.connections == 0


@pytest.mark.parametrize("status", [307, 308])
def test_a_redirect_carries_a_body_only_where_it_may_be_sent(get: Fetch, status: int) -> None:
    with (
        serving(ok, address="127.0.0.2") as other,
        serving(lambda _: (status, {"Location": f"http://127.0.0.2:{other.port}/"}, b"")) as web,
    ):

        def ask(hop: Hop) -> Decision:
            return using(hop.url, "POST" if hop.number == 0 else "GET")

        with pytest.raises(NotCovered):
            get(f"http://127.0.0.1:{web.port}/", ask=ask, method="POST", body=b"out")
        assert [request.body for request in web.requests] == [b"out"]
        assert other.connections == 0


def test_a_redirect_that_makes_a_get_of_a_post_needs_to_read(get: Fetch) -> None:
    def answer(request: Request) -> Answer:
        return (303, {"Location": "/done"}, b"") if request.method == "POST" else ok(request)

    with serving(answer) as web:
        url = f"http://127.0.0.1:{web.port}/"
        with pytest.raises(NotCovered, match="`read`"):
            get(url, ask=lambda hop: using(hop.url, "POST"), method="POST", body=b"x")
        assert [request.method for request in web.requests] == ["POST"]
        assert get(url, ask=Asked(), method="POST", body=b"x").body == b"page"


@pytest.mark.parametrize(
    "other",
    [
        "http://127.0.0.2:PORT/x",
        "http://127.0.0.1:1/x",
        "https://127.0.0.1:PORT/x",
        "http://127.0.0.1:PORT/",
        "http://127.0.0.1:PORT/X",
        "http://127.0.0.1:PORT/x/",
        "http://127.0.0.1:PORT/x?",
        "http://127.0.0.1:PORT/x?a=b",
        "http://127.0.0.1:PORT/%78",
    ],
)
def test_a_decision_on_another_url(get: Fetch, web: Web, other: str) -> None:
    allow = using(other.replace("PORT", str(web.port)))
    with pytest.raises(NotCovered, match=r"hop\.url"):
        get(f"http://127.0.0.1:{web.port}/x", ask=lambda hop: allow)
    assert web.connections == 0


def test_a_decision_on_the_first_url_is_none_on_a_redirect(get: Fetch) -> None:
    with serving(lambda _: (302, {"Location": "/b"}, b"")) as web:
        first = using(f"http://127.0.0.1:{web.port}/a")
        with pytest.raises(NotCovered, match=r"hop\.url"):
            get(f"http://127.0.0.1:{web.port}/a", ask=lambda hop: first)
        assert [request.path for request in web.requests] == ["/a"]


# The client's spelling of a url is the service's.

HOSTS = [
    "example.com",
    "EXAMPLE.com.",
    "bücher.example",
    "xn--bcher-kva.example",
    "faß.de",
    "ex%61mple.com",
    "2130706433",
    "0x7f.1",
    "017700000001",
    "127.0.0.1.",
    "[::1]",
    "[::ffff:127.0.0.1]",
    "[::127.0.0.1]",
    "[64:ff9b::7f00:1]",
    "[64:ff9b:1::a9fe:a9fe]",
    "[64:ff9b:1::5db8:d822]",
    "[2002:7f00:1::]",
    "[2001:DB8:0::0:1]",
    "user@example.com",
]
PORTS = ["", ":", ":80", ":443", ":08080", ":65535"]
RESTS = [
    "",
    "/",
    "?q",
    "/a?",
    "/a/../b/./c",
    "/%2e%2E/a",
    "/.a/../../b",
    "/.a/..",
    "/a b/ü?ü=ü#ü",
    "//a;x=1/b",
    "\\a\\b",
    "/%7e%41/^`{|}",
    "/a?b#c?d",
]
URLS = st.builds(
    lambda scheme, host, port, rest: scheme + host + port + rest,
    st.sampled_from(["http://", "HTTPS://", "http:", "https:\\\\"]),
    st.sampled_from(HOSTS) | st.text(max_size=8),
    st.sampled_from(PORTS),
    st.sampled_from(RESTS) | st.text("/.%2eaü?#;\\ \t", max_size=12),
)


@pytest.mark.parametrize(("host", "rest"), list(itertools.product(HOSTS, RESTS)))
def test_each_spelling_is_the_service_s(host: str, rest: str) -> None:
    for scheme, port in itertools.product(("http", "https"), PORTS):
        check_spelling(f"{scheme}://{host}{port}{rest}")


@given(URLS | st.text())
@example("http://\ud800/")
@example("http://a.example/\ud800")
def test_any_spelling_is_the_service_s(url: str) -> None:
    check_spelling(url)


def check_spelling(url: str) -> None:
    found = canonicalize("url", url, Base())
    if isinstance(found, NotCanonical):
        canonical_url(url)  # of this there is no decision, but no fault may come of it either
    elif found[0].uri.startswith("http"):
        assert canonical_url(url) == found[0].uri
    else:
        assert canonical_url(url) is None

"""Fetching against real servers on loopback: what was decided on is what is connected to, hop by hop.

Only the resolver is a function of the test, since no test may ask a real one. Servers can only be on this
machine, so where a name should be allowed to lead somewhere, `loopback` is what it is allowed for.
"""

from collections.abc import Callable, Sequence
from typing import Any

import httpx
import pytest
from authz_client import Decision
from authz_client.fetch import (
    AddressRefused,
    FetchFailed,
    Hop,
    HopRefused,
    Limits,
    NotCovered,
    hop_request,
    system_resolver,
)

from tests.clients.python.deciding import access, decision
from tests.clients.python.fetching import LOOPBACK, Asked, Fetch, answering, ok, using
from tests.clients.python.webs import Answer, Request, Web, serving


def redirecting(**targets: str) -> Callable[[Request], Answer]:
    """Redirects `/name` to `targets[name]`; other paths are pages."""

    def answer(request: Request) -> Answer:
        name = request.path.partition("?")[0].strip("/")
        if name in targets:
            return 302, {"Location": targets[name].replace("PORT", request.headers["Host"][-5:])}, b""
        return ok(request)

    return answer


def test_an_address_that_was_decided_on(get: Fetch, web: Web) -> None:
    asked = Asked()
    page = get(f"http://127.0.0.1:{web.port}/a/%7e?b=c#d", ask=asked, headers={"X-Mine": "1"})
    assert (page.status, page.body) == (200, b"page")
    assert page.url == f"http://127.0.0.1:{web.port}/a/%7e?b=c"
    assert page.hops == tuple(asked.hops)
    [request] = web.requests
    # The very bytes of the decided target, and the host as it was decided on.
    assert (request.method, request.path) == ("GET", "/a/%7e?b=c")
    assert request.headers["Host"] == f"127.0.0.1:{web.port}"
    assert request.headers["X-Mine"] == "1"
    assert request.headers["Accept-Encoding"] == "identity"


@pytest.mark.parametrize("spelling", ["2130706433", "0x7f.1", "127.1", "[::ffff:127.0.0.1]", "127.0.0.1."])
def test_an_address_in_another_spelling_is_the_decided_one(get: Fetch, web: Web, spelling: str) -> None:
    page = get(f"http://{spelling}:{web.port}/", ask=Asked())
    assert page.url == f"http://127.0.0.1:{web.port}/"
    assert web.requests[0].headers["Host"] == f"127.0.0.1:{web.port}"


def test_a_name_goes_where_it_was_found_to_lead(get: Fetch, web: Web) -> None:
    asked: list[tuple[str, int]] = []

    def resolver(host: str, port: int) -> Sequence[str]:
        asked.append((host, port))
        return ["127.0.0.1"]

    page = get(
        f"http://Example.com.:{web.port}/x", ask=Asked(), resolver=resolver, allow_address_classes=LOOPBACK
    )
    assert page.body == b"page"
    assert asked == [("example.com", web.port)]
    assert web.requests[0].headers["Host"] == f"example.com:{web.port}"


INSIDE = [
    ("127.0.0.1", "loopback"),
    ("::1", "loopback"),
    ("10.0.0.1", "private"),
    ("169.254.169.254", "metadata"),
    ("fe80::1%lo", "link_local"),
    ("100.64.0.1", "shared"),
    ("0.0.0.0", "unspecified"),
    ("224.0.0.1", "multicast"),
    ("240.0.0.1", "reserved"),
    ("::ffff:127.0.0.1", "loopback"),
    ("::ffff:169.254.169.254", "metadata"),
    ("64:ff9b::7f00:1", "loopback"),
    ("64:ff9b:1::a9fe:a9fe", "metadata"),
    ("2002:7f00:1::", "loopback"),
    ("2001:0:5db8:d822:0:0:80ff:fffe", "loopback"),
]


@pytest.mark.parametrize(("address", "named"), INSIDE)
@pytest.mark.parametrize("mixed", [False, True], ids=["alone", "mixed"])
def test_a_name_that_leads_inside_is_refused(
    get: Fetch, web: Web, address: str, named: str, mixed: bool
) -> None:
    answer = ["93.184.216.34", address] if mixed else [address]
    with pytest.raises(AddressRefused, match=named):
        get(f"http://example.com:{web.port}/", ask=Asked(), resolver=answering(answer))
    assert web.connections == 0


def test_what_a_name_is_allowed_for_is_not_more(get: Fetch, web: Web) -> None:
    for answer in (["10.0.0.1"], ["127.0.0.1", "10.0.0.1"], ["169.254.169.254"]):
        with pytest.raises(AddressRefused):
            get(
                f"http://example.com:{web.port}/",
                ask=Asked(),
                resolver=answering(answer),
                allow_address_classes=LOOPBACK,
            )
    assert web.connections == 0


def test_a_name_is_resolved_once_and_the_answer_is_kept(get: Fetch, web: Web) -> None:
    """DNS rebinding: the check sees one answer, and who resolves again to connect gets another."""
    with serving(lambda _: (200, {}, b"secret"), address="127.0.0.2", port=web.port) as inside:
        rebinding = answering(["127.0.0.1"], ["127.0.0.2"])
        # Against a check and then a client that resolves for itself, it works.
        assert rebinding("example.com", web.port) == ["127.0.0.1"]
        [address] = rebinding("example.com", web.port)
        assert httpx.get(f"http://{address}:{web.port}/", trust_env=False).content == b"secret"
        inside.requests.clear()
        page = get(
            f"http://example.com:{web.port}/",
            ask=Asked(),
            resolver=answering(["127.0.0.1"], ["127.0.0.2"]),
            allow_address_classes=LOOPBACK,
        )
        assert page.body == b"page"
        assert inside.requests == []


def test_a_name_that_leads_inside_at_the_next_hop(get: Fetch) -> None:
    with serving(redirecting(a="/b")) as web:
        asked = Asked()
        with pytest.raises(AddressRefused, match="private"):
            get(
                f"http://example.com:{web.port}/a",
                ask=asked,
                resolver=answering(["127.0.0.1"], ["10.0.0.1"]),
                allow_address_classes=LOOPBACK,
            )
        assert len(web.requests) == 1
        assert len(asked.hops) == 2


def test_several_addresses_are_tried_in_turn(get: Fetch, web: Web) -> None:
    # Nobody listens on the first.
    page = get(
        f"http://example.com:{web.port}/",
        ask=Asked(),
        resolver=answering(["127.0.0.3", "127.0.0.1"]),
        allow_address_classes=LOOPBACK,
    )
    assert page.body == b"page"


@pytest.mark.parametrize(
    ("answer", "failure"),
    [
        ([], FetchFailed),
        (["example.org"], FetchFailed),
        (["127.1"], FetchFailed),
        ("127.0.0.1", FetchFailed),
        (OSError("no such name"), FetchFailed),
        (UnicodeError("label too long"), FetchFailed),
        (KeyError("a fault of the resolver"), KeyError),
    ],
)
def test_a_resolver_that_does_not_say(get: Fetch, answer: Any, failure: type[Exception]) -> None:
    def resolver(host: str, port: int) -> Any:
        if isinstance(answer, Exception):
            raise answer
        return answer

    with pytest.raises(failure):
        get("http://example.com/", ask=Asked(), resolver=resolver, allow_address_classes=LOOPBACK)


def test_the_resolver_of_the_system() -> None:
    assert "127.0.0.1" in system_resolver("127.0.0.1", 80)


# Redirects.


def test_every_hop_is_asked_about(get: Fetch) -> None:
    with serving(redirecting(a="b?x=1", b="//127.0.0.1:PORT/c", c="http://127.0.0.1:PORT/d/../e")) as web:
        asked = Asked()
        base = f"http://127.0.0.1:{web.port}"
        page = get(f"{base}/a", ask=asked)
        assert page.url == f"{base}/e"
        assert asked.urls == [f"{base}/a", f"{base}/b?x=1", f"{base}/c", f"{base}/d/../e"]
        assert [hop.previous for hop in asked.hops] == [None, f"{base}/a", f"{base}/b?x=1", f"{base}/c"]
        assert [hop.number for hop in asked.hops] == [0, 1, 2, 3]


@pytest.mark.parametrize(
    "target",
    [
        "http://169.254.169.254/latest/meta-data/",
        "http://[::ffff:a9fe:a9fe]/latest",
        "http://user:pw@169.254.169.254/",
        "file:///etc/passwd",
        "gopher://127.0.0.1/",
        "javascript:alert(1)",
        "http://127.0.0.1:99999/",
        "//169.254.169.254/",
    ],
)
def test_a_redirect_is_not_followed_without_a_decision(get: Fetch, target: str) -> None:
    with serving(redirecting(a=target)) as web:
        with pytest.raises(HopRefused) as caught:
            get(f"http://127.0.0.1:{web.port}/a", ask=Asked("169.254."))
        assert not caught.value.decision.allowed
        assert len(web.requests) == 1


def test_a_redirect_that_waits_for_approval_is_not_followed(get: Fetch) -> None:
    with serving(redirecting(a="/b")) as web:

        def ask(hop: Hop) -> Decision:
            if hop.number == 0:
                return using(f"http://127.0.0.1:{web.port}/a")
            return decision(effect="require_approval")

        with pytest.raises(HopRefused) as caught:
            get(f"http://127.0.0.1:{web.port}/a", ask=ask)
        assert caught.value.decision.effect == "require_approval"
        assert len(web.requests) == 1


@pytest.mark.parametrize(
    ("targets", "message"),
    [
        ({"a": "/a"}, "circle"),
        ({"a": "/b", "b": "/c", "c": "/a"}, "circle"),
        ({"a": "/b", "b": "/c", "c": "/d", "d": "/e"}, "more than 3 redirects"),
        ({"a": "http://[::1/"}, "not a url"),
        ({"a": "http:"}, "circle"),
    ],
)
def test_redirects_that_lead_nowhere(get: Fetch, targets: dict[str, str], message: str) -> None:
    with serving(redirecting(**targets)) as web:
        asked = Asked()
        with pytest.raises(FetchFailed, match=message):
            get(f"http://127.0.0.1:{web.port}/a", ask=asked, limits=Limits(max_redirects=3))
        assert len(asked.hops) <= 4


@pytest.mark.parametrize(
    ("status", "method", "then"),
    [
        (301, "POST", "GET"),
        (302, "POST", "GET"),
        (303, "POST", "GET"),
        (303, "PUT", "GET"),
        (303, "HEAD", "HEAD"),
        (301, "PUT", "PUT"),
        (307, "POST", "POST"),
        (308, "POST", "POST"),
    ],
)
def test_methods_and_bodies(get: Fetch, status: int, method: str, then: str) -> None:
    def answer(request: Request) -> Answer:
        return (status, {"Location": "/b"}, b"") if request.path == "/a" else (200, {}, b"")

    with serving(answer) as web:
        asked = Asked()
        body = b"" if method == "HEAD" else b"data"
        get(
            f"http://127.0.0.1:{web.port}/a",
            ask=asked,
            method=method.lower(),
            body=body,
            headers={"Content-Type": "text/plain"},
        )
        kept = body if then == method else b""
        assert [(request.method, request.body) for request in web.requests] == [(method, body), (then, kept)]
        assert ("Content-Type" in web.requests[1].headers) == bool(kept)
        assert [(hop.method, hop.has_body) for hop in asked.hops] == [
            (method, bool(body)),
            (then, bool(kept)),
        ]


CREDENTIALS = {
    "Authorization": "Bearer x",
    "Cookie": "c=1",
    "Proxy-Authorization": "p",
    "X-Api-Key": "k",
    "Private-Token": "t",
    "X-Other": "y",
    "PRIVATE": "z",
}
"""What a server knows its callers by has no list."""
FOR_ALL = {"Accept": "text/plain", "ACCEPT-language": "fr", "User-Agent": "u/1"}


def test_credentials_stay_with_their_origin(get: Fetch) -> None:
    with serving(ok, address="127.0.0.2") as other:
        with serving(redirecting(a="/b", b=f"http://127.0.0.2:{other.port}/")) as web:
            get(
                f"http://127.0.0.1:{web.port}/a",
                ask=Asked(),
                headers=CREDENTIALS | FOR_ALL | {"Host": "evil.test"},
            )
            for request in web.requests:
                assert request.headers.items() >= (CREDENTIALS | FOR_ALL).items()
                assert request.headers["Host"] == f"127.0.0.1:{web.port}"
        [request] = other.requests
        assert request.headers == FOR_ALL | {
            "Host": f"127.0.0.2:{other.port}",
            "Connection": "close",
            "Accept-Encoding": "identity",
        }


def test_credentials_do_not_come_back_with_a_redirect(get: Fetch) -> None:
    """Who redirects back chooses the url that they would be sent to."""
    with serving(
        lambda _: (302, {"Location": f"http://127.0.0.1:{web.port}/b"}, b""), address="127.0.0.2"
    ) as other:
        with serving(redirecting(a=f"http://127.0.0.2:{other.port}/")) as web:
            get(f"http://127.0.0.1:{web.port}/a", ask=Asked(), headers=CREDENTIALS)
        assert [request.path for request in web.requests] == ["/a", "/b"]
        assert not web.requests[1].headers.keys() & CREDENTIALS.keys()


def test_what_describes_a_body_goes_with_it(get: Fetch) -> None:
    described = {"Content-Type": "text/plain", "Content-Language": "fr", "Content-Secret": "s"}
    with (
        serving(ok, address="127.0.0.2") as other,
        serving(lambda _: (307, {"Location": f"http://127.0.0.2:{other.port}/"}, b"")) as web,
    ):
        get(f"http://127.0.0.1:{web.port}/", ask=Asked(), method="POST", body=b"x", headers=described)
    [request] = other.requests
    assert (request.method, request.body) == ("POST", b"x")
    assert request.headers.items() >= {"Content-Type": "text/plain", "Content-Language": "fr"}.items()
    assert "Content-Secret" not in request.headers


def test_the_request_of_a_hop() -> None:
    request = {
        "arguments": {"url": "x", "other": 1},
        "provenance": {"/url": {"source": "user"}, "/other": {"source": "user"}},
        "context": {"tool_call_id": "call_7", "trace_id": "t"},
    }
    before = repr(request)
    first = Hop(number=0, url="https://a.example/", method="GET", has_body=False)
    assert hop_request(request, first) == request | {"arguments": {"url": "https://a.example/", "other": 1}}
    second = Hop(
        number=1, url="https://b.example/", method="GET", has_body=False, previous="https://a.example/"
    )
    asked = hop_request(request, second)
    assert asked["arguments"]["url"] == "https://b.example/"
    assert asked["provenance"] == {
        "/url": {"source": "web", "uri": "https://a.example/"},
        "/other": {"source": "user"},
    }
    assert asked["context"] == {"tool_call_id": "call_7.hop-1", "trace_id": "t"}
    assert hop_request({}, second, argument="a/b")["provenance"] == {
        "/a~1b": {"source": "web", "uri": "https://a.example/"}
    }
    assert repr(request) == before


# Decisions.


@pytest.mark.parametrize(
    "given",
    [
        decision(),
        decision(access("read", "https://a.example/"), access("read", "https://b.example/")),
        decision(access("read", "https://b.example/")),
        decision(access("read", "https://a.example/"), effect="allow", dry_run=True),
        decision(access("read", "file:///etc/passwd")),
        decision(access("read", "https://a@b.example/")),
        decision(access("read", "https://a.example")),
        decision(access("read", "https://a.example/\n")),
        decision(access("read", "https://a.example\\b/")),
        decision(access("read", "https://a.example:x/")),
        decision(access("read", "https:///")),
        decision(access("read", "https://[::1/")),
        None,
    ],
)
def test_a_decision_that_covers_no_one_url(get: Fetch, given: Decision) -> None:
    with pytest.raises(NotCovered):
        get("https://a.example/", ask=lambda hop: given, resolver=answering(["127.0.0.1"]))


def test_what_the_asking_raises_comes_through(get: Fetch) -> None:
    def ask(hop: Hop) -> Decision:
        raise StopIteration  # the worst of all for a generator

    with pytest.raises((StopIteration, RuntimeError)):
        get("https://a.example/", ask=ask)


def test_an_allow_that_has_ended(get: Fetch, web: Web) -> None:
    ended = using(f"http://127.0.0.1:{web.port}/")
    with pytest.raises(NotCovered, match="ended"):
        get(f"http://127.0.0.1:{web.port}/", ask=lambda hop: ended, clock=lambda: ended.expires_at)
    assert web.connections == 0

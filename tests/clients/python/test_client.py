"""The client against real servers on the loopback interface: nothing but a live allow is an allow."""

import asyncio
import dataclasses
import json
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta, timezone
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import httpx
import pytest
from authz_client import (
    AsyncClient,
    CapabilityRefusal,
    Client,
    Decision,
    DecisionUnavailable,
    Effect,
    MalformedAnswer,
    Obligation,
    RequestNotEncodable,
    RequestRefused,
    ServerFailure,
    Timeout,
    Unreachable,
)
from hypothesis import given
from hypothesis import strategies as st

NOW = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)
KEY = "key-for-tests"
REQUEST = {"subject": {"agent": "coder-1"}, "tool": {"server": "fs", "name": "file_edit"}, "arguments": {}}

ALLOW: dict[str, Any] = {
    "decision_id": "d-1",
    "effect": "allow",
    "expires_at": "2026-11-30T12:01:00.250Z",
    "request_digest": "sha256:aa",
    "matched": [
        {
            "rule": "workspace-write",
            "kind": "permit",
            "file": "rules/workspace.cedar",
            "line": 4,
            "reason": "inside",
        }
    ],
    "stage": "policy",
    "code": "policy.permit",
    "authority": "A1",
    "side_effect": "idempotent",
    "accesses": [
        {
            "verb": "write",
            "resource": 'File::"/workspace/app.py"',
            "uri": "file:///workspace/app.py",
            "scope": "object",
            "authority": "A1",
            "effect": "allow",
            "rules": ["workspace-write"],
        }
    ],
    "arguments": {"path": "/workspace/app.py", "allow_multiple": False},
    "fingerprint": "sha256:bb",
    "idempotency_key": "ik-1",
    "lease": {"token": "lease-secret", "expires_at": "2026-11-30T12:01:00Z"},
    "obligations": ["snapshot_before"],
    "policy_version": "sha256:cc",
    "sequence": 42,
}
DENY: dict[str, Any] = {
    "decision_id": "d-2",
    "effect": "deny",
    "stage": "policy",
    "code": "policy.forbid",
    "matched": [{"rule": "protect-secrets", "kind": "forbid"}],
    "message": "secrets are not for agents",
    "next": ["change_arguments", "stop"],
    "retry_unchanged": False,
    "fingerprint": None,
}
ASK: dict[str, Any] = {
    "decision_id": "d-3",
    "effect": "require_approval",
    "stage": "approval",
    "code": "approval.required",
    "matched": [{"rule": "payments-need-a-human", "kind": "ask"}],
    "approval": {
        "id": "a-1",
        "state": "pending",
        "url": "http://localhost/ui/a-1",
        "expires_at": "2026-11-30T13:00:00+00:00",
    },
    "next": ["wait"],
}


@dataclasses.dataclass(frozen=True)
class Reply:
    """What a server sends, byte for byte."""

    status: int = 200
    body: bytes = b""
    media_type: str | None = "application/json"
    headers: Mapping[str, str] = dataclasses.field(default_factory=dict)
    declared_length: int | None = None


@dataclasses.dataclass
class Seen:
    """What a server was sent."""

    requests: list[tuple[str, str, Mapping[str, str], bytes]] = dataclasses.field(default_factory=list)
    connections: set[Any] = dataclasses.field(default_factory=set)


@contextmanager
def serving(reply: Reply | Callable[[str], Reply]) -> Iterator[tuple[str, Seen]]:
    """A server that gives one reply, or one by path."""
    seen = Seen()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
            seen.requests.append((self.command, self.path, dict(self.headers), body))
            seen.connections.add(self.client_address)
            answer = reply if isinstance(reply, Reply) else reply(self.path)
            self.send_response(answer.status)
            if answer.media_type is not None:
                self.send_header("Content-Type", answer.media_type)
            length = len(answer.body) if answer.declared_length is None else answer.declared_length
            self.send_header("Content-Length", str(length))
            for name, value in answer.headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(answer.body)
            self.close_connection = self.close_connection or length != len(answer.body)

        def do_GET(self) -> None:  # what a followed redirect would arrive as
            self.do_POST()

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 (the name is the base class's)
            """Says nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}", seen
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@contextmanager
def silent_server(first_bytes: bytes = b"") -> Iterator[str]:
    """A server that takes a connection, sends `first_bytes` and then nothing, until the block ends."""
    ended = threading.Event()
    listener = socket.create_server(("127.0.0.1", 0))

    def hold() -> None:
        connection, _ = listener.accept()
        with connection:
            connection.recv(65_536)
            connection.sendall(first_bytes)
            ended.wait()

    thread = threading.Thread(target=hold)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        ended.set()
        thread.join()
        listener.close()


Ask = Callable[..., Decision]


def ask_blocking(base_url: str, request: Mapping[str, Any] = REQUEST, **options: Any) -> Decision:
    with Client(base_url, api_key=KEY, clock=lambda: NOW, **options) as client:
        return client.decide(request)


def ask_asynchronously(base_url: str, request: Mapping[str, Any] = REQUEST, **options: Any) -> Decision:
    async def run() -> Decision:
        async with AsyncClient(base_url, api_key=KEY, clock=lambda: NOW, **options) as client:
            return await client.decide(request)

    return asyncio.run(run())


@pytest.fixture(params=[ask_blocking, ask_asynchronously], ids=["sync", "async"])
def ask(request: pytest.FixtureRequest) -> Ask:
    """One question over either client."""
    found: Ask = request.param
    return found


def reply_json(value: Any, **options: Any) -> Reply:
    return Reply(body=json.dumps(value).encode(), **options)


def problem(status: int, value: Any) -> Reply:
    return reply_json(value, status=status, media_type="application/problem+json")


def test_an_allow(ask: Ask) -> None:
    with serving(reply_json(ALLOW)) as (url, seen):
        decision = ask(url)
    assert decision.allowed
    assert decision.decision_id == "d-1"
    assert decision.expires_at == datetime(2026, 11, 30, 12, 1, 0, 250_000, tzinfo=UTC)
    assert decision.matched[0].rule == "workspace-write"
    assert decision.matched[0].line == 4
    assert decision.accesses[0].uri == "file:///workspace/app.py"
    assert decision.arguments == {"path": "/workspace/app.py", "allow_multiple": False}
    assert decision.obligations == (Obligation.SNAPSHOT_BEFORE,)
    assert decision.lease is not None
    assert decision.lease.token == "lease-secret"
    [(method, path, headers, body)] = seen.requests
    assert (method, path) == ("POST", "/decide")
    assert headers["Authorization"] == f"Bearer {KEY}"
    assert headers["Content-Type"] == "application/json"
    assert json.loads(body) == REQUEST


def test_a_deny(ask: Ask) -> None:
    with serving(reply_json(DENY)) as (url, _):
        decision = ask(url)
    assert not decision.allowed
    assert decision.effect is Effect.DENY
    assert decision.next == ("change_arguments", "stop")
    assert decision.message == "secrets are not for agents"
    assert decision.fingerprint is None


def test_an_ask(ask: Ask) -> None:
    with serving(reply_json(ASK)) as (url, _):
        decision = ask(url)
    assert not decision.allowed
    assert decision.effect is Effect.REQUIRE_APPROVAL
    assert decision.approval is not None
    assert decision.approval.state == "pending"


def test_an_allow_of_a_dry_run_is_no_permission(ask: Ask) -> None:
    with serving(reply_json({**ALLOW, "dry_run": True})) as (url, _):
        decision = ask(url, {**REQUEST, "dry_run": True})
    assert decision.effect is Effect.ALLOW
    assert decision.dry_run
    assert not decision.allowed


def test_a_dry_run_that_is_answered_for_real(ask: Ask) -> None:
    with serving(reply_json(ALLOW)) as (url, _), pytest.raises(MalformedAnswer):
        ask(url, {**REQUEST, "dry_run": True})


def test_a_repeated_allow_says_so(ask: Ask) -> None:
    with serving(reply_json({**ALLOW, "repeated": True})) as (url, _):
        decision = ask(url)
    assert decision.allowed
    assert decision.repeated


HTML = b"<html><body>Please log in</body></html>"
TRUNCATED = json.dumps(ALLOW).encode()[:-40]


@pytest.mark.parametrize(
    "reply",
    [
        pytest.param(Reply(), id="empty-body"),
        pytest.param(Reply(status=204, media_type=None), id="no-content"),
        pytest.param(reply_json(ALLOW, status=201), id="allow-under-another-status"),
        pytest.param(Reply(body=HTML, media_type="text/html"), id="html"),
        pytest.param(Reply(body=HTML), id="html-that-says-json"),
        pytest.param(reply_json(ALLOW, media_type="text/plain"), id="allow-as-text"),
        pytest.param(reply_json(ALLOW, media_type=None), id="allow-without-media-type"),
        pytest.param(Reply(body=TRUNCATED), id="truncated-json"),
        pytest.param(Reply(body=TRUNCATED, declared_length=len(TRUNCATED) + 40), id="body-that-breaks-off"),
        pytest.param(Reply(body=b"\xff\xfe{}"), id="not-utf-8"),
        pytest.param(Reply(body=b"[" * 100_000), id="nested-too-deep"),
        pytest.param(Reply(body=json.dumps({**ALLOW, "sequence": float("nan")}).encode()), id="nan"),
        pytest.param(
            Reply(body=json.dumps(ALLOW).encode()[:-1] + b', "effect": "allow"}'), id="duplicate-member"
        ),
        pytest.param(
            reply_json(ALLOW, headers={"Content-Encoding": "gzip"}), id="compressed-without-being-asked"
        ),
        pytest.param(Reply(body=b" " * (4 * 1024 * 1024 + 1)), id="too-long"),
        pytest.param(Reply(status=403, body=HTML, media_type="text/html"), id="refusal-by-a-proxy"),
        pytest.param(reply_json({"code": "x"}, status=400), id="refusal-not-as-problem"),
        pytest.param(problem(400, {"detail": "no code"}), id="problem-without-code"),
        pytest.param(problem(400, ["list"]), id="problem-not-an-object"),
    ],
)
def test_what_is_not_an_answer(ask: Ask, reply: Reply) -> None:
    with serving(reply) as (url, _), pytest.raises(MalformedAnswer):
        ask(url)


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_to_an_allow_is_not_followed(ask: Ask, status: int) -> None:
    def answer(path: str) -> Reply:
        if path == "/allow":
            return reply_json(ALLOW)
        return Reply(status=status, headers={"Location": "/allow"})

    with serving(answer) as (url, seen):
        with pytest.raises(MalformedAnswer):
            ask(url)
        assert [path for _, path, _, _ in seen.requests] == ["/decide"]


@pytest.mark.parametrize("status", [500, 502, 503, 504])
def test_a_server_failure(ask: Ask, status: int) -> None:
    # The body is an allow, to show that it is not looked at.
    with serving(reply_json(ALLOW, status=status)) as (url, _), pytest.raises(ServerFailure) as caught:
        ask(url)
    assert caught.value.status == status
    assert caught.value.code is None


def test_a_server_failure_with_a_problem(ask: Ask) -> None:
    reply = problem(503, {"status": 503, "code": "store.unavailable"})
    with serving(reply) as (url, _), pytest.raises(ServerFailure) as caught:
        ask(url)
    assert caught.value.code == "store.unavailable"


def test_a_refused_request(ask: Ask) -> None:
    reply = problem(401, {"status": 401, "code": "caller.unauthenticated", "detail": "send a key"})
    with serving(reply) as (url, _), pytest.raises(RequestRefused) as caught:
        ask(url)
    assert caught.value.status == 401
    assert caught.value.code == "caller.unauthenticated"
    assert caught.value.detail == "send a key"
    assert KEY not in str(caught.value)


def test_an_unreachable_service(ask: Ask) -> None:
    # Bound but not listening: nobody else can take the port meanwhile, and connecting to it fails.
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        with pytest.raises(Unreachable):
            ask(f"http://127.0.0.1:{bound.getsockname()[1]}")


def test_no_answer_within_the_deadline(ask: Ask) -> None:
    with silent_server() as url, pytest.raises(Timeout):
        ask(url, deadline_seconds=0.2)


def test_an_answer_that_stops_is_not_a_dead_network(ask: Ask) -> None:
    begun = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{"
    with silent_server(begun) as url, pytest.raises(MalformedAnswer):
        ask(url, deadline_seconds=0.2)


def test_an_answer_that_is_not_http(ask: Ask) -> None:
    with silent_server(b"SSH-2.0-OpenSSH_9.2\r\n\r\n") as url, pytest.raises(MalformedAnswer):
        ask(url, deadline_seconds=5)


@pytest.mark.parametrize(
    "arguments",
    [{"x": float("nan")}, {"x": float("inf")}, {"x": object()}, {"x": "\ud800"}],
    ids=["nan", "infinity", "foreign-type", "lone-surrogate"],
)
def test_a_request_that_is_not_json_is_not_sent(ask: Ask, arguments: Mapping[str, Any]) -> None:
    with serving(reply_json(ALLOW)) as (url, seen):
        with pytest.raises(RequestNotEncodable):
            ask(url, {**REQUEST, "arguments": arguments})
        assert seen.requests == []


def test_proxies_of_the_environment_are_not_used(ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(reply_json(ALLOW)) as (proxy, seen):
        for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
            monkeypatch.setenv(name, proxy)
        for name in ("NO_PROXY", "no_proxy"):
            monkeypatch.delenv(name, raising=False)
        with serving(reply_json(DENY)) as (url, _):
            assert not ask(url).allowed
        assert seen.requests == []


def test_a_connection_is_used_again() -> None:
    with serving(reply_json(DENY)) as (url, seen), Client(url, api_key=KEY) as client:
        client.decide(REQUEST)
        client.decide(REQUEST)
        assert len(seen.requests) == 2
        assert len(seen.connections) == 1


def test_a_transport_of_ones_own() -> None:
    transport = httpx.MockTransport(lambda request: httpx.Response(200, json=DENY))
    assert ask_blocking("http://authz.test", transport=transport).decision_id == "d-2"
    assert ask_asynchronously("http://authz.test", transport=transport).decision_id == "d-2"


def test_a_base_url_with_a_path_keeps_it(ask: Ask) -> None:
    with serving(reply_json(DENY)) as (url, seen):
        ask(f"{url}/authz/")
        assert seen.requests[0][1] == "/authz/decide"


@pytest.mark.parametrize(
    "base_url", ["localhost:8700", "/decide", "ftp://h/", "http://u:p@h/", "http://h/?q=1"]
)
def test_a_base_url_must_be_plain(base_url: str) -> None:
    with pytest.raises(ValueError, match="base_url"):
        Client(base_url, api_key=KEY)


@pytest.mark.parametrize("seconds", [0, -1, float("inf"), float("nan")])
def test_a_deadline_is_finite(seconds: float) -> None:
    with pytest.raises(ValueError, match="deadline_seconds"):
        Client("http://localhost", api_key=KEY, deadline_seconds=seconds)


# What an answer must be, member by member. `None` for a value leaves the member out.


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"decision_id": None}, id="no-id"),
        pytest.param({"decision_id": ""}, id="empty-id"),
        pytest.param({"decision_id": 7}, id="id-is-a-number"),
        pytest.param({"effect": None}, id="no-effect"),
        pytest.param({"effect": "permit"}, id="unknown-effect"),
        pytest.param({"effect": "ALLOW"}, id="effect-in-capitals"),
        pytest.param({"effect": True}, id="effect-is-a-boolean"),
        pytest.param({"effect": ["allow"]}, id="effect-is-a-list"),
        pytest.param({"stage": None}, id="no-stage"),
        pytest.param({"code": None}, id="no-code"),
        pytest.param({"matched": None}, id="no-matched"),
        pytest.param({"matched": {}}, id="matched-is-an-object"),
        pytest.param({"matched": ["workspace-write"]}, id="matched-holds-text"),
        pytest.param({"matched": [{"kind": "permit"}]}, id="rule-without-name"),
        pytest.param({"matched": [{"rule": "r", "kind": "permit", "line": "4"}]}, id="line-is-text"),
        pytest.param({"matched": [{"rule": "r", "kind": "permit", "line": True}]}, id="line-is-a-boolean"),
        pytest.param({"fingerprint": None}, id="allow-without-fingerprint"),
        pytest.param({"fingerprint": ""}, id="allow-with-empty-fingerprint"),
        pytest.param({"expires_at": None}, id="allow-without-expiry"),
        pytest.param({"expires_at": 1_796_000_000}, id="expiry-is-a-number"),
        pytest.param({"expires_at": "2026-11-30T12:01:00"}, id="expiry-without-zone"),
        pytest.param({"expires_at": "2026-11-31T12:01:00Z"}, id="expiry-on-no-day"),
        pytest.param({"expires_at": "2026-W49-1T12:01:00Z"}, id="expiry-as-week-date"),
        pytest.param({"expires_at": "2026-11-30T12:00:00Z"}, id="expires-now"),
        pytest.param({"expires_at": "2026-11-30T11:59:59Z"}, id="expired"),
        pytest.param({"expires_at": "2026-11-30T13:59:59+02:00"}, id="expired-in-another-zone"),
        pytest.param({"obligations": ["notify_owner"]}, id="unknown-obligation"),
        pytest.param({"obligations": "snapshot_before"}, id="obligations-are-text"),
        pytest.param({"obligations": [1]}, id="obligation-is-a-number"),
        pytest.param(
            {"accesses": [{**ALLOW["accesses"][0], "effect": "deny"}]}, id="allow-with-denied-access"
        ),
        pytest.param({"accesses": [{"verb": "write"}]}, id="access-half-empty"),
        pytest.param({"arguments": ["a"]}, id="arguments-are-a-list"),
        pytest.param({"lease": {"token": "t"}}, id="lease-without-end"),
        pytest.param({"retry_unchanged": 1}, id="retry-is-a-number"),
        pytest.param({"dry_run": "false"}, id="dry-run-is-text"),
        pytest.param({"next": "stop"}, id="next-is-text"),
    ],
)
def test_wrong_members_are_refused(ask: Ask, change: Mapping[str, Any]) -> None:
    changed = {name: value for name, value in {**ALLOW, **change}.items() if value is not None}
    with serving(reply_json(changed)) as (url, _), pytest.raises(MalformedAnswer):
        ask(url)


@pytest.mark.parametrize("value", [None, True, 1, "allow", [], [ALLOW], {}])
def test_an_answer_is_an_object(value: Any) -> None:
    with pytest.raises(MalformedAnswer):
        Decision.from_json(value, now=NOW)


def test_members_of_a_later_version_are_ignored() -> None:
    assert Decision.from_json({**ALLOW, "added_later": {"x": 1}}, now=NOW).allowed


def test_which_link_of_a_capability_refused_and_by_what() -> None:
    refused: dict[str, Any] = {"reason": "object_outside", "link": 1, "agent": "sub-1", "component": "O"}
    decision = Decision.from_json({**DENY, "capability": refused}, now=NOW)
    assert decision.capability == CapabilityRefusal(**refused)
    # What is none of the links, or by none of the four, is left out on the wire.
    shorter = Decision.from_json({**DENY, "capability": {"reason": "chain_empty"}}, now=NOW)
    assert shorter.capability == CapabilityRefusal(
        reason="chain_empty", link=None, agent=None, component=None
    )
    assert Decision.from_json(DENY, now=NOW).capability is None


@pytest.mark.parametrize("value", ["O", [], {}, {"reason": 1}, {"reason": "x", "link": "1"}])
def test_what_is_said_of_a_capability_is_read_strictly(value: Any) -> None:
    with pytest.raises(MalformedAnswer):
        Decision.from_json({**DENY, "capability": value}, now=NOW)


def test_a_deny_need_not_end() -> None:
    assert Decision.from_json({**DENY, "expires_at": "2020-01-01T00:00:00Z"}, now=NOW).effect is Effect.DENY


def test_now_needs_a_zone() -> None:
    with pytest.raises(ValueError, match="time zone"):
        Decision.from_json(ALLOW, now=NOW.replace(tzinfo=None))


def test_now_may_be_in_any_zone() -> None:
    elsewhere = NOW.astimezone(timezone(timedelta(hours=-5)))
    assert Decision.from_json(ALLOW, now=elsewhere).allowed


def test_a_lease_does_not_show_its_token() -> None:
    assert "lease-secret" not in repr(Decision.from_json(ALLOW, now=NOW))


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda children: st.lists(children) | st.dictionaries(st.text(), children),
    max_leaves=8,
)


@given(member=st.sampled_from(sorted(ALLOW)), value=JSON_VALUES)
def test_any_value_in_any_member_gives_a_decision_or_a_refusal(member: str, value: Any) -> None:
    try:
        decision = Decision.from_json({**ALLOW, member: value}, now=NOW)
    except DecisionUnavailable:
        return
    assert decision.effect is Effect.ALLOW
    assert decision.fingerprint
    assert decision.expires_at is not None
    assert decision.expires_at > NOW

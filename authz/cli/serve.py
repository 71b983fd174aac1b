"""`authz serve`: run the service."""

import argparse
import asyncio
import secrets
import signal
import socket
import sys
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from types import FrameType
from typing import Final

import uvicorn
import uvloop

from authz.api.application import Application
from authz.api.http_protocol import MAX_CONNECTIONS, BoundedHttpProtocol
from authz.app import SystemClock, running
from authz.cli.logs import configure_logging
from authz.cli.people_orders import DEV_LINK_MS, link_url, new_link
from authz.cli.people_sign_in_link import DEV_PERSON_ROLES
from authz.config import DEFAULT_TENANT, Config, load_config
from authz.core.credentials import digest_api_key
from authz.errors import ConfigError
from authz.model.account_writes import DONE, OrderKind, PersonOrder
from authz.service.approval_waits import ApprovalWaits
from authz.service.bundles import Trigger, TriggerKind
from authz.service.people import digest_secret
from authz.service.reloads import Reloads
from authz.store.api_keys import replace_dev_key
from authz.store.ledger import locate_database
from authz.store.person_orders import find_outcome, leave_order

HELP = "run the service"
LOOPBACK: Final = frozenset({"127.0.0.1", "localhost", "::1"})
DEV_ROLES = frozenset({"decide", "issue", "policy", "audit"})
"""What the dev key may do. It never approves: no agent's, runtime's or dev credential does."""
DEV_PROFILE = "runtime"
DEV_PERSON: Final = "grace"
"""The local approver: in the sample bundle, and not the user on whose behalf its agents act."""
DEV_POLLS: Final = 100


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument(
        "--dev", action="store_true", help="loopback only, with a key that is made and printed once"
    )
    parser.add_argument("--host", help="address to listen on; default: 127.0.0.1")
    parser.add_argument("--port", type=int, metavar="N", help="port to listen on; default: 8700")
    parser.add_argument(
        "--policies",
        type=Path,
        metavar="FOLDER",
        help="the policy bundle; default: AUTHZ_POLICIES, else ./policies",
    )
    parser.add_argument(
        "--no-watch",
        dest="watch",
        action="store_false",
        default=None,
        help="reload policies on SIGHUP and by the API only, not when their files change",
    )
    parser.add_argument(
        "--data-dir",
        type=Path,
        metavar="FOLDER",
        help="folder of the database and keys; default: AUTHZ_DATA_DIR, else ./var",
    )


def run(args: argparse.Namespace) -> int:
    """Serve until a signal asks to stop."""
    # First of all, since by itself the signal ends the process: who asks too early is heard later.
    early = _EarlyHangup()
    signal.signal(signal.SIGHUP, early)
    config = load_config(
        host=args.host, port=args.port, policies=args.policies, watch=args.watch, data_dir=args.data_dir
    )
    if args.dev and config.host not in LOOPBACK:
        if args.host is not None:
            raise ConfigError("`--dev` listens on loopback only; leave `--host` out")
        print("authz: --dev listens on loopback only, so the configured host is not used", file=sys.stderr)
        config = config.model_copy(update={"host": "127.0.0.1"})
    configure_logging(config.log_level)
    # uvicorn's `loop` setting is for `uvicorn.run` only; its `Server.serve` runs on the loop that there is.
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_serve(config, early, dev=args.dev))
    return 0


class _EarlyHangup:
    """Handles SIGHUP while the service starts: remembers that somebody wants the policies reloaded."""

    def __init__(self) -> None:
        self.came = False

    def __call__(self, number: int, frame: FrameType | None) -> None:
        self.came = True


class _Server(uvicorn.Server):
    """Ends by itself after a signal, and reloads the policies on SIGHUP.

    The base class raises the signal again once it has stopped serving, which would end the process
    before the log is drained and its last checkpoint written.
    """

    def __init__(
        self, config: uvicorn.Config, reloads: Reloads, waits: ApprovalWaits, early: _EarlyHangup
    ) -> None:
        super().__init__(config)
        self._policies = reloads
        self._waits = waits
        self._early = early

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        # First of all: the base class waits for requests to end, and these wait for people.
        self._waits.close()
        await super().shutdown(sockets)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self.handle_exit, number, None)
        trigger = Trigger(kind=TriggerKind.SIGNAL)
        loop.add_signal_handler(signal.SIGHUP, self._policies.request_all, trigger)
        if self._early.came:
            self._policies.request_all(trigger)
        try:
            yield
        finally:
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                loop.remove_signal_handler(number)
            # The log is still to be drained: a late wish to reload must not end the process before.
            signal.signal(signal.SIGHUP, signal.SIG_IGN)


async def _serve(config: Config, early: _EarlyHangup, *, dev: bool) -> None:
    # First of all, so that where the port is taken nothing is made, recorded or revoked. Who connects
    # before the service is ready waits.
    with _listening(config, dev=dev) as sockets:
        async with running(config, dev=dev) as application:
            if dev:
                _announce(config, _make_dev_key(config), await _make_dev_link(config, application))
            server = _Server(
                uvicorn.Config(
                    application,
                    http=BoundedHttpProtocol,
                    limit_concurrency=MAX_CONNECTIONS,
                    proxy_headers=bool(config.trusted_proxies),
                    forwarded_allow_ips=[str(network) for network in config.trusted_proxies],
                    ws="none",
                    lifespan="off",
                    access_log=False,
                    log_config=None,
                    server_header=False,
                    date_header=False,
                    timeout_graceful_shutdown=10,
                ),
                application.services.reloads,
                application.services.approvals.waits,
                early,
            )
            await server.serve(sockets=sockets)


@contextmanager
def _listening(config: Config, *, dev: bool) -> Iterator[list[socket.socket]]:
    """Listening sockets, closed at the end. Dev mode listens wherever `localhost` may lead."""
    addresses = [config.host]
    if dev:
        addresses = ["127.0.0.1", *(["::1"] if _has_ipv6_loopback() else [])]
    with ExitStack() as stack:
        yield [stack.enter_context(closing(_listen(address, config.port))) for address in addresses]


def _listen(address: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    # Inherited by what it accepts. The head and the body of an answer leave as two segments, and
    # without this the second waits for the client's delayed acknowledgement of the first.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if family == socket.AF_INET6:
        listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
    try:
        listener.bind((address, port))
        # Bound alone, with `SO_REUSEADDR`, the port could still be shared; listening makes it ours.
        listener.listen(1024)
    except (OSError, UnicodeError) as error:
        listener.close()
        why = error.strerror if isinstance(error, OSError) else "that is no host"
        raise ConfigError(f"cannot listen on {address} port {port}: {why}") from None
    listener.setblocking(False)
    return listener


def _has_ipv6_loopback() -> bool:
    if not socket.has_ipv6:
        return False
    try:
        with socket.socket(socket.AF_INET6, socket.SOCK_STREAM) as probe:
            probe.bind(("::1", 0))
    except OSError:
        return False
    return True


def _make_dev_key(config: Config) -> str:
    """A key for this run; those of earlier runs end. Only its digest is stored."""
    key = config.dev_key.get_secret_value() if config.dev_key else f"azk_{secrets.token_urlsafe(32)}"
    replace_dev_key(
        locate_database(config),
        key_digest=digest_api_key(key),
        roles=DEV_ROLES,
        profile=DEV_PROFILE,
        tenant=DEFAULT_TENANT,
        now_ms=SystemClock().now_ms(),
    )
    return key


async def _make_dev_link(config: Config, application: Application) -> str:
    """A one-time sign-in link for the local approver; empty where the bundle has no such person."""
    token, database = new_link(), locate_database(config)
    now_ms = SystemClock().now_ms()
    order = PersonOrder(
        order_id=secrets.token_hex(12),
        tenant=DEFAULT_TENANT,
        kind=OrderKind.DEV_LINK,
        person=DEV_PERSON,
        display_name="",
        roles=DEV_PERSON_ROLES,
        link_digest=digest_secret(token),
        link_expires_at_ms=now_ms + DEV_LINK_MS,
        at_ms=now_ms,
    )
    leave_order(database, order)
    for _ in range(DEV_POLLS):
        # Also by the service's own task, whichever is first.
        await application.services.people.orders.take()
        outcome = find_outcome(database, order.order_id)
        if outcome:
            return link_url(config.public_url, token) if outcome == DONE else ""
        await asyncio.sleep(0.05)
    return ""


def _announce(config: Config, key: str, link: str) -> None:
    given = config.dev_key is not None
    print(f"authz: listening on http://127.0.0.1:{config.port} and http://localhost:{config.port}")
    if given:
        print("authz: the dev key is the one in AUTHZ_DEV_KEY")
    else:
        print("authz: the dev key of this run, shown once; it decides and reads, and never approves:")
        print(f"       {key}")
    if link:
        print(f"authz: to answer what waits for a yes, sign in as `{DEV_PERSON}`; this link is good once:")
        print(f"       {link}")
    else:
        print(
            f"authz: the bundle has no user `{DEV_PERSON}`; `authz people sign-in-link` signs in who it has"
        )
    print("authz: stop with Ctrl-C", flush=True)
    sys.stdout.flush()

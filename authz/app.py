"""Wiring: the one place that knows every adapter."""

import asyncio
import gc
import os
import secrets
import socket
import time
from collections.abc import AsyncIterator, Coroutine, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import can_ada

from authz.api.application import Application, Services
from authz.api.auth import Authenticator
from authz.api.metrics import Metrics
from authz.bundle.load import load_bundle
from authz.bundle.reload import FolderLoader
from authz.bundle.self_protection import Protected
from authz.bundle.trial_process import TrialLimits
from authz.bundle.watch import FolderWatch, Signature, scan, warn_of_slow_scan
from authz.config import CONFIG_FILE, Config
from authz.core.bundle_record import bundle_event
from authz.core.canonical import canonicalize
from authz.core.redact import Redactor
from authz.core.ruleset import Ruleset
from authz.errors import ConfigError
from authz.model.resource import Base, Entity, NotCanonical
from authz.ports import Clock, CommitUnit, LineReader
from authz.service.approval_waits import ApprovalWaits
from authz.service.approvals import ApprovalService
from authz.service.asking import AskingTerms
from authz.service.bundles import BundlesInForce
from authz.service.capability_services import CapabilityServices
from authz.service.decide import DecisionService
from authz.service.explain import ExplanationService
from authz.service.notices import NoticeService
from authz.service.operations import OperationService
from authz.service.people import SessionTerms
from authz.service.person_services import PersonServices
from authz.service.reloads import Reloads
from authz.service.tickets import ServiceTickets
from authz.store.keys import ServiceKeys
from authz.store.ledger import DurableLedger, locate_database
from authz.store.ledger import open_ledger as open_store
from authz.store.notice_outbox import StoredOutbox
from authz.ui.application import create_ui
from authz.ui.services import UiServices
from authz.workers.shell_reader import ShellReader


class SystemClock:
    """`ports.Clock` by the machine's clock."""

    def now_ms(self) -> int:
        """Milliseconds since the Unix epoch, UTC."""
        return time.time_ns() // 1_000_000


class RandomIds:
    """`ports.IdSource` by the operating system's random numbers."""

    def new_id(self) -> str:
        """128 random bits in hex."""
        return secrets.token_hex(16)


def protected_places(config: Config) -> Protected:
    """What no agent may reach: every bundle, the data directory, the configuration file, and this service.

    Both the spelled and the real path of each, so that a link to it does not open it.
    """
    directories: set[str] = set()
    for path in (config.data_dir, *config.bundles.values()):
        directories |= _spellings(path)
    config_file = os.environ.get(CONFIG_FILE)
    files = _spellings(Path(config_file)) if config_file else set()
    hosts, everywhere = _own_hosts(config.host)
    return Protected(
        directories=frozenset(directories),
        files=frozenset(files),
        hosts=hosts,
        port=config.port,
        non_global_addresses=everywhere,
        public=_public_place(config),
    )


def _public_place(config: Config) -> tuple[str, int] | None:
    """(id of the `Host`, port) of `public_url`, where that is not this process itself: a proxy's perhaps.

    Raises `ConfigError` for a host that no rule could name.
    """
    url = can_ada.parse(config.public_url)
    host = _host_entity(url.hostname)
    if host is None:
        raise ConfigError("`public_url` names a host that cannot be protected; use a name or an address")
    port = int(url.port) if url.port else {"http:": 80, "https:": 443}[url.protocol]
    return None if (host.id, port) == ("localhost", config.port) else (host.id, port)


def _own_hosts(host: str) -> tuple[frozenset[str], bool]:
    """(ids of `Host` under which this service is reached, whether it listens on every address).

    What is behind a listener on every address nobody can list for good: interfaces come and go.
    """
    entity = _host_entity(host)
    everywhere = entity is not None and entity.attributes.get("class") == "unspecified"
    names = [socket.gethostname(), socket.getfqdn()] if everywhere else [host]
    found = [_host_entity(spelled) for name in names for spelled in (name, *_addresses(name))]
    return frozenset({"localhost"} | {known.id for known in found if known is not None}), everywhere


def _host_entity(host: str) -> Entity | None:
    # The zone of an IPv6 address (`fe80::1%eth0`) is this machine's own word for an interface.
    found = canonicalize("host", host.partition("%")[0], Base())
    return None if isinstance(found, NotCanonical) else found[0].entity


def _addresses(name: str) -> list[str]:
    try:
        return [str(info[4][0]) for info in socket.getaddrinfo(name, None)]
    except (OSError, UnicodeError):
        return []  # a name that leads nowhere protects nothing, and a bad `host` is said when it is bound


def _spellings(path: Path) -> set[str]:
    return {os.path.abspath(path), os.path.realpath(path)}


def load_rulesets(config: Config, protected: Protected) -> dict[str, Ruleset]:
    """The bundle of every tenant. Raises `BundleError`: a service with a bad bundle does not start."""
    return {tenant: load_bundle(folder, protected) for tenant, folder in config.bundles.items()}


def open_ledger(config: Config, keys: ServiceKeys) -> DurableLedger:
    """The durable store: the configured PostgreSQL, or SQLite in the data directory.

    That directory is private to this user where it is made here.
    """
    _make_data_dir(config.data_dir)
    return open_store(
        locate_database(config),
        config.data_dir,
        clock=SystemClock(),
        signer=keys,
        vault_key=keys.derive("vault"),
    )


def load_keys(config: Config) -> ServiceKeys:
    """The service's own keys, made at the first start."""
    _make_data_dir(config.data_dir)
    return ServiceKeys.load_or_create(
        config.data_dir / "keys.json", lifetime_seconds=config.capability_max_lifetime_seconds
    )


def _make_data_dir(folder: Path) -> None:
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"the data directory `{folder}` cannot be made: {error.strerror}") from None


def create_application(
    config: Config,
    ledger: DurableLedger,
    keys: ServiceKeys,
    bundles: BundlesInForce,
    *,
    clock: Clock | None = None,
    protected: Protected | None = None,
    lines: LineReader | None = None,
    dev: bool = False,
) -> Application:
    """The ASGI application over an open store and loaded bundles; by the machine's clock unless told.

    `protected` is what the loaded bundles protect, for those that will be loaded. `dev` lets dev keys in;
    only a run with `--dev` may set it.
    """
    clock = clock or SystemClock()
    metrics = Metrics(bundles)
    reloads = Reloads(
        bundles=bundles,
        loader=FolderLoader(
            config.bundles,
            protected or protected_places(config),
            limits=TrialLimits.within(config.bundle_max_staleness_seconds),
        ),
        ledger=ledger,
        clock=clock,
        observer=metrics,
    )
    redactor = Redactor(keys.derive("redaction"))
    capabilities = CapabilityServices.over(
        ledger=ledger,
        bundles=bundles,
        clock=clock,
        ids=RandomIds(),
        keys=keys,
        redactor=redactor,
        observer=metrics,
        public_url=config.public_url,
        max_lifetime_seconds=config.capability_max_lifetime_seconds,
        max_staleness_seconds=config.revocation_max_staleness_seconds,
    )
    metrics.watch_revocations(capabilities.revocations.age_seconds)
    metrics.watch_keys(lambda: keys.failures)
    people = PersonServices.over(
        ledger=ledger,
        bundles=bundles,
        clock=clock,
        redactor=redactor,
        derive=keys.derive,
        terms=SessionTerms(
            lifetime_ms=config.person_session_seconds * 1000,
            idle_ms=config.person_session_idle_seconds * 1000,
        ),
        providers=[provider.provider(tenant) for tenant, provider in config.oidc.items()],
        public_url=config.public_url,
        dev=dev,
    )
    waits = ApprovalWaits(ledger, most_of_one=config.approval_waiters_per_caller)
    metrics.watch_approval_waits(lambda: waits.count)
    approvals = ApprovalService(
        ledger=ledger,
        bundles=bundles,
        clock=clock,
        redactor=redactor,
        keys=keys,
        passkeys=people.passkeys,
        public_url=config.public_url,
        observer=metrics,
        waits=waits,
    )
    service = DecisionService(
        ledger=ledger,
        bundles=bundles,
        clock=clock,
        ids=RandomIds(),
        observer=metrics,
        operation_secret=keys.derive("operations"),
        redactor=redactor,
        ttl_ms=config.decision_ttl_seconds * 1000,
        lines=lines,
        capabilities=capabilities.chains,
        tickets=ServiceTickets(keys=keys, issuer=capabilities.chains.issuer),
        asking=AskingTerms(
            public_url=config.public_url,
            pending_ttl_ms=config.approval_pending_seconds * 1000,
            default_ttl_seconds=config.approval_default_ttl_seconds,
        ),
        approvals=approvals,
    )
    return Application(
        Services(
            authenticator=Authenticator(ledger, bundles, people=people.people, dev=dev),
            decisions=service,
            explanations=ExplanationService(
                ledger=ledger,
                bundles=bundles,
                clock=clock,
                redactor=redactor,
                ttl_ms=config.decision_ttl_seconds * 1000,
                lines=lines,
                capabilities=capabilities.chains,
            ),
            operations=OperationService(
                ledger=ledger,
                clock=clock,
                redactor=redactor,
                operation_secret=keys.derive("operations"),
                capabilities=capabilities.chains,
                bundles=bundles,
            ),
            capabilities=capabilities,
            approvals=approvals,
            people=people,
            ledger=ledger,
            bundles=bundles,
            reloads=reloads,
            jwks=lambda: keys.jwks(clock.now_ms()),
            jwks_max_age_seconds=config.key_publish_seconds // 2,
            metrics=metrics,
            max_body_bytes=config.max_body_bytes,
        ),
        ui=create_ui(
            UiServices(
                approvals=approvals,
                people=people.people,
                passkeys=people.passkeys,
                sign_in=people.sign_in,
                oidc=people.oidc,
                ledger=ledger,
                capabilities=capabilities,
                clock=clock,
                public_url=config.public_url,
            )
        ),
    )


@asynccontextmanager
async def running(config: Config, *, dev: bool = False) -> AsyncIterator[Application]:
    """An application with everything open; the store is drained and closed at the end.

    Without `dev`, the dev keys that earlier runs left are revoked before anything is answered.
    """
    # Before anything is read, so that what changes meanwhile is seen to have changed.
    seen = {tenant: _first_scan(config, tenant) for tenant in config.bundles}
    protected = protected_places(config)
    bundles = BundlesInForce(
        load_rulesets(config, protected),
        now_ms=SystemClock().now_ms(),
        max_staleness_seconds=config.bundle_max_staleness_seconds,
    )
    # Files that were exchanged meanwhile may not be those that were read: the watch reads them again.
    seen = {
        tenant: before if scan(config.bundles[tenant]) == before else () for tenant, before in seen.items()
    }
    # What lives as long as the process is no garbage: without this each full collection would walk it,
    # with all requests waiting.
    gc.collect()
    gc.freeze()
    keys = load_keys(config)
    ledger = open_ledger(config, keys)
    lines = ShellReader()
    try:
        if not dev:
            await _revoke_dev_keys(ledger)
        now_ms = SystemClock().now_ms()
        for tenant in bundles.tenants:
            event = bundle_event(tenant=tenant, ruleset=bundles.status(tenant).ruleset, now_ms=now_ms)
            await ledger.commit(CommitUnit(event=event))
        await lines.start()
        application = create_application(
            config, ledger, keys, bundles, protected=protected, lines=lines, dev=dev
        )
        if not dev:
            await application.services.people.orders.end_dev_accounts(bundles.tenants)
        # Before the first answer: a restart forgets nothing that was revoked.
        await application.services.capabilities.revocations.refresh()
        async with (
            _reloading(config, application, seen),
            _watching(keys.watch()),
            _watching(application.services.capabilities.revocations.run()),
            _watching(application.services.operations.lapses.run()),
            _watching(application.services.approvals.lapses.run()),
            _watching(application.services.people.orders.run()),
            _telling(config, ledger, application.services.metrics),
        ):
            yield application
    finally:
        await lines.close()
        await ledger.close()


def _first_scan(config: Config, tenant: str) -> Signature:
    began_s = time.monotonic()
    seen = scan(config.bundles[tenant])
    warn_of_slow_scan(tenant, time.monotonic() - began_s, config.bundle_max_staleness_seconds)
    return seen


@asynccontextmanager
async def _reloading(
    config: Config, application: Application, seen: Mapping[str, Signature]
) -> AsyncIterator[None]:
    """Watches every bundle's folder, if it is to; afterwards no reload is under way."""
    services = application.services
    watches = [
        asyncio.create_task(
            FolderWatch(
                tenant=tenant,
                folder=folder,
                bundles=services.bundles,
                reloads=services.reloads,
                loaded=seen[tenant],
            ).run()
        )
        for tenant, folder in config.bundles.items()
        if config.watch
    ]
    try:
        yield
    finally:
        for watch in watches:
            watch.cancel()
        await asyncio.gather(*watches, return_exceptions=True)
        await services.reloads.close()


@asynccontextmanager
async def _watching(looking: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Notices what operators and other replicas do: to the key file, and by revoking."""
    watch = asyncio.create_task(looking)
    try:
        yield
    finally:
        watch.cancel()
        await asyncio.gather(watch, return_exceptions=True)


@asynccontextmanager
async def _telling(config: Config, ledger: DurableLedger, metrics: Metrics) -> AsyncIterator[None]:
    """Delivers notices; afterwards none is under way, and what was not delivered stands in the outbox."""
    outbox = StoredOutbox(locate_database(config))
    notices = NoticeService(
        outbox=outbox,
        ledger=ledger,
        clock=SystemClock(),
        webhooks=[webhook.webhook for webhook in config.webhooks],
        public_url=config.public_url,
        observer=metrics,
    )
    try:
        async with _watching(notices.run()):
            yield
    finally:
        await outbox.close()


async def _revoke_dev_keys(ledger: DurableLedger) -> None:
    for key in await ledger.list_api_keys():
        if key.dev and key.revoked_at_ms is None:
            await ledger.revoke_api_key(key.key_id)

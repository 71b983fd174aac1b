"""The whole service in this process: the ASGI application over a real SQLite ledger, spoken to by httpx."""

import hashlib
import itertools
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import httpx

from authz.api.application import Application
from authz.app import create_application
from authz.config import Config
from authz.core.ruleset import Ruleset
from authz.service.bundles import BundlesInForce
from authz.store.database import Database
from authz.store.keys import ServiceKeys
from authz.store.ledger import DurableLedger
from authz.store.postgres import PostgresLedger
from authz.store.postgres_url import PostgresUrl
from authz.store.sqlite import SqliteLedger

ALL_ROLES = ("decide", "issue", "policy", "audit")


@dataclass
class SettableClock:
    """A clock that stands until it is moved."""

    at_ms: int = 1_796_032_800_123

    def now_ms(self) -> int:
        return self.at_ms


@dataclass
class Service:
    """A running application and its parts."""

    application: Application
    ledger: DurableLedger
    client: httpx.AsyncClient
    clock: SettableClock
    keys: dict[str, str] = field(default_factory=dict)
    """API keys by the name they were made under."""
    _ids: "itertools.count[int]" = field(default_factory=lambda: itertools.count(1))

    async def add_key(
        self, name: str, *roles: str, tenant: str = "default", profile: str = "runtime"
    ) -> dict[str, str]:
        """Make a key and return the headers that use it."""
        created = await self.ledger.create_api_key(name=name, roles=roles, profile=profile, tenant=tenant)
        self.keys[name] = created.secret
        return {"Authorization": f"Bearer {created.secret}"}

    def body(self, name: str, arguments: Mapping[str, Any], **more: Any) -> dict[str, Any]:
        """A request of `server/tool` under new ids; `more` are members of the body."""
        server, _, tool = name.partition("/")
        context = {
            "trace_id": "t-1",
            "turn_id": "1",
            "tool_call_id": f"call-{next(self._ids)}",
            "cwd": "/workspace",
            "sandbox_root": "/workspace",
        }
        return {
            "subject": {"agent": "coder-1", "on_behalf_of": "ada", "session": "s-1"},
            "tool": {"server": server, "name": tool},
            "arguments": dict(arguments),
            "context": context | more.pop("context", {}),
            **more,
        }

    async def decide(self, body: Mapping[str, Any], headers: Mapping[str, str] | None = None) -> Any:
        """The answer to one call; fails on anything but HTTP 200."""
        response = await self.client.post("/decide", json=body, headers=headers)
        assert response.status_code == 200, response.text
        return response.json()

    async def records(self, **query: str) -> list[dict[str, Any]]:
        """Records of the default tenant, oldest first."""
        response = await self.client.get("/decisions", params={"limit": "500", **query})
        assert response.status_code == 200, response.text
        return [entry["record"] for entry in reversed(response.json()["records"])]

    @classmethod
    @asynccontextmanager
    async def running(
        cls,
        folder: Path,
        rulesets: Mapping[str, Ruleset] | BundlesInForce,
        *,
        config: Config | None = None,
        database: Database | None = None,
        keys: ServiceKeys | None = None,
        **ledger: Any,
    ) -> AsyncIterator[Self]:
        """An application over a database, with a client whose key has every role but approve.

        Unless another `database` is given it is one of SQLite in `folder`.
        """
        bundles = rulesets if isinstance(rulesets, BundlesInForce) else BundlesInForce(rulesets)
        clock = SettableClock()
        keys = keys or ServiceKeys.generate()
        ledger = {"vault_key": keys.derive("vault"), **ledger}
        opened: DurableLedger
        if isinstance(database, PostgresUrl):
            opened = PostgresLedger.open(database, folder, clock=clock, signer=keys, **ledger)
        else:
            path = database or folder / "authz.db"
            opened = SqliteLedger.open(path, clock=clock, signer=keys, **ledger)
        try:
            application = create_application(
                config or Config(data_dir=folder), opened, keys, bundles, clock=clock
            )
            transport = httpx.ASGITransport(app=application, raise_app_exceptions=False)  # type: ignore[arg-type]
            async with httpx.AsyncClient(transport=transport, base_url="http://authz.test") as client:
                service = cls(application=application, ledger=opened, client=client, clock=clock)
                client.headers.update(await service.add_key("all", *ALL_ROLES))
                try:
                    yield service
                finally:
                    await application.services.reloads.close()
        finally:
            await opened.close()


def digest_of(value: Any) -> str:
    """The digest of a JSON value without exotic numbers or names: what any client can compute."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return "sha256:" + hashlib.sha256(text.encode()).hexdigest()

"""`GET /.well-known/jwks.json` across rotations: publish before use, and retire after the last token."""

from pathlib import Path
from typing import Any

import httpx
from authz_client.capabilities import published_keys, sign_ticket, verify_ticket
from authz_client.capabilities.revocations import NOTHING_REVOKED
from authz_client.capabilities.tickets import Ticket

from authz.app import create_application, load_keys
from authz.config import Config
from authz.service.bundles import BundlesInForce
from authz.store.key_rotation import rotate_keys, withdraw_key
from authz.store.key_set import MARGIN_MS
from authz.store.keys import ServiceKeys
from authz.store.sqlite import SqliteLedger
from tests.support.service import SettableClock
from tests.support.world import world


class Running:
    """The real application with the keys of a data directory, by a clock that is set."""

    def __init__(
        self, config: Config, keys: ServiceKeys, clock: SettableClock, client: httpx.AsyncClient
    ) -> None:
        self.config, self.keys, self.clock, self.client = config, keys, clock, client
        self.path = config.data_dir / "keys.json"

    async def jwks(self) -> dict[str, Any]:
        response = await self.client.get("/.well-known/jwks.json")
        assert response.status_code == 200
        assert response.headers["content-type"] == "application/json"
        assert response.headers["cache-control"] == "public, max-age=60"
        found: dict[str, Any] = response.json()
        return found

    async def kids(self) -> list[str]:
        return [key["kid"] for key in (await self.jwks())["keys"]]

    def rotate(self) -> str:
        """Publish a key; its `kid`. Running services would look within a second."""
        keys = rotate_keys(
            self.path,
            now_ms=self.clock.at_ms,
            publish_seconds=self.config.key_publish_seconds,
            lifetime_seconds=self.config.capability_max_lifetime_seconds,
        )
        self.keys.refresh()
        return keys.keys[-1].kid

    def ticket(self) -> str:
        """Signed by the key in use, for 600 seconds."""
        now = self.clock.at_ms // 1000
        return sign_ticket(
            self.keys.signer(self.clock.at_ms),
            issuer=self.config.public_url,
            audience="https://tools.example",
            subject="ada",
            agent=None,
            tool="fs/file_read",
            fingerprint="f",
            arguments={},
            decision_id="d",
            holder_thumbprint=None,
            ancestors=(),
            jti="j",
            iat=now,
            exp=now + 600,
        )

    async def accepts(self, token: str, jwks: dict[str, Any] | None = None) -> bool:
        """Whether an endpoint takes the ticket, by the set that it fetches now, or by `jwks`."""
        found = verify_ticket(
            token,
            jwks=published_keys(jwks or await self.jwks()),
            issuer=self.config.public_url,
            audience="https://tools.example",
            fingerprint="f",
            arguments={},
            holder_thumbprint=None,
            now=self.clock.at_ms // 1000,
            revoked=NOTHING_REVOKED,
        )
        return isinstance(found, Ticket)


async def test_the_life_of_a_key_as_verifiers_see_it(tmp_path: Path) -> None:
    config = Config(data_dir=tmp_path / "var", key_publish_seconds=120, capability_max_lifetime_seconds=600)
    keys, clock = load_keys(config), SettableClock()
    async with SqliteLedger.open(config.data_dir / "authz.db", clock=clock, signer=keys) as ledger:
        application = create_application(
            config, ledger, keys, BundlesInForce({"default": world()}), clock=clock
        )
        transport = httpx.ASGITransport(app=application)  # type: ignore[arg-type]
        async with httpx.AsyncClient(transport=transport, base_url="http://authz.test") as client:
            await check_life(Running(config, keys, clock, client))
        await application.services.reloads.close()


async def check_life(running: Running) -> None:
    clock = running.clock
    (first,) = await running.kids()
    second = running.rotate()
    assert await running.kids() == [first, second], "published"
    assert running.keys.signer(clock.at_ms).kid == first, "and not yet used"
    clock.at_ms += 60_000
    kept = await running.jwks()  # by a verifier that may keep it for 60 seconds
    clock.at_ms += 59_999
    old = running.ticket()
    assert await running.accepts(old)

    clock.at_ms += 1
    assert running.keys.signer(clock.at_ms).kid == second, "used after it was published for long enough"
    new = running.ticket()
    for known in (kept, await running.jwks()):
        assert await running.accepts(old, known)
        assert await running.accepts(new, known)

    clock.at_ms += 599_000
    assert await running.accepts(old), "the retired key verifies for as long as its last token lives"
    clock.at_ms += 1_000 + MARGIN_MS - 1
    assert await running.kids() == [first, second]
    clock.at_ms += 1
    assert await running.kids() == [second]
    assert set(running.keys.public_keys()) == {first, second}, "the log is verified with it for good"

    fresh = running.ticket()
    assert await running.accepts(fresh)
    withdraw_key(running.path, second, now_ms=clock.at_ms)
    running.keys.refresh()
    (third,) = await running.kids()
    assert third not in (first, second)
    assert not await running.accepts(fresh)
    assert await running.accepts(running.ticket())
    for key in (await running.jwks())["keys"]:
        assert set(key) == {"kty", "crv", "x", "kid", "use", "alg"}, "and nothing private"

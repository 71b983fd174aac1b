"""Capabilities that calls present: verified once, remembered, and looked up among the links on record."""

from collections import OrderedDict
from dataclasses import dataclass, replace
from typing import Final

from authz_client.capabilities import Reason, Refusal, VerifiedChain, chain_digest, verify_structure
from authz_client.capabilities.claims import MAX_DELEGATIONS
from authz_client.capabilities.envelope import LINK_TYP, parse_envelope
from authz_client.capabilities.expectations import DEFAULT_SKEW_SECONDS

from authz.model.call import Call
from authz.model.caller import Caller
from authz.model.capability import LinkRecord, Presented, TokenRules
from authz.ports import CapabilityKeys, Clock, Ledger
from authz.service.revocations import RevocationsInForce

DEFAULT_TENANT: Final = "default"
MAX_CHAINS: Final = 4096
MAX_CHARACTERS: Final = 16 * 1024 * 1024
"""Of the links of all chains that are remembered: what they need of memory goes with this."""
MAX_CHARACTERS_OF_ONE: Final = MAX_CHARACTERS // 16
SKEW_SECONDS: Final = DEFAULT_SKEW_SECONDS


@dataclass(frozen=True, slots=True, kw_only=True)
class _Known:
    """A chain that verified, and whose root is on record."""

    issuer: str
    verified: VerifiedChain
    root: LinkRecord
    recorded: bool
    characters: int


class CapabilityChains:
    """`ports.CapabilitySource`. For one event loop."""

    def __init__(
        self,
        *,
        ledger: Ledger,
        keys: CapabilityKeys,
        clock: Clock,
        revocations: RevocationsInForce,
        public_url: str,
        max_lifetime_seconds: int,
    ) -> None:
        self.revocations = revocations
        self._ledger = ledger
        self._keys = keys
        self._clock = clock
        self._public_url = public_url.rstrip("/")
        self._max_lifetime_seconds = max_lifetime_seconds
        self._known: OrderedDict[str, _Known] = OrderedDict()
        self._characters = 0
        self.hits = 0
        self.misses = 0

    def issuer(self, tenant: str) -> str:
        """The issuer URL of a tenant's capabilities: no two tenants share one."""
        return self._public_url if tenant == DEFAULT_TENANT else f"{self._public_url}/tenants/{tenant}"

    async def confirm(self) -> None:
        """See `ports.CapabilitySource`."""
        await self.revocations.confirm()

    def rules(self, tenant: str) -> TokenRules:
        """See `ports.CapabilitySource`."""
        issuer = self.issuer(tenant)
        return TokenRules(
            issuer=issuer,
            audience=f"{issuer}/decide",
            keys=self._keys.verifying(self._clock.now_ms()),
            revoked=self.revocations.in_force(tenant),
            max_lifetime_seconds=self._max_lifetime_seconds,
            skew_seconds=SKEW_SECONDS,
            max_depth=MAX_DELEGATIONS,
        )

    async def load(self, caller: Caller, call: Call) -> Presented | None:
        """See `ports.CapabilitySource`."""
        return await self.load_chain(caller.tenant, call.capability) if call.capability else None

    async def load_chain(self, tenant: str, links: tuple[str, ...]) -> Presented:
        """What these links come to in a tenant, whoever presents them for what. Raises like `load`."""
        await self.revocations.confirm()
        rules = self.rules(tenant)
        digest = chain_digest(links)
        known = self._known.get(digest)
        # What another tenant's chain was verified for says nothing here.
        if known is not None and known.issuer == rules.issuer:
            self._known.move_to_end(digest)
            self.hits += 1
            return Presented(digest=digest, verified=known.verified, root=known.root, recorded=known.recorded)
        self.misses += 1
        verified = _verified(links, rules)
        if (
            isinstance(verified, Refusal)
            and verified.reason is Reason.KID_UNKNOWN
            # Perhaps a key that another replica has made since.
            and await self._keys.find(_kid_of(links[0]), self._clock.now_ms()) is not None
        ):
            rules = self.rules(tenant)
            verified = _verified(links, rules)
        if isinstance(verified, Refusal):
            # Not remembered: of what is refused there is no end, and each is cheap to make.
            return Presented(digest=digest, verified=verified)
        root = await self._ledger.find_link(tenant, verified.links[0].link_hash)
        if root is None:
            return Presented(digest=digest, verified=verified)
        # Links go on record by whole chains, so the leaf stands for those between.
        recorded = len(verified.links) == 1 or (
            await self._ledger.find_link(tenant, verified.leaf.link_hash) is not None
        )
        self._remember(
            digest,
            _Known(
                issuer=rules.issuer,
                verified=verified,
                root=root,
                recorded=recorded,
                characters=sum(map(len, links)),
            ),
        )
        return Presented(digest=digest, verified=verified, root=root, recorded=recorded)

    def recorded(self, digest: str) -> None:
        """See `ports.CapabilitySource`."""
        known = self._known.get(digest)
        if known is not None:
            self._known[digest] = replace(known, recorded=True)

    def _remember(self, digest: str, known: _Known) -> None:
        if known.characters > MAX_CHARACTERS_OF_ONE:
            return
        before = self._known.pop(digest, None)
        self._characters += known.characters - (before.characters if before is not None else 0)
        self._known[digest] = known
        while len(self._known) > MAX_CHAINS or self._characters > MAX_CHARACTERS:
            _, dropped = self._known.popitem(last=False)
            self._characters -= dropped.characters


def _verified(links: tuple[str, ...], rules: TokenRules) -> VerifiedChain | Refusal:
    return verify_structure(
        links,
        audience=rules.audience,
        issuer=rules.issuer,
        keys=rules.keys,
        max_depth=rules.max_depth,
        max_lifetime_seconds=rules.max_lifetime_seconds,
    )


def _kid_of(root: str) -> str:
    """The name of the key that a root says it is signed by; empty where it says none."""
    envelope = parse_envelope(root, typ=LINK_TYP, has_kid=True)
    return "" if isinstance(envelope, Refusal) else envelope.kid or ""

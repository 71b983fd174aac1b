"""The decision service over the ledger in memory, with capabilities: all but disk, wire and key files."""

import itertools
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from authz_client.capabilities import PublicKey, Signer

from authz.core.redact import Redactor
from authz.core.ruleset import Ruleset
from authz.model.call import Call
from authz.model.capability import LinkRecord, RevocationKind, RevocationRecord
from authz.model.decision import Decision
from authz.model.record import Committed, Event, EventType
from authz.ports import CommitUnit, ExposureWrite
from authz.service.bundles import Admitted, BundlesInForce
from authz.service.capability_chains import CapabilityChains
from authz.service.decide import Answer, DecisionService
from authz.service.revocations import RevocationsInForce
from authz.service.tickets import ServiceTickets
from authz.store.memory import MemoryLedger
from tests.support.chains import ISSUER_KEY, PUBLIC_URL, TENANT, proof_of, root_record, tool_digests
from tests.support.service import SettableClock
from tests.support.world import IDS, call, caller_of


class FixedKeys:
    """`ports.CapabilityKeys` with the one key of the tests' chains."""

    def signer(self, now_ms: int) -> Signer:
        return ISSUER_KEY

    def verifying(self, now_ms: int) -> Mapping[str, PublicKey]:
        return {ISSUER_KEY.kid: ISSUER_KEY.public}

    async def find(self, kid: str, now_ms: int) -> PublicKey | None:
        return self.verifying(now_ms).get(kid)

    def jwks(self, now_ms: int) -> Mapping[str, Any]:
        return {"keys": []}


class Ids:
    """`ports.IdSource` that counts."""

    def __init__(self) -> None:
        self._count = itertools.count(1)

    def new_id(self) -> str:
        return f"d-{next(self._count)}"


class Nobody:
    """`ports.Observer` that is told and says nothing."""

    def decided(self, tenant: str, decision: Decision) -> None:
        pass


@dataclass
class Deciding:
    """A running service of one tenant."""

    ruleset: Ruleset
    clock: SettableClock
    ledger: MemoryLedger
    revocations: RevocationsInForce
    chains: CapabilityChains
    service: DecisionService

    @classmethod
    async def of(cls, ruleset: Ruleset, *, with_capabilities: bool = True, **parts: Any) -> "Deciding":
        clock = SettableClock()
        ledger = MemoryLedger(clock=clock, vault_key=b"v" * 32)
        revocations = RevocationsInForce(ledger, clock, max_staleness_seconds=60)
        await revocations.refresh()
        chains = CapabilityChains(
            ledger=ledger,
            keys=FixedKeys(),
            clock=clock,
            revocations=revocations,
            public_url=PUBLIC_URL,
            max_lifetime_seconds=86_400,
        )
        if with_capabilities:
            parts = {
                "capabilities": chains,
                "tickets": ServiceTickets(keys=FixedKeys(), issuer=chains.issuer),
            } | parts
        service = DecisionService(
            ledger=ledger,
            bundles=BundlesInForce({TENANT: ruleset}),
            clock=clock,
            ids=Ids(),
            observer=Nobody(),
            operation_secret=b"k" * 32,
            redactor=Redactor(b"r" * 32),
            ttl_ms=60_000,
            **parts,
        )
        return cls(
            ruleset=ruleset,
            clock=clock,
            ledger=ledger,
            revocations=revocations,
            chains=chains,
            service=service,
        )

    async def issue(self, chain: Sequence[str], **changes: Any) -> LinkRecord:
        """Put the root of `chain` on record."""
        root = root_record(chain, **({"tool_digests": tool_digests(self.ruleset)} | changes))
        await self._write(links=[root])
        return root

    async def revoke(self, kind: RevocationKind, value: str) -> None:
        """Revoke, as the node that takes it does."""
        record = RevocationRecord(tenant=TENANT, kind=kind, value=value, until_ms=2**52)
        await self._write(revocations=[record])
        await self.revocations.refresh()

    async def mark(self, key: str, label: str) -> None:
        """Put a label on a session or trace."""
        await self._write(delegated=[ExposureWrite(session_key=key, labels=frozenset({label}))])

    async def _write(self, **parts: Any) -> None:
        event = Event(
            type=EventType.CAPABILITY_ISSUED,
            tenant=TENANT,
            occurred_at_ms=self.clock.at_ms,
            body=b"{}",
        )
        assert isinstance(await self.ledger.commit(CommitUnit(event=event, **parts)), Committed)

    async def decide(self, made: Call) -> Answer:
        caller = caller_of(self.ruleset)
        return await self.service.decide(made, Admitted(caller=caller, ruleset=self.ruleset))

    @property
    def records(self) -> list[dict[str, Any]]:
        """Of decisions, oldest first."""
        told = [json.loads(record.text) for record in self.ledger.records]
        return [one for one in told if one["type"].startswith("decision.")]


_numbers = itertools.count(1)


def fresh(made: Call, **ids: Any) -> Call:
    """The call under a new call id."""
    number = next(_numbers)
    return replace(made, ids=replace(IDS, call=f"call-{number}", **ids))


def reading(path: str, *, agent: str = "coder-1", **more: Any) -> Call:
    """A new call that reads a file."""
    return fresh(call("fs/file_read", path=path, agent=agent, **more))


def proved(made: Call, chain: Sequence[str], *, jti: str | None = None, **changes: Any) -> Call:
    """The call with its capability and a proof of its own."""
    number = next(_numbers)
    proof = proof_of(chain, made.request_digest, jti=jti or f"p-{number}", **changes)
    return replace(made, capability=tuple(chain), proof=proof)

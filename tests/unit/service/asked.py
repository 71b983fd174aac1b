"""Calls that are asked for, and what grace makes of them: what tests of decisions with approvals share."""

import json
from dataclasses import replace
from typing import Any, Final

from authz.core.redact import Redactor
from authz.model.approval import ApprovalState
from authz.model.call import Call
from authz.model.decision import Decision, Effect, Stage
from authz.service.decide import DecisionService
from tests.support.answering import Answering, Ids, Told, asking, signed_in
from tests.support.world import IDS, call, source

ASKING: Final = asking()
READ: Final = call("fs/file_read", path="/workspace/a", provenance={"/path": source("user")})
EDIT: Final = call(
    "fs/file_edit",
    path="/workspace/a",
    text="x",
    provenance={"/path": source("user"), "/text": source("user")},
)


def reading(path: str, trust: str = "user") -> Call:
    """A call that reads another file, under ids of its own."""
    return under(call("fs/file_read", path=path, provenance={"/path": source(trust)}), f"read {path}")


def under(made: Call, name: str) -> Call:
    """The call under another call id."""
    return replace(made, ids=replace(IDS, call=name))


def decided(world: Answering) -> list[dict[str, Any]]:
    """The records of decisions, oldest first."""
    told = [json.loads(record.text) for record in world.ledger.records]
    return [one for one in told if one["type"].startswith("decision.")]


def waited_for(decision: Decision) -> str:
    """Id of the request that the decision waits for. Fails where it does not ask."""
    assert (decision.effect, decision.stage) == (Effect.REQUIRE_APPROVAL, Stage.APPROVAL), decision.message
    assert decision.approval is not None
    assert decision.approval.state is ApprovalState.PENDING
    return decision.approval.id


async def granted(world: Answering, made: Call, **ballot: Any) -> str:
    """Id of the approval that grace gives to the call."""
    approval_id = waited_for(await world.decide(made))
    await world.approve(signed_in("grace"), approval_id, **ballot)
    assert await world.state(approval_id) is ApprovalState.APPROVED
    return approval_id


async def denied(world: Answering, made: Call, reason: str = "not this one") -> str:
    """Id of the request that grace says no to."""
    approval_id = waited_for(await world.decide(made))
    await world.deny(signed_in("grace"), approval_id, reason)
    assert await world.state(approval_id) is ApprovalState.DENIED
    return approval_id


def service_of(world: Answering, **parts: Any) -> DecisionService:
    """Another decision service over the same ledger."""
    known: dict[str, Any] = {
        "ledger": world.ledger,
        "bundles": world.bundles,
        "clock": world.clock,
        "ids": Ids(),
        "observer": Told(),
        "operation_secret": b"k" * 32,
        "redactor": Redactor(b"r" * 32),
        "ttl_ms": 60_000,
        "approvals": world.approvals,
    }
    return DecisionService(**{**known, **parts})

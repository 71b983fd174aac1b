"""What no store takes of approvals, and what would be none, is refused without failing others."""

import asyncio
import dataclasses
from dataclasses import replace

import pytest

from authz.errors import StoreUnavailable
from authz.model.approval import ApprovalState
from authz.model.approval_request import Consumption
from authz.model.record import Committed
from authz.ports import CommitUnit
from tests.store.approval_world import (
    AnyLedger,
    approved,
    asking,
    denied,
    ledger,
    moving,
    of_call,
    read_request,
    records,
    revoking,
    using,
    whole_unit,
)

__all__ = ["ledger"]


def _unwritable() -> dict[str, CommitUnit]:
    request = read_request()
    yes, no = approved(request), denied(request)
    assert yes.grant is not None
    assert no.denial is not None
    assert yes.vote is not None
    uncounted = replace(yes.grant, uses_left=None)
    return {
        "of another tenant": dataclasses.replace(asking(request), event=whole_unit(tenant="b").event),
        "a request that has ended": asking(no.after),
        "a text with NUL": asking(replace(request, dedupe_key="a\0")),
        "a text that is none": asking(replace(request, dedupe_key="\ud800")),
        "a number too large": asking(replace(request, expires_at_ms=2**63)),
        "a time before time": asking(replace(request, created_at_ms=-1)),
        "a resource with NUL": asking(replace(request, resources=frozenset({"\0"}))),
        "a subject with NUL": asking(request, subject="\0"),
        "a request with what is no text": asking(replace(request, policy_version=7)),  # type: ignore[arg-type]
        "two moves of one request": moving(yes, no),
        "a move from nowhere": moving(replace(yes, source=ApprovalState.DENIED)),
        "a version left out": moving(replace(yes, expected_version=3)),
        "a yes without a vote": moving(replace(yes, vote=None)),
        "a yes without its grant": moving(replace(yes, grant=None)),
        "a no without its denial": moving(replace(no, denial=None)),
        "a grant of another request": moving(replace(yes, grant=replace(yes.grant, request_id="x"))),
        "a grant of no vote": moving(replace(yes, grant=replace(yes.grant, votes=()))),
        "a grant without a number": moving(replace(yes, grant=uncounted)),
        "a vote on something else": moving(replace(yes, vote=replace(yes.vote, shown_digest="x"))),
        "a denial of another call": moving(replace(no, denial=replace(no.denial, fingerprint="x"))),
        "revoked at no time": revoking(at_ms=0),
        "a use with NUL": using("\0"),
        "a use by no call": dataclasses.replace(
            using(), consumes=Consumption(request_id="ap-1", fingerprint="", expected_uses_left=1)
        ),
        "a use by another call": using(write=of_call("sha256:f"), of="sha256:g"),
        "a negative number of uses": using(left=-1),
    }


@pytest.mark.parametrize("name", list(_unwritable()))
async def test_what_no_store_takes_is_refused_alone(ledger: AnyLedger, name: str) -> None:
    wrong = _unwritable()[name]
    good, refused = await asyncio.gather(
        ledger.commit(asking(read_request("ap-1", dedupe_key="good"))),
        ledger.commit(wrong),
        return_exceptions=True,
    )
    assert isinstance(good, Committed)
    assert isinstance(refused, StoreUnavailable)
    assert refused.code == "store.unwritable"
    assert await records(ledger) == 1

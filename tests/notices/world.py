"""What the tests of notices are made of."""

import base64
from collections import Counter
from dataclasses import replace
from typing import Any

from authz.core.notice import NoticeKind, approval_notice
from authz.model.approval_request import ApprovalRequest
from authz.model.approval_writes import Notice
from authz.model.webhook import Webhook
from authz.ports import CommitUnit, Ledger
from tests.notices.receiver import SECRET
from tests.store.world import START_MS, event
from tests.support.approvals import asked, provenance
from tests.support.world import call

PUBLIC_URL = "https://authz.example"
TENANT = "acme"


def request(number: int = 1, *, agent: str = "coder-1") -> ApprovalRequest:
    """A request like any other."""
    made = call("fs/file_read", {"path": f"/workspace/{number}"}, provenance=provenance())
    found = asked(made, request_id=f"ap-{number}")
    requester = replace(found.asked.requester, agent=agent)
    return replace(found, asked=replace(found.asked, requester=requester))


def notice(
    number: int = 1,
    kind: NoticeKind = NoticeKind.REQUESTED,
    *,
    agent: str = "coder-1",
    at_ms: int = START_MS,
    **more: Any,
) -> Notice:
    """A notice of one of them."""
    return approval_notice(kind, request(number, agent=agent), public_url=PUBLIC_URL, now_ms=at_ms, **more)


def webhook(url: str, name: str = "ops", **more: Any) -> Webhook:
    """A receiver of everything."""
    key = base64.b64decode(SECRET.removeprefix("whsec_"))
    known: dict[str, Any] = {"tenant": TENANT, "name": name, "url": url, "keys": (key,)}
    return Webhook(**{**known, "events": frozenset(NoticeKind), **more})


async def tell(ledger: Ledger, *notices: Notice) -> None:
    """Commit them, each with a record."""
    for number, one in enumerate(notices):
        await ledger.commit(CommitUnit(event=event(number, tenant=TENANT), notices=[one]))


class Counts:
    """`ports.NoticeObserver` that remembers."""

    def __init__(self) -> None:
        self.counts: Counter[tuple[str, str]] = Counter()

    def notice(self, tenant: str, webhook: str, outcome: str) -> None:
        assert tenant == TENANT
        self.counts[webhook, outcome] += 1

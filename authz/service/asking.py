"""Asks people: what is on record for a call that a rule asks about, and the request that it makes."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Final
from weakref import WeakValueDictionary

from authz.core.approval_asking import (
    Asked,
    asked_by,
    kept_from_asking,
    subject_digest,
    waiting_for,
)
from authz.core.approval_limits import DEFAULT_LIMITS, AskLimits, check_asking, joined
from authz.core.approve import approve_questions
from authz.core.decide import Outcome
from authz.core.facts import Facts
from authz.core.notice import NoticeKind, approval_notice, approval_url
from authz.model.approval_request import Consumption
from authz.model.approval_writes import ApprovalFacts, NewApproval, Notice, VaultWrite
from authz.model.call import Call
from authz.model.decision import Effect, Refusal
from authz.ports import CommitUnit, IdSource, Ledger
from authz.service.approvals_view import approve_ref, shown_ref


@dataclass(frozen=True, slots=True, kw_only=True)
class AskingTerms:
    """How requests are made."""

    public_url: str = "http://localhost:8700"
    """Of this service: the page on which people answer lies beneath it."""
    pending_ttl_ms: int = 3_600_000
    """How long a request waits for an answer."""
    default_ttl_seconds: int = 900
    """How long a yes lasts that no rule limits."""
    limits: AskLimits = DEFAULT_LIMITS


DEFAULT_TERMS: Final = AskingTerms()


@dataclass(frozen=True, slots=True, kw_only=True)
class AskWrites:
    """What a new request writes, with the decision that makes it."""

    new: NewApproval
    kept: tuple[VaultWrite, ...]
    notices: tuple[Notice, ...]


async def read_approvals(ledger: Ledger, call: Call, outcome: Outcome, facts: Facts) -> ApprovalFacts:
    """What is on record for the call of an outcome that has a fingerprint. Raises `StoreUnavailable`."""
    descriptor = facts.ruleset.tools[(call.server, call.tool)].descriptor
    return await ledger.approval_facts(
        tenant=facts.caller.tenant,
        fingerprint=outcome.decision.fingerprint or "",
        session=call.subject.session,
        server=descriptor.server.identity,
        tool=descriptor.name,
    )


async def check_may_ask(
    ledger: Ledger, asked: Asked, facts: Facts, limits: AskLimits = DEFAULT_LIMITS
) -> Refusal | None:
    """Why nobody may be asked this now; `None` where people may be. Raises `StoreUnavailable`."""
    counts = await ledger.ask_counts(
        tenant=facts.caller.tenant,
        subject_key=subject_digest(asked.request.asked),
        resources=asked.request.resources,
        since_ms=facts.now_ms - limits.window_ms,
        now_ms=facts.now_ms,
    )
    return check_asking(counts, facts.now_ms, limits)


async def foresee_asking(ledger: Ledger, call: Call, outcome: Outcome, facts: Facts) -> Refusal | None:
    """Why an outcome that asks would be denied instead, for an explanation. Raises `StoreUnavailable`."""
    if outcome.decision.effect is not Effect.REQUIRE_APPROVAL:
        return None
    asked = asked_by(
        call,
        outcome,
        facts,
        request_id=facts.decision_id,
        pending_ttl_ms=DEFAULT_TERMS.pending_ttl_ms,
        default_ttl_seconds=DEFAULT_TERMS.default_ttl_seconds,
    )
    if joined(facts.approvals.waiting, asked.request.dedupe_key, facts.now_ms) is not None:
        return None
    return await check_may_ask(ledger, asked, facts)


class Asking:
    """The approvals of decisions. Reads only; what it comes to is written with the decision."""

    def __init__(self, *, ledger: Ledger, ids: IdSource, terms: AskingTerms) -> None:
        self._ledger = ledger
        self._ids = ids
        self._terms = terms

    async def known(self, call: Call, outcome: Outcome, facts: Facts) -> ApprovalFacts:
        """See `read_approvals`."""
        return await read_approvals(self._ledger, call, outcome, facts)

    async def ask(self, call: Call, outcome: Outcome, facts: Facts) -> tuple[Outcome, AskWrites | None]:
        """An outcome that asks, with the request that it waits for, and what that writes.

        It joins the request that waits for the same already. Where nobody may be asked now the call is
        denied. A dry run is told what would be, and asks nobody. Raises `StoreUnavailable`.
        """
        terms = self._terms
        asked = asked_by(
            call,
            outcome,
            facts,
            request_id=self._ids.new_id(),
            pending_ttl_ms=terms.pending_ttl_ms,
            default_ttl_seconds=terms.default_ttl_seconds,
        )
        waiting = joined(facts.approvals.waiting, asked.request.dedupe_key, facts.now_ms)
        if waiting is not None:
            return waiting_for(call, outcome, waiting, facts.now_ms, joined=True), None
        refusal = await check_may_ask(self._ledger, asked, facts, terms.limits)
        if refusal is not None:
            return kept_from_asking(call, outcome, facts, refusal), None
        if call.dry_run:
            return outcome, None
        writes = self._writes(call, outcome, facts, asked)
        return waiting_for(call, outcome, asked.request, facts.now_ms, joined=False), writes

    def _writes(self, call: Call, outcome: Outcome, facts: Facts, asked: Asked) -> AskWrites:
        request, terms = asked.request, self._terms
        tool = facts.ruleset.tools[(call.server, call.tool)]
        tenant = request.asked.requester.tenant
        # As long as anybody can answer, or use the answer: then the log has its digest.
        shown_until_ms = request.expires_at_ms + request.ttl_seconds * 1000
        return AskWrites(
            new=NewApproval(
                request=request,
                subject_key=subject_digest(request.asked),
                pending_per_subject=terms.limits.pending_per_subject,
                pending_per_tenant=terms.limits.pending_per_tenant,
            ),
            kept=(
                VaultWrite(
                    tenant=tenant,
                    ref=shown_ref(request.id),
                    content=asked.shown.content,
                    until_ms=shown_until_ms,
                ),
                VaultWrite(
                    tenant=tenant,
                    ref=approve_ref(request.id),
                    content=approve_questions(call, facts, outcome, tool),
                    # Who could have said yes may still revoke it.
                    until_ms=shown_until_ms,
                ),
            ),
            notices=(
                approval_notice(
                    NoticeKind.REQUESTED,
                    request,
                    public_url=terms.public_url,
                    now_ms=facts.now_ms,
                    document=asked.shown.document,
                ),
            ),
        )

    def linked(self, outcome: Outcome) -> Outcome:
        """The outcome, which says where its approval can be seen."""
        told = outcome.decision.approval
        if told is None:
            return outcome
        url = approval_url(self._terms.public_url, told.id)
        return replace(outcome, decision=replace(outcome.decision, approval=replace(told, url=url)))


class Turns:
    """Lets calls that lost a use of a grant to another try again one at a time.

    Only within this process: each use is compared in the store, whoever tries. Without turns, many calls at
    once would take the uses of a grant one a round, and most would run out of attempts while some are left.
    """

    def __init__(self) -> None:
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    @asynccontextmanager
    async def of(self, grant_id: str) -> AsyncIterator[None]:
        """One's turn at a grant."""
        lock = self._locks.get(grant_id)
        if lock is None:
            lock = self._locks[grant_id] = asyncio.Lock()
        async with lock:
            yield


def lost(unit: CommitUnit) -> str:
    """Id of the grant of which the unit wanted one of several uses; empty where none is to be waited for."""
    wanted: Consumption | None = unit.consumes
    if wanted is None or not wanted.takes:
        return ""
    if wanted.expected_uses_left is None or wanted.expected_uses_left < 2:
        return ""
    return wanted.request_id

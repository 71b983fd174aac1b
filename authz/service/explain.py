"""Explains calls and decisions of the past to policy and audit roles, and records that somebody looked."""

import asyncio
import json
from dataclasses import replace
from typing import Any, Final

from authz.core.approval_asking import needs_approvals
from authz.core.explain import Begun, begin, finish
from authz.core.explain.document import document
from authz.core.explain.event import explanation_event
from authz.core.explain.recorded import (
    PreparedRecord,
    begin_record,
    facts_of_record,
    finish_record,
    prepare_record,
)
from authz.core.facts import Facts
from authz.core.fingerprint import operation_key
from authz.core.redact import Redactor
from authz.core.ruleset import Ruleset
from authz.errors import MalformedInput, NotFound, StoreUnavailable
from authz.model.call import Call
from authz.model.caller import Caller, Profile
from authz.model.capability import Presented
from authz.model.limit import LimitReached, Reached
from authz.model.record import Committed, Event
from authz.ports import Bundles, CapabilitySource, Clock, CommitUnit, Ledger, LineReader
from authz.service.asking import foresee_asking, read_approvals
from authz.service.bundles import Admitted
from authz.service.lines import read_lines
from authz.service.sessions import read_session

MAX_ATTEMPTS: Final = 4
"""How often a call is explained again because limits that it would fall under filled up meanwhile."""


class ExplanationService:
    """Answers why. Reserves and consumes nothing; no answer leaves before its record is on disk."""

    def __init__(
        self,
        *,
        ledger: Ledger,
        bundles: Bundles,
        clock: Clock,
        redactor: Redactor,
        ttl_ms: int,
        lines: LineReader | None = None,
        capabilities: CapabilitySource | None = None,
    ) -> None:
        self._ledger = ledger
        self._bundles = bundles
        self._clock = clock
        self._redactor = redactor
        self._ttl_ms = ttl_ms
        self._lines = lines
        self._capabilities = capabilities

    async def explain(self, call: Call, admitted: Admitted, profile: str | None) -> dict[str, Any]:
        """The explanation of a call, as a caller of `profile` (of the bundle in force) would make it.

        Without `profile` it is the caller's own. A capability is judged with its proof, which is not used up.
        Raises `MalformedInput` for a profile that the bundle does not have, `BundleStale`,
        `RevocationsStale`, and `StoreUnavailable` when the record cannot be made durable.
        """
        caller, ruleset = admitted.caller, admitted.ruleset
        self._bundles.check_fresh(caller.tenant)
        explained = _as_profile(caller, ruleset, profile)
        source = self._capabilities if call.capability else None
        presented = await source.load(caller, call) if source is not None else None
        reached: tuple[Reached, ...] = ()
        lines = await read_lines(self._lines, call, ruleset, explained.profile)
        for _ in range(MAX_ATTEMPTS):
            facts, may_be_denied = await self._gather(call, explained, ruleset, presented)
            facts = replace(facts, lines=lines, reached=reached)
            begun = begin(call, facts)
            if begun.outcome is not None and needs_approvals(begun.outcome, may_be_denied=may_be_denied):
                approvals = await read_approvals(self._ledger, call, begun.outcome, facts)
                facts, _ = await self._gather(call, explained, ruleset, presented)
                facts = replace(facts, lines=lines, reached=reached, approvals=approvals)
                begun = begin(call, facts)
                if begun.outcome is not None:
                    kept = await foresee_asking(self._ledger, call, begun.outcome, facts)
                    if kept is not None:
                        begun = begin(call, facts, kept_from_asking_by=kept)
            told = document(await asyncio.to_thread(finish, begun))
            event = explanation_event(
                caller=caller, told=told, redactor=self._redactor, now_ms=begun.facts.now_ms, call=call
            )
            committed = await self._ledger.commit(_unit(event, begun))
            if isinstance(committed, Committed):
                return told
            if isinstance(committed, LimitReached):
                reached += committed.reached
        raise StoreUnavailable(
            "the limits kept changing while the call was explained; send it again", code="store.contended"
        )

    async def _gather(
        self, call: Call, explained: Caller, ruleset: Ruleset, presented: Presented | None
    ) -> tuple[Facts, bool]:
        """The facts as they are now, and whether a person may have said no in the session."""
        key = operation_key(explained.tenant, call)
        operation = await self._ledger.find_operation(key) if key is not None else None
        remembered = await read_session(self._ledger, explained.tenant, call)
        rules = None
        if self._capabilities is not None and presented is not None:
            rules = self._capabilities.rules(explained.tenant)
        facts = Facts(
            caller=explained,
            ruleset=ruleset,
            now_ms=self._clock.now_ms(),
            decision_id="explained",
            operation=operation,
            exposed=remembered.exposed,
            # Keys of leases and idempotency, which an explanation neither makes nor shows.
            secret=bytes(32),
            ttl_ms=self._ttl_ms,
            presented=presented,
            tokens=rules,
            delegated=remembered.delegated,
        )
        return facts, remembered.may_be_denied

    async def explain_decision(
        self, decision_id: str, admitted: Admitted, profile: str | None
    ) -> dict[str, Any]:
        """The explanation of a decision of the caller's tenant: what was recorded, and what holds now.

        Raises `NotFound` for a decision that is not there, or is another tenant's, and as `explain` does.
        """
        caller, ruleset = admitted.caller, admitted.ruleset
        self._bundles.check_fresh(caller.tenant)
        if profile is not None:
            _as_profile(caller, ruleset, profile)
        stored = await self._ledger.find_event(caller.tenant, decision_id)
        if stored is None:
            raise NotFound("there is no such decision", code="decision.unknown")
        # What takes as long as the record is large runs beside the decisions of others; what decides is
        # the part of an ordinary decision.
        prepared = await asyncio.to_thread(_prepared, stored.text, ruleset, profile)
        call, profile_of_then = prepared.call, prepared.facts.caller.profile
        lines = await read_lines(self._lines, call, ruleset, profile_of_then) if call is not None else None
        begun = begin_record(prepared, lines=lines)
        told = await asyncio.to_thread(finish_record, begun)
        event = explanation_event(
            caller=caller,
            told=told,
            redactor=self._redactor,
            now_ms=self._clock.now_ms(),
            decision_id=decision_id,
        )
        await self._ledger.commit(CommitUnit(event=event))
        return told


def _prepared(text: str, ruleset: Ruleset, profile: str | None) -> PreparedRecord:
    record = json.loads(text)
    return prepare_record(record, facts_of_record(record, ruleset, profile=profile))


def _as_profile(caller: Caller, ruleset: Ruleset, name: str | None) -> Caller:
    """The caller as one of another credential profile of its own tenant."""
    if name is None:
        return caller
    profile: Profile | None = ruleset.profiles.get(name)
    if profile is None:
        known = ", ".join(sorted(ruleset.profiles))
        raise MalformedInput(
            f"`profile`: the bundle in force has none of that name; it has {known}",
            code="input.invalid",
            pointer="/profile",
        )
    return replace(caller, profile=profile)


def _unit(event: Event, begun: Begun) -> CommitUnit:
    """The record; what an allow would take of the limits is compared with them, and not taken."""
    decision = begun.outcome.decision if begun.outcome is not None else None
    return CommitUnit(
        event=event, reservations=decision.reservations if decision is not None else (), only_checked=True
    )

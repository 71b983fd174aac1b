"""Approvals and the vault in memory, for tests."""

from collections.abc import Mapping, Sequence

from authz.core.approval import told_state
from authz.core.approval_limits import AskCounts, came_to_nothing, is_refused_since
from authz.model.approval import ApprovalState, ScopeKind
from authz.model.approval_request import ApprovalRequest, Denial, Grant, Vote
from authz.model.approval_writes import ApprovalFacts, ApprovalMoved, ApprovalQuery, ApprovalStanding
from authz.ports import CommitUnit
from authz.store.approval_batch import (
    ApprovalBatch,
    DeniedCall,
    Key,
    Known,
    PendingCounts,
    request_key,
    touches_approvals,
)
from authz.store.approval_bounds import CHANGES_AT_ONCE, clamp_approvals, most_refused
from authz.store.approval_rows import (
    denial_row,
    grant_row,
    read_denial,
    read_grant,
    read_request,
    read_vote,
    request_row,
    tool_name,
    vote_row,
)
from authz.store.vault import SealedEntry, Vault


class ReadsMemoryApprovals:
    """What a ledger reads of them: `authz.ports.approvals.ApprovalReads`."""

    _approvals: "MemoryApprovals"

    def _check_available(self) -> None:
        raise NotImplementedError

    async def approval_facts(
        self, *, tenant: str, fingerprint: str, session: str | None, server: str, tool: str
    ) -> ApprovalFacts:
        """See the port, as of those that follow."""
        self._check_available()
        return self._approvals.approval_facts(
            tenant=tenant, fingerprint=fingerprint, session=session, server=server, tool=tool
        )

    async def ask_counts(
        self, *, tenant: str, subject_key: str, resources: frozenset[str], since_ms: int, now_ms: int
    ) -> AskCounts:
        self._check_available()
        return self._approvals.ask_counts(
            tenant=tenant, subject_key=subject_key, resources=resources, since_ms=since_ms, now_ms=now_ms
        )

    async def find_approval(self, tenant: str, approval_id: str) -> ApprovalStanding | None:
        self._check_available()
        return self._approvals.find_approval(tenant, approval_id)

    async def find_approvals(self, query: ApprovalQuery) -> Sequence[ApprovalStanding]:
        self._check_available()
        return self._approvals.find_approvals(query)

    async def due_approvals(self, now_ms: int, most: int) -> Sequence[tuple[str, str]]:
        self._check_available()
        return self._approvals.due_approvals(now_ms, most)

    async def approvals_since(self, tenant: str, change: int) -> tuple[int, Sequence[str]]:
        self._check_available()
        return self._approvals.approvals_since(tenant, change)

    async def find_kept(self, tenant: str, ref: str, now_ms: int) -> bytes | None:
        self._check_available()
        return self._approvals.find_kept(tenant, ref, now_ms)


class MemoryApprovals:
    """All of them. Nothing here gives way, so a check and the writing after it are one step."""

    def __init__(self, vault: Vault) -> None:
        self._vault = vault
        self._requests: dict[Key, Known] = {}
        self._votes: dict[Key, list[Vote]] = {}
        self._grants: dict[Key, Grant] = {}
        self._denials: dict[Key, Denial] = {}
        self._changes: dict[Key, int] = {}
        self._kept: dict[Key, SealedEntry] = {}

    def check(self, unit: CommitUnit, now_ms: int) -> ApprovalMoved | None:
        """Whether something of the unit does not hold any more; `None` when all of it does."""
        return ApprovalBatch(self, [unit], now_ms).check(unit) if touches_approvals(unit) else None

    def write(self, unit: CommitUnit, now_ms: int) -> None:
        """What a unit does that has just been found to hold."""
        for kept in unit.kept:
            known = self._kept.get((kept.tenant, kept.ref))
            if known is None or known.until_ms <= now_ms:
                self._kept[kept.tenant, kept.ref] = self._vault.seal(kept)
        if not touches_approvals(unit):
            return
        batch = ApprovalBatch(self, [unit], now_ms)
        batch.add(unit)
        changes = batch.changes
        # By way of rows, so that each is found as any other store has it.
        for key in (*changes.new, *changes.moved):
            self._requests[key] = _stored_request(batch.requests[key])
        for tenant, vote, version in changes.votes:
            stored = read_vote(vote_row(tenant, vote, version)[-1])
            self._votes.setdefault((tenant, vote.request_id), []).append(stored)
        for key in (*changes.new_grants, *changes.moved_grants):
            self._grants[key] = _stored_grant(batch.grants[key])
        for denial in changes.denials:
            self._denials[denial.tenant, denial.request_id] = read_denial(denial_row(denial)[-1])
        for key in changes.touched:
            self._changes[key] = self._last_change(key[0]) + 1

    def find_requests(self, keys: Sequence[Key]) -> Mapping[Key, Known]:
        """See `ApprovalSource`, as of those that follow."""
        return {key: self._requests[key] for key in keys if key in self._requests}

    def find_waiting(self, keys: Sequence[Key]) -> Mapping[Key, str]:
        wanted = set(keys)
        waiting = [request for request in self._all() if request.state is ApprovalState.PENDING]
        found = {(request_key(request)[0], request.dedupe_key): request.id for request in waiting}
        return {key: found[key] for key in wanted & found.keys()}

    def find_grants(self, keys: Sequence[Key]) -> Mapping[Key, Grant]:
        return {key: self._grants[key] for key in keys if key in self._grants}

    def find_denied(self, keys: Sequence[Key]) -> set[DeniedCall]:
        wanted = set(keys)
        return {
            (denial.tenant, denial.session, denial.fingerprint)
            for denial in self._denials.values()
            if (denial.tenant, denial.fingerprint) in wanted
        }

    def count_pending(self, keys: Sequence[Key], now_ms: int) -> Mapping[Key, PendingCounts]:
        return {key: self._pending(key, now_ms) for key in keys}

    def approval_facts(
        self, *, tenant: str, fingerprint: str, session: str | None, server: str, tool: str
    ) -> ApprovalFacts:
        """See `authz.ports.approvals.ApprovalReads`, as of those that follow."""
        return ApprovalFacts(
            grants=tuple(
                grant
                for (of_tenant, _), grant in sorted(self._grants.items())
                if of_tenant == tenant and _is_about(grant, fingerprint, session, (server, tool))
            ),
            denials=tuple(
                denial
                for _, denial in sorted(self._denials.items())
                if (denial.tenant, denial.session, denial.fingerprint) == (tenant, session, fingerprint)
            ),
            waiting=tuple(
                request
                for request in self._all(tenant)
                if request.state is ApprovalState.PENDING and request.asked.fingerprint == fingerprint
            ),
        )

    def ask_counts(
        self, *, tenant: str, subject_key: str, resources: frozenset[str], since_ms: int, now_ms: int
    ) -> AskCounts:
        ended: dict[str, list[int]] = {}
        mine = [
            known.request
            for (of_tenant, _), known in self._requests.items()
            if (of_tenant, known.subject_key) == (tenant, subject_key)
        ]
        for request in mine:
            if is_refused_since(request, since_ms, now_ms):
                for resource in request.resources & resources:
                    ended.setdefault(resource, []).append(_ended_at_ms(request))
        vain = [request.created_at_ms for request in mine if came_to_nothing(request, since_ms, now_ms)]
        pending = self._pending((tenant, subject_key), now_ms)
        return most_refused(
            ((len(times), min(times)) for times in ended.values()),
            pending.of_subject,
            pending.of_tenant,
            (len(vain), min(vain, default=None)),
        )

    def find_approval(self, tenant: str, approval_id: str) -> ApprovalStanding | None:
        key = (tenant, approval_id)
        return self._standing(key) if key in self._requests else None

    def find_approvals(self, query: ApprovalQuery) -> Sequence[ApprovalStanding]:
        found = [
            request
            for request in self._all(query.tenant)
            if _is_match(request, self._grants.get(request_key(request)), query)
        ]
        found.sort(key=_position, reverse=True)
        return [self._standing(request_key(request)) for request in found[: clamp_approvals(query.limit)]]

    def due_approvals(self, now_ms: int, most: int) -> Sequence[tuple[str, str]]:
        due = [
            (request.expires_at_ms, *request_key(request))
            for request in self._all()
            if request.state is ApprovalState.PENDING and request.expires_at_ms <= now_ms
        ]
        return [(tenant, approval_id) for _, tenant, approval_id in sorted(due)[:most]]

    def approvals_since(self, tenant: str, change: int) -> tuple[int, Sequence[str]]:
        if change < 0:
            return self._last_change(tenant), []
        later = sorted(
            (at, approval_id)
            for (of_tenant, approval_id), at in self._changes.items()
            if of_tenant == tenant and at > change
        )[:CHANGES_AT_ONCE]
        return (later[-1][0] if later else self._last_change(tenant)), [found for _, found in later]

    def find_kept(self, tenant: str, ref: str, now_ms: int) -> bytes | None:
        entry = self._kept.get((tenant, ref))
        return None if entry is None or entry.until_ms <= now_ms else self._vault.open(entry)

    def _all(self, tenant: str | None = None) -> list[ApprovalRequest]:
        requests = (known.request for _, known in sorted(self._requests.items(), key=lambda item: item[0]))
        return [request for request in requests if tenant in (None, request_key(request)[0])]

    def _pending(self, subject: Key, now_ms: int) -> PendingCounts:
        pending = [
            known.subject_key
            for (tenant, _), known in self._requests.items()
            if tenant == subject[0]
            and known.request.state is ApprovalState.PENDING
            and known.request.expires_at_ms > now_ms
        ]
        return PendingCounts(of_subject=pending.count(subject[1]), of_tenant=len(pending))

    def _standing(self, key: Key) -> ApprovalStanding:
        return ApprovalStanding(
            request=self._requests[key].request,
            votes=tuple(self._votes.get(key, ())),
            grant=self._grants.get(key),
            denial=self._denials.get(key),
        )

    def _last_change(self, tenant: str) -> int:
        return max((at for (of_tenant, _), at in self._changes.items() if of_tenant == tenant), default=0)


def _stored_request(known: Known) -> Known:
    row = request_row(known.request, known.subject_key, 0)
    details, state, version, closed = row[-1], row[11], row[12], row[15:17]
    return Known(request=read_request((details, state, version, *closed)), subject_key=known.subject_key)


def _stored_grant(grant: Grant) -> Grant:
    row = grant_row(grant)
    return read_grant((row[-1], row[7], *row[9:11]))


def _ended_at_ms(request: ApprovalRequest) -> int:
    return request.closed_at_ms if request.state is ApprovalState.DENIED else request.expires_at_ms


def _is_about(grant: Grant, fingerprint: str, session: str | None, tool: tuple[str, str]) -> bool:
    asked = grant.asked
    if asked.fingerprint == fingerprint:
        return True
    return (
        grant.scope.kind is ScopeKind.SESSION
        and session is not None
        and asked.requester.session == session
        and (asked.tool.server, asked.tool.name) == tool
    )


def _position(request: ApprovalRequest) -> tuple[int, str]:
    return (request.created_at_ms, request.id)


def _is_match(request: ApprovalRequest, grant: Grant | None, query: ApprovalQuery) -> bool:
    requester = request.asked.requester
    state = told_state(request, grant, query.now_ms)
    wanted = (
        (query.agent, requester.agent),
        (query.user, requester.on_behalf_of),
        (query.session, requester.session),
        (query.tool, tool_name(request)),
        (query.key_id, requester.key_id),
        (query.trace_id, request.ids.trace),
    )
    return (
        all(text in ("", found) for text, found in wanted)
        and (not query.states or state in query.states)
        and not (query.only_grants and state is not ApprovalState.APPROVED)
        and (query.before is None or _position(request) < query.before)
    )

"""What a batch does to approvals: judged unit by unit, each after what the units before it did.

Knows no database: an `ApprovalSource` says what is on record, under the lock that every commit holds, and
whoever made the batch writes what has `changed`. So every store judges alike.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from authz.core.approval import grant_state_at
from authz.core.approval_grants import use
from authz.core.approval_moves import By, Move
from authz.model.approval import ApprovalState, ScopeKind
from authz.model.approval_request import ApprovalRequest, Consumption, Denial, Grant, Vote
from authz.model.approval_writes import ApprovalMoved, GrantVoid, NewApproval
from authz.ports import CommitUnit

Key = tuple[str, str]
"""Tenant, and an id, a dedupe key, a subject key or a fingerprint."""
DeniedCall = tuple[str, str | None, str]
"""Tenant, session, fingerprint."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """A request, and whose pending requests it counts among."""

    request: ApprovalRequest
    subject_key: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingCounts:
    """Requests that wait at that time and are not over."""

    of_subject: int
    of_tenant: int


class ApprovalSource(Protocol):
    """What is on record. What is not there is not in the answer. Each is asked once for a batch."""

    def find_requests(self, keys: Sequence[Key]) -> Mapping[Key, Known]:
        """By tenant and id."""
        ...

    def find_waiting(self, keys: Sequence[Key]) -> Mapping[Key, str]:
        """Ids of requests written down as pending, also those that are over, by tenant and dedupe key."""
        ...

    def find_grants(self, keys: Sequence[Key]) -> Mapping[Key, Grant]:
        """By tenant and id of the request."""
        ...

    def find_denied(self, keys: Sequence[Key]) -> set[DeniedCall]:
        """The denials of these (tenant, fingerprint)."""
        ...

    def count_pending(self, keys: Sequence[Key], now_ms: int) -> Mapping[Key, PendingCounts]:
        """By tenant and subject key; an answer for each."""
        ...


@dataclass(slots=True)
class Changes:
    """What is to be written in the end."""

    new: dict[Key, NewApproval] = field(default_factory=dict)
    moved: dict[Key, int] = field(default_factory=dict)
    """Requests that are another version than on record, and which version that is."""
    votes: list[tuple[str, Vote, int]] = field(default_factory=list)
    """(tenant, vote, version of the request with it)."""
    new_grants: set[Key] = field(default_factory=set)
    moved_grants: dict[Key, Grant] = field(default_factory=dict)
    """As they are on record."""
    denials: list[Denial] = field(default_factory=list)
    touched: dict[Key, None] = field(default_factory=dict)
    """Requests of which anything changed, in the order of their last change."""


class ApprovalBatch:
    """The approvals that some units name."""

    def __init__(self, source: ApprovalSource, units: Sequence[CommitUnit], now_ms: int) -> None:
        """Read them. `now_ms` is when the batch is recorded: by it is judged what is over."""
        self._now_ms = now_ms
        self.changes = Changes()
        asked = [unit.asks for unit in units if unit.asks is not None]
        moves = [move for unit in units for move in unit.moves]
        keys = [request_key(move.after) for move in moves]
        self.requests = dict(source.find_requests(_sorted([*keys, *map(_new_key, asked)])))
        self._waiting = dict(source.find_waiting(_sorted(map(_dedupe_key, asked))))
        self.grants = dict(source.find_grants(_sorted(_grant_keys(units))))
        granted = [*self.grants.values(), *(move.grant for move in moves if move.grant is not None)]
        self._denied = set(source.find_denied(_sorted(_denial_keys(units, granted))))
        counts = source.count_pending(_sorted(map(_subject_key, asked)), now_ms)
        self._of_subject = {key: found.of_subject for key, found in counts.items()}
        self._of_tenant = {key[0]: found.of_tenant for key, found in counts.items()}

    def check(self, unit: CommitUnit) -> ApprovalMoved | None:
        """Whether something of the unit does not hold any more. Changes nothing."""
        if unit.asks is not None and (moved := self._check_ask(unit.asks)) is not None:
            return moved
        for move in unit.moves:
            if not self._is_as_expected(move):
                return ApprovalMoved(request_id=move.after.id)
        if unit.consumes is not None and self._used(unit, unit.consumes) is None:
            return ApprovalMoved(request_id=unit.consumes.request_id)
        if unit.voids is not None and self._voided(unit.voids) is None:
            return ApprovalMoved(request_id=unit.voids.request_id)
        return None

    def add(self, unit: CommitUnit) -> None:
        """Do what has just been found to hold."""
        if unit.asks is not None:
            self._ask(unit.asks)
        for move in unit.moves:
            self._move(move)
        if unit.consumes is not None and unit.consumes.takes:
            key = (unit.event.tenant, unit.consumes.request_id)
            self._change_grant(key, self._used(unit, unit.consumes))
        if unit.voids is not None:
            self._change_grant((unit.voids.tenant, unit.voids.request_id), self._voided(unit.voids))

    def _check_ask(self, asks: NewApproval) -> ApprovalMoved | None:
        waiting = self._waiting.get(_dedupe_key(asks))
        if waiting is not None:
            # One that is over keeps it out as well: its end is a record of its own, to be written first.
            return ApprovalMoved(request_id=waiting)
        if _new_key(asks) in self.requests:
            return ApprovalMoved(request_id=asks.request.id)
        subject, tenant = _subject_key(asks), asks.request.asked.requester.tenant
        is_full = (
            self._of_subject[subject] >= asks.pending_per_subject
            or self._of_tenant[tenant] >= asks.pending_per_tenant
        )
        return ApprovalMoved() if is_full else None

    def _ask(self, asks: NewApproval) -> None:
        key = _new_key(asks)
        self.changes.new[key] = asks
        self.requests[key] = Known(request=asks.request, subject_key=asks.subject_key)
        self._waiting[_dedupe_key(asks)] = asks.request.id
        if asks.request.expires_at_ms > self._now_ms:
            self._count(_subject_key(asks), 1)
        self._touch(key)

    def _is_as_expected(self, move: Move) -> bool:
        """Whether it is of the version that was judged, and still waits where somebody answers."""
        known = self.requests.get(request_key(move.after))
        if known is None or known.request.version != move.expected_version:
            return False
        before, after = known.request, move.after
        if _with_outcome(before, after) != after:
            # It is about something else than people were shown.
            return False
        is_over = before.expires_at_ms <= self._now_ms
        return before.state is move.source and is_over is (move.by is By.TIME)

    def _move(self, move: Move) -> None:
        key, after = request_key(move.after), move.after
        known = self.requests[key]
        before = known.request
        if key not in self.changes.new:
            self.changes.moved.setdefault(key, before.version)
        self.requests[key] = replace(known, request=after)
        if after.state is not ApprovalState.PENDING:
            self._waiting.pop((key[0], before.dedupe_key), None)
            if before.expires_at_ms > self._now_ms:
                self._count((key[0], known.subject_key), -1)
        if move.vote is not None:
            self.changes.votes.append((key[0], move.vote, after.version))
        if move.grant is not None:
            self.grants[key] = move.grant
            self.changes.new_grants.add(key)
        if move.denial is not None:
            self._denied.add((move.denial.tenant, move.denial.session, move.denial.fingerprint))
            self.changes.denials.append(move.denial)
        self._touch(key)

    def _used(self, unit: CommitUnit, consumption: Consumption) -> Grant | None:
        grant = self.grants.get((unit.event.tenant, consumption.request_id))
        if grant is None:
            return None
        requester = grant.asked.requester
        if any(
            (requester.tenant, requester.session, fingerprint) in self._denied
            for fingerprint in _fingerprints(consumption, grant)
        ):
            return None
        return use(grant, consumption, self._now_ms)

    def _voided(self, void: GrantVoid) -> Grant | None:
        grant = self.grants.get((void.tenant, void.request_id))
        if grant is None or grant_state_at(grant, self._now_ms) is not ApprovalState.APPROVED:
            return None
        return replace(grant, voided_at_ms=void.voided_at_ms, voided_by=void.voided_by)

    def _change_grant(self, key: Key, after: Grant | None) -> None:
        if after is None:
            raise ValueError("the unit was not found to hold")
        if key not in self.changes.new_grants:
            self.changes.moved_grants.setdefault(key, self.grants[key])
        self.grants[key] = after
        self._touch(key)

    def _count(self, subject: Key, by: int) -> None:
        if subject in self._of_subject:
            self._of_subject[subject] += by
        if subject[0] in self._of_tenant:
            self._of_tenant[subject[0]] += by

    def _touch(self, key: Key) -> None:
        self.changes.touched.pop(key, None)
        self.changes.touched[key] = None


def touches_approvals(unit: CommitUnit) -> bool:
    """Whether the unit depends on approvals, or writes any."""
    return bool(unit.asks or unit.consumes or unit.moves or unit.voids)


def request_key(request: ApprovalRequest) -> Key:
    """By what it is known."""
    return (request.asked.requester.tenant, request.id)


def _with_outcome(request: ApprovalRequest, after: ApprovalRequest) -> ApprovalRequest:
    """What a move may make of a request: nothing of what was asked for changes."""
    return replace(
        request,
        state=after.state,
        version=after.version,
        closed_at_ms=after.closed_at_ms,
        closed_by=after.closed_by,
    )


def _new_key(asks: NewApproval) -> Key:
    return request_key(asks.request)


def _dedupe_key(asks: NewApproval) -> Key:
    return (asks.request.asked.requester.tenant, asks.request.dedupe_key)


def _subject_key(asks: NewApproval) -> Key:
    return (asks.request.asked.requester.tenant, asks.subject_key)


def _grant_keys(units: Iterable[CommitUnit]) -> Iterator[Key]:
    for unit in units:
        if unit.consumes is not None:
            yield (unit.event.tenant, unit.consumes.request_id)
        if unit.voids is not None:
            yield (unit.voids.tenant, unit.voids.request_id)


def _denial_keys(units: Iterable[CommitUnit], grants: Sequence[Grant]) -> Iterator[Key]:
    used = [(unit.event.tenant, unit.consumes) for unit in units if unit.consumes is not None]
    if not used:
        return
    for grant in grants:
        yield (grant.asked.requester.tenant, grant.asked.fingerprint)
    for tenant, consumption in used:
        yield (tenant, consumption.fingerprint)


def _fingerprints(consumption: Consumption, grant: Grant) -> set[str]:
    """Of the call that uses the grant. One for several calls says nothing of which call it is."""
    found = {consumption.fingerprint}
    return found if grant.scope.kind is ScopeKind.SESSION else {*found, grant.asked.fingerprint}


def _sorted(keys: Iterable[Key]) -> list[Key]:
    return sorted(set(keys))

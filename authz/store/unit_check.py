"""What no store could take, refused before it can fail a batch that others share."""

from collections.abc import Sequence
from typing import Final

from authz.core.limits import MAX_RESERVATIONS
from authz.core.log_chain import check_event
from authz.errors import StoreUnavailable
from authz.model.capability import LinkRecord, RevocationRecord
from authz.model.limit import Reservation
from authz.model.operation import OperationWrite
from authz.ports import CommitUnit
from authz.store.account_check import check_accounts
from authz.store.approval_batch import touches_approvals
from authz.store.approval_check import check_approvals
from authz.store.capability_rows import link_row, revocation_row
from authz.store.notice_rows import notice_row
from authz.store.operation_rows import parse_basis, write_basis
from authz.store.row_check import LAST_INTEGER, check_numbers, check_texts

MAX_ROWS: Final = 4096
"""Links, or revocations, or delegated sessions, or notices, of one unit."""
MAX_NOTICE_BYTES: Final = 64 * 1024


def check_unit(unit: CommitUnit) -> None:
    """Refuse a unit that no store could take.

    Raises `StoreUnavailable` (`store.unwritable`): the decision that needs this record is not given.
    """
    try:
        check_event(unit.event)
        if unit.operation is not None:
            _check_operation(unit.operation)
        if unit.reservations:
            _check_reservations(unit.reservations)
        if unit.exposure is not None:
            check_texts(unit.exposure.session_key, *unit.exposure.labels)
        if unit.proof is not None:
            check_texts(unit.proof.key)
            check_numbers(unit.proof.until_ms)
        if unit.links or unit.revocations or unit.delegated or unit.releases:
            _check_capabilities(unit)
        if touches_approvals(unit) or unit.kept:
            check_approvals(unit)
        if unit.notices:
            _check_notices(unit)
        if unit.accounts:
            check_accounts(unit)
    except (ValueError, TypeError, RecursionError) as fault:
        raise StoreUnavailable("the record cannot be written", code="store.unwritable") from fault


def _check_operation(write: OperationWrite) -> None:
    check_texts(write.tenant, write.key, write.fingerprint, str(write.state), write.decision_id)
    check_texts(write.attempt, write.external_id, write.result_digest, write.approval)
    if parse_basis(write_basis(write.basis)) != write.basis:
        raise ValueError("what the operation rests on would be read as something else")
    if not all(0 <= at_ms <= LAST_INTEGER for at_ms in (write.expires_at_ms, write.first_at_ms)):
        raise ValueError("`expires_at_ms` does not fit")
    if not 0 <= write.settled_at_ms <= LAST_INTEGER:
        raise ValueError("`settled_at_ms` does not fit")
    if write.expected_version is not None and not 0 < write.expected_version < LAST_INTEGER:
        raise ValueError("`expected_version` does not fit")


def _check_reservations(reservations: Sequence[Reservation]) -> None:
    if len(reservations) > MAX_RESERVATIONS:
        raise ValueError("more reservations than one call may take")
    if len({taken.key for taken in reservations}) < len(reservations):
        # Each would be compared with the cap as if the other were not there.
        raise ValueError("two reservations of one counter")
    for taken in reservations:
        check_texts(taken.tenant, taken.limit, taken.key)
        numbers = (taken.amount, taken.cap, taken.window_ms, taken.expires_at_ms)
        if not all(0 <= number <= LAST_INTEGER // 4 for number in numbers):
            raise ValueError("a reservation does not fit")


def _check_capabilities(unit: CommitUnit) -> None:
    check_texts(unit.releases)
    if max(len(unit.links), len(unit.revocations), len(unit.delegated)) > MAX_ROWS:
        raise ValueError("more than one unit may add")
    for exposure in unit.delegated:
        check_texts(exposure.session_key, *exposure.labels)
    for link in unit.links:
        _check_link(link, unit.event.tenant)
    for revoked in unit.revocations:
        _check_revocation(revoked, unit.event.tenant)


def _check_link(link: LinkRecord, tenant: str) -> None:
    if link.tenant != tenant:
        raise ValueError("a link of another tenant")
    check_texts(*(value for value in link_row(link) if isinstance(value, str)))
    check_numbers(link.depth, link.issued_at_ms, link.expires_at_ms)


def _check_revocation(revoked: RevocationRecord, tenant: str) -> None:
    if revoked.tenant != tenant:
        raise ValueError("a revocation of another tenant")
    check_texts(*(value for value in revocation_row(revoked, 0) if isinstance(value, str)))
    check_numbers(revoked.until_ms, revoked.revoked_at_ms)


def _check_notices(unit: CommitUnit) -> None:
    if len(unit.notices) > MAX_ROWS:
        raise ValueError("more than one unit may add")
    for notice in unit.notices:
        if notice.tenant != unit.event.tenant or len(notice.body) > MAX_NOTICE_BYTES:
            raise ValueError("a notice of another tenant, or too large a one")
        check_texts(*(value for value in notice_row(notice) if isinstance(value, str)))
        check_numbers(notice.at_ms)

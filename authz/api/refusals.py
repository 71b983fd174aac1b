"""Refusals before a decision: a record when the caller is known, a metric always (spec section 2)."""

import logging
from typing import Final

from authz.api.problems import INTERNAL, status_of
from authz.errors import ApprovalRefused, AuthzError, CapabilityDenied, StoreUnavailable
from authz.model.caller import Caller
from authz.ports import RequestObserver
from authz.service.decide import DecisionService

logger = logging.getLogger("authz.api")

_FAULT_OF_OURS: Final = 500


async def refuse(
    error: AuthzError, caller: Caller | None, service: DecisionService, observer: RequestObserver
) -> AuthzError:
    """Count and record a refusal; returns the error to answer with.

    A refusal that could not be recorded is answered with the store's error, so that none goes out
    without its record; a fault of ours stays one, recorded or not.
    """
    status, _ = status_of(error)
    if status == _FAULT_OF_OURS:
        # What went wrong stands in the service's own log, not in the callers'.
        error = AuthzError(INTERNAL)
    observer.refused(error.code)
    if caller is None or isinstance(error, StoreUnavailable | CapabilityDenied | ApprovalRefused):
        # A store that is unavailable takes no record now; what was denied of a capability, or changed nothing
        # about an approval, has its own.
        return error
    try:
        await service.record_refusal(caller, error, status)
    except AuthzError as unrecorded:
        return error if status == _FAULT_OF_OURS else unrecorded
    except Exception:
        logger.exception("a refusal could not be recorded")
        return AuthzError(INTERNAL)
    return error

"""Tells the log of values that met a fault of ours while they were read.

Reading is pure and never raises: such a value is an `Opaque` that policy judges, which fails closed and says
nothing to those who could mend it.
"""

import logging

from authz.core.canonical.opaque import FAILED
from authz.model.decision import Decision

logger = logging.getLogger("authz.service")


def log_faults(decision: Decision) -> None:
    """One line for a decision about such values. By their digests: what they say may be secret."""
    found = [
        verdict.access.resource.entity.id
        for verdict in decision.verdicts
        if str(verdict.access.resource.entity.attributes.get("reason", "")).endswith(f".{FAILED}")
    ]
    if found:
        logger.error(
            "a value could not be read, which is a fault of this program: it was judged as opaque",
            extra={"decision_id": decision.decision_id, "values": found[:10], "count": len(found)},
        )

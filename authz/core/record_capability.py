"""What a record says of the capability that a call presents, and of what an allow takes of counters."""

from typing import Any

from authz.core.cedar_context import rfc3339
from authz.core.redact import Redactor
from authz.model.call import Call
from authz.model.capability import CapabilityFacts, CapabilityRefused
from authz.model.limit import Reservation


def capability_member(
    call: Call, found: CapabilityFacts, refused: CapabilityRefused | None, redactor: Redactor
) -> dict[str, Any]:
    """What was presented, and by which entries of the leaf it allowed the accesses; or why it was refused."""
    told: dict[str, Any] = {"presented": bool(call.capability), "holder": found.holder}
    if found.presented:
        told |= {
            "root": found.root,
            "depth": found.depth,
            "expires_at": rfc3339(found.expires_at_ms) if found.expires_at_ms is not None else None,
            # Identifiers and names that holders chose: they may hold anything.
            "links": [
                {name: redactor.text(value) for name, value in link.as_json.items()} for link in found.handles
            ],
            "entries": list(found.used),
        }
    if refused is not None:
        told["refused"] = {
            "reason": refused.reason,
            "link": refused.link,
            "agent": refused.agent,
            "component": refused.component,
        }
    return told


def counter_member(taken: Reservation) -> dict[str, Any]:
    """One counter of a limit or a budget, and what is taken of it."""
    return {
        "limit": taken.limit,
        "per": dict(taken.partition),
        "amount": taken.amount,
        "cap": taken.cap,
        "window_ms": taken.window_ms,
        "counter": taken.key,
    }

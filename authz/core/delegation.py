"""Who was delegated: a session that once was acts only with its capability, whatever it says of itself later.

What is remembered of it are labels in the exposure of its session or trace (`DELEGATED`). They are told to no
policy as labels: `context.session.delegated` says what they mean.
"""

from collections.abc import Set

from authz.core.facts import Facts
from authz.model.call import Call
from authz.model.capability import DELEGATED, CapabilityFacts


def delegated_label(agent: str) -> str:
    """The label of a session or trace in which `agent` is delegated, and others perhaps not."""
    return f"{DELEGATED}:{agent}"


def is_marked(labels: Set[str], agent: str) -> bool:
    """Whether what is remembered of a call's session and trace says that `agent` is delegated there."""
    return DELEGATED in labels or delegated_label(agent) in labels


def without_marks(labels: frozenset[str]) -> frozenset[str]:
    """The labels of what was really read."""
    marks = {label for label in labels if label.startswith(DELEGATED)}
    return labels - marks if marks else labels


def is_delegated(call: Call, facts: Facts, capability: CapabilityFacts) -> bool:
    """What policies see as `context.session.delegated`."""
    return call.delegated or facts.delegated or was_handed_on(call, capability)


def was_handed_on(call: Call, capability: CapabilityFacts) -> bool:
    """Whether the call presents a capability that somebody else had first, be it accepted or not."""
    return len(call.capability) > 1 or bool(capability.depth)

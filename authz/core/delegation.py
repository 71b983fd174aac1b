"""Who was delegated: a session that once was acts only with its capability, whatever it says of itself later.

What is remembered of it are labels in the exposure of its session or trace (`DELEGATED`). They are told to no
policy as labels: `context.session.delegated` says what they mean.
"""

from collections.abc import Set
from typing import Final

from authz.core.facts import Facts
from authz.model.call import Call
from authz.model.capability import DELEGATED, CapabilityFacts

_MARK: Final = "authz:"


def delegated_label(agent: str) -> str:
    """The label of a session in which `agent` is delegated, and others perhaps not."""
    return f"{DELEGATED}:{agent}"


def delegated_trace_label(agent: str) -> str:
    """The same of a trace. Another text, so that labels of both together tell which of the two is marked."""
    return f"{DELEGATED}-trace:{agent}"


def is_marked(labels: Set[str], agent: str) -> bool:
    """Whether what is remembered of a call's session and trace says that `agent` is delegated there."""
    return not labels.isdisjoint((DELEGATED, delegated_label(agent), delegated_trace_label(agent)))


def without_marks(labels: frozenset[str]) -> frozenset[str]:
    """The labels of what was really read. No tool's label can begin as the service's own marks do."""
    marks = {label for label in labels if label.startswith(_MARK)}
    return labels - marks if marks else labels


def is_delegated(call: Call, facts: Facts, capability: CapabilityFacts) -> bool:
    """What policies see as `context.session.delegated`."""
    return call.delegated or facts.delegated or was_handed_on(call, capability)


def proves_delegation(call: Call, capability: CapabilityFacts) -> bool:
    """Whether the call's agent is to be remembered as a delegated one.

    By what is said of itself, or by a chain that it proved to hold: that anybody could send the chain of
    another, or one that is none, must not turn an agent into a child.
    """
    if call.delegated:
        return True
    own = capability.holder is not None and capability.agents[-1:] == (call.subject.agent,)
    return own and bool(capability.depth)


def was_handed_on(call: Call, capability: CapabilityFacts) -> bool:
    """Whether the call presents a capability that somebody else had first, be it accepted or not."""
    return len(call.capability) > 1 or bool(capability.depth)

"""Stage 4 of an explanation: what became of arguments, accesses, claims and provenance, and why."""

from collections.abc import Mapping
from functools import partial
from typing import Any

from authz.core.decide import Outcome, check_arguments
from authz.core.facts import Facts
from authz.core.pointer import format_pointer, leaves
from authz.core.provenance import judge_leaves
from authz.model.call import Call
from authz.model.decision import Access, Decision, Stage

Told = tuple[str, dict[str, Any], dict[str, Any]]
"""(summary, input, output)."""


def canonical_told(call: Call, facts: Facts, outcome: Outcome) -> Told:
    """What stage 4 took and gave."""
    decision = outcome.decision
    given = {
        "cwd": call.claims.cwd,
        "sandbox_root": call.claims.sandbox_root,
        "resolved": {
            pointer: {"path": claim.path, "device": claim.device, "inode": claim.inode}
            for pointer, claim in call.claims.resolved.items()
        },
    }
    found: dict[str, Any] = {"claims": _claims(call, facts, outcome)}
    if decision.stage is Stage.CANONICAL:
        errors = [{"pointer": error.pointer, "message": error.message} for error in decision.errors]
        return decision.message, given, found | {"errors": errors}
    found["rewritten"] = _rewritten(call, facts, decision)
    found["accesses"] = [_access(access) for access in decision.accesses]
    found["provenance"] = _provenance(call, facts, decision)
    level = decision.authority.name if decision.authority is not None else "A3"
    return f"{counted(len(decision.accesses), 'access', 'accesses')}, at most {level}", given, found


def _rewritten(call: Call, facts: Facts, decision: Decision) -> list[dict[str, Any]]:
    """Leaves whose canonical form is not what was written."""
    written = check_arguments(call, facts.ruleset.tools[(call.server, call.tool)])
    if not isinstance(written, Mapping) or decision.arguments is None:
        return []
    canonical = dict(leaves(decision.arguments))
    return [
        {"pointer": format_pointer(tokens), "written": value, "canonical": canonical[tokens]}
        for tokens, value in leaves(written)
        if tokens in canonical and canonical[tokens] != value
    ]


def _claims(call: Call, facts: Facts, outcome: Outcome) -> list[dict[str, Any]]:
    believed = outcome.believed
    if believed is None:
        return []
    profile = facts.caller.profile
    told = []
    for name, value in (("cwd", call.claims.cwd), ("sandbox_root", call.claims.sandbox_root)):
        if value is not None:
            holds = name not in believed.disbelieved
            where = ", ".join(profile.sandboxes) or "nowhere"
            word = "lies within" if holds else "does not lie within"
            because = f"{word} what profile `{profile.name}` may declare: {where}"
            told.append({"claim": name, "value": value, "believed": holds, "because": because})
    if call.claims.resolved:
        word = "may" if believed.resolved else "may not"
        because = f"profile `{profile.name}` {word} say where paths really lie; both forms are judged anyway"
        told.append({"claim": "resolved", "value": None, "believed": believed.resolved, "because": because})
    return told


def _access(access: Access) -> dict[str, Any]:
    return {
        "verb": access.verb.value,
        "resource": access.resource.entity.cedar,
        "uri": access.resource.uri,
        "scope": access.scope.value,
        **({"pattern": access.pattern.text} if access.pattern is not None else {}),
        "authority": access.authority.name,
        "because": access.authority_because,
        "argument": access.argument,
        "role": access.role,
        "resolved": access.resolved,
        "opaque_because": access.resource.entity.attributes.get("reason")
        if access.resource.kind == "opaque"
        else None,
    }


def _provenance(call: Call, facts: Facts, decision: Decision) -> list[dict[str, Any]]:
    tool = facts.ruleset.tools[(call.server, call.tool)]
    profile = facts.caller.profile
    exposed = facts.exposed if call.subject.session is not None else facts.ruleset.every_label
    judged = judge_leaves(
        call,
        decision.arguments or {},
        tool.roles,
        profile,
        exposed,
        partial(facts.ruleset.returns_of, profile.name),
    )
    return [
        {
            "pointer": format_pointer(leaf.tokens),
            "role": leaf.role,
            "source": leaf.source,
            "declared_source": leaf.not_believed,
            "trust": "untrusted" if leaf.untrusted_because else "trusted",
            "because": leaf.untrusted_because,
            "secret": leaf.secret,
        }
        for leaf in judged
    ]


def counted(number: int, one: str, many: str = "") -> str:
    """`1 access`, `2 accesses`."""
    return f"{number} {one if number == 1 else many or one + 's'}"

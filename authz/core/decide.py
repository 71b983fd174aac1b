"""The decision: stages 2 to 9 of the contract, in that order, readable as one short function.

Stages 0 (authenticate), 1 (parse) and 10 (commit) need the outside and belong to
`authz.service.decide`. Facts and time come in as arguments; nothing here reads or writes.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from authz_client.capabilities import VerifiedProof

from authz.core.answer import denied, exposes_of, live_permission, reserve
from authz.core.approval_use import match_approval
from authz.core.capability import check_capability, known_of
from authz.core.claims import BelievedClaims, check_claims
from authz.core.facts import Draft, Facts, Judgement
from authz.core.judge import evaluate_policy
from authz.core.operation import check_operation, check_outcome, draft_of
from authz.core.possession import Held, check_possession
from authz.core.provenance import ArgumentProvenance, check_provenance
from authz.core.ruleset import Tool
from authz.core.tools import canonicalize_call
from authz.core.visibility import hidden_because
from authz.model.approval_request import Consumption
from authz.model.call import Call
from authz.model.capability import NO_CAPABILITY, CapabilityFacts
from authz.model.decision import Code, Decision, Effect, Next, Refusal, Stage

__all__ = ["Facts", "Outcome", "decide"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """A decision with what the record needs and the wire must not show."""

    decision: Decision
    provenance: ArgumentProvenance | None = None
    believed: BelievedClaims | None = None
    capability: CapabilityFacts = NO_CAPABILITY
    """What was checked; where stage 6 refused, what is known of the chain that was presented."""
    proof: VerifiedProof | None = None
    """A proof of possession that holds, whatever came of the call: to be used up."""
    draft: Draft | None = None
    """What stages 4 and 5 came to."""
    judged: Judgement | None = None
    """What rules alone said (stage 7), before an approval or a limit: for the explanation."""
    consumption: Consumption | None = None
    """The use of an approval that the decision takes."""


def decide(call: Call, facts: Facts) -> Outcome:
    """Stages 2 to 9. Each returns a value or refuses; a refusal denies and names its stage."""
    if call.subject.session is None:
        # A session that is not named cannot be remembered, so it may have read anything.
        facts = replace(facts, exposed=facts.exposed | facts.ruleset.every_label)

    # 2. Find the tool; what this subject may not see is unknown to it.
    tool = find_tool(call, facts)
    if isinstance(tool, Refusal):
        return Outcome(decision=denied(call, facts, tool))

    if call.subject.session is not None and live_permission(facts) is not None:
        # A repeat gets its first decision back, and what that added to the session's exposure is no reason
        # not to: its answer may have been lost. Whatever else has changed since counts.
        facts = replace(facts, exposed=facts.exposed - exposes_of(tool))

    # 3. Validate the arguments and fill in defaults.
    arguments = check_arguments(call, tool)
    if isinstance(arguments, Refusal):
        return Outcome(decision=denied(call, facts, arguments, tool))

    # 4. Canonicalize arguments and accesses, within the claims that are believed.
    believed = check_claims(call.claims, facts.caller.profile)
    canonical = canonicalize_call(call, tool.descriptor, tool.roles, arguments, believed, facts.lines)
    if isinstance(canonical, Refusal):
        return Outcome(decision=denied(call, facts, canonical, tool), believed=believed)
    provenance = check_provenance(
        call,
        canonical.arguments,
        tool.roles,
        facts.caller.profile,
        facts.exposed,
        partial(facts.ruleset.returns_of, facts.caller.profile.name),
    )

    # 5. Fingerprint, and look the operation up.
    draft = draft_of(call, facts, tool, canonical, believed)
    conflict = check_operation(call, facts, draft, tool)
    if conflict is not None:
        return Outcome(
            decision=denied(call, facts, conflict, tool, draft),
            provenance=provenance,
            believed=believed,
            draft=draft,
        )

    # 6. Check the capability: its absence is a fact that policies see.
    held = check_possession(call, facts)
    capability = held if isinstance(held, Refusal) else check_capability(call, facts, tool, canonical, held)
    proof = held.proof if isinstance(held, Held) else None
    if isinstance(capability, Refusal):
        return Outcome(
            decision=denied(call, facts, capability, tool, draft),
            provenance=provenance,
            believed=believed,
            capability=known_of(call, facts, proof),
            proof=proof,
            draft=draft,
        )

    # 7. Evaluate policy for each access and each agent of the chain, and take the meet.
    judged = evaluate_policy(call, facts, tool, canonical, believed, provenance, capability)

    # 5, once more: what ran before is not run again, and what came of it is told once 6 and 7 have passed.
    settled = check_outcome(facts, judged)
    if settled is not None:
        return Outcome(
            decision=replace(denied(call, facts, settled, tool, draft), verdicts=judged.verdicts),
            provenance=provenance,
            believed=believed,
            capability=capability,
            proof=proof,
            draft=draft,
            judged=judged,
        )

    # 8. Match an approval where a rule asks.
    answered = match_approval(call, facts, tool, draft, judged, provenance, capability)
    if isinstance(answered, Refusal):
        refused = denied(call, facts, answered, tool, draft)
        return Outcome(
            decision=replace(refused, verdicts=judged.verdicts, overruled=judged.matched),
            provenance=provenance,
            believed=believed,
            capability=capability,
            proof=proof,
            draft=draft,
            judged=judged,
        )

    # 9. Reserve, only if the answer would be allow; a repeat gets its first decision back.
    decision = reserve(call, facts, tool, draft, answered, capability)
    uses = decision.effect is Effect.ALLOW and not call.dry_run
    return Outcome(
        decision=decision,
        provenance=provenance,
        believed=believed,
        capability=capability,
        proof=proof,
        draft=draft,
        judged=judged,
        consumption=answered.consumption if uses else None,
    )


def find_tool(call: Call, facts: Facts) -> Tool | Refusal:
    """Stage 2. An unbound alias, an unknown name and a hidden tool get the same answer."""
    ruleset = facts.ruleset
    tool = ruleset.tools.get((call.server, call.tool))
    if tool is None:
        return _unknown("no such tool in the bundle")
    descriptor = tool.descriptor
    if facts.caller.profile.name not in descriptor.server.profiles:
        return _unknown("the server is not bound to this credential")
    hidden = hidden_because(ruleset, tool, call.subject.agent, call.subject.on_behalf_of)
    if hidden is not None:
        return _unknown(hidden)
    if call.advertised_digest is None:
        if descriptor.server.local:
            return tool
        return Refusal(
            stage=Stage.TOOL,
            code=Code.TOOL_DIGEST_REQUIRED,
            message="send `tool.advertised_digest`: this server is not local",
            next=(Next.ESCALATE, Next.STOP),
        )
    if descriptor.advertised_digest is not None and call.advertised_digest != descriptor.advertised_digest:
        return Refusal(
            stage=Stage.TOOL,
            code=Code.TOOL_CHANGED,
            message="the tool is not the one that was reviewed: its server advertises another definition",
            next=(Next.ESCALATE, Next.STOP),
        )
    return tool


def _unknown(internal: str) -> Refusal:
    return Refusal(
        stage=Stage.TOOL,
        code=Code.TOOL_UNKNOWN,
        message="there is no such tool here",
        next=(Next.STOP,),
        internal=internal,
    )


def check_arguments(call: Call, tool: Tool) -> Mapping[str, Any] | Refusal:
    """Stage 3."""
    checked = tool.schema.check(call.arguments)
    if not isinstance(checked, tuple):
        return checked
    return Refusal(
        stage=Stage.SCHEMA,
        code=Code.SCHEMA_INVALID,
        message="; ".join(error.message for error in checked),
        next=(Next.CHANGE_ARGUMENTS, Next.STOP),
        errors=checked,
    )

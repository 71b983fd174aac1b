"""The decision: stages 2 to 9 of the contract, in that order, readable as one short function.

Stages 0 (authenticate), 1 (parse) and 10 (commit) need the outside and belong to
`authz.service.decide`. Facts and time come in as arguments; nothing here reads or writes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from authz.core.cedar_context import ContextFacts
from authz.core.cedar_request import entities_document, question
from authz.core.claims import BelievedClaims, check_claims
from authz.core.fingerprint import call_fingerprint, canonical_json, keyed_digest
from authz.core.provenance import UNTRUSTED, ArgumentProvenance, check_provenance
from authz.core.ruleset import Ruleset, Tool
from authz.core.tools import CanonicalCall, canonicalize_call
from authz.core.visibility import hidden_because
from authz.model.approval import ApprovalGrant
from authz.model.call import Call
from authz.model.caller import Caller
from authz.model.capability import NO_CAPABILITY, CapabilityFacts
from authz.model.decision import (
    AccessVerdict,
    Code,
    Decision,
    Effect,
    Lease,
    Next,
    Refusal,
    RuleKind,
    RuleMatch,
    Stage,
    strictest,
)
from authz.model.operation import OperationRecord, OperationState
from authz.model.resource import Authority, Scope
from authz.model.tool import Trust

TREE_RULE: Final = RuleMatch(
    rule="authz:tree",
    kind=RuleKind.ASK,
    reason="the call reaches everything beneath its resource, which is not judged item by item",
)
CALLER_RULE: Final = RuleMatch(
    rule="authz:caller-asked", kind=RuleKind.ASK, reason="the caller asked for a person to look"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """Everything a decision depends on besides the call: same call and facts, same decision."""

    caller: Caller
    ruleset: Ruleset
    now_ms: int
    decision_id: str
    operation: OperationRecord | None
    """The operation of the call's identity, as the store knows it."""
    exposed: frozenset[str]
    """Labels that the call's session has been exposed to."""
    approvals: tuple[ApprovalGrant, ...]
    secret: bytes
    """Key of idempotency keys and lease tokens."""
    ttl_ms: int
    """How long an allow, and the lease that comes with it, lasts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """What stages 6 to 8 come to."""

    effect: Effect
    stage: Stage
    code: Code
    matched: tuple[RuleMatch, ...]
    overruled: tuple[RuleMatch, ...]
    verdicts: tuple[AccessVerdict, ...]
    internal: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """A decision with what the record needs and the wire must not show."""

    decision: Decision
    provenance: ArgumentProvenance | None = None
    believed: BelievedClaims | None = None
    capability: CapabilityFacts = NO_CAPABILITY


def decide(call: Call, facts: Facts) -> Outcome:
    """Stages 2 to 9. Each returns a value or refuses; a refusal denies and names its stage."""
    # 2. Find the tool; what this subject may not see is unknown to it.
    tool = find_tool(call, facts)
    if isinstance(tool, Refusal):
        return Outcome(decision=_denied(call, facts, tool))

    # 3. Validate the arguments and fill in defaults.
    arguments = check_arguments(call, tool)
    if isinstance(arguments, Refusal):
        return Outcome(decision=_denied(call, facts, arguments, tool))

    # 4. Canonicalize arguments and accesses, within the claims that are believed.
    believed = check_claims(call.claims, facts.caller.profile)
    canonical = canonicalize_call(call, tool.descriptor, tool.roles, arguments, believed)
    if isinstance(canonical, Refusal):
        return Outcome(decision=_denied(call, facts, canonical, tool), believed=believed)
    provenance = check_provenance(call, canonical.arguments, tool.roles, facts.caller.profile, facts.exposed)

    # 5. Fingerprint, and look the operation up.
    draft = _draft(call, facts, tool, canonical, believed)
    conflict = check_operation(call, facts, draft)
    if conflict is not None:
        return Outcome(
            decision=_denied(call, facts, conflict, tool, draft), provenance=provenance, believed=believed
        )

    # 6. Check the capability: its absence is a fact that policies see.
    capability = check_capability(call)
    if isinstance(capability, Refusal):
        return Outcome(
            decision=_denied(call, facts, capability, tool, draft), provenance=provenance, believed=believed
        )

    # 7. Evaluate policy for each access and each agent of the chain, and take the meet.
    judged = evaluate_policy(call, facts, tool, canonical, believed, provenance, capability)

    # 8. Match an approval where a rule asks.
    judged = match_approval(call, facts, draft, judged)

    # 9. Reserve, only if the answer would be allow; a repeat gets its first decision back.
    decision = reserve(call, facts, tool, draft, judged)
    return Outcome(decision=decision, provenance=provenance, believed=believed, capability=capability)


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


@dataclass(frozen=True, slots=True, kw_only=True)
class _Draft:
    """What is known of the answer once the call is canonical."""

    fingerprint: str
    authority: Authority
    canonical: CanonicalCall
    idempotency_key: str
    lease_token: str


def _draft(
    call: Call, facts: Facts, tool: Tool, canonical: CanonicalCall, believed: BelievedClaims
) -> _Draft:
    tenant = facts.caller.tenant
    fingerprint = call_fingerprint(
        tenant=tenant,
        call=call,
        descriptor=tool.descriptor,
        arguments=canonical.arguments,
        accesses=canonical.accesses,
        cwd=believed.base.cwd,
        root=believed.base.root,
    )
    ids = call.ids
    # Without ids the decision itself is the identity: an A0 call may then run as often as it is asked.
    identity = (ids.trace or "", ids.turn or "", ids.call or "", "" if ids.complete else facts.decision_id)
    idempotency_key = keyed_digest(
        facts.secret,
        "idempotency",
        tenant,
        call.subject.agent,
        call.subject.on_behalf_of or "",
        call.subject.session or "",
        *identity,
        tool.descriptor.server.identity,
        tool.descriptor.name,
        canonical_json(canonical.arguments).decode(),
    )
    return _Draft(
        fingerprint=fingerprint,
        authority=max(access.authority for access in canonical.accesses),
        canonical=canonical,
        idempotency_key=idempotency_key,
        lease_token=keyed_digest(facts.secret, "lease", tenant, facts.decision_id),
    )


def check_operation(call: Call, facts: Facts, draft: _Draft) -> Refusal | None:
    """Stage 5. Above A0 the ids are mandatory; one identity has one fingerprint for ever."""
    if draft.authority > Authority.A0 and not call.ids.complete:
        return Refusal(
            stage=Stage.OPERATION,
            code=Code.OPERATION_IDS_REQUIRED,
            message="send `context.trace_id`, `turn_id` and `tool_call_id`: the call changes something",
            next=(Next.ESCALATE, Next.STOP),
        )
    operation = facts.operation
    if operation is None:
        return None
    if operation.fingerprint != draft.fingerprint:
        return Refusal(
            stage=Stage.OPERATION,
            code=Code.OPERATION_CONFLICT,
            message="these ids already belong to another call; send a new `context.tool_call_id`",
            next=(Next.QUERY_STATUS, Next.STOP),
        )
    # A permission that ran out may have been used: it is never given a second time by itself.
    # Reads may be retried.
    if _lapsed(operation, facts) and draft.authority > Authority.A0:
        return Refusal(
            stage=Stage.OPERATION,
            code=Code.OPERATION_EXPIRED,
            message="this call was allowed before and its time ran out; whether it ran is not known here",
            next=(Next.QUERY_STATUS, Next.ESCALATE, Next.STOP),
        )
    return None


def _lapsed(operation: OperationRecord, facts: Facts) -> bool:
    return operation.state is OperationState.RESERVED and operation.expires_at_ms <= facts.now_ms


def check_capability(call: Call) -> CapabilityFacts | Refusal:
    """Stage 6. What cannot be verified is refused, never ignored: ignoring it could widen the call."""
    if not call.capability and call.proof is None:
        return NO_CAPABILITY
    return Refusal(
        stage=Stage.CAPABILITY,
        code=Code.CAPABILITY_UNVERIFIED,
        message="this service cannot verify capabilities yet, so a call that presents one is refused",
        next=(Next.ESCALATE, Next.STOP),
    )


def evaluate_policy(
    call: Call,
    facts: Facts,
    tool: Tool,
    canonical: CanonicalCall,
    believed: BelievedClaims,
    provenance: ArgumentProvenance,
    capability: CapabilityFacts,
) -> Judgement:
    """Stage 7. What a parent may not do, no child may: the meet is over accesses and agents."""
    context = ContextFacts(
        call=call,
        descriptor=tool.descriptor,
        arguments=canonical.arguments,
        provenance=provenance,
        believed=believed,
        capability=capability,
        exposed=facts.exposed,
        now_ms=facts.now_ms,
    )
    agents = capability.agents or (call.subject.agent,)
    by_access: list[list[AccessVerdict]] = [[] for _ in canonical.accesses]
    internal = ""
    for agent in agents:
        entities = entities_document(
            facts.ruleset, agent, call.subject.on_behalf_of, tool, canonical.accesses
        )
        questions = [question(agent, tool, access, context) for access in canonical.accesses]
        for index, answer in enumerate(facts.ruleset.engine.evaluate(questions, entities)):
            access = canonical.accesses[index]
            internal = internal or answer.internal
            by_access[index].append(
                AccessVerdict(
                    access=access,
                    effect=answer.effect,
                    code=answer.code,
                    rules=answer.rules,
                    overruled=answer.overruled,
                )
            )
    verdicts = tuple(_raise_tree(_strictest_verdict(verdicts)) for verdicts in by_access)
    return _judge(verdicts, internal)


def _strictest_verdict(verdicts: Sequence[AccessVerdict]) -> AccessVerdict:
    if len(verdicts) == 1:
        return verdicts[0]
    effect = strictest([verdict.effect for verdict in verdicts])
    deciding = [verdict for verdict in verdicts if verdict.effect is effect]
    return replace(
        deciding[0],
        code=_worst_code(deciding),
        rules=_union(verdict.rules for verdict in deciding),
        overruled=_union(verdict.overruled for verdict in deciding),
    )


def _raise_tree(verdict: AccessVerdict) -> AccessVerdict:
    """A tree is judged at its root only, so far: an allow of one is a person's to give."""
    if verdict.access.scope is not Scope.TREE or verdict.effect is Effect.DENY:
        return verdict
    asking = verdict.rules if verdict.effect is Effect.REQUIRE_APPROVAL else ()
    permits = verdict.overruled if verdict.effect is Effect.REQUIRE_APPROVAL else verdict.rules
    return replace(
        verdict,
        effect=Effect.REQUIRE_APPROVAL,
        code=Code.APPROVAL_REQUIRED,
        rules=(*asking, TREE_RULE),
        overruled=permits,
    )


_CODE_ORDER: Final = (Code.POLICY_ERROR, Code.POLICY_FORBID, Code.POLICY_NO_MATCH)


def _worst_code(verdicts: Sequence[AccessVerdict]) -> Code:
    codes = [verdict.code for verdict in verdicts]
    return next((code for code in _CODE_ORDER if code in codes), codes[0])


def _judge(verdicts: tuple[AccessVerdict, ...], internal: str) -> Judgement:
    effect = strictest([verdict.effect for verdict in verdicts])
    deciding = [verdict for verdict in verdicts if verdict.effect is effect]
    return Judgement(
        effect=effect,
        stage=Stage.APPROVAL if effect is Effect.REQUIRE_APPROVAL else Stage.POLICY,
        code=_worst_code(deciding) if deciding else Code.POLICY_NO_MATCH,
        matched=_union(verdict.rules for verdict in deciding),
        overruled=_union(verdict.overruled for verdict in deciding),
        verdicts=verdicts,
        internal=internal,
    )


def _union(groups: Any) -> tuple[RuleMatch, ...]:
    found: dict[str, RuleMatch] = {}
    for rules in groups:
        for rule in rules:
            found.setdefault(rule.rule, rule)
    return tuple(found.values())


def match_approval(call: Call, facts: Facts, draft: _Draft, judged: Judgement) -> Judgement:
    """Stage 8. An approval lifts what was shown to its approver and asks now, and never a deny.

    `context.ask` raises an allow here, after policy: nothing that the requester says lowers anything.
    """
    if call.ask and judged.effect is Effect.ALLOW:
        judged = replace(
            judged,
            effect=Effect.REQUIRE_APPROVAL,
            stage=Stage.APPROVAL,
            code=Code.APPROVAL_REQUESTED,
            matched=(CALLER_RULE,),
            overruled=judged.matched,
        )
    if judged.effect is not Effect.REQUIRE_APPROVAL:
        return judged
    asking = {rule.rule for rule in judged.matched}
    granted = any(
        grant.fingerprint == draft.fingerprint and asking <= grant.rules for grant in facts.approvals
    )
    if not granted:
        return judged
    return replace(
        judged, effect=Effect.ALLOW, stage=Stage.APPROVAL, matched=judged.overruled, overruled=judged.matched
    )


def reserve(call: Call, facts: Facts, tool: Tool, draft: _Draft, judged: Judgement) -> Decision:
    """Stage 9. An allow carries the lease; a dry run reserves nothing."""
    decision = Decision(
        decision_id=facts.decision_id,
        effect=judged.effect,
        stage=judged.stage,
        code=judged.code,
        policy_version=facts.ruleset.version,
        request_digest=call.request_digest,
        matched=judged.matched,
        overruled=judged.overruled,
        internal=judged.internal,
        authority=draft.authority,
        side_effect=tool.descriptor.side_effect,
        verdicts=judged.verdicts,
        accesses=draft.canonical.accesses,
        arguments=draft.canonical.arguments,
        fingerprint=draft.fingerprint,
        descriptor_digest=tool.descriptor.digest,
    )
    if judged.effect is not Effect.ALLOW:
        return _explain(decision)
    decision = replace(decision, exposes=_exposes(tool))
    if call.dry_run:
        return replace(decision, expires_at_ms=facts.now_ms + facts.ttl_ms)
    operation = facts.operation
    if operation is not None and operation.state is OperationState.RESERVED and not _lapsed(operation, facts):
        # The same call again: its first decision and its first lease, not a second permission.
        token = keyed_digest(facts.secret, "lease", facts.caller.tenant, operation.decision_id)
        return replace(
            decision,
            decision_id=operation.decision_id,
            repeated=True,
            expires_at_ms=operation.expires_at_ms,
            idempotency_key=draft.idempotency_key,
            lease=Lease(token=token, expires_at_ms=operation.expires_at_ms),
        )
    expires_at_ms = facts.now_ms + facts.ttl_ms
    return replace(
        decision,
        expires_at_ms=expires_at_ms,
        idempotency_key=draft.idempotency_key,
        lease=Lease(token=draft.lease_token, expires_at_ms=expires_at_ms),
    )


def _exposes(tool: Tool) -> frozenset[str]:
    """What the session has been exposed to once the call has run: told from the descriptor."""
    returns = tool.descriptor.returns
    return returns.labels | ({UNTRUSTED} if returns.trust is Trust.UNTRUSTED else frozenset())


def _denied(
    call: Call, facts: Facts, refusal: Refusal, tool: Tool | None = None, draft: _Draft | None = None
) -> Decision:
    return Decision(
        decision_id=facts.decision_id,
        effect=Effect.DENY,
        stage=refusal.stage,
        code=refusal.code,
        policy_version=facts.ruleset.version,
        request_digest=call.request_digest,
        matched=refusal.matched,
        message=refusal.message,
        next=refusal.next,
        retry_unchanged=refusal.retry_unchanged,
        errors=refusal.errors,
        internal=refusal.internal,
        authority=draft.authority if draft else None,
        side_effect=tool.descriptor.side_effect if tool else None,
        accesses=draft.canonical.accesses if draft else (),
        arguments=draft.canonical.arguments if draft else None,
        fingerprint=draft.fingerprint if draft else None,
        descriptor_digest=tool.descriptor.digest if tool else None,
    )


def _explain(decision: Decision) -> Decision:
    """A refusal in words that a model can use, without internals."""
    names = ", ".join(f"`{rule.rule}`" for rule in decision.matched)
    reasons = " ".join(rule.reason.rstrip(".") + "." for rule in decision.matched if rule.reason)
    if decision.effect is Effect.REQUIRE_APPROVAL:
        return replace(
            decision,
            message=f"a person must approve this: {names}. {reasons}".strip(),
            next=(Next.ESCALATE, Next.STOP),
        )
    if decision.code is Code.POLICY_FORBID:
        text = f"forbidden by {names}. {reasons}".strip()
        return replace(decision, message=text, next=(Next.CHANGE_ARGUMENTS, Next.STOP))
    if decision.code is Code.POLICY_NO_MATCH:
        return replace(decision, message="no rule permits this", next=(Next.CHANGE_ARGUMENTS, Next.STOP))
    return replace(
        decision,
        message="a rule could not be evaluated, so the call is denied",
        next=(Next.ESCALATE, Next.STOP),
    )

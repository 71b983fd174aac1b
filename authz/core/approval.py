"""What an approval is about and where it stands (spec section 8).

Several modules, by what is asked of them: `approval_request` makes one of a decision that asks,
`approval_moves` has the one table of transitions, `approval_answers` says who may answer, `approval_quorum`
when the people of every rule have spoken, `approval_grants` what their yes comes to, `approval_match` which
later calls it permits, `approval_limits` how much a requester may ask.
"""

from collections.abc import Iterable, Sequence

from authz.core.delegation import is_delegated
from authz.core.facts import Facts
from authz.core.fingerprint import digest
from authz.core.ruleset import Tool
from authz.core.shown_types import OfferedScope, ShownArgument
from authz.model.approval import ApprovalState, AskTerms, GrantScope, Reach, ScopeKind
from authz.model.approval_request import (
    ApprovalRequest,
    AskedFor,
    Grant,
    LeafTrust,
    Requester,
    ToolIdentity,
)
from authz.model.call import Call
from authz.model.capability import CapabilityFacts
from authz.model.decision import Access, AccessVerdict, Effect, RuleMatch
from authz.model.resource import Authority, Scope, Verb


def asked_for(
    call: Call,
    facts: Facts,
    tool: Tool,
    capability: CapabilityFacts,
    *,
    fingerprint: str,
    authority: Authority,
    rules: Sequence[RuleMatch],
    arguments: Iterable[ShownArgument],
) -> AskedFor:
    """What an approval of this call is about. `arguments` are its leaves, as an approver is shown them."""
    descriptor, subject = tool.descriptor, call.subject
    return AskedFor(
        requester=Requester(
            tenant=facts.caller.tenant,
            agent=subject.agent,
            on_behalf_of=subject.on_behalf_of,
            session=subject.session,
            chain=capability.agents or (subject.agent,),
            parent_agent=subject.parent_agent,
            delegated=is_delegated(call, facts, capability),
            key_id=facts.caller.key_id,
        ),
        fingerprint=fingerprint,
        tool=ToolIdentity(
            server=descriptor.server.identity, name=descriptor.name, descriptor_digest=descriptor.digest
        ),
        authority=authority,
        rules=tuple(rules),
        provenance={
            argument["pointer"]: LeafTrust(
                untrusted=argument["untrusted"],
                secret=argument["secret"],
                labels=frozenset(argument["labels"]),
            )
            for argument in arguments
        },
    )


def dedupe_key(asked: AskedFor, arguments: Iterable[ShownArgument]) -> str:
    """Requests with the same one are the same to an approver: call, asking rules, shown provenance.

    Terms, authority and the chain of agents are in it as well, so that nobody joins a request that was made
    under milder ones, or that shows others.
    """
    return digest(
        {
            "tenant": asked.requester.tenant,
            "fingerprint": asked.fingerprint,
            "chain": [*asked.requester.chain, asked.requester.parent_agent],
            "authority": asked.authority.name,
            "rules": sorted(map(_rule_parts, asked.rules)),
            "provenance": {argument["pointer"]: _source_parts(argument) for argument in arguments},
        }
    )


def _rule_parts(rule: RuleMatch) -> list[str]:
    terms = rule.terms or AskTerms()
    ttl = "" if terms.ttl_seconds is None else str(terms.ttl_seconds)
    return [rule.rule, rule.reason, str(terms.quorum), terms.factor.value, ttl, *sorted(terms.approvers)]


def _source_parts(argument: ShownArgument) -> list[object]:
    named = [argument[name] for name in ("source", "uri", "call", "tool")]
    return [
        *named,
        argument.get("declared_source"),
        argument["untrusted"],
        argument["secret"],
        argument["labels"],
    ]


def resource_keys(asked: AskedFor, verdicts: Sequence[AccessVerdict]) -> frozenset[str]:
    """Under what asking again about the same resources is counted, whatever the session and arguments.

    Those that a rule asks about; where the caller itself asked, all. What was not understood is one resource
    for each tool: its text could be spelled anew each time.
    """
    asking = [verdict for verdict in verdicts if verdict.effect is Effect.REQUIRE_APPROVAL] or verdicts
    requester = asked.requester
    who = [requester.tenant, requester.agent, requester.on_behalf_of]
    return frozenset(digest([*who, *_named(asked.tool, verdict.access)]) for verdict in asking)


def _named(tool: ToolIdentity, access: Access) -> list[str]:
    if access.resource.kind == "opaque":
        return ["opaque", tool.server, tool.name]
    # A query can be spelled anew each time as well.
    return ["resource", access.resource.uri.partition("?")[0]]


def scope_of(offered: OfferedScope, accesses: Sequence[Access]) -> GrantScope:
    """A choice of the shown document, with what is known of the accesses that its reach was made from."""
    return GrantScope(
        kind=ScopeKind(offered["scope"]),
        uses=offered["most_uses"],
        reach=tuple(_reach(Verb(one["verb"]), one["uri"], accesses) for one in offered["reach"]),
    )


def _reach(verb: Verb, uri: str, accesses: Sequence[Access]) -> Reach:
    shown = [access for access in accesses if (access.verb, access.resource.uri) == (verb, uri)]
    return Reach(
        verb=verb,
        uri=uri,
        authority=max(access.authority for access in shown),
        tree=any(access.scope is Scope.TREE and access.pattern is None for access in shown),
        confirmed=any(access.resolved for access in shown),
    )


def state_at(request: ApprovalRequest, now_ms: int) -> ApprovalState:
    """The state of a request at a time: its end counts whether or not somebody has written it down."""
    if request.state is ApprovalState.PENDING and request.expires_at_ms <= now_ms:
        return ApprovalState.EXPIRED
    return request.state


def grant_state_at(grant: Grant, now_ms: int) -> ApprovalState:
    """`approved` while it can be used; spent is `consumed`, revoked and over is `void`.

    A grant whose uses are counted and not known cannot be used.
    """
    counted = grant.scope.kind is not ScopeKind.SESSION
    if counted and (grant.uses_left is None or grant.uses_left <= 0):
        return ApprovalState.CONSUMED
    if grant.voided_at_ms or grant.expires_at_ms <= now_ms:
        return ApprovalState.VOID
    return ApprovalState.APPROVED


def told_state(request: ApprovalRequest, grant: Grant | None, now_ms: int) -> ApprovalState:
    """The one state that people and runtimes are told. An approved request without its grant is void."""
    state = state_at(request, now_ms)
    if state is not ApprovalState.APPROVED:
        return state
    return grant_state_at(grant, now_ms) if grant is not None else ApprovalState.VOID


def is_guessable(asked: AskedFor) -> bool:
    """Whether a digest over the call tells a secret to whoever tries out values: then logs get it keyed."""
    return any(leaf.secret for leaf in asked.provenance.values())

"""Stage 8: whether a yes that was given permits the call that is made now (spec section 8).

What was shown is what may run: the grant holds for the rules, the values and the tool that its approvers saw,
and everything is judged anew at each use. A person's no to this very call beats every yes, however wide.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from authz_client.capabilities.objects import parse_object

from authz.core.approval import asked_for, grant_state_at
from authz.core.approval_grants import SCOPE_ORDER
from authz.core.approval_quorum import is_met
from authz.core.facts import Draft, Facts, Judgement
from authz.core.provenance import ArgumentProvenance
from authz.core.ruleset import Tool
from authz.core.shown_arguments import shown_arguments
from authz.core.shown_scopes import only_once_because
from authz.model.approval import ApprovalState, ApprovalTold, Reach, ScopeKind
from authz.model.approval_request import AskedFor, Consumption, Denial, Grant
from authz.model.call import Call
from authz.model.capability import CapabilityFacts
from authz.model.decision import Access, Code, Effect, Next, Refusal, RuleMatch, Stage
from authz.model.resource import Scope


@dataclass(frozen=True, slots=True, kw_only=True)
class CallNow:
    """The call that wants to use an approval, as stages 2 to 7 have found it now."""

    asked: AskedFor
    """With the rules that ask now; none where the call is not asked for."""
    accesses: tuple[Access, ...]
    provenance: ArgumentProvenance
    now_ms: int
    held: str | None = None
    """Id of the approval that this operation was allowed by before. Its recovery and its unchanged repeat
    use nothing up, and need neither a use that is left nor time: both were judged when it was used."""
    repeats: bool = False
    """Whether what `held` gave is still in force: then a yes that was revoked since does not undo it."""


class Mismatch(StrEnum):
    """Why a grant does not permit a call. Closed; the first that holds, in this order."""

    TENANT = "tenant"
    REVOKED = "revoked"
    ENDED = "ended"
    CONSUMED = "consumed"
    TOOL = "tool"
    CALL = "call"
    """It is another call than was shown."""
    REQUESTER = "requester"
    """Of a session's: another session, agent, user or credential, or a child. Of any: another chain."""
    RULES = "rules"
    """A rule asks now that was not shown."""
    APPROVERS = "approvers"
    """The rules ask now for people or a factor that its votes do not have."""
    AUTHORITY = "authority"
    PROVENANCE = "provenance"
    ONLY_ONCE = "only_once"
    """A call like this may not be remembered."""
    REACH = "reach"


@dataclass(frozen=True, slots=True, kw_only=True)
class Matched:
    """The grant that permits the call, and the use of it that is taken with the decision."""

    grant: Grant
    consumption: Consumption | None
    """One that takes nothing where the operation took its use before; `None` of a repeat of what it gave."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Denied:
    """The no that stands against the call."""

    denial: Denial

    @property
    def refusal(self) -> Refusal:
        """How the call is denied: in the person's own words, where there are any."""
        reason = f": {self.denial.reason}" if self.denial.reason else ""
        return Refusal(
            stage=Stage.APPROVAL,
            code=Code.APPROVAL_DENIED,
            message=f"a person denied this call in this session{reason}",
            next=(Next.CHANGE_ARGUMENTS, Next.STOP),
            approval=ApprovalTold(
                id=self.denial.request_id, state=ApprovalState.DENIED, denied_by=self.denial.person
            ),
        )


def call_now(
    call: Call,
    facts: Facts,
    tool: Tool,
    draft: Draft,
    judged: Judgement,
    provenance: ArgumentProvenance,
    capability: CapabilityFacts,
    *,
    held: str | None = None,
    repeats: bool = False,
) -> CallNow:
    """What a grant is held against, from what the stages before found."""
    # As in `decide`: a session that is not named may have read anything.
    exposed = facts.exposed if call.subject.session is not None else facts.exposed | facts.ruleset.every_label
    canonical = draft.canonical
    return CallNow(
        asked=asked_for(
            call,
            facts,
            tool,
            capability,
            fingerprint=draft.fingerprint,
            authority=draft.authority,
            rules=judged.matched if judged.effect is Effect.REQUIRE_APPROVAL else (),
            arguments=shown_arguments(call, facts, tool, canonical.arguments, exposed),
        ),
        accesses=canonical.accesses,
        provenance=provenance,
        now_ms=facts.now_ms,
        held=held,
        repeats=repeats,
    )


def match_grant(now: CallNow, grants: Iterable[Grant], denials: Iterable[Denial]) -> Matched | Denied | None:
    """The no that stands against the call, or else the yes that permits it.

    The no stands whether or not a rule still asks. Of several yeses the one that this operation holds; then
    the narrowest, since that was given to this very call and a wider one is still there for others; then the
    one that ends first. Its id decides between equals, so that every replica chooses the same.
    """
    denial = _denial_of(now, denials)
    if denial is not None:
        return Denied(denial=denial)
    if not now.asked.rules:
        return None
    fitting = [grant for grant in grants if mismatch(now, grant) is None]
    if not fitting:
        return None
    grant = min(fitting, key=lambda grant: _preference(now, grant))
    is_held = grant.request_id == now.held
    if is_held and now.repeats:
        return Matched(grant=grant, consumption=None)
    consumption = Consumption(
        request_id=grant.request_id,
        fingerprint=now.asked.fingerprint,
        expected_uses_left=grant.uses_left,
        takes=not is_held,
    )
    return Matched(grant=grant, consumption=consumption)


def _denial_of(now: CallNow, denials: Iterable[Denial]) -> Denial | None:
    """The first no to this fingerprint in this session: it is what the agent was told then."""
    requester = now.asked.requester
    key = (requester.tenant, requester.session, now.asked.fingerprint)
    found = [denial for denial in denials if (denial.tenant, denial.session, denial.fingerprint) == key]
    return min(found, key=lambda denial: (denial.at_ms, denial.request_id), default=None)


def _preference(now: CallNow, grant: Grant) -> tuple[bool, int, int, str]:
    return (
        grant.request_id != now.held,
        SCOPE_ORDER[grant.scope.kind],
        grant.expires_at_ms,
        grant.request_id,
    )


def mismatch(now: CallNow, grant: Grant) -> Mismatch | None:
    """Why a grant does not permit the call now; `None` when it does."""
    asked, shown = now.asked, grant.asked
    if asked.requester.tenant != shown.requester.tenant:
        return Mismatch.TENANT
    if (over := _over(now, grant)) is not None:
        return over
    if asked.tool != shown.tool:
        return Mismatch.TOOL
    if grant.scope.kind is ScopeKind.SESSION:
        if not _is_same_requester(asked, shown):
            return Mismatch.REQUESTER
    elif asked.fingerprint != shown.fingerprint:
        return Mismatch.CALL
    elif not _is_same_chain(asked, shown):
        return Mismatch.REQUESTER
    if not _were_shown(asked.rules, shown.rules):
        return Mismatch.RULES
    if not is_met(asked.rules, grant.votes):
        return Mismatch.APPROVERS
    if asked.authority > shown.authority:
        return Mismatch.AUTHORITY
    if not _is_as_trusted(asked, shown):
        return Mismatch.PROVENANCE
    return _too_wide(now, grant)


def _over(now: CallNow, grant: Grant) -> Mismatch | None:
    is_held = grant.request_id == now.held
    if grant.voided_at_ms and not (is_held and now.repeats):
        return Mismatch.REVOKED
    if is_held:
        return None
    state = grant_state_at(grant, now.now_ms)
    if state is ApprovalState.CONSUMED:
        return Mismatch.CONSUMED
    if state is not ApprovalState.APPROVED or _ends_at_ms(grant, now.asked.rules) <= now.now_ms:
        return Mismatch.ENDED
    return None


def _ends_at_ms(grant: Grant, rules: Sequence[RuleMatch]) -> int:
    """When the yes ends by what the rules say now, and never after what was said when it was given."""
    limits = [rule.terms.ttl_seconds for rule in rules if rule.terms is not None]
    ends_ms = [grant.granted_at_ms + seconds * 1000 for seconds in limits if seconds is not None]
    return min([grant.expires_at_ms, *ends_ms])


def _is_same_requester(asked: AskedFor, shown: AskedFor) -> bool:
    """Same session, agent, user, chain and credential. A session without a name is nobody's."""
    return asked.requester.session is not None and asked.requester == shown.requester


def _is_same_chain(asked: AskedFor, shown: AskedFor) -> bool:
    """Whether the call comes by the agents that were shown, and that approvers were judged against.

    No fingerprint tells: it names the last of them alone.
    """
    now, then = asked.requester, shown.requester
    return (now.chain, now.parent_agent) == (then.chain, then.parent_agent)


def _were_shown(asking: Sequence[RuleMatch], shown: Sequence[RuleMatch]) -> bool:
    """Whether each rule that asks now was shown, and for the same reason. None asking is covered by none."""
    reasons = {rule.rule: rule.reason for rule in shown}
    return bool(asking) and all(reasons.get(rule.rule) == rule.reason for rule in asking)


def _is_as_trusted(asked: AskedFor, shown: AskedFor) -> bool:
    """Whether no value is worse than was shown at its place; at one that was not shown none may be bad."""
    return all(
        leaf.is_no_worse_than(shown.provenance[pointer])
        if pointer in shown.provenance
        else not (leaf.untrusted or leaf.secret or leaf.labels)
        for pointer, leaf in asked.provenance.items()
    )


def _too_wide(now: CallNow, grant: Grant) -> Mismatch | None:
    """What keeps a call from being covered by a yes that was meant for more than one."""
    if grant.scope.kind is ScopeKind.ONCE:
        return None
    if only_once_because(now.accesses, now.asked.rules, now.provenance):
        return Mismatch.ONLY_ONCE
    if grant.scope.kind is ScopeKind.TIMES:
        return None
    covered = all(any(covers(reach, access) for reach in grant.scope.reach) for access in now.accesses)
    return None if covered else Mismatch.REACH


def covers(reach: Reach, access: Access) -> bool:
    """Whether an access lies in what was shown: by component, and by nothing that was not shown.

    What has no place that a location could contain (it was not understood) lies in nothing.
    """
    if access.verb is not reach.verb or access.authority > reach.authority:
        return False
    if access.scope is Scope.TREE and not reach.tree:
        return False
    if reach.confirmed and not access.resolved:
        return False
    uri = access.resource.uri
    if access.scope is Scope.TREE and access.resource.kind == "url":
        # Such a tree is that of the whole folder, whatever the query.
        uri = uri.partition("?")[0]
    elif access.scope is Scope.TREE and access.resource.kind == "repo":
        uri = uri.partition("#")[0]
    inner, outer = parse_object(uri), parse_object(reach.uri)
    return inner is not None and outer is not None and inner.lies_in(outer)

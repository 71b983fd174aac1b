"""Issuing capabilities, and narrowing them on the server: each a record, in one transaction with its link."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, NoReturn

from authz_client.capabilities import (
    Ancestor,
    BadKey,
    PublicKey,
    Refused,
    TaskPacket,
    VerifiedChain,
    issue_root,
)
from authz_client.capabilities import Refusal as TokenRefusal
from authz_client.capabilities.chain import verify_structure

from authz.core.capability import details_of
from authz.core.capability_event import AskedFor, Denied, granted_event, refused_event
from authz.core.capability_told import kept
from authz.core.claims import check_subject_of
from authz.core.delegation import delegated_trace_label, is_marked
from authz.core.fingerprint import trace_key
from authz.core.issuing import (
    Grant,
    IssueRequest,
    RightRefused,
    grants_of,
    judge_issue,
    read_entries,
)
from authz.core.redact import Redactor
from authz.errors import CapabilityDenied, Forbidden, MalformedInput, StoreUnavailable
from authz.model.call import Subject
from authz.model.capability import LinkOrigin, LinkRecord, ProofUse, TokenRules
from authz.model.decision import Code, Effect, RuleMatch
from authz.model.record import Committed, EventQuery, EventType, Replayed
from authz.ports import (
    Bundles,
    CapabilityKeys,
    CapabilityObserver,
    Clock,
    CommitUnit,
    ExposureWrite,
    IdSource,
    Ledger,
)
from authz.service.bundles import Admitted
from authz.service.capability_chains import CapabilityChains

RIGHT_UNKNOWN: Final = "capability.right_unknown"
LIFETIME: Final = "capability.lifetime"
CHILD_TRACE: Final = "capability.child_trace"


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """A capability that was given, and is on record."""

    token: str
    """The root: a chain of one link."""
    link: LinkRecord
    issuer: str
    audience: str
    max_depth: int
    details: Sequence[Mapping[str, Any]]
    rules: tuple[RuleMatch, ...] = ()
    """The permits by which it was issued."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Root:
    """What a root is to say, and what goes on record with it."""

    origin: LinkOrigin
    subject: str
    agent: str
    holder: PublicKey
    details: Sequence[Mapping[str, Any]]
    expires_at: int
    """Seconds since 1970."""
    max_depth: int
    ancestors: tuple[Ancestor, ...] = ()
    above: LinkRecord | None = None
    """The leaf that a narrowed root comes from."""


class CapabilityIssuer:
    """Signs roots and puts them on record. No token goes out before its record is on disk."""

    def __init__(
        self,
        *,
        ledger: Ledger,
        bundles: Bundles,
        clock: Clock,
        ids: IdSource,
        keys: CapabilityKeys,
        chains: CapabilityChains,
        redactor: Redactor,
        observer: CapabilityObserver,
        max_lifetime_seconds: int,
    ) -> None:
        self.ledger = ledger
        self.bundles = bundles
        self.clock = clock
        self.chains = chains
        self.redactor = redactor
        self.max_lifetime_seconds = max_lifetime_seconds
        self._ids = ids
        self._keys = keys
        self._observer = observer

    async def issue(self, request: IssueRequest, admitted: Admitted) -> Given:
        """Issue a root to an agent's key, if the policies permit it.

        Raises `Forbidden` when the credential may not assert the subject, `MalformedInput` for entries that
        are none, `CapabilityDenied` when it is not to be given, `BundleStale`, `RevocationsStale`, and
        `StoreUnavailable` when the record cannot be made durable.
        """
        caller, ruleset = admitted.caller, admitted.ruleset
        self.bundles.check_fresh(caller.tenant)
        subject = Subject(agent=request.agent, on_behalf_of=request.user)
        unbound = check_subject_of(subject, caller.profile)
        if unbound is not None:
            raise Forbidden(unbound, code="subject.not_bound", pointer="/agent")
        if request.user == request.agent:
            # Its root would read as that of an agent that acts for nobody.
            raise MalformedInput(
                "an agent acts for somebody else; leave `on_behalf_of` out where it acts for nobody",
                code="input.invalid",
                pointer="/on_behalf_of",
            )
        entries = read_entries(request.details, caller.profile)
        await self.chains.revocations.confirm()
        rules = self.chains.rules(caller.tenant)
        now_ms = self.clock.now_ms()
        grants = grants_of(entries, ruleset, request.agent, request.user, caller.profile)
        denied, permits = self._check(request, grants, rules, admitted, now_ms)
        if denied is None and request.task is not None:
            denied = await self.check_child_trace(caller.tenant, request.agent, request.task)
        if denied is not None:
            await self.deny(asked_of(request), denied, admitted)
        assert not isinstance(grants, RightRefused)  # noqa: S101 - that is denied
        given = self._granted(request, grants, permits, rules, admitted, now_ms)
        committed = await self.record(EventType.CAPABILITY_ISSUED, given, admitted, now_ms)
        if not isinstance(committed, Committed):
            raise StoreUnavailable("the capability could not be put on record; ask again")
        return given

    def _granted(
        self,
        request: IssueRequest,
        grants: tuple[Grant, ...],
        permits: tuple[RuleMatch, ...],
        rules: TokenRules,
        admitted: Admitted,
        now_ms: int,
    ) -> Given:
        """The root that is asked for, signed."""
        root = Root(
            origin=LinkOrigin.ISSUED,
            subject=request.user or request.agent,
            agent=request.agent,
            holder=request.holder,
            details=[dict(grant.entry.as_json) for grant in grants],
            expires_at=now_ms // 1000 + request.lifetime_seconds,
            max_depth=request.max_depth,
        )
        token, link = self.signed(root, rules, admitted, now_ms)
        link = replace(
            link,
            tool_digests={name: digest for grant in grants for name, digest in grant.digests.items()},
            child_trace=request.task.child_trace_id if request.task is not None else "",
            task=kept(request.task_json, self.redactor),
        )
        return Given(
            token=token,
            link=link,
            issuer=rules.issuer,
            audience=rules.audience,
            max_depth=request.max_depth,
            details=root.details,
            rules=permits,
        )

    def _check(
        self,
        request: IssueRequest,
        grants: tuple[Grant, ...] | RightRefused,
        rules: TokenRules,
        admitted: Admitted,
        now_ms: int,
    ) -> tuple[Denied | None, tuple[RuleMatch, ...]]:
        """(why it is not given, the permits where it is)."""
        if request.holder.thumbprint in rules.revoked.holders:
            return Denied(code=Code.CAPABILITY_REVOKED, message="the key of the holder is revoked"), ()
        if not 0 < request.lifetime_seconds <= self.max_lifetime_seconds:
            message = f"a capability lives for 1 to {self.max_lifetime_seconds} seconds; ask for less"
            return Denied(code=LIFETIME, message=message, told={"component": "E"}), ()
        if isinstance(grants, RightRefused):
            message = (
                f"`{grants.right}` names no tool, or no verb of a tool, that this agent may see; "
                "`POST /tools/visible` shows those it may"
            )
            told = {"component": "R", "entry": grants.entry, "right": grants.right}
            return Denied(code=RIGHT_UNKNOWN, message=message, told=told), ()
        verdict = judge_issue(request, grants, admitted.ruleset, admitted.caller.profile, now_ms)
        if verdict.effect is Effect.ALLOW:
            return None, verdict.rules
        return (
            Denied(
                code=verdict.code,
                message=_WHY.get(verdict.effect, _WHY[Effect.DENY]),
                rules=verdict.rules,
                told={
                    "stage": "policy",
                    "entry": verdict.entry,
                    "location": verdict.location,
                    "matched": [_told_rule(rule) for rule in verdict.rules],
                },
                internal=verdict.internal,
            ),
            (),
        )

    async def check_child_trace(self, tenant: str, agent: str, task: TaskPacket) -> Denied | None:
        """Why the trace that a task names cannot be that of its child; `None` where it can.

        An agent that works there already, and not as a child, would be turned into one by whoever names it.
        """
        trace = task.child_trace_id
        if is_marked(await self.ledger.session_exposure(trace_key(tenant, trace)), agent):
            return None
        query = EventQuery(tenant=tenant, trace_id=trace, agent=agent, limit=1)
        if not await self.ledger.search(query):
            return None
        message = f"`{agent}` works in this trace already; name a new one with `child_trace_id`"
        return Denied(code=CHILD_TRACE, message=message, told={"next": ["change_arguments", "stop"]})

    def signed(
        self, root: Root, rules: TokenRules, admitted: Admitted, now_ms: int
    ) -> tuple[str, LinkRecord]:
        """The token of a root, and its record. Raises `MalformedInput` for what no verifier would take."""
        now = now_ms // 1000
        try:
            token = issue_root(
                self._keys.signer(now_ms),
                issuer=rules.issuer,
                audience=rules.audience,
                subject=root.subject,
                agent=root.agent if root.agent != root.subject else None,
                holder=root.holder,
                entries=root.details,
                jti=self._ids.new_id(),
                iat=now,
                exp=root.expires_at,
                max_depth=root.max_depth,
                ancestors=root.ancestors,
            )
        except Refused as error:
            code = f"capability.{error.refusal.reason}"
            raise MalformedInput(error.refusal.detail, code=code) from None
        except (BadKey, ValueError) as error:
            raise StoreUnavailable(
                "the capability could not be signed; try again", internal=type(error).__name__
            ) from None
        # What is signed here is read back as any verifier does: nothing goes out that would be refused.
        chain = verify_structure(
            (token,),
            audience=rules.audience,
            issuer=rules.issuer,
            keys=rules.keys,
            max_depth=rules.max_depth,
            max_lifetime_seconds=rules.max_lifetime_seconds,
        )
        if isinstance(chain, TokenRefusal):
            raise StoreUnavailable(
                "the capability would not verify, so it is not given", internal=str(chain.reason)
            )
        return token, _record(chain, root, admitted, self.redactor)

    async def record(
        self,
        kind: EventType,
        given: Given,
        admitted: Admitted,
        now_ms: int,
        *,
        seen: Sequence[LinkRecord] = (),
        proof: ProofUse | None = None,
    ) -> Committed | Replayed:
        """Write a root, the links it came from and its record, in one transaction."""
        caller = admitted.caller
        event = granted_event(
            kind,
            caller=caller,
            link=given.link,
            rules=given.rules,
            policy_version=admitted.ruleset.version,
            max_depth=given.max_depth,
            redactor=self.redactor,
            now_ms=now_ms,
        )
        committed = await self.ledger.commit(
            CommitUnit(
                event=event,
                links=(*seen, given.link),
                delegated=_delegation(given.link),
                proof=proof,
            )
        )
        if isinstance(committed, Committed):
            self._observer.capability(caller.tenant, kind.value, "")
        assert isinstance(committed, Committed | Replayed)  # noqa: S101 - nothing else is part of the unit
        return committed

    async def deny(
        self, asked: AskedFor, denied: Denied, admitted: Admitted, *, proof: ProofUse | None = None
    ) -> NoReturn:
        """Record that a capability is not given, using the proof up, and raise `CapabilityDenied`."""
        caller = admitted.caller
        event = refused_event(
            caller=caller,
            asked=asked,
            denied=denied,
            policy_version=admitted.ruleset.version,
            redactor=self.redactor,
            now_ms=self.clock.now_ms(),
        )
        committed = await self.ledger.commit(CommitUnit(event=event, proof=proof))
        if isinstance(committed, Replayed):
            # It was no proof any more, so it is not used up twice; the refusal stands.
            await self.ledger.commit(CommitUnit(event=event))
        self._observer.capability(caller.tenant, EventType.CAPABILITY_REFUSED.value, denied.code)
        raise CapabilityDenied(denied.message, code=denied.code, told=dict(denied.told))


_WHY: Final[Mapping[Effect, str]] = {
    Effect.DENY: "the policies do not permit this agent to be given that",
    Effect.REQUIRE_APPROVAL: "the policies ask a person before this agent is given that, which nobody can "
    "answer here yet; ask for less",
}


def asked_of(request: IssueRequest) -> AskedFor:
    """What a refusal says that was asked for."""
    return AskedFor(
        agent=request.agent,
        user=request.user,
        holder=request.holder.thumbprint,
        details=request.details,
        lifetime_seconds=request.lifetime_seconds,
    )


def _told_rule(rule: RuleMatch) -> dict[str, Any]:
    return {
        "rule": rule.rule,
        "kind": rule.kind.value,
        "file": rule.file,
        "line": rule.line,
        "reason": rule.reason,
    }


def _record(chain: VerifiedChain, root: Root, admitted: Admitted, redactor: Redactor) -> LinkRecord:
    link, above = chain.links[0], root.above
    return LinkRecord(
        tenant=admitted.caller.tenant,
        link_hash=link.link_hash,
        parent_hash=None if above is None else above.link_hash,
        root_hash=link.link_hash if above is None else above.root_hash,
        origin=root.origin,
        jti=link.jti,
        holder=link.holder.thumbprint,
        agent=link.agent,
        subject=chain.subject,
        depth=len(chain.ancestors),
        issued_at_ms=link.issued_at * 1000,
        expires_at_ms=link.expires_at * 1000,
        details=details_of(link, redactor),
        issued_by=admitted.caller.key_id,
        kid=chain.root_kid,
    )


def _delegation(link: LinkRecord) -> tuple[ExposureWrite, ...]:
    """In the trace that a task packet names for its child that agent acts only with its capability.

    Nobody else: whoever may ask for a capability may name any trace.
    """
    if not link.child_trace:
        return ()
    key = trace_key(link.tenant, link.child_trace)
    return (ExposureWrite(session_key=key, labels=frozenset({delegated_trace_label(link.agent)})),)

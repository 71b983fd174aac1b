"""Narrowing on the server (RFC 8693): the holder of a chain gets a root of the service's for less of it.

Everything that a decision checks of a chain is checked here too, and the proof is used up. What comes of it
is no wider in any component, debits the same budgets, and ends with whatever it came from.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from authz_client.capabilities import PublicKey, TaskPacket
from authz_client.capabilities import Refusal as TokenRefusal

from authz.core.capability import links_seen
from authz.core.capability_event import AskedFor, Denied
from authz.core.capability_refusals import CODES, OwnReason, refused
from authz.core.capability_told import kept
from authz.core.claims import check_subject_of
from authz.core.facts import Facts
from authz.core.issuing import read_entries
from authz.core.narrowing import Narrowed, NarrowRequest, narrow_held
from authz.core.possession import Held, check_possession
from authz.errors import Forbidden, MalformedInput
from authz.model.call import Call, CallIds, Claims, Subject
from authz.model.capability import LinkOrigin, LinkRecord, Presented, TokenRules
from authz.model.decision import Code, Refusal
from authz.model.record import EventType, Replayed
from authz.service.bundles import Admitted
from authz.service.capabilities import CapabilityIssuer, Given, Root
from authz.service.decision_unit import proof_use


@dataclass(frozen=True, slots=True, kw_only=True)
class NarrowAsked:
    """A request to narrow, as it was sent."""

    chain: tuple[str, ...]
    proof: str | None
    request_digest: str
    """Of the parameters less the chain and the proof: what the proof signs."""
    agent: str
    holder: PublicKey
    details: Sequence[Mapping[str, Any]] | None
    lifetime_seconds: int | None
    max_depth: int | None
    audience: str | None = None
    task: TaskPacket | None = None
    task_json: Mapping[str, Any] | None = None


class CapabilityNarrower:
    """Takes a chain with the proof of its holder, and gives a root for less."""

    def __init__(self, issuer: CapabilityIssuer) -> None:
        self._issuer = issuer

    async def narrow(self, asked: NarrowAsked, admitted: Admitted) -> Given:
        """Narrow. Raises as `CapabilityIssuer.issue` does; a refusal names what would widen."""
        issuer, caller = self._issuer, admitted.caller
        issuer.bundles.check_fresh(caller.tenant)
        entries = None if asked.details is None else read_entries(asked.details, caller.profile)
        presented = await issuer.chains.load_chain(caller.tenant, asked.chain)
        rules = issuer.chains.rules(caller.tenant)
        now_ms = issuer.clock.now_ms()
        about = AskedFor(
            agent=asked.agent,
            user=None,
            holder=asked.holder.thumbprint,
            details=asked.details or (),
            lifetime_seconds=asked.lifetime_seconds,
        )
        if asked.audience is not None and asked.audience != rules.audience:
            raise MalformedInput(
                f"`audience` can only be `{rules.audience}`", code="input.invalid", pointer="/audience"
            )
        held = check_possession(_call(asked), _facts(admitted, presented, rules, now_ms))
        if isinstance(held, Refusal):
            await issuer.deny(about, _of_possession(held), admitted)
        assert isinstance(held, Held)  # noqa: S101 - a chain is always presented here
        about = replace(about, user=held.chain.subject)
        proof = proof_use(caller.tenant, held.proof)
        _check_bound(held, admitted)
        request = _request(asked, entries, now_ms)
        narrowed = narrow_held(request, held, rules, admitted.ruleset, now_ms // 1000)
        if isinstance(narrowed, TokenRefusal):
            await issuer.deny(about, _of_token(narrowed), admitted, proof=proof)
        if asked.task is not None:
            denied = await issuer.check_child_trace(caller.tenant, asked.agent, asked.task)
            if denied is not None:
                await issuer.deny(about, denied, admitted, proof=proof)
        given, seen = self._signed(asked, held, narrowed, presented, rules, admitted, now_ms)
        committed = await issuer.record(
            EventType.CAPABILITY_NARROWED, given, admitted, now_ms, seen=seen, proof=proof
        )
        if isinstance(committed, Replayed):
            replayed = refused(OwnReason.PROOF_REPLAYED, "the proof was used before")
            await issuer.deny(about, _of_possession(replayed), admitted)
        if seen:
            issuer.chains.recorded(presented.digest)
        return given

    def _signed(
        self,
        asked: NarrowAsked,
        held: Held,
        narrowed: Narrowed,
        presented: Presented,
        rules: TokenRules,
        admitted: Admitted,
        now_ms: int,
    ) -> tuple[Given, tuple[LinkRecord, ...]]:
        """(the new root, links of the chain that are on no record yet)."""
        below = links_seen(held.chain, held.root, admitted.caller, self._issuer.redactor)
        root = Root(
            origin=LinkOrigin.NARROWED,
            subject=held.chain.subject,
            agent=asked.agent,
            holder=asked.holder,
            details=[dict(entry.as_json) for entry in narrowed.entries],
            expires_at=narrowed.expires_at,
            max_depth=narrowed.max_depth,
            ancestors=held.chain.handles,
            above=below[-1] if below else held.root,
        )
        token, link = self._issuer.signed(root, rules, admitted, now_ms)
        link = replace(
            link,
            inherited=narrowed.inherited,
            tool_digests=narrowed.tool_digests,
            child_trace=asked.task.child_trace_id if asked.task is not None else "",
            task=kept(asked.task_json, self._issuer.redactor),
        )
        given = Given(
            token=token,
            link=link,
            issuer=rules.issuer,
            audience=rules.audience,
            max_depth=narrowed.max_depth,
            details=root.details,
        )
        return given, () if presented.recorded else below


def _check_bound(held: Held, admitted: Admitted) -> None:
    """The credential must be allowed to speak for whoever holds the chain, as in a decision (stage 0)."""
    chain = held.chain
    agent = chain.leaf.agent
    user = None if chain.subject == chain.agents[0] else chain.subject
    unbound = check_subject_of(Subject(agent=agent, on_behalf_of=user), admitted.caller.profile)
    if unbound is not None:
        raise Forbidden(unbound, code="subject.not_bound", pointer="/subject_token")


def _call(asked: NarrowAsked) -> Call:
    """What possession is checked of: the chain, the proof, and what the proof signs."""
    return Call(
        subject=Subject(agent=asked.agent),
        server="",
        tool="",
        advertised_digest=None,
        arguments={},
        provenance={},
        ids=CallIds(),
        claims=Claims(),
        capability=asked.chain,
        proof=asked.proof,
        request_digest=asked.request_digest,
    )


def _facts(admitted: Admitted, presented: Presented, rules: TokenRules, now_ms: int) -> Facts:
    return Facts(
        caller=admitted.caller,
        ruleset=admitted.ruleset,
        now_ms=now_ms,
        decision_id="",
        operation=None,
        exposed=frozenset(),
        # Nothing is decided here, so no key of an operation is made.
        secret=b"",
        ttl_ms=0,
        presented=presented,
        tokens=rules,
    )


def _request(asked: NarrowAsked, entries: Any, now_ms: int) -> NarrowRequest:
    expires_at = None
    if asked.task is not None:
        expires_at = asked.task.expires_at
    elif asked.lifetime_seconds is not None:
        expires_at = now_ms // 1000 + asked.lifetime_seconds
    return NarrowRequest(
        agent=asked.agent,
        holder=asked.holder,
        entries=entries,
        expires_at=expires_at,
        max_depth=asked.max_depth,
    )


def _of_possession(refusal: Refusal) -> Denied:
    found = refusal.capability
    told: dict[str, Any] = {"next": [one.value for one in refusal.next]}
    if found is not None:
        told |= {
            "reason": found.reason,
            "link": found.link,
            "agent": found.agent,
            "component": found.component,
        }
    return Denied(code=refusal.code.value, message=refusal.message, told=told)


def _of_token(refusal: TokenRefusal) -> Denied:
    component = None if refusal.component is None else refusal.component.value
    code = CODES[refusal.reason]
    widened = component is not None and code is Code.CAPABILITY_INVALID
    return Denied(
        # `capability.rights_widened`, …: what a holder asked for too much of.
        code=f"capability.{refusal.reason.value}" if widened else code.value,
        message=refusal.detail,
        told={
            "reason": refusal.reason.value,
            "component": component,
            "next": ["change_arguments", "stop"],
        },
    )

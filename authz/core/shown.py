"""The shown document of a decision that asks, and the digest by which a yes is bound to it (spec section 8).

Page, command line and webhook all render this document; a yes carries the digest of the document that was
rendered. It is made from canonical values, reviewed facts and this service's judgement. What the tool's
server says of its tool is in it once, and named as what it is.
"""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from authz.core.decide import Outcome
from authz.core.facts import Facts
from authz.core.fingerprint import canonical_json
from authz.core.ruleset import Tool
from authz.core.shown_arguments import shown_arguments
from authz.core.shown_scopes import SENDING, offered_scopes, only_once_because
from authz.core.shown_types import (
    SCHEMA,
    ChainLink,
    DataFlow,
    Requester,
    ShownAccess,
    ShownArgument,
    ShownDocument,
    ShownRule,
    ShownTool,
    Terms,
)
from authz.core.shown_words import headline, undo_of
from authz.core.visible_warnings import is_blank
from authz.model.approval import AskTerms, Factor
from authz.model.call import Call
from authz.model.decision import AccessVerdict, Effect, RuleMatch
from authz.model.resource import Verb
from authz.model.tool import Role


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """A shown document as it is kept: bytes, so that nobody can change it on the way."""

    content: bytes
    """Its RFC 8785 form."""
    digest: str
    """`sha256:` over `content`: what a yes is bound to."""

    @property
    def document(self) -> ShownDocument:
        """The document, parsed anew."""
        return read_shown(self.content, expected_digest=self.digest)


def read_shown(content: bytes, *, expected_digest: str) -> ShownDocument:
    """The document that was kept. Raises `ValueError` when it is another one, or of another version."""
    if shown_digest(content) != expected_digest:
        raise ValueError("the shown document is not the one that its digest names")
    document = json.loads(content)
    if document.get("schema") != SCHEMA:
        raise ValueError(f"the shown document has another version than {SCHEMA}, render it anew")
    return cast("ShownDocument", document)


def shown_digest(content: bytes) -> str:
    """`sha256:` over the RFC 8785 form of a shown document."""
    return "sha256:" + hashlib.sha256(content).hexdigest()


def show(call: Call, outcome: Outcome, facts: Facts, *, default_ttl_seconds: int) -> Shown:
    """What an approver is shown of `outcome`, which asks.

    `default_ttl_seconds` is how long a yes lasts that no rule limits.

    Raises `ValueError` for a decision that does not ask, or that is not known whole.
    """
    decision = outcome.decision
    tool = facts.ruleset.tools.get((call.server, call.tool))
    if decision.effect is not Effect.REQUIRE_APPROVAL or tool is None or decision.authority is None:
        raise ValueError("only a decision that asks for an approval can be shown to an approver")
    if decision.fingerprint is None or decision.arguments is None or outcome.provenance is None:
        raise ValueError("a decision without canonical arguments cannot be shown to an approver")
    # As in `decide`: a session that is not named may have read anything.
    exposed = facts.exposed if call.subject.session is not None else facts.exposed | facts.ruleset.every_label
    arguments = shown_arguments(call, facts, tool, decision.arguments, exposed)
    untrusted = {argument["pointer"] for argument in arguments if argument["untrusted"]}
    accesses = [_access(verdict, untrusted) for verdict in decision.verdicts]
    terms = terms_of(decision.matched, default_ttl_seconds=default_ttl_seconds)
    believed = outcome.believed
    document = ShownDocument(
        schema=SCHEMA,
        headline=headline(accesses, arguments),
        requester=_requester(call),
        chain=_chain(call, outcome),
        tool=_tool(call, tool),
        accesses=accesses,
        data=_data(accesses, arguments, exposed),
        arguments=arguments,
        authority=decision.authority.name,
        side_effect=tool.descriptor.side_effect.value,
        undo=undo_of(tool.descriptor, decision.accesses),
        asked_by=[_rule(rule) for rule in decision.matched],
        terms=terms,
        scopes=list(offered_scopes(call, decision, outcome.provenance, ttl_seconds=terms["ttl_seconds"])),
        only_once_because=list(only_once_because(decision.accesses, decision.matched, outcome.provenance)),
        must_open=[argument["pointer"] for argument in arguments if argument["fold"] is not None],
        cwd=believed.base.cwd if believed else None,
        sandbox_root=believed.sandbox_root if believed else None,
        fingerprint=decision.fingerprint,
        policy_version=decision.policy_version,
    )
    content = canonical_json(document)
    return Shown(content=content, digest=shown_digest(content))


def cannot_be_approved_because(document: ShownDocument) -> tuple[str, ...]:
    """Why no yes may be given to what is shown: an approval of nothing that can be seen is none."""
    found = [] if document["accesses"] else ["nothing is known of what the call touches"]
    for argument in document["arguments"]:
        named = argument["role"] in (Role.COMMAND, Role.TARGET, Role.DESTINATION)
        if named and isinstance(argument["value"], str) and is_blank(argument["value"]):
            found.append("an argument that names what is touched is blank")
    return tuple(dict.fromkeys(found))


def terms_of(rules: Sequence[RuleMatch], *, default_ttl_seconds: int) -> Terms:
    """What these rules demand together (spec section 6): most people, strongest factor, shortest time."""
    asked = [rule.terms or AskTerms() for rule in rules]
    limits = [terms.ttl_seconds for terms in asked if terms.ttl_seconds is not None]
    passkey = any(terms.factor is Factor.PASSKEY for terms in asked)
    return Terms(
        quorum=max((terms.quorum for terms in asked), default=1),
        factor=(Factor.PASSKEY if passkey else Factor.SESSION).value,
        ttl_seconds=min(limits, default=default_ttl_seconds),
    )


def _access(verdict: AccessVerdict, untrusted: set[str]) -> ShownAccess:
    access = verdict.access
    return ShownAccess(
        verb=access.verb.value,
        uri=access.resource.uri,
        type=access.resource.entity.type,
        value=access.resource.value,
        scope=access.scope.value,
        pattern=access.pattern.text if access.pattern is not None else None,
        authority=access.authority.name,
        authority_because=access.authority_because,
        argument=access.argument,
        role=access.role,
        untrusted=access.argument in untrusted,
        confirmed=access.resolved,
        asked=verdict.effect is Effect.REQUIRE_APPROVAL,
        beneath=list(verdict.beneath),
    )


def _requester(call: Call) -> Requester:
    return Requester(
        agent=call.subject.agent,
        on_behalf_of=call.subject.on_behalf_of,
        session=call.subject.session,
        parent_agent=call.subject.parent_agent,
        wants_a_look=call.ask,
    )


def _chain(call: Call, outcome: Outcome) -> list[ChainLink]:
    handles = outcome.capability.handles
    if handles:
        return [ChainLink(agent=handle.agent, link=handle.link) for handle in handles]
    agents = outcome.capability.agents or (call.subject.agent,)
    return [ChainLink(agent=agent, link=None) for agent in agents]


def _tool(call: Call, tool: Tool) -> ShownTool:
    descriptor = tool.descriptor
    return ShownTool(
        name=descriptor.name,
        server=descriptor.server.alias,
        identity=descriptor.server.identity,
        reviewed=descriptor.reviewed,
        descriptor_digest=descriptor.digest,
        advertised_digest=call.advertised_digest,
        says_of_itself=descriptor.description,
    )


def _data(
    accesses: Sequence[ShownAccess], arguments: Sequence[ShownArgument], exposed: frozenset[str]
) -> DataFlow:
    going = [
        access["uri"]
        for access in accesses
        if Verb(access["verb"]) in SENDING
        or (access["role"] == Role.DESTINATION and access["verb"] != "read")
    ]
    carries = (Role.PAYLOAD, Role.CREDENTIAL, Role.COMMAND, "undeclared")
    return DataFlow(
        to=list(dict.fromkeys(going)),
        arguments=[argument["pointer"] for argument in arguments if argument["role"] in carries],
        read=list(dict.fromkeys(access["uri"] for access in accesses if access["verb"] == "read")),
        # The service's own notes on a session are no labels of what it read.
        session_has_read=sorted(label for label in exposed if not label.startswith("authz:")),
    )


def _rule(rule: RuleMatch) -> ShownRule:
    terms = rule.terms or AskTerms()
    return ShownRule(
        rule=rule.rule,
        reason=rule.reason,
        file=rule.file,
        line=rule.line,
        approvers=list(terms.approvers),
        quorum=terms.quorum,
        factor=terms.factor.value,
        ttl_seconds=terms.ttl_seconds,
    )

"""From a decision that asks to the request that people answer (spec section 8)."""

from collections.abc import Iterable

from authz.core.approval import asked_for, dedupe_key, resource_keys, scope_of
from authz.core.decide import Outcome
from authz.core.facts import Facts
from authz.core.fingerprint import digest
from authz.core.ruleset import Ruleset
from authz.core.shown import Shown, cannot_be_approved_because
from authz.model.approval_request import ApprovalRequest
from authz.model.call import Call
from authz.model.decision import Effect, RuleMatch


def new_request(
    call: Call, outcome: Outcome, facts: Facts, shown: Shown, *, request_id: str, pending_ttl_ms: int
) -> ApprovalRequest:
    """What waits for people when `outcome` asks, as `shown` shows it to them.

    `request_id` is random; `pending_ttl_ms` is how long the request waits for an answer.

    Raises `ValueError` for a decision that does not ask, for a dry run, and for another one's document.
    """
    decision, document = outcome.decision, shown.document
    tool = facts.ruleset.tools.get((call.server, call.tool))
    if decision.effect is not Effect.REQUIRE_APPROVAL or call.dry_run or tool is None:
        raise ValueError("only a decision that asks, and no dry run, makes a request for an approval")
    if document["fingerprint"] != decision.fingerprint or decision.authority is None:
        raise ValueError("the shown document is of another call than the decision")
    if [rule["rule"] for rule in document["asked_by"]] != [rule.rule for rule in decision.matched]:
        raise ValueError("the shown document names other rules than the decision")
    asked = asked_for(
        call,
        facts,
        tool,
        outcome.capability,
        fingerprint=decision.fingerprint,
        authority=decision.authority,
        rules=decision.matched,
        arguments=document["arguments"],
    )
    return ApprovalRequest(
        id=request_id,
        dedupe_key=dedupe_key(asked, document["arguments"]),
        asked=asked,
        ids=call.ids,
        resources=resource_keys(asked, decision.verdicts),
        shown_digest=shown.digest,
        scopes=tuple(scope_of(offered, decision.accesses) for offered in document["scopes"]),
        ttl_seconds=document["terms"]["ttl_seconds"],
        cannot_be_approved_because=cannot_be_approved_because(document),
        policy_version=decision.policy_version,
        created_at_ms=facts.now_ms,
        expires_at_ms=facts.now_ms + pending_ttl_ms,
        decision_id=decision.decision_id,
        rule_digests=rule_digests(facts.ruleset, decision.matched),
    )


def rule_digests(ruleset: Ruleset, rules: Iterable[RuleMatch]) -> dict[str, str]:
    """Digest of the text of each of these rules that stands in the bundle, by name.

    What asks without standing there, as the caller itself, has none.
    """
    policies = ruleset.engine.policies
    return {rule.rule: digest(policies[rule.rule].text) for rule in rules if rule.rule in policies}

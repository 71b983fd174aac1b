"""What changed in the policies between the asking and the answer (spec section 8).

A person says yes to what was shown, the rules that asked among it. Where one of those says something else by
now, or the tool is another, the yes would be to something that nobody was shown. All else that changed is
judged when the yes is used.
"""

from collections.abc import Iterable, Iterator

from authz.core.approval_moves import AnswerCode, Refused, refused
from authz.core.approval_request import rule_digests
from authz.core.ruleset import Ruleset, Tool
from authz.core.shown_types import ShownDocument
from authz.model.approval import ApprovalState
from authz.model.approval_request import ApprovalRequest, ToolIdentity
from authz.model.decision import RuleMatch


def drift_of(request: ApprovalRequest, ruleset: Ruleset) -> tuple[str, ...]:
    """What of that which was shown is no longer so under `ruleset`, in words; empty where all of it is."""
    if request.policy_version == ruleset.version:
        return ()
    return (*_of_tool(request.asked.tool, ruleset), *_of_rules(request, ruleset))


def check_drift(drift: tuple[str, ...]) -> Refused | None:
    """Why no yes is taken to what has changed since; `None` where nothing has."""
    if not drift:
        return None
    return refused(
        AnswerCode.SHOWN_CHANGED,
        f"the policies changed since this was asked: {'; '.join(drift)}",
        ApprovalState.PENDING,
    )


def check_opened(document: ShownDocument, opened: Iterable[str]) -> Refused | None:
    """Why no yes is taken before what was folded has been looked at. `opened` are JSON Pointers."""
    folded = set(document["must_open"])
    missing = folded - set(opened)
    if not missing:
        return None
    # Not by name: a pointer is made of names that the requester chose.
    return refused(
        AnswerCode.NOT_OPENED,
        f"open what is folded before you say yes: {len(missing)} of {len(folded)} were not opened",
        ApprovalState.PENDING,
    )


def _of_tool(asked: ToolIdentity, ruleset: Ruleset) -> Iterator[str]:
    tool = find_tool(asked, ruleset)
    if tool is None:
        yield f"the tool `{asked.name}` is gone"
    elif tool.descriptor.digest != asked.descriptor_digest:
        yield f"the tool `{asked.name}` is described in another way"


def find_tool(asked: ToolIdentity, ruleset: Ruleset) -> Tool | None:
    """The tool of that server and name, whatever its description is now."""
    for tool in ruleset.tools.values():
        descriptor = tool.descriptor
        if (descriptor.server.identity, descriptor.name) == (asked.server, asked.name):
            return tool
    return None


def _of_rules(request: ApprovalRequest, ruleset: Ruleset) -> Iterator[str]:
    digests = rule_digests(ruleset, request.asked.rules)
    for rule in request.asked.rules:
        # What asked and stood in no bundle, as the caller itself, cannot change with one.
        if (shown := request.rule_digests.get(rule.rule)) is None:
            continue
        if rule.rule not in digests:
            yield f"the rule `{rule.rule}` is gone"
            continue
        now = ruleset.engine.policies[rule.rule].match
        found = list(_differences(rule, now))
        if not found and shown != digests[rule.rule]:
            found = ["applies to other calls"]
        if found:
            yield f"the rule `{rule.rule}` {', '.join(found)}"


def _differences(shown: RuleMatch, now: RuleMatch) -> Iterator[str]:
    if now.kind is not shown.kind:
        yield "does not ask any more"
    if now.reason != shown.reason:
        yield "gives another reason"
    if now.terms != shown.terms:
        yield "asks for other people or on other terms"

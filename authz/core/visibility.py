"""Which tools a subject could ever be allowed (spec sections 2 and 3).

One function for `POST /tools/visible` and for stage 2, so that what is hidden cannot be called by
any spelling, and what is shown is not denied by name.
"""

from authz.core.cedar_request import entities_document
from authz.core.ruleset import Ruleset, Tool


def hidden_because(ruleset: Ruleset, tool: Tool, agent: str, user: str | None) -> str | None:
    """Why the rules could never allow this subject this tool, or `None` when they could.

    A tool is hidden when one of the accesses that each of its calls makes is denied at every level,
    whatever the resource and the context. The reason is for the record, not for the caller.
    """
    key = (agent, user or "", tool.descriptor.qualified_name)
    cache = ruleset.visibility
    if key in cache:
        return cache[key]
    entities = entities_document(ruleset, agent, user, tool, ())
    reason = _hidden(ruleset, tool, agent, entities)
    if len(cache) >= ruleset.MAX_CACHED_VISIBILITY:
        cache.clear()
    cache[key] = reason
    return reason


def _hidden(ruleset: Ruleset, tool: Tool, agent: str, entities: str) -> str | None:
    descriptor = tool.descriptor
    actions = tool.actions
    always = {
        spec.verb for spec in descriptor.accesses if spec.at is None or spec.when_absent is not None
    } or {actions[0].verb if len({action.verb for action in actions}) == 1 else None}
    required = set(descriptor.input_schema.get("required", ()))
    always |= {
        spec.verb for spec in descriptor.accesses if spec.at and len(spec.at) == 1 and spec.at[0] in required
    }
    possible = False
    for verb in {action.verb for action in actions}:
        rules: set[str] = set()
        could = False
        for action in actions:
            if action.verb is verb and not could:
                could, denying = ruleset.engine.could_allow(("Agent", agent), action.id, entities)
                rules |= {rule.rule for rule in denying}
        possible = possible or could
        if not could and verb in always:
            named = ", ".join(sorted(rules)) or "no permit could match"
            return f"hidden: `{verb}` is denied whatever the arguments ({named})"
    return None if possible else "hidden: no access of the tool could be allowed"

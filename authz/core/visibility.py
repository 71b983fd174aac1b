"""Which tools a subject could ever be allowed (spec sections 2 and 3).

One function for `POST /tools/visible` and for stage 2, so that what is hidden cannot be called by
any spelling, and what is shown is not denied by name.
"""

from authz.core.cedar_request import call_entities
from authz.core.effects import EFFECT_KINDS
from authz.core.entities import PreparedEntities
from authz.core.ruleset import Ruleset, Tool
from authz.model.resource import Verb
from authz.model.tool import Descriptor


def hidden_because(ruleset: Ruleset, tool: Tool, agent: str, user: str | None) -> str | None:
    """Why the rules could never allow this subject this tool, or `None` when they could.

    A tool is hidden when one of the accesses that each of its calls makes is denied at every level,
    whatever the resource and the context. The reason is for the record, not for the caller.
    """
    key = (agent, user or "", tool.descriptor.qualified_name)
    cache = ruleset.visibility
    if key in cache:
        # Dictionaries keep their order: what was asked for last stands last, and the first one goes first.
        reason = cache[key] = cache.pop(key)
        return reason
    principal = ruleset.entities.principal(agent, user)
    reason = _hidden(ruleset, tool, agent, principal)
    cache[key] = reason
    if len(cache) > ruleset.MAX_CACHED_VISIBILITY:
        del cache[next(iter(cache))]
    return reason


def _hidden(ruleset: Ruleset, tool: Tool, agent: str, principal: PreparedEntities) -> str | None:
    always = _verbs_of_every_call(tool.descriptor)
    added = call_entities(tool, ())
    possible = False
    for verb in sorted({action.verb for action in tool.actions if action.verb is not None}):
        could = False
        denying: set[str] = set()
        for action in tool.actions:
            if action.verb is verb and not could:
                could, rules = ruleset.engine.could_allow(("Agent", agent), action.id, principal, added)
                denying |= {rule.rule for rule in rules}
        possible = possible or could
        if not could and verb in always:
            named = ", ".join(sorted(denying)) or "no permit could match"
            return f"hidden: `{verb}` is denied whatever the arguments ({named})"
    return None if possible else "hidden: no access of the tool could be allowed"


def _verbs_of_every_call(descriptor: Descriptor) -> set[Verb]:
    """Verbs of the accesses that no choice of arguments leaves out; what a line does, the line says."""
    required = set(descriptor.input_schema.get("required", ()))
    return {
        spec.verb
        for spec in descriptor.accesses
        if spec.kind not in EFFECT_KINDS
        if spec.at is None or spec.when_absent is not None or (len(spec.at) == 1 and spec.at[0] in required)
    }

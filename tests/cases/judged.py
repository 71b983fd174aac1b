"""What the cases of canonical kinds have in common: a policy in Cedar, one call, and its accesses."""

from typing import Any, Final

from authz.core.decide import Outcome
from authz.core.ruleset import Ruleset
from authz.model.decision import Effect
from tests.support.world import call, decide_in, rules_of

READS: Final = (
    '@id("reads") permit (principal, action in Action::"read", resource in Directory::"/workspace");'
)
WRITES: Final = (
    '@id("writes") permit (principal, action in [Action::"write", Action::"delete"], '
    'resource in Directory::"/workspace");'
)
OPAQUE: Final = (
    '@id("opaque") permit (principal, action, resource is Opaque);'
    '@id("opaque-asks") @requires("approval") forbid (principal, action, resource is Opaque);'
)
"""As the sample bundle has it: what is not understood is asked for."""


def runs(*programs: str) -> str:
    """`allow shell 'git *'`: these programs may run, as far as all that they do is judged by itself."""
    named = ", ".join(f'Program::"{name}"' for name in programs)
    return (
        '@id("runs") permit (principal, action in Action::"execute", resource is Program) '
        f'when {{ resource in [{named}] && action in Action::"A0" }};'
    )


def no(program: str) -> str:
    """`deny shell 'git clean *'`."""
    return f'@id("no") forbid (principal, action in Action::"execute", resource in Program::"{program}");'


def asks_unless(condition: str) -> str:
    """`default: require_approval`."""
    return (
        '@id("everything") permit (principal, action, resource);'
        '@id("others-ask") @requires("approval") forbid (principal, action, resource) '
        f"unless {{ {condition} }};"
    )


def accesses_of(outcome: Outcome) -> set[str]:
    """Each access in words: `read /workspace/a`, `/**` behind a tree, `opaque` for what is not understood."""
    found = set()
    for access in outcome.decision.accesses:
        resource = access.resource
        tree = "/**" if access.scope == "tree" else ""
        found.add("opaque" if resource.kind == "opaque" else f"{access.verb} {resource.value}{tree}")
    return found


def check(
    ruleset: Ruleset,
    name: str,
    arguments: dict[str, Any],
    effect: str,
    rules: list[str],
    accesses: set[str] = frozenset(),  # type: ignore[assignment]
    **more: Any,
) -> Outcome:
    """Decide one call: its effect, the rules that decided, and some of its accesses."""
    outcome = decide_in(ruleset, call(name, arguments, **more))
    assert outcome.decision.effect is Effect(effect), (outcome.decision, accesses_of(outcome))
    # Where a rule looks closer than at places, a tree is asked for as well.
    assert [rule for rule in rules_of(outcome) if rule != "authz:tree"] == rules, outcome.decision.matched
    assert accesses <= accesses_of(outcome), accesses_of(outcome)
    return outcome

"""Everything that keeps rules from loading, told at once. What the engine refuses is what this finds."""

from collections.abc import Iterator, Sequence
from difflib import get_close_matches

from authz.core.cedar_context import ISSUE_FIELDS
from authz.core.cedar_schema import Action
from authz.core.policy.messages import UNKNOWN_TOOL, type_problems
from authz.core.policy.names import asks_for_names, unknown_names
from authz.core.policy.narrow import NarrowValidator
from authz.core.policy.reads import context_reads, literals_looked_into
from authz.core.policy.rules import Policy, repeated_ids
from authz.core.policy.scopes import action_matches
from authz.core.policy.trees import entity_uids
from authz.errors import BundleProblem


def policy_problems(
    policies: Sequence[Policy], actions: Sequence[Action], unseen: Sequence[Policy] | None = None
) -> list[BundleProblem]:
    """A problem for every id that repeats, for every type error and for every name that nothing has.

    `unseen` are those of `policies` that are not known to pass what each is judged for by itself.
    """
    judged = policies if unseen is None else unseen
    faults = NarrowValidator(actions).faults(judged)
    problems = repeated_ids(policies)
    problems += type_problems(faults, actions)
    problems += action_literals_looked_into(judged)
    problems += unknown_tools(judged, actions)
    problems += unknown_has_names(judged, actions)
    told = {(problem.file, problem.line) for problem in problems}
    problems += [
        problem for problem in unknown_context_names(judged) if (problem.file, problem.line) not in told
    ]
    return problems


def unknown_context_names(policies: Sequence[Policy]) -> Iterator[BundleProblem]:
    """Cedar does not type what is behind a condition that never holds, so a name there may be anything."""
    known = frozenset({"arguments", *ISSUE_FIELDS})
    for policy in policies:
        for name in sorted(context_reads([policy.tree]).keys() - known):
            close = get_close_matches(name, sorted(known), n=1)
            yield BundleProblem(
                f"`{policy.id}`: there is no `context.{name}`",
                file=policy.match.file or "",
                line=policy.match.line,
                hint=f"did you mean `{close[0]}`?" if close else f"there are {', '.join(sorted(known))}",
                code="rule.unknown-attribute",
            )


def unknown_tools(policies: Sequence[Policy], actions: Sequence[Action]) -> Iterator[BundleProblem]:
    """Cedar knows the type and not which tools there are: a forbid on one that is none forbids nothing."""
    known = {action.tool for action in actions if action.tool}
    for policy in policies:
        named = {uid.id for uid in entity_uids(policy.tree) if str(uid.type) == "Tool"}
        for name in sorted(named - known):
            close = get_close_matches(name, sorted(known), n=1)
            yield BundleProblem(
                f'`{policy.id}`: there is no tool "{name}"',
                file=policy.match.file or "",
                line=policy.match.line,
                hint=f"did you mean `{close[0]}`?" if close else "write `server/tool`",
                code=UNKNOWN_TOOL,
            )


def unknown_has_names(policies: Sequence[Policy], actions: Sequence[Action]) -> Iterator[BundleProblem]:
    """Cedar lets a `has` of anything pass: see `authz.core.policy.names`."""
    names = [(action, frozenset((action.id, *action.groups))) for action in actions]
    for policy in policies:
        if asks_for_names(policy.tree):
            about = [action for action, groups in names if action_matches(policy.tree, groups)]
            yield from unknown_names(policy.tree, policy.match, about)


def action_literals_looked_into(policies: Sequence[Policy]) -> Iterator[BundleProblem]:
    """An action of a condition is only compared with: what it is in is told of the asked action alone."""
    for policy in policies:
        for clause in policy.tree.clauses:
            for kind, name in literals_looked_into(clause.expr):
                if kind == "Action":
                    yield BundleProblem(
                        f"`{policy.id}` looks into the action `{name}`",
                        file=policy.match.file or "",
                        line=policy.match.line,
                        hint='write `action in Action::"…"`',
                        code="rule.action-looked-into",
                    )

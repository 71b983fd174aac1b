"""Everything that keeps rules from loading, told at once. What the engine refuses is what this finds."""

from collections.abc import Iterator, Sequence
from difflib import get_close_matches

from authz.core.cedar_context import EVERY_FIELD
from authz.core.cedar_schema import APPROVE, Action
from authz.core.policy.messages import NO_ACTION, UNKNOWN_TOOL, scope_type, type_problems
from authz.core.policy.names import asks_for_names, unknown_names
from authz.core.policy.narrow import NarrowValidator
from authz.core.policy.reads import context_reads, literals_looked_into
from authz.core.policy.rules import Policy, repeated_ids
from authz.core.policy.scopes import action_matches, scope_actions
from authz.core.policy.trees import entity_uids
from authz.errors import BundleProblem
from authz.model.decision import RuleKind


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
    problems += idle_about_approving(judged)
    told = {(problem.file, problem.line) for problem in problems}
    problems += [
        problem for problem in unknown_context_names(judged) if (problem.file, problem.line) not in told
    ]
    return problems


def unknown_context_names(policies: Sequence[Policy]) -> Iterator[BundleProblem]:
    """Cedar does not type what is behind a condition that never holds, so a name there may be anything."""
    for policy in policies:
        for name in sorted(context_reads([policy.tree]).keys() - EVERY_FIELD):
            close = get_close_matches(name, sorted(EVERY_FIELD), n=1)
            yield BundleProblem(
                f"`{policy.id}`: there is no `context.{name}`",
                file=policy.match.file or "",
                line=policy.match.line,
                hint=f"did you mean `{close[0]}`?"
                if close
                else f"there are {', '.join(sorted(EVERY_FIELD))}",
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


def idle_about_approving(policies: Sequence[Policy]) -> Iterator[BundleProblem]:
    """Rules about approving that have no say in it: a permit must name it, and nobody is asked about it."""
    for policy in policies:
        named = scope_actions(policy.tree)
        # Only who approves is a User.
        is_about_it = (
            scope_type(policy.tree.principal) == "User"
            if named is None
            else bool(named) and all(name == APPROVE or name.startswith(f"{APPROVE}:") for name in named)
        )
        if is_about_it and policy.match.kind is RuleKind.ASK:
            said, hint = "nobody is asked whether somebody may approve", "forbid it, without `@requires`"
        elif is_about_it and policy.match.kind is RuleKind.PERMIT and named is None:
            said, hint = "it is about a User, who only approves", 'write `action in Action::"approve"`'
        else:
            continue
        yield BundleProblem(
            f"`{policy.id}`: it can never match: {said}",
            file=policy.match.file or "",
            line=policy.match.line,
            hint=hint,
            code=NO_ACTION,
        )


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

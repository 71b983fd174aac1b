"""Everything that a bundle can be told before it bites: what keeps it from loading, and what lint finds.

The load path is the authority: its faults are the errors. Lint adds warnings, about what could be read.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from publicsuffixlist import PublicSuffixList

from authz.bundle.cases import read_cases
from authz.bundle.descriptors import Parsed
from authz.bundle.format import AccessSection, ToolSection
from authz.bundle.load import SCHEMA_FILE, BundleSources, Examined, examine_bundle, read_folder
from authz.bundle.self_protection import SELF_RULE, Protected
from authz.bundle.yaml_source import YamlDocument
from authz.core.approval_use import CALLER_RULE
from authz.core.cedar_schema import every_action, generate_schema
from authz.core.judge import TREE_RULE
from authz.core.lint import (
    approving,
    asks,
    catalogue,
    rules_cover,
    rules_match,
    rules_names,
    tested,
    tool_options,
    tool_review,
    tool_schema,
)
from authz.core.lint.allow import (
    COVERS_SEVERAL,
    NO_REASON,
    UNKNOWN_CODE,
    UNUSED,
    Accepted,
    Allowance,
    allowed_by_rule,
    settle,
)
from authz.core.lint.catalogue import CatalogueCost, catalogue_cost
from authz.core.lint.facts import RuleFacts
from authz.core.lint.table import Finding, Lint, Severity, run
from authz.core.lint.tool_facts import AccessFacts, ToolFacts
from authz.core.lint.tool_facts import Path as EntryPath
from authz.core.pointer import parse_pointer
from authz.core.policy import Policy
from authz.core.policy.narrow import SCHEMA_INVALID
from authz.core.ruleset import Tool, every_label
from authz.core.tools import possible_levels
from authz.errors import SEVERITIES, BundleProblem
from authz.model.resource import Authority
from authz.model.tool import Role

RULE_LINTS: Final[Sequence[Lint[RuleFacts]]] = (
    *rules_match.LINTS,
    *rules_cover.LINTS,
    *rules_names.LINTS,
    *asks.LINTS,
    *approving.LINTS,
    *tested.LINTS,
)
TOOL_LINTS: Final[Sequence[Lint[ToolFacts]]] = (
    *tool_schema.LINTS,
    *tool_options.LINTS,
    *tool_review.LINTS,
    *catalogue.LINTS,
)
SCHEMA_STALE: Final = "schema.stale"
CODES: Final[Mapping[str, str]] = {
    **{lint.code: lint.says for lint in RULE_LINTS},
    **{lint.code: lint.says for lint in TOOL_LINTS},
    SCHEMA_STALE: f"{SCHEMA_FILE} is not what the tools generate",
    UNUSED: "an accepted finding that is not found",
    NO_REASON: "an accepted finding without a reason",
    UNKNOWN_CODE: "an accepted code that does not exist",
    COVERS_SEVERAL: "one acceptance for several findings of a rule",
}
"""Every code of lint and what it means. The codes of errors are those of the load path."""
DEFAULT_TURNS: Final = 30
_TOOLS: Final = "tools/"
_BUILT_IN: Final = frozenset({SELF_RULE, TREE_RULE.rule, CALLER_RULE.rule})
"""Rules that decide in every bundle, so that a test may expect them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What was found, gravest first in each file."""

    findings: tuple[BundleProblem, ...]
    accepted: tuple[Accepted, ...]
    """What somebody has looked at and accepts: told, and never a failure."""
    rules: int
    tools: int
    linted: bool
    """Whether the rules were linted: not where parts that they name could not be read."""
    cost: CatalogueCost

    def count(self, severity: str) -> int:
        """How many findings there are of this severity."""
        return sum(finding.severity == severity for finding in self.findings)

    def fails(self, *, strict: bool) -> bool:
        """Whether there is an error, or with `strict` a warning."""
        return bool(self.count(Severity.ERROR) or (strict and self.count(Severity.WARNING)))


def check_folder(folder: Path, *, with_tools: bool = True, turns: int = DEFAULT_TURNS) -> Report:
    """Check the bundle in `folder`. Raises `BundleError` when there is no such folder."""
    files, problems = read_folder(folder)
    return check_files(files, problems, with_tools=with_tools, turns=turns)


def check_files(
    files: Mapping[str, bytes],
    problems: Iterable[BundleProblem] = (),
    *,
    with_tools: bool = True,
    turns: int = DEFAULT_TURNS,
) -> Report:
    """Check a bundle's files; `problems` are those of reading them."""
    schema = files.get(SCHEMA_FILE)
    sources = BundleSources(files={name: data for name, data in files.items() if name != SCHEMA_FILE})
    examined = examine_bundle(sources, Protected())
    errors = [*problems, *examined.problems]
    findings: list[Finding] = []
    allowances: list[Allowance] = []
    linted = examined.whole and all(problem.code != SCHEMA_INVALID for problem in errors)
    if linted:
        facts = _rule_facts(examined, sources, errors)
        findings += run(RULE_LINTS, facts)
        findings += _stale_schema(schema, examined)
        allowances += [allowed for outline in facts.outlines for allowed in allowed_by_rule(outline)]
    tools = list(_tools(examined))
    if with_tools:
        findings += [finding for tool, _ in tools for finding in _lint_tool(tool)]
        allowances += [allowed for _, accepted in tools for allowed in accepted]
    cost = catalogue_cost([tool for tool, _ in tools], turns)
    return _report(errors, findings, allowances, examined, cost, linted=linted)


def lint_tools(folder: Path, *, turns: int = DEFAULT_TURNS) -> Report:
    """Lint the tools alone, with their errors. Raises `BundleError` when there is no such folder."""
    files, problems = read_folder(folder)
    sources = BundleSources(files={name: data for name, data in files.items() if name != SCHEMA_FILE})
    examined = examine_bundle(sources, Protected())
    errors = [one for one in (*problems, *examined.problems) if one.file.startswith(_TOOLS)]
    tools = list(_tools(examined))
    findings = [finding for tool, _ in tools for finding in _lint_tool(tool)]
    allowances = [allowed for _, accepted in tools for allowed in accepted]
    cost = catalogue_cost([tool for tool, _ in tools], turns)
    return _report(errors, findings, allowances, examined, cost)


def _report(
    errors: Iterable[BundleProblem],
    findings: Iterable[Finding],
    allowances: Sequence[Allowance],
    examined: Examined,
    cost: CatalogueCost,
    *,
    linted: bool = True,
) -> Report:
    standing, accepted = settle(findings, allowances, frozenset(CODES))
    return Report(
        findings=tuple(sorted([*errors, *standing], key=_order)),
        accepted=tuple(sorted(accepted, key=lambda one: _order(one.problem))),
        rules=len(examined.policies),
        tools=len(cost.tokens),
        linted=linted,
        cost=cost,
    )


def _order(problem: BundleProblem) -> tuple[str, int, int, str, str]:
    return (
        problem.file,
        problem.line or 0,
        SEVERITIES.index(problem.severity),
        problem.code,
        problem.message,
    )


def _rule_facts(examined: Examined, sources: BundleSources, errors: Iterable[BundleProblem]) -> RuleFacts:
    suffixes = PublicSuffixList()
    return RuleFacts(
        policies=tuple(_sound(examined.policies, errors)),
        is_public_suffix=lambda domain: suffixes.publicsuffix(domain) == domain,
        actions=tuple(every_action(action for tool in examined.tools.values() for action in tool.actions)),
        members=examined.members,
        profiles=examined.profiles,
        labels=every_label(examined.tools.values()),
        # Faults of the case files are errors of the load path already.
        cases=read_cases(sources.files, []),
        rules=_BUILT_IN | {rule.id for rule in examined.policies} | {limit.id for limit in examined.limits},
    )


def _sound(policies: Iterable[Policy], errors: Iterable[BundleProblem]) -> Iterable[Policy]:
    """The rules that are no error themselves: lint would only say the same once more."""
    places = {(error.file, error.line) for error in errors}
    ids: set[str] = set()
    for policy in policies:
        if (policy.match.file, policy.match.line) not in places and policy.id not in ids:
            ids.add(policy.id)
            yield policy


def _stale_schema(schema: bytes | None, examined: Examined) -> list[Finding]:
    actions = every_action(action for tool in examined.tools.values() for action in tool.actions)
    if schema is None or schema.decode("utf-8", "replace") == generate_schema(actions):
        return []
    problem = BundleProblem(
        "it is not what the tools generate, so editors check rules against something else",
        file=SCHEMA_FILE,
        hint="run `authz schema --write`",
        code=SCHEMA_STALE,
        severity=Severity.WARNING,
    )
    return [Finding(problem=problem, subject=SCHEMA_FILE)]


def _lint_tool(tool: ToolFacts) -> list[Finding]:
    return run(TOOL_LINTS, tool)


def _tools(examined: Examined) -> Iterable[tuple[ToolFacts, list[Allowance]]]:
    for parsed in examined.tool_files:
        document, file = parsed
        for index, section in enumerate(file.tools):
            name = f"{file.server.alias}/{section.name}"
            at: EntryPath = ("tools", index)
            tool = examined.tools.get((file.server.alias, section.name))
            yield (
                _tool_facts(parsed, at, section, name, tool),
                [
                    Allowance(
                        subject=name,
                        code=allowed.code,
                        reason=allowed.reason,
                        file=document.file,
                        line=document.line((*at, "lint", "allow", number)),
                    )
                    for number, allowed in enumerate(section.lint.allow)
                ],
            )


def _tool_facts(
    parsed: Parsed, at: EntryPath, section: ToolSection, name: str, tool: Tool | None
) -> ToolFacts:
    document, file = parsed
    settlement = section.settlement
    return ToolFacts(
        name=name,
        file=document.file,
        line_of=_Lines(document, at),
        description=section.description,
        input_schema=section.input_schema,
        accesses=tuple(_access(entry, number, tool) for number, entry in enumerate(section.accesses)),
        side_effect=section.side_effect,
        has_idempotency_key=settlement.idempotency_key_at is not None,
        has_retention=settlement.retention_seconds is not None,
        has_probe=settlement.probe is not None,
        reviewed=section.reviewed,
        is_command=_is_command(file.server.identity),
        roles={parse_pointer(pointer): Role(role) for pointer, role in section.roles.items()},
        may_start_with_dash=tuple(map(parse_pointer, section.may_start_with_dash)),
    )


def _is_command(identity: str) -> bool:
    return "://" not in identity and not identity.startswith("local:")


def _access(entry: AccessSection, number: int, tool: Tool | None) -> AccessFacts:
    derived = None
    if tool is not None:
        plain = replace(tool.descriptor.accesses[number], raised_authority=Authority.A0)
        derived = min(possible_levels(tool.descriptor, plain))
    return AccessFacts(
        verb=entry.verb,
        declared=Authority[entry.authority] if "authority" in entry.model_fields_set else None,
        derived=derived,
        kind=entry.kind,
        at=parse_pointer(entry.at) if entry.at is not None else None,
    )


@dataclass(frozen=True, slots=True)
class _Lines:
    """Where the parts of one entry stand."""

    document: YamlDocument
    at: EntryPath

    def __call__(self, path: EntryPath) -> int | None:
        return self.document.line((*self.at, *path))

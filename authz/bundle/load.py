"""From a folder to a `Ruleset`. Every fault is reported, with file, line and what to do."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from authz.bundle.cases import case_problems
from authz.bundle.files import Tried, read_rules, read_yaml, tools_of, volumes_of
from authz.bundle.format import CredentialFile, EntityFile, LimitFile, ManifestFile, ToolFile
from authz.bundle.limits import LimitContext, compile_limits
from authz.bundle.people import compile_entities, compile_profiles, undeclared_approvers
from authz.bundle.self_protection import SELF_FILE, Protected, protecting_rules
from authz.bundle.sources import (
    LIMITS_FILE,
    MAX_FILE_BYTES,
    SCHEMA_FILE,
    BundleSources,
    read_folder,
    read_sources,
)
from authz.bundle.yaml_source import YamlDocument
from authz.core.cedar_schema import every_action, generate_schema
from authz.core.entities import EntityDirectory, PersonOrGroup
from authz.core.limits import limits_by_tool
from authz.core.policy import (
    Policy,
    PolicyEngine,
    ValidationCache,
    parse_rule_file,
    policy_problems,
)
from authz.core.policy.messages import BY_MISSING_TOOLS
from authz.core.ruleset import Ruleset, Tool, every_label
from authz.core.steps import go_on
from authz.errors import BundleError, BundleProblem
from authz.model.caller import Profile
from authz.model.limit import Limit

__all__ = [
    "LIMITS_FILE",
    "MAX_FILE_BYTES",
    "SCHEMA_FILE",
    "BundleSources",
    "Examined",
    "compile_bundle",
    "compile_tried_bundle",
    "examine_bundle",
    "load_bundle",
    "read_folder",
    "read_sources",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Examined:
    """What of a bundle could be read, and every fault that keeps it from loading.

    Where there are faults, the parts are for finding more of them: nothing may be decided by them.
    """

    problems: tuple[BundleProblem, ...]
    ruleset: Ruleset | None
    """The bundle, whole; `None` where there is any problem."""
    policies: tuple[Policy, ...]
    """Those of the rule files, without the rule that every bundle gets."""
    tool_files: tuple[tuple[YamlDocument, ToolFile], ...]
    tools: Mapping[tuple[str, str], Tool]
    profiles: Mapping[str, Profile]
    members: tuple[PersonOrGroup, ...]
    limits: tuple[Limit, ...]
    whole: bool
    """Whether all tools, people and profiles could be read: what a rule names can then be looked up."""


def load_bundle(folder: Path, protected: Protected) -> Ruleset:
    """Read and compile the bundle in `folder`."""
    return compile_bundle(read_sources(folder), protected)


def compile_bundle(
    sources: BundleSources, protected: Protected, validations: ValidationCache | None = None
) -> Ruleset:
    """Compile a bundle, whole or not at all. Raises `BundleError` with every fault found.

    `validations` remembers rules that passed: those are not validated again.
    """
    return _whole(examine_bundle(sources, protected, validations))


def compile_tried_bundle(sources: BundleSources, protected: Protected, tried: Tried) -> Ruleset:
    """Compile a bundle of which these very bytes passed `compile_bundle`, in a process of the same program.

    Checks that need long in one piece are not made again, for other threads would wait for them: Cedar's
    validation of what passed there, the reading of a rule file as a whole, the approvers and the cases.
    Raises `BundleError` like the other.
    """
    return _whole(examine_bundle(sources, protected, tried.passed, tried=tried))


def _whole(examined: Examined) -> Ruleset:
    if examined.ruleset is None:
        raise BundleError(examined.problems)
    return examined.ruleset


def examine_bundle(
    sources: BundleSources,
    protected: Protected,
    validations: ValidationCache | None = None,
    *,
    tried: Tried | None = None,
) -> Examined:
    """Compile a bundle as far as it goes, and tell everything that keeps it from loading."""
    problems: list[BundleProblem] = []
    read_yaml(sources, "bundle.yaml", ManifestFile, problems, tried)
    credentials = read_yaml(sources, "credentials.yaml", CredentialFile, problems, tried)
    people = read_yaml(sources, "entities.yaml", EntityFile, problems, tried)
    tool_names = [name for name in sources.files if name.startswith("tools/")]
    tool_files = [
        parsed
        for name in tool_names
        if (parsed := read_yaml(sources, name, ToolFile, problems, tried)) is not None
    ]
    profiles = compile_profiles(credentials, problems) if credentials else {}
    volumes = volumes_of(profiles)
    policies = read_rules(sources, volumes, problems, tried)
    members = compile_entities(people, problems) if people else []
    servers, tools = tools_of(tool_files, frozenset(profiles) if credentials else None, problems, tried)
    if tried is None:
        problems += undeclared_approvers(policies, members) if people else ()
        problems += case_problems(sources.files, profiles, members)
    limit_file = (
        read_yaml(sources, LIMITS_FILE, LimitFile, problems, tried) if LIMITS_FILE in sources.files else None
    )
    context = LimitContext(
        tools=tools,
        declared=_declared_tools(tool_files) if len(tool_files) == len(tool_names) else None,
        members=members if people else None,
        rules=frozenset(policy.id for policy in policies),
        volumes=volumes,
    )
    limits = compile_limits(limit_file, context, problems) if limit_file else ()
    ruleset = None
    described = sum(len(file.tools) for _, file in tool_files)
    whole = len(tool_files) == len(tool_names) and len(tools) == described
    if problems:
        problems += _more_problems(policies, tools, whole=whole)
    else:
        guarded = [*policies, *parse_rule_file(SELF_FILE, protecting_rules(protected))]
        try:
            engine = _engine(guarded, tools, validations, tried)
            ruleset = _assemble(sources.version, engine, profiles, members, servers, tools)
            ruleset = replace(ruleset, limits=limits, limits_by_tool=limits_by_tool(limits, tools))
        except BundleError as error:
            problems += error.problems
    return Examined(
        problems=tuple(problems),
        ruleset=ruleset,
        policies=tuple(policies),
        tool_files=tuple(tool_files),
        tools=tools,
        profiles=profiles,
        members=tuple(members),
        limits=tuple(limits),
        whole=whole and credentials is not None and people is not None,
    )


def _declared_tools(files: Iterable[tuple[YamlDocument, ToolFile]]) -> frozenset[str]:
    """`server/name` of every tool, also of those that have faults."""
    return frozenset(f"{file.server.alias}/{tool.name}" for _, file in files for tool in file.tools)


def _more_problems(
    policies: Sequence[Policy], tools: Mapping[Any, Tool], *, whole: bool
) -> list[BundleProblem]:
    """What else is wrong with the rules of a bundle that has other faults.

    Where tools are missing because of their own faults (`whole` is false), a rule about them is no fault.
    """
    actions = every_action(action for tool in tools.values() for action in tool.actions)
    try:
        found = policy_problems(policies, actions)
    except BundleError as error:
        return list(error.problems)
    return found if whole else [problem for problem in found if problem.code not in BY_MISSING_TOOLS]


def _engine(
    policies: list[Policy],
    tools: Mapping[Any, Tool],
    validations: ValidationCache | None,
    tried: Tried | None,
) -> PolicyEngine:
    actions = every_action(action for tool in tools.values() for action in tool.actions)
    before = tried.before.engine if tried is not None and tried.before is not None else None
    step = tried.step if tried is not None else go_on
    return PolicyEngine(policies, generate_schema(actions), actions, validations, before=before, step=step)


def _assemble(
    version: str,
    engine: PolicyEngine,
    profiles: Any,
    members: Any,
    servers: Any,
    tools: Mapping[Any, Tool],
) -> Ruleset:
    return Ruleset(
        version=version,
        servers=servers,
        tools=tools,
        profiles=profiles,
        engine=engine,
        entities=EntityDirectory(
            members,
            {tool.descriptor.qualified_name: tool.document for tool in tools.values()},
        ),
        schema_text=engine.schema_text,
        every_label=every_label(tools.values()),
    )

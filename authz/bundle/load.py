"""From a folder to a `Ruleset`. Every fault is reported, with file, line and what to do."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import Any, Final, TypeVar

from pydantic import BaseModel, ValidationError

from authz.bundle.cases import case_problems
from authz.bundle.descriptors import compile_tools
from authz.bundle.format import NO_VALUE, CredentialFile, EntityFile, LimitFile, ManifestFile, ToolFile
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
from authz.bundle.yaml_source import YamlDocument, load_yaml
from authz.core.cedar_schema import generate_schema
from authz.core.entities import EntityDirectory, PersonOrGroup
from authz.core.limits import limits_by_tool
from authz.core.policy import (
    Policy,
    PolicyEngine,
    ValidationCache,
    parse_rule_file,
    policy_problems,
    read_rule_file,
)
from authz.core.policy.messages import BY_MISSING_TOOLS
from authz.core.ruleset import Ruleset, Tool, every_label
from authz.errors import BundleError, BundleProblem
from authz.model.caller import Profile
from authz.model.limit import Limit
from authz.model.resource import Volume

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

Model = TypeVar("Model", bound=BaseModel)


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


def compile_tried_bundle(sources: BundleSources, protected: Protected, passed: ValidationCache) -> Ruleset:
    """Compile a bundle of which these very bytes passed `compile_bundle`, in a process of the same program.

    Checks that need long in one piece are not made again, for other threads would wait for them: Cedar's
    validation of what `passed` there, the reading of a rule file as a whole, and the cases. Raises
    `BundleError` like the other.
    """
    return _whole(examine_bundle(sources, protected, passed, tried=True))


def _whole(examined: Examined) -> Ruleset:
    if examined.ruleset is None:
        raise BundleError(examined.problems)
    return examined.ruleset


def examine_bundle(
    sources: BundleSources,
    protected: Protected,
    validations: ValidationCache | None = None,
    *,
    tried: bool = False,
) -> Examined:
    """Compile a bundle as far as it goes, and tell everything that keeps it from loading."""
    problems: list[BundleProblem] = []
    _parse(sources, "bundle.yaml", ManifestFile, problems)
    credentials = _parse(sources, "credentials.yaml", CredentialFile, problems)
    people = _parse(sources, "entities.yaml", EntityFile, problems)
    tool_names = [name for name in sources.files if name.startswith("tools/")]
    tool_files = [
        parsed for name in tool_names if (parsed := _parse(sources, name, ToolFile, problems)) is not None
    ]
    profiles = compile_profiles(credentials, problems) if credentials else {}
    volumes = list(dict.fromkeys(profile.volume for profile in profiles.values())) or [Volume()]
    policies = _parse_rules(sources, volumes, problems, tried=tried)
    members = compile_entities(people, problems) if people else []
    servers, tools = compile_tools(tool_files, frozenset(profiles) if credentials else None, problems)
    if people:
        problems += undeclared_approvers(policies, members)
    if not tried:
        problems += case_problems(sources.files, profiles, members)
    limit_file = _parse(sources, LIMITS_FILE, LimitFile, problems) if LIMITS_FILE in sources.files else None
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
            ruleset = _assemble(sources.version, guarded, profiles, members, servers, tools, validations)
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
    actions = [action for tool in tools.values() for action in tool.actions]
    try:
        found = policy_problems(policies, actions)
    except BundleError as error:
        return list(error.problems)
    return found if whole else [problem for problem in found if problem.code not in BY_MISSING_TOOLS]


def _assemble(
    version: str,
    policies: list[Policy],
    profiles: Any,
    members: Any,
    servers: Any,
    tools: Mapping[Any, Tool],
    validations: ValidationCache | None,
) -> Ruleset:
    actions = [action for tool in tools.values() for action in tool.actions]
    schema_text = generate_schema(actions)
    engine = PolicyEngine(policies, schema_text, actions, validations)
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
        schema_text=schema_text,
        every_label=every_label(tools.values()),
    )


def _parse_rules(
    sources: BundleSources, volumes: list[Volume], problems: list[BundleProblem], *, tried: bool
) -> list[Policy]:
    policies: list[Policy] = []
    before = len(problems)
    for name, data in sources.files.items():
        if not name.startswith("rules/"):
            continue
        try:
            text = data.decode("utf-8")
        except UnicodeDecodeError:
            problems.append(BundleProblem("the file is not valid UTF-8", file=name, code="file.encoding"))
            continue
        found, faults = read_rule_file(name, text, volumes, as_a_whole=not tried)
        if not found and not faults:
            faults = [_empty(name)]
        policies += found
        problems += faults
    if not policies and len(problems) == before:
        problems.append(
            BundleProblem(
                "the bundle has no rules",
                file="rules",
                hint="add rules/*.cedar; nothing is allowed without one",
                code="rule.none",
            )
        )
    return policies


def _empty(name: str) -> BundleProblem:
    """A file that is being written is empty at first: what it forbade must not be gone until it is there."""
    return BundleProblem(
        "the file has no rules",
        file=name,
        hint="delete the file if that is meant; while a file is being written it is empty too",
        code="rule.empty-file",
    )


def _parse(
    sources: BundleSources, name: str, model: type[Model], problems: list[BundleProblem]
) -> tuple[YamlDocument, Model] | None:
    data = sources.files.get(name)
    if data is None:
        problems.append(BundleProblem("the file is missing", file=name, code="file.missing"))
        return None
    try:
        document = load_yaml(name, data)
    except BundleError as error:
        problems += error.problems
        return None
    try:
        return document, model.model_validate(document.value)
    except ValidationError as error:
        for fault in error.errors(include_url=False, include_input=False):
            path = tuple(fault["loc"])
            problems.append(
                document.problem(
                    path,
                    f"{document.place(path)}: {_sentence(fault['type'], fault['msg'])}",
                    _nearest_key(model, path) if fault["type"] == "extra_forbidden" else "",
                    code=_FORMAT_CODES.get(fault["type"], "format.value"),
                )
            )
        return None


_FORMAT_CODES: Final = {
    "extra_forbidden": "format.unknown-key",
    "missing": "format.missing-key",
    NO_VALUE: "format.no-value",
}


def _nearest_key(model: type[BaseModel], path: tuple[str | int, ...]) -> str:
    """The key that an unknown one was probably to be, of any section of the file."""
    close = get_close_matches(str(path[-1]), sorted(_keys(model)), n=1, cutoff=0.7)
    return f"did you mean `{close[0]}`?" if close else ""


@cache
def _keys(model: type[BaseModel]) -> frozenset[str]:
    """The keys of a section and of all sections in it."""
    schema = model.model_json_schema()
    parts = [schema, *schema.get("$defs", {}).values()]
    return frozenset(key for part in parts for key in part.get("properties", {}))


def _sentence(kind: str, message: str) -> str:
    if kind == "extra_forbidden":
        return "unknown key"
    if kind == "missing":
        return "missing"
    if kind in ("model_type", "dict_type"):
        return "expected a mapping"
    return message[:1].lower() + message[1:]

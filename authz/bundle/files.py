"""The files of a bundle, each read by itself: YAML as models, and rules as policies.

What a load reads it can leave to the one after it, by content: a file that has not changed is not read
again, nor are tools compiled again of files that have not, nor a rule that stands in the bundle in force.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cache
from operator import is_
from typing import Any, Final, TypeVar

from pydantic import BaseModel, ValidationError

from authz.bundle.descriptors import compile_tools
from authz.bundle.format import NO_VALUE, ToolFile
from authz.bundle.self_protection import SELF_FILE
from authz.bundle.sources import BundleSources
from authz.bundle.yaml_source import YamlDocument, load_yaml
from authz.core.policy import Policy, ValidationCache, read_rule_file
from authz.core.ruleset import Ruleset, Tool
from authz.core.steps import Step, go_on
from authz.errors import BundleError, BundleProblem
from authz.model.caller import Profile
from authz.model.resource import Volume
from authz.model.tool import Server

Model = TypeVar("Model", bound=BaseModel)
Servers = Mapping[str, Server]
Tools = Mapping[tuple[str, str], Tool]


@dataclass(slots=True, kw_only=True)
class KnownFiles:
    """What a load has read without a fault: YAML files, and the tools that were compiled of them."""

    parsed: dict[tuple[str, bytes], tuple[YamlDocument, Any]] = field(default_factory=dict)
    """By name and SHA-256 of the content."""
    tool_files: tuple[ToolFile, ...] = ()
    profiles: frozenset[str] = frozenset()
    """The names of those that were declared then."""
    compiled: tuple[Servers, Tools] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Tried:
    """What makes short work of a bundle of which these very bytes passed elsewhere, by the same program."""

    passed: ValidationCache
    """The rules that passed there."""
    before: Ruleset | None = None
    """The bundle in force: rules that are in both are not compiled again. Nothing else of it is taken."""
    known: KnownFiles = field(default_factory=KnownFiles)
    """What an earlier load has read."""
    read: KnownFiles = field(default_factory=KnownFiles)
    """What this one has: filled by it."""
    step: Step = go_on


def volumes_of(profiles: Mapping[str, Profile]) -> list[Volume]:
    """What literals are held to: they are canonical on each."""
    return list(dict.fromkeys(profile.volume for profile in profiles.values())) or [Volume()]


def tools_of(
    files: Sequence[tuple[YamlDocument, ToolFile]],
    profiles: frozenset[str] | None,
    problems: list[BundleProblem],
    tried: Tried | None = None,
) -> tuple[Servers, Tools]:
    """See `compile_tools`."""
    if tried is None or profiles is None:
        return compile_tools(list(files), profiles, problems)
    known, read = tried.known, tried.read
    models = tuple(model for _, model in files)
    # The very same objects: what is read of the same content is.
    same = len(models) == len(known.tool_files) and all(map(is_, models, known.tool_files))
    if known.compiled is not None and same and profiles == known.profiles:
        compiled = known.compiled
    else:
        before = len(problems)
        compiled = compile_tools(list(files), profiles, problems)
        if len(problems) > before:
            return compiled
    read.tool_files, read.profiles, read.compiled = models, profiles, compiled
    return compiled


def _known_policies(before: Ruleset | None, volumes: list[Volume]) -> Mapping[str, Policy]:
    """Rules of the bundle in force by their text, where they were read for the same volumes."""
    if before is None or volumes_of(before.profiles) != volumes:
        return {}
    return {
        policy.text: policy for policy in before.engine.policies.values() if policy.match.file != SELF_FILE
    }


def read_rules(
    sources: BundleSources, volumes: list[Volume], problems: list[BundleProblem], tried: Tried | None = None
) -> list[Policy]:
    """The policies of every rule file; faults are added to `problems`."""
    policies: list[Policy] = []
    before = len(problems)
    known = _known_policies(tried.before if tried is not None else None, volumes)
    for name, data in sources.files.items():
        if not name.startswith("rules/"):
            continue
        try:
            text = data.decode("utf-8")
        except UnicodeDecodeError:
            problems.append(BundleProblem("the file is not valid UTF-8", file=name, code="file.encoding"))
            continue
        found, faults = read_rule_file(
            name,
            text,
            volumes,
            tried=tried is not None,
            known=known,
            step=tried.step if tried is not None else go_on,
        )
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


def read_yaml(
    sources: BundleSources,
    name: str,
    model: type[Model],
    problems: list[BundleProblem],
    tried: Tried | None = None,
) -> tuple[YamlDocument, Model] | None:
    """One file as a model, of which each name has one; faults are added to `problems`."""
    data = sources.files.get(name)
    if data is None:
        problems.append(BundleProblem("the file is missing", file=name, code="file.missing"))
        return None
    if tried is None:
        return _parse(name, data, model, problems)
    key = (name, hashlib.sha256(data).digest())
    found = tried.known.parsed.get(key) or _parse(name, data, model, problems)
    if found is not None:
        tried.read.parsed[key] = found
    tried.step()
    return found


def _parse(
    name: str, data: bytes, model: type[Model], problems: list[BundleProblem]
) -> tuple[YamlDocument, Model] | None:
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

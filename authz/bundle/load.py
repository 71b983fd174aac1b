"""From a folder to a `Ruleset`. Every fault is reported, with file, line and what to do."""

import hashlib
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

from pydantic import BaseModel, ValidationError

from authz.bundle.descriptors import compile_tools
from authz.bundle.format import CredentialFile, EntityFile, ManifestFile, ToolFile
from authz.bundle.people import compile_entities, compile_profiles, undeclared_approvers
from authz.bundle.self_protection import SELF_FILE, Protected, protecting_rules
from authz.bundle.yaml_source import YamlDocument, load_yaml
from authz.core.cedar_schema import generate_schema
from authz.core.entities import EntityDirectory
from authz.core.fingerprint import digest
from authz.core.policy import Policy, PolicyEngine, parse_rule_file
from authz.core.ruleset import Ruleset, Tool, every_label
from authz.errors import BundleError, BundleProblem
from authz.model.resource import Volume

MAX_FILE_BYTES: Final = 4 * 1024 * 1024
MAX_FILES: Final = 4096

Model = TypeVar("Model", bound=BaseModel)


@dataclass(frozen=True, slots=True, kw_only=True)
class BundleSources:
    """The bytes of a bundle's files, by path relative to its folder."""

    files: Mapping[str, bytes]

    @property
    def version(self) -> str:
        """The content digest: the same files give the same version everywhere."""
        return digest({name: hashlib.sha256(data).hexdigest() for name, data in self.files.items()})


def read_sources(folder: Path) -> BundleSources:
    """Read a bundle's files. Raises `BundleError` for what is missing, unknown or unreadable."""
    problems: list[BundleProblem] = []
    files: dict[str, bytes] = {}
    if not folder.is_dir():
        raise BundleError((BundleProblem("there is no such folder", file=str(folder)),))
    for path in sorted(_walk(folder)):
        name = path.relative_to(folder).as_posix()
        if not _expected(name):
            problems.append(
                BundleProblem(
                    "not a file of a bundle, so nothing would read it",
                    file=name,
                    hint="a bundle has bundle.yaml, credentials.yaml, entities.yaml, "
                    "rules/*.cedar, tools/*.yaml and tests/*.yaml",
                )
            )
            continue
        try:
            data = path.read_bytes()
        except OSError as error:
            problems.append(BundleProblem(f"cannot be read: {error.strerror}", file=name))
            continue
        if len(data) > MAX_FILE_BYTES:
            problems.append(BundleProblem(f"over {MAX_FILE_BYTES} bytes", file=name))
        files[name] = data
    if len(files) > MAX_FILES:
        problems.append(BundleProblem(f"over {MAX_FILES} files", file=str(folder)))
    if problems:
        raise BundleError(tuple(problems))
    # The generated schema is derived from the rest: it is for editors, and no source.
    files.pop("schema.cedarschema", None)
    return BundleSources(files=files)


def _walk(folder: Path) -> Iterable[Path]:
    for parent, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(names):
            if not name.startswith("."):
                yield Path(parent) / name


def _expected(name: str) -> bool:
    folder, _, file = name.rpartition("/")
    if folder == "":
        return file in {
            "bundle.yaml",
            "entities.yaml",
            "credentials.yaml",
            "schema.cedarschema",
            "README.md",
        }
    if folder == "rules":
        return file.endswith(".cedar")
    return folder in ("tools", "tests") and file.endswith(".yaml")


def load_bundle(folder: Path, protected: Protected) -> Ruleset:
    """Read and compile the bundle in `folder`."""
    return compile_bundle(read_sources(folder), protected)


def compile_bundle(sources: BundleSources, protected: Protected) -> Ruleset:
    """Compile a bundle, whole or not at all. Raises `BundleError` with every fault found."""
    problems: list[BundleProblem] = []
    _parse(sources, "bundle.yaml", ManifestFile, problems)
    credentials = _parse(sources, "credentials.yaml", CredentialFile, problems)
    people = _parse(sources, "entities.yaml", EntityFile, problems)
    tool_files = [
        parsed
        for name in sources.files
        if name.startswith("tools/")
        if (parsed := _parse(sources, name, ToolFile, problems)) is not None
    ]
    profiles = compile_profiles(credentials, problems) if credentials else {}
    volumes = list(dict.fromkeys(profile.volume for profile in profiles.values())) or [Volume()]
    policies = _parse_rules(sources, volumes, problems)
    members = compile_entities(people, problems) if people else []
    servers, tools = compile_tools(tool_files, frozenset(profiles) if credentials else None, problems)
    problems += undeclared_approvers(policies, members)
    if problems:
        raise BundleError(tuple(problems))
    policies += parse_rule_file(SELF_FILE, protecting_rules(protected))
    return _assemble(sources.version, policies, profiles, members, servers, tools)


def _assemble(
    version: str, policies: list[Policy], profiles: Any, members: Any, servers: Any, tools: Mapping[Any, Tool]
) -> Ruleset:
    actions = [action for tool in tools.values() for action in tool.actions]
    schema_text = generate_schema(actions)
    engine = PolicyEngine(policies, schema_text, actions)
    return Ruleset(
        version=version,
        servers=servers,
        tools=tools,
        profiles=profiles,
        engine=engine,
        entities=EntityDirectory(
            members,
            engine.literals_to_load,
            engine.prepare_entities,
            {tool.descriptor.qualified_name: tool.document for tool in tools.values()},
        ),
        schema_text=schema_text,
        every_label=every_label(tools.values()),
    )


def _parse_rules(
    sources: BundleSources, volumes: list[Volume], problems: list[BundleProblem]
) -> list[Policy]:
    policies: list[Policy] = []
    found_faults = False
    for name, data in sources.files.items():
        if not name.startswith("rules/"):
            continue
        try:
            policies += parse_rule_file(name, data.decode("utf-8"), volumes)
        except UnicodeDecodeError:
            problems.append(BundleProblem("the file is not valid UTF-8", file=name))
            found_faults = True
        except BundleError as error:
            problems += error.problems
            found_faults = True
    if not policies and not found_faults:
        problems.append(
            BundleProblem(
                "the bundle has no rules",
                file="rules",
                hint="add rules/*.cedar; nothing is allowed without one",
            )
        )
    return policies


def _parse(
    sources: BundleSources, name: str, model: type[Model], problems: list[BundleProblem]
) -> tuple[YamlDocument, Model] | None:
    data = sources.files.get(name)
    if data is None:
        problems.append(BundleProblem("the file is missing", file=name))
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
            where = "/".join(str(part) for part in path)
            problems.append(document.problem(path, f"`{where}`: {_sentence(fault['type'], fault['msg'])}"))
        return None


def _sentence(kind: str, message: str) -> str:
    if kind == "extra_forbidden":
        return "unknown key"
    if kind == "missing":
        return "missing"
    return message[:1].lower() + message[1:]

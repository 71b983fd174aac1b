"""`credentials.yaml` and `entities.yaml` as the core reads them."""

from collections.abc import Iterable, Iterator

from authz.bundle.format import CredentialFile, EntityFile
from authz.bundle.yaml_source import YamlDocument
from authz.core.canonical import canonicalize
from authz.core.entities import PersonOrGroup
from authz.core.policy import Policy
from authz.core.provenance import SOURCES
from authz.errors import BundleProblem
from authz.model.caller import Profile
from authz.model.resource import Base, NotCanonical, Volume

_SANDBOX = "profile.sandbox"


def compile_profiles(
    parsed: tuple[YamlDocument, CredentialFile], problems: list[BundleProblem]
) -> dict[str, Profile]:
    """The credential profiles; faults are added to `problems`."""
    document, file = parsed
    profiles: dict[str, Profile] = {}
    for name, section in file.profiles.items():
        where: tuple[str | int, ...] = ("profiles", name)
        volume = Volume(
            case_sensitive=section.volume.case_sensitive, normalization=section.volume.normalization
        )
        sandboxes = []
        for index, text in enumerate(section.sandboxes):
            found = canonicalize("path", text, Base(volume=volume))
            at = (*where, "sandboxes", index)
            if isinstance(found, NotCanonical):
                problems.append(
                    document.problem(at, f"`{text}` is no directory: {found.message}", code=_SANDBOX)
                )
            elif found[0].value != text:
                problems.append(
                    document.problem(
                        at, f"`{text}` is not canonical", f"write {found[0].value}", code=_SANDBOX
                    )
                )
            elif text == "/":
                problems.append(
                    document.problem(
                        at, "the whole file system cannot be a sandbox", "name a folder", _SANDBOX
                    )
                )
            else:
                sandboxes.append(found[0].entity.id)
        for index, source in enumerate(section.sources):
            if source not in SOURCES:
                problems.append(
                    document.problem(
                        (*where, "sources", index),
                        f"`{source}` is no provenance source",
                        f"one of {', '.join(sorted(SOURCES))}",
                        "profile.unknown-source",
                    )
                )
        profiles[name] = Profile(
            name=name,
            agents=frozenset(section.agents),
            users=frozenset(section.users),
            sandboxes=tuple(sandboxes),
            sources=frozenset(section.sources),
            resolves=section.resolves,
            confines=section.confines,
            volume_case_sensitive=section.volume.case_sensitive,
            volume_normalization=section.volume.normalization,
            home=section.home,
        )
    return profiles


def compile_entities(
    parsed: tuple[YamlDocument, EntityFile], problems: list[BundleProblem]
) -> list[PersonOrGroup]:
    """Groups, users and agents; a group that is not declared, or is inside itself, is a fault."""
    document, file = parsed
    members: list[PersonOrGroup] = []
    kinds = (
        ("groups", "Group", file.groups),
        ("users", "User", file.users),
        ("agents", "Agent", file.agents),
    )
    for section, kind, entries in kinds:
        for name, entry in entries.items():
            for index, group in enumerate(entry.groups):
                if group not in file.groups:
                    problems.append(
                        document.problem(
                            (section, name, "groups", index),
                            f"the group `{group}` is not declared",
                            "add it under `groups`",
                            "group.undeclared",
                        )
                    )
            members.append(
                PersonOrGroup(uid=(kind, name), parents=tuple(entry.groups), tags=dict(entry.tags))
            )
    for name in file.groups:
        if _reaches(file, name, name):
            problems.append(
                document.problem(
                    ("groups", name),
                    f"the group `{name}` is inside itself",
                    "break the circle",
                    "group.circle",
                )
            )
    return members


def undeclared_approvers(
    policies: Iterable[Policy], members: Iterable[PersonOrGroup]
) -> Iterator[BundleProblem]:
    """A problem for every approver that `entities.yaml` does not know: nobody could ever approve."""
    known = {f'{kind}::"{name}"' for kind, name in (member.uid for member in members)}
    for policy in policies:
        for approver in policy.match.terms.approvers if policy.match.terms else ():
            if approver not in known:
                yield BundleProblem(
                    f"`{policy.id}`: the approver {approver} is not declared",
                    file=policy.match.file or "",
                    line=policy.match.line,
                    hint="add it to entities.yaml",
                    code="rule.approver-undeclared",
                )


def _reaches(file: EntityFile, start: str, goal: str) -> bool:
    seen: set[str] = set()
    pending = list(file.groups[start].groups)
    while pending:
        group = pending.pop()
        if group == goal:
            return True
        if group not in seen and group in file.groups:
            seen.add(group)
            pending += file.groups[group].groups
    return False

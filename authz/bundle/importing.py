"""What an import would change in a file of `tools/`: new, changed, vanished and unusable tools.

An import never changes what was reviewed. New tools are appended as drafts; a changed tool keeps its pinned
digest, so that its calls are refused (`tool.changed`), until somebody accepts it by name and digest; a
vanished one stays until it is pruned. Nothing here reads or writes.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from authz.bundle.descriptors import compile_tools
from authz.bundle.draft_yaml import read_back, rendered
from authz.bundle.drafts import NoDraft, draft_of
from authz.bundle.entry_diff import Difference, differences
from authz.bundle.format import ToolFile, ToolSection
from authz.bundle.import_text import (
    Edit,
    ToolPlaces,
    appending,
    edited,
    find_places,
    pinning,
    removing_all,
    replacing,
)
from authz.bundle.tool_names import wire_name
from authz.core.fingerprint import advertised_digest, canonical_json
from authz.core.strict_json import loads
from authz.errors import AuthzError, BundleProblem, MalformedInput

MAX_ENTRY_BYTES: Final = 256 * 1024
"""Of one advertised tool; a larger one is more than anybody would review."""

Entry = Mapping[str, Any]


class ImportRefused(AuthzError):
    """The import as a whole cannot be done; the message says what to do first."""

    code = "import.refused"


@dataclass(frozen=True, slots=True, kw_only=True)
class NewTool:
    """A tool that the file does not have yet, and its draft as text."""

    name: str
    digest: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedTool:
    """A tool that the server now describes otherwise than it was pinned."""

    name: str
    pinned: str
    advertised: str
    differences: tuple[Difference, ...]
    is_exact: bool
    """False where the entry that was reviewed is not at hand, and the descriptor stood in for it."""
    members_changed: tuple[str, ...]
    """Of the entry, by name: `description`, `annotations`, `outputSchema`. Empty where nobody can tell."""
    schema_changed: bool
    was_reviewed: bool
    text: str | None
    """A fresh draft, where one could be made."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusedTool:
    """An entry that no descriptor can be made of."""

    name: str
    reason: str
    is_known: bool
    """True when the file describes a tool of this name: then its calls are refused as well."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportPlan:
    """What differs between a file and what its server advertises."""

    alias: str
    new: tuple[NewTool, ...] = ()
    changed: tuple[ChangedTool, ...] = ()
    vanished: tuple[str, ...] = ()
    unchanged: tuple[str, ...] = ()
    refused: tuple[RefusedTool, ...] = ()

    @property
    def has_changes(self) -> bool:
        """True when file and server differ in a tool that can be described, or in one that the file has."""
        return bool(self.new or self.changed or self.vanished or any(tool.is_known for tool in self.refused))


def plan_import(
    alias: str,
    identity: str,
    entries: Sequence[Entry],
    existing: ToolFile | None,
    kept: Mapping[str, Entry],
    *,
    check_time: Callable[[], None] = lambda: None,
) -> ImportPlan:
    """Compare. `kept` are entries as they were advertised earlier, by name: only to show what changed.

    `check_time` is called before each entry, and raises when it has been long enough.
    """
    known = {section.name: section for section in existing.tools} if existing is not None else {}
    indent = 2
    new: list[NewTool] = []
    changed: list[ChangedTool] = []
    unchanged: list[str] = []
    refused: list[RefusedTool] = []
    counted = Counter(_shown_name(entry) for entry in entries)
    alike = Counter(wire_name(alias, name) for name in {*counted, *known})
    for entry in entries:
        check_time()
        name = _shown_name(entry)
        section = known.get(name)
        fault = ""
        if counted[name] > 1:
            fault = "the server lists this name more than once, so nobody can tell which one is called"
        elif section is None and alike[wire_name(alias, name)] > 1:
            fault = "another tool has the same name where runtimes write it into one word"
        digest, text = "", None
        if not fault:
            try:
                _check_entry(entry)
                digest = advertised_digest(entry)
                if section is not None and section.advertised_digest == digest:
                    unchanged.append(name)
                    continue
                text = _draft_text(entry, alias, identity, indent)
            except NoDraft as error:
                fault = error.message
        if section is not None and digest:
            changed.append(_changed(section, entry, digest, kept.get(name), text))
        elif text is not None:
            new.append(NewTool(name=name, digest=digest, text=text))
        elif not any(tool.name == name for tool in refused):
            refused.append(RefusedTool(name=name, reason=fault, is_known=section is not None))
    return ImportPlan(
        alias=alias,
        new=tuple(new),
        changed=tuple(changed),
        vanished=tuple(name for name in known if name not in counted),
        unchanged=tuple(unchanged),
        refused=tuple(refused),
    )


def _shown_name(entry: Entry) -> str:
    name = entry.get("name")
    return name if isinstance(name, str) else ""


def _check_entry(entry: Entry) -> None:
    """The bounds that every request has, so that whatever is drafted here can also be sent."""
    try:
        data = canonical_json(entry)
        if len(data) > MAX_ENTRY_BYTES:
            raise NoDraft(f"its entry is over {MAX_ENTRY_BYTES} bytes")
        loads(data)
    except (ValueError, RecursionError, MalformedInput) as error:
        reason = error.message if isinstance(error, AuthzError) else str(error)
        raise NoDraft(f"its entry is not JSON as it is taken here: {reason}") from None


def _draft_text(entry: Entry, alias: str, identity: str, indent: int) -> str:
    """The draft as text, after it has been through the loader. Raises `NoDraft`."""
    draft = draft_of(entry)
    text = rendered(draft, alias, indent=indent)
    head = {"alias": alias, "identity": identity, "profiles": []}
    problems: list[BundleProblem] = []
    document = read_back(text, draft)
    try:
        file = ToolFile.model_validate({"server": head, **document.value})
    except ValueError as error:
        raise NoDraft(f"it is no descriptor: {_first_fault(error)}") from None
    compile_tools([(document, file)], None, problems)
    if problems:
        raise NoDraft(problems[0].message)
    return text


def _first_fault(error: ValueError) -> str:
    faults: list[Any] = getattr(error, "errors", list)()
    if not faults:
        return str(error)
    place = "/".join(str(part) for part in faults[0]["loc"] if part not in ("tools", 0))
    if place == "name":
        return (
            "a name is letters, digits and `_ . : / -`, at most 128, and begins with a letter, a digit or `_`"
        )
    return f"`{place}`: {faults[0]['msg']}"


def _changed(
    section: ToolSection, entry: Entry, digest: str, earlier: Entry | None, text: str | None
) -> ChangedTool:
    # What is kept beside the bundle proves itself: it counts only when it is what was pinned.
    is_exact = earlier is not None and _digest_or_none(earlier) == section.advertised_digest
    before: Entry = (
        earlier
        if is_exact and earlier is not None
        else {
            "name": section.name,
            "description": section.description,
            "inputSchema": section.input_schema,
        }
    )
    # By `differences`, since JSON's `true` is not its `1`: a `const` of one made the other is a change.
    changed = [
        key
        for key in {**before, **entry}
        if differences(
            *({name: value for name, value in one.items() if name == key} for one in (before, entry))
        )
    ]
    return ChangedTool(
        name=section.name,
        pinned=section.advertised_digest or "",
        advertised=digest,
        differences=tuple(differences(before, entry)),
        is_exact=is_exact,
        members_changed=tuple(changed) if is_exact else (),
        schema_changed="inputSchema" in changed,
        was_reviewed=section.reviewed,
        text=text,
    )


def _digest_or_none(entry: Entry) -> str | None:
    try:
        return advertised_digest(entry)
    except ValueError:
        return None


def merged(text: str, plan: ImportPlan, *, accept: Mapping[str, str], prune: bool) -> str:
    """The file's text after the import; what is not accepted or pruned stays byte for byte.

    `accept` says by name which digest somebody has looked at. Raises `Unmergeable` for a file that cannot be
    edited so, `ImportRefused` for a tool that cannot be accepted, and where the server describes it in
    yet another way by now.
    """
    places = find_places(text)
    edits: list[Edit] = []
    by_name = {tool.name: tool for tool in plan.changed}
    for name, digest in accept.items():
        if name not in by_name:
            raise ImportRefused(f"`--accept {name}`: no tool of this name has changed")
        if by_name[name].advertised != digest:
            raise ImportRefused(
                f"`--accept {name}`: the server describes it as `{by_name[name].advertised}` now; look at "
                "what `--check` shows, and accept what you have seen"
            )
        edits += _accepting(places, by_name[name])
    if prune:
        edits += removing_all(places, plan.vanished, is_refilled=bool(plan.new))
    shift = " " * places.indent
    items = [_indented(tool.text, shift) for tool in plan.new]
    return edited(text, [*edits, *appending(text, places, items)])


def _accepting(places: ToolPlaces, tool: ChangedTool) -> list[Edit]:
    place = places.items[tool.name]
    if not tool.was_reviewed:
        if tool.text is None:
            raise ImportRefused(f"`--accept {tool.name}`: no draft can be made of what is advertised now")
        # Nothing reviewed is lost: a draft is replaced by a draft.
        return [replacing(place, _indented(tool.text, " " * place.indent))]
    return pinning(place, tool.advertised, to_review=tool.schema_changed)


def _indented(item: str, shift: str) -> str:
    """A drafted item, which is indented by two, moved to where the file has its items."""
    return "".join(shift + line[2:] if line.strip() else line for line in item.splitlines(keepends=True))

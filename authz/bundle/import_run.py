"""One import from the files to the files: read, compare, check the result, write it whole or not at all."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Self

from pydantic import ValidationError

from authz.bundle.descriptors import compile_tools
from authz.bundle.draft_yaml import server_text
from authz.bundle.format import ToolFile
from authz.bundle.importing import ImportPlan, ImportRefused, merged, plan_import
from authz.bundle.kept_entries import kept_path, kept_text, read_kept, write_atomically
from authz.bundle.load import BundleSources, Examined, examine_bundle, read_folder
from authz.bundle.mcp_catalogue import Catalogue
from authz.bundle.naming import case_files_naming, rules_naming
from authz.bundle.self_protection import Protected
from authz.bundle.yaml_source import load_yaml
from authz.errors import BundleError
from authz.model.decision import RuleMatch
from authz.model.record import EventQuery

MANIFEST: Final = "bundle.yaml"


@dataclass(frozen=True, slots=True, kw_only=True)
class Import:
    """What was asked for."""

    alias: str
    identity: str
    command: tuple[str, ...] | None
    profiles: tuple[str, ...] = ()
    accept: Mapping[str, str] = field(default_factory=dict)
    """By tool: the advertised digest that somebody has looked at."""
    prune: bool = False
    writes: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What differed, what was done about it, and who has to look at it again."""

    plan: ImportPlan
    path: Path
    text: str
    """The file after the import, written or not."""
    written: bool
    writes: bool
    accepted: tuple[str, ...]
    pruned: tuple[str, ...]
    rules: Mapping[str, Sequence[RuleMatch]] = field(default_factory=dict)
    """By changed or vanished tool: the rules that name it."""
    case_files: Mapping[str, list[str]] = field(default_factory=dict)
    drafts: tuple[str, ...] = ()
    """Tools of the file after the import that wait for a review."""
    descriptor_digests: Mapping[str, str] = field(default_factory=dict)
    """By tool: the descriptor digest that decisions carry under the file as it was."""
    notes: tuple[str, ...] = ()

    @property
    def differs(self) -> bool:
        """True when file and server still differ: in a dry run in anything, else in what was left."""
        if not self.writes:
            return self.plan.has_changes
        left = {tool.name for tool in self.plan.changed} - set(self.accepted)
        gone = set(self.plan.vanished) - set(self.pruned)
        return bool(left or gone or any(tool.is_known for tool in self.plan.refused))

    def operations_query(self, tenant: str, tool: str, limit: int) -> EventQuery:
        """The newest allows of a tool."""
        return EventQuery(tenant=tenant, tool=f"{self.plan.alias}/{tool}", effect="allow", limit=limit)


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedFile:
    """A file of `tools/` as it was read, and what is to be imported into it."""

    path: Path
    wanted: Import
    data: bytes | None
    """`None` for a file that is not there yet."""
    file: ToolFile | None

    @classmethod
    def read(cls, path: Path, wanted: Import) -> Self:
        """Read the file before the server is asked. Raises `BundleError`, `ImportRefused`."""
        _check_alias(wanted.alias)
        try:
            data = path.read_bytes()
        except FileNotFoundError:
            return cls(path=path, wanted=wanted, data=None, file=None)
        except OSError as error:
            raise ImportRefused(f"`{path}` cannot be read: {error.strerror}") from None
        document = load_yaml(str(path), data)
        try:
            file = ToolFile.model_validate(document.value)
        except ValidationError:
            raise ImportRefused(f"`{path}` is no file of tools; `authz check` says what is wrong") from None
        if file.server.alias != wanted.alias:
            raise ImportRefused(f"`{path}` describes the server `{file.server.alias}`, not `{wanted.alias}`")
        if file.server.identity != wanted.identity:
            # Another command or address is another server, whatever it calls itself.
            raise ImportRefused(
                f"`{path}` was reviewed for `{file.server.identity}`, and this is `{wanted.identity}`; "
                "if it is meant to be the same server, change `server.identity` there by hand"
            )
        return cls(path=path, wanted=wanted, data=data, file=file)

    def bring_in(self, catalogue: Catalogue, *, check_time: Callable[[], None] = lambda: None) -> Outcome:
        """Compare with what the server advertises, and write. Raises `ImportRefused`, `Unmergeable`.

        `check_time` is called at every step before the file is written, and raises when it has been long
        enough.
        """
        wanted = self.wanted
        kept_file = kept_path(self.path, wanted.alias)
        kept = read_kept(kept_file)
        plan = plan_import(
            wanted.alias, wanted.identity, catalogue.entries, self.file, kept, check_time=check_time
        )
        before = self._text(catalogue)
        text = merged(before, plan, accept=wanted.accept, prune=wanted.prune)
        check_time()
        after, notes = self._checked(text)
        check_time()
        written = wanted.writes and text.encode() != self.data
        if written and not write_atomically(self.path, text, expected=self.data):
            raise ImportRefused(f"`{self.path}` was changed meanwhile; nothing was written, run it again")
        if wanted.writes:
            self._keep(kept_file, kept, catalogue, plan)
        named = [*(tool.name for tool in plan.changed), *plan.vanished]
        files = self._files()
        return Outcome(
            plan=plan,
            path=self.path,
            text=text,
            written=written,
            writes=wanted.writes,
            accepted=tuple(wanted.accept),
            pruned=plan.vanished if wanted.prune else (),
            rules={
                name: rules_naming(after.policies, wanted.alias, name) if after is not None else ()
                for name in named
            },
            case_files={name: case_files_naming(files, wanted.alias, name) for name in named},
            descriptor_digests=self._descriptor_digests(),
            drafts=_drafts_in(text),
            notes=tuple(notes),
        )

    def _text(self, catalogue: Catalogue) -> str:
        if self.data is not None:
            return self.data.decode()
        wanted = self.wanted
        head = server_text(
            alias=wanted.alias,
            identity=wanted.identity,
            profiles=list(wanted.profiles),
            server_name=catalogue.server_name,
            command=list(wanted.command) if wanted.command is not None else None,
        )
        return head.removesuffix("tools:\n") + "tools: []\n"

    @property
    def _folder(self) -> Path | None:
        """The bundle that the file belongs to; `None` for a file that stands by itself."""
        folder = self.path.resolve().parent.parent
        return folder if (folder / MANIFEST).is_file() else None

    def _files(self) -> Mapping[str, bytes]:
        if self._folder is None:
            return {}
        try:
            return read_folder(self._folder)[0]
        except BundleError:
            return {}

    def _examined(self, text: str | None) -> Examined | None:
        """The bundle as it is, or as it would be with `text`; `None` when there is no bundle around."""
        files = dict(self._files())
        if not files:
            return None
        files.pop("schema.cedarschema", None)
        if text is not None:
            files[self._name] = text.encode()
        return examine_bundle(BundleSources(files=files), Protected())

    @property
    def _name(self) -> str:
        return f"tools/{self.path.name}"

    def _descriptor_digests(self) -> dict[str, str]:
        """By tool, under the file as it was."""
        if self.data is None or self.file is None:
            return {}
        document = load_yaml(self._name, self.data)
        _, tools = compile_tools([(document, self.file)], None, [])
        return {name: tool.descriptor.digest for (_, name), tool in tools.items()}

    def _checked(self, text: str) -> tuple[Examined | None, list[str]]:
        """The bundle with the new text. Raises `BundleError` where it is the text that breaks it."""
        document = load_yaml(str(self.path), text.encode())
        try:
            ToolFile.model_validate(document.value)
        except ValidationError as error:
            # Each draft has been through the loader, so this would be a fault of the merging.
            raise ImportRefused(f"`{self.path}` would not load after the import: {error}") from None
        examined = self._examined(text)
        if examined is None:
            return None, [
                "the file lies in no bundle (above its folder is no bundle.yaml): no rule was looked at"
            ]
        own = tuple(problem for problem in examined.problems if problem.file == self._name)
        if own:
            raise BundleError(own)
        if examined.problems:
            before = self._examined(None if self.data is None else self.data.decode())
            if before is not None and not before.problems:
                raise BundleError(examined.problems)
            count = len(examined.problems)
            return examined, [f"the bundle does not load for other reasons ({count}): run `authz check`"]
        return examined, []

    def _keep(self, path: Path, kept: Mapping[str, object], catalogue: Catalogue, plan: ImportPlan) -> None:
        """Keep the entries that are pinned now, for the next import to compare with."""
        pinned = {*plan.unchanged, *(tool.name for tool in plan.new), *self.wanted.accept}
        entries = {str(entry["name"]): entry for entry in catalogue.entries if entry.get("name") in pinned}
        gone = () if self.wanted.prune else plan.vanished
        stays = {*(tool.name for tool in plan.changed), *gone, *(tool.name for tool in plan.refused)}
        earlier = {
            name: entry
            for name, entry in read_kept(path).items()
            if name in stays and name not in pinned and name in kept
        }
        text = kept_text({**earlier, **entries})
        data = path.read_bytes() if path.exists() else None
        if data != text.encode():
            write_atomically(path, text, expected=data)


def _drafts_in(text: str) -> tuple[str, ...]:
    tools = load_yaml("tools", text.encode()).value["tools"]
    return tuple(tool["name"] for tool in tools if tool.get("reviewed") is False)


def _check_alias(alias: str) -> None:
    try:
        ToolFile.model_validate({"server": {"alias": alias, "identity": "x", "profiles": []}, "tools": []})
    except ValidationError:
        raise ImportRefused(
            f"`{alias}` is no alias: letters, digits, `.`, `_` and `-`, at most 64, first no sign"
        ) from None

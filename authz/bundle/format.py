"""The files of a bundle as their authors write them. Unknown keys are errors, never dropped."""

from decimal import Decimal
from typing import Annotated, Any, ClassVar, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationInfo, field_validator
from pydantic_core import PydanticCustomError

from authz.core.requests import Id

Name = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]
ToolName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.:/-]{0,127}$")]
Pointer = Annotated[str, StringConstraints(pattern=r"^(/([^/~]|~[01])*)+$", max_length=256)]
RuleName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$")]
Digest = Annotated[str, StringConstraints(pattern=r"^sha256:[0-9a-f]{64}$")]
Text = Annotated[str, StringConstraints(min_length=1, max_length=2000)]
Level = Literal["A0", "A1", "A2", "A3"]
VerbName = Literal["read", "write", "delete", "execute", "connect", "send", "transact", "administer"]
PartitionName = Literal["tenant", "agent", "user", "session", "tool", "server", "domain"]
RoleName = Literal["target", "destination", "payload", "command", "credential", "amount", "option"]
TrustName = Literal["trusted", "untrusted"]


NO_VALUE: Final = "no_value"
"""The type of error of a key that is written without a value."""


class Strict(BaseModel):
    """A mapping that takes only the keys it declares, and of those that are written a value.

    `tree_if:` with nothing behind it is YAML's null. It is an error and never the key left out: whoever wrote
    the key meant it to hold something.
    """

    NULLS: ClassVar[frozenset[str]] = frozenset()
    """The keys for which null is a value of its own."""
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    @field_validator("*", mode="before")
    @classmethod
    def _has_a_value(cls, value: Any, info: ValidationInfo) -> Any:
        name = info.field_name or ""
        if value is None and name not in cls.NULLS:
            todo = "give it one" if cls.model_fields[name].is_required() else "delete the key or give it one"
            raise PydanticCustomError(NO_VALUE, "has no value: {todo}", {"todo": todo})
        return value


class ServerSection(Strict):
    """`server:` — what the alias stands for, and which credential profiles may use it."""

    alias: Name
    identity: Text
    local: bool = False
    profiles: list[Name]
    description: str = ""


class AccessSection(Strict):
    """One entry of `accesses:`."""

    verb: VerbName
    kind: Name
    type: Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_]*$")] | None = None
    at: Pointer | None = None
    resource: Text | None = None
    when_absent: Text | None = None
    scope: Literal["object", "tree"] = "object"
    tree_if: Pointer | None = None
    ref_at: Pointer | None = None
    database: Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_-]{0,63}$")] | None = None
    dialect: Literal["postgres", "mysql", "sqlite", "tsql", "snowflake", "bigquery"] | None = None
    default_schema: Text | None = None
    authority: Level = "A0"


class UndoSection(Strict):
    """`undo:` — a reviewer's word that the change is retry-safe and can be taken back."""

    reviewed_by: Text
    how: Text


class ProbeSection(Strict):
    """`settlement.probe:` — a read-only tool that tells whether the call took effect."""

    tool: ToolName
    when: Literal["before", "after"]


class SettlementSection(Strict):
    """`settlement:` — what the endpoint offers for a call that was interrupted."""

    idempotency_key_at: Pointer | None = None
    retention_seconds: Annotated[int, Field(gt=0)] | None = None
    probe: ProbeSection | None = None


class FieldReturnSection(Strict):
    """One entry of `returns.fields:`."""

    trust: TrustName = "untrusted"
    labels: list[Name] = []


class ReturnSection(FieldReturnSection):
    """`returns:` — how far results are to be believed, and what they are about."""

    fields: dict[Pointer, FieldReturnSection] = {}


class CostSection(Strict):
    """`cost:` — the estimated cost of one call."""

    amount: Annotated[str, StringConstraints(pattern=r"^\d{1,12}(\.\d{1,6})?$")]
    currency: Annotated[str, StringConstraints(pattern=r"^[A-Z]{3,8}$")]

    @property
    def decimal(self) -> Decimal:
        return Decimal(self.amount)


class AllowSection(Strict):
    """One entry of `lint.allow:` — a finding of `authz tools lint` that somebody accepts."""

    code: Annotated[str, StringConstraints(pattern=r"^[a-z]+\.[a-z-]+$")]
    reason: Text


class LintSection(Strict):
    """`lint:` — what lint is told of the tool. Nothing that decides reads it."""

    allow: list[AllowSection] = []


class ToolSection(Strict):
    """One entry of `tools:`."""

    name: ToolName
    reviewed: bool = True
    """False for a draft that was read off a server: always A3, and nothing that it says is believed."""
    description: Text
    advertised_digest: Digest | None = None
    input_schema: dict[str, Any]
    roles: dict[Pointer, RoleName] = {}
    accesses: Annotated[list[AccessSection], Field(min_length=1, max_length=16)]
    side_effect: Literal["none", "idempotent", "cumulative"]
    leaves_sandbox: bool = True
    undo: UndoSection | None = None
    compensator: ToolName | None = None
    settlement: SettlementSection = SettlementSection()
    returns: ReturnSection = ReturnSection()
    cost: CostSection | None = None
    may_start_with_dash: list[Pointer] = []
    """Arguments that reach no command line, or only behind `--`. Others that begin with `-` are refused."""
    lint: LintSection = LintSection()


class ToolFile(Strict):
    """`tools/*.yaml`: one server and its reviewed tools."""

    server: ServerSection
    tools: list[ToolSection]


class VolumeSection(Strict):
    """How the file system at the executor spells names."""

    case_sensitive: bool = True
    normalization: Literal["none", "nfc"] = "none"


class ProfileSection(Strict):
    """One entry of `credentials.yaml`: what callers of this profile may assert."""

    agents: list[Text]
    users: list[Text] = []
    sandboxes: list[Text] = []
    sources: list[Name] = []
    resolves: bool = False
    confines: bool = False
    home: Text | None = None
    volume: VolumeSection = VolumeSection()


class CredentialFile(Strict):
    """`credentials.yaml`."""

    profiles: dict[Name, ProfileSection]


class MemberSection(Strict):
    """One group, user or agent of `entities.yaml`."""

    groups: list[Text] = []
    tags: dict[Name, str] = {}


class EntityFile(Strict):
    """`entities.yaml`: who the rules know by name."""

    groups: dict[Text, MemberSection] = {}
    users: dict[Text, MemberSection] = {}
    agents: dict[Text, MemberSection] = {}


class LimitScopeSection(Strict):
    """`where:` — which calls a limit is about. An empty list is a fault: it would be about none."""

    agents: Annotated[list[Id], Field(min_length=1)] | None = None
    users: Annotated[list[Id], Field(min_length=1)] | None = None
    groups: Annotated[list[Text], Field(min_length=1)] | None = None
    tools: Annotated[list[Text], Field(min_length=1)] | None = None
    servers: Annotated[list[Name], Field(min_length=1)] | None = None
    verbs: Annotated[list[VerbName], Field(min_length=1)] | None = None
    levels: Annotated[list[Level], Field(min_length=1)] | None = None
    resources: Annotated[list[Text], Field(min_length=1, max_length=64)] | None = None


class LimitSection(Strict):
    """One entry of `limits:`. Exactly one of `calls`, `concurrency` and `cost` says what is counted."""

    id: RuleName
    reason: Text
    calls: Annotated[int, Field(ge=1, le=1_000_000)] | None = None
    concurrency: Annotated[int, Field(ge=1, le=1_000_000)] | None = None
    cost: CostSection | None = None
    seconds: Annotated[int, Field(ge=1, le=31 * 86_400)] | None = None
    per: Annotated[list[PartitionName], Field(min_length=1)]
    where: LimitScopeSection = LimitScopeSection()


class LimitFile(Strict):
    """`limits.yaml`: how often, how many at a time, and for how much."""

    limits: Annotated[list[LimitSection], Field(max_length=256)]


class ManifestFile(Strict):
    """`bundle.yaml`: says that the folder is a bundle, and in which format."""

    format: Annotated[int, Field(ge=1, le=1)]
    name: Name
    description: str = ""

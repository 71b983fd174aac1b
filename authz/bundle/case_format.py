"""Case files as their authors write them (`tests/*.yaml`). Unknown keys are errors, never dropped."""

import re
from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, Field, StringConstraints

from authz.bundle.format import Level, Strict, Text, VerbName
from authz.core.pointer import parse_pointer
from authz.model.decision import Code, Stage
from authz.model.tool import SideEffect


def _one_of(values: type[StrEnum]) -> AfterValidator:
    def check(value: str) -> str:
        if value not in list(values):
            raise ValueError(f"must be one of {', '.join(values)}")
        return value

    return AfterValidator(check)


def _distinct(items: list[str]) -> list[str]:
    twice = sorted({item for item in items if items.count(item) > 1})
    if twice:
        raise ValueError(f"`{twice[0]}` stands here twice")
    return items


Names = Annotated[list[Text], AfterValidator(_distinct)]
EffectName = Literal["allow", "require_approval", "deny"]
CodeName = Annotated[str, _one_of(Code)]
COLUMN: Final = re.compile(r"name|(?:given|expect)\.[a-z_]+|(?:/(?:[^/~]|~[01])+)+")
"""A column of a table: a JSON Pointer into the call, `given.…`, `expect.…` or `name`."""


def _column(text: str) -> str:
    if not COLUMN.fullmatch(text):
        raise ValueError(
            f"`{text}` is no column: write a JSON Pointer into the call such as `/arguments/path`, "
            "or `given.exposed`, `expect.effect`, `name`"
        )
    return text


Column = Annotated[str, AfterValidator(_column)]


def _call_place(text: str) -> str:
    if not text or parse_pointer(text)[0] not in PartialCall.model_fields:
        raise ValueError(f"`{text}` is no place of a call: write a JSON Pointer such as `/arguments/path`")
    return text


CallPlace = Annotated[str, AfterValidator(_call_place)]


def _moment(text: str) -> str:
    moment_ms(text)
    return text


def moment_ms(text: str) -> int:
    """Milliseconds since the Unix epoch of an RFC 3339 time with an offset. Raises `ValueError`."""
    try:
        moment = datetime.fromisoformat(text)
        if moment.tzinfo is not None:
            return round(moment.astimezone(UTC).timestamp() * 1000)
    except (ValueError, OverflowError):
        pass
    raise ValueError("must be an RFC 3339 time with an offset, such as 2026-11-30T10:00:00Z")


class PartialCall(Strict):
    """Members of a request, as far as they are stated here; the whole is held to the wire's own format.

    Null takes away what is stated above.
    """

    NULLS = frozenset(
        {
            *("subject", "tool", "arguments", "provenance", "context"),
            *("dry_run", "capability", "proof", "ticket", "issue"),
        }
    )

    subject: dict[str, Any] | None = None
    tool: dict[str, Any] | None = None
    arguments: dict[str, Any] | None = None
    provenance: dict[str, Any] | None = None
    context: dict[str, Any] | None = None
    dry_run: bool | None = None
    capability: list[str] | None = None
    proof: str | None = None
    ticket: bool | None = None
    issue: dict[str, Any] | None = None
    """In place of a call: a capability that is asked for, see `authz.core.cases.issuing`."""


class GroupsSection(Strict):
    """`given.groups`: the groups that agents and users are in, in place of those of `entities.yaml`."""

    agents: dict[Text, Names] = Field(default_factory=dict)
    users: dict[Text, Names] = Field(default_factory=dict)


class CapabilitySection(Strict):
    """`given.capability`: one that the call presents. Its keys are made for the case."""

    agents: Annotated[list[Text], Field(min_length=1, max_length=9)] | None = None
    expires_in: Annotated[int, Field(strict=True, ge=1, le=366 * 86_400)] | None = None
    holder: Text | None = None
    actions: Annotated[Names, Field(min_length=1)] | None = None
    locations: Annotated[Names, Field(min_length=1)] | None = None
    constraints: dict[str, Any] | None = None


class GivenSection(Strict):
    """`given`: what the service knows besides the call."""

    profile: Text | None = None
    exposed: Names | None = None
    delegated: bool | None = None
    fresh_ids: bool | None = None
    now: Annotated[str, AfterValidator(_moment)] | None = None
    groups: GroupsSection | None = None
    approved: Names | None = None
    reached: Names | None = None
    capability: CapabilitySection | None = None


class AccessSection(Strict):
    """One entry of `expect.accesses`."""

    verb: VerbName | None = None
    uri: Text | None = None
    scope: Literal["object", "tree"] | None = None
    authority: Level | None = None
    effect: EffectName | None = None
    code: CodeName | None = None
    rules: Names | None = None


class ExpectSection(Strict):
    """`expect`. Null is what a decision says that has none."""

    NULLS = frozenset({"authority", "side_effect", "arguments"})

    effect: EffectName | None = None
    code: CodeName | None = None
    rules: Names | None = None
    authority: Level | None = None
    stage: Annotated[str, _one_of(Stage)] | None = None
    side_effect: Annotated[str, _one_of(SideEffect)] | None = None
    reason: Text | None = None
    overruled: Names | None = None
    hidden_by: Names | None = None
    uris: list[Text] | None = None
    accesses: list[AccessSection] | None = None
    arguments: dict[str, Any] | None = None
    may_approve: Names | dict[Text, Names] | None = None
    """People, or by person the rules that let it approve."""
    may_not_approve: dict[Text, Names] | None = None
    record: dict[str, Any] | None = None
    refused: Annotated[str, StringConstraints(pattern=r"^[a-z_]+(\.[a-z_]+)+$")] | None = None


class CaseSection(Strict):
    """One entry of `cases`."""

    name: Text
    call: PartialCall = PartialCall()
    given: GivenSection = GivenSection()
    columns: Annotated[list[Column], Field(min_length=1), AfterValidator(_distinct)] | None = None
    each: Annotated[list[Any], Field(min_length=1)] | None = None
    expect: ExpectSection = ExpectSection()
    verbatim: Annotated[list[CallPlace], AfterValidator(_distinct)] = Field(default_factory=list)
    """Values of the call that are meant as they stand, though they are spelled like a mark of the log."""


class RowSection(PartialCall):
    """A row of `each`: members of a call, and what is its own besides."""

    name: Text | None = None
    given: GivenSection = GivenSection()
    expect: ExpectSection = ExpectSection()


class CaseFile(Strict):
    """A file of `tests/`."""

    defaults: PartialCall = PartialCall()
    given: GivenSection = GivenSection()
    cases: Annotated[list[CaseSection], Field(min_length=1)]


KEYS: Final = sorted(
    {
        name
        for section in (
            *(CaseFile, CaseSection, RowSection, ExpectSection, GivenSection),
            *(CapabilitySection, AccessSection),
        )
        for name in section.model_fields
    }
)
"""Every key of this format, to tell what a misspelt one was meant to be."""

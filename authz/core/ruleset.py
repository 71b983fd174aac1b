"""One loaded policy bundle as the core reads it: immutable, and whole or not at all."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar

from authz.core.arguments import ArgumentSchema
from authz.core.cedar_schema import Action
from authz.core.cedar_values import Encoder
from authz.core.entities import EntityDirectory
from authz.core.policy import PolicyEngine
from authz.core.provenance import SECRET, UNTRUSTED, RoleTable
from authz.model.caller import Profile
from authz.model.limit import Limit
from authz.model.tool import Descriptor, ReturnSpec, Server, Trust


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """A descriptor with everything that is compiled from it at load."""

    descriptor: Descriptor
    schema: ArgumentSchema
    encoder: Encoder
    actions: tuple[Action, ...]
    roles: RoleTable
    document: bytes
    """The `Tool` entity as Cedar JSON."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ruleset:
    """Everything that decides, except the request and the time."""

    version: str
    """`sha256:…` over the bundle's content; on every decision."""
    servers: Mapping[str, Server]
    tools: Mapping[tuple[str, str], Tool]
    profiles: Mapping[str, Profile]
    engine: PolicyEngine
    entities: EntityDirectory
    schema_text: str
    every_label: frozenset[str]
    """What a session may have been exposed to when nobody says which session it is."""
    limits: tuple[Limit, ...] = ()
    limits_by_tool: Mapping[tuple[str, str], tuple[Limit, ...]] = field(default_factory=dict)
    """The limits that a call of each tool can fall under; tools without any are left out."""
    visibility: dict[tuple[str, str, str], str | None] = field(default_factory=dict, repr=False)
    """Cache of `authz.core.visibility`: a function of the ruleset and its key, so never stale."""

    def returns_of(self, profile: str, qualified_name: str) -> ReturnSpec | None:
        """What is said of the results of `server/name`; `None` for a tool that is not here.

        For a tool that `profile` cannot have used nothing in them is trusted, but labels hold all the same.
        """
        server, _, name = qualified_name.partition("/")
        tool = self.tools.get((server, name))
        if tool is None:
            return None
        returns = tool.descriptor.returns
        if profile in tool.descriptor.server.profiles:
            return returns
        fields = {place: replace(part, trust=Trust.UNTRUSTED) for place, part in returns.fields.items()}
        return replace(returns, trust=Trust.UNTRUSTED, fields=fields)

    MAX_CACHED_VISIBILITY: ClassVar[int] = 65536


def every_label(tools: Iterable[Tool]) -> frozenset[str]:
    """Every label that a result of these tools can carry, and the two that always can."""
    returns = [tool.descriptor.returns for tool in tools]
    parts = [part for whole in returns for part in (whole, *whole.fields.values())]
    return frozenset({UNTRUSTED, SECRET}).union(*(part.labels for part in parts))

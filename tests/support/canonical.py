"""How tests of canonical resources ask: one resource or one refusal, and what contains it."""

from authz.core.canonical import JsonScalar, canonicalize
from authz.model.resource import Base, NotCanonical, Resource

WORKSPACE = Base(cwd="/workspace", root="/workspace", home="/home/user-1")


def resource(
    kind: str, value: JsonScalar, base: Base = WORKSPACE, *, object_type: str | None = None
) -> Resource:
    """The one resource that `value` names."""
    result = canonicalize(kind, value, base, object_type=object_type)
    assert not isinstance(result, NotCanonical), result.code
    assert len(result) == 1
    return result[0]


def refusal(
    kind: str, value: JsonScalar, base: Base = WORKSPACE, *, object_type: str | None = None
) -> NotCanonical:
    """Why `value` has no canonical form."""
    result = canonicalize(kind, value, base, object_type=object_type)
    assert isinstance(result, NotCanonical), result
    assert result.code.startswith(f"{kind}.")
    assert result.message
    return result


def ancestors(found: Resource) -> list[str]:
    """The chain in Cedar's spelling, the resource first."""
    return [entity.cedar for entity in found.chain]


def is_in(found: Resource, entity_type: str, entity_id: str) -> bool:
    """What Cedar's `resource in Type::"id"` says."""
    return any((entity.type, entity.id) == (entity_type, entity_id) for entity in found.chain)

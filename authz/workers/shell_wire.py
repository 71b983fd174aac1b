"""How a line goes to the process that reads it, and how its accesses come back: JSON, one object a line.

What comes back is names, from which the resources are made anew by the functions that made them: a process
that was taken over by what it read can name other resources, but cannot hand objects into this one.
"""

import json
from typing import Any

from authz.core.canonical import canonicalize, literal_resource, program_resource
from authz.core.canonical.path import SharedFolders, canonicalize_path
from authz.core.canonical.shell import ShellAccess
from authz.core.lines import Line
from authz.model.resource import Base, Entity, NotCanonical, PathPattern, Resource, Scope, Verb, Volume


def encode_line(line: Line) -> bytes:
    """A line for the process."""
    base = line.base
    return _dumps(
        {
            "text": line.text,
            "cwd": base.cwd,
            "root": base.root,
            "home": base.home,
            "case_sensitive": base.volume.case_sensitive,
            "normalization": base.volume.normalization,
            "confined": line.confined,
        }
    )


def decode_line(data: bytes) -> Line:
    """A line as the process gets it."""
    sent = json.loads(data)
    volume = Volume(case_sensitive=sent["case_sensitive"], normalization=sent["normalization"])
    base = Base(cwd=sent["cwd"], root=sent["root"], home=sent["home"], volume=volume)
    return Line(text=sent["text"], base=base, confined=sent["confined"])


def encode_accesses(accesses: tuple[ShellAccess, ...]) -> bytes:
    """What a line came to."""
    return _dumps([_encoded(access) for access in accesses])


def _encoded(access: ShellAccess) -> dict[str, Any]:
    resource, entity = access.resource, access.resource.entity
    return {
        "verb": access.verb.value,
        "scope": access.scope.value,
        "pattern": list(access.pattern.parts) if access.pattern is not None else None,
        "guessed": access.guessed,
        "changes": access.changes,
        "kind": resource.kind,
        "type": entity.type,
        "id": entity.id,
        "value": resource.value,
        "known": entity.attributes.get("known"),
        "reason": entity.attributes.get("reason"),
    }


def decode_accesses(data: bytes, line: Line) -> tuple[ShellAccess, ...]:
    """What the process answered for `line`. Raises `ValueError` for anything that it cannot have meant."""
    try:
        answer = json.loads(data)
        if not isinstance(answer, list):
            raise TypeError
        shared = SharedFolders()
        return tuple(_decoded(sent, line, shared) for sent in answer)
    except ValueError:
        raise
    except Exception as error:
        raise ValueError("the answer about a line is malformed") from error


def _decoded(sent: dict[str, Any], line: Line, shared: SharedFolders) -> ShellAccess:
    return ShellAccess(
        verb=Verb(sent["verb"]),
        resource=_resource(sent, line.base, shared),
        scope=Scope(sent["scope"]),
        pattern=_pattern(sent["pattern"]),
        guessed=sent["guessed"] is True,
        changes=sent["changes"] is True,
    )


def _pattern(sent: Any) -> PathPattern | None:
    if sent is None:
        return None
    if not isinstance(sent, list) or not sent or not all(isinstance(part, str) for part in sent):
        raise ValueError("the answer about a line has a malformed pattern")
    return PathPattern(parts=tuple(sent))


def _resource(sent: dict[str, Any], base: Base, shared: SharedFolders) -> Resource:
    kind, value = sent["kind"], sent["value"]
    found: Resource | NotCanonical | None
    if kind == "opaque":
        entity = Entity(
            type="Opaque", id=sent["id"], attributes={"kind": "shell", "reason": str(sent["reason"])}
        )
        return Resource(kind="opaque", uri=f"opaque:{entity.id}", value=value, chain=(entity,))
    if kind == "program":
        found = program_resource(sent["id"], known=sent["known"] is True)
    elif kind in ("path", "url", "host", "repo"):
        alone = Base(volume=base.volume)
        named = (
            canonicalize_path(value, alone, shared) if kind == "path" else canonicalize(kind, value, alone)
        )
        found = named if isinstance(named, NotCanonical) else named[0]
        if isinstance(found, Resource) and (found.entity.type, found.entity.id) != (sent["type"], sent["id"]):
            found = literal_resource(sent["type"], sent["id"])
    else:
        found = None
    if found is None or isinstance(found, NotCanonical):
        raise ValueError("the answer about a line names no resource")
    return found


def _dumps(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode() + b"\n"

"""Canonical resources: one function per kind, behind one registry (spec section 4).

Requests, capability objects and the literals of policies and tests all come through here, so a rule
and a request can never be spelled differently. Pure: the directory that a path is relative to is an
argument, never the service's own.

A result is stable: canonicalizing the `value` of a `Resource` again gives an equal `Resource`.
"""

import json
from collections.abc import Callable, Mapping
from urllib.parse import unquote

from authz.core.canonical.email import canonicalize_email
from authz.core.canonical.host import canonicalize_host, domain_resource
from authz.core.canonical.ident import canonicalize_ident, is_object_type
from authz.core.canonical.opaque import FAILED, opaque
from authz.core.canonical.path import canonical_directory, canonicalize_path
from authz.core.canonical.program import program_id, program_resource
from authz.core.canonical.repo import branch_id, canonicalize_repo, named_repo, repo_id
from authz.core.canonical.spelling import JsonScalar
from authz.core.canonical.sql_names import sql_id, sql_resource
from authz.core.canonical.url import canonicalize_url
from authz.model.resource import Base, NotCanonical, Resource, Volume

__all__ = [
    "KINDS",
    "JsonScalar",
    "canonical_literal",
    "canonical_uri",
    "canonicalize",
    "literal_resource",
    "opaque",
    "opaque_text",
    "program_resource",
]

_POSIX = Volume()

Canonicalized = tuple[Resource, ...] | NotCanonical

KINDS: Mapping[str, Callable[[JsonScalar, Base, str | None], Canonicalized]] = {
    "path": lambda value, base, _: canonicalize_path(value, base),
    "url": lambda value, _, __: canonicalize_url(value),
    "host": lambda value, _, __: canonicalize_host(value),
    "email": lambda value, _, __: canonicalize_email(value),
    "id": lambda value, _, object_type: canonicalize_ident(value, object_type),
    "repo": lambda value, _, __: canonicalize_repo(value),
}
"""The kinds whose values have a canonical form by themselves."""


def canonicalize(
    kind: str, value: JsonScalar, base: Base, *, object_type: str | None = None
) -> tuple[Resource, ...] | NotCanonical:
    """The resources that `value` of `kind` names: one, or several where the kind is a list.

    A kind that is not in `KINDS` gives an `Opaque`. A `NotCanonical` that is not `understood` is the
    caller's to turn into one (`opaque`); the others deny the call. `object_type` is for kind `id`.
    Never raises: what meets a fault of ours was not understood.
    """
    try:
        if kind == "path":  # the most frequent kind, without the detour
            return canonicalize_path(value, base)
        rules = KINDS.get(kind)
        if rules is None:
            return (opaque(kind, opaque_text(value), "kind.unknown"),)
        return rules(value, base, object_type)
    except Exception:  # noqa: BLE001 - a fault of ours is no verdict: what it hid is asked about
        return _failed(kind)


def opaque_text(value: object) -> str:
    """The text by which `opaque` names a value: a string as it is, anything else as JSON."""
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"))


def canonical_literal(
    entity_type: str,
    id: str,  # noqa: A002  (what Cedar calls it)
    *,
    volume: Volume = _POSIX,
) -> str | NotCanonical:
    """The one id by which a policy may name an entity; a literal with another id is refused at load.

    A literal has no directory or home to be relative to. `volume` is the one that the bundle
    declares: where it folds case, ids are case keys. Ids of types that have no rules are returned.
    """
    rules = _LITERALS.get(entity_type)
    return id if rules is None else rules(id, volume)


def literal_resource(entity_type: str, id: str) -> Resource | None:  # noqa: A002  (what Cedar calls it)
    """The resource that a canonical literal of a policy stands for, with all that it lies in.

    A `Directory` or `UrlPath` is in the chain of the `File` or `Endpoint` of the same spelling. `None` for
    types whose entities follow from no spelling (`Agent`, `Opaque`), and for those that lie in nothing and
    have no attributes (`ObjectType`).
    """
    rules = _NAMED.get(entity_type)
    found = None if rules is None else rules(id)
    return None if isinstance(found, NotCanonical) else found


def canonical_uri(uri: str) -> Resource | NotCanonical:
    """The resource that a canonical URI names: `file:…`, `https:…`, `host:…`, `domain:…`, `mailto:…`, `id:…`,
    `repo:…`, `program:…`, `sql:…`. Other URIs are refused with `uri.scheme`. Never raises.
    """
    try:
        return _named_by(uri)
    except Exception:  # noqa: BLE001 - a fault of ours names nothing
        return _failed("uri")


def _failed(kind: str) -> NotCanonical:
    return NotCanonical(
        code=f"{kind}.{FAILED}", message=f"reading the {kind} failed, spell it plainly", understood=False
    )


def _named_by(uri: str) -> Resource | NotCanonical:
    scheme, _, rest = uri.partition(":")
    if scheme == "file":
        return _single(canonicalize_path(uri, Base()))
    if scheme == "host":
        return _single(canonicalize_host(rest))
    if scheme == "domain":
        return domain_resource(rest)
    if scheme == "mailto":
        return _single(canonicalize_email(unquote(rest, errors="surrogateescape")))
    if scheme == "id":
        object_type, _, value = rest.partition(":")
        return _single(canonicalize_ident(unquote(value, errors="surrogateescape"), object_type))
    if scheme in {"http", "https", "ws", "wss", "ftp"}:
        return _single(canonicalize_url(uri))
    if scheme in _BY_ID:
        return _BY_ID[scheme](unquote(rest, errors="surrogateescape"))
    return NotCanonical(code="uri.scheme", message="the uri is of no kind that is known here")


def _single(result: Canonicalized) -> Resource | NotCanonical:
    if isinstance(result, NotCanonical):
        return result
    if len(result) != 1:
        return NotCanonical(code="literal.several", message="several resources, write one for each")
    return result[0]


def _id_of(result: Canonicalized, entity_type: str) -> str | NotCanonical:
    """The id of the first entity of `entity_type` in the chain of the one resource."""
    resource = _single(result)
    if isinstance(resource, NotCanonical):
        return resource
    return next(entity for entity in resource.chain if entity.type == entity_type).id


def _domain_id(text: str) -> str | NotCanonical:
    domain = domain_resource(text)
    return domain if isinstance(domain, NotCanonical) else domain.entity.id


def _object(text: str) -> Resource | NotCanonical:
    object_type, _, value = text.partition(":")
    return _single(canonicalize_ident(value, object_type))


def _object_id(text: str) -> str | NotCanonical:
    found = _object(text)
    return found if isinstance(found, NotCanonical) else found.entity.id


def _object_type_id(text: str) -> str | NotCanonical:
    if is_object_type(text):
        return text
    return NotCanonical(code="id.object_type", message="an object type is a lower-case identifier")


_BY_ID: Mapping[str, Callable[[str], Resource | NotCanonical]] = {
    "repo": named_repo,
    "program": program_resource,
    "sql": sql_resource,
}
_NAMED: Mapping[str, Callable[[str], Resource | NotCanonical]] = {
    "File": lambda text: _single(canonicalize_path(text, Base())),
    "Directory": lambda text: _single(canonicalize_path(text, Base())),
    "Endpoint": lambda text: _single(canonicalize_url(text)),
    "UrlPath": lambda text: _single(canonicalize_url(text)),
    "Host": lambda text: _single(canonicalize_host(text)),
    "Domain": domain_resource,
    "Mailbox": lambda text: _single(canonicalize_email(text)),
    "Object": _object,
    "Program": program_resource,
    "Repo": named_repo,
    "Branch": named_repo,
    "Table": sql_resource,
    "Schema": sql_resource,
    "Database": sql_resource,
}
_LITERALS: Mapping[str, Callable[[str, Volume], str | NotCanonical]] = {
    "File": canonical_directory,
    "Directory": canonical_directory,
    "Endpoint": lambda text, _: _id_of(canonicalize_url(text), "Endpoint"),
    "UrlPath": lambda text, _: _id_of(canonicalize_url(text), "UrlPath"),
    "Host": lambda text, _: _id_of(canonicalize_host(text), "Host"),
    "Domain": lambda text, _: _domain_id(text),
    "Mailbox": lambda text, _: _id_of(canonicalize_email(text), "Mailbox"),
    "Object": lambda text, _: _object_id(text),
    "ObjectType": lambda text, _: _object_type_id(text),
    "Program": lambda text, _: program_id(text),
    "Repo": lambda text, _: repo_id(text),
    "Branch": lambda text, _: branch_id(text),
    "Table": lambda text, _: sql_id(text, 3),
    "Schema": lambda text, _: sql_id(text, 2),
    "Database": lambda text, _: sql_id(text, 1),
}

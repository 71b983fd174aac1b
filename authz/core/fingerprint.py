"""Digests over RFC 8785 (JCS) forms: of requests, of descriptors, and of what approvals are bound to.

Spec section 1. Every digest is written `sha256:` + lower-case hex.
"""

import hashlib
import hmac
from collections.abc import Iterable, Mapping
from typing import Any, Final

import orjson
import rfc8785

from authz.model.call import Call
from authz.model.decision import Access
from authz.model.tool import Descriptor

# RFC 8785 sorts names by UTF-16 code units, orjson by code points: equal below the surrogates.
_FIRST_SURROGATE: Final = "\ud800"


def canonical_json(value: Any) -> bytes:
    """The RFC 8785 form of a JSON value. Raises `ValueError` for what has none (NaN, ±2^53 and over).

    Where there are no floats and all name characters are below U+D800, orjson with sorted names
    writes the same bytes eighty times faster; a property test holds the two equal.
    """
    if _plain(value):
        try:
            return orjson.dumps(value, option=orjson.OPT_SORT_KEYS | orjson.OPT_STRICT_INTEGER)
        except TypeError:
            # What orjson refuses (integers beyond 53 bits, lone surrogates) is the library's to judge.
            pass
    try:
        return rfc8785.dumps(value)
    except (rfc8785.CanonicalizationError, UnicodeEncodeError) as error:
        raise ValueError(str(error)) from None


def _plain(value: Any) -> bool:
    kind = type(value)
    if kind is str or kind is int or kind is bool or value is None:
        return True
    if kind is dict:
        for name, member in value.items():
            if not name.isascii() and max(name) >= _FIRST_SURROGATE:
                return False
            if not _plain(member):
                return False
        return True
    if kind is list:
        return all(map(_plain, value))
    return False


def digest(value: Any) -> str:
    """`sha256:` + the hex SHA-256 of the RFC 8785 form of `value`."""
    return "sha256:" + hashlib.sha256(canonical_json(value)).hexdigest()


def request_digest(body: Mapping[str, Any]) -> str:
    """What a client can compute and a proof of possession signs: the body less capability and proof."""
    return digest({name: value for name, value in body.items() if name not in ("capability", "proof")})


def advertised_digest(entry: Mapping[str, Any]) -> str:
    """Digest of a server's whole `tools/list` entry: what a client sees of a tool."""
    return digest(entry)


def call_fingerprint(
    *,
    tenant: str,
    call: Call,
    descriptor: Descriptor,
    arguments: Mapping[str, Any],
    accesses: Iterable[Access],
    cwd: str | None,
    root: str | None,
) -> str:
    """What approvals and operations are bound to. `cwd` and `root` are the believed ones."""
    return digest(
        {
            "tenant": tenant,
            "subject": {"agent": call.subject.agent, "on_behalf_of": call.subject.on_behalf_of},
            "session": call.subject.session,
            "tool": {"server": descriptor.server.identity, "name": descriptor.name},
            "descriptor_digest": descriptor.digest,
            "arguments": arguments,
            "accesses": [
                {
                    "verb": access.verb.value,
                    "uri": access.resource.uri,
                    "scope": access.scope.value,
                    "argument": access.argument,
                    "identity": list(access.identity) if access.identity else None,
                    **({"pattern": list(access.pattern.parts)} if access.pattern is not None else {}),
                }
                for access in accesses
            ],
            "cwd": cwd,
            "root": root,
        }
    )


def operation_key(tenant: str, call: Call) -> str | None:
    """The identity of the operation, (tenant, subject, trace, turn, call id); `None` without ids.

    The session is not part of it but of the fingerprint: the same call under another session is a conflict.
    """
    if not call.ids.complete:
        return None
    subject, ids = call.subject, call.ids
    return operation_key_of(tenant, (subject.agent, subject.on_behalf_of), (ids.trace, ids.turn, ids.call))


def operation_key_of(
    tenant: str, subject: tuple[str, str | None], ids: tuple[str | None, str | None, str | None]
) -> str:
    """The same of (agent, user) and (trace, turn, call), as a record tells them."""
    return digest([tenant, list(subject), list(ids)])


def session_key(tenant: str, call: Call) -> str | None:
    """Under what a session's exposure is kept; `None` when the caller names no session."""
    if call.subject.session is None:
        return None
    return session_key_of(tenant, call.subject.session)


def session_key_of(tenant: str, session: str) -> str:
    """The same of a session that is known by its name."""
    return digest([tenant, session])


def trace_key(tenant: str, trace: str) -> str:
    """Under what is kept that a trace was delegated: the one that a task packet names for its child."""
    return digest([tenant, "trace", trace])


def keyed_digest(key: bytes, purpose: str, *parts: str) -> str:
    """Hex HMAC-SHA-256 over `purpose` and `parts`, each length-prefixed so that none runs into the next."""
    framed = bytearray()
    for part in (purpose, *parts):
        data = part.encode("utf-8", "surrogatepass")
        framed += len(data).to_bytes(8, "big")
        framed += data
    return hmac.digest(key, framed, "sha256").hex()

"""The capability that an operation rests on as a column of the store, and back."""

import json

from authz_client.capabilities import Refusal
from authz_client.capabilities.claims import is_name, parse_ancestors

from authz.errors import StoreUnavailable
from authz.model.operation import Basis


def write_basis(basis: Basis | None) -> str:
    """The column `basis`: in ASCII, whatever holders called their links."""
    if basis is None:
        return ""
    links = [item.as_json for item in basis.handles]
    told = {"expires_at_ms": basis.expires_at_ms, "kid": basis.kid, "links": links}
    return json.dumps(told, separators=(",", ":"))


def read_basis(text: str) -> Basis | None:
    """The same back. Raises `StoreUnavailable` for one that this program did not write."""
    try:
        return parse_basis(text)
    except ValueError as fault:
        # To take it for none would let begin what was revoked.
        raise StoreUnavailable("what an operation rests on cannot be read") from fault


def parse_basis(text: str) -> Basis | None:
    """What a column `basis` says. Raises `ValueError` for what `write_basis` does not write."""
    if not text:
        return None
    told = json.loads(text)
    if not isinstance(told, dict) or told.keys() != {"expires_at_ms", "kid", "links"}:
        raise ValueError("a basis has exactly `expires_at_ms`, `kid` and `links`")
    handles, kid, expires_at_ms = parse_ancestors(told["links"]), told["kid"], told["expires_at_ms"]
    if isinstance(handles, Refusal) or not is_name(kid) or type(expires_at_ms) is not int:
        raise ValueError("a basis names links, a key and a time")
    return Basis(handles=handles, kid=kid, expires_at_ms=expires_at_ms)

"""Digests of JSON values. Apart from `_json`, since whoever only asks for decisions needs none."""

import hashlib
from typing import Any

import rfc8785

from authz_client.errors import RequestNotEncodable


def json_digest(value: Any) -> str:
    """`sha256:` + the hex SHA-256 of the RFC 8785 form of a JSON value. Raises `RequestNotEncodable`."""
    try:
        return "sha256:" + hashlib.sha256(rfc8785.dumps(value)).hexdigest()
    except (rfc8785.CanonicalizationError, UnicodeEncodeError, RecursionError) as error:
        raise RequestNotEncodable(f"the value has no canonical form ({type(error).__name__})") from error

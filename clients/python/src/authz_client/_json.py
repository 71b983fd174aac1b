"""JSON in and out, with one meaning for every text: no duplicate names, no NaN, no lone surrogates."""

import json
from collections.abc import Mapping
from typing import Any, NoReturn

from authz_client.errors import MalformedAnswer, RequestNotEncodable


def encode(request: Mapping[str, Any]) -> bytes:
    """The request as UTF-8 JSON. Raises `RequestNotEncodable`."""
    try:
        text = json.dumps(request, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        return text.encode("utf-8")
    except (TypeError, ValueError, RecursionError) as error:
        raise RequestNotEncodable(f"the request is not JSON ({type(error).__name__})") from error


def decode(body: bytes) -> Any:
    """The value of an answer's body. Raises `MalformedAnswer`."""
    try:
        return json.loads(
            body.decode("utf-8"), object_pairs_hook=_without_duplicates, parse_constant=_refuse_constant
        )
    except (ValueError, RecursionError) as error:
        raise MalformedAnswer(f"the answer's body is not JSON ({type(error).__name__})") from error


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise ValueError("an object names a member twice")
    return members


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"`{name}` is not JSON")

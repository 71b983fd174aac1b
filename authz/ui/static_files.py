"""Style and scripts of the pages: files of this package, read once, and no others."""

import hashlib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Final

from fastapi import APIRouter, Request, Response

from authz.errors import NotFound

router = APIRouter()

_TYPES: Final = {".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8"}


@dataclass(frozen=True, slots=True, kw_only=True)
class _File:
    content: bytes
    media_type: str
    etag: str


@cache
def _all_files() -> dict[str, _File]:
    found = {}
    for entry in files("authz.ui").joinpath("static").iterdir():
        media_type = _TYPES.get("." + entry.name.rpartition(".")[2])
        if media_type is not None:
            content = entry.read_bytes()
            etag = f'"{hashlib.sha256(content).hexdigest()[:32]}"'
            found[entry.name] = _File(content=content, media_type=media_type, etag=etag)
    return found


@router.get("/ui/static/{file}", include_in_schema=False)
async def static(request: Request, file: str) -> Response:
    """One file. Browsers keep it and ask each time whether it is still the same."""
    found = _all_files().get(file)
    if found is None:
        raise NotFound("there is no such file", code="route.unknown")
    headers = {"cache-control": "no-cache", "etag": found.etag}
    if request.headers.get("if-none-match") == found.etag:
        return Response(status_code=304, headers=headers)
    return Response(found.content, media_type=found.media_type, headers=headers)

"""Whether a decision permits to use an object: a live allow, of that object and that verb."""

import os
import unicodedata
from datetime import datetime
from typing import Final
from urllib.parse import unquote_to_bytes

from authz_client.errors import NotCovered
from authz_client.model import Access, Decision, Effect
from authz_client.paths import ResolvedPath

_FILE: Final = "file://"


def check_live(decision: Decision, *, now: datetime) -> None:
    """Raises `NotCovered` unless this is an allow that has not ended."""
    if not decision.allowed:
        raise NotCovered("the decision is not an allow")
    if decision.expires_at is None or decision.expires_at <= now:
        raise NotCovered("the allow has ended: ask again")


def check_covers(decision: Decision, decided: ResolvedPath, verb: str, *, now: datetime) -> None:
    """Raises `NotCovered` unless a live allow has an access `verb` to the path, or to a tree above it."""
    check_live(decision, now=now)
    if not any(
        access.verb == verb and access.effect is Effect.ALLOW and _names(access, decided)
        for access in decision.accesses
    ):
        raise NotCovered(f"the decision has no access `{verb}` to this path: resolve first, then ask")


def _names(access: Access, found: ResolvedPath) -> bool:
    if not access.uri.startswith(_FILE + "/"):
        return False
    path = _folded(found.seen_path) if found.folds_case else found.seen_path
    decided = os.fsdecode(unquote_to_bytes(access.uri[len(_FILE) :]))
    if path == decided:
        return True
    return access.scope == "tree" and path.startswith(decided.rstrip("/") + "/")


def _folded(path: str) -> str:
    """The service's key of a path on a volume that folds case."""
    folded = unicodedata.normalize("NFC", path.casefold())
    while folded != (again := unicodedata.normalize("NFC", folded.casefold())):
        folded = again
    return folded

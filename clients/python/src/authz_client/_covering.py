"""Whether a decision permits to use an object: a live allow, of that object and that verb."""

import os
import unicodedata
from datetime import datetime
from typing import Final
from urllib.parse import unquote_to_bytes

from authz_client.errors import NotCovered
from authz_client.model import Access, ClaimedPath, Decision, Effect
from authz_client.paths import ResolvedPath

_FILE: Final = "file://"


def check_live(decision: Decision, *, now: datetime) -> None:
    """Raises `NotCovered` unless this is an allow that has not ended."""
    if not decision.allowed:
        raise NotCovered("the decision is not an allow")
    if decision.expires_at is None or decision.expires_at <= now:
        raise NotCovered("the allow has ended: ask again")


def check_covers(
    decision: Decision, decided: ResolvedPath, verb: str, *, now: datetime, whole_tree: bool = False
) -> None:
    """Raises `NotCovered` unless a live allow has an access `verb` to the path, or to a tree above it.

    `whole_tree`: the access must be to all that lies below the path too. And the decision must be on the very
    object that was found: its claim was sent, after it was found.
    """
    check_live(decision, now=now)
    if not any(
        access.verb == verb and access.effect is Effect.ALLOW and _names(access, decided, whole_tree)
        for access in decision.accesses
    ):
        scope = " with scope `tree`" if whole_tree else ""
        raise NotCovered(f"the decision has no access `{verb}`{scope} to this path: resolve first, then ask")
    _check_claimed(decision, decided)


def _check_claimed(decision: Decision, decided: ResolvedPath) -> None:
    claim = ClaimedPath(path=decided.seen_path, device=decided.device, inode=decided.inode)
    if decision.asked is None or claim not in decision.asked.claims:
        raise NotCovered("the decision is on no claim of this object: send its `claim()`, and ask again")
    # An inode number comes back at once, so the object that is found later may make the same claim.
    if decided.found_ns > decision.asked.at_ns:
        raise NotCovered("the object was found after it was asked about: resolve first, then ask")


def _names(access: Access, found: ResolvedPath, whole_tree: bool) -> bool:
    # What a pattern matches is for a shell to find out: no object is opened by it.
    if access.pattern is not None or (whole_tree and access.scope != "tree"):
        return False
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

"""What a caller's API key may be (spec section 11): its roles, its spelling, and the digest of it."""

import hashlib
import re
from typing import Final

ROLES: Final = frozenset({"decide", "issue", "approve", "policy", "audit"})
MIN_CHOSEN_KEY_CHARACTERS: Final = 32
"""Of a key that somebody makes up. Keys that are made here hold 256 random bits."""
MAX_KEY_BYTES: Final = 512
_CARRIED: Final = re.compile(r"[^\x00-\x08\x0a-\x1f\x7f]+")
"""What the value of an HTTP header may hold (RFC 9110, 5.5); beyond ASCII it is UTF-8 here."""


def read_key(presented: bytes) -> str | None:
    """The key that the bytes of a header spell, or `None` when they can be no key."""
    try:
        key = presented.decode("utf-8")
    except UnicodeDecodeError:
        return None
    return key if fault_of_key(key) is None else None


def fault_of_key(key: str) -> str | None:
    """Why a header cannot carry `key`, or `None` when it can: what is told to whoever chose the key."""
    try:
        size = len(key.encode("utf-8"))
    except UnicodeEncodeError:
        return "must be UTF-8"
    if size > MAX_KEY_BYTES:
        return f"must be at most {MAX_KEY_BYTES} bytes long"
    if not _CARRIED.fullmatch(key):
        return "must be text without control characters, since an HTTP header carries it"
    if key.strip(" \t") != key:
        return "must not begin or end with a blank, since an HTTP header loses it"
    return None


def fault_of_chosen_key(key: str) -> str | None:
    """Like `fault_of_key`, and too short to be safe from guessing."""
    if len(key) < MIN_CHOSEN_KEY_CHARACTERS:
        return f"must be {MIN_CHOSEN_KEY_CHARACTERS} or more characters"
    return fault_of_key(key)


def digest_api_key(key: str) -> str:
    """What the store knows a presented key by: SHA-256 as hex.

    Keys are long and random, so a plain hash cannot be guessed back.
    """
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()

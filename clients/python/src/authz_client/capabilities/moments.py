"""The system's clock and randomness, for those who sign. Nothing that verifies imports this."""

import secrets
import time


def now_seconds() -> int:
    """Now, as tokens write it: whole seconds since 1970, in UTC."""
    return int(time.time())


def new_jti() -> str:
    """A new identifier: 128 random bits in base64url."""
    return secrets.token_urlsafe(16)

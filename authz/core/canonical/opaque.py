"""What could not be understood: an `Opaque` resource that policy still judges (spec section 4).

It is named by a digest, not by its text: a shell line may hold secrets, and ids go into logs.
"""

import hashlib
from typing import Final

from authz.model.resource import Entity, Resource

_DIGEST_CHARACTERS = 32
"""128 bits in hex: nobody finds two values with one name."""

FAILED: Final = "failed"
"""The reason of what met a fault of ours while it was read: `shell.failed`, `path.failed`."""


def opaque(kind: str, value_text: str, reason: str) -> Resource:
    """The resource for a value of `kind` that has no canonical form; `reason` is a stable code."""
    digest = hashlib.sha256(value_text.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGEST_CHARACTERS]
    entity = Entity(type="Opaque", id=f"{kind}:{digest}", attributes={"kind": kind, "reason": reason})
    return Resource(kind="opaque", uri=f"opaque:{kind}:{digest}", value=value_text, chain=(entity,))

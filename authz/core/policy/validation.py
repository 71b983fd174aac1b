"""What validation has passed, remembered by content: a bundle that changed in one rule is validated in one.

Cedar judges every policy by itself, so a verdict depends on the schema and on the policy's own text alone,
and so do the checks of `authz.core.policy.checks` that are remembered with it. That ids are unique is a
matter of all policies together, and is checked every time.
"""

import hashlib
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from typing import Final

from authz.core.policy.rules import Policy
from authz.core.steps import Step, go_on, stepwise

MAX_REMEMBERED: Final = 65_536
"""Policies, over all schemas; some 150 bytes each."""
DIGEST_BYTES: Final = 32
"""SHA-256."""


class ValidationCache:
    """Remembers passes only. A fault is never remembered, so it is found again every time."""

    def __init__(self, max_remembered: int = MAX_REMEMBERED) -> None:
        self._max_remembered = max_remembered
        self._passed: OrderedDict[bytes, None] = OrderedDict()
        self.hits = 0
        self.misses = 0

    @classmethod
    def of(cls, digests: bytes) -> "ValidationCache":
        """One that knows what `validation_digests` told of policies that passed, in another process."""
        keys = [digests[at : at + DIGEST_BYTES] for at in range(0, len(digests), DIGEST_BYTES)]
        cache = cls(max(MAX_REMEMBERED, len(keys)))
        cache._passed = OrderedDict.fromkeys(keys)
        return cache

    def __len__(self) -> int:
        return len(self._passed)

    def unseen(self, schema_text: str, policies: Sequence[Policy], step: Step = go_on) -> list[Policy]:
        """Those of `policies` that are not known to pass under this schema."""
        found = []
        keys = _keys(schema_text, stepwise(policies, step))
        for policy, key in zip(policies, keys, strict=True):
            if key in self._passed:
                self._passed.move_to_end(key)
                self.hits += 1
            else:
                self.misses += 1
                found.append(policy)
        return found

    def remember(self, schema_text: str, policies: Sequence[Policy]) -> None:
        """`policies` have passed under this schema, every one of them."""
        for key in _keys(schema_text, policies):
            self._passed[key] = None
            self._passed.move_to_end(key)
        while len(self._passed) > self._max_remembered:
            self._passed.popitem(last=False)


def validation_digests(schema_text: str, policies: Iterable[Policy], step: Step = go_on) -> bytes:
    """For `ValidationCache.of`: policies that have passed under this schema, `DIGEST_BYTES` each."""
    return b"".join(_keys(schema_text, stepwise(policies, step)))


def _keys(schema_text: str, policies: Iterable[Policy]) -> list[bytes]:
    schema = hashlib.sha256(schema_text.encode()).digest()
    return [hashlib.sha256(schema + policy.text.encode()).digest() for policy in policies]

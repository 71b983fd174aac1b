"""The corpus of calls that try to deceive their approver, as the service shows each of them."""

import json
from functools import cache
from pathlib import Path
from typing import Any, Final

import pytest

from authz.core.approval_request import new_request
from authz.core.decide import Outcome
from authz.core.facts import Facts
from authz.core.shown import Shown
from authz.core.shown_types import ShownDocument
from authz.model.approval_request import ApprovalRequest
from authz.model.call import Call
from authz.model.decision import Effect
from tests.deception.bundle import decided, shown_of

CORPUS: Final = json.loads((Path(__file__).parents[1] / "vectors" / "deception.json").read_bytes())
ENTRIES: Final = CORPUS["entries"]
PENDING_MS: Final = 600_000
each = pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry["id"])


@cache
def _asked(index: int) -> tuple[Call, Outcome, Facts, Shown]:
    entry = ENTRIES[index]
    made, outcome, known = decided(
        entry["bundle"],
        entry["tool"],
        built(entry["arguments"]),
        entry.get("provenance", {}),
        **entry.get("subject", {}),
    )
    assert outcome.decision.effect is Effect.REQUIRE_APPROVAL, outcome.decision.message
    return made, outcome, known, shown_of(made, outcome, known)


def built(value: Any) -> Any:
    """The arguments of an entry, its long texts put together."""
    if isinstance(value, dict) and value.keys() == {"join"}:
        return "".join(
            part if isinstance(part, str) else part["of"] * part["times"] for part in value["join"]
        )
    if isinstance(value, dict):
        return {name: built(member) for name, member in value.items()}
    return [built(item) for item in value] if isinstance(value, list) else value


def shown(index: int) -> tuple[ShownDocument, Outcome]:
    """What an approver is shown of the entry at that place, and the decision."""
    _, outcome, _, found = _asked(index)
    return found.document, outcome


def shown_whole(entry: dict[str, Any]) -> Shown:
    """The shown document of an entry, as it is kept."""
    return _asked(ENTRIES.index(entry))[3]


def document_of(entry: dict[str, Any]) -> ShownDocument:
    """The shown document of an entry."""
    return shown_whole(entry).document


def request_of(entry: dict[str, Any]) -> ApprovalRequest:
    """The request that waits for people."""
    made, outcome, known, found = _asked(ENTRIES.index(entry))
    return new_request(made, outcome, known, found, request_id="0" * 32, pending_ttl_ms=PENDING_MS)

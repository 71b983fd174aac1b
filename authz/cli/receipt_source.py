"""Where `authz approvals verify` finds receipts: a file, or the records of this machine's store."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from authz.cli.decision_source import MAX_LIMIT
from authz.errors import ConfigError, NotFound
from authz.model.record import EventQuery, EventType
from authz.store.database import Database, open_session
from authz.store.event_search import build_search, read_event

MAX_BYTES: Final = 1 << 20
MAX_RECEIPTS: Final = 256
APPROVAL_ID: Final = re.compile(r"[0-9a-f]{32}")
_EXPECTED: Final = ("fingerprint", "shown_digest")


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundReceipt:
    """A receipt, and what is known from elsewhere of what it must say."""

    token: str
    expected: Mapping[str, str]


def read_receipts(data: bytes) -> list[FoundReceipt]:
    """The receipts of a file, one a line. Raises `ConfigError` for what can be none."""
    text = data.strip()
    if not text or not text.isascii():
        raise ConfigError("that is no receipt: it is one line of ASCII, three parts with a dot between")
    lines = text.decode("ascii").split("\n")
    if len(lines) > MAX_RECEIPTS:
        raise ConfigError(f"that is more than {MAX_RECEIPTS} receipts")
    return [FoundReceipt(token=line.strip(), expected={}) for line in lines]


def read_file(path: Path) -> bytes:
    """A bounded file. Raises `ConfigError`."""
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise ConfigError(f"`{path}` cannot be read: {error.strerror or error}") from None
    if len(data) > MAX_BYTES:
        raise ConfigError(f"`{path}` is over {MAX_BYTES} bytes")
    return data


def recorded_receipts(database: Database, tenant: str, approval_id: str) -> list[FoundReceipt]:
    """The receipts of every yes to that approval, the newest first, with what the records say of them.

    Raises `NotFound` where there is no yes on record, or its receipt stands in the store alone.
    """
    found = [
        record
        for kind in (EventType.APPROVAL_APPROVED, EventType.APPROVAL_VOTED)
        for record in _records(database, EventQuery(tenant=tenant, type=kind.value, limit=MAX_LIMIT))
        if record["approval"]["id"] == approval_id
    ]
    if not found:
        raise NotFound(f"no yes to the approval `{approval_id}` is on record for the tenant `{tenant}`")
    receipts = [record["vote"]["receipt"] for record in found]
    if not all(isinstance(receipt, str) for receipt in receipts):
        raise NotFound(
            "a secret is in the call, so the log has its receipts as digests; give the receipt: "
            f"`authz approvals receipts {approval_id}` prints it"
        )
    return [
        FoundReceipt(token=receipt, expected=_expected(record, tenant))
        for record, receipt in zip(found, receipts, strict=True)
    ]


def _records(database: Database, query: EventQuery) -> Iterator[Mapping[str, Any]]:
    with open_session(database, "read") as session:
        while True:
            page = [read_event(row) for row in session.fetch(build_search(query))]
            yield from (json.loads(event.text) for event in page)
            if len(page) < query.limit:
                return
            last = page[-1]
            query = replace(query, before=(last.recorded_at_ms, last.writer, last.sequence))


def _expected(record: Mapping[str, Any], tenant: str) -> dict[str, str]:
    approval = record["approval"]
    return {
        "tenant": tenant,
        "approval_id": approval["id"],
        "person": record["vote"]["person"],
        "decision_id": record.get("decision_id") or "",
        **{name: approval[name] for name in _EXPECTED},
    }

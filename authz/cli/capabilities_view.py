"""A chain in a terminal: each hop under the one it came from, and what it gave up.

Rendered from the document that `--json` prints, in plain text. Whatever stood in a token was written by its
holder: it is shown with everything that could deceive a reader escaped, and what is cut says so.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from authz.cli.capabilities_files import utc
from authz.cli.data_location import printable

MAX_TEXT: Final = 400
"""Characters of one value; the rest is counted."""
MAX_ITEMS: Final = 16
"""Values of one list; the rest is counted."""
SHORT_HASH: Final = 12
_UNVERIFIED: Final = (
    "UNVERIFIED: what the tokens claim, held against no key of an issuer; "
    "give --jwks, --issuer and --audience to verify"
)


def lines(document: Mapping[str, Any]) -> Iterator[str]:
    """The lines to print."""
    yield _verdict(document)
    if not document["links"]:
        return
    if document["issuer"] is not None:
        yield f"issuer    {shown(document['issuer'])}"
        yield f"audience  {shown(document['audience'])}"
        yield f"for       {shown(document['subject'])}"
    for item in document["ancestors"]:
        yield f"above     {shown(item['sub'])}{_handles(item['jkt'], item['link'])}"
    for hop in document["links"]:
        yield ""
        yield from hop_lines(hop)


def _verdict(document: Mapping[str, Any]) -> str:
    refusal = document["refusal"]
    if document["verdict"] == "verified":
        checked = "" if document["revocations_checked"] else "; revocations were not looked at"
        return f"VERIFIED at {utc(document['now'])}{checked}"
    if refusal is not None:
        return f"REFUSED: {_why(refusal)}"
    return _UNVERIFIED if document["links"] else "REFUSED: the chain holds no link"


def _why(refusal: Mapping[str, Any]) -> str:
    where = "" if refusal["link"] is None else f" (link {refusal['link']})"
    component = "" if refusal["component"] is None else f" {refusal['component']}"
    return f"{refusal['reason']}{component}{where}: {shown(refusal['detail'])}"


def hop_lines(hop: Mapping[str, Any]) -> Iterator[str]:
    """One link, indented by its place in the chain."""
    indent = "   " * hop["link"]
    first, rest = (indent, indent) if hop["link"] == 0 else (indent[:-3] + "+- ", indent)
    if "agent" not in hop:
        yield f"{first}link {hop['link']} cannot be read"
    else:
        itself = " (the subject itself)" if hop["agent"] == hop["subject"] else ""
        yield f"{first}{shown(hop['agent'])}{itself}{_handles(hop['holder'], hop['link_hash'])}"
    if hop["refused"] is not None:
        yield f"{rest}REFUSED  {_why(hop['refused'])}"
    if "agent" not in hop:
        return
    yield f"{rest}time     {_times(hop)}"
    left = f", {_counted(hop['hand_offs_left'], 'hand-off')} left" if "hand_offs_left" in hop else ""
    yield f"{rest}depth    {hop['depth']}{left}"
    for line in entry_lines(hop["authorization_details"]):
        yield f"{rest}{line}"
    yield from (f"{rest}{note}" for note in hop.get("notes", ()))
    if hop["gave_up"] is not None:
        gave_up = list(_given_up(hop["gave_up"])) or ["nothing"]
        yield from (
            f"{rest}{'gave up' if position == 0 else '':<9}{line}" for position, line in enumerate(gave_up)
        )


def _handles(holder: str, link_hash: str) -> str:
    """By what it can be revoked; in full with --json."""
    return f"  key {holder[:SHORT_HASH]}  link {link_hash[:SHORT_HASH]}"


def _times(hop: Mapping[str, Any]) -> str:
    left = hop["seconds_left"]
    told = f"{duration(left)} left" if left > 0 else f"EXPIRED {duration(-left)} ago"
    start = hop["issued_at"] if hop["not_before"] is None else max(hop["issued_at"], hop["not_before"])
    return f"{utc(start)} to {utc(hop['expires_at'])} ({told})"


def duration(count: int) -> str:
    """Seconds for people, the two largest units."""
    parts = []
    for name, size in (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1)):
        whole, count = divmod(count, size)
        if whole:
            parts.append(f"{whole} {name}")
    return " ".join(parts[:2]) or "0 s"


def entry_lines(entries: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """What each entry allows."""
    for index, entry in enumerate(entries):
        number = f"{index + 1}. " if len(entries) > 1 else ""
        yield f"may      {number}{_list(entry['actions'])}"
        yield f"in       {_list(entry['locations'])}"
        for name, members in entry.get("constraints", {}).items():
            yield f"when     {shown(name)}: {_members(members)}"
        if "budget" in entry:
            yield f"budget   {_budget(entry['budget'])}"


def _given_up(gave_up: Mapping[str, Any]) -> Iterator[str]:
    if "wider" in gave_up:
        yield f"WIDER than the link above: {shown(gave_up['wider'])}"
    for component, name in (("R", "rights"), ("O", "objects")):
        for change in gave_up.get(name, []):
            instead = f" -> {_list(change['instead'])}" if change["instead"] else ""
            yield f"{component} {_list(change['lost']) or 'nothing'}{instead}{_entry(change)}"
    for change in gave_up.get("predicate", []):
        before = "any value" if change["from"] is None else _members(change["from"])
        yield f"P {shown(change['pointer'])}: {before} -> {_members(change['to'])}{_entry(change)}"
    for change in gave_up.get("budget", []):
        before = "no bound" if change["from"] is None else _budget(change["from"])
        yield f"P budget: {before} -> {_budget(change['to'])}{_entry(change)}"
    for entry in gave_up.get("entries", []):
        yield f"R all of: {_list(entry['actions'])} in {_list(entry['locations'])}"
    if (expiry := gave_up.get("expiry")) is not None:
        yield f"E {duration(expiry['from'] - expiry['to'])}: {utc(expiry['from'])} -> {utc(expiry['to'])}"
    if (depth := gave_up.get("depth")) is not None:
        yield f"depth: links down to {depth['from']} -> {depth['to']}"


def _entry(change: Mapping[str, Any]) -> str:
    return f" (entry {change['entry'] + 1})" if change["entry"] else ""


def _list(texts: Sequence[str]) -> str:
    more = len(texts) - MAX_ITEMS
    found = ", ".join(map(shown, texts[:MAX_ITEMS]))
    return f"{found} … ({more} more, see --json)" if more > 0 else found


def _members(members: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {shown(json.dumps(value))}" for name, value in members.items())


def _budget(budget: Mapping[str, Any]) -> str:
    parts = []
    if "cost" in budget:
        parts.append(f"{budget['cost']['amount']} {budget['cost']['currency']}")
    if "calls" in budget:
        parts.append(_counted(budget["calls"], "call"))
    if "rate" in budget:
        rate = budget["rate"]
        parts.append(f"{_counted(rate['calls'], 'call')} in any {rate['seconds']} s")
    return ", ".join(parts)


def _counted(count: int, word: str) -> str:
    return f"{count:,} {word}" + ("" if count == 1 else "s")


def shown(text: str) -> str:
    """`text` without anything that could deceive; what is cut off is counted."""
    more = len(text) - MAX_TEXT
    cut = printable(text[:MAX_TEXT])
    return f"{cut} … ({more} more characters, see --json)" if more > 0 else cut

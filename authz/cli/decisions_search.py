"""`authz decisions search`: find decisions in the log (spec section 10)."""

import argparse
from collections.abc import Mapping
from typing import Any, Final

from authz.bundle.case_format import moment_ms
from authz.cli.data_location import fail, printable
from authz.cli.decision_source import MAX_LIMIT, add_source_arguments, source_of
from authz.cli.json_output import add_json_argument, print_json
from authz.errors import AuthzError
from authz.model.decision import Effect
from authz.model.record import EventQuery, EventType

HELP = "search the decision log"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of this command."""
    parser.description = (
        "Prints records, newest first, one a line. All filters must match. "
        "Exit code: 0 found, 1 nothing found, 2 the log cannot be read."
    )
    add_source_arguments(parser)
    parser.add_argument("--agent", metavar="NAME", help="who asked")
    parser.add_argument("--user", metavar="NAME", help="on whose behalf")
    parser.add_argument("--tool", metavar="SERVER/NAME", help="what was to be called")
    parser.add_argument("--rule", metavar="ID", help="a rule that determined the decision")
    parser.add_argument(
        "--effect",
        choices=[str(effect) for effect in Effect],
        metavar="EFFECT",
        help=f"one of {', '.join(Effect)}",
    )
    parser.add_argument("--trace", metavar="ID", help="the `trace_id` of the call")
    parser.add_argument(
        "--type",
        choices=[str(kind) for kind in EventType],
        metavar="TYPE",
        help=f"type of record, one of {', '.join(EventType)}; default: all",
    )
    parser.add_argument("--since", type=_moment, metavar="TIME", help="not before: RFC 3339, with an offset")
    parser.add_argument("--until", type=_moment, metavar="TIME", help="not after")
    parser.add_argument(
        "--limit", type=_limit, default=50, metavar="N", help=f"at most, 1 to {MAX_LIMIT}; default: 50"
    )
    add_json_argument(parser, help="print JSON instead of text, one whole record on one line")


def _moment(text: str) -> int:
    try:
        return moment_ms(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"`{text}` {error}") from None


def _limit(text: str) -> int:
    if text.isascii() and text.isdecimal() and 1 <= int(text) <= MAX_LIMIT:
        return int(text)
    raise argparse.ArgumentTypeError(f"`{text}` is no number from 1 to {MAX_LIMIT}")


def run(args: argparse.Namespace) -> int:
    """Search, and print one line a record."""
    query = EventQuery(
        tenant=args.tenant,
        trace_id=args.trace or "",
        agent=args.agent or "",
        user=args.user or "",
        tool=args.tool or "",
        rule=args.rule or "",
        effect=args.effect or "",
        type=args.type or "",
        since_ms=args.since,
        until_ms=args.until,
        limit=args.limit,
    )
    try:
        records = source_of(args).search(query)
    except AuthzError as fault:
        return fail(fault)
    for record in records:
        if args.json:
            print_json(record)
        else:
            print(_line(record))
    return 0 if records else 1


_DECISIONS: Final = frozenset({EventType.DECISION_MADE, EventType.DECISION_REPEATED})


def _line(record: Mapping[str, Any]) -> str:
    parts = [str(record["occurred_at"])]
    if record["type"] in _DECISIONS:
        rules = ", ".join(rule["rule"] for rule in record["matched"])
        parts += [
            str(record["decision_id"]),
            f"{record['effect']:<16}",
            *_whose(record),
            rules or str(record["code"]),
        ]
        if record["type"] == EventType.DECISION_REPEATED:
            parts.append("(repeated)")
        parts += _about_an_approval(record)
    elif "decision_id" in record:
        # What became of a decision, under the id of that decision.
        parts += [str(record["decision_id"]), f"{record['type']:<16}", *_whose(record)]
        parts += _about_an_approval(record)
    else:
        parts.append(str(record["type"]))
        if "code" in record:
            parts.append(f"{record['code']}: {record.get('message', '')}")
        parts += _about_a_bundle(record)
    return printable("  ".join(parts))


def _whose(record: Mapping[str, Any]) -> list[str]:
    """The tool and the subject of a call, as far as the record names them."""
    parts = []
    if tool := record.get("tool"):
        parts.append(f"{tool['server']}/{tool['name']}")
    if subject := record.get("subject"):
        user = subject.get("on_behalf_of")
        parts.append(subject["agent"] + (f" for {user}" if user else ""))
    return parts


def _about_an_approval(record: Mapping[str, Any]) -> list[str]:
    """Which approval a record is about, and who answered it by what factor."""
    approval = record.get("approval") or {}
    parts = [f"approval {approval['id']}"] if "id" in approval else []
    if person := record.get("person"):
        factor = (record.get("vote") or {}).get("factor")
        parts.append(f"by {person['id']}" + (f" ({factor})" if factor else ""))
    return parts


def _about_a_bundle(record: Mapping[str, Any]) -> list[str]:
    """What was loaded and how it differs from what was before, or where what was refused is at fault."""
    parts = [str(record["trigger"])] if "trigger" in record else []
    if record["type"] == EventType.BUNDLE_LOADED:
        parts.append(f"policy {str(record['policy_version'])[:19]}")
        for what, changes in (record.get("changes") or {}).items():
            counts = (changes["added"]["count"], changes["removed"]["count"], changes["changed"]["count"])
            if any(counts):
                parts.append("{}: +{} -{} ~{}".format(what, *counts))
    for problem in record.get("problems", []):
        place = problem["file"] if problem["line"] is None else f"{problem['file']}:{problem['line']}"
        parts.append(f"{place} [{problem['code']}]")
    return parts

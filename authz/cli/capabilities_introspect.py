"""`authz capabilities introspect`: what a capability is worth now (`POST /capabilities/introspect`)."""

import argparse
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from authz_client.capabilities import now_seconds

from authz.cli.capabilities_files import CHAIN_HELP, malformed, read_chain
from authz.cli.capabilities_service import ServiceRefused, add_service_arguments, ask, refused
from authz.cli.capabilities_view import hop_lines, shown
from authz.cli.json_output import add_json_argument, print_json

HELP = "ask the service what a chain, or a link on record, is worth now"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of this command."""
    parser.description = (
        "Prints whether a capability is active, and of each link what it allows, what it gave up, what of "
        "its budgets is used, and what stops it. Exit code: 0 active, 1 not active, 2 no answer."
    )
    parser.add_argument("chain", nargs="?", metavar="CHAIN", help=CHAIN_HELP)
    parser.add_argument(
        "--link", metavar="HASH", help="a link on record instead; write --link=HASH, it may begin with -"
    )
    add_service_arguments(parser, role="`audit` or `policy`")
    add_json_argument(parser)


def run(args: argparse.Namespace) -> int:
    """Ask and print."""
    if (args.chain is None) == (args.link is None):
        raise malformed("name a chain or a `--link`, one of them")
    body = {"link": args.link} if args.chain is None else {"capability": list(read_chain(args.chain))}
    try:
        answer = ask(args, "POST", "/capabilities/introspect", body=body)
    except ServiceRefused as error:
        return refused(args, error)
    if args.json:
        print_json(answer)
    else:
        print("\n".join(_lines(answer, now_seconds())))
    return 0 if answer["active"] is True else 1


def _lines(answer: Mapping[str, Any], now: int) -> Iterator[str]:
    if answer["active"] is True:
        yield "ACTIVE"
    else:
        where = "" if answer.get("link") is None else f" (link {answer['link']})"
        yield f"NOT ACTIVE: {shown(str(answer['reason']))}{where}"
    for position, link in enumerate(answer.get("links") or []):
        yield ""
        yield from hop_lines(_hop(link, position, now))


def _hop(link: Mapping[str, Any], position: int, now: int) -> dict[str, Any]:
    """A link of an answer as `authz capabilities show` has it."""
    expires_at = _seconds(link["expires_at"])
    lost = link["gave_up"]
    if lost is not None and "expiry" in lost:
        lost = {**lost, "expiry": {name: _seconds(at) for name, at in lost["expiry"].items()}}
    notes = [
        f"used     {', '.join(f'{what} {shown(str(count))}' for what, count in budget['used'].items())}"
        for budget in link["budgets"]
        if budget["used"]
    ]
    if (stopped := link["revoked_by"]) is not None:
        notes.append(f"REVOKED  by {stopped['kind']} {shown(stopped['value'])}")
    return {
        "link": position,
        "agent": link["agent"],
        "subject": link["subject"],
        "holder": link["holder"],
        "link_hash": link["link"],
        "issued_at": _seconds(link["issued_at"]),
        "not_before": None,
        "expires_at": expires_at,
        "seconds_left": expires_at - now,
        "depth": link["depth"],
        "authorization_details": link["authorization_details"],
        "gave_up": lost,
        "refused": None,
        "notes": notes,
    }


def _seconds(moment: str) -> int:
    return int(datetime.fromisoformat(moment).timestamp())

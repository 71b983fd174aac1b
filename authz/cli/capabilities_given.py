"""What a person is shown of a capability that the service gave, and what a request for one holds."""

import argparse
import json
from collections.abc import Iterator, Mapping
from typing import Any

from authz_client.capabilities import PublicKey, Refused, TaskPacket

from authz.cli.capabilities_files import entries_of, malformed, natural, read_packet, read_public_key
from authz.cli.capabilities_view import entry_lines, shown


def add_holder_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare for whom, and for how long."""
    parser.add_argument("--agent", required=True, metavar="NAME", help="the agent that will hold it")
    parser.add_argument("--holder", required=True, metavar="FILE", help="its public JWK, from `keygen`")
    parser.add_argument("--expires-in", type=natural, metavar="SECONDS", help="from now")
    parser.add_argument("--max-depth", type=natural, metavar="N", help="how often it may be handed on")


def asked_for(args: argparse.Namespace) -> dict[str, Any]:
    """The members that issuing and narrowing share."""
    holder: PublicKey = read_public_key(args.holder)
    body: dict[str, Any] = {"agent": args.agent, "holder": holder.jwk}
    if args.packet is not None:
        packet, body["task"] = read_packet(args.packet)
        _check(packet, args)
    else:
        details = entries_of(args, None)
        if details is not None:
            body["authorization_details"] = list(details)
    if args.expires_in is not None:
        body["expires_in"] = args.expires_in
    if args.max_depth is not None:
        body["max_depth"] = args.max_depth
    return body


def _check(packet: TaskPacket, args: argparse.Namespace) -> None:
    if args.expires_in is not None:
        raise malformed("the packet's deadline is the expiry; leave `--expires-in` out")
    try:
        packet.entries()
    except Refused as error:
        raise malformed(f"`{args.packet}` yields no capability: {error.refusal}") from None


def given_lines(answer: Mapping[str, Any]) -> Iterator[str]:
    """The lines to print; the last is the chain, as it goes into a request."""
    yield f"agent    {shown(answer['agent'])}, on behalf of {shown(answer['subject'])}"
    yield f"key      {answer['holder']}"
    yield f"link     {answer['link']}"
    if answer["root"] != answer["link"]:
        yield f"root     {answer['root']}"
    yield f"jti      {shown(answer['jti'])}"
    yield f"time     {answer['issued_at']} to {answer['expires_at']}"
    depth = answer["max_depth"]
    yield f"depth    may be handed on {depth} time{'' if depth == 1 else 's'}"
    yield from entry_lines(answer["authorization_details"])
    for rule in answer["matched"]:
        place = "" if rule["file"] is None else f"  {rule['file']}:{rule['line']}"
        yield f"by       {shown(rule['rule'])}{shown(place)}"
    yield f"chain    {json.dumps(answer['capability'])}"

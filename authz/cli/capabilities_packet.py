"""`authz capabilities packet`: the narrowest capability that serves a task packet (spec section 7)."""

import argparse
import sys

from authz_client.capabilities import Refused

from authz.cli.capabilities_files import read_packet, utc
from authz.cli.capabilities_view import entry_lines, shown
from authz.cli.json_output import add_json_argument, print_json

HELP = "print the narrowest capability that serves a task packet"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of this command."""
    parser.description = (
        "A packet is a JSON object with `objective`, `inputs`, `output_contract`, `completion` and "
        "`child_trace_id`, and optionally `constraints` and `budget`. What it names is what the capability "
        "allows, until its deadline, and nothing else. Exit code: 0 printed, 1 the packet grants nothing "
        "that a capability can say, 2 it cannot be read."
    )
    parser.add_argument("packet", metavar="PACKET", help="a JSON file; - is standard input")
    add_json_argument(parser, help="print `authorization_details`, `exp` and `child_trace_id` as JSON")


def run(args: argparse.Namespace) -> int:
    """Print what the packet yields."""
    packet, _ = read_packet(args.packet)
    try:
        details = packet.entries()
    except Refused as error:
        print(f"authz: refused: {shown(str(error.refusal))}", file=sys.stderr)
        return 1
    if args.json:
        print_json(
            {
                "authorization_details": details,
                "exp": packet.expires_at,
                "child_trace_id": packet.child_trace_id,
            }
        )
        return 0
    print(f"task     {shown(packet.objective)}")
    print(f"until    {utc(packet.expires_at)}")
    print(f"trace    {shown(packet.child_trace_id)}")
    for line in entry_lines(details):
        print(line)
    return 0

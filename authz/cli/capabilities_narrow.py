"""`authz capabilities narrow`: sign a child with one's own key, without a network (spec section 7)."""

import argparse
import sys

from authz_client.capabilities import Refused, narrow, new_jti, now_seconds

from authz.cli.capabilities_files import (
    CHAIN_HELP,
    add_entries_arguments,
    entries_of,
    malformed,
    natural,
    read_chain,
    read_packet,
    read_public_key,
    read_signing_key,
    seconds,
)
from authz.cli.json_output import print_json

HELP = "sign a narrower child of a chain with your own key, offline"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of this command."""
    parser.description = (
        "Prints the chain with one more link, a JSON array on one line, root first. What is not stated is "
        "the parent's. A child that would be wider is refused, naming which of R, O, P, E widened. "
        "Exit code: 0 signed, 1 refused, 2 something cannot be read."
    )
    parser.add_argument("chain", nargs="?", default="-", metavar="CHAIN", help=CHAIN_HELP)
    parser.add_argument("--key", required=True, metavar="FILE", help="private key of the leaf's holder")
    parser.add_argument(
        "--holder", required=True, metavar="FILE", help="public JWK of the child, from `keygen`"
    )
    parser.add_argument(
        "--agent", metavar="NAME", help="the child's name; without one it acts as the subject"
    )
    add_entries_arguments(parser)
    when = parser.add_mutually_exclusive_group()
    when.add_argument("--expires-in", type=natural, metavar="SECONDS", help="from now")
    when.add_argument("--expires-at", type=seconds, metavar="TIME", help="RFC 3339 or seconds since 1970")
    parser.add_argument(
        "--max-depth",
        type=natural,
        metavar="N",
        help="the deepest `del_depth` below; the child's own ends it",
    )


def run(args: argparse.Namespace) -> int:
    """Print the longer chain."""
    packet = None if args.packet is None else read_packet(args.packet)[0]
    if packet is not None and (args.expires_in, args.expires_at) != (None, None):
        raise malformed("the packet's deadline is the expiry; leave `--expires-in` and `--expires-at` out")
    chain = read_chain(args.chain)
    key = read_signing_key(args.key)
    holder = read_public_key(args.holder)
    now = now_seconds()
    if packet is not None:
        expiry: int | None = packet.expires_at
    else:
        expiry = args.expires_at if args.expires_in is None else now + args.expires_in
    if expiry is not None and expiry <= now:
        raise malformed("the expiry is over already, so the child could do nothing")
    try:
        longer = narrow(
            chain,
            key,
            holder=holder,
            entries=entries_of(args, packet),
            agent=args.agent,
            jti=new_jti(),
            iat=now,
            exp=expiry,
            max_depth=args.max_depth,
        )
    except Refused as error:
        component = "" if error.refusal.component is None else f" ({error.refusal.component} would be wider)"
        print(f"authz: refused{component}: {error.refusal}", file=sys.stderr)
        return 1
    print_json(list(longer))
    return 0

"""`authz capabilities revoke`: stop a link or a holder, and what is beneath (`POST /capabilities/revoke`)."""

import argparse

from authz.cli.capabilities_files import CHAIN_HELP, read_chain, read_leaf_hash
from authz.cli.capabilities_service import ServiceRefused, add_service_arguments, ask, refused
from authz.cli.capabilities_view import shown
from authz.cli.json_output import add_json_argument, print_json

HELP = "revoke a link or a holder's key, with everything beneath"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of this command."""
    parser.description = (
        "Revokes the last link of CHAIN, or what else is named. In force on the service before it answers, "
        "and within its configured bound on every other replica. "
        "Exit code: 0 revoked, 1 refused, 2 no answer."
    )
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("chain", nargs="?", metavar="CHAIN", help=f"its last link: {CHAIN_HELP}")
    what.add_argument("--link", metavar="HASH", help="a link; write --link=HASH, it may begin with -")
    what.add_argument("--jti", metavar="ID", help="a root's alone, else every link that has it")
    what.add_argument(
        "--holder", metavar="THUMBPRINT", help="a key, for good, with all that was made offline: --holder=…"
    )
    parser.add_argument("--reason", required=True, metavar="TEXT", help="why, for the record")
    add_service_arguments(parser, role="`issue` or `policy`")
    add_json_argument(parser)


def run(args: argparse.Namespace) -> int:
    """Revoke, and print what that came to."""
    body = {name: value for name in ("link", "jti", "holder") if (value := getattr(args, name)) is not None}
    if args.chain is not None:
        body["link"] = read_leaf_hash(read_chain(args.chain))
    try:
        answer = ask(args, "POST", "/capabilities/revoke", body={**body, "reason": args.reason})
    except ServiceRefused as error:
        return refused(args, error)
    if args.json:
        print_json(answer)
        return 0
    for one in answer["revoked"]:
        print(f"revoked {one['kind']} {shown(one['value'])} until {one['until']}")
    if answer["already"]:
        print("it was revoked already")
    if answer["complete"] and not answer["already"] and not answer["live"] + answer["live_beneath"]:
        print("nothing that the service knew was stopped by it: is it the right one?")
        return 0
    at_least = "" if answer["complete"] else "at least "
    print(f"{at_least}{answer['live_beneath']} live beneath it on record; links made offline stop as well")
    return 0

"""`authz capabilities attenuate`: narrow on the server by token exchange (`POST /capabilities/attenuate`)."""

import argparse

from authz_client.capabilities import Refused, new_jti, now_seconds, prove, request_digest

from authz.cli.capabilities_files import (
    CHAIN_HELP,
    add_entries_arguments,
    malformed,
    read_chain,
    read_leaf,
    read_signing_key,
)
from authz.cli.capabilities_given import add_holder_arguments, asked_for, given_lines
from authz.cli.capabilities_service import ServiceRefused, add_service_arguments, ask, refused
from authz.cli.json_output import add_json_argument, print_json

HELP = "narrow a chain on the server, with a proof of the leaf's key"

_TOKEN_TYPE = "urn:ietf:params:oauth:token-type:jwt"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of this command."""
    parser.description = (
        "Asks a running service for a new root that allows less than the chain, for another key; what is "
        "not stated is the leaf's. A refusal names which of R, O, P, E would widen. "
        "Exit code: 0 narrowed, 1 refused, 2 no answer."
    )
    parser.add_argument("chain", nargs="?", default="-", metavar="CHAIN", help=CHAIN_HELP)
    parser.add_argument("--key", required=True, metavar="FILE", help="private key of the leaf's holder")
    add_holder_arguments(parser)
    add_entries_arguments(parser)
    add_service_arguments(parser, role="`issue` or `decide`")
    add_json_argument(parser)


def run(args: argparse.Namespace) -> int:
    """Ask with a proof over what is asked, and print what was given."""
    chain = read_chain(args.chain)
    leaf = read_leaf(chain)
    key = read_signing_key(args.key)
    body = {
        "grant_type": "urn:ietf:params:oauth:grant-type:token-exchange",
        "subject_token_type": _TOKEN_TYPE,
        **asked_for(args),
    }
    try:
        proof = prove(
            chain[-1],
            key,
            audience=leaf.token.aud,
            # Of the parameters less the chain, which the proof names by its leaf.
            request_digest=request_digest(body),
            jti=new_jti(),
            iat=now_seconds(),
        )
    except Refused as error:
        raise malformed(str(error)) from None
    try:
        answer = ask(
            args,
            "POST",
            "/capabilities/attenuate",
            body={**body, "subject_token": list(chain), "proof": proof},
        )
    except ServiceRefused as error:
        return refused(args, error)
    if args.json:
        print_json(answer)
    else:
        print("\n".join(given_lines(answer)))
    return 0

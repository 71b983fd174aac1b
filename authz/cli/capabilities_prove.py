"""`authz capabilities prove`: a proof of possession, for one request."""

import argparse
import sys

from authz_client.capabilities import Refused, new_jti, now_seconds, prove, request_digest

from authz.cli.capabilities_files import (
    CHAIN_HELP,
    malformed,
    read_chain,
    read_json,
    read_leaf,
    read_signing_key,
)
from authz.cli.json_output import print_json

HELP = "prove, for one request, that you hold the key of a chain's leaf"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of this command."""
    parser.description = (
        "Prints a proof for the request body in --body: good once, for a minute, for this body only (less "
        "`capability` and `proof`). With --attach, prints the body with chain and proof in it, ready to be "
        "sent. Exit code: 0 proved, 1 the key is not the leaf's, 2 something cannot be read."
    )
    parser.add_argument("chain", metavar="CHAIN", help=CHAIN_HELP)
    parser.add_argument("--key", required=True, metavar="FILE", help="private key of the leaf's holder")
    parser.add_argument("--body", default="-", metavar="FILE", help="default: -, standard input")
    parser.add_argument(
        "--audience", metavar="URL", help="the decision point; default: the `aud` of the leaf"
    )
    parser.add_argument("--attach", action="store_true", help="print the whole body")


def run(args: argparse.Namespace) -> int:
    """Print the proof, or the body with it."""
    if args.chain == "-" and args.body == "-":
        raise malformed("chain and body cannot both be standard input")
    chain = read_chain(args.chain)
    body = read_json(args.body)
    if not isinstance(body, dict):
        raise malformed(f"`{args.body}` is no request: expected a JSON object")
    key = read_signing_key(args.key)
    leaf = read_leaf(chain)
    if leaf.holder != key.public:
        print("authz: refused: the key is not that of the holder of the leaf", file=sys.stderr)
        return 1
    try:
        proof = prove(
            chain[-1],
            key,
            audience=args.audience or leaf.token.aud,
            request_digest=request_digest(body),
            jti=new_jti(),
            iat=now_seconds(),
        )
    except Refused as error:
        raise malformed(str(error)) from None
    if args.attach:
        print_json(body | {"capability": list(chain), "proof": proof})
    else:
        print(proof)
    return 0

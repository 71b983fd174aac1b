"""`authz capabilities keygen`: a holder's key, in a file that nobody else can read."""

import argparse
import sys
from pathlib import Path

from authz_client.capabilities import generate_key, write_key

from authz.cli.capabilities_files import malformed
from authz.cli.json_output import print_json

HELP = "make a key that can hold a capability"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of this command."""
    parser.description = (
        "Writes a new private Ed25519 key into FILE, which must not exist (mode 0600; a JWK where the name "
        "ends in .json or .jwk, else PEM), and prints the public key on standard output as a JWK: that is "
        "what capabilities are issued to and narrowed for. The thumbprint, by which a holder is revoked, "
        "goes to standard error."
    )
    parser.add_argument("file", type=Path, metavar="FILE", help="where the private key goes")


def run(args: argparse.Namespace) -> int:
    """Make the key. Only its public part is ever printed."""
    key = generate_key()
    try:
        write_key(args.file, key)
    except FileExistsError:
        raise malformed(f"`{args.file}` exists, and a key is never written over; name another file") from None
    print_json(key.public.jwk)
    print(f"thumbprint {key.public.thumbprint}", file=sys.stderr)
    return 0

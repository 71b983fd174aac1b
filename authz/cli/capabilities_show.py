"""`authz capabilities show`: a chain as a readable tree, with what each hop gave up (spec section 7)."""

import argparse

from authz_client.capabilities import (
    NOTHING_REVOKED,
    BadKey,
    Refusal,
    Revocations,
    VerifiedChain,
    now_seconds,
    parse_revocations,
    published_keys,
    verify_chain,
)
from authz_client.capabilities.expectations import DEFAULT_MAX_LIFETIME_SECONDS

from authz.cli.capabilities_document import describe
from authz.cli.capabilities_files import CHAIN_HELP, malformed, natural, read_chain, read_json, seconds
from authz.cli.capabilities_view import lines
from authz.cli.json_output import add_json_argument, print_json

HELP = "show a chain as a tree, and what each hop gave up"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of this command."""
    parser.description = (
        "Prints what each link of a chain allows and what it gave up against the one above: rights (R), "
        "objects (O), conditions and budget (P), expiry (E), depth. Without --jwks, --issuer and --audience "
        "the chain is told as unverified. Exit code: 0 shown, 1 shown but refused, 2 it cannot be read."
    )
    parser.add_argument("chain", nargs="?", default="-", metavar="CHAIN", help=CHAIN_HELP)
    parser.add_argument("--jwks", metavar="FILE", help="the issuer's key set, /.well-known/jwks.json")
    parser.add_argument("--issuer", metavar="URL", help="who must have issued the root")
    parser.add_argument("--audience", metavar="URL", help="the decision point that it must be for")
    parser.add_argument("--revocations", metavar="FILE", help="what is revoked, GET /revocations")
    parser.add_argument(
        "--max-lifetime",
        type=natural,
        default=DEFAULT_MAX_LIFETIME_SECONDS,
        metavar="SECONDS",
        help=f"the longest life of a link; default: {DEFAULT_MAX_LIFETIME_SECONDS}",
    )
    parser.add_argument(
        "--now", type=seconds, metavar="TIME", help="RFC 3339 or seconds since 1970; default: this clock"
    )
    add_json_argument(parser)


def run(args: argparse.Namespace) -> int:
    """Print the tree."""
    now: int = now_seconds() if args.now is None else args.now
    revoked = _revocations(args.revocations)
    chain = read_chain(args.chain)
    told = describe(chain, _verified(args, chain, now, revoked or NOTHING_REVOKED), now=now)
    told["revocations_checked"] = revoked is not None
    if args.json:
        print_json(told)
    else:
        print("\n".join(lines(told)))
    return 1 if told["verdict"] == "refused" else 0


def _verified(
    args: argparse.Namespace, chain: tuple[str, ...], now: int, revoked: Revocations
) -> VerifiedChain | Refusal | None:
    given = [args.jwks, args.issuer, args.audience]
    if given == [None, None, None]:
        if args.revocations is not None:
            raise malformed("`--revocations` belongs to `--jwks`, `--issuer` and `--audience`")
        return None
    if None in given:
        raise malformed("to verify, give all of `--jwks`, `--issuer` and `--audience`")
    try:
        keys = published_keys(read_json(args.jwks))
    except BadKey as error:
        raise malformed(f"`{args.jwks}` is no key set: {error}") from None
    return verify_chain(
        chain,
        now=now,
        audience=args.audience,
        issuer=args.issuer,
        keys=keys,
        revoked=revoked,
        max_lifetime_seconds=args.max_lifetime,
    )


def _revocations(source: str | None) -> Revocations | None:
    if source is None:
        return None
    try:
        return parse_revocations(read_json(source))
    except ValueError as error:
        raise malformed(f"`{source}`: {error}") from None

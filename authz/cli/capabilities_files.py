"""What the commands of `authz capabilities` read: chains, keys, entries, task packets, moments.

Everything is bounded and parsed strictly. What is wrong with a file is raised as `MalformedInput`, which ends
a command with exit code 2.
"""

import argparse
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from authz_client.capabilities import (
    BadKey,
    PublicKey,
    Refusal,
    Refused,
    SigningKey,
    TaskPacket,
    parse_packet,
    public_key,
    read_key,
)
from authz_client.capabilities.claims import LinkClaims, parse_link
from authz_client.capabilities.envelope import LINK_TYP, Envelope, parse_envelope

from authz.core import strict_json
from authz.errors import MalformedInput

MAX_BYTES: Final = 1 << 20
CODE: Final = "capability.malformed"
CHAIN_HELP: Final = (
    "a file with the chain, root first: a JSON array, an object with `capability` or `chain`, or tokens "
    "separated by white space; - is standard input"
)
ENTRIES_HELP: Final = "a JSON file of `authorization_details`; - is standard input"


def malformed(message: str) -> MalformedInput:
    """What is wrong with something that was read."""
    return MalformedInput(message, code=CODE)


def read_bytes(source: str) -> bytes:
    """The bytes of a file, or of standard input for `-`."""
    try:
        if source == "-":
            data = sys.stdin.buffer.read(MAX_BYTES + 1)
        else:
            with Path(source).open("rb") as file:
                data = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise malformed(f"`{source}` cannot be read: {error.strerror or error}") from None
    if len(data) > MAX_BYTES:
        raise malformed(f"`{source}` is over {MAX_BYTES} bytes")
    return data


def read_json(source: str) -> Any:
    """The JSON value of a file, by the parser of the service."""
    try:
        return strict_json.loads(read_bytes(source), max_bytes=MAX_BYTES)
    except MalformedInput as error:
        raise malformed(f"`{source}` is not JSON as the service takes it: {error.message}") from None


def read_chain(source: str) -> tuple[str, ...]:
    """The tokens of a chain, root first, none of them looked at."""
    data = read_bytes(source).strip()
    if data.startswith((b"[", b"{")):
        try:
            chain = strict_json.loads(data, max_bytes=MAX_BYTES)
        except MalformedInput as error:
            raise malformed(f"`{source}` is not JSON as the service takes it: {error.message}") from None
        if isinstance(chain, dict):
            chain = chain.get("capability", chain.get("chain"))
        if not isinstance(chain, list) or not all(isinstance(token, str) for token in chain):
            raise malformed(f"`{source}` holds no chain; {CHAIN_HELP}")
        return tuple(chain)
    try:
        return tuple(data.decode("utf-8").split())
    except UnicodeDecodeError:
        raise malformed(f"`{source}` holds no chain; {CHAIN_HELP}") from None


def read_public_key(source: str) -> PublicKey:
    """The key that a child will hold: a public JWK, as `authz capabilities keygen` prints it."""
    try:
        return public_key(read_json(source))
    except BadKey as error:
        raise malformed(f"`{source}` is no public key: {error}") from None


def read_signing_key(source: str) -> SigningKey:
    """The private key of a file that only its owner can read."""
    try:
        return read_key(Path(source))
    except BadKey as error:
        raise malformed(str(error)) from None
    except OSError as error:
        raise malformed(f"`{source}` cannot be read: {error.strerror or error}") from None


def read_leaf(chain: Sequence[str]) -> LinkClaims:
    """What the last link of a chain says; nothing of it is verified."""
    return _leaf(chain)[1]


def read_leaf_hash(chain: Sequence[str]) -> str:
    """The hash of the last link of a chain, by which it is revoked; nothing of it is verified."""
    return _leaf(chain)[0].link_hash


def _leaf(chain: Sequence[str]) -> tuple[Envelope, LinkClaims]:
    if not chain:
        raise malformed("the chain holds no link")
    is_root = len(chain) == 1
    envelope = parse_envelope(chain[-1], typ=LINK_TYP, has_kid=is_root)
    if isinstance(envelope, Refusal):
        raise malformed(f"the leaf is no link: {envelope}")
    claims = parse_link(envelope.unverified_claims, is_root=is_root)
    if isinstance(claims, Refusal):
        raise malformed(f"the leaf is no link: {claims}")
    return envelope, claims


def read_packet(source: str) -> tuple[TaskPacket, dict[str, Any]]:
    """The task packet of a JSON file, and that JSON."""
    try:
        value = read_json(source)
        return parse_packet(value), value
    except Refused as error:
        raise malformed(f"`{source}` is no task packet: {error.refusal.detail}") from None


def seconds(text: str) -> int:
    """A moment as tokens write it, from RFC 3339 with an offset or seconds since 1970."""
    if text.isascii() and text.isdecimal() and len(text) <= 12:
        return int(text)
    try:
        moment = datetime.fromisoformat(text)
        if moment.tzinfo is not None and (found := int(moment.timestamp())) >= 0:
            return found
    except (ValueError, OverflowError):
        pass
    raise argparse.ArgumentTypeError(
        f"`{text}` is neither a time with an offset, such as 2026-11-30T10:00:00Z, nor seconds since 1970"
    )


def natural(text: str) -> int:
    """An integer of at least 0."""
    if text.isascii() and text.isdecimal() and len(text) <= 12:
        return int(text)
    raise argparse.ArgumentTypeError(f"`{text}` is no integer of at least 0")


def utc(moment: int) -> str:
    """A moment of a token for people: RFC 3339, in UTC."""
    return datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def add_entries_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what a capability is to allow: a file, a task packet, or one entry by flags."""
    group = parser.add_argument_group("what it allows")
    what = group.add_mutually_exclusive_group()
    what.add_argument("--entries", metavar="FILE", help=ENTRIES_HELP)
    what.add_argument("--packet", metavar="FILE", help="a task packet, JSON; its deadline is the expiry")
    what.add_argument(
        "--action", action="append", metavar="RIGHT", help="a verb, a tool or tool:verb; may be repeated"
    )
    group.add_argument("--location", action="append", metavar="URI", help="a canonical URI; may be repeated")
    group.add_argument(
        "--constraints", metavar="JSON", help='conditions on arguments, such as {"amount": {"max": 100}}'
    )
    group.add_argument("--budget", metavar="JSON", help='such as {"calls": 20}')


def entries_of(args: argparse.Namespace, packet: TaskPacket | None) -> Sequence[Mapping[str, Any]] | None:
    """The entries that the options state; `None` when they state none. Raises `Refused` for a packet."""
    flags = [name for name in ("location", "constraints", "budget") if getattr(args, name) is not None]
    if args.action is None and flags:
        raise malformed(f"`--{flags[0]}` belongs to `--action`, which is missing")
    if packet is not None:
        return packet.entries()
    if args.entries is not None:
        entries = read_json(args.entries)
        if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
            raise malformed(f"`{args.entries}` holds no list of entries")
        return entries
    if args.action is None:
        return None
    if args.location is None:
        raise malformed("`--action` needs a `--location`: nothing is allowed everywhere")
    entry = {"type": "agent_tool_call", "actions": args.action, "locations": args.location}
    entry |= {
        name: _flag_json(name, getattr(args, name))
        for name in ("constraints", "budget")
        if getattr(args, name) is not None
    }
    return [entry]


def _flag_json(name: str, text: str) -> Any:
    try:
        return strict_json.loads(text.encode("utf-8", "surrogateescape"), max_bytes=MAX_BYTES)
    except MalformedInput as error:
        raise malformed(f"`--{name}` is not JSON: {error.message}") from None

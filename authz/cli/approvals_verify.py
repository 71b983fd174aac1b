"""`authz approvals verify`: check the receipt of a yes offline (spec section 8)."""

import argparse
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from authz_client.capabilities import PublicKey, public_key
from authz_client.capabilities.digests import base64url

from authz.cli.approvals_view import scope_words, told
from authz.cli.data_location import add_data_arguments, fail, read_location
from authz.cli.json_output import add_json_argument, print_json
from authz.cli.receipt_source import (
    APPROVAL_ID,
    MAX_BYTES,
    FoundReceipt,
    read_file,
    read_receipts,
    recorded_receipts,
)
from authz.config import DEFAULT_TENANT
from authz.core.approval_proof import Checked, Proof, prove
from authz.core.approval_receipt import Receipt
from authz.core.log_chain import rfc3339_ms
from authz.core.shown import shown_digest
from authz.errors import AuthzError, ConfigError
from authz.store.jwks import LogKeys, load_log_keys
from authz.store.keys import ServiceKeys

HELP = "check the receipt of an approval offline: who said yes to what, and how that was proven"
_WORD: Final = {True: "ok", False: "FAILED", None: "not checked"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of this command."""
    parser.description = (
        "Checks the service's signature and, where a passkey proved the yes, the person's own. With the id "
        "of an approval: every receipt that the log here has of it, against its record. Of a call with a "
        "secret it has none: `authz approvals receipts ID` asks the service. "
        "Not proven: whose passkey it is; compare its credential with the record of its registration. "
        "Exit code: 0 everything that was checked holds, 1 something does not, 2 it cannot be read."
    )
    parser.add_argument(
        "receipt", metavar="RECEIPT|ID", help="a file, - for standard input, or the id of an approval"
    )
    add_data_arguments(parser)
    parser.add_argument("--tenant", default=DEFAULT_TENANT, metavar="NAME", help="with an id: whose log")
    parser.add_argument(
        "--jwks",
        type=Path,
        metavar="FILE",
        help="public keys of the service (`authz signing-keys export`); default: its key file",
    )
    parser.add_argument(
        "--shown", type=Path, metavar="FILE", help="a shown document (RFC 8785), to be the one of the receipt"
    )
    add_json_argument(parser, help="print JSON instead of text, one receipt on one line")


def run(args: argparse.Namespace) -> int:
    """Check and print."""
    try:
        found = _find(args)
        keys = _keys(args)
        shown = {} if args.shown is None else {"shown_digest": shown_digest(read_file(args.shown))}
        known = {kid: _public(key) for kid, key in keys.keys.items()}
        proofs = [
            prove(one.token, known, withdrawn=keys.withdrawn, expected={**one.expected, **shown})
            for one in found
        ]
    except AuthzError as fault:
        return fail(fault)
    for proof in proofs:
        if args.json:
            print_json(_as_json(proof))
        else:
            print("\n".join(_lines(proof)))
    return 0 if all(proof.holds for proof in proofs) else 1


def _find(args: argparse.Namespace) -> list[FoundReceipt]:
    if args.receipt == "-":
        data = sys.stdin.buffer.read(MAX_BYTES + 1)
        if len(data) > MAX_BYTES:
            raise ConfigError(f"standard input is over {MAX_BYTES} bytes")
        return read_receipts(data)
    if APPROVAL_ID.fullmatch(args.receipt):
        return recorded_receipts(read_location(args).database, args.tenant, args.receipt)
    return read_receipts(read_file(Path(args.receipt)))


def _keys(args: argparse.Namespace) -> LogKeys:
    if args.jwks is not None:
        return load_log_keys(args.jwks)
    try:
        return ServiceKeys.load(read_location(args).keys).log_keys()
    except ConfigError as fault:
        raise ConfigError(f"{fault.message}; name the public keys with `--jwks`") from fault


def _public(key: Any) -> PublicKey:
    return public_key({"kty": "OKP", "crv": "Ed25519", "x": base64url(key.public_bytes_raw())})


def _lines(proof: Proof) -> Iterator[str]:
    """Every line begins with this service's own word; what the receipt says stands behind it."""
    yield "HOLDS: all that was checked" if proof.holds else "DOES NOT HOLD"
    for step in proof.steps:
        detail = f"  ({told(step.detail)})" if step.detail else ""
        yield f"  {_WORD[step.passed]:<12}{step.what}{detail}"
    if proof.receipt is not None:
        for name, value in _members(proof.receipt).items():
            if value is not None:
                yield f"  {name:<12}{told(str(value))}"


def _members(receipt: Receipt) -> Mapping[str, str | None]:
    return {
        "person": receipt.person,
        "account": receipt.account_id,
        "said yes to": receipt.approval_id,
        "scope": scope_words({"scope": receipt.scope.value, "uses": receipt.uses}),
        "by": receipt.factor.value,
        "signed in by": receipt.method.value,
        "at": rfc3339_ms(receipt.at_ms),
        "tenant": receipt.tenant,
        "service": receipt.issuer,
        "fingerprint": receipt.fingerprint,
        "shown": receipt.shown_digest,
        "decision": receipt.decision_id,
    }


def _as_json(proof: Proof) -> dict[str, Any]:
    return {
        "holds": proof.holds,
        "checked": [_step(step) for step in proof.steps],
        "receipt": None if proof.receipt is None else dict(_members(proof.receipt)),
    }


def _step(step: Checked) -> dict[str, Any]:
    return {"what": step.what, "passed": step.passed, "detail": step.detail}

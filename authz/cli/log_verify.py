"""`authz log verify`: check the decision log offline (spec section 10)."""

import argparse
import json
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from authz.cli.data_location import DataLocation, add_data_arguments, fail, printable, read_location
from authz.core.log_checkpoint import format_head, parse_head
from authz.core.log_verify import Finding
from authz.errors import AuthzError, ConfigError
from authz.store.jwks import load_jwks
from authz.store.keys import ServiceKeys
from authz.store.log_audit import LogReport, LogSnapshot, verify_log

HELP = "check the decision log: changed, missing, reordered or truncated records"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of this command."""
    parser.description = (
        "Checks every record, the heads, the signed checkpoints and, with --expect, that all up to an "
        "earlier HEAD is still there. Reads one snapshot, so a server may go on writing. "
        "Exit code: 0 nothing found, 1 something found, 2 the log cannot be read. "
        "Whoever holds this machine can rewrite the log and sign it again: keep a HEAD, and the public "
        "keys for --jwks, elsewhere."
    )
    add_data_arguments(parser)
    parser.add_argument("--expect", metavar="HEAD", help="what `authz log head` printed earlier")
    parser.add_argument("--jwks", type=Path, help="public keys of the checkpoints; default: the key file")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of sentences")


def run(args: argparse.Namespace) -> int:
    """Verify, print, and answer 0, 1 or 2."""
    location = read_location(args)
    try:
        expected = () if args.expect is None else parse_head(args.expect)
        with LogSnapshot(location.database) as snapshot:
            keys = _load_keys(args.jwks, location, is_needed=snapshot.has_checkpoints())
            report = verify_log(snapshot, keys, expected)
    except AuthzError as fault:
        return fail(fault)
    print(_as_json(report) if args.json else _as_sentences(report))
    return 1 if report.findings else 0


def _load_keys(jwks: Path | None, location: DataLocation, *, is_needed: bool) -> dict[str, Ed25519PublicKey]:
    if jwks is not None:
        return load_jwks(jwks)
    if not is_needed:
        return {}
    try:
        return ServiceKeys.load(location.keys).public_keys()
    except ConfigError as fault:
        raise ConfigError(f"{fault.message}; name the public keys with `--jwks`") from fault


def _as_json(report: LogReport) -> str:
    findings = [
        {
            "writer": printable(finding.writer),
            "sequence": finding.sequence,
            "kind": str(finding.kind),
            "message": printable(finding.message),
        }
        for finding in report.findings
    ]
    content = {
        "ok": not findings,
        "records": report.records,
        "checkpoints": report.checkpoints,
        "head": format_head(report.heads),
        "findings": findings,
    }
    return json.dumps(content)


def _as_sentences(report: LogReport) -> str:
    if report.findings:
        count = len(report.findings)
        lines = [_sentence(finding) for finding in report.findings]
        lines.append(f"{count} {'fault' if count == 1 else 'faults'} in {report.records} records.")
        return "\n".join(lines)
    if not report.heads:
        return "The log is empty."
    newer = report.records - report.checkpointed
    lines = [
        f"{report.records} records of {len(report.heads)} writers are whole and in order.",
        f"{report.checkpoints} signed checkpoints agree; {newer} records are newer than the last.",
        f"HEAD {format_head(report.heads)}",
    ]
    return "\n".join(lines)


def _sentence(finding: Finding) -> str:
    place = f"Record {finding.sequence} of writer {finding.writer}"
    if not finding.writer:
        place = f"Checkpoint {finding.sequence}" if finding.sequence else "The database"
    return printable(f"{place}: {finding.message} ({finding.kind}).")

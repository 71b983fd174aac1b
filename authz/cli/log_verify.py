"""`authz log verify`: check the decision log offline (spec section 10).

It covers the records, their heads, the checkpoints and the anchor file. It does not cover the other
tables: removed or changed operations, session exposure and API keys are not noticed. Nor can it tell a
log that was rewritten and signed again by whoever holds the key file; a HEAD that is kept elsewhere can.
"""

import argparse
from pathlib import Path
from typing import Any

from authz.cli.data_location import DataLocation, add_data_arguments, fail, printable, read_location
from authz.cli.json_output import add_json_argument, print_json
from authz.core.log_checkpoint import format_head, parse_head
from authz.core.log_verify import Finding
from authz.errors import AuthzError, ConfigError
from authz.store.jwks import LogKeys, load_log_keys
from authz.store.keys import ServiceKeys
from authz.store.log_audit import LogReport, LogSnapshot, verify_log

HELP = "check the decision log: changed, missing, reordered or truncated records"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of this command."""
    parser.description = (
        "Checks every record, the heads, the signed checkpoints, the anchor file beside the database (a "
        "copy of the newest checkpoint) and, with --expect, that all up to an earlier HEAD is still there. "
        "Reads one snapshot, so a server may go on writing. "
        "Exit code: 0 nothing found, 1 something found, 2 the log cannot be read. "
        "Not covered: operations, session exposure and API keys, which are other tables. "
        "Not proven: whoever holds the key file can rewrite the log and sign it again, and whoever may "
        "remove files can remove the anchor. Against both, keep a HEAD (`authz log head`) for --expect, "
        "and the public keys (`authz signing-keys export`) for --jwks, elsewhere."
    )
    add_data_arguments(parser)
    parser.add_argument("--expect", metavar="HEAD", help="what `authz log head` printed earlier")
    parser.add_argument(
        "--jwks",
        type=Path,
        help="public keys of the checkpoints (`authz signing-keys export`); default: the key file",
    )
    add_json_argument(parser)


def run(args: argparse.Namespace) -> int:
    """Verify, print, and answer 0, 1 or 2."""
    try:
        location = read_location(args)
        expected = () if args.expect is None else parse_head(args.expect)
        # Before the snapshot: an anchor that is read later may be of a checkpoint that is newer than it.
        anchor = location.anchor.read()
        with LogSnapshot(location.database) as snapshot:
            is_signed = anchor is not None or snapshot.has_checkpoints()
            keys = _load_keys(args.jwks, location, is_needed=is_signed)
            report = verify_log(snapshot, keys.keys, expected, withdrawn=keys.withdrawn, anchor=anchor)
    except AuthzError as fault:
        return fail(fault)
    if args.json:
        print_json(_as_json(report, is_anchored=anchor is not None))
    elif report.findings:
        print(_as_findings(report))
    else:
        print(_as_proof(report, is_anchored=anchor is not None, is_expected=bool(expected)))
    return 1 if report.findings else 0


def _load_keys(jwks: Path | None, location: DataLocation, *, is_needed: bool) -> LogKeys:
    if jwks is not None:
        return load_log_keys(jwks)
    if not is_needed:
        return LogKeys(keys={})
    try:
        return ServiceKeys.load(location.keys).log_keys()
    except ConfigError as fault:
        raise ConfigError(f"{fault.message}; name the public keys with `--jwks`") from fault


def _as_json(report: LogReport, *, is_anchored: bool) -> dict[str, Any]:
    findings = [
        {
            "writer": printable(finding.writer),
            "sequence": finding.sequence,
            "kind": str(finding.kind),
            "message": printable(finding.message),
        }
        for finding in report.findings
    ]
    return {
        "ok": not findings,
        "records": report.records,
        "checkpoints": report.checkpoints,
        "anchored": is_anchored,
        "head": printable(format_head(report.heads)),
        "findings": findings,
    }


def _as_findings(report: LogReport) -> str:
    count = len(report.findings)
    lines = [_sentence(finding) for finding in report.findings]
    lines.append(f"{_count(count, 'fault')} in {_count(report.records, 'record')}.")
    return "\n".join(lines)


def _count(number: int, thing: str) -> str:
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"


def _as_proof(report: LogReport, *, is_anchored: bool, is_expected: bool) -> str:
    """What was proven, and what was not."""
    lines = ["The log is empty."]
    if report.heads:
        newer = report.records - report.checkpointed
        checkpoints = _count(report.checkpoints, "signed checkpoint")
        writers = _count(len(report.heads), "writer")
        lines = [
            f"{_count(report.records, 'record')} by {writers}: whole and in order.",
            f"{checkpoints} checked; {_count(newer, 'record')} since the last.",
        ]
    if is_anchored:
        lines.append("The anchor file agrees.")
    elif not is_expected:
        lines.append("There is no anchor file, so nothing tells whether the log once went further.")
    if is_expected:
        lines.append("Everything up to the expected HEAD is there.")
    elif report.heads:
        lines.append(
            "Not proven: that nobody who holds the key file signed it again. Compare it with a HEAD that was "
            "kept elsewhere (--expect)."
        )
    if report.heads:
        lines.append(f"HEAD {format_head(report.heads)}")
    return "\n".join(lines)


def _sentence(finding: Finding) -> str:
    place = f"Record {finding.sequence} of writer {finding.writer}"
    if not finding.writer:
        place = f"Checkpoint {finding.sequence}" if finding.sequence else "The log"
    return printable(f"{place}: {finding.message} ({finding.kind}).")

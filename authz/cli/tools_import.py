"""`authz tools import`: draft descriptors from what an MCP server advertises (spec section 3)."""

import argparse
import json
import logging
import os
import re
import shlex
import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from authz.bundle.import_run import Import, ImportedFile, Outcome
from authz.bundle.mcp_catalogue import (
    DEFAULT_TIMEOUT_SECONDS,
    CatalogueUnavailable,
    Command,
    Remote,
    canonical_url,
    read_catalogue,
)
from authz.cli.bundle_location import add_bundle_argument, bundle_folder
from authz.cli.data_location import add_data_arguments, fail, printable, read_location
from authz.cli.json_output import add_json_argument, print_json
from authz.cli.tools_import_report import report
from authz.core.redact import Redactor
from authz.errors import AuthzError, BundleError, ConfigError
from authz.store.database import open_session
from authz.store.event_search import MAX_SEARCH_LIMIT, build_search, read_event

HELP = "draft descriptors of an MCP server's tools, or show what changed since they were reviewed"
REFUSED: Final = 1
CHANGED: Final = 3
MAX_TIMEOUT_SECONDS: Final = 600.0
_DIGEST: Final = re.compile(r"sha256:[0-9a-f]{64}")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of this command."""
    parser.usage = "authz tools import --server ALIAS [options] (--url URL | -- COMMAND [ARGUMENT ...])"
    parser.description = (
        "Asks an MCP server for its tools (the handshake and `tools/list`, nothing else) and writes what it "
        "advertises into a file of the bundle. A new tool becomes a draft: at level A3 and asked for until "
        "somebody reviews it. What is there already is never changed: a tool that the server now describes "
        "otherwise keeps its pinned digest, so its calls are refused, until `--accept` names it with the "
        "digest that somebody looked at. "
        "Exit code: 0 done, and file and server agree; 1 the same, but some tools cannot be described; "
        "2 it could not be done, and nothing was written; 3 file and server differ "
        "(with --check or --dry-run: in anything; otherwise: in what was neither accepted nor pruned)."
    )
    parser.add_argument("--server", required=True, metavar="ALIAS", help="the server's name in the bundle")
    add_bundle_argument(parser)
    parser.add_argument(
        "--into", type=Path, metavar="FILE", help="the file to write; default: tools/ALIAS.yaml of the bundle"
    )
    parser.add_argument("--url", help="a server that speaks streamable HTTP: https, or http on this machine")
    parser.add_argument(
        "--header",
        action="append",
        default=[],
        metavar="NAME=VARIABLE",
        help="send an HTTP header with the value of that environment variable (repeatable)",
    )
    parser.add_argument(
        "--env",
        action="append",
        default=[],
        metavar="VARIABLE",
        help="give the command this environment variable too; otherwise it gets PATH, HOME and LANG",
    )
    parser.add_argument(
        "--profile",
        action="append",
        default=[],
        metavar="NAME",
        help="in a new file: a credential profile that may use the server (repeatable; default nobody)",
    )
    parser.add_argument(
        "--accept",
        action="append",
        default=[],
        metavar="TOOL@DIGEST",
        help="pin a changed tool as the report showed it (repeatable); refused when it has changed since",
    )
    parser.add_argument("--prune", action="store_true", help="delete tools that the server no longer lists")
    parser.add_argument("--dry-run", action="store_true", help="write nothing; print what would be written")
    parser.add_argument("--check", action="store_true", help="write nothing; only say what changed, for CI")
    add_json_argument(parser)
    parser.add_argument(
        "--timeout-seconds",
        type=float,
        default=DEFAULT_TIMEOUT_SECONDS,
        metavar="N",
        help=f"how long all of it may take; default: {DEFAULT_TIMEOUT_SECONDS:g}",
    )
    parser.add_argument(
        "--tenant", default="default", metavar="NAME", help="whose operations to look at (with --data-dir)"
    )
    add_data_arguments(parser)
    parser.add_argument("command", nargs=argparse.REMAINDER, metavar="-- COMMAND", help=argparse.SUPPRESS)


def run(args: argparse.Namespace) -> int:
    """Import, print, and answer 0, 1, 2 or 3."""
    # The SDK logs what servers send, which is not ours to print.
    logging.getLogger("mcp").setLevel(logging.CRITICAL + 1)
    try:
        check_time = _deadline(args.timeout_seconds)
        source, identity = _source(args)
        _warn_of_secrets(source)
        target = args.into or bundle_folder(args) / "tools" / f"{args.server}.yaml"
        wanted = Import(
            alias=args.server,
            identity=identity,
            command=source.words if isinstance(source, Command) else None,
            profiles=tuple(args.profile),
            accept=_accepted(args.accept),
            prune=args.prune,
            writes=not (args.dry_run or args.check),
        )
        file = ImportedFile.read(target, wanted)
        catalogue = read_catalogue(source, timeout_seconds=args.timeout_seconds)
        outcome = file.bring_in(catalogue, check_time=check_time)
        live = _live_operations(args, outcome)
    except BundleError:
        # Every problem on a line of its own: `main` does that for all commands.
        raise
    except AuthzError as fault:
        return fail(fault)
    if args.json:
        print_json(_as_json(outcome, live))
    else:
        print(printable_lines(report(outcome, live)))
        if args.dry_run and not args.check:
            print(outcome.text, end="")
    if outcome.differs:
        return CHANGED
    return REFUSED if outcome.plan.refused else 0


def printable_lines(text: str) -> str:
    """`text` with line ends kept and everything else that could fool a terminal as escapes."""
    return "\n".join(printable(line) for line in text.split("\n"))


def _source(args: argparse.Namespace) -> tuple[Command | Remote, str]:
    words = args.command[1:] if args.command[:1] == ["--"] else args.command
    if bool(words) == (args.url is not None):
        raise ConfigError("name one server: `--url URL`, or `-- COMMAND` behind all options")
    if args.url is not None:
        if args.env:
            raise ConfigError("`--env` is for a command; a header is sent by `--header NAME=VARIABLE`")
        url = canonical_url(args.url)
        return Remote(url=url, headers=dict(_header(pair) for pair in args.header)), url
    if args.header:
        raise ConfigError("`--header` is for `--url`; a command gets a variable by `--env VARIABLE`")
    variables = {name: _variable(name, "--env") for name in args.env}
    return Command(words=tuple(words), variables=variables), shlex.join(words)


def _warn_of_secrets(source: Command | Remote) -> None:
    """Say so where `identity`, which lands in a file that is committed, would keep a secret."""
    redactor = Redactor(b"")  # only whether something is hidden is looked at
    if isinstance(source, Remote):
        if redactor.uri(source.url) != source.url:
            print(
                "warning: the url looks as if it holds a secret, and `identity` in the bundle would keep it: "
                "send it by `--header NAME=VARIABLE`",
                file=sys.stderr,
            )
        return
    for end in range(1, len(source.words) + 1):
        text = shlex.join(source.words[:end])
        if redactor.command(text) != text:
            print(
                f"warning: word {end} of the command looks like a secret, and `identity` in the bundle would "
                "keep it: give it to the command by `--env VARIABLE`",
                file=sys.stderr,
            )
            return


def _header(pair: str) -> tuple[str, str]:
    name, separator, variable = pair.partition("=")
    if not separator or not name or not variable:
        raise ConfigError(
            "`--header` takes NAME=VARIABLE, the name of an environment variable, not the value"
        )
    return name, _variable(variable, "--header")


def _variable(name: str, option: str) -> str:
    if name not in os.environ:
        raise ConfigError(f"`{option}`: the environment variable `{name}` is not set")
    return os.environ[name]


def _accepted(pairs: list[str]) -> dict[str, str]:
    """By tool, the digest that was looked at."""
    found: dict[str, str] = {}
    for pair in pairs:
        name, _, digest = pair.rpartition("@")
        if not name or not _DIGEST.fullmatch(digest):
            raise ConfigError(
                f"`--accept {pair}`: say which description of the tool you looked at, as the report "
                "prints it: `--accept TOOL@sha256:…`"
            )
        if found.setdefault(name, digest) != digest:
            raise ConfigError(f"`--accept {name}`: two digests are accepted, and the tool has one")
    return found


def _deadline(seconds: float) -> Callable[[], None]:
    """Raises `CatalogueUnavailable` once the command has run for so long."""
    if not 0 < seconds <= MAX_TIMEOUT_SECONDS:
        raise CatalogueUnavailable(f"`--timeout-seconds` is above 0 and at most {MAX_TIMEOUT_SECONDS:g}")
    ends_at = time.monotonic() + seconds

    def check_time() -> None:
        if time.monotonic() > ends_at:
            raise CatalogueUnavailable(
                f"the server's tools could not be described within {seconds:g} s, and nothing was written: "
                "`--timeout-seconds` allows more"
            )

    return check_time


def _live_operations(args: argparse.Namespace, outcome: Outcome) -> dict[str, list[dict[str, Any]]] | None:
    """By changed tool: what was allowed under the old descriptor and may still run. `None`: nobody asked."""
    if args.data_dir is None and args.database is None:
        return None
    # An allow's `expires_at` is on the record as RFC 3339 in UTC, which sorts as text.
    now = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime())
    found: dict[str, list[dict[str, Any]]] = {}
    with open_session(read_location(args).database, "read") as session:
        for tool in outcome.plan.changed:
            query = outcome.operations_query(args.tenant, tool.name, MAX_SEARCH_LIMIT)
            records = [json.loads(read_event(row).text) for row in session.fetch(build_search(query))]
            old = outcome.descriptor_digests.get(tool.name)
            found[tool.name] = [
                {key: record.get(key) for key in ("decision_id", "expires_at", "trace_id")}
                for record in records
                if (record.get("expires_at") or "") > now
                and record.get("tool", {}).get("descriptor_digest") == old
            ]
    return found


def _as_json(outcome: Outcome, live: dict[str, list[dict[str, Any]]] | None) -> dict[str, Any]:
    plan = outcome.plan
    return {
        "server": plan.alias,
        "file": str(outcome.path),
        "written": outcome.written,
        "differs": outcome.differs,
        "new": [{"name": tool.name, "advertised_digest": tool.digest} for tool in plan.new],
        "changed": [
            {
                "name": tool.name,
                "pinned": tool.pinned,
                "advertised": tool.advertised,
                "accepted": tool.name in outcome.accepted,
                "accept": f"{tool.name}@{tool.advertised}",
                "members_changed": list(tool.members_changed),
                "compared_with": "pinned entry" if tool.is_exact else "reviewed descriptor",
                "differences": [asdict(difference) for difference in tool.differences],
                "rules": [
                    {"rule": rule.rule, "file": rule.file, "line": rule.line}
                    for rule in outcome.rules.get(tool.name, ())
                ],
                "case_files": outcome.case_files.get(tool.name, []),
                "live_operations": None if live is None else live.get(tool.name, []),
            }
            for tool in plan.changed
        ],
        "vanished": list(plan.vanished),
        "pruned": list(outcome.pruned),
        "unchanged": list(plan.unchanged),
        "refused": [asdict(tool) for tool in plan.refused],
        "unreviewed": list(outcome.drafts),
        "notes": list(outcome.notes),
    }

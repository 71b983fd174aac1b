"""`authz decisions show`: one decision, stage by stage as its record has it, or as a policy case."""

import argparse
import json
import sys
from collections.abc import Iterator, Mapping
from typing import Any, Final

from rich.console import Console
from rich.text import Text

from authz.bundle.case_text import dump_case
from authz.cli.data_location import fail, printable
from authz.cli.decision_source import add_source_arguments, source_of
from authz.cli.json_output import JSON_HELP, add_json_argument, print_json
from authz.core.cases.from_record import case_of_record
from authz.errors import AuthzError

HELP = "show one decision of the log, or print it as a policy case"

_COLOURS: Final = {"allow": "bold green", "require_approval": "bold yellow", "deny": "bold red"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of this command."""
    parser.description = (
        "Shows what the log holds of one decision. With --as-test it prints a case to paste below `cases:` "
        "of a file in the bundle's tests/; what the log redacted is marked there and must be filled in. "
        "Exit code: 0 shown, 2 there is no such decision, it is no case, or the log cannot be read."
    )
    parser.add_argument("id", metavar="ID", help="the `decision_id`")
    add_source_arguments(parser)
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--as-test", action="store_true", help="print a case of tests/*.yaml")
    add_json_argument(form, help=f"{JSON_HELP}: the whole record")


def run(args: argparse.Namespace) -> int:
    """Find the record and print it."""
    try:
        record = source_of(args).find(args.tenant, args.id)
        if args.as_test:
            print(as_test(record), end="")
            return 0
    except AuthzError as fault:
        return fail(fault)
    if args.json:
        print_json(record)
    else:
        show(record)
    return 0


def as_test(record: Mapping[str, Any]) -> str:
    """The record as an entry of `cases:`. Raises `NoCase`."""
    found = case_of_record(record, f"decision {record.get('decision_id', '')}")
    comments = [
        f"decided {record['occurred_at']} by policy version {record['policy_version']}",
    ]
    if found.redacted:
        comments.append("the log holds no clear value of these; fill them in, or the case is refused:")
        comments += [f"  {pointer}" for pointer in found.redacted]
    if found.with_defaults:
        comments.append("the record does not say which arguments a default filled in; take those out")
    return dump_case(found.entry, tuple(printable(comment) for comment in comments))


def show(record: Mapping[str, Any]) -> None:
    """Print a record for people, stage by stage."""
    console = Console(file=sys.stdout, highlight=False, markup=False, emoji=False, soft_wrap=True)
    for heading, lines in _sections(record):
        console.print(Text(printable(heading), style="bold"))
        for name, value in lines:
            text = Text.assemble(
                (f"  {printable(name):<17} ", "dim"), (printable(value), _style(name, value))
            )
            console.print(text)


def _style(name: str, value: str) -> str:
    return _COLOURS.get(value, "") if name == "effect" else ""


Section = tuple[str, list[tuple[str, str]]]


def _sections(record: Mapping[str, Any]) -> Iterator[Section]:
    """The record in the order of the stages of spec section 2."""
    subject, tool, claims = record["subject"], record["tool"], record["claims"]
    caller = record["caller"]
    yield (
        f"decision {record['decision_id']}",
        [
            ("effect", str(record["effect"])),
            ("settled by", f"stage {record['stage']}, {record['code']}"),
            *([("message", _text(record["message"]))] if record.get("message") else []),
            *([("internal", str(record["internal"]))] if record.get("internal") else []),
            ("occurred", str(record["occurred_at"])),
            ("record", f"{record['writer']}:{record['sequence']}, {record['type']}"),
            ("policy", str(record["policy_version"])),
            *([("dry run", "yes")] if record.get("dry_run") else []),
        ],
    )
    yield (
        "0 caller",
        [
            ("agent", str(subject["agent"])),
            *_named(subject, "on_behalf_of", "session", "parent_agent"),
            ("credential", f"{caller['key_id']}, profile {caller['profile']}"),
            *_named(record, "trace_id", "turn_id", "tool_call_id", "parent_trace_id", "parent_turn_id"),
        ],
    )
    yield (
        "2 tool",
        [
            ("tool", f"{tool['server']}/{tool['name']}"),
            *_named(tool, "identity", "advertised_digest", "descriptor_digest"),
        ],
    )
    errors = [(error["pointer"] or "/", f"found {error['found']}") for error in record.get("errors", [])]
    yield "3 arguments", [*_arguments(record["arguments"]), *errors]
    accesses = [(access["verb"], _access(access)) for access in record["accesses"]]
    yield "4 accesses", [*_named(claims, "cwd", "sandbox_root"), *accesses, *_disbelieved(claims)]
    leaves = record["provenance"]["leaves"].items()
    yield (
        "  provenance",
        [
            *((pointer or "/", _text(claim["source"])) for pointer, claim in leaves),
            ("untrusted", ", ".join(record["provenance"].get("untrusted", [])) or "nothing"),
            ("exposed to", ", ".join(record.get("exposed", [])) or "nothing"),
        ],
    )
    yield "5 operation", _named(record, "fingerprint", "request_digest", "authority", "side_effect")
    yield "6 capability", list(_capability(record["capability"]))
    yield (
        "7 rules",
        [
            *((rule["kind"], _rule(rule)) for rule in record["matched"]),
            *((f"outranked {rule['kind']}", _rule(rule)) for rule in record["overruled"]),
        ],
    )
    if approval := record.get("approval"):
        yield "8 approval", list(_approval(approval))
    taken = [
        (name, json.dumps(counter, ensure_ascii=False))
        for name in ("limit", "budget")
        for counter in record.get(f"{name}s", [])
    ]
    if taken or record.get("expires_at"):
        ticket = [("ticket", "signed")] if record.get("ticket") and record["effect"] == "allow" else []
        yield "9 answer", [*taken, *_named(record, "expires_at"), *ticket]


def _named(members: Mapping[str, Any], *names: str) -> list[tuple[str, str]]:
    return [(name, _text(members[name])) for name in names if members.get(name) is not None]


def _approval(approval: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """What is waited for, or what the decision rests on, and who gave it by which factor."""
    yield "approval", f"{approval['id']}, {approval['state']}"
    yield from _named(approval, "shown_digest", "expires_at", "scope", "uses_left")
    for approver in approval.get("approvers", []):
        yield "yes of", f"{_text(approver['person'])}, by {approver['factor']}"
    if approval.get("denied_by"):
        yield "no of", _text(approval["denied_by"])


def _capability(capability: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    yield "capability", "presented" if capability["presented"] else "none"
    for number, link in enumerate(capability.get("links", [])):
        yield f"hand-off {number}" if number else "root", f"{_text(link['sub'])}, jti {_text(link['jti'])}"
        yield "", f"link {link['link']}, key {link['jkt']}"
    yield from _named(capability, "holder", "expires_at")
    if capability.get("entries"):
        yield "by entries", ", ".join(map(str, capability["entries"]))
    refused = capability.get("refused")
    if refused:
        link = f"link {refused['link']}" if refused["link"] is not None else ""
        told = (refused["reason"], refused["component"], link, refused["agent"])
        yield "refused", ", ".join(str(part) for part in told if part)


def _arguments(arguments: Any) -> list[tuple[str, str]]:
    if not isinstance(arguments, Mapping) or "redacted" in arguments:
        return [("all", _text(arguments))]
    return [(name, _text(value)) for name, value in arguments.items()]


def _access(access: Mapping[str, Any]) -> str:
    rules = ", ".join(access["rules"])
    beneath = f"`{access['pattern']}` beneath" if isinstance(access.get("pattern"), str) else "all beneath"
    scope = f" and {beneath}" if access["scope"] == "tree" else ""
    verdict = f": {access['effect']}" if access["effect"] else ""
    return f"{access['uri']}{scope} {access['authority']}{verdict}" + (f" by {rules}" if rules else "")


def _disbelieved(claims: Mapping[str, Any]) -> list[tuple[str, str]]:
    return [("not believed", ", ".join(claims["not_believed"]))] if claims["not_believed"] else []


def _rule(rule: Mapping[str, Any]) -> str:
    place = f"  {rule['file']}:{rule['line']}" if rule["file"] else ""
    return f"{rule['rule']}{place}" + (f"  {rule['reason']}" if rule["reason"] else "")


def _text(value: Any) -> str:
    if isinstance(value, Mapping) and "redacted" in value:
        return f"(redacted, {value.get('length')} characters, {value['redacted']})"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)

"""`authz approvals approve`: a person says yes to what is printed (`POST /approvals/{id}/approve`)."""

import argparse
import sys
from typing import Any, Final

from authz.cli.approvals_service import (
    REFUSED,
    AnswerRefused,
    add_service_arguments,
    approval_path,
    refused,
    service_of,
)
from authz.cli.approvals_shown import ShownHere, fetch_shown, text_of
from authz.cli.approvals_view import scope_words, standing_lines
from authz.cli.data_location import printable
from authz.cli.json_output import add_json_argument, print_json
from authz.errors import ConfigError
from authz.model.approval import Factor

HELP = "approve a request, after all of it was shown"
YES: Final = "yes"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of this command."""
    parser.description = (
        "Prints all that would run and asks for `yes` at the terminal. In scripts: give the digest of what "
        "`authz approvals show` printed. A request that asks for a passkey is approved on its page alone. "
        "Exit code: 0 your yes counts, 1 it does not, 2 no answer."
    )
    parser.add_argument("approval", metavar="ID")
    scope = parser.add_mutually_exclusive_group()
    scope.add_argument("--once", action="store_true", help="this call, once (the default)")
    scope.add_argument("--times", type=_times, metavar="N", help="this very call, so many times")
    scope.add_argument("--session", action="store_true", help="what was offered for the rest of the session")
    parser.add_argument(
        "--digest", metavar="sha256:…", help="yes to what has this digest, without asking: for scripts"
    )
    parser.add_argument(
        "--opened", action="store_true", help="with --digest: long values were read to their ends, too"
    )
    add_service_arguments(parser)
    add_json_argument(parser)


def _times(text: str) -> int:
    if text.isascii() and text.isdecimal() and 0 < int(text) < 1_000_000:
        return int(text)
    raise argparse.ArgumentTypeError(f"`{text}` is no number of uses")


def run(args: argparse.Namespace) -> int:
    """Show, ask, and say yes."""
    try:
        service = service_of(args)
        approval = service.ask("GET", approval_path(args.approval))
        shown = fetch_shown(service, args.approval)
        if (why := _cannot(shown, approval)) is not None:
            print(f"authz: refused: {why}", file=sys.stderr)
            return REFUSED
        if not _agrees(args, shown):
            print("nothing was approved", file=sys.stderr)
            return REFUSED
        answer = service.ask("POST", f"{approval_path(args.approval)}/approve", body=_ballot(args, shown))
    except AnswerRefused as error:
        return refused(args, error)
    if args.json:
        print_json(answer)
    else:
        print("\n".join(standing_lines(answer)))
    return 0


def _cannot(shown: ShownHere, approval: dict[str, Any]) -> str | None:
    if not shown.answer["can_approve"]:
        why, code = shown.answer.get("message"), shown.answer.get("code")
        return f"{printable(str(why))} [{printable(str(code))}]"
    if Factor.PASSKEY.value in (shown.factor, approval["factor"]):
        return f"it asks for your passkey, which only the page can: {printable(approval['url'])}"
    return None


def _agrees(args: argparse.Namespace, shown: ShownHere) -> bool:
    """Whether the person says yes to this document. Raises `ConfigError` where nobody can."""
    folded = shown.document["must_open"]
    if args.digest is not None:
        if args.digest != shown.digest:
            print(f"authz: it is `{shown.digest}` now, which is another one", file=sys.stderr)
            return False
        if folded and not args.opened:
            raise ConfigError(
                f"long values are folded on a page ({len(folded)} of them); say with `--opened` that all of "
                "each was read"
            )
        return True
    if not sys.stdin.isatty():
        raise ConfigError("a yes is typed at a terminal; scripts name what was shown with `--digest`")
    # On standard error, so that what is printed can be paged or kept without the question.
    sys.stderr.write(text_of(shown))
    sys.stderr.write(f"Approve this {scope_words(_scope(args))}? Type {YES}: ")
    sys.stderr.flush()
    return sys.stdin.readline().strip() == YES


def _scope(args: argparse.Namespace) -> dict[str, Any]:
    if args.times is not None:
        return {"scope": "times", "uses": args.times}
    return {"scope": "session" if args.session else "once"}


def _ballot(args: argparse.Namespace, shown: ShownHere) -> dict[str, Any]:
    # All of every value was printed, or the script says that it was.
    return {"shown_digest": shown.digest, **_scope(args), "opened": list(shown.document["must_open"])}

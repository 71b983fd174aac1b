"""`authz capabilities list`: links on record, or the tree that one belongs to (`GET /capabilities`)."""

import argparse
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from authz.cli.capabilities_service import ServiceRefused, add_service_arguments, ask, refused
from authz.cli.capabilities_view import SHORT_HASH, shown
from authz.cli.json_output import add_json_argument, print_json
from authz.errors import NotFound

HELP = "list the links on record, or show the tree that one belongs to"

MAX_LIMIT: Final = 200
_LINK: Final = re.compile(r"[A-Za-z0-9_-]{43}")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of this command."""
    parser.description = (
        "Prints links on record, newest first, one a line; with --tree all that goes back to one root, by "
        "who handed it to whom. Exit code: 0 found, 1 nothing found, 2 no answer."
    )
    parser.add_argument(
        "--tree", metavar="LINK", help="the tree of this link; write --tree=LINK, it may begin with -"
    )
    parser.add_argument("--agent", metavar="NAME", help="who holds it")
    parser.add_argument("--user", metavar="NAME", help="on whose behalf")
    parser.add_argument("--holder", metavar="THUMBPRINT", help="of the holder's key: --holder=…")
    parser.add_argument("--jti", metavar="ID")
    parser.add_argument("--root", metavar="LINK", help="the first link: --root=LINK")
    parser.add_argument("--live", action="store_true", help="only those that have not ended")
    parser.add_argument(
        "--limit", type=_limit, default=50, metavar="N", help=f"1 to {MAX_LIMIT}; default: 50"
    )
    parser.add_argument("--after", metavar="PLACE", help="go on from here; standard error says where")
    add_service_arguments(parser, role="`audit` or `policy`")
    add_json_argument(parser, help="print JSON instead of text, one link on one line, or the tree")


def _limit(text: str) -> int:
    if text.isascii() and text.isdecimal() and 1 <= int(text) <= MAX_LIMIT:
        return int(text)
    raise argparse.ArgumentTypeError(f"`{text}` is no number from 1 to {MAX_LIMIT}")


def run(args: argparse.Namespace) -> int:
    """Ask and print."""
    try:
        return _tree(args) if args.tree is not None else _list(args)
    except ServiceRefused as error:
        return refused(args, error)


def _list(args: argparse.Namespace) -> int:
    named = {"agent": args.agent, "on_behalf_of": args.user, "holder": args.holder, "jti": args.jti}
    named |= {"root": args.root, "after": args.after, "live": "true" if args.live else None}
    params = {name: value for name, value in named.items() if value is not None}
    answer = ask(args, "GET", "/capabilities", params={**params, "limit": str(args.limit)})
    for link in answer["capabilities"]:
        if args.json:
            print_json(link)
        else:
            print(_line(link))
    if answer["next"] is not None:
        print(f"there are more: --after {shown(answer['next'])}", file=sys.stderr)
    return 0 if answer["capabilities"] else 1


def _tree(args: argparse.Namespace) -> int:
    if _LINK.fullmatch(args.tree) is None:
        raise NotFound("a link is named by its whole hash; `authz capabilities list --json` has them")
    answer = ask(args, "GET", f"/capabilities/{args.tree}")
    if args.json:
        print_json(answer)
        return 0
    print("\n".join(_nodes(answer["roots"], 0)))
    if not answer["complete"]:
        print("there are more links than are shown", file=sys.stderr)
    return 0


def _nodes(nodes: Sequence[Mapping[str, Any]], depth: int) -> Iterator[str]:
    for node in nodes:
        yield ("   " * (depth - 1) + "+- " if depth else "") + _line(node)
        yield from _nodes(node["children"], depth + 1)


def _line(link: Mapping[str, Any]) -> str:
    parts = [
        link["link"],
        f"{shown(link['agent'])} for {shown(link['subject'])}",
        f"{link['origin']}, depth {link['depth']}",
        f"until {link['expires_at']}",
    ]
    if (stopped := link["revoked_by"]) is not None:
        parts.append(f"REVOKED by {stopped['kind']} {shown(stopped['value'])[:SHORT_HASH]}")
    return "  ".join(parts)

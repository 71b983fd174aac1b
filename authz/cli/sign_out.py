"""`authz sign-out`: end the session of the command line."""

import argparse
import sys

import httpx

from authz.cli.data_location import fail, printable
from authz.cli.service_client import service_client
from authz.cli.session_file import forget_session, read_session
from authz.errors import AuthzError

HELP = "end the session of the command line"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare nothing: there is one session."""
    parser.description = "Ends it at the service, and removes its file."


def run(args: argparse.Namespace) -> int:
    """The file goes in any case; whether the service was told is said."""
    try:
        url, token = read_session()
        try:
            with service_client(url, token) as client:
                ended = client.delete(f"{url}/ui/cli-session").status_code in (204, 401)
        except (httpx.HTTPError, httpx.InvalidURL):
            ended = False
        forget_session()
    except AuthzError as fault:
        return fail(fault)
    if ended:
        print("signed out", file=sys.stderr)
        return 0
    print(
        printable(f"the file is removed, but `{url}` did not answer: the session there ends by its time"),
        file=sys.stderr,
    )
    return 1

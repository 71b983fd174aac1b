"""`authz sign-in`: exchange the code of the account page for a session of the command line."""

import argparse
import getpass
import sys

import httpx

from authz.cli.data_location import fail, printable
from authz.cli.service_client import TIMEOUT_SECONDS
from authz.cli.session_file import write_session
from authz.config import load_config
from authz.errors import AuthzError, ConfigError, StoreUnavailable

HELP = "sign in on the command line, with a code of your account page"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of this command."""
    parser.description = (
        "Sign in in a browser, press `Show a code` on your account page (/ui/account), and give it here. The "
        "session is kept in a file that only you may read (AUTHZ_SESSION_FILE, else in your configuration). "
        "It can answer what asks for no passkey."
    )
    parser.add_argument("--code", help="the code; asked for when it is left out, so that no history keeps it")
    parser.add_argument("--url", metavar="URL", help="the service; default: its configured `public_url`")


def run(args: argparse.Namespace) -> int:
    """Exchange the code, and keep what comes for it."""
    try:
        url = (args.url or load_config().public_url).rstrip("/")
        code = args.code or getpass.getpass("code: ")
        answer = _exchange(url, code.strip())
        path = write_session(url, answer["token"])
    except AuthzError as fault:
        return fail(fault)
    person, ends = answer["person"], answer["expires_at"]
    print(printable(f"signed in as {person} until {ends}; the session is in {path}"), file=sys.stderr)
    return 0


def _exchange(url: str, code: str) -> "dict[str, str]":
    _check_place(url)
    try:
        with httpx.Client(timeout=TIMEOUT_SECONDS, trust_env=url.startswith("https://")) as client:
            response = client.post(f"{url}/ui/cli-session", json={"code": code})
        document = response.json()
    except (httpx.HTTPError, httpx.InvalidURL, ValueError) as fault:
        raise StoreUnavailable(f"`{url}` gave no answer that can be read: {type(fault).__name__}") from None
    if not isinstance(document, dict):
        raise StoreUnavailable(f"`{url}` gave no answer that can be read")
    if response.status_code != httpx.codes.OK:
        raise ConfigError(str(document.get("message", "the code was not taken")))
    told = {name: document.get(name) for name in ("token", "person", "expires_at")}
    if not all(isinstance(value, str) for value in told.values()):
        raise StoreUnavailable(f"`{url}` gave no answer that can be read")
    return {name: str(value) for name, value in told.items()}


def _check_place(url: str) -> None:
    """Refuse (`ConfigError`) to send a code in plain text over a network."""
    try:
        parsed = httpx.URL(url)
    except httpx.InvalidURL:
        raise ConfigError("`--url` is no url") from None
    loopback = parsed.host in ("localhost", "127.0.0.1", "::1")
    if parsed.scheme != "https" and not (parsed.scheme == "http" and loopback):
        raise ConfigError("`--url` must be `https`, or `http` on this machine")

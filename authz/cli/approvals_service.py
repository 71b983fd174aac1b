"""The service's `/approvals`, asked over HTTP by the commands that need it: by a key, or as a person."""

import argparse
import os
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import httpx

from authz.cli.data_location import printable
from authz.cli.json_output import print_json
from authz.cli.service_client import TIMEOUT_SECONDS, ask_service
from authz.cli.session_file import read_session
from authz.errors import AuthzError, ConfigError, NotFound, StoreUnavailable

DEFAULT_URL: Final = "http://localhost:8700"
REFUSED: Final = 1
"""Exit code where the service said no to what was asked, and not to who asks."""
_APPROVAL_ID: Final = re.compile(r"[A-Za-z0-9_-]{1,128}")


class AnswerRefused(AuthzError):
    """The service takes no such answer. `problem` is what it said (RFC 9457)."""

    def __init__(self, problem: Mapping[str, Any]) -> None:
        super().__init__(str(problem.get("detail", "")), code=str(problem.get("code", "")))
        self.problem = problem


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """Which service is asked, and as whom."""

    url: str
    secret: str = field(repr=False)
    is_person: bool

    def ask(
        self,
        method: str,
        path: str,
        *,
        body: Mapping[str, Any] | None = None,
        params: Mapping[str, str] | None = None,
        timeout_seconds: float = TIMEOUT_SECONDS,
    ) -> Any:
        """The answer. Raises `AnswerRefused`, and what `main` reports for everything that is no answer."""
        response, answer = ask_service(
            self.url,
            self.secret,
            method,
            path,
            body=body,
            params=params,
            timeout_seconds=timeout_seconds,
        )
        if response.status_code == httpx.codes.OK and isinstance(answer, dict):
            return answer
        problem = answer if isinstance(answer, dict) else {}
        is_refusal = response.status_code in (httpx.codes.FORBIDDEN, httpx.codes.CONFLICT)
        if is_refusal and str(problem.get("code", "")).startswith("approval."):
            raise AnswerRefused(problem)
        detail = printable(str(problem.get("detail") or response.reason_phrase))
        message = f"`{self.url}` answered {response.status_code}: {detail}"
        if response.status_code == httpx.codes.UNAUTHORIZED and self.is_person:
            message += "; sign in again with `authz sign-in`"
        if response.status_code == httpx.codes.NOT_FOUND:
            raise NotFound(message)
        raise StoreUnavailable(message)


def add_service_arguments(parser: argparse.ArgumentParser, *, role: str | None = None) -> None:
    """Declare which service is asked. Without `role` only a person may ask, and no key is taken."""
    group = parser.add_argument_group("the service")
    if role is None:
        parser.set_defaults(url=None, key_env=None)
        group.description = "The one that you signed in to with `authz sign-in`."
        return
    group.description = "The one that you signed in to with `authz sign-in`, or one that takes a key:"
    group.add_argument("--url", help=f"with --key-env; default: {DEFAULT_URL}")
    group.add_argument(
        "--key-env",
        metavar="NAME",
        help=f"the environment variable that holds an API key with the role {role}",
    )


def service_of(args: argparse.Namespace) -> Service:
    """The service that the options name, or the one that a person signed in to. Raises `ConfigError`."""
    if args.key_env is None:
        if args.url is not None:
            raise ConfigError("`--url` goes with `--key-env`; a person asks where `authz sign-in` signed in")
        url, token = read_session()
        return Service(url=url.rstrip("/"), secret=token, is_person=True)
    key = os.environ.get(args.key_env)
    if not key:
        raise ConfigError(f"`{args.key_env}` holds no key; name the variable that does with `--key-env`")
    return Service(url=(args.url or DEFAULT_URL).rstrip("/"), secret=key, is_person=False)


def approval_path(approval_id: str) -> str:
    """Where an approval is. Raises `MalformedInput` for what is the id of none."""
    if _APPROVAL_ID.fullmatch(approval_id) is None:
        raise NotFound(f"`{printable(approval_id[:80])}` is no id of an approval; see the list of them")
    return f"/approvals/{approval_id}"


def refused(args: argparse.Namespace, refusal: AnswerRefused) -> int:
    """Print why, with --json the whole problem; the exit code."""
    if args.json:
        print_json(refusal.problem)
        return REFUSED
    state = refusal.problem.get("state")
    told = f" (it is {printable(str(state))})" if state else ""
    message = printable(refusal.message)
    print(f"authz: refused: {message} [{printable(refusal.code)}]{told}", file=sys.stderr)
    return REFUSED

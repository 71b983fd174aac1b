"""The service's `/capabilities`, asked over HTTP by the commands that need it."""

import argparse
import os
import sys
from collections.abc import Mapping
from typing import Any, Final

import httpx

from authz.cli.capabilities_view import shown
from authz.cli.json_output import print_json
from authz.cli.service_client import ask_service
from authz.errors import AuthzError, ConfigError, NotFound, StoreUnavailable

DEFAULT_URL: Final = "http://localhost:8700"
REFUSED: Final = 1
"""Exit code where the service said no to what was asked, and not to who asks."""


class ServiceRefused(AuthzError):
    """The service gives no such capability. `problem` is its answer (RFC 9457)."""

    def __init__(self, problem: Mapping[str, Any]) -> None:
        super().__init__(str(problem.get("detail", "")), code=str(problem.get("code", "")))
        self.problem = problem


def add_service_arguments(parser: argparse.ArgumentParser, *, role: str) -> None:
    """Declare which service is asked, with which key."""
    group = parser.add_argument_group("the service")
    group.add_argument("--url", default=DEFAULT_URL, help=f"default: {DEFAULT_URL}")
    group.add_argument(
        "--key-env",
        required=True,
        metavar="NAME",
        help=f"the environment variable that holds an API key with the role {role}",
    )


def ask(
    args: argparse.Namespace,
    method: str,
    path: str,
    *,
    body: Mapping[str, Any] | None = None,
    params: Mapping[str, str] | None = None,
) -> Any:
    """The answer. Raises `ServiceRefused`, and what `main` reports for everything that is no answer."""
    key = os.environ.get(args.key_env)
    if not key:
        raise ConfigError(f"`{args.key_env}` holds no key; name the variable that does with `--key-env`")
    url: str = args.url.rstrip("/")
    response, answer = ask_service(url, key, method, path, body=body, params=params)
    if response.status_code in (httpx.codes.OK, httpx.codes.CREATED) and isinstance(answer, dict):
        return answer
    problem = answer if isinstance(answer, dict) else {}
    if response.status_code == httpx.codes.FORBIDDEN and problem.get("code") != "caller.forbidden":
        raise ServiceRefused(problem)
    detail = shown(str(problem.get("detail") or response.reason_phrase))
    message = f"`{url}` answered {response.status_code}: {detail}"
    raise NotFound(message) if response.status_code == httpx.codes.NOT_FOUND else StoreUnavailable(message)


def refused(args: argparse.Namespace, refusal: ServiceRefused) -> int:
    """Print why, with --json the whole problem; the exit code."""
    if args.json:
        print_json(refusal.problem)
        return REFUSED
    problem = refusal.problem
    where = [
        f"{name} {shown(str(problem[name]))}"
        for name in ("component", "link", "entry", "right", "location", "agent")
        if problem.get(name) is not None
    ]
    rules = [str(rule.get("rule")) for rule in problem.get("matched") or [] if isinstance(rule, dict)]
    where += [f"by rule {shown(', '.join(rules))}"] if rules else []
    told = f" ({', '.join(where)})" if where else ""
    print(f"authz: refused: {shown(refusal.message)} [{shown(refusal.code)}]{told}", file=sys.stderr)
    return REFUSED

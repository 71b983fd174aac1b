"""The command line: `authz COMMAND …`. One module a command, imported only when it is used."""

import argparse
import contextlib
import importlib
import os
import sys
from collections.abc import Sequence
from typing import Any, Final

from authz.errors import AuthzError, BundleError, StoreUnavailable

# Command words → module and what it does. The module has HELP, add_arguments(parser) and run(args) -> exit
# code; what it does is said here too, so that the list of commands imports none of them.
COMMANDS: Final[dict[tuple[str, ...], tuple[str, str]]] = {
    ("serve",): ("authz.cli.serve", "run the service"),
    ("canonicalize",): (
        "authz.cli.canonicalize",
        "print what values name: JSON lines in, JSON lines out",
    ),
    ("log", "verify"): (
        "authz.cli.log_verify",
        "check the decision log: changed, missing, reordered or truncated records",
    ),
    ("log", "head"): (
        "authz.cli.log_head",
        "print the HEAD of the decision log, to keep elsewhere and check with `log verify --expect`",
    ),
    ("decisions", "search"): ("authz.cli.decisions_search", "search the decision log"),
    ("decisions", "show"): (
        "authz.cli.decisions_show",
        "show one decision of the log, or print it as a policy case",
    ),
    ("keys", "create"): ("authz.cli.keys_create", "create an API key and print it once"),
    ("keys", "list"): ("authz.cli.keys_list", "list API keys, without the keys themselves"),
    ("keys", "revoke"): ("authz.cli.keys_revoke", "revoke an API key"),
    ("capabilities", "verify"): (
        "authz.cli.capabilities_verify",
        "verify chains: JSON lines in, JSON lines out",
    ),
    ("capabilities", "show"): (
        "authz.cli.capabilities_show",
        "show a chain as a tree, and what each hop gave up",
    ),
    ("capabilities", "keygen"): ("authz.cli.capabilities_keygen", "make a key that can hold a capability"),
    ("capabilities", "narrow"): (
        "authz.cli.capabilities_narrow",
        "sign a narrower child of a chain with your own key, offline",
    ),
    ("capabilities", "prove"): (
        "authz.cli.capabilities_prove",
        "prove, for one request, that you hold the key of a chain's leaf",
    ),
    ("capabilities", "issue"): ("authz.cli.capabilities_issue", "issue a capability to an agent's key"),
    ("capabilities", "attenuate"): (
        "authz.cli.capabilities_attenuate",
        "narrow a chain on the server, with a proof of the leaf's key",
    ),
    ("capabilities", "introspect"): (
        "authz.cli.capabilities_introspect",
        "ask the service what a chain, or a link on record, is worth now",
    ),
    ("capabilities", "revoke"): (
        "authz.cli.capabilities_revoke",
        "revoke a link or a holder's key, with everything beneath",
    ),
    ("capabilities", "list"): (
        "authz.cli.capabilities_list",
        "list the links on record, or show the tree that one belongs to",
    ),
    ("capabilities", "packet"): (
        "authz.cli.capabilities_packet",
        "print the narrowest capability that serves a task packet",
    ),
    ("approvals", "list"): ("authz.cli.approvals_list", "list requests for approvals"),
    ("approvals", "show"): (
        "authz.cli.approvals_show",
        "show what would run if a request were approved, and where it stands",
    ),
    ("approvals", "approve"): (
        "authz.cli.approvals_approve",
        "approve a request, after all of it was shown",
    ),
    ("approvals", "deny"): (
        "authz.cli.approvals_deny",
        "deny a request: the same call is not asked for again in its session",
    ),
    ("approvals", "wait"): ("authz.cli.approvals_wait", "wait until a request is answered"),
    ("approvals", "revoke"): ("authz.cli.approvals_revoke", "make void what is left of an approval"),
    ("approvals", "receipts"): (
        "authz.cli.approvals_receipts",
        "print the signed receipts of an approval, for `verify`",
    ),
    ("approvals", "verify"): (
        "authz.cli.approvals_verify",
        "check the receipt of an approval offline: who said yes to what, and how that was proven",
    ),
    ("webhooks", "list"): (
        "authz.cli.webhooks_list",
        "list notices that no webhook took: the dead letters",
    ),
    ("webhooks", "retry"): ("authz.cli.webhooks_retry", "have notices tried again that no webhook took"),
    ("webhooks", "drop"): ("authz.cli.webhooks_drop", "take away notices that no webhook took"),
    ("people", "invite"): (
        "authz.cli.people_invite",
        "invite a person: print a one-time link for registering a passkey",
    ),
    ("people", "list"): ("authz.cli.people_list", "list the accounts of people"),
    ("people", "disable"): (
        "authz.cli.people_disable",
        "end the sessions of a person, and let nobody in as it",
    ),
    ("people", "enable"): ("authz.cli.people_enable", "let a person in again that was disabled"),
    ("people", "sign-in-link"): (
        "authz.cli.people_sign_in_link",
        "print a one-time sign-in link to a running `authz serve --dev`",
    ),
    ("sign-in",): ("authz.cli.sign_in", "sign in on the command line, with a code of your account page"),
    ("sign-out",): ("authz.cli.sign_out", "end the session of the command line"),
    ("signing-keys", "list"): (
        "authz.cli.signing_keys_list",
        "list the keys that the service signs with, without their private parts",
    ),
    ("signing-keys", "rotate"): (
        "authz.cli.signing_keys_rotate",
        "publish a new signing key, which takes over by itself",
    ),
    ("signing-keys", "withdraw"): (
        "authz.cli.signing_keys_withdraw",
        "throw a signing key out as compromised: no token verifies with it from now on",
    ),
    ("signing-keys", "export"): (
        "authz.cli.signing_keys_export",
        "print the public part of every key that the log was signed with, for `log verify --jwks`",
    ),
    ("check",): (
        "authz.cli.check",
        "check a bundle: what keeps it from loading, and what is surely not meant",
    ),
    ("test",): (
        "authz.cli.test",
        "run the cases of a bundle, and say which rules and tools they reach",
    ),
    ("explain",): (
        "authz.cli.explain",
        "explain why a call is decided as it is: every stage, every rule that matched or nearly did",
    ),
    ("store", "status"): ("authz.cli.store_status", "print the version of the database's schema"),
    ("store", "migrate"): ("authz.cli.store_migrate", "bring the database's schema up to date"),
    ("tools", "lint"): (
        "authz.cli.tools_lint",
        "lint the descriptors of tools, and say what their catalogue costs a model",
    ),
    ("hook", "claude-code"): (
        "authz_client.hooks.claude_code",
        "decide the tool calls of Claude Code: one event on standard input, the hook's answer out",
    ),
    ("tools", "import"): (
        "authz.cli.tools_import",
        "draft descriptors of an MCP server's tools, or show what changed since they were reviewed",
    ),
    ("schema",): (
        "authz.cli.schema",
        "print the Cedar schema that a bundle generates, for editors and Cedar's own tools",
    ),
    ("openapi",): ("authz.cli.openapi", "print the OpenAPI document of the HTTP API"),
}
GROUPS: Final = {
    "log": "the decision log",
    "keys": "API keys of callers",
    "people": "accounts of people, who answer what agents ask for",
    "signing-keys": "keys that the service signs capabilities and its log with",
    "capabilities": "signed, narrowing permissions of agents",
    "approvals": "requests that people answer, and what their yes permits",
    "webhooks": "receivers of notices, and what they did not take",
    "store": "the durable store",
    "decisions": "decisions that were made",
    "tools": "descriptors of tools",
    "hook": "hooks of agent runtimes that need no code",
}
HOOK: Final = ["hook", "claude-code"]


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command. Exit code 2 means that it could not do its work."""
    words = list(sys.argv[1:] if argv is None else argv)
    if words[:2] == HOOK:
        return _run_hook(words[2:])
    try:
        return _run(words)
    except BundleError as error:
        for problem in error.problems:
            print(f"authz: {problem}", file=sys.stderr)
        return 2
    except AuthzError as error:
        internal = error.internal if isinstance(error, StoreUnavailable) else ""
        print(f"authz: {error.message}" + (f" ({internal})" if internal else ""), file=sys.stderr)
        return 2
    except BrokenPipeError:
        # The reader of our output left: nothing is wrong with us.
        _drop_output()
        return 0
    except OSError as error:
        # Our output has no room, or a file that no command expected to fail on.
        _drop_output()
        place = f"`{error.filename}`: " if error.filename is not None else ""
        with contextlib.suppress(OSError):
            print(f"authz: {place}{error.strerror or error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130


def _run_hook(words: Sequence[str]) -> int:
    """The hook that runs before every tool call of an agent: it starts without the other commands.

    The runtime lets the tool run where its hook ends by another code than 2, so that is the only one here.
    """
    try:
        return int(importlib.import_module(COMMANDS["hook", "claude-code"][0]).main(words))
    except Exception as error:  # noqa: BLE001 - a broken installation, say
        print(f"authz: the hook cannot start ({type(error).__name__})", file=sys.stderr)
        return 2


def _run(words: Sequence[str]) -> int:
    try:
        args, surplus = _parser(words).parse_known_args(words)
        if surplus:
            # By the command itself, whose usage says what it takes.
            args.usage_error(f"unrecognized arguments: {' '.join(surplus)}")
        return int(args.run(args))
    finally:
        # What fails only when the interpreter flushes at its end is told as its fault, not as ours. Also
        # after `--help`, which ends by an exception.
        sys.stdout.flush()


def _drop_output() -> None:
    """What is still buffered goes nowhere, or the interpreter would fail on it once more at its end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


class _PrintVersion(argparse.Action):
    """Looked up only when it is asked for: reading metadata takes longer than the rest of a start."""

    def __init__(self, option_strings: Sequence[str], dest: str, help: str) -> None:  # noqa: A002
        super().__init__(option_strings, dest, nargs=0, help=help)

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        version = importlib.import_module("importlib.metadata").version("authz")
        print(f"{parser.prog} {version}")
        parser.exit()


def _parser(words: Sequence[str]) -> argparse.ArgumentParser:
    """The parser of the whole command line, with the options of the one command that `words` ask for."""
    parser = argparse.ArgumentParser(
        prog="authz", description="Decides what AI agents may do, and names the rule that decided."
    )
    parser.add_argument("--version", action=_PrintVersion, help="show the version, and end")
    top = parser.add_subparsers(required=True, metavar="COMMAND")
    groups = {
        name: top.add_parser(name, help=text, description=text).add_subparsers(
            required=True, metavar="COMMAND"
        )
        for name, text in GROUPS.items()
    }
    for path, (module_name, text) in COMMANDS.items():
        place = groups[path[0]] if len(path) == 2 else top
        command = place.add_parser(path[-1], help=text, description=text)
        if tuple(words[: len(path)]) == path:
            module = importlib.import_module(module_name)
            module.add_arguments(command)
            command.set_defaults(run=module.run, usage_error=command.error)
    return parser


if __name__ == "__main__":
    sys.exit(main())

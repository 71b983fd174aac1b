"""The command line: `authz COMMAND …`. One module a command, imported only when it is used."""

import argparse
import importlib
import sys
from collections.abc import Sequence
from typing import Final

from authz.errors import AuthzError, BundleError

# Command words → module. The module has HELP, add_arguments(parser) and run(args) -> exit code.
COMMANDS: Final[dict[tuple[str, ...], str]] = {
    ("serve",): "authz.cli.serve",
    ("canonicalize",): "authz.cli.canonicalize",
    ("log", "verify"): "authz.cli.log_verify",
    ("log", "head"): "authz.cli.log_head",
    ("keys", "create"): "authz.cli.keys_create",
    ("keys", "list"): "authz.cli.keys_list",
    ("keys", "revoke"): "authz.cli.keys_revoke",
    ("schema",): "authz.cli.schema",
    ("openapi",): "authz.cli.openapi",
}
GROUPS: Final = {"log": "the decision log", "keys": "API keys of callers"}


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command. Exit code 2 means that it could not do its work."""
    words = list(sys.argv[1:] if argv is None else argv)
    parser = _parser(words)
    args = parser.parse_args(words)
    try:
        return int(args.run(args))
    except BundleError as error:
        for problem in error.problems:
            print(f"authz: {problem}", file=sys.stderr)
        return 2
    except AuthzError as error:
        print(f"authz: {error.message}", file=sys.stderr)
        return 2
    except BrokenPipeError:
        # The reader of our output left: nothing is wrong with us.
        sys.stderr.close()
        return 0
    except KeyboardInterrupt:
        return 130


def _parser(words: Sequence[str]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="authz", description="Decides what AI agents may do, and names the rule that decided."
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    groups: dict[str, argparse._SubParsersAction[argparse.ArgumentParser]] = {}
    asked = [word for word in words if not word.startswith("-")]
    for path, module_name in COMMANDS.items():
        place = commands
        if len(path) == 2:
            if path[0] not in groups:
                group = commands.add_parser(path[0], help=GROUPS[path[0]])
                groups[path[0]] = group.add_subparsers(required=True, metavar="COMMAND")
            place = groups[path[0]]
        # Only the command that runs, or the list that shows it, is worth its imports.
        if asked[: len(path)] != list(path) and asked[:1] == list(path[:1]) and len(asked) >= len(path):
            place.add_parser(path[-1])
            continue
        if asked and asked[0] != path[0]:
            place.add_parser(path[-1])
            continue
        module = importlib.import_module(module_name)
        command = place.add_parser(path[-1], help=module.HELP, description=module.HELP)
        module.add_arguments(command)
        command.set_defaults(run=module.run)
    return parser


if __name__ == "__main__":
    sys.exit(main())

"""Running one command of the command line as `authz` does."""

import argparse
from typing import Protocol


class Command(Protocol):
    """A module of `authz.cli`."""

    HELP: str

    def add_arguments(self, parser: argparse.ArgumentParser) -> None: ...

    def run(self, args: argparse.Namespace) -> int: ...


def run_command(command: Command, *arguments: str) -> int:
    """The exit code; what it prints goes where it goes."""
    parser = argparse.ArgumentParser()
    command.add_arguments(parser)
    return command.run(parser.parse_args(arguments))

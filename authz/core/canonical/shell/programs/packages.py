"""Package managers and builds: what only looks is known, what installs or builds runs unread code."""

from collections.abc import Mapping
from typing import Final

from authz.core.canonical.shell.programs.describe import Description
from authz.core.canonical.shell.run import Run, known_text
from authz.model.resource import Verb

_LOOKS: Final[Mapping[str, frozenset[str]]] = {
    # Not what asks a registry (`view`, `outdated`), which connects to wherever the settings say.
    "npm": frozenset(("ls", "list", "root", "prefix", "explain", "why")),
    "pip": frozenset(("list", "show", "freeze", "check")),
    "pip3": frozenset(("list", "show", "freeze", "check")),
    "uv": frozenset(("version",)),
    "docker": frozenset(("ps", "images", "version", "info")),
    "apt": frozenset(("list", "show", "search")),
}
_SAYS_VERSION: Final = frozenset(("make", "cmake", "ninja", "ruff", "black", "npx", "tsc"))
"""The others read settings of the project for it, which may name code to load."""
_RUNS_CODE: Final = frozenset(
    (
        "npx",
        "bunx",
        "make",
        "cmake",
        "ninja",
        "gradle",
        "mvn",
        "tox",
        "nox",
        "pytest",
        "ruff",
        "mypy",
        "black",
        "eslint",
    )
    + (
        "prettier",
        "tsc",
        "jest",
        "vitest",
        "rake",
        "bundle",
        "composer",
        "dotnet",
        "swift",
        "poetry",
        "pipx",
        "uvx",
    )
    + ("pre-commit", "just", "task", "bazel", "pnpm", "yarn", "cargo", "go", "kubectl", "brew")
)


def _manager(run: Run) -> None:
    """A package manager, by its subcommand."""
    name = known_text(run.words[0])
    arguments = list(run.arguments)
    if not arguments or arguments[0].text in ("--version", "-v", "-V", "--help", "help", "version"):
        run.program(name)
        return
    subcommand = known_text(arguments[0])
    for word in arguments[1:]:
        known_text(word)  # it may be an option
    plain = subcommand.replace("-", "").isalnum() and not subcommand.startswith("-")
    if subcommand in _LOOKS[name] and all(
        not word.is_option or _is_plain(word.text) for word in arguments[1:]
    ):
        run.program(f"{name}/{subcommand}")
        run.here(Verb.READ, tree=False)
        return
    _code(run, f"{name}/{subcommand}" if plain else name)


def _is_plain(option: str | None) -> bool:
    """Whether the option takes no value: one could name another prefix, index or format program."""
    return option is not None and "=" not in option and option in _PLAIN


_PLAIN: Final = frozenset(
    (
        "--json",
        "--all",
        "-a",
        "-l",
        "--long",
        "-g",
        "--global",
        "--parseable",
        "-v",
        "--verbose",
    )
    + ("--production", "-q", "--quiet")
)


def _code(run: Run, name: str) -> None:
    """Code of the project, or of whoever published a package, runs and may do anything."""
    run.program(name, known=False, changes=True)
    run.code()


def _builder(run: Run) -> None:
    name = known_text(run.words[0])
    if name in _SAYS_VERSION and [word.text for word in run.arguments] in (["--version"], ["--help"]):
        run.program(name)
        return
    _code(run, name)


PROGRAMS: Final[Mapping[str, Description]] = {
    **dict.fromkeys(_LOOKS, _manager),
    **dict.fromkeys(sorted(_RUNS_CODE), _builder),
}

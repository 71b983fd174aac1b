"""Which variables may change what programs do. Only those known to be harmless do not (fail closed).

Lower-case names are the shell's own, by custom; the few that programs read all the same are listed.
"""

import re
from typing import Final

_HARMLESS: Final = re.compile(
    r"LANG|LANGUAGE|LC_[A-Z]+|TZ|TERM|COLUMNS|LINES|NO_COLOR|FORCE_COLOR|CLICOLOR(?:_FORCE)?|CI|DEBIAN_FRONTEND"
    r"|PYTHONUNBUFFERED|PYTHONDONTWRITEBYTECODE|PYTHONIOENCODING|PYTHONUTF8|RUST_BACKTRACE|NODE_ENV"
    r"|GIT_(?:AUTHOR|COMMITTER)_(?:NAME|EMAIL|DATE)|GIT_TERMINAL_PROMPT|GIT_OPTIONAL_LOCKS|[a-z_][a-z0-9_]*"
)
_READ_IN_LOWER_CASE: Final = frozenset(
    ("http_proxy", "https_proxy", "ftp_proxy", "all_proxy", "no_proxy", "path", "module_path", "manpath")
)
SHELL_OWN: Final = frozenset(
    ("HOME", "PWD", "OLDPWD", "CDPATH", "IFS", "BASH_ENV", "ENV", "PS4", "GLOBIGNORE", "PATH", "SHELLOPTS")
    + ("BASHOPTS", "PROMPT_COMMAND", "BASH_FUNC", "TMPDIR", "HISTFILE", "POSIXLY_CORRECT", "BASH_COMPAT")
    + ("EXECIGNORE", "FUNCNEST", "BASH_LOADABLES_PATH", "BASH_XTRACEFD")
)
"""What the shell itself reads: a line that sets one of these is not understood."""


_PLACE: Final = re.compile(
    r"GIT_(?:DIR|WORK_TREE|INDEX_FILE|OBJECT_DIRECTORY|COMMON_DIR|ALTERNATE_OBJECT_DIRECTORIES)"
)


def names_place(name: str) -> bool:
    """Whether the value of this variable is a place that the program reads and writes."""
    return _PLACE.fullmatch(name) is not None


_PLAIN_VALUE: Final = re.compile(r"|(?!.*\.\.)[A-Za-z0-9_.,:+@-]+(?:/[A-Za-z0-9_+-]+)*")
_LOCALE: Final = re.compile(r"|C|POSIX|(?:C|[a-z]{2,3}_[A-Z]{2})\.(?:UTF-8|utf-?8)")


def changes_what_runs(name: str, value: str | None = "") -> bool:
    """Whether a program that finds this variable may do something else than without it.

    A harmless one can hold a harmful value: a time zone and a language can be the path of a file, and a
    character set can have letters that look like quotes to the shell itself.
    """
    if name in _READ_IN_LOWER_CASE or _HARMLESS.fullmatch(name) is None:
        return True
    if name.islower():
        return False
    known = _LOCALE if name == "LANG" or name.startswith("LC_") else _PLAIN_VALUE
    if value is None:
        return not name.startswith("GIT_")
    return known.fullmatch(value) is None and not name.startswith("GIT_")

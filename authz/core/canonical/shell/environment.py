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
    + ("BASHOPTS", "PROMPT_COMMAND", "BASH_FUNC", "TMPDIR", "HISTFILE", "POSIXLY_CORRECT")
)
"""What the shell itself reads: a line that sets one of these is not understood."""


def changes_what_runs(name: str) -> bool:
    """Whether a program that finds this variable may do something else than without it."""
    return name in _READ_IN_LOWER_CASE or _HARMLESS.fullmatch(name) is None

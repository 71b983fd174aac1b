"""Names that could be taken for one another.

Here a tool is the pair (server, name), and no encoding of the two into one word is ever read. But runtimes
do encode them (`mcp__server__tool`, other characters as `_`), and people read them: where two come out the
same, nobody can tell which one a rule, a log line or a call was about.
"""

import re
from typing import Final

from authz.model.resource import Authority, Verb

_OTHER: Final = re.compile(r"[^A-Za-z0-9_-]")
_ACTION_LIKE: Final = re.compile(
    rf".*:(?:{'|'.join(Verb)}):(?:{'|'.join(level.name for level in Authority)})"
)


def alias_key(alias: str) -> str:
    """Equal for aliases that differ in case or punctuation only: `my-server`, `My_Server`, `myserver`."""
    return "".join(char for char in alias.casefold() if char.isalnum())


def wire_name(alias: str, name: str) -> str:
    """A tool as runtimes write it into one word: whatever is no letter, digit, `-` or `_`, as `_`."""
    return _OTHER.sub("_", f"{alias}__{name}")


def is_action_like(name: str) -> bool:
    """True for a name that ends like an action's id (`list:read:A0`): it would be that action of `list`."""
    return _ACTION_LIKE.fullmatch(name) is not None

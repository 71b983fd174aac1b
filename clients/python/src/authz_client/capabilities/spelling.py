"""What a canonical name of each kind may hold, as the service has it (spec section 4)."""

import re
import unicodedata
from collections.abc import Mapping
from typing import Final
from urllib.parse import unquote_to_bytes

PORTS: Final[Mapping[str, str]] = {"http": "80", "https": "443", "ws": "80", "wss": "443", "ftp": "21"}
"""The port of a scheme where none is stated; stating it is another spelling."""

_INVISIBLE_CATEGORIES: Final = frozenset({"Cc", "Cf", "Cs", "Co", "Zl", "Zp"})
_DEFAULT_IGNORABLE: Final = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2065\u3164\ufe00-\ufe0f\uffa0\ufff0-\ufff8"
    "\U000e0000-\U000e0fff]"
)


def has_odd_character(text: str, *, may_hold_spaces: bool = False) -> bool:
    """Whether `text` holds a character that nobody can see, or white space (other than U+0020)."""
    if text.isascii() and text.isprintable():
        return not may_hold_spaces and " " in text
    return any(_is_odd(char) and not (char == " " and may_hold_spaces) for char in text)


def _is_odd(char: str) -> bool:
    category = unicodedata.category(char)
    return category in _INVISIBLE_CATEGORIES or category == "Zs" or _DEFAULT_IGNORABLE.match(char) is not None


_DEVICE: Final = r"(?i:con|prn|aux|nul|conin\$|conout\$|(?:com|lpt)[1-9\u00b9\u00b2\u00b3])[ .]*(?::[^/]*)?"
# What a path must not hold to be in lexical normal form and POSIX: controls, `\`, empty and dot components, a
# slash at the end, drives, streams, device names, and upper-case 8.3 short names.
_NOT_IN_A_PATH: Final = re.compile(
    r"[\x00-\x1f\x7f-\x9f\ud800-\udfff\\]|//|/\.{1,2}(?:/|$)|.(?:/$)|:\$|/[A-Za-z]:(?:/|$)"
    rf"|/{_DEVICE}(?:/|$)"
    r"|/(?=[^/.a-z]{3,8}(?:[./]|$))[^/.~:*?<>|\" a-z]{1,6}~[0-9]{1,6}(?:\.[^/.~:*?<>|\" a-z]{0,3})?(?=/|$)"
)
# Links of a process to other files: what they lead to depends on who asks.
_PROCESS_ALIAS: Final = re.compile(
    r"/proc/(?:self|thread-self|[0-9]+)/(?:root|cwd|fd|exe|task|map_files)(?:/|$)|/dev/(?:fd|std(?:in|out|err))(?:/|$)"
)


def is_file_path(path: str) -> bool:
    """Whether `path` is absolute, in lexical normal form, and of lengths that a file system takes."""
    if not path.startswith("/") or _NOT_IN_A_PATH.search(path) or _PROCESS_ALIAS.match(path):
        return False
    components = path.split("/")[1:]
    return (
        len(path.encode()) <= 4096
        and len(components) <= 256
        and all(len(component.encode()) <= 255 for component in components)
    )


_NEEDS_CARE: Final = re.compile(r"[%;]|/\.")
_DOT_SEGMENT: Final = re.compile(r"/(?:\.|%2[Ee]){1,2}(?:/|$)")
_OVERLONG: Final = ((b"\xc0\xae", b"."), (b"\xc0\xaf", b"/"), (b"\xc1\x9c", b"\\"))
_MAX_DECODINGS: Final = 8


def decodes_to_dots(path: str) -> bool:
    """Whether a server could find `.` or `..` in the path of a url, decoding it once or more often."""
    if not _NEEDS_CARE.search(path):
        return False
    if _DOT_SEGMENT.search(path):
        return True
    data = path.encode()
    for _ in range(_MAX_DECODINGS):
        plain = data
        for overlong, char in _OVERLONG:
            plain = plain.replace(overlong, char)
        parts = plain.replace(b"\\", b"/").split(b"/")
        if any(part.partition(b";")[0] in (b".", b"..") for part in parts):
            return True
        decoded = unquote_to_bytes(data)
        if decoded == data:
            return False
        data = decoded
    return True


# git-check-ref-format(1), rules 1 to 10.
_NOT_IN_A_REF: Final = re.compile(r"[\x00-\x20\x7f~^:?*\[\\]|\.\.|@\{|//")
_PSEUDO_REF: Final = re.compile(r"@|[A-Z_]*HEAD")


def is_ref(name: str) -> bool:
    """Whether `name` is the one name of a branch, or `refs/kind/name` for what is none."""
    parts = name.split("/")
    return not (
        not name
        or _PSEUDO_REF.fullmatch(name)
        or name.startswith(("-", "heads/", "tags/"))
        or name.endswith(".")
        or _NOT_IN_A_REF.search(name)
        or any(not part or part.startswith(".") or part.endswith(".lock") for part in parts)
        or has_odd_character(name)
        or (name.startswith("refs/") and len(parts) < 3)
        or (name.startswith("refs/heads/") and not parts[2].startswith(("refs", "heads", "tags")))
    )


_IBAN: Final = re.compile(r"[A-Z]{2}[0-9]{2}[A-Z0-9]{11,30}")


def is_iban(text: str) -> bool:
    """Whether `text` is an IBAN in electronic form with right check digits (ISO 13616, ISO 7064)."""
    if not _IBAN.fullmatch(text) or not 2 <= int(text[2:4]) <= 98:
        return False
    return int("".join(str(int(char, 36)) for char in text[4:] + text[:4])) % 97 == 1

"""Recognise names that Windows reads differently from POSIX.

Volumes are POSIX here, so a Windows spelling has no canonical form. It must not be judged as the
ordinary POSIX file that it also spells, or `..\\..\\x` would be one odd file inside the workspace.
Where the line is, and why:

- a backslash anywhere: it is a separator on Windows; in a POSIX name it is legal and hardly used;
- a letter and a colon in front of the path, or as a whole component: a drive. A colon elsewhere
  (`12:30.log`, `a/b:c`) is ordinary on Linux and stays one;
- `:$` in a name: an NTFS stream or attribute (`::$DATA`, `:$I30`);
- a component that is a device name as a whole, with what Windows ignores behind it (`NUL`, `com1.`,
  `aux:`). With an extension (`aux.c`, `con.txt`) it is an ordinary file on Linux, and on today's
  Windows too;
- an upper-case 8.3 short name (`PROGRA~1`, `GIT~1`). In lower case (`notes~1.txt`) it is ordinary,
  except on a volume that folds case, which may be one that makes short names;
- the forward-slash spelling of the device namespace, `//?/`.
"""

import re

DEVICE_NAMES = r"(?:con|prn|aux|nul|conin\$|conout\$|(?:com|lpt)[1-9\u00b9\u00b2\u00b3])[ .]*(?::[^/]*)?"

_LEADING = re.compile(r"/?[A-Za-z]:(?:/|$)|[A-Za-z]:|//\?/")
_COMPONENT = re.compile(
    r":\$"  # streams and attributes
    r"|(?:^|/)[A-Za-z]:(?:/|$)"  # a drive as a component
    rf"|(?:^|/)(?i:{DEVICE_NAMES})(?:/|$)"
)
_SHORT = r"(?:^|/)(?=[^/.]{3,8}(?:[./]|$))[^/.~:*?<>|\" ]{1,6}~[0-9]{1,6}(?:\.[^/.~:*?<>|\" ]{0,3})?(?=/|$)"
_SHORT_NAME = re.compile(_SHORT)
_LOWER = re.compile(r"[a-z]")


def begins_like_windows(text: str) -> bool:
    """Whether `text`, a path as written, holds a backslash or begins with a drive or device prefix."""
    return "\\" in text or _LEADING.match(text) is not None


def is_windows_spelling(text: str, *, folds_case: bool = False) -> bool:
    """Whether `text`, in lexical normal form, is a path that Windows reads its own way."""
    if begins_like_windows(text) or _COMPONENT.search(text):
        return True
    if "~" not in text:
        return False
    return any(folds_case or not _LOWER.search(found.group()) for found in _SHORT_NAME.finditer(text))

"""What every kind shares: which characters no name may hold, and how a refusal is worded."""

import re
import unicodedata
from urllib.parse import quote

from authz.model.resource import NotCanonical

JsonScalar = str | int | float | bool | None

_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f]")
_NO_CHARACTER = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff]")
_LINE_SEPARATOR = re.compile("[\u2028\u2029]")
_INVISIBLE_CATEGORIES = frozenset({"Cc", "Cf", "Cs", "Co", "Zl", "Zp"})
# Default_Ignorable_Code_Point (Unicode, DerivedCoreProperties.txt) where the category does not tell: fillers,
# joiners, variation selectors, and what is reserved for more of them. Written out, so that what is refused
# does not move with the Python version.
_DEFAULT_IGNORABLE = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2065\u3164\ufe00-\ufe0f\uffa0\ufff0-\ufff8"
    "\U000e0000-\U000e0fff]"
)

# RFC 3986: pchar and "/" stand in a path as they are; everything else is percent-encoded UTF-8.
_URI_SAFE = "!$&'()*+,;=:@/"
_URI_PLAIN = re.compile(r"[A-Za-z0-9\-._~!$&'()*+,;=:@/]*")


def wrong_type(kind: str, *, expected: str = "a string") -> NotCanonical:
    """The refusal for a JSON value of another type."""
    return NotCanonical(code=f"{kind}.type", message=f"expected {expected}, send the {kind} as {expected}")


def check_characters(kind: str, text: str) -> NotCanonical | None:
    """Refuse what no name of any kind may hold; `None` if there is nothing to refuse.

    C0 and C1 controls and DEL split headers, end C strings and move cursors. A lone surrogate has
    no UTF-8 form, so two readers would not see the same bytes.
    """
    if not _NO_CHARACTER.search(text):
        return None
    if _CONTROL.search(text):
        return NotCanonical(
            code=f"{kind}.control_character",
            message=f"the {kind} holds a control character, remove it",
        )
    return NotCanonical(
        code=f"{kind}.surrogate",
        message=f"the {kind} holds a lone surrogate, which is no character, remove it",
    )


def has_line_separator(text: str) -> bool:
    """Whether `text` holds U+2028 or U+2029, which some readers take for a line end."""
    return not text.isascii() and _LINE_SEPARATOR.search(text) is not None


def is_invisible(char: str) -> bool:
    """Whether nobody can see `char`: controls, format characters, private use, what fonts leave out.

    Two names that differ only in such a character look the same, and many readers drop it, so that a rule
    on one would not hold for the other. Spaces are visible here; where they may stand is the kind's to say.
    """
    return unicodedata.category(char) in _INVISIBLE_CATEGORIES or _DEFAULT_IGNORABLE.match(char) is not None


def has_invisible(text: str) -> bool:
    """Whether `text` holds a character that nobody can see."""
    return not (text.isascii() and text.isprintable()) and any(map(is_invisible, text))


def has_odd_space(text: str) -> bool:
    """Whether `text` holds white space other than U+0020."""
    return not text.isascii() and any(char != " " and unicodedata.category(char) == "Zs" for char in text)


def nfc(text: str) -> str:
    """`text` in Normalization Form C (Unicode Standard Annex #15)."""
    return text if text.isascii() else unicodedata.normalize("NFC", text)


def percent_encoded(text: str) -> str:
    """`text` as the path of a URI: RFC 3986 pchar and `/` as they are, the rest as %XX of UTF-8."""
    if _URI_PLAIN.fullmatch(text):
        return text
    return quote(text, safe=_URI_SAFE)

"""Kind `id`: `Object` of a declared type in `ObjectType` (spec section 4)."""

import re

from authz.core.canonical.spelling import (
    JsonScalar,
    check_characters,
    has_invisible,
    has_line_separator,
    has_odd_space,
    nfc,
    percent_encoded,
    wrong_type,
)
from authz.model.resource import Entity, NotCanonical, Resource

MAX_ID_CHARACTERS = 256

_OBJECT_TYPE = re.compile(r"[a-z][a-z0-9_]*")
_IBAN = re.compile(r"[A-Z]{2}[0-9]{2}[A-Z0-9]{11,30}")


def canonicalize_ident(value: JsonScalar, object_type: str | None) -> tuple[Resource, ...] | NotCanonical:
    """The object of type `object_type` that `value`, a string or an integer, names."""
    if object_type is None or not is_object_type(object_type):
        return _refused("object_type", "an id needs a declared object type such as `account`")
    if isinstance(value, bool) or not isinstance(value, str | int):
        return wrong_type("id", expected="a string or an integer")
    if isinstance(value, str):
        text = _text(value, object_type)
        if isinstance(text, NotCanonical):
            return text
    elif value.bit_length() > 4 * MAX_ID_CHARACTERS:  # also keeps clear of the limit of `str(int)`
        return _refused("too_long", f"the id is over {MAX_ID_CHARACTERS} characters")
    else:
        text = str(value)
    if object_type == "iban":
        iban = _checked_iban(text)
        if isinstance(iban, NotCanonical):
            return iban
        text = iban
    if len(text) > MAX_ID_CHARACTERS:
        return _refused("too_long", f"the id is over {MAX_ID_CHARACTERS} characters")
    entity = Entity(
        type="Object", id=f"{object_type}:{text}", attributes={"type": object_type, "value": text}
    )
    uri = f"id:{object_type}:{percent_encoded(text).replace('/', '%2F')}"
    chain = (entity, Entity(type="ObjectType", id=object_type))
    return (Resource(kind="id", uri=uri, value=text, chain=chain),)


def is_object_type(text: str) -> bool:
    """Whether `text` names a type of objects: `account`, `iban`, `purchase_order`."""
    return len(text) <= MAX_ID_CHARACTERS and _OBJECT_TYPE.fullmatch(text) is not None


def _text(value: str, object_type: str) -> str | NotCanonical:
    """`value` in NFC without white space around it.

    An id that only looks like another one is refused: `ops` with a zero-width space in it is no second
    account `ops`, but it would pass a rule on the first. No-break spaces may group an IBAN, which has none.
    """
    if len(value) > 4 * MAX_ID_CHARACTERS:
        return _refused("too_long", f"the id is over {MAX_ID_CHARACTERS} characters")
    text = nfc(value).strip()
    if refused := check_characters("id", text):
        return refused
    if has_line_separator(text):
        return _refused("control_character", "the id holds a line separator, remove it")
    if has_invisible(text):
        return _refused("invisible_character", "the id holds a character that nobody can see, remove it")
    if has_odd_space(text.replace("\u00a0", " ") if object_type == "iban" else text):
        return _refused("odd_space", "the id holds white space that is not a plain space, replace it")
    if not text:
        return _refused("empty", "the id is empty")
    return text


def _checked_iban(text: str) -> str | NotCanonical:
    """An IBAN in electronic form (ISO 13616), its check digits verified (ISO 7064 MOD 97-10).

    00, 01 and 99 pass the division like 97, 98 and 02, and would be second spellings.
    """
    iban = text.replace(" ", "").replace("\u00a0", "").upper()
    if not _IBAN.fullmatch(iban):
        return _refused("iban_format", "an iban is two letters, two digits and 11 to 30 more characters")
    digits = "".join(str(int(char, 36)) for char in iban[4:] + iban[:4])
    if int(digits) % 97 != 1 or not 2 <= int(iban[2:4]) <= 98:
        return _refused("iban_check_digits", "the check digits of the iban are wrong")
    return iban


def _refused(code: str, message: str) -> NotCanonical:
    return NotCanonical(code=f"id.{code}", message=message)

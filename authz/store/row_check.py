"""Texts and numbers that every store takes, and reads back as they were."""

from typing import Final

LAST_INTEGER: Final = 2**63 - 1


def check_texts(*texts: str) -> None:
    """Raise `ValueError` for a text that no store could take."""
    joined = "".join(texts)
    joined.encode("utf-8")
    # No text of PostgreSQL holds it, and every store takes the same.
    if "\0" in joined:
        raise ValueError("a text must not hold a NUL character")


def check_numbers(*numbers: int) -> None:
    """Raise `ValueError` for a number that does not fit, or is none."""
    # A sum of two must fit, too.
    if not all(type(number) is int and 0 <= number <= LAST_INTEGER // 4 for number in numbers):
        raise ValueError("a number does not fit")

"""What no store could take of a unit's people, refused before it can fail a batch that others share."""

import dataclasses
from collections.abc import Iterator
from enum import Enum
from typing import Any, Final

from authz.ports import CommitUnit

MAX_WRITES: Final = 64
_LAST: Final = 2**61


def check_accounts(unit: CommitUnit) -> None:
    """Raise `ValueError` or `TypeError` for texts and numbers that do not fit, and for another tenant's.

    People are written at once and last: a unit that also decides an operation or an approval could be refused
    after that.
    """
    if len(unit.accounts) > MAX_WRITES:
        raise ValueError("more than one unit may change")
    if unit.operation is not None or unit.reservations or unit.asks or unit.consumes or unit.moves:
        raise ValueError("people and operations are not written in one unit")
    for write in unit.accounts:
        for name, value in _leaves(write):
            if isinstance(value, str):
                value.encode("utf-8")
                if "\0" in value:
                    raise ValueError("a text must not hold a NUL character")
                if name == "tenant" and value != unit.event.tenant:
                    raise ValueError("a person of another tenant")
            elif type(value) is int and not 0 <= value <= _LAST:
                raise ValueError("a number does not fit")
    roles = [write.account.roles for write in unit.accounts if hasattr(write, "account")]
    if any("," in role for each in roles for role in each):
        raise ValueError("a role that would be read as two")


def _leaves(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    if dataclasses.is_dataclass(value):
        for field in dataclasses.fields(value):
            yield from _leaves(getattr(value, field.name), field.name)
    elif isinstance(value, frozenset):
        for each in value:
            yield from _leaves(each, name)
    else:
        yield name, value.value if isinstance(value, Enum) else value

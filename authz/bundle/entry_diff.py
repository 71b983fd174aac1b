"""How two JSON values differ, place by place, for people to read."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final, Literal

from authz.core.pointer import Tokens, format_pointer

MAX_DIFFERENCES: Final = 200
MAX_SHOWN: Final = 400


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One place that differs. `old` and `new` are JSON, cut where they are long; `None` where absent."""

    pointer: str
    kind: Literal["added", "removed", "changed"]
    old: str | None
    new: str | None


def differences(old: Any, new: Any) -> list[Difference]:
    """At most `MAX_DIFFERENCES` of them, in the order of the newer value."""
    return list(islice(_walk(old, new, ()), MAX_DIFFERENCES))


def _walk(old: Any, new: Any, tokens: Tokens) -> Iterator[Difference]:
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        for name in dict.fromkeys((*new, *old)):
            place = (*tokens, name)
            if name not in old:
                yield Difference(pointer=format_pointer(place), kind="added", old=None, new=_shown(new[name]))
            elif name not in new:
                yield Difference(
                    pointer=format_pointer(place), kind="removed", old=_shown(old[name]), new=None
                )
            else:
                yield from _walk(old[name], new[name], place)
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for index, (before, after) in enumerate(zip(old, new, strict=True)):
            yield from _walk(before, after, (*tokens, str(index)))
    elif old != new or isinstance(old, bool) != isinstance(new, bool):
        # JSON's `true` is not its `1`, though Python's is.
        yield Difference(pointer=format_pointer(tokens), kind="changed", old=_shown(old), new=_shown(new))


def _shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= MAX_SHOWN else text[: MAX_SHOWN - 1] + "…"

"""Where an argument's value came from, found mechanically as a runtime can: by comparing values.

1. Values are compared with structured results, never with a rendering of them, after normalization (NFKC,
   case, white space, edge punctuation, URL scheme, numbers) and at word boundaries.
2. `user` when the value stands whole in the prompt, else `tool_result`, else `model`.
3. A result field that its platform asserts vouches for a value only when the two are equal as a whole; a
   piece of a longer text is content, whoever stores it.
4. What a changing tool echoes of its own arguments is no source: else a call would launder the next one.
5. Values of one or two characters prove little. A handle (target or destination) that short is never the
   user's, since `5` stands in any text; anything else that short is vouched for by no field, since an amount
   of 5 is not the transaction numbered 5.
"""

import re
import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from pydantic import BaseModel
from pydantic_core import to_jsonable_python

from authz.core.pointer import Tokens, format_pointer, leaves, matches, parse_pointer
from authz.core.ruleset import Tool
from authz.core.tools import READING
from authz.model.tool import ReturnSpec, Role, Trust

MAX_SHORT: Final = 2
HANDLES: Final = frozenset({Role.TARGET.value, Role.DESTINATION.value})

_NUMBER = re.compile(r"(?<![\w.,])-?\d+(?:\.\d+)?(?!\w|[.,]\d)")
_SCHEME = re.compile(r"\bhttps?://")
_EDGES: Final = " \t'\"`.,;:!?()[]{}<>*_-"
# A mailbox or a host that is the end or the beginning of a longer one is another one.
_BEFORE: Final = r"(?<![\w@+/-])(?<!\w[.])"
_AFTER: Final = r"(?![\w@+/-]|[.]\w)"


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenLeaf:
    """One value of a tool result: where it stands, and whether its field is reviewed as trusted."""

    value: Any
    tool: str
    field: str
    """JSON Pointer into the result."""
    turn: str
    call: str
    trusted: bool


def label(value: Any, *, role: str, prompt: str, seen: list[SeenLeaf]) -> dict[str, str]:
    """The provenance claim of one argument leaf, as it goes on the wire."""
    wanted = normal(value)
    is_short = len(wanted) <= MAX_SHORT
    may_be_user = not (is_short and (role in HANDLES or isinstance(value, str)))
    if may_be_user and _stands_in(value, wanted, prompt):
        return {"source": "user"}
    whole = [leaf for leaf in seen if _equal(value, wanted, leaf.value)]
    # A value that some platform asserts is vouched for, whoever else repeats it.
    vouching = [leaf for leaf in whole if leaf.trusted and (role in HANDLES or not is_short)]
    if vouching:
        return _from_result(vouching[0], "trusted")
    holding = whole or [
        leaf
        for leaf in seen
        if not is_short and isinstance(leaf.value, str) and _stands_in(value, wanted, leaf.value)
    ]
    if holding:
        return _from_result(holding[0], "untrusted")
    return {"source": "model"}


def _from_result(leaf: SeenLeaf, trust: str) -> dict[str, str]:
    return {
        "source": "tool_result",
        "uri": f"result:{leaf.tool}/{leaf.turn}#{leaf.field}",
        "call": leaf.call,
        "tool": leaf.tool,
        "field": leaf.field,
        "trust": trust,
    }


def seen_in(result: Any, tool: Tool, arguments: Mapping[str, Any], call: str, turn: str) -> list[SeenLeaf]:
    """The leaves of a tool's result that may be the source of later values."""
    changes = any(spec.verb not in READING for spec in tool.descriptor.accesses)
    sent = [normal(value) for _, value in leaves(arguments) if isinstance(value, str)] if changes else []
    found = []
    for tokens, value in _result_leaves(result, ()):
        text = normal(value)
        if any(len(piece) > MAX_SHORT and piece in text for piece in sent):
            continue
        found.append(
            SeenLeaf(
                value=value,
                tool=tool.descriptor.qualified_name,
                field=format_pointer(tokens),
                turn=turn,
                call=call,
                trusted=_trust_of(tool.descriptor.returns, tokens) is Trust.TRUSTED,
            )
        )
    return found


def normal(value: Any) -> str:
    """A value as it is compared."""
    if isinstance(value, bool) or value is None:
        return str(value).lower()
    if isinstance(value, int | float):
        return f"{value:g}"
    text = unicodedata.normalize("NFKC", str(value)).casefold()
    return " ".join(_SCHEME.sub("", text).split()).strip(_EDGES)


def _equal(value: Any, wanted: str, other: Any) -> bool:
    if _is_number(value) and _is_number(other):
        return float(value) == float(other)
    return _is_number(value) == _is_number(other) and wanted != "" and wanted == normal(other)


def _stands_in(value: Any, wanted: str, text: str) -> bool:
    """True when the value stands in `text` as a word or words of its own."""
    if _is_number(value):
        return any(float(found) == float(value) for found in _NUMBER.findall(text))
    if not isinstance(value, str) or not wanted:
        return False
    return re.search(_BEFORE + re.escape(wanted) + _AFTER, normal(text)) is not None


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _result_leaves(value: Any, tokens: Tokens, *, in_model: bool = False) -> Iterator[tuple[Tokens, Any]]:
    """Scalars of a result with their pointers. The keys of a map are values as well: `shared_with`."""
    if isinstance(value, BaseModel):
        for name in type(value).model_fields:
            yield from _result_leaves(getattr(value, name), (*tokens, name), in_model=True)
    elif isinstance(value, Mapping):
        for name, member in value.items():
            if in_model:
                yield (*tokens, str(name)), str(name)
            yield from _result_leaves(member, (*tokens, str(name)), in_model=in_model)
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            yield from _result_leaves(item, (*tokens, str(index)), in_model=in_model)
    elif value is not None and not isinstance(value, bool):
        yield tokens, to_jsonable_python(value)


def _trust_of(returns: ReturnSpec, tokens: Tokens) -> Trust:
    """What the descriptor says of a field: the longest pattern that leads to it, else the whole."""
    patterns = ((parse_pointer(pointer), field) for pointer, field in returns.fields.items())
    fitting = [(len(pattern), field.trust) for pattern, field in patterns if matches(pattern, tokens)]
    return max(fitting, key=lambda entry: entry[0])[1] if fitting else returns.trust

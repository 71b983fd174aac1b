"""What a catalogue of tools costs a model: it reads every tool again on every turn (spec section 3).

Tokenizers differ by model, and none is shipped. The estimate is one token for every four characters of the
entry as compact JSON (name, description, input schema), rounded up: within about a fifth of what common
tokenizers make of English descriptions and schemas.
"""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from authz.core.lint.table import Hit, Lint, Severity
from authz.core.lint.tool_facts import ToolFacts

CHARACTERS_PER_TOKEN: Final = 4
MAX_TOOL_TOKENS: Final = 1_000
"""Above it, one tool takes more of a model's attention than most of a task does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogueCost:
    """Tokens of a catalogue."""

    turns: int
    tokens: tuple[tuple[str, int], ...]
    """(`server/tool`, tokens for each turn), the dearest first."""

    @property
    def per_turn(self) -> int:
        """Tokens of the whole catalogue."""
        return sum(count for _, count in self.tokens)

    @property
    def total(self) -> int:
        """Tokens over all turns."""
        return self.turns * self.per_turn


def catalogue_cost(tools: Iterable[ToolFacts], turns: int) -> CatalogueCost:
    """The cost of showing these tools on each of `turns` turns."""
    counted = sorted(((tool.name, tool_tokens(tool)) for tool in tools), key=lambda pair: (-pair[1], pair[0]))
    return CatalogueCost(turns=turns, tokens=tuple(counted))


def tool_tokens(tool: ToolFacts) -> int:
    """The estimated tokens of one entry of `tools/list`."""
    entry = {
        "name": tool.name.partition("/")[2],
        "description": tool.description,
        "inputSchema": tool.input_schema,
    }
    characters = len(json.dumps(entry, ensure_ascii=False, separators=(",", ":")))
    return -(-characters // CHARACTERS_PER_TOKEN)


def costly(tool: ToolFacts) -> Iterator[Hit]:
    """One entry of the catalogue that is very long."""
    tokens = tool_tokens(tool)
    if tokens > MAX_TOOL_TOKENS:
        yield tool.at(
            f"it takes about {tokens} tokens on every turn", "shorten its description, or split the tool"
        )


LINTS: Final = (
    Lint(
        code="tool.costly",
        severity=Severity.WARNING,
        says=f"a tool of over {MAX_TOOL_TOKENS} tokens",
        find=costly,
    ),
)

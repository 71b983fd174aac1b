"""Golden chains: lines for `authz capabilities verify` with their verdicts, shared with the other SDKs.

    python -m tests.clients.python.capabilities.golden > tests/vectors/capability_chains.json

Keys and times are fixed and Ed25519 is deterministic, so every run makes the same bytes; a test holds the
file equal to what this makes, and every verdict to what the verifier says.
"""

import json
from collections.abc import Callable
from typing import Any

from tests.clients.python.capabilities.golden_accepting import accepting
from tests.clients.python.capabilities.golden_forged import forged
from tests.clients.python.capabilities.golden_lines import Case
from tests.clients.python.capabilities.golden_refusing import refusing


def vectors() -> list[dict[str, Any]]:
    """Every case, as the file states it."""
    sources: tuple[Callable[[], list[Case]], ...] = (accepting, refusing, forged)
    return [
        {
            "id": name,
            "input": question,
            "expected": {"result": "accept" if why == "ok" else "reject", "reason": why},
        }
        for source in sources
        for name, question, why in source()
    ]


def document() -> str:
    """The file: one case a line, so that a change reads as one."""
    return "[\n" + ",\n".join(json.dumps(case, ensure_ascii=True) for case in vectors()) + "\n]\n"


if __name__ == "__main__":
    print(document(), end="")

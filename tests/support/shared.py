"""Finds the `shared` folder beside the checkout: public test vectors, which are read from there."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

SHARED = Path(__file__).resolve().parents[2].parent / "shared"


def require_shared() -> Path:
    """The folder. Without it the test is skipped, or fails where AUTHZ_REQUIRE_SHARED=1 insists on it."""
    if SHARED.is_dir():
        return SHARED
    reason = "the folder `shared` is not beside the checkout, so its public vectors were not run"
    if os.environ.get("AUTHZ_REQUIRE_SHARED") == "1":
        pytest.fail(reason)
    pytest.skip(reason)


def vectors(name: str) -> list[dict[str, Any]]:
    """The lines of one vector file; never empty, so that a loop over them proves something."""
    text = (require_shared() / "vectors" / f"{name}.jsonl").read_text(encoding="utf-8")
    # Not `splitlines`: values may hold U+2028 and the like unescaped.
    found = [json.loads(line) for line in text.split("\n") if line]
    assert found, f"no vectors in `{name}`"
    return found

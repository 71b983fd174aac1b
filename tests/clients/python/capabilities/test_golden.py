"""The golden chains: the file is what the generator makes, and each verdict is the verifier's."""

import json
from pathlib import Path
from typing import Any

import pytest
from authz_client.capabilities import Reason, check_line, explain_line

from tests.clients.python.capabilities.golden import document, vectors

FILE = Path(__file__).parents[3] / "vectors" / "capability_chains.json"
CASES: list[dict[str, Any]] = json.loads(FILE.read_text(encoding="ascii"))
ELSEWHERE = {
    # Of proofs, tickets and calls, whose tests have them.
    *(Reason.ATH_MISMATCH, Reason.REQUEST_MISMATCH, Reason.PROOF_TOO_OLD, Reason.FINGERPRINT_MISMATCH),
    *(Reason.ARGUMENTS_MISMATCH, Reason.HOLDER_MISMATCH, Reason.TICKET_CLAIM_INVALID, Reason.RIGHT_MISSING),
    *(Reason.OBJECT_OUTSIDE, Reason.CONSTRAINT_UNMET),
}


def test_the_file_is_what_the_generator_makes() -> None:
    assert FILE.read_text(encoding="ascii") == document(), (
        "run `python -m tests.clients.python.capabilities.golden > tests/vectors/capability_chains.json`"
    )


def test_every_case_has_a_name_of_its_own() -> None:
    assert len({case["id"] for case in CASES}) == len(CASES) == len(vectors())


def test_every_rule_has_a_case() -> None:
    seen = {case["expected"]["reason"] for case in CASES}
    assert seen == {code.value for code in Reason if code not in ELSEWHERE} | {"ok"}


@pytest.mark.parametrize("case", CASES, ids=[case["id"] for case in CASES])
def test_verdict(case: dict[str, Any]) -> None:
    line = json.dumps(case["input"])
    assert check_line(line) == case["expected"], explain_line(line)


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b"{}",
        b"\xff",
        b'{"chain":[],"chain":[]}',
        b"[" * 100_000,
        b" " * 2_000_000,
        "\ud800",
    ],
    ids=range(10),
)
def test_a_bad_line_is_a_reject(line: Any) -> None:
    assert check_line(line) == {"result": "reject", "reason": "line_invalid"}

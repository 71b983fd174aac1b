"""Public chains and tokens through the command itself: `authz capabilities verify`, as one stream."""

import json
from pathlib import Path

import pytest

from authz.cli.main import main
from tests.clients.python.capabilities.golden import vectors as golden
from tests.support.shared import vectors

pytestmark = pytest.mark.external


def test_verify(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    theirs = [case for name in ("delegation_chains", "jwt_attacks") for case in vectors(name)]
    refused = [case for case in theirs if case["expected"]["result"] == "reject"]
    ours = [case for case in golden() if case["expected"]["result"] == "accept"][: len(refused)]
    assert len(ours) == len(refused), "as many of our own are accepted as theirs are refused"
    cases = [*theirs, *ours]
    (tmp_path / "lines").write_text("".join(json.dumps(case["input"]) + "\n" for case in cases))
    assert main(["capabilities", "verify", str(tmp_path / "lines")]) == 0
    answers = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert len(answers) == len(cases)
    deviating = {
        case["id"]: answer
        for case, answer in zip(cases, answers, strict=True)
        if case["expected"]["result"] not in ("policy", answer["result"])
    }
    assert deviating == {}
    assert not {"line_invalid", "chain_invalid"} & {
        answer["reason"] for case, answer in zip(theirs, answers, strict=False) if case in refused
    }, "each is refused for what is wrong with it, and not as something that is no question"

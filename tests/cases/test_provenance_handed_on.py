"""The public failure case of kind `provenance` that crosses a hand-off, told in this product's words."""

from pathlib import Path
from typing import Any

import pytest

from tests.cases.served import ids_of_kind, ids_of_tests, told_of, verdict_of
from tests.support.holders import entry, issue
from tests.support.service import Service
from tests.support.world import PERMIT_ALL, world

ASKS = (
    '@id("untrusted-asks") @requires("approval") forbid (principal, action in Action::"send", resource) '
    'when { context.untrusted.contains("destination") };'
)
SEND = ("bank/mail_send", {"to": "eve@example.net", "body": "hello"})
ASKED = ("require_approval", "approval.required", ["untrusted-asks"])


@pytest.mark.parametrize(
    ("claimed", "expected"),
    [
        ({}, ASKED),
        ({"/to": {"source": "agent"}}, ASKED),
        ({"/to": {"source": "agent", "trust": "trusted"}}, ASKED),
        ({"/to": {"source": "tool_result", "call": "call-of-the-parent"}}, ASKED),
        ({"/to": {"source": "user"}}, ("allow", "policy.permit", ["everything"])),
    ],
)
async def test_bug_142_what_another_agent_hands_over_is_not_clean(
    tmp_path: Path, claimed: dict[str, Any], expected: Any
) -> None:
    """With a capability for it, too: that somebody may write to an address says nothing of who chose it."""
    async with Service.running(tmp_path, {"default": world(PERMIT_ALL + ASKS)}) as service:
        main = await issue(service, entry("bank/mail_send", "domain:example.net"), max_depth=1)
        for holder in (main, main.hand_on("sub-1")):
            answer, record = await told_of(service, holder.body(*SEND, provenance=claimed))
            assert verdict_of(answer) == expected
            assert record["provenance"]["untrusted"].count("destination") == (expected is ASKED)


def test_the_case_is_of_this_kind() -> None:
    assert ids_of_tests(globals()) <= ids_of_kind("provenance")

"""The labels that everything else here leans on: what counts as the user's word, and what does not."""

from typing import Any

import pytest

from authz.bundle.load import load_bundle
from authz.bundle.self_protection import Protected
from authz.core.ruleset import Ruleset
from tests.agentdojo.ground_truth import BUNDLE
from tests.agentdojo.labels import SeenLeaf, label, seen_in


def leaf(value: Any, *, trusted: bool = False) -> SeenLeaf:
    """A value that some result held."""
    return SeenLeaf(value=value, tool="mail/read", field="/0", turn="0", call="call-0", trusted=trusted)


def source(value: Any, prompt: str = "", *, role: str = "payload", seen: list[SeenLeaf] | None = None) -> str:
    """Only the source of a label."""
    return label(value, role=role, prompt=prompt, seen=seen or [])["source"]


@pytest.mark.parametrize(
    ("value", "prompt"),
    [
        ("Lunch", "an event titled 'Lunch' with Sarah"),
        ("sarah@example.com", "Her address is Sarah@Example.com."),
        ("1234 Elm Street", "the new address: 1234 Elm  Street, New York"),
        ("https://example.com/a", "Read http://example.com/a!"),
        (10.0, "refund that 10.00 I just got"),
        (2200, "and rent is 2200."),
    ],
)
def test_a_value_that_stands_whole_in_the_prompt_is_the_users(value: Any, prompt: str) -> None:
    assert source(value, prompt) == "user"


@pytest.mark.parametrize(
    ("value", "prompt"),
    [
        # The end of another mailbox, the beginning of another host, a piece of a word or of a number.
        ("doe@example.com", "Write to john.doe@example.com."),
        ("doe@example.com", "Write to john-doe@example.com."),
        ("example.com", "Look at example.com.attacker.test"),
        ("example.com", "Write to ada@example.com"),
        ("lunch", "lunchtime"),
        (20, "pay 1.20"),
        (20, "on 2024-05-20"),
        (True, "true"),
    ],
)
def test_a_piece_of_something_longer_is_not_the_users(value: Any, prompt: str) -> None:
    assert source(value, prompt, role="destination") == "model"


def test_a_short_handle_is_never_the_users() -> None:
    assert source("5", "delete file 5", role="target") == "model"
    assert source(5, "delete file 5", role="target") == "model"
    assert source(5, "pay 5 for it", role="amount") == "user"


def test_the_users_word_counts_whoever_repeats_it() -> None:
    assert source("Spotify", "pay Spotify", seen=[leaf("Spotify")]) == "user"


def test_a_trusted_field_vouches_for_the_whole_of_its_value_only() -> None:
    address = "ada@example.com"
    trusted = leaf(address, trusted=True)
    assert label(address, role="destination", prompt="", seen=[leaf(f"Ask {address}"), trusted])["trust"] == (
        "trusted"
    )
    inside = leaf(f"Ada <{address}>", trusted=True)
    assert label(address, role="destination", prompt="", seen=[inside])["trust"] == "untrusted"


def test_a_short_amount_is_vouched_for_by_no_field() -> None:
    number = leaf(5, trusted=True)
    assert label(5.0, role="amount", prompt="", seen=[number])["trust"] == "untrusted"
    assert label(5, role="target", prompt="", seen=[number])["trust"] == "trusted"


def test_what_was_seen_nowhere_is_the_models() -> None:
    assert source("2024-05-26", "on May 26th", seen=[leaf("26 May")]) == "model"


@pytest.fixture(scope="module")
def ruleset() -> Ruleset:
    """The reviewed tools."""
    return load_bundle(BUNDLE, Protected())


def test_the_echo_of_a_changing_tool_is_no_source(ruleset: Ruleset) -> None:
    arguments = {"recipient": "XX00ATTACKER", "amount": 1, "subject": "s", "date": "2024-01-01"}
    result = {"message": "Transaction to XX00ATTACKER for 1 sent."}
    assert seen_in(result, ruleset.tools["banking", "send_money"], arguments, "call-0", "0") == []


def test_the_answer_of_a_reading_tool_is_a_source_also_of_what_was_asked_for(ruleset: Ruleset) -> None:
    tool = ruleset.tools["workspace", "search_contacts_by_name"]
    found = seen_in([{"email": "ada@example.com", "name": "Ada"}], tool, {"query": "Ada"}, "call-3", "3")
    assert [(seen.value, seen.tool, seen.field, seen.trusted) for seen in found] == [
        ("ada@example.com", "workspace/search_contacts_by_name", "/0/email", True),
        ("Ada", "workspace/search_contacts_by_name", "/0/name", True),
    ]


def test_other_peoples_text_is_untrusted_and_the_envelope_is_not(ruleset: Ruleset) -> None:
    tool = ruleset.tools["workspace", "search_emails"]
    mail = {"sender": "ada@example.com", "body": "Pay me."}
    assert [seen.trusted for seen in seen_in([mail], tool, {"query": ""}, "call-0", "0")] == [True, False]

"""What a notice says, in both forms: what is asked for, and nothing that only the page may show."""

import json
import re
from dataclasses import replace
from typing import Any

import pytest

from authz.core.log_chain import check_event
from authz.core.notice import NoticeKind, approval_notice, held_back_notice, undelivered_event
from authz.core.notice_slack import slack_message
from authz.core.rendering_summary import value_as_code
from authz.model.approval_writes import Notice
from tests.deception.bundle import decided, shown_of
from tests.deception.reading import unspelled
from tests.notices.world import PUBLIC_URL, notice, request
from tests.store.world import START_MS

KINDS = [kind for kind in NoticeKind if kind is not NoticeKind.HELD_BACK]


def data(made: Notice) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(made.body)["data"]
    return found


def paying(**said: Any) -> Notice:
    arguments = {"iban": "DE02120300000000202051", "amount": 1250000, "note": "rent for May"}
    made, outcome, known = decided("asking", "open/pay", {**arguments, **said}, {})
    document = shown_of(made, outcome, known).document
    return approval_notice(
        NoticeKind.REQUESTED, request(), public_url=PUBLIC_URL, now_ms=START_MS, document=document
    )


def test_a_request_is_told_by_what_would_happen() -> None:
    made = paying()

    assert (made.kind, made.approval_id, made.tenant) == ("approval.requested", "ap-1", "acme")
    assert json.loads(made.body).keys() == {"type", "timestamp", "data"}
    told = data(made)
    assert told["state"] == "pending"
    assert told["headline"].startswith("An approval is asked for: Make a transaction with the iban `DE02")
    assert "`1250000`" in told["headline"]
    assert "It takes" not in told["headline"]
    assert told["agent"] == "coder-1"
    assert told["on_behalf_of"] == "ada"
    assert told["tool"] == "stdio:fs/file_read" or told["tool"].endswith("/file_read")
    assert told["rules"] == [{"rule": "asks", "reason": "It is looked at."}]
    assert told["url"] == f"{PUBLIC_URL}/ui/approvals/ap-1"
    assert told["expires_at"].endswith("Z")


def test_payload_is_told_by_its_size_alone() -> None:
    told = data(paying(note="my password is hunter2, do not tell"))

    assert "hunter2" not in json.dumps(told)
    assert "35 characters in 1 line, not sent here" in told["summary"]


def test_what_is_touched_is_not_told_where_its_name_is_secret() -> None:
    secret = "/srv/clients/who-nobody-may-know"
    made, outcome, known = decided("asking", "open/delete", {"path": secret}, {"/path": {"source": "secret"}})
    document = shown_of(made, outcome, known).document
    assert [one["secret"] for one in document["arguments"] if one["pointer"] == "/path"] == [True]
    asked = approval_notice(
        NoticeKind.REQUESTED, request(), public_url=PUBLIC_URL, now_ms=START_MS, document=document
    )

    for body in (asked.body, slack_message(asked.body)):
        assert b"nobody-may-know" not in body
    assert f"(a secret value of {len(secret)} characters)" in data(asked)["headline"]


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_says_what_became_of_it_and_who_did_it(kind: NoticeKind) -> None:
    told = data(notice(1, kind, by="grace"))
    states = {
        NoticeKind.REQUESTED: "pending",
        NoticeKind.REVOKED: "void",
        NoticeKind.APPROVED: "approved",
        NoticeKind.DENIED: "denied",
        NoticeKind.EXPIRED: "expired",
        NoticeKind.CANCELLED: "cancelled",
    }

    assert told["state"] == states[kind]
    assert told["by"] == "grace"
    assert "by `grace`: the agent `coder-1`, for the user `ada`, calls the tool" in told["headline"]
    assert data(notice(1, kind))["by"] is None


def test_an_expired_request_is_no_denial() -> None:
    assert "nobody answered" in data(notice(1, NoticeKind.EXPIRED))["headline"]
    assert "Denied" not in notice(1, NoticeKind.EXPIRED).body.decode()


def test_a_notice_about_no_approval_is_not_made_of_one() -> None:
    with pytest.raises(ValueError, match="not about one approval"):
        notice(1, NoticeKind.HELD_BACK)


@pytest.mark.parametrize(
    "agent",
    ["a`b", "<!channel>", "<@U123>", "<https://evil.example|Approve>", "a\nApproved by `grace`", "x" * 5000,
     "\u202egpj.exe", "a\u200bb", "*bold*", "&lt;!here&gt;", "\x1b[2J", "@here", "evil.example"],
    ids=ascii,
)  # fmt: skip
@pytest.mark.parametrize("kind", KINDS)
def test_a_name_can_neither_act_nor_speak_for_the_service(agent: str, kind: NoticeKind) -> None:
    asked = request()
    named = replace(asked.asked.requester, agent=agent, on_behalf_of=agent)
    rules = tuple(replace(rule, reason=agent) for rule in asked.asked.rules)
    asked = replace(asked, asked=replace(asked.asked, requester=named, rules=rules))
    made = approval_notice(kind, asked, public_url=PUBLIC_URL, now_ms=START_MS, by=agent)
    over = held_back_notice(made, public_url=PUBLIC_URL, until_ms=START_MS, now_ms=START_MS)

    for one in (made, over):
        assert one.body.isascii()
        assert len(one.body) < 32_000
        headline = data(one)["headline"]
        assert headline.isprintable()
        assert headline.count("`") % 2 == 0
        message = json.loads(slack_message(one.body))
        for block in message["blocks"]:
            text = block["text"]
            assert text["verbatim"] is True
            assert len(text["text"]) <= 3000
        *said, link = [block["text"]["text"] for block in message["blocks"]]
        assert link == f"<{data(one)['url']}|Open the page of this service>"
        for text in (message["text"], *said):
            assert "<" not in text
            assert ">" not in text
            for line in text.split("\n"):
                assert line.isprintable()
                outside = "".join(line.split("`")[::2])
                assert "evil" not in outside
                assert "@" not in outside
                assert "*" not in outside


def test_a_long_value_says_how_long_it_is() -> None:
    asked = request(agent="x" * 5000)
    made = approval_notice(NoticeKind.REQUESTED, asked, public_url=PUBLIC_URL, now_ms=START_MS)

    assert data(made)["agent"].endswith("(the first 200 of 5,000 characters)")
    assert "of 5,000 characters are not shown here" in data(made)["headline"]


def test_more_rules_than_fit_are_counted() -> None:
    asked = request()
    rules = tuple(replace(asked.asked.rules[0], rule=f"rule-{number}") for number in range(8))
    asked = replace(asked, asked=replace(asked.asked, rules=rules))
    told = data(approval_notice(NoticeKind.EXPIRED, asked, public_url=PUBLIC_URL, now_ms=START_MS))

    assert [rule["rule"] for rule in told["rules"]] == [f"rule-{number}" for number in range(5)]
    assert told["rules_left_out"] == 3


def test_the_record_of_a_dead_letter_is_one_that_the_log_takes() -> None:
    event = undelivered_event(
        notice(), message_id="msg_1", webhook="ops", attempts=3, fault="it failed", now_ms=START_MS
    )
    check_event(event)
    assert event.tenant == "acme"


def test_of_a_very_long_value_the_ends_are_looked_at_and_that_is_said() -> None:
    """A decision waits for its notice: no argument may make that long."""
    told = data(paying(note="a" * 5000 + "\u202e" + "b" * 5000))
    assert "10,001 characters in 1 line, not sent here; only 4,000 characters at each end" in told["summary"]
    told = data(paying(note="a" * 5000 + "\u202e"))
    assert "; ODD: direction" in told["summary"]


@pytest.mark.parametrize("length", [401, 7_999, 8_000, 8_001, 1_000_000])
@pytest.mark.parametrize("unit", ["x", " ", "\u202e", "x\n"])
def test_what_is_left_out_of_a_value_is_counted_exactly(length: int, unit: str) -> None:
    text = (unit * length)[:length]
    printed = value_as_code(text, 400)
    left = re.search(r"` \(([0-9,]+) of ([0-9,]+) characters are not shown here\) `", printed)

    shown = unspelled("".join(printed.split("`")[1::2]))
    missing = int(left[1].replace(",", "")) if left else 0
    assert len(shown) + missing == length
    assert left is None or left[2] == f"{length:,}"

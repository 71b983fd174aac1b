"""Calls that try to deceive their approver, told outside: as JSON and as a message of Slack."""

import html
import json
import re
from typing import Any

import pytest

from authz.core.canonical.spelling import is_invisible
from authz.core.notice import NoticeKind, approval_notice
from authz.core.notice_slack import slack_message
from tests.deception.corpus import document_of, each, request_of

PUBLIC_URL = "https://authz.example"
PAGE = f"{PUBLIC_URL}/ui/approvals/{'0' * 32}"
BARE_KINDS = [NoticeKind.DENIED, NoticeKind.REVOKED]


def body_of(entry: dict[str, Any], kind: NoticeKind = NoticeKind.REQUESTED) -> bytes:
    document = document_of(entry) if kind is NoticeKind.REQUESTED else None
    made = approval_notice(
        kind, request_of(entry), public_url=PUBLIC_URL, now_ms=1_800_000_000_000, document=document
    )
    return made.body


def texts(value: Any) -> list[str]:
    if isinstance(value, dict):
        return [text for member in value.values() for text in texts(member)]
    if isinstance(value, list):
        return [text for item in value for text in texts(item)]
    return [value] if isinstance(value, str) else []


def slack_texts(body: bytes) -> list[str]:
    message = json.loads(slack_message(body))
    return [message["text"], *(block["text"]["text"] for block in message["blocks"])]


@each
def test_the_json_says_what_the_summary_must(entry: dict[str, Any]) -> None:
    data = json.loads(body_of(entry))["data"]

    # As it is escaped for Slack, so that one list of the corpus serves for both.
    said = html.escape(data["summary"], quote=False)
    assert [part for part in entry["summary"]["has"] if part not in said] == []
    assert [part for part in entry["summary"]["lacks"] if part in said] == []
    assert "see the page before you decide" in data["summary"]
    assert data["url"] == PAGE


@each
def test_slack_says_what_the_summary_must(entry: dict[str, Any]) -> None:
    # The last one is the link to the page, which is this service's.
    said = "\n".join(slack_texts(body_of(entry))[:-1])

    assert [part for part in entry["summary"]["has"] if part not in said] == []
    assert [part for part in entry["summary"]["lacks"] if part in said] == []


@each
@pytest.mark.parametrize("kind", [NoticeKind.REQUESTED, *BARE_KINDS])
def test_nothing_in_the_json_acts_on_whoever_prints_it(entry: dict[str, Any], kind: NoticeKind) -> None:
    body = body_of(entry, kind)

    assert body.isascii()
    assert len(body) < 32_000
    for text in texts(json.loads(body)):
        assert [char for char in text if is_invisible(char) and char != "\n"] == []
    data = json.loads(body)["data"]
    assert "\n" not in data["headline"]
    # A line of the summary begins with this service's own words, and values stand as code in it.
    for line in [data["headline"], *data["summary"].split("\n")]:
        assert line.count("`") % 2 == 0
        outside = "".join(line.split("`")[::2])
        assert "://" not in outside
        assert "@" not in outside


@each
@pytest.mark.parametrize("kind", [NoticeKind.REQUESTED, *BARE_KINDS])
def test_slack_links_mentions_and_formats_nothing_of_it(entry: dict[str, Any], kind: NoticeKind) -> None:
    body = body_of(entry, kind)
    message = json.loads(slack_message(body))

    assert (message["mrkdwn"], message["link_names"], message["unfurl_links"]) == (False, False, False)
    assert {block["text"]["verbatim"] for block in message["blocks"]} == {True}
    *said, link = slack_texts(body)
    assert link == f"<{PAGE}|Open the page of this service>"
    for text in said:
        assert 0 < len(text) <= 3000
        assert "<" not in text
        assert ">" not in text
        assert re.sub(r"&(?:amp|lt|gt);", "", text).count("&") == 0
        for line in text.split("\n"):
            outside = "".join(line.split("`")[::2])
            assert re.search(r"[*~]|://|@|:[a-z_]+:|&[lg]t;", outside) is None, outside


@each
def test_what_is_in_the_clear_on_the_page_alone_is_in_no_notice(entry: dict[str, Any]) -> None:
    kept = [
        argument["value"]
        for argument in document_of(entry)["arguments"]
        if argument["role"] in ("payload", "credential", "undeclared") and isinstance(argument["value"], str)
    ]
    # What is as short, or says what other parts of the call say as well, tells nothing.
    elsewhere = json.dumps({**document_of(entry), "arguments": []}, ensure_ascii=False)
    told = body_of(entry).decode()

    for value in kept:
        if len(value) > 12 and value not in elsewhere:
            assert json.dumps(value)[1:-1] not in told

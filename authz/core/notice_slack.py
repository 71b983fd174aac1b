"""A notice as a message that Slack's incoming webhooks take.

Slack reads `&`, `<` and `>` as its own and links what looks like a link. So all text is escaped, values stand
as code, blocks are verbatim (only what is written as a link or a mention is one), and the one link is
that to this service's page.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from authz.core.notice import NoticeKind, in_code

MAX_SECTION: Final = 3000
"""Characters of one section's text, by Slack's limit."""
_ESCAPES: Final = (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"))


def slack_message(body: bytes) -> bytes:
    """The message for the body of a notice."""
    envelope = json.loads(body)
    data: Mapping[str, Any] = envelope["data"]
    headline = slack_escaped(data["headline"])
    told = [headline, *_details(NoticeKind(envelope["type"]), data), _link(data["url"])]
    message = {
        # What a phone shows before the message is opened.
        "text": headline,
        "mrkdwn": False,
        "link_names": False,
        "unfurl_links": False,
        "unfurl_media": False,
        "blocks": [
            {"type": "section", "text": {"type": "mrkdwn", "text": text, "verbatim": True}}
            for text in told
            if text
        ],
    }
    return json.dumps(message, ensure_ascii=True, separators=(",", ":")).encode()


def slack_escaped(text: str) -> str:
    """As Slack asks for what is not meant for it."""
    for char, spelled in _ESCAPES:
        text = text.replace(char, spelled)
    return text


def _details(kind: NoticeKind, data: Mapping[str, Any]) -> Iterator[str]:
    if kind is NoticeKind.HELD_BACK:
        return
    if data["summary"]:
        # It begins with a line that the headline has said already.
        yield slack_escaped(data["summary"].partition("\n")[2])
    else:
        rules = [f"Rule `{in_code(one['rule'])}`" for one in data["rules"]]
        if data["rules_left_out"]:
            rules.append(f"and {data['rules_left_out']} more rules")
        yield slack_escaped("\n".join(rules))
    yield f"Approval `{in_code(data['approval_id'])}`, to be answered until {data['expires_at']}."


def _link(url: str) -> str:
    return f"<{slack_escaped(url).replace('|', '%7C')}|Open the page of this service>"

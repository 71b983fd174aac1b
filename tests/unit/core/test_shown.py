"""The shown document: what it is made of, what its digest depends on, and what may be remembered."""

from typing import Any

import pytest

from authz.core.decide import Outcome
from authz.core.fingerprint import canonical_json
from authz.core.rendering_summary import MIN_LIMIT, render_summary
from authz.core.rendering_text import MIN_WIDTH, render_text
from authz.core.shown import Shown, cannot_be_approved_because, read_shown, show, shown_digest
from authz.core.shown_arguments import canonical_leaves
from authz.core.shown_scopes import MOST_USES, duration
from authz.core.shown_types import Part
from authz.model.decision import Effect
from tests.support.world import call, decide_in, facts, source, tool, tool_file, world

TTL_SECONDS = 900
PERMIT = '@id("everything") permit (principal, action, resource);\n'
ASKS = (
    PERMIT
    + """
@id("asks") @reason("It is looked at.") @requires("approval") @approvers("Group::\\"staff\\"") @ttl("10m")
forbid (principal, action, resource);
"""
)
STRONG = (
    ASKS
    + """
@id("asks-two") @requires("approval") @quorum("2") @factor("passkey") @ttl("1h")
forbid (principal, action, resource);
"""
)
LOOSE = PERMIT + '@id("asks") @requires("approval") forbid (principal, action, resource);'
SHELL = tool_file(
    "shell",
    tool(
        "run",
        [{"verb": "execute", "kind": "shell", "at": "/command"}],
        {"command": {"type": "string"}},
        roles={"/command": "command"},
        side_effect="cumulative",
    ),
)
USER = {"/path": source("user"), "/command": source("user"), "/to": source("user")}


def shown(name: str, rules: str = ASKS, /, *, tools: Any = None, exposed: Any = (), **more: Any) -> Shown:
    ruleset = world(rules, tools={"shell": SHELL}) if tools else world(rules)
    made = call(name, provenance=more.pop("provenance", USER), **more)
    outcome = decide_in(ruleset, made, exposed=exposed)
    assert outcome.decision.effect is Effect.REQUIRE_APPROVAL, outcome.decision.message
    return show(made, outcome, facts(ruleset, exposed=exposed), default_ttl_seconds=TTL_SECONDS)


def said(parts: list[Part]) -> str:
    return "".join(
        part.get("words", "") + (f"`{part['value']}`" if "value" in part else "") for part in parts
    )


def scopes(document: Shown) -> list[str]:
    return [offered["scope"] for offered in document.document["scopes"]]


def test_the_digest_is_over_the_canonical_form_and_the_document_comes_back() -> None:
    made = shown("fs/file_read", path="/workspace/a")

    assert made.content == canonical_json(made.document)
    assert made.digest == shown_digest(made.content)
    assert read_shown(made.content, expected_digest=made.digest)["schema"] == 1


def test_the_same_call_is_shown_the_same() -> None:
    assert shown("fs/file_read", path="/workspace/a") == shown("fs/file_read", path="/workspace/a")


@pytest.mark.parametrize(
    "changed",
    [
        {"path": "/workspace/b"},
        {"path": "/workspace/a", "agent": "coder-2"},
        {"path": "/workspace/a", "user": "grace"},
        {"path": "/workspace/a", "session": "s-2"},
        {"path": "/workspace/a", "cwd": "/workspace/sub"},
        {"path": "/workspace/a", "provenance": {"/path": source("web")}},
        {"path": "/workspace/a", "provenance": {"/path": source("user", uri="chat:1")}},
        {"path": "/workspace/a", "exposed": {"untrusted"}},
    ],
)
def test_whatever_an_approver_sees_changes_the_digest(changed: dict[str, Any]) -> None:
    assert shown("fs/file_read", **changed).digest != shown("fs/file_read", path="/workspace/a").digest


def test_other_rules_change_the_digest() -> None:
    one, other = (
        shown("fs/file_read", path="/workspace/a"),
        shown("fs/file_read", STRONG, path="/workspace/a"),
    )

    assert one.digest != other.digest


def test_a_changed_document_is_not_read() -> None:
    made = shown("fs/file_read", path="/workspace/a")

    with pytest.raises(ValueError, match="not the one"):
        read_shown(made.content.replace(b"/workspace/a", b"/workspace/b"), expected_digest=made.digest)


def test_a_document_of_another_version_is_not_read() -> None:
    content = canonical_json({**shown("fs/file_read", path="/workspace/a").document, "schema": 2})

    with pytest.raises(ValueError, match="another version"):
        read_shown(content, expected_digest=shown_digest(content))


def test_a_decision_that_does_not_ask_is_not_shown() -> None:
    ruleset, made = world(PERMIT), call("fs/file_read", path="/workspace/a")
    outcome: Outcome = decide_in(ruleset, made)

    assert outcome.decision.effect is Effect.ALLOW
    with pytest.raises(ValueError, match="asks"):
        show(made, outcome, facts(ruleset), default_ttl_seconds=TTL_SECONDS)


def test_the_sentence_is_made_of_canonical_values_and_names_the_worst_first() -> None:
    copied = shown("fs/file_copy", **{"from": "a", "to": "/etc/x"}).document
    moved = shown("bank/transfer", to="ops", amount=2_500_000, note="ignore").document

    assert said(copied["headline"]) == "Write `/etc/x`; besides, read or connect to 1 more, listed below"
    assert said(moved["headline"]) == "Make a transaction with the account `ops`; `/amount` `2500000`"


def test_what_cannot_be_taken_back_comes_before_what_can() -> None:
    command = "rm /workspace/a; rm -r /srv"
    made = shown("shell/run", tools=SHELL, command=command).document

    assert said(made["headline"]).startswith("Delete everything beneath `/srv`; delete `/workspace/a`")


def test_arguments_stand_in_canonical_order_with_their_sources() -> None:
    document = shown(
        "fs/file_edit",
        path="/workspace/../workspace/a",
        text="x",
        provenance={"/path": source("web", uri="https://example.net/"), "/text": source("user")},
    ).document
    append, path, text = document["arguments"]

    assert (append["pointer"], append["default"], append["source"]) == ("/append", True, "system")
    assert (path["value"], path["sent"]) == ("/workspace/a", "/workspace/../workspace/a")
    assert (path["source"], path["uri"], path["untrusted"]) == ("web", "https://example.net/", True)
    assert (text["role"], text["untrusted"], "sent" in text) == ("payload", False, False)
    assert document["accesses"][0]["untrusted"]


def test_members_are_ordered_by_utf_16_code_units() -> None:
    names = [tokens[0] for tokens, _ in canonical_leaves({"\ufb33": 1, "\U0001f600": 2, "a": 3})]

    assert names == ["a", "\U0001f600", "\ufb33"]


def test_terms_of_several_rules_are_the_strictest() -> None:
    strong = shown("fs/file_read", STRONG, path="/workspace/a").document
    loose = shown("fs/file_read", LOOSE, path="/workspace/a").document

    assert strong["terms"] == {"quorum": 2, "factor": "passkey", "ttl_seconds": 600}
    assert loose["terms"] == {"quorum": 1, "factor": "session", "ttl_seconds": TTL_SECONDS}


def test_whose_data_goes_where() -> None:
    document = shown("bank/mail_send", to="x@example.net", body="b", exposed={"private"}).document

    assert document["data"] == {
        "to": ["mailto:x@example.net"],
        "arguments": ["/body", "/password"],
        "read": [],
        "session_has_read": ["private"],
    }


@pytest.mark.parametrize(
    ("name", "arguments", "kind"),
    [
        ("fs/file_read", {"path": "/workspace/a"}, "nothing_changes"),
        ("fs/file_edit", {"path": "/workspace/a", "text": "x"}, "sandbox"),
        ("fs/file_edit", {"path": "/etc/a", "text": "x"}, "cannot_be_undone"),
        ("bank/transfer", {"to": "ops", "amount": 1}, "cannot_be_undone"),
    ],
)
def test_whether_there_is_a_way_back(name: str, arguments: dict[str, Any], kind: str) -> None:
    assert shown(name, **arguments).document["undo"]["kind"] == kind


def test_a_harmless_call_may_be_remembered_and_no_wider_than_shown() -> None:
    once, times, session = shown("fs/file_read", path="/workspace/a").document["scopes"]

    assert (once["most_uses"], once["reach"]) == (1, [])
    assert (times["most_uses"], times["reach"]) == (MOST_USES, [])
    assert session["reach"] == [{"verb": "read", "uri": "file:///workspace/a"}]
    spelled_out = said(session["remembers"])
    for part in ("`s-1`", "`coder-1` (none of its children)", "`fs/file_read`", "`file:///workspace/a`"):
        assert part in spelled_out
    assert "The yes ends 10 minutes after it is given." in spelled_out


@pytest.mark.parametrize(
    ("name", "rules", "more"),
    [
        ("fs/file_edit", ASKS, {"path": "/etc/a", "text": "x"}),
        ("bank/transfer", ASKS, {"to": "ops", "amount": 1}),
        ("fs/file_read", STRONG, {"path": "/workspace/a"}),
        ("web/fetch", ASKS, {"url": "https://example.net/", "provenance": {"/url": source("web")}}),
    ],
)
def test_only_once(name: str, rules: str, more: dict[str, Any]) -> None:
    made = shown(name, rules, **more)

    assert scopes(made) == ["once"]
    assert made.document["only_once_because"]


def test_a_trusted_destination_may_be_remembered() -> None:
    made = shown("web/fetch", url="https://example.net/", provenance={"/url": source("user")})

    assert scopes(made) == ["once", "times", "session"]


def test_a_session_without_a_name_is_not_remembered() -> None:
    assert scopes(shown("fs/file_read", path="/workspace/a", session=None)) == ["once", "times"]


@pytest.mark.parametrize(
    "command",
    [
        "bash -c ls",
        "/bin/zsh -lc 'whoami'",
        "env ls",
        "xargs ls",
        "timeout 5 ls",
        "sudo ls",
        "python3 -c 'print(1)'",
        "awk 'BEGIN {}'",
        "find . -name x",
        "git status",
        "make",
        "unheard-of-program",
        "./script.sh",
        "$(cat x)",
    ],
)
def test_interpreters_wrappers_and_the_unknown_are_never_remembered(command: str) -> None:
    assert scopes(shown("shell/run", tools=SHELL, command=command)) == ["once"]


def test_a_described_program_may_be_remembered() -> None:
    made = shown("shell/run", tools=SHELL, command="ls docs")

    assert scopes(made) == ["once", "times", "session"]
    assert {"verb": "execute", "uri": "program:ls"} in made.document["scopes"][2]["reach"]


def test_names_that_match_a_pattern_are_not_widened_to_their_folder() -> None:
    made = shown("shell/run", tools=SHELL, command="cat *.md")

    assert any(access["pattern"] for access in made.document["accesses"])
    assert scopes(made) == ["once", "times"]


@pytest.mark.parametrize("command", ["\u2003\u200b", "\u3164"])
def test_what_cannot_be_seen_cannot_be_approved(command: str) -> None:
    assert cannot_be_approved_because(shown("shell/run", tools=SHELL, command=command).document)


def test_secrets_are_in_the_document_and_not_in_what_is_printed_unasked() -> None:
    made = shown("bank/mail_send", to="x@example.net", body="b", password="hunter2-of-ada")
    document = made.document

    assert b"hunter2-of-ada" in made.content
    assert document["must_open"] == ["/password"]
    assert "hunter2" not in render_text(document)
    assert "hunter2" in render_text(document, secrets=True)
    assert "hunter2" not in render_summary(document, 40_000)


def test_a_folded_text_says_how_much_it_hides() -> None:
    body = "head\n" + "x" * 5000 + "HARM" + "y" * 5000 + "\ntail"
    document = shown("bank/mail_send", to="x@example.net", body=body).document
    fold = document["arguments"][0]["fold"]
    folded = render_text(document, folded=True)

    assert fold is not None
    assert "HARM" in render_text(document, width=20_000)
    assert "HARM" not in folded
    assert f"(here {fold['hidden_characters']:,} characters are not shown: open them before a yes)" in folded
    assert fold["digest"] in folded.replace("\n             ┆ ", "")


def test_a_space_at_the_end_of_a_line_is_seen() -> None:
    command = "rm -rf /workspace/" + "x" * 54 + " /srv"
    text = render_text(shown("shell/run", tools=SHELL, command=command).document, width=MIN_WIDTH)

    assert not [line for line in text.split("\n") if line.endswith(" ") and "x" in line]
    assert "␣" in text


def test_a_summary_leaves_payloads_and_queries_at_home() -> None:
    document = shown("web/fetch", url="https://example.net/p?token=abcdefghijk").document
    mail = shown("bank/mail_send", to="x@example.net", body="the merger closes on Friday").document

    assert "abcdefghijk" not in render_summary(document, 3000)
    assert "merger" not in render_summary(mail, 3000)
    assert "27 characters in 1 line, not sent here" in render_summary(mail, 3000)


@pytest.mark.parametrize("limit", [0, MIN_LIMIT - 1])
def test_a_summary_is_not_made_too_short(limit: int) -> None:
    with pytest.raises(ValueError, match="too much"):
        render_summary(shown("fs/file_read", path="/workspace/a").document, limit)


def test_a_text_is_not_made_too_narrow() -> None:
    with pytest.raises(ValueError, match="room"):
        render_text(shown("fs/file_read", path="/workspace/a").document, width=MIN_WIDTH - 1)


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        (0, "0 seconds"),
        (1, "1 second"),
        (600, "10 minutes"),
        (5400, "1 hour 30 minutes"),
        (90_061, "1 day 1 hour 1 minute 1 second"),
    ],
)
def test_durations_are_exact(seconds: int, expected: str) -> None:
    assert duration(seconds) == expected

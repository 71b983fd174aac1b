"""Requests for approvals in a terminal: a line for each, or where one stands. Values are made visible."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from authz.core.rendering_text import render_value
from authz.core.visible_scripts import Reading

MAX_VALUE: Final = 120
"""Characters of one value; the rest is counted."""


def told(text: str, reading: Reading = Reading.NAME) -> str:
    """A value on one line, with nothing in it that could deceive; what is cut off is counted."""
    more = len(text) - MAX_VALUE
    shown = render_value(text[:MAX_VALUE], reading)
    return f"{shown} ({more:,} more characters)" if more > 0 else shown


def line(approval: Mapping[str, Any]) -> str:
    """One request of a list. What others chose stands behind what this service says."""
    subject = approval["subject"]
    user = subject.get("on_behalf_of")
    rules = ", ".join(told(rule["rule"]) for rule in approval["asked_by"])
    return "  ".join(
        (
            approval["id"],
            f"{approval['state']:<9}",
            f"until {approval['expires_at']}",
            approval["authority"],
            told(subject["agent"]) + (f" for {told(user)}" if user is not None else " for nobody"),
            told(approval["tool"]),
            rules or "(asked for by the caller itself)",
        )
    )


def standing_lines(approval: Mapping[str, Any]) -> Iterator[str]:
    """Where one request stands. Every line begins with this service's own word."""
    yield f"approval   {approval['id']}"
    yield f"state      {approval['state']}"
    yield f"asked      {approval['created_at']}"
    yield f"until      {approval['expires_at']}"
    subject = approval["subject"]
    yield f"agent      {told(subject['agent'])}"
    yield f"for        {told(subject['on_behalf_of']) if subject.get('on_behalf_of') else '(nobody)'}"
    yield f"tool       {told(approval['tool'])}"
    for rule in approval["asked_by"]:
        yield f"rule       {told(rule['rule'])}"
        if rule["reason"]:
            yield f"because    {told(rule['reason'], Reading.TEXT)}"
    for vote in approval.get("votes", ()):
        yield f"yes of     {told(vote['person'])}, by {vote['factor']}, {scope_words(vote)}, {vote['at']}"
    for rule in approval["unmet"]:
        yield f"wants more {told(rule)}"
    if (grant := approval.get("grant")) is not None:
        left = f", {grant['uses_left']} left" if "uses_left" in grant else ""
        yield f"permits    {scope_words(grant)}{left}, until {grant['expires_at']}"
    if (denial := approval.get("denial")) is not None:
        yield f"no of      {told(denial.get('person', '(a person)'))}, {denial['at']}"
        if denial["reason"]:
            yield f"saying     {told(denial['reason'], Reading.TEXT)}"
    yield f"page       {approval['url']}"


def scope_words(scope: Mapping[str, Any]) -> str:
    """`once`, `3 times`, `for the session`."""
    if scope["scope"] == "times":
        return f"{scope['uses']} times"
    return "for the session" if scope["scope"] == "session" else "once"

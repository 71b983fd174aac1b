"""What the review of a tool left open (spec section 3)."""

from collections.abc import Iterator
from typing import Final

from authz.core.lint.table import Hit, Lint, Severity
from authz.core.lint.tool_facts import ToolFacts


def authority_below(tool: ToolFacts) -> Iterator[Hit]:
    """A person can raise the authority of an access, never lower it: less than derived is not in force."""
    for index, access in enumerate(tool.accesses):
        if access.declared is not None and access.derived is not None and access.declared < access.derived:
            yield tool.at(
                f"it declares {access.declared.name} for `{access.verb}`, and at least {access.derived.name} "
                "is derived",
                f"write `authority: {access.derived.name}` or leave it out",
                ("accesses", index, "authority"),
            )


def no_settlement(tool: ToolFacts) -> Iterator[Hit]:
    """After an interruption nobody can tell whether it happened, and sending it again could do it twice."""
    if tool.side_effect == "cumulative" and not (tool.has_idempotency_key or tool.has_probe):
        yield tool.at(
            "what it does adds up, and nothing tells whether an interrupted call took effect",
            "add `settlement:` with `idempotency_key_at` or a `probe`",
            ("side_effect",),
        )


def no_retention(tool: ToolFacts) -> Iterator[Hit]:
    """A key past its retention is a new call to the endpoint, so how long it remembers must be known."""
    if tool.has_idempotency_key and not tool.has_retention:
        yield tool.at(
            "it does not say how long the endpoint remembers an idempotency key",
            "add `retention_seconds` to `settlement`",
            ("settlement",),
        )


def unreviewed(tool: ToolFacts) -> Iterator[Hit]:
    """A draft: A3 whatever it does, until somebody has looked at it."""
    if not tool.reviewed:
        yield tool.at(
            "it is a draft that nobody has reviewed, so everything it does counts as A3",
            "review it and delete `reviewed: false`",
            ("reviewed",),
        )


LINTS: Final = (
    Lint(
        code="tool.authority-below",
        severity=Severity.WARNING,
        says="a declared authority below the derived one",
        find=authority_below,
    ),
    Lint(
        code="tool.no-settlement",
        severity=Severity.WARNING,
        says="a cumulative tool without idempotency key or probe",
        find=no_settlement,
    ),
    Lint(
        code="tool.no-retention",
        severity=Severity.WARNING,
        says="an idempotency key without `retention_seconds`",
        find=no_retention,
    ),
    Lint(
        code="tool.unreviewed",
        severity=Severity.INFO,
        says="a draft that nobody has reviewed",
        find=unreviewed,
    ),
)

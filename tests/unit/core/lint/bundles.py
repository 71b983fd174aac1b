"""Bundles of a few lines, checked: what `authz check` finds in them."""

from collections.abc import Mapping
from typing import Any

from authz.bundle.check import Report, check_files
from authz.errors import BundleProblem
from tests.support.world import bundle_files

ALLOWED = '@id("ok") @reason("r") permit (principal, action in Action::"read", resource is File);'


def check(
    rules: str | Mapping[str, str] = ALLOWED,
    *,
    tests: str | None = None,
    with_tools: bool = False,
    schema: str | None = None,
    **parts: Any,
) -> Report:
    """What is found in such a bundle, with all infos; the tools of the default world are not linted."""
    files = bundle_files(rules=rules, **parts)
    if tests is not None:
        files["tests/main.yaml"] = tests.encode()
    if schema is not None:
        files["schema.cedarschema"] = schema.encode()
    return check_files(files, with_tools=with_tools)


def found(report: Report, code: str) -> list[BundleProblem]:
    """Its findings of one code."""
    return [finding for finding in report.findings if finding.code == code]


def codes(report: Report) -> set[str]:
    """The codes of its errors and warnings."""
    return {finding.code for finding in report.findings if finding.severity != "info"}

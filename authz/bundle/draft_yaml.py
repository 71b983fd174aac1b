"""A draft as YAML for people: stable order, comments where something was guessed, nothing that hides.

What a server wrote can hold anything. It goes through the YAML emitter, with escapes for what cannot be
seen; comments are ASCII on one line. `read_back` reads the text as the loader will and refuses a difference.
"""

import io
import json
import re
import textwrap
from collections.abc import Mapping
from typing import Any, Final

import yaml

from authz.bundle.drafts import UNREVIEWED_KIND, Draft, NoDraft
from authz.bundle.yaml_source import YamlDocument, load_yaml
from authz.core.policy_text import invisible_characters
from authz.errors import BundleError

WIDTH: Final = 110
MAX_DESCRIPTION: Final = 1500
MAX_COMMENT: Final = 600
GUESSED: Final = "# guessed: review"


class _Dumper(yaml.SafeDumper):
    """Quotes what the bundle's reader would take for something else than text."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


# The reader takes `1.5e5` for a number, which YAML 1.1 does not.
_Dumper.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"^-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)(?:[eE][-+]?[0-9]+)?$"),
    list("-0123456789"),
)


def server_text(
    *, alias: str, identity: str, profiles: list[str], server_name: str, command: list[str] | None
) -> str:
    """The head of a new file: who the server is, and nobody who may use it unless somebody was named."""
    section: dict[str, Any] = {"alias": alias, "identity": identity, "local": False, "profiles": profiles}
    lines = [
        "# Drafted by `authz tools import`; the server calls itself "
        + _comment(server_name or "nothing")
        + ".",
        "# Every tool is at A3 and asks a person until its draft is reviewed: correct what is marked as",
        "# guessed, replace the access of kind `unreviewed` by what the tool really touches, then delete",
        "# `reviewed: false`.",
        "server:",
        *textwrap.indent(_dump(section), "  ").splitlines(),
    ]
    if command is not None:
        lines.append("  # started as " + _comment(json.dumps(command)))
    if not profiles:
        lines.append("  # Nobody may use the server until `profiles` names credential profiles.")
    return "\n".join([*lines, "tools:"]) + "\n"


def rendered(draft: Draft, alias: str, *, indent: int) -> str:
    """One item of `tools:`, with a line end behind it. Whether it says what it should, `read_back` tells."""
    text = textwrap.indent("\n".join(_lines(draft, alias)), "  ")
    return textwrap.indent("- " + text[2:] + "\n", " " * indent)


def _lines(draft: Draft, alias: str) -> list[str]:
    lines = [
        *_dump({"name": draft.name}).splitlines(),
        "reviewed: false",
        *_dump({"description": _description(draft.description)}).splitlines(),
        f"advertised_digest: {draft.digest}",
    ]
    if draft.annotations:
        lines.append(f"# the server's hints, not believed: {_comment(json.dumps(draft.annotations))}")
    lines += ["input_schema:", *textwrap.indent(_dump(draft.schema), "  ").splitlines()]
    lines += [f"# to correct: {_comment(correction)}" for correction in draft.corrections]
    lines += [f"# to close: {_comment(closing)}" for closing in draft.closings]
    if draft.roles:
        lines.append(f"roles:  {GUESSED}")
        lines += ["  " + line for line in _dump(dict(draft.roles)).splitlines()]
    lines.append("accesses:")
    for access in draft.accesses:
        members: dict[str, Any] = {"verb": access.verb, "kind": access.kind, "at": access.at}
        if access.tree:
            members["scope"] = "tree"
        lines.append(f"  - {_flow(members)}  {GUESSED}")
    unknown = {"verb": "execute", "kind": UNREVIEWED_KIND, "resource": f"{alias}/{draft.name}"}
    lines.append(f"  - {_flow(unknown)}  # not yet known: replace")
    return [
        *lines,
        f"side_effect: cumulative  {GUESSED}",
        "returns: {trust: untrusted}",
    ]


def _description(text: str) -> str:
    if not text.strip():
        return "(the server says nothing about it)"
    return (
        text if len(text) <= MAX_DESCRIPTION else text[:MAX_DESCRIPTION].rstrip() + " … (cut by the import)"
    )


def _dump(value: Mapping[str, Any]) -> str:
    """Innermost collections in flow style, everything around them in block style."""
    node: Any = _Dumper(io.StringIO(), default_flow_style=None, sort_keys=False).represent_data(value)
    node.flow_style = False
    unicode = not invisible_characters(json.dumps(value, ensure_ascii=False))
    text: str = yaml.serialize(node, Dumper=_Dumper, allow_unicode=unicode, width=WIDTH)
    return text


def _flow(members: Mapping[str, Any]) -> str:
    return yaml.dump(
        members, Dumper=_Dumper, sort_keys=False, default_flow_style=True, width=100_000, allow_unicode=False
    ).strip()


def _comment(text: str) -> str:
    """`text` as the rest of a comment line: ASCII, so that nothing in it can end or hide the line."""
    escaped = ascii(text)[1:-1]
    return escaped if len(escaped) <= MAX_COMMENT else escaped[: MAX_COMMENT - 1] + "..."


def read_back(text: str, draft: Draft) -> YamlDocument:
    """A file of `tools:` with this one item, as the loader reads it. Raises `NoDraft` where that is not what
    the draft says.
    """
    try:
        document = load_yaml("draft", ("tools:\n" + text).encode())
    except BundleError as error:
        raise NoDraft(f"it cannot be written as YAML: {error.problems[0].message}") from None
    found = document.value["tools"]
    tool = found[0] if isinstance(found, list) and len(found) == 1 else {}
    wanted = {
        "name": draft.name,
        "reviewed": False,
        "advertised_digest": draft.digest,
        "input_schema": draft.schema,
        "roles": dict(draft.roles),
    }
    for key, value in wanted.items():
        if tool.get(key, {}) != value:
            raise NoDraft(f"its `{key}` cannot be written as YAML that reads back the same")
    return document

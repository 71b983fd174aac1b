"""Cases as text: what `authz decisions show --as-test` prints."""

import re
from collections.abc import Mapping
from typing import Any

import yaml


class _Dumper(yaml.SafeDumper):
    """Writes what `authz.bundle.yaml_source` reads as the same value."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
    # Plain only where no reader could take it for anything but text; else with quotes and escapes.
    plain = re.fullmatch(r"[A-Za-z_./][A-Za-z0-9_./:@-]*(?: [A-Za-z0-9_./@-]+)*", value)
    style = None if plain and value not in ("true", "false", "null") and ": " not in value else '"'
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)


_Dumper.add_representer(str, _text)


def dump_case(case: Mapping[str, Any], comments: tuple[str, ...] = ()) -> str:
    """One entry of `cases:`, ready to paste below it. `comments` stand above, a line each."""
    text = yaml.dump(
        [dict(case)],
        Dumper=_Dumper,
        sort_keys=False,
        allow_unicode=False,
        width=10**6,
        default_flow_style=None,
    )
    lines = [*(f"# {comment}" for comment in comments), *text.splitlines()]
    return "".join(f"  {line}\n" for line in lines)

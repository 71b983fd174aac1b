"""What it costs to make one value canonical, each value seen for the first time and seen before."""

import itertools
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

from authz.core.canonical import canonicalize
from authz.core.canonical.shell import analyse_shell
from authz.core.canonical.sql import Connection, analyse_sql
from authz.model.resource import Base
from tests.bench.timing import cpu_us

BASE: Final = Base(cwd="/workspace/app", root="/workspace", home="/home/agent")
PROD: Final = Connection(database="prod", dialect="postgres", default_schema="public")
SHAPES: Final[Mapping[str, str]] = {
    "path": "src/module{0}/../module{0}/file.py",
    "url": "https://api.example.com/v1/items/{0}?page=2",
    "email": "Ada {0} <ada.{0}@example.com>",
    "repo": "git@git.example.com:team/app{0}.git#main",
    "shell": "cd /workspace/app && git diff --stat file{0}.py | head -20 > out{0}.txt",
    "sql": "SELECT o.id, count(*) FROM shop.orders o JOIN users u ON o.u = u.id WHERE o.x > {0} GROUP BY 1",
}


def _make(kind: str) -> Callable[[str], Any]:
    if kind == "shell":
        return lambda text: analyse_shell(text, BASE)
    if kind == "sql":
        return lambda text: analyse_sql(text, PROD)
    return lambda text: canonicalize(kind, text, BASE)


def measure_canonical(*, runs: int, calls: int) -> dict[str, dict[str, float]]:
    """CPU µs a value, by kind: `new` for values that are all different, `seen` for one again and again."""
    found = {}
    for kind, shape in SHAPES.items():
        found[kind] = {
            "new": round(cpu_us(_each_new(_make(kind), shape), runs=runs, calls=calls), 2),
            "seen": round(cpu_us(partial(_make(kind), shape.format(0)), runs=runs, calls=calls), 2),
        }
    return found


def _each_new(make: Callable[[str], Any], shape: str) -> Callable[[], Any]:
    numbers = itertools.count()
    return lambda: make(shape.format(next(numbers)))

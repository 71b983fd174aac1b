"""Generated entries, narrowings and widenings, of all rights, kinds and members."""

import copy
from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

RIGHTS = ["read", "write", "send", "fs/edit", "edit", "fs/edit:write", "edit:read", "web/get", "web/get:read"]
LOCATIONS = [
    "file:///", "file:///w", "file:///w/a", "file:///w/a/b", "file:///x", "https://a.example/", "https://a.example/v1",
    "https://a.example/v1?q", "host:a.example", "host:a.example:443", "domain:example", "domain:a.example",
    "mailto:me@a.example", "repo:a.example/t", "repo:a.example/t/r#main", "sql:p", "sql:p/s/t", "program:git",
    "program:git/push", "id:account:1",
]  # fmt: skip
SCALARS = st.sampled_from(
    [
        0,
        1,
        1.0,
        2,
        5,
        True,
        False,
        None,
        "",
        "a",
        "bb",
        "/w/a",
        "file:///w/a/b",
        [],
        [1],
        ["/w", "/w/a"],
        {"k": 1},
    ]
)
KEYS = ["x", "/x", "y", "/y/0", "/y/k"]
MEMBERS = st.fixed_dictionaries(
    {},
    optional={
        "max": st.sampled_from([0, 1, 2.5, 5]),
        "min": st.sampled_from([-1, 0, 0.0]),
        "equals": SCALARS,
        "one_of": st.lists(SCALARS, min_size=1, max_size=4),
        "within": st.lists(st.sampled_from(LOCATIONS), min_size=1, max_size=2),
        "max_length": st.integers(0, 3),
        "max_items": st.integers(0, 2),
    },
).filter(bool)
CONSTRAINTS = st.dictionaries(st.sampled_from(["x", "/y/0", "/y/k", "y"]), MEMBERS, max_size=2)
BUDGETS = st.none() | st.fixed_dictionaries(
    {"calls": st.integers(1, 5)},
    optional={
        "cost": st.fixed_dictionaries(
            {"amount": st.sampled_from(["0.5", "1", "2"]), "currency": st.sampled_from(["EUR", "USD"])}
        ),
        "rate": st.fixed_dictionaries({"calls": st.integers(1, 3), "seconds": st.integers(1, 3)}),
    },
)
Json = dict[str, Any]


def entries(constraints: st.SearchStrategy[Any] = CONSTRAINTS) -> st.SearchStrategy[Json]:
    """One entry."""
    return st.builds(
        lambda actions, locations, constraints, budget: {
            "type": "agent_tool_call",
            "actions": actions,
            "locations": locations,
            **({"constraints": constraints} if constraints else {}),
            **({"budget": budget} if budget else {}),
        },
        st.lists(st.sampled_from(RIGHTS), min_size=1, max_size=4, unique=True),
        st.lists(st.sampled_from(LOCATIONS), min_size=1, max_size=4, unique=True),
        constraints,
        BUDGETS,
    )


_NARROWER_RIGHT = {
    "read": ["edit:read", "web/get:read"], "write": ["fs/edit:write"],
    "edit": ["fs/edit", "fs/edit:write", "edit:read"],
    "fs/edit": ["fs/edit:write"], "web/get": ["web/get:read"],
}  # fmt: skip
_BENEATH = {
    "file:///": ["file:///w", "file:///x"], "file:///w": ["file:///w/a"], "file:///w/a": ["file:///w/a/b"],
    "https://a.example/": ["https://a.example/v1"], "https://a.example/v1": ["https://a.example/v1?q"],
    "host:a.example": ["host:a.example:443", "https://a.example/v1", "repo:a.example/t"],
    "host:a.example:443": ["https://a.example/"], "domain:example": ["domain:a.example", "host:a.example"],
    "domain:a.example": ["mailto:me@a.example", "https://a.example/", "repo:a.example/t"],
    "repo:a.example/t": ["repo:a.example/t/r#main"], "sql:p": ["sql:p/s/t"],
    "program:git": ["program:git/push"],
}  # fmt: skip


@st.composite
def narrowings(draw: Any, parent: Json) -> Json:
    """An entry that is no wider than `parent`, by construction."""
    child = copy.deepcopy(parent)
    for name, table in (("actions", _NARROWER_RIGHT), ("locations", _BENEATH)):
        kept = draw(st.lists(st.sampled_from(parent[name]), min_size=1, unique=True))
        child[name] = [draw(st.sampled_from([text, *table.get(text, [])])) for text in kept]
    for members in child.get("constraints", {}).values():
        _tighten(draw, members)
    if draw(st.booleans()):
        child.setdefault("constraints", {}).setdefault("z", {"equals": 1})
    if budget := child.get("budget"):
        budget["calls"] = draw(st.integers(0, budget["calls"]))
        if "rate" in budget:
            budget["rate"] = {
                "calls": draw(st.integers(1, budget["rate"]["calls"])),
                "seconds": budget["rate"]["seconds"] + draw(st.integers(0, 2)),
            }
    elif draw(st.booleans()):
        child["budget"] = {"calls": 1}
    return child


def _tighten(draw: Any, members: Json) -> None:
    if "max" in members and members["max"] > members.get("min", -1):
        members["max"] = draw(
            st.sampled_from([members["max"], max(members["max"] - 1, members.get("min", -1))])
        )
    if "one_of" in members:
        members["one_of"] = draw(st.lists(st.sampled_from(members["one_of"]), min_size=1, max_size=4))
    if "within" in members:
        members["within"] = [
            draw(st.sampled_from([uri, *_BENEATH.get(uri, [])])) for uri in members["within"]
        ]
    for name in ("max_length", "max_items"):
        if name in members:
            members[name] = draw(st.integers(0, members[name]))


def _more_rights(entry: Json) -> None:
    entry["actions"].append("administer")


def _more_objects(entry: Json) -> None:
    entry["locations"].append("id:account:2")


def _no_constraint(entry: Json) -> None:
    entry["constraints"].pop(next(iter(entry["constraints"])))


def _looser_constraint(entry: Json) -> None:
    members = next(iter(entry["constraints"].values()))
    name = next(iter(members))
    if name in ("max", "max_length", "max_items"):
        members[name] += 1
    elif name == "min":
        members[name] -= 1
    elif name == "equals":
        members[name] = [members[name]]
    elif name == "one_of":
        members[name] = [*members[name], "another"]
    else:
        members[name] = [*members[name], "id:account:2"]


def _no_budget(entry: Json) -> None:
    del entry["budget"]


def _more_calls(entry: Json) -> None:
    entry["budget"]["calls"] += 1


WIDENINGS: list[tuple[str, str, Callable[[Json], None]]] = [
    # component, the member that the entry must have, what is done to it
    ("R", "actions", _more_rights),
    ("O", "locations", _more_objects),
    ("P", "constraints", _no_constraint),
    ("P", "constraints", _looser_constraint),
    ("P", "budget", _no_budget),
    ("P", "budget", _more_calls),
]

"""Entries that are made around a call which they allow, chains of narrowings that keep it, and calls nearby.

Entries and calls that are drawn apart hardly ever meet, and then a property about what is allowed says
nothing. Here the call comes first: one target (tool, verb, resource) and a value for every argument. Bounds
are then drawn so that they hold for it, often exactly.
"""

import copy
from collections.abc import Iterator
from typing import Any, Final

from authz_client.capabilities import CallAccess, ToolCall
from hypothesis import strategies as st

Json = dict[str, Any]

PLACES: Final[dict[str, tuple[str, ...]]] = {
    # a resource, and what contains it, from near to far
    "file:///w/a/b/c": ("file:///w/a/b/c", "file:///w/a/b", "file:///w/a", "file:///w", "file:///"),
    "https://a.example/v1/x?y": (
        *("https://a.example/v1/x?y", "https://a.example/v1/x", "https://a.example/v1"),
        *("https://a.example/", "host:a.example:443", "host:a.example", "domain:a.example", "domain:example"),
    ),
    "mailto:me@a.example": ("mailto:me@a.example", "domain:a.example", "domain:example"),
    "repo:a.example/t/r#main": (
        *("repo:a.example/t/r#main", "repo:a.example/t/r", "repo:a.example/t"),
        *("host:a.example", "domain:a.example", "domain:example"),
    ),
    "sql:p/s/t": ("sql:p/s/t", "sql:p/s", "sql:p"),
    "program:git/push": ("program:git/push", "program:git"),
    "id:account:1": ("id:account:1",),
}
ELSEWHERE: Final = (
    *("file:///wa", "file:///w/a/bc", "https://a.example:8443/v1", "http://a.example/v1/x", "id:account:2"),
    *("domain:b.example", "mailto:you@b.example", "repo:a.example/tt", "sql:p/s2", "program:gitk"),
)
LOCATIONS: Final = tuple(dict.fromkeys([*(uri for places in PLACES.values() for uri in places), *ELSEWHERE]))
TOOL: Final = "fs/edit"
VERB: Final = "write"
RIGHTS: Final = ("fs/edit:write", "edit:write", "fs/edit", "edit", "write")
_ABOVE: Final = {
    # what contains a right, itself among it
    "fs/edit:write": RIGHTS,
    "edit:write": ("edit:write", "edit", "write"),
    "fs/edit": ("fs/edit", "edit"),
    "edit": ("edit",),
    "write": ("write",),
}
OTHER_RIGHTS: Final = ("read", "send", "web/get", "web/get:read", "get")
NUMBERS: Final = (-3, 0, 0.0, 0.5, 1, 1.0, 7, 2**40)
TEXTS: Final = ("", "a", "bb", "/w/a", "\U0001f600", "e\u0301", "\u00e9")
OTHER_VALUES: Final = (None, True, False, 0, 2, "", "a", "1", [], [1], {"k": 1}, "file:///x")
_VALUES: Final = st.one_of(
    st.sampled_from(NUMBERS),
    st.sampled_from(TEXTS),
    st.sampled_from([None, True, False, {}, {"k": [1]}]),
    st.sampled_from(sorted(PLACES)),
    st.just("/w/a/b/c"),
    st.lists(st.sampled_from(["file:///w/a/b/c", "/w/a/b/c"]), min_size=1, max_size=2),
    st.lists(st.sampled_from(NUMBERS), max_size=3),
)


def _is_number(value: Any) -> bool:
    return type(value) in (int, float)


def _places_of(value: Any) -> tuple[str, ...]:
    if isinstance(value, list):
        return _places_of(value[0]) if value and isinstance(value[0], str) else ()
    if not isinstance(value, str):
        return ()
    return PLACES.get("file://" + value if value.startswith("/") else value, ())


@st.composite
def members_for(draw: Any, value: Any) -> Json:
    """Members of a condition that `value` meets, often at their bound."""
    found: Json = {}
    if _is_number(value):
        found["max"] = value + draw(st.sampled_from([0, 0, 0.5, 3]))
        found["min"] = value - draw(st.sampled_from([0, 0, 0.5, 3]))
    if isinstance(value, str):
        found["max_length"] = len(value) + draw(st.integers(0, 2))
    if isinstance(value, list):
        found["max_items"] = len(value) + draw(st.integers(0, 2))
    if places := _places_of(value):
        also = draw(st.lists(st.sampled_from(ELSEWHERE), max_size=1))
        found["within"] = [draw(st.sampled_from(places)), *also]
    found["equals"] = copy.deepcopy(value)
    found["one_of"] = [copy.deepcopy(value), *draw(st.lists(st.sampled_from(OTHER_VALUES), max_size=2))]
    kept = draw(st.lists(st.sampled_from(sorted(found)), min_size=1, max_size=3, unique=True))
    return {name: found[name] for name in kept}


@st.composite
def tightened(draw: Any, members: Json, value: Any) -> Json:
    """`members`, each the same or tighter, and perhaps more; `value` still meets them."""
    found = copy.deepcopy(members)
    for name, bound in members.items():
        if draw(st.booleans()):
            continue
        if name in ("max", "min"):
            found[name] = draw(st.sampled_from([value, bound]))
        elif name in ("max_length", "max_items"):
            found[name] = draw(st.integers(len(value), bound))
        elif name == "one_of":
            found[name] = [copy.deepcopy(value)]
        elif name == "within":
            places = _places_of(value)
            near = [uri for uri in bound if uri in places]
            found[name] = [draw(st.sampled_from(places[: places.index(near[0]) + 1]))]
    more = draw(members_for(value))
    return draw(st.sampled_from([found, {**more, **found}]))


def variants_of(entry: Json) -> list[Json]:
    """`entry` with one thing changed: a bound moved a little, or swapped for its look-alike, or left out."""
    found = [entry]
    for text in (*RIGHTS, *OTHER_RIGHTS):
        found.append({**entry, "actions": [text, *entry["actions"][1:]]})
    for uri in (*entry["locations"], *LOCATIONS):
        found.append({**entry, "locations": [uri, *entry["locations"][1:]]})
    constraints = entry.get("constraints", {})
    for name in sorted({"x", "y", "z"} - constraints.keys()):
        found.append({**entry, "constraints": {**constraints, name: {"one_of": ["another"]}}})
    for name, members in constraints.items():
        others = {key: value for key, value in constraints.items() if key != name}
        found.append({**entry, "constraints": others})
        found += [
            {**entry, "constraints": {**others, name: changed}}
            for changed in _changed(members)
            if changed and not _crossed(changed)
        ]
    return found


def _changed(members: Json) -> Iterator[Json]:
    yield {"max_items": 0, "min": 10**6, **members}
    for name, bound in members.items():
        yield {key: value for key, value in members.items() if key != name}
        for other in _instead(name, bound):
            yield {**members, name: other}


def _instead(name: str, bound: Any) -> list[Any]:
    if name in ("max", "min"):
        return [bound - 1, bound - 0.25, bound + 0.25, bound + 1]
    if name in ("max_length", "max_items"):
        return [max(0, bound - 1), bound + 1]
    if name == "one_of":
        swapped = [True if value == 1 else value for value in bound]
        return [[*bound, "z"], bound[1:] or ["z"], bound[:1], swapped]
    if name == "within":
        return [[uri] for uri in LOCATIONS]
    return [True, False, 1, 1.0, 0, [bound]]


def _crossed(members: Json) -> bool:
    return "max" in members and "min" in members and bool(members["min"] > members["max"])


@st.composite
def entries_for(draw: Any, resource: str, arguments: Json) -> Json:
    """An entry that allows the call of this resource with these arguments."""
    found: Json = {
        "type": "agent_tool_call",
        "actions": [
            draw(st.sampled_from(RIGHTS)),
            *draw(st.lists(st.sampled_from(OTHER_RIGHTS), max_size=2, unique=True)),
        ],
        "locations": [
            draw(st.sampled_from(PLACES[resource])),
            *draw(st.lists(st.sampled_from(ELSEWHERE), max_size=2, unique=True)),
        ],
    }
    named = draw(st.lists(st.sampled_from(sorted(arguments)), unique=True))
    if named:
        found["constraints"] = {name: draw(members_for(arguments[name])) for name in named}
    return found


@st.composite
def narrowings_for(draw: Any, parent: Json, resource: str, arguments: Json) -> Json:
    """An entry no wider than `parent`, which allows the same call."""
    child = copy.deepcopy(parent)
    places = PLACES[resource]
    near = next(uri for uri in parent["locations"] if uri in places)
    child["locations"] = [
        draw(st.sampled_from(places[: places.index(near) + 1])),
        *draw(st.lists(st.sampled_from(parent["locations"]), max_size=2)),
    ]
    right = next(text for text in parent["actions"] if text in RIGHTS)
    child["actions"] = [
        draw(st.sampled_from([text for text in RIGHTS if right in _ABOVE[text]])),
        *draw(st.lists(st.sampled_from(parent["actions"]), max_size=2)),
    ]
    constraints = {
        name: draw(tightened(members, arguments[name]))
        for name, members in parent.get("constraints", {}).items()
    }
    if draw(st.booleans()):
        name = draw(st.sampled_from(sorted(arguments)))
        constraints.setdefault(name, draw(members_for(arguments[name])))
    if constraints:
        child["constraints"] = constraints
    return child


@st.composite
def targets(draw: Any) -> tuple[str, Json]:
    """A resource, and arguments."""
    return draw(st.sampled_from(sorted(PLACES))), {name: draw(_VALUES) for name in ("x", "y")}


def call_of(resource: str, arguments: Json, *, tool: str = TOOL, verb: str = VERB) -> ToolCall:
    """The call that the entries are made around. `x` and `y` are no accesses: they go by their spelling."""
    return ToolCall(
        tool=tool, accesses=(CallAccess(verb=verb, uri=resource),), arguments=copy.deepcopy(arguments)
    )


def calls_near(resource: str, arguments: Json) -> list[ToolCall]:
    """The call, and it with one thing changed: by a little, to something else, or left out."""
    found = [call_of(resource, arguments)]
    for name, value in arguments.items():
        found.append(call_of(resource, {key: item for key, item in arguments.items() if key != name}))
        found += [call_of(resource, {**arguments, name: other}) for other in _values_near(value)]
    found += [call_of(uri, arguments) for uri in (*LOCATIONS, "opaque:path:00")]
    found += [call_of(resource, arguments, tool=tool) for tool in ("web/edit", "fs/editor", "web/get")]
    found += [call_of(resource, arguments, verb=verb) for verb in ("read", "delete", "send")]
    return found


def _values_near(value: Any) -> list[Any]:
    near = [*OTHER_VALUES, "/w/a/b/c/d", "/w/a/b", "/wa", "https://a.example/v1/x"]
    if _is_number(value):
        return [value - 1, value - 0.25, value + 0.25, value + 1, value == 1, str(value), *near]
    if isinstance(value, str):
        return [value + "z", value[:-1], [value], *near]
    if isinstance(value, list):
        return [value + value[:1], value[:-1], value + ["/wa"], *near]
    return [[value], *near]

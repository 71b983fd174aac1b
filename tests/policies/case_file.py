"""Policy cases as their authors write them: `policies/tests/*.yaml`, parsed strictly and merged.

A file:

    defaults:                 # members of a call, merged into every call of the file
      subject: {agent: coder-1, on_behalf_of: ada, session: s-1}
    given: {}                 # what the service knows besides the call; see `Given`
    cases:
      - name: edit inside the workspace
        call:                 # the body of `POST /decide`, merged over `defaults`
          tool: {server: fs, name: file_edit}
          arguments: {path: app.py, old_str: a, new_str: b}
        given: {exposed: [untrusted]}     # optional, over the file's
        each: []              # optional: a table; every row is merged over `call` and is a case of its own
        expect: {effect: allow, code: policy.permit, rules: [workspace-write], authority: A1}

Merging goes member by member; what is no object replaces. Outside `arguments`, null takes the member away.
`tool.advertised_digest: pinned` stands for the digest that the bundle pins, which an honest client sends.
Ids of the trace are filled in, fresh for every case, unless `given: {fresh_ids: false}`.

`expect` states `effect`, `code`, `rules` and `authority` (null when the decision ended before it was known),
and may state `stage`, `side_effect`, `reason` (of one of the rules), `overruled` (permits that an asking rule
outranked), `hidden_by` (rules that hide the tool) and `uris` (of the accesses, in order). In its place stands
`refused` with a code where the credential may not assert the subject, so that no decision is made.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from authz.bundle.yaml_source import Path, YamlDocument, load_yaml
from authz.model.decision import Code, Effect, Stage
from authz.model.resource import Authority
from authz.model.tool import SideEffect

PINNED: Final = "pinned"
DEFAULT_PROFILE: Final = "runtime"

_CALL_KEYS: Final = frozenset(
    {"subject", "tool", "arguments", "provenance", "context", "dry_run", "capability", "proof"}
)
_FILE_KEYS: Final = frozenset({"defaults", "given", "cases"})
_CASE_KEYS: Final = frozenset({"name", "call", "given", "each", "expect"})
_GIVEN_KEYS: Final = frozenset({"profile", "exposed", "fresh_ids"})
_STATED: Final = ("effect", "code", "rules", "authority")
_MAY_BE_STATED: Final = ("stage", "side_effect", "reason", "overruled", "hidden_by", "uris")
_VALUES: Final[Mapping[str, Sequence[str]]] = {
    "effect": list(Effect),
    "code": list(Code),
    "stage": list(Stage),
    "side_effect": list(SideEffect),
}


class CaseFileError(Exception):
    """A case file that does not say what it means; the message names file and line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """What the service knows besides the call."""

    profile: str = DEFAULT_PROFILE
    """The caller's credential profile."""
    exposed: frozenset[str] = frozenset()
    """Labels that the session has been exposed to."""
    fresh_ids: bool = True
    """Whether trace, turn and call ids that the call does not state are filled in."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Expectation:
    """What a case expects of the decision and of its record. `None` in an optional field is not looked at."""

    effect: str = ""
    code: str = ""
    rules: frozenset[str] = frozenset()
    authority: str | None = None
    stage: str | None = None
    side_effect: str | None = None
    reason: str | None = None
    overruled: frozenset[str] | None = None
    hidden_by: frozenset[str] | None = None
    uris: tuple[str, ...] | None = None
    refused: str | None = None
    """The code with which stage 0 refuses; no decision is made then."""

    @property
    def reaches(self) -> frozenset[str]:
        """Every rule that the case shows at work."""
        return self.rules | (self.overruled or frozenset()) | (self.hidden_by or frozenset())


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One call and what is expected of it."""

    file: str
    line: int
    name: str
    body: Mapping[str, Any]
    given: Given
    expected: Expectation

    @property
    def id(self) -> str:
        """`mail:send to a colleague`, for reports."""
        return f"{self.file.removesuffix('.yaml')}:{self.name}"


def parse_case_file(file: str, data: bytes) -> tuple[Case, ...]:
    """The cases of one file. Raises `CaseFileError`, or `BundleError` for what is no YAML."""
    document = load_yaml(file, data)
    top = _Place(document, (), document.value)
    top.check_keys(_FILE_KEYS, required=("cases",))
    defaults = top.member("defaults", {})
    defaults.check_keys(_CALL_KEYS)
    given = _given(top.member("given", {}), Given())
    cases = [case for entry in top.member("cases").items() for case in _cases(entry, defaults.value, given)]
    if not cases:
        raise top.wrong("the file has no cases")
    seen: set[str] = set()
    for case in cases:
        if case.name in seen:
            raise CaseFileError(f"{file}:{case.line}: the name `{case.name}` is taken")
        seen.add(case.name)
    return tuple(cases)


def _cases(entry: "_Place", defaults: Mapping[str, Any], given: Given) -> Iterator[Case]:
    entry.check_keys(_CASE_KEYS, required=("name", "call", "expect"))
    call = entry.member("call")
    call.check_keys(_CALL_KEYS)
    case = Case(
        file=entry.document.file,
        line=entry.line,
        name=entry.member("name").text(),
        body=merged(defaults, call.value),
        given=_given(entry.member("given", {}), given),
        expected=_expectation(entry.member("expect")),
    )
    if not entry.has("each"):
        yield case
        return
    rows = entry.member("each").items()
    if not rows:
        raise entry.wrong("`each` has no rows, so nothing would be tested")
    for number, row in enumerate(rows, start=1):
        row.check_keys(_CALL_KEYS)
        name = f"{case.name} [{number}]"
        yield replace(case, name=name, line=row.line, body=merged(case.body, row.value))


def merged(base: Mapping[str, Any], over: Mapping[str, Any], *, null_removes: bool = True) -> dict[str, Any]:
    """`over` laid over `base`, member by member. Inside `arguments` null is a value like any other."""
    result = dict(base)
    for name, value in over.items():
        below = result.get(name)
        if value is None and null_removes:
            result.pop(name, None)
        elif isinstance(value, Mapping):
            inside = below if isinstance(below, Mapping) else {}
            result[name] = merged(inside, value, null_removes=null_removes and name != "arguments")
        else:
            result[name] = value
    return result


def _given(place: "_Place", base: Given) -> Given:
    place.check_keys(_GIVEN_KEYS)
    changes: dict[str, Any] = {}
    if place.has("profile"):
        changes["profile"] = place.member("profile").text()
    if place.has("exposed"):
        changes["exposed"] = place.member("exposed").names()
    if place.has("fresh_ids"):
        changes["fresh_ids"] = place.member("fresh_ids").flag()
    return replace(base, **changes)


def _expectation(place: "_Place") -> Expectation:
    if place.has("refused"):
        place.check_keys(frozenset({"refused"}))
        return Expectation(refused=place.member("refused").text())
    place.check_keys(frozenset(_STATED + _MAY_BE_STATED), required=_STATED)
    found: dict[str, Any] = {}
    for name in ("effect", "code", "stage", "side_effect"):
        if place.has(name):
            found[name] = place.member(name).one_of(_VALUES[name])
    for name in ("rules", "overruled", "hidden_by"):
        if place.has(name):
            found[name] = place.member(name).names()
    if place.value["authority"] is not None:
        found["authority"] = place.member("authority").one_of([level.name for level in Authority])
    if place.has("reason"):
        found["reason"] = place.member("reason").text()
    if place.has("uris"):
        found["uris"] = tuple(item.text() for item in place.member("uris").items())
    return Expectation(**found)


@dataclass(frozen=True, slots=True)
class _Place:
    """A value of the file together with where it stands."""

    document: YamlDocument
    path: Path
    value: Any

    @property
    def line(self) -> int:
        return self.document.line(self.path) or 1

    def wrong(self, message: str) -> CaseFileError:
        where = "/".join(str(part) for part in self.path)
        return CaseFileError(f"{self.document.file}:{self.line}: `{where}`: {message}")

    def check_keys(self, allowed: frozenset[str], required: Sequence[str] = ()) -> None:
        if not isinstance(self.value, Mapping):
            raise self.wrong("expected a mapping")
        for name in self.value:
            if name not in allowed:
                raise self.wrong(f"unknown key `{name}`; one of {', '.join(sorted(allowed))}")
        for name in required:
            if name not in self.value:
                raise self.wrong(f"`{name}` is missing")

    def has(self, name: str) -> bool:
        return name in self.value

    def member(self, name: str, default: Any = None) -> "_Place":
        return _Place(self.document, (*self.path, name), self.value.get(name, default))

    def items(self) -> list["_Place"]:
        if not isinstance(self.value, list):
            raise self.wrong("expected a list")
        return [_Place(self.document, (*self.path, n), item) for n, item in enumerate(self.value)]

    def text(self) -> str:
        if not isinstance(self.value, str) or not self.value:
            raise self.wrong("expected text")
        return self.value

    def flag(self) -> bool:
        if not isinstance(self.value, bool):
            raise self.wrong("expected true or false")
        return self.value

    def names(self) -> frozenset[str]:
        names = [item.text() for item in self.items()]
        if len(set(names)) < len(names):
            raise self.wrong("a name stands here twice")
        return frozenset(names)

    def one_of(self, values: Sequence[str]) -> str:
        if self.value not in values:
            raise self.wrong(f"expected one of {', '.join(values)}")
        return str(self.value)

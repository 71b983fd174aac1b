"""Case files (`tests/*.yaml`) as cases: parsed strictly, merged, and held to the format of the wire.

A file:

    defaults:                 # members of a call, merged into every call of the file
      subject: {agent: coder-1, on_behalf_of: ada, session: s-1}
    given: {}                 # what the service knows besides the call
    cases:
      - name: edit inside the workspace
        call:                 # the body of `POST /decide`, merged over `defaults`
          tool: {server: fs, name: file_edit}
          arguments: {path: app.py, old_str: a, new_str: b}
        given: {exposed: [untrusted]}     # optional, over the file's
        each: []              # optional: a table; every row is merged over `call` and is a case of its own
        expect: {effect: allow, rules: [workspace-write], authority: A1}

Merging goes member by member; what is no object replaces. Outside `arguments`, null takes a member away.
A row may have a `name`, a `given` and an `expect` of its own, merged over the case's. With `columns` the rows
hold only values: one value where there is one column, else a list.

A value spelled like the marks of `authz decisions show --as-test` must be filled in. Where it is meant as it
stands, the case names its place: `verbatim: [/arguments/text]`.

The tests are part of the bundle, so a fault in one keeps the bundle from loading; a case that fails does not.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from functools import lru_cache
from typing import Any, Final

from pydantic import ValidationError

from authz.bundle.case_expectations import expectation
from authz.bundle.case_format import KEYS, CaseFile, PartialCall, RowSection
from authz.bundle.case_merging import given_of, merged, over
from authz.bundle.yaml_source import Path, YamlDocument, load_yaml
from authz.core.cases.case import PINNED, Case, Given
from authz.core.cases.deciding import filled_in
from authz.core.cases.issuing import parse_issue_case
from authz.core.cases.redaction import redacted_places
from authz.core.entities import PersonOrGroup
from authz.core.pointer import format_pointer, parse_pointer
from authz.core.requests import parse_decide
from authz.errors import BundleError, BundleProblem, MalformedInput

MAX_CASES: Final = 100_000
"""Of one file: rows are cheap to write, and each is decided."""
_OF_ISSUE: Final = frozenset({"effect", "rules", "code", "reason", "stage", "refused"})
"""What can be expected of a case about issuing."""
_ANY_DIGEST: Final = "sha256:" + "0" * 64
_CALL: Final = tuple(PartialCall.model_fields)


def read_cases(files: Mapping[str, bytes], problems: list[BundleProblem]) -> tuple[Case, ...]:
    """The cases of a bundle's files, in the order of file and line; faults are added to `problems`."""
    cases: list[Case] = []
    for name in sorted(files):
        if name.startswith("tests/"):
            found, faults = _parsed(name, files[name])
            cases += found
            problems += faults
    return tuple(cases)


def case_problems(
    files: Mapping[str, bytes], profiles: Iterable[str], members: Iterable[PersonOrGroup]
) -> list[BundleProblem]:
    """Every fault of a bundle's case files, and each profile and group in them that it does not have."""
    problems: list[BundleProblem] = []
    known = frozenset(profiles)
    groups = frozenset(member.uid[1] for member in members if member.uid[0] == "Group")
    for case in read_cases(files, problems):
        given = case.given
        # Without any profile, credentials.yaml is at fault, and says so itself.
        if known and given.profile not in known:
            message = f"there is no credential profile `{given.profile}`"
            problems.append(_problem(case, message, f"credentials.yaml has {', '.join(sorted(known))}"))
        for group in sorted({group for named in given.groups.values() for group in named} - groups):
            message = f"the group `{group}` is not declared"
            problems.append(_problem(case, message, "add it under `groups` in entities.yaml"))
    return problems


def _problem(case: Case, message: str, hint: str) -> BundleProblem:
    return BundleProblem(
        f"`{case.name}`: {message}", file=case.file, line=case.line, hint=hint, code="case.invalid"
    )


def parse_cases(file: str, data: bytes) -> tuple[Case, ...]:
    """The cases of one file. Raises `BundleError` with every fault found."""
    cases, problems = _parsed(file, data)
    if problems:
        raise BundleError(problems)
    return cases


@lru_cache(maxsize=1024)
def _parsed(file: str, data: bytes) -> tuple[tuple[Case, ...], tuple[BundleProblem, ...]]:
    """By content: a reload reads again only what changed."""
    try:
        document = load_yaml(file, data)
        _check(document, (), CaseFile, document.value)
        return _CaseReader(document).read(), ()
    except BundleError as error:
        return (), error.problems


def _check(document: YamlDocument, at: Path, model: Any, value: Any) -> None:
    try:
        model.model_validate(value)
    except ValidationError as error:
        raise BundleError(
            tuple(
                document.problem(
                    (*at, *fault["loc"]),
                    f"{document.place((*at, *fault['loc']))}: {_sentence(fault['type'], fault['msg'])}",
                    _meant(str(fault["loc"][-1])) if fault["type"] == "extra_forbidden" else "",
                )
                for fault in error.errors(include_url=False, include_input=False)
            )
        ) from None


def _sentence(kind: str, message: str) -> str:
    known = {"extra_forbidden": "unknown key", "missing": "missing", "dict_type": "expected a mapping"}
    known["model_type"] = known["dict_type"]
    message = message.removeprefix("Value error, ").removeprefix("Input ")
    return known.get(kind, message[:1].lower() + message[1:])


def _meant(key: str) -> str:
    close = get_close_matches(key, KEYS, n=1)
    return f"did you mean `{close[0]}`?" if close else ""


class _CaseReader:
    """Reads one file that has passed the check of its format."""

    def __init__(self, document: YamlDocument) -> None:
        self._document = document
        self._problems: list[BundleProblem] = []
        self._cells: Sequence[tuple[str, ...]] = ()
        """Members of the call that the row at hand states by columns."""
        self._verbatim: frozenset[tuple[str, ...]] = frozenset()
        """Places of the call at hand at which nothing is a mark, whatever it looks like."""
        self._defaults = document.value.get("defaults", {})
        self._given = given_of(document.value.get("given", {}), Given())

    def read(self) -> tuple[Case, ...]:
        """Every case of the file. Raises `BundleError`."""
        cases: list[Case] = []
        names: dict[str, int] = {}
        for index in range(len(self._document.value["cases"])):
            for case in self._cases(index):
                first = names.setdefault(case.name, case.line)
                if first != case.line:
                    self._wrong((), f"the name `{case.name}` is taken at line {first}", line=case.line)
                cases.append(case)
        if len(cases) > MAX_CASES:
            self._wrong(("cases",), f"over {MAX_CASES} cases")
        if self._problems:
            raise BundleError(tuple(self._problems))
        return tuple(cases)

    def _cases(self, index: int) -> Iterator[Case]:
        at: Path = ("cases", index)
        self._cells = ()
        entry = self._document.value["cases"][index]
        self._verbatim = frozenset(map(parse_pointer, entry.get("verbatim", ())))
        call = merged(self._defaults, entry.get("call", {}))
        given = given_of(entry.get("given", {}), self._given)
        expect = entry.get("expect", {})
        places: list[Path] = [(*at, "call"), ("defaults",)]
        if "each" not in entry:
            if "columns" in entry:
                self._wrong((*at, "columns"), "a table without rows", "add them under `each`")
                return
            yield from self._case(at, entry["name"], call, given, expect, places)
            return
        columns = entry.get("columns")
        for number, raw in enumerate(entry["each"]):
            row_at: Path = (*at, "each", number)
            row = self._row(row_at, raw, columns)
            if row is None:
                continue
            name = f"{entry['name']} [{row.get('name', number + 1)}]"
            if columns is not None:
                # What a column names stands in the row, whatever the call says at that place.
                self._cells = [parse_pointer(column) for column in columns if column.startswith("/")]
            body = merged(call, {key: row[key] for key in _CALL if key in row})
            yield from self._case(
                row_at,
                name,
                body,
                given_of(row.get("given", {}), given),
                over(expect, row.get("expect", {})),
                [row_at, *places],
            )

    def _row(self, at: Path, raw: Any, columns: list[str] | None) -> dict[str, Any] | None:
        """The row as members of a call, `name`, `given` and `expect`."""
        row = raw
        if columns is not None:
            values = [raw] if len(columns) == 1 else raw
            if not isinstance(values, list) or len(values) != len(columns):
                self._wrong(at, f"expected a list of {len(columns)} values, one for each of `columns`")
                return None
            row = {}
            for column, value in zip(columns, values, strict=True):
                tokens = parse_pointer(column) if column.startswith("/") else tuple(column.split("."))
                overlay = value
                for token in reversed(tokens):
                    overlay = {token: overlay}
                row = merged(row, overlay, null_removes=False)
        try:
            _check(self._document, at, RowSection, row)
        except BundleError as error:
            self._problems += error.problems
            return None
        return dict(row)

    def _case(
        self,
        at: Path,
        name: str,
        body: Mapping[str, Any],
        given: Given,
        expect: Mapping[str, Any],
        places: list[Path],
    ) -> Iterator[Case]:
        entry_at = at[:2]
        expect_at: Path = next(
            (place for place in ((*at, "expect"), (*entry_at, "expect")) if place in self._document.lines),
            entry_at,
        )
        expected, faults = expectation(expect)
        for path, message, hint in faults:
            self._wrong((*expect_at, *path), message, hint)
        case = Case(
            file=self._document.file,
            line=self._document.line(at) or 1,
            name=name,
            body=body,
            given=given,
            expected=expected,
            expected_line=self._document.line(expect_at) or 1,
        )
        if self._is_request(case, places) and not faults:
            yield case

    def _is_request(self, case: Case, places: list[Path]) -> bool:
        """Whether the call is what the wire takes, or is expected not to be."""
        redacted = [place for place in redacted_places(case.body) if place not in self._verbatim]
        for tokens in redacted:
            self._wrong(
                self._place(tokens, places),
                f"`{format_pointer(tokens)}` was redacted in the log, so the case is not whole",
                "write the value that the call had, or one that stands for it; a value that is meant as it "
                "stands is named under `verbatim`",
            )
        if not case.is_call:
            return self._is_issue(case, places) and not redacted
        body = filled_in(case)
        tool = body.get("tool")
        if isinstance(tool, Mapping) and tool.get("advertised_digest") == PINNED:
            body["tool"] = {**tool, "advertised_digest": _ANY_DIGEST}
        try:
            parse_decide(body)
        except MalformedInput as error:
            if case.expected.refused == error.code:
                return True
            at = self._place(parse_pointer(error.pointer or ""), places)
            hint = f"expect {{refused: {error.code}}} where that is meant"
            self._wrong(at, f"`{case.name}`: the call is no request: {error.message}", hint)
            return False
        return not redacted

    def _is_issue(self, case: Case, places: list[Path]) -> bool:
        """Whether what a case asks for can be asked for."""
        stated = sorted(case.expected.stated - _OF_ISSUE)
        if stated:
            self._wrong(places[0], f"`{case.name}`: a case about `issue` has no `{stated[0]}`")
            return False
        try:
            parse_issue_case(case.body)
        except MalformedInput as error:
            at = self._place(parse_pointer(error.pointer or ""), places)
            self._wrong(at, f"`{case.name}`: nothing that could be issued: {error.message}")
            return False
        return True

    def _place(self, tokens: tuple[str, ...], places: list[Path]) -> Path:
        """Where in the file a member of the merged call stands, or its nearest container."""
        if any(cell == tokens[: len(cell)] for cell in self._cells):
            return places[0]
        path = [int(token) if token.isdecimal() else token for token in tokens]
        for length in range(len(path), 0, -1):
            for place in places:
                if (found := (*place, *path[:length])) in self._document.lines:
                    return found
        return places[0]

    def _wrong(self, at: Path, message: str, hint: str = "", *, line: int | None = None) -> None:
        found = line or self._document.line(at)
        self._problems.append(
            BundleProblem(message, file=self._document.file, line=found, hint=hint, code="case.invalid")
        )

"""A key that is written without a value is an error in every file of a bundle, never the key left out."""

from collections.abc import Iterator

import pytest
from pydantic import ValidationError

from authz.bundle.case_format import AccessSection, CaseSection, ExpectSection, GivenSection, PartialCall
from authz.bundle.cases import parse_cases
from authz.bundle.format import NO_VALUE, Strict
from authz.bundle.load import BundleSources, compile_bundle
from authz.bundle.self_protection import Protected
from authz.errors import BundleError
from tests.support.world import FS, bundle_files


def sections(model: type[Strict] = Strict) -> Iterator[type[Strict]]:
    for section in model.__subclasses__():
        yield section
        yield from sections(section)


KEYS = sorted({(section, key) for section in sections() for key in section.model_fields}, key=str)


def test_there_are_sections() -> None:
    assert {PartialCall, ExpectSection, GivenSection, CaseSection, AccessSection} <= {one for one, _ in KEYS}
    assert len(KEYS) > 100


@pytest.mark.parametrize(("section", "key"), KEYS, ids=lambda part: getattr(part, "__name__", part))
def test_every_key_of_every_section_needs_a_value(section: type[Strict], key: str) -> None:
    with pytest.raises(ValidationError) as caught:
        section.model_validate({key: None, "zz": 1})
    found = {fault["loc"]: fault for fault in caught.value.errors()}
    if key in section.NULLS:
        assert (key,) not in found
        return
    fault = found[key,]
    assert fault["type"] == NO_VALUE
    is_required = section.model_fields[key].is_required()
    assert fault["msg"] == f"has no value: {'' if is_required else 'delete the key or '}give it one"


def test_null_is_a_value_only_in_cases() -> None:
    meant = {section.__name__: set(section.NULLS) for section in sections() if section.NULLS}
    call = {"subject", "tool", "arguments", "provenance", "context", "dry_run", "capability", "proof"}
    call |= {"issue", "ticket"}
    assert meant == {
        "PartialCall": call,
        "RowSection": call,
        "ExpectSection": {"authority", "side_effect", "arguments"},
    }


CREDENTIALS = "profiles:\n  runtime:\n    agents: ['*']\n    home:\n"
LIMITS = """\
limits:
  - id: reads
    reason: Enough.
    calls: 3
    seconds: 60
    per: [agent]
    where:
      tools:
"""
TOOLS = """\
server: {alias: fs, identity: fs, local: true, profiles: [runtime]}
tools:
  - name: read
    description: Reads.
    input_schema: {type: object, properties: {path: {type: [string, 'null'], default: null}}}
    roles: {/path: target}
    accesses:
      - verb: read
        kind: path
        at: /path
        tree_if:  # one day
    side_effect: none
"""


@pytest.mark.parametrize(
    ("name", "text", "line", "place"),
    [
        ("credentials.yaml", CREDENTIALS, 4, "profiles/runtime/home"),
        ("limits.yaml", LIMITS, 8, "limits/0/where/tools"),
        ("tools/fs.yaml", TOOLS, 11, "tools/0/accesses/0/tree_if"),
    ],
)
def test_the_file_and_the_line_are_told(name: str, text: str, line: int, place: str) -> None:
    files = bundle_files(tools={"fs": FS}) | {name: text.encode()}
    with pytest.raises(BundleError) as caught:
        compile_bundle(BundleSources(files=files), Protected())
    (problem,) = caught.value.problems
    assert (problem.file, problem.line, problem.code) == (name, line, "format.no-value")
    assert problem.message == f"`{place}`: has no value: delete the key or give it one"


@pytest.mark.parametrize("key", sorted(GivenSection.model_fields))
def test_what_is_given_in_a_case_has_a_value(key: str) -> None:
    text = f"cases:\n  - name: a\n    given:\n      {key}:\n    expect: {{refused: request.invalid}}\n"
    with pytest.raises(BundleError) as caught:
        parse_cases("tests/a.yaml", text.encode())
    assert [problem.line for problem in caught.value.problems] == [4]
    assert "has no value" in caught.value.problems[0].message


@pytest.mark.parametrize("key", ["columns", "each"])
def test_a_table_has_a_value(key: str) -> None:
    text = f"cases:\n  - name: a\n    {key}:\n    expect: {{refused: request.invalid}}\n"
    with pytest.raises(BundleError) as caught:
        parse_cases("tests/a.yaml", text.encode())
    assert "has no value" in caught.value.problems[0].message

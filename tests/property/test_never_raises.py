"""Reading what a model wrote never raises: whatever meets a fault of ours is opaque, and there is none."""

import logging
from collections.abc import Callable
from itertools import product
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from authz.core.canonical import KINDS, canonical_uri, canonicalize
from authz.core.canonical.shell import analyse_shell, unread_line
from authz.core.canonical.shell.effects import MAX_EFFECTS
from authz.core.canonical.shell.programs import PROGRAMS, git
from authz.core.canonical.sql import DIALECTS, Connection, analyse_sql
from authz.model.decision import Effect
from authz.model.resource import Base, NotCanonical, Volume
from authz.service.faults import log_faults
from tests.cases.judged import OPAQUE, READS, runs
from tests.cases.served import SHELL
from tests.support.world import call, decide_in, world

BASES: Final = (
    Base(),
    Base(cwd="/w", root="/w", home="/h"),
    Base(cwd="/w/a", root="/w", home="/h", volume=Volume(case_sensitive=False, normalization="nfc")),
)
ODD: Final = st.sampled_from(
    [
        *("", "a", "/", "..", "~", "-", "--", "-x", "--x", "--x=", "-t", "-C", "-e", "-c", "-r", "-R", "-n1"),
        *("*", "a*", ".*", "**/a", "[", "{a,b}", "{a", "$x", "${x}", "$(ls)", "`ls`", "'a b'", '"$y"'),
        *("<(ls)", "a:b", "host:/a", "https://x.example/a", "https://", "git@h:a/b", "HEAD", ":(", "x=1"),
        *("\\", "\\a", "$'a'", "=", "a=b", "%", "é", "\u202e", "if=a", "of=", "s/a/b/w c", "{}", "\\;", "+"),
    ]
)
WORDS: Final = st.lists(ODD | st.sampled_from(sorted(PROGRAMS)), max_size=4)
COMMANDS: Final = st.builds(
    lambda name, words: " ".join((name, *words)),
    st.sampled_from([*sorted(PROGRAMS), *(f"git {name}" for name in git.SUBCOMMANDS), "x", "./x", "eval"]),
    WORDS,
)
LINES: Final = st.recursive(
    COMMANDS,
    lambda inner: st.one_of(
        st.builds("{}; {}".format, inner, inner),
        st.builds("{} | {}".format, inner, inner),
        st.builds("{} && {} || true".format, inner, inner),
        st.builds("({})".format, inner),
        st.builds("f() {{ {}; }}; f".format, inner),
        st.builds("if {}; then {}; fi".format, inner, inner),
        st.builds("for i in a b; do {}; done".format, inner),
        st.builds("while {}; do {}; done".format, inner, inner),
        st.builds("case $x in a) {};; *) {};; esac".format, inner, inner),
        st.builds("{} > {}".format, inner, ODD),
        st.builds("{} < {} 2>&1".format, inner, ODD),
        st.builds("x={} {}".format, ODD, inner),
        st.builds("sh -c '{}'".format, inner),
        st.builds("cd {} && {}".format, ODD, inner),
        st.builds("cat <<E\n{}\nE\n".format, inner),
    ),
    max_leaves=4,
)
TEXTS: Final = st.text(alphabet=st.characters(codec=None, max_codepoint=0x2FFFF), max_size=60)


def check_line(text: str, base: Base) -> None:
    found = analyse_shell(text, base)
    assert isinstance(found, tuple)
    assert found
    assert "shell.failed" not in {one.resource.entity.attributes.get("reason") for one in found}, text


@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_no_known_program_needs_operands_to_be_read(name: str) -> None:
    options = ("", "-", "--", "-x", "-t", "-t a", "-c", "-e", "-n", "-C", "--help", "a", "a b", "$x", "'*'")
    for option, base in product(options, BASES):
        check_line(f"{name} {option}".strip(), base)


@pytest.mark.parametrize("name", sorted(git.SUBCOMMANDS))
def test_nor_does_a_command_of_git(name: str) -> None:
    for option, base in product(("", "--", "-x", "-b", "-m", "a", "a b", "$x", ":", "-C"), BASES):
        check_line(f"git {name} {option}".strip(), base)


@settings(max_examples=400)
@given(LINES, st.sampled_from(BASES))
def test_no_line_meets_a_fault(text: str, base: Base) -> None:
    check_line(text, base)


@given(TEXTS, st.sampled_from(BASES))
def test_nor_does_any_text_as_a_line(text: str, base: Base) -> None:
    check_line(text, base)


CLAUSES: Final = st.sampled_from(
    [
        *("select * from a", "select 1", "with a as (select 1) select * from a", "insert into a values (1)"),
        *("delete from a using b", "update a set b = 1 from c", "merge into a using b on a.x = b.x"),
        *(
            "drop table a, b",
            "truncate a",
            "alter table a rename to b",
            "create table a as select 1",
            "drop a",
        ),
        *("insert into a.b.c.d values (1)", "select * from f(1)", 'select * from ""', "copy a from 'x'", "("),
        *("delete a from a join b", "replace into a values (1)", "call f()", "set x = 1", "begin", "lock a"),
        *("a", ""),
    ]
)
STATEMENTS: Final = st.lists(CLAUSES | st.text(alphabet="ab .,()'\"*;-1", max_size=12), max_size=4).map(
    " ".join
) | st.lists(CLAUSES, max_size=3).map("; ".join)


@settings(max_examples=400)
@given(STATEMENTS | TEXTS, st.sampled_from(sorted(DIALECTS)), st.sampled_from([None, "public"]))
def test_no_statement_meets_a_fault(text: str, dialect: str, schema: str | None) -> None:
    found = analyse_sql(text, Connection(database="d", dialect=dialect, default_schema=schema))
    assert not isinstance(found, NotCanonical) or found.code != "sql.failed", text


@settings(max_examples=400)
@given(
    st.sampled_from([*KINDS, "other"]),
    TEXTS
    | st.lists(st.sampled_from([*"/.~:@#%[]?;*", "a", "xn--", "1", "::", "http://", "%2e"]), max_size=12).map(
        "".join
    )
    | st.none()
    | st.booleans()
    | st.integers()
    | st.floats(),
    st.sampled_from(BASES),
)
def test_no_value_meets_a_fault(kind: str, value: Any, base: Base) -> None:
    found = canonicalize(kind, value, base, object_type="thing")
    assert not isinstance(found, NotCanonical) or not found.code.endswith(".failed"), (kind, value)
    if isinstance(value, str):
        for scheme in ("", "file://", "repo:", "sql:", "host:", "id:", "program:", "domain:", "mailto:"):
            named = canonical_uri(scheme + value)
            assert not isinstance(named, NotCanonical) or named.code != "uri.failed", scheme + value


EVERYTHING: Final = '@id("everything") permit (principal, action, resource);'


def fail(*_: Any, **__: Any) -> Any:
    raise IndexError("a fault of ours")


def test_a_line_that_meets_a_fault_is_opaque_with_all_that_it_mentions(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(PROGRAMS, "ln", fail)
    found = analyse_shell("cat /w/a; ln; rm /w/b.fault", BASES[1])
    assert isinstance(found, tuple)
    told = {one.resource.uri for one in found if one.resource.kind != "opaque"}
    assert {"program:cat", "program:ln", "program:rm", "file:///w/a", "file:///w/b.fault"} <= told
    reasons = [one.resource.entity.attributes["reason"] for one in found if one.resource.kind == "opaque"]
    assert reasons == ["shell.failed"]


def test_a_fault_that_is_met_again_leaves_it_opaque(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("authz.core.canonical.shell.effects.canonicalize_path", fail)
    read = analyse_shell("cat /w/a.again", BASES[1])
    assert isinstance(read, tuple)
    [found] = read
    assert found.resource.entity.attributes["reason"] == "shell.failed"


def test_more_than_may_be_collected_is_opaque_also_where_it_was_not_understood() -> None:
    """What is mentioned comes to what is known already, and may be one thing too many."""
    many = " ".join(f"{{{','.join(f'{letter}{n}' for n in range(60))}}}" for letter in "abcdefghijklmnopq")
    text = f"touch {many}; ((x)); cat {' '.join(f'/m{n}' for n in range(64))}"
    found = analyse_shell(text, BASES[1])
    assert isinstance(found, tuple)
    assert len(found) <= MAX_EFFECTS
    assert any(one.resource.kind == "opaque" for one in found)
    assert unread_line(text, BASES[1], "busy")


@pytest.mark.parametrize(
    ("place", "read"),
    [
        ("authz.core.canonical.canonicalize_path", lambda: canonicalize("path", "/a", BASES[1])),
        ("authz.core.canonical.canonicalize_path", lambda: canonical_uri("file:///a")),
        (
            "authz.core.canonical.sql._parsed",
            lambda: analyse_sql("select faulty", Connection(database="d", dialect="sqlite")),
        ),
    ],
)
def test_a_value_that_meets_a_fault_is_one_that_was_not_understood(
    monkeypatch: pytest.MonkeyPatch, place: str, read: Callable[[], Any]
) -> None:
    monkeypatch.setattr(place, fail)
    found = read()
    assert isinstance(found, NotCanonical)
    assert found.code.endswith(".failed")
    assert not found.understood


def test_a_fault_is_a_deny_and_stands_in_the_log(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Where no rule speaks of what is opaque; and a line of the log says which values they were."""
    policy = world(READS + runs("cat"), tools={"shell": SHELL})
    decision = decide_in(policy, call("shell/run", {"command": "cat /workspace/logged"})).decision
    assert decision.effect is Effect.ALLOW
    log_faults(decision)
    assert not caplog.records
    monkeypatch.setitem(PROGRAMS, "cat", fail)
    faulty = call("shell/run", {"command": "cat /workspace/faulty"})
    decision = decide_in(policy, faulty).decision
    assert decision.effect is Effect.DENY
    with caplog.at_level(logging.ERROR):
        log_faults(decision)
    [record] = caplog.records
    assert record.__dict__["decision_id"] == decision.decision_id
    assert record.__dict__["count"] == 1
    assert "workspace" not in str(record.__dict__["values"])
    asking = world(EVERYTHING + OPAQUE, tools={"shell": SHELL})
    assert decide_in(asking, faulty).decision.effect is Effect.REQUIRE_APPROVAL

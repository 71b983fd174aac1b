"""Long shell lines, read by a process that can be killed: the same accesses, or an `Opaque`."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from authz.core.canonical.shell import analyse_shell, unread_line
from authz.core.canonical.shell.syntax import MAX_LINE_BYTES
from authz.core.decide import decide
from authz.core.lines import LONG_LINE_CHARACTERS, Line, long_lines
from authz.model.resource import Base, Volume
from authz.workers import shell_reader
from authz.workers.shell_reader import ShellReader
from authz.workers.shell_wire import decode_accesses, encode_accesses
from tests.support.world import call, facts, tool, tool_file, world
from tests.unit.core.canonical.test_shell import ASKED, UNDERSTOOD

BASE = Base(cwd="/w", root="/w", home="/home/agent")


def line(text: str, base: Base = BASE) -> Line:
    return Line(text=text, base=base, confined=False)


@pytest.fixture
async def reader() -> AsyncIterator[ShellReader]:
    made = ShellReader(deadline_seconds=20)
    await made.start()
    yield made
    await made.close()


@pytest.mark.parametrize("base", [BASE, Base(), Base(cwd="/W", volume=Volume(case_sensitive=False))])
def test_every_access_survives_the_way_back(base: Base) -> None:
    for text in [text for text, _ in (*UNDERSTOOD, *ASKED)]:
        found = analyse_shell(text, base)
        assert isinstance(found, tuple)
        assert decode_accesses(encode_accesses(found), line(text, base)) == found, text


async def test_a_process_reads_the_same(reader: ShellReader) -> None:
    for text in (
        "cat a && rm -r b",
        "git push https://git.example.com/a/b main",
        "make",
        "echo " + "x" * 3000,
    ):
        found = analyse_shell(text, BASE)
        assert await reader.read(line(text)) == found


async def test_many_at_once(reader: ShellReader) -> None:
    texts = [f"cat file-{number}" for number in range(40)]
    found = await asyncio.gather(*(reader.read(line(text)) for text in texts))
    assert found == [analyse_shell(text, BASE) for text in texts]


async def test_what_the_deadline_cuts_off_is_opaque_and_the_next_line_is_read() -> None:
    reader = ShellReader(deadline_seconds=0, processes=1)
    await reader.start()
    try:
        found = await reader.read(line("ls && cat /etc/shadow"))
        assert found[0].resource.entity.attributes["reason"] in ("shell.deadline", "shell.busy")
        # What a rule forbids, it forbids all the same.
        assert {"program:ls", "program:cat", "file:///etc/shadow"} <= {one.resource.uri for one in found}
        patient = reader
        patient._deadline = 20
        assert await patient.read(line("ls")) == analyse_shell("ls", BASE)
    finally:
        await reader.close()


async def test_a_process_that_dies_is_replaced(reader: ShellReader) -> None:
    for process in tuple(reader._living):
        process.kill()
        await process.wait()
    answers = [await reader.read(line("ls")) for _ in range(shell_reader.PROCESSES)]
    assert {answer[0].resource.entity.attributes["reason"] for answer in answers} == {"shell.failed"}
    assert await reader.read(line("ls")) == analyse_shell("ls", BASE)


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"{}",
        b"[1]",
        b'[{"verb":"read"}]',
        b'[{"verb":"allow","scope":"object","kind":"path","type":"File","id":"/x","value":"/x"}]',
        (
            b'[{"verb":"read","scope":"object","kind":"what","type":"File","id":"/x","value":"/x",'
            b'"pattern":null,"guessed":false,"changes":false,"known":null,"reason":null}]'
        ),
        *(
            b'[{"verb":"read","scope":"tree","kind":"path","type":"File","id":"/x","value":"/x",'
            b'"pattern":' + pattern + b',"guessed":false,"changes":false,"known":null,"reason":null}]'
            for pattern in (b"[]", b'"*"', b"[1]", b"{}")
        ),
    ],
)
def test_a_malformed_answer_is_none(answer: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - any of its kinds
        decode_accesses(answer, line("ls"))


def test_what_is_read_elsewhere_is_long_and_no_longer_than_what_is_read_at_all() -> None:
    assert LONG_LINE_CHARACTERS < MAX_LINE_BYTES


def test_every_long_line_of_a_list_is_read_elsewhere() -> None:
    tools = tool_file(
        "sh",
        tool(
            "all",
            [{"verb": "execute", "kind": "shell", "at": "/lines"}],
            {"lines": {"type": "array", "items": {"type": "string"}}},
        ),
    )
    ruleset = world(tools=tools)
    long = "echo " + "x" * LONG_LINE_CHARACTERS
    made = call("sh/all", lines=["ls", long, long + "y"])
    descriptor = ruleset.tools[("sh", "all")].descriptor
    found = list(long_lines(made, descriptor, ruleset.profiles["runtime"]))
    assert [one.text for one in found] == [long, long + "y"]
    read = {one: unread_line(one.text, one.base, "deadline") for one in found}
    decided = decide(made, replace(facts(ruleset), lines=read)).decision
    assert sum(access.resource.kind == "opaque" for access in decided.accesses) == 2

"""`authz capabilities verify`, `show`, `keygen`, `narrow`, `prove` and `packet`: without a service."""

import io
import json
import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from authz_client.capabilities import (
    BadKey,
    VerifiedProof,
    now_seconds,
    public_key,
    read_key,
    request_digest,
    verify_proof,
    write_key,
)

from authz.cli.main import main
from tests.clients.python.capabilities.golden import vectors as golden
from tests.clients.python.capabilities.making import (
    AUDIENCE,
    HOLDERS,
    ISSUER,
    KID,
    NOW,
    ROOT,
    accepted,
    child,
    entry,
    forge,
    opened,
    reforged,
    root,
)

WIDE = entry(
    actions=["read", "write"],
    locations=["file:///srv", "domain:example.com"],
    constraints={"amount": {"max": 9}},
    budget={"calls": 10, "cost": {"amount": "12.5", "currency": "EUR"}},
)
MAIL = entry(actions=["send"], locations=["domain:example.com"])
NARROW = entry(
    actions=["fs/edit:read"],
    locations=["file:///srv/docs"],
    constraints={"amount": {"max": 5}, "/x": {"one_of": [1, 2]}},
    budget={"calls": 3, "cost": {"amount": "2", "currency": "EUR"}},
)
CHAIN = child(root([WIDE, MAIL]), [NARROW], exp=NOW + 300, max_depth=2)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the files of a command are."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "chain.json").write_text(json.dumps(CHAIN))
    (tmp_path / "jwks.json").write_text(json.dumps({"keys": [ROOT.public.jwk | {"kid": KID}]}))
    for number, key in enumerate(HOLDERS[:4]):
        write_key(tmp_path / f"holder-{number}.json", key)
        (tmp_path / f"holder-{number}.pub").write_text(json.dumps(key.public.jwk))
    return tmp_path


def told(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> str:
    """Standard output of a command that ends with `code`."""
    assert main(["capabilities", *words]) == code
    return capsys.readouterr().out


def read_from(monkeypatch: pytest.MonkeyPatch, text: str | bytes) -> None:
    data = text if isinstance(text, bytes) else text.encode()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))


def test_verify_answers_every_line_in_order(capsys: pytest.CaptureFixture[str], folder: Path) -> None:
    """The golden chains, with bad lines between: each gets its verdict, and none ends the stream."""
    cases = golden()
    lines = []
    for case in cases:
        lines += [json.dumps(case["input"]).encode(), b"\xff{", b"", b"[" * 5_000]
    lines.append(b"x" * 2_000_000)
    (folder / "lines").write_bytes(b"\n".join(lines))
    answers = [json.loads(line) for line in told(capsys, "verify", "lines").splitlines()]
    bad = {"result": "reject", "reason": "line_invalid"}
    assert len(answers) == len(lines)
    assert answers[::4] == [*(case["expected"] for case in cases), bad]
    assert all(answer == bad for number, answer in enumerate(answers) if number % 4)


def test_verify_answers_before_it_reads_on() -> None:
    """A caller may wait for each answer: nothing is held back in a buffer, in or out."""
    good, *others = [case for case in golden() if case["expected"]["result"] == "accept"][:2]
    with subprocess.Popen(
        [sys.executable, "-m", "authz", "capabilities", "verify"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for question, expected in ((good["input"], "ok"), ({}, "line_invalid"), (others[0]["input"], "ok")):
            process.stdin.write(json.dumps(question).encode() + b"\n")
            process.stdin.flush()
            assert json.loads(process.stdout.readline())["reason"] == expected
        process.stdin.close()
        assert process.stdout.read() == b""
    assert process.returncode == 0


def test_verify_says_in_words_why(
    capsys: pytest.CaptureFixture[str], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    question = {"chain": list(CHAIN), "verify_at": NOW, "aud": "x", "iss": ISSUER, "keys": {}}
    read_from(monkeypatch, json.dumps(question | {"keys": {KID: ROOT.public.jwk}}))
    answer = json.loads(told(capsys, "verify", "--explain"))
    assert answer == {
        "result": "reject",
        "reason": "aud_mismatch",
        "link": 0,
        "component": None,
        "detail": "`aud` is not this audience",
    }


def test_show_says_what_each_hop_gave_up(capsys: pytest.CaptureFixture[str], folder: Path) -> None:
    shown = told(capsys, "show", "chain.json", "--now", str(NOW + 100))
    assert shown.startswith("UNVERIFIED: ")
    keys = [key.public.thumbprint[:12] for key in HOLDERS[:2]]
    links = [link.link_hash[:12] for link in accepted(CHAIN).links]
    assert shown.split("\n\n", 1)[1] == (
        f"coder-1  key {keys[0]}  link {links[0]}\n"
        "time     2027-01-15T08:00:00Z to 2027-01-15T08:10:00Z (8 min 20 s left)\n"
        "depth    0, 8 hand-offs left\n"
        "may      1. read, write\n"
        "in       file:///srv, domain:example.com\n"
        "when     amount: max 9\n"
        "budget   12.5 EUR, 10 calls\n"
        "may      2. send\n"
        "in       domain:example.com\n"
        "\n"
        f"+- sub-1  key {keys[1]}  link {links[1]}\n"
        "   time     2027-01-15T08:00:01Z to 2027-01-15T08:05:00Z (3 min 20 s left)\n"
        "   depth    1, 1 hand-off left\n"
        "   may      fs/edit:read\n"
        "   in       file:///srv/docs\n"
        "   when     /x: one_of [1, 2]\n"
        "   when     amount: max 5\n"
        "   budget   2 EUR, 3 calls\n"
        "   gave up  R read, write -> fs/edit:read\n"
        "            O file:///srv, domain:example.com -> file:///srv/docs\n"
        "            P /x: any value -> one_of [1, 2]\n"
        "            P /amount: max 9 -> max 5\n"
        "            P budget: 12.5 EUR, 10 calls -> 2 EUR, 3 calls\n"
        "            R all of: send in domain:example.com\n"
        "            E 5 min: 2027-01-15T08:10:00Z -> 2027-01-15T08:05:00Z\n"
        "            depth: links down to 8 -> 2\n"
    )


def test_show_as_json_has_it_whole(capsys: pytest.CaptureFixture[str], folder: Path) -> None:
    document = json.loads(told(capsys, "show", "chain.json", "--json", "--now", "2027-01-15T08:01:40Z"))
    assert (document["verdict"], document["now"], document["subject"]) == ("unverified", NOW + 100, "ada")
    first, second = document["links"]
    assert first["gave_up"] is None
    assert second["gave_up"]["expiry"] == {"from": NOW + 600, "to": NOW + 300}
    assert second["gave_up"]["depth"] == {"from": 8, "to": 2}
    assert second["gave_up"]["entries"] == [MAIL]
    assert (second["holder"], second["seconds_left"]) == (HOLDERS[1].public.thumbprint, 200)


@pytest.mark.parametrize(
    "text",
    [
        "\n".join(CHAIN),
        "  " + "\t ".join(CHAIN) + "\n",
        json.dumps(CHAIN),
        json.dumps({"capability": CHAIN}),
        json.dumps({"chain": CHAIN}),
    ],
)
def test_show_takes_a_chain_as_it_comes(
    text: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    read_from(monkeypatch, text)
    assert len(json.loads(told(capsys, "show", "--json"))["links"]) == 2


VERIFYING = ("--jwks", "jwks.json", "--issuer", ISSUER, "--audience", AUDIENCE)


def test_show_is_honest_about_what_it_knows(capsys: pytest.CaptureFixture[str], folder: Path) -> None:
    at = ("--now", str(NOW + 100))
    verified = told(capsys, "show", "chain.json", *VERIFYING, *at)
    assert verified.startswith("VERIFIED at 2027-01-15T08:01:40Z; revocations were not looked at\n")
    (folder / "revoked.json").write_text('{"links": [], "jtis": ["j-0"], "holders": []}')
    (folder / "none.json").write_text('{"links": [], "jtis": [], "holders": []}')
    checked = told(capsys, "show", "chain.json", *VERIFYING, *at, "--revocations", "none.json")
    assert checked.startswith("VERIFIED at 2027-01-15T08:01:40Z\n")
    for words, expected in (
        (("--revocations", "revoked.json", *at), "revoked_jti (link 0)"),
        (("--now", str(NOW + 300)), "expired (link 1)"),
        (("--max-lifetime", "599", *at), "lifetime_too_long (link 0)"),
        (("--issuer", "https://other.example.com", *at), "iss_mismatch (link 0)"),
    ):
        refused = told(capsys, "show", "chain.json", *VERIFYING, *words, code=1)
        assert refused.startswith(f"REFUSED: {expected}: ")
    assert "EXPIRED 1 min ago" in told(capsys, "show", "chain.json", "--now", str(NOW + 360))


@pytest.mark.parametrize(
    "words",
    [
        ("--jwks", "jwks.json"),
        ("--issuer", ISSUER, "--audience", AUDIENCE),
        ("--revocations", "jwks.json"),
        (*VERIFYING, "--revocations", "jwks.json"),
        ("--jwks", "chain.json", "--issuer", ISSUER, "--audience", AUDIENCE),
        ("--jwks", "no-such-file", "--issuer", ISSUER, "--audience", AUDIENCE),
    ],
)
def test_show_never_verifies_by_half(
    words: tuple[str, ...], folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert told(capsys, "show", "chain.json", *words, code=2) == ""


def test_a_link_that_is_wider_or_not_signed_is_refused_without_any_key(
    capsys: pytest.CaptureFixture[str], folder: Path
) -> None:
    """What needs no key of the issuer is told without one: nobody is shown a forged tree as a fair claim."""
    wide = reforged(CHAIN, authorization_details=[entry(actions=["administer"], locations=["file:///"])])
    stranger = (CHAIN[0], forge(*opened(CHAIN[1]), HOLDERS[5]))
    for chain, reason in (
        (wide, "rights_widened R (link 1)"),
        (stranger, "signature_invalid (link 1)"),
        (CHAIN[1:], "kid_missing (link 0)"),
        ((CHAIN[0], CHAIN[0]), "kid_refused (link 1)"),
        ((CHAIN[0], "x"), "token_parts (link 1)"),
    ):
        (folder / "chain.json").write_text(json.dumps(chain))
        shown = told(capsys, "show", "chain.json", code=1)
        assert shown.startswith(f"REFUSED: {reason}: "), shown
        assert f"REFUSED  {reason}" in shown
        assert "gave up" not in shown
    (folder / "chain.json").write_text("[]")
    assert told(capsys, "show", "chain.json", code=1) == "REFUSED: the chain holds no link\n"


def test_show_escapes_what_could_deceive(capsys: pytest.CaptureFixture[str], folder: Path) -> None:
    name = "a\u202e\u2066\u200b"
    chain = root([entry(constraints={"x\u202e": {"equals": "\u202e\x1b[2J"}})], agent=name, subject="s\u202e")
    (folder / "chain.json").write_text(json.dumps(chain))
    shown = told(capsys, "show", "chain.json")
    assert all(char.isprintable() or char == "\n" for char in shown)
    assert r"a\u202e\u2066\u200b" in shown
    raw = told(capsys, "show", "chain.json", "--json")
    assert raw.isascii()
    assert json.loads(raw)["links"][0]["agent"] == name


def test_keygen_makes_a_key_that_nobody_else_can_read(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    for name in ("k.json", "k.pem"):
        assert main(["capabilities", "keygen", str(tmp_path / name)]) == 0
        printed = capsys.readouterr()
        key = read_key(tmp_path / name)
        assert public_key(json.loads(printed.out)) == key.public
        assert key.public.thumbprint in printed.err
        assert key.private_jwk["d"] not in printed.out + printed.err
        assert stat.S_IMODE((tmp_path / name).stat().st_mode) == 0o600
        before = (tmp_path / name).read_bytes()
        assert main(["capabilities", "keygen", str(tmp_path / name)]) == 2
        assert "never written over" in capsys.readouterr().err
        assert (tmp_path / name).read_bytes() == before


def test_a_pipe_is_no_key_and_nobody_waits_for_it(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "k.json", 0o600)
    with pytest.raises(BadKey, match="no regular file"):
        read_key(tmp_path / "k.json")


def live_chain(folder: Path, **changes: Any) -> tuple[str, ...]:
    """A chain that the clock of the commands finds alive."""
    now = now_seconds()
    chain = root([WIDE, MAIL], iat=now, exp=now + 600, **changes)
    (folder / "chain.json").write_text(json.dumps(chain))
    return chain


def narrowed(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> Any:
    options = ("--key", "holder-0.json", "--holder", "holder-1.pub")
    out = told(capsys, "narrow", "chain.json", *options, *words, code=code)
    return json.loads(out) if code == 0 else out


def test_narrow_signs_what_verifies(capsys: pytest.CaptureFixture[str], folder: Path) -> None:
    chain = live_chain(folder)
    longer = narrowed(
        capsys,
        *("--agent", "sub-1", "--action", "fs/edit:read", "--location", "file:///srv/docs"),
        *("--constraints", '{"amount": {"max": 1}}', "--max-depth", "1", "--expires-in", "60"),
        *("--budget", '{"calls": 1, "cost": {"amount": "1", "currency": "EUR"}}'),
    )
    assert tuple(longer[:1]) == chain
    found = accepted(longer, now=now_seconds())
    assert found.agents == ("coder-1", "sub-1")
    assert (found.max_depth, found.leaf.holder) == (1, HOLDERS[1].public)
    assert found.expires_at <= now_seconds() + 60
    assert [right.text for right in found.entries[0].rights] == ["fs/edit:read"]
    same = accepted(narrowed(capsys), now=now_seconds())
    assert [item.as_json for item in same.entries] == [WIDE, MAIL]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("--action", "delete", "--location", "file:///srv"), "R would be wider"),
        (("--action", "send", "--location", "file:///srv"), "O would be wider"),
        (("--action", "read", "--location", "file:///srv"), "P would be wider"),
        (("--expires-in", "601"), "E would be wider"),
        (("--max-depth", "9"), "max_depth_raised"),
        (("--key", "holder-2.json"), "holder_mismatch"),
        (("--action", "*", "--location", "file:///srv"), "action_invalid"),
    ],
)
def test_narrow_refuses_what_is_wider(
    words: tuple[str, ...], expected: str, capsys: pytest.CaptureFixture[str], folder: Path
) -> None:
    live_chain(folder)
    options = ["--key", "holder-0.json", "--holder", "holder-1.pub", *words]
    assert main(["capabilities", "narrow", "chain.json", *options]) == 1
    printed = capsys.readouterr()
    assert printed.out == ""
    assert expected in printed.err


@pytest.mark.parametrize(
    "words",
    [
        ("--location", "file:///srv"),
        ("--action", "read"),
        ("--action", "read", "--location", "file:///srv", "--budget", '{"calls": 1, "calls": 2}'),
        ("--entries", "holder-0.pub"),
        ("--packet", "holder-0.pub"),
        ("--expires-at", "2020-01-01T00:00:00Z"),
        ("--expires-in", "0"),
        ("--holder", "holder-1.json"),
        ("--key", "holder-0.pub"),
        ("--key", "no-such-file"),
    ],
)
def test_narrow_reads_no_half_of_anything(
    words: tuple[str, ...], capsys: pytest.CaptureFixture[str], folder: Path
) -> None:
    live_chain(folder)
    assert narrowed(capsys, *words, code=2) == ""


def packet(**changes: Any) -> dict[str, Any]:
    return {
        "objective": "sum it up",
        "inputs": [{"uri": "file:///srv/docs", "rights": ["read"], "constraints": {"amount": {"max": 9}}}],
        "output_contract": {"description": "one page"},
        "budget": {"calls": 4, "cost": {"amount": "1", "currency": "EUR"}},
        "completion": {"condition": "the page is written", "deadline": now_seconds() + 120},
        "child_trace_id": "t-2",
        **changes,
    }


def test_a_packet_becomes_the_narrowest_capability(capsys: pytest.CaptureFixture[str], folder: Path) -> None:
    live_chain(folder)
    task = packet(objective="sum\u202e it up")
    (folder / "packet.json").write_text(json.dumps(task))
    yields = json.loads(told(capsys, "packet", "packet.json", "--json"))
    assert yields == {
        "authorization_details": [
            entry(
                actions=["read"],
                locations=["file:///srv/docs"],
                constraints={"amount": {"max": 9}},
                budget={"calls": 4, "cost": {"amount": "1", "currency": "EUR"}},
            )
        ],
        "exp": task["completion"]["deadline"],
        "child_trace_id": "t-2",
    }
    text = told(capsys, "packet", "packet.json")
    assert text.startswith("task     sum\\u202e it up\nuntil    ")
    assert "may      read\nin       file:///srv/docs\nwhen     amount: max 9\n" in text
    found = accepted(narrowed(capsys, "--packet", "packet.json"), now=now_seconds())
    assert [item.as_json for item in found.entries] == yields["authorization_details"]
    assert found.expires_at == yields["exp"]
    assert narrowed(capsys, "--packet", "packet.json", "--expires-in", "1", code=2) == ""


def test_a_packet_that_grants_nothing(capsys: pytest.CaptureFixture[str], folder: Path) -> None:
    (folder / "packet.json").write_text(json.dumps(packet(inputs=[])))
    assert told(capsys, "packet", "packet.json", code=1) == ""
    (folder / "packet.json").write_text(json.dumps(packet(priority="high")))
    assert told(capsys, "packet", "packet.json", code=2) == ""


BODY = {"subject": {"agent": "sub-1"}, "arguments": {"path": "/srv/a", "n": 1}}


def test_prove_is_for_this_body_and_this_leaf(
    capsys: pytest.CaptureFixture[str], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "body.json").write_text(json.dumps(BODY))
    options = ("prove", "chain.json", "--key", "holder-1.json")
    proof = told(capsys, *options, "--body", "body.json").strip()

    def check(token: str, body: Any) -> Any:
        return verify_proof(
            token,
            chain=accepted(CHAIN),
            audience=AUDIENCE,
            request_digest=request_digest(body),
            now=now_seconds(),
        )

    assert isinstance(check(proof, BODY), VerifiedProof)
    assert check(proof, BODY | {"arguments": {"path": "/etc"}}).reason == "request_mismatch"
    read_from(monkeypatch, json.dumps(BODY))
    sent = json.loads(told(capsys, *options, "--attach"))
    assert {name: sent[name] for name in BODY} == BODY
    assert sent["capability"] == list(CHAIN)
    assert isinstance(check(sent["proof"], sent), VerifiedProof)
    assert sent["proof"] != proof
    assert told(capsys, "prove", "chain.json", "--key", "holder-0.json", "--body", "body.json", code=1) == ""
    assert told(capsys, "prove", "-", "--key", "holder-1.json", code=2) == ""
    (folder / "body.json").write_text("[]")
    assert told(capsys, *options, "--body", "body.json", code=2) == ""

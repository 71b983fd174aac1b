"""One test for each published advisory that the public list names: what went wrong there is refused here.

Links on a real file system, and a file that is swapped under a decision, are the client's: those ids point to
its tests, which must exist.
"""

import hashlib
import hmac
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from authz_client.capabilities import Reason
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from authz.core import strict_json
from authz.core.decide import decide
from authz.errors import MalformedInput
from authz.model.decision import Effect
from authz.model.resource import ResolvedPath
from tests.clients.python.capabilities import making
from tests.support.shared import vectors
from tests.support.world import CREDENTIALS, call, decide_in, facts, tool, tool_file, world, yes_to

pytestmark = pytest.mark.external

Input = dict[str, Any]
CLIENT = Path(__file__).resolve().parents[1] / "clients" / "python"
FOLDED = CREDENTIALS.replace(
    "    resolves: true\n", "    resolves: true\n    volume: {case_sensitive: false}\n"
)


def hmac_token(key: bytes) -> str:
    """A token that is authenticated by a MAC under something public."""
    head = making.base64url(b'{"alg":"HS256","typ":"cap+jwt","kid":"root-1"}')
    body = making.base64url(b'{"iss":"https://issuer.example.com"}')
    mac = hmac.new(key, f"{head}.{body}".encode(), hashlib.sha256).digest()
    return f"{head}.{body}.{making.base64url(mac)}"


def public(form: PublicFormat, encoding: Encoding) -> bytes:
    return making.ROOT.private.public_key().public_bytes(encoding, form)


def reads(scope: str, path: str, *, rules: str = "", **more: Any) -> Effect:
    permit = f'@id("scope") permit (principal, action, resource in Directory::"{scope}");'
    ruleset = world(permit + rules, credentials=more.pop("credentials", CREDENTIALS))
    return decide_in(ruleset, call("fs/file_read", path=path, **more)).decision.effect


def key_confusion(given: Input) -> None:
    raw = public(PublicFormat.OpenSSH, Encoding.OpenSSH)
    assert making.reason((hmac_token(raw),)) is Reason.ALG_REFUSED


def jwk_as_secret(given: Input) -> None:
    raw = json.dumps(making.ROOT.public.jwk).encode()
    assert making.reason((hmac_token(raw),)) is Reason.ALG_REFUSED


def der_as_secret(given: Input) -> None:
    raw = public(PublicFormat.SubjectPublicKeyInfo, Encoding.DER)
    assert making.reason((hmac_token(raw),)) is Reason.ALG_REFUSED


def critical_header(given: Input) -> None:
    header, claims = making.opened(making.root()[0])
    forged = making.forge({**header, **given["header"]}, claims, making.ROOT)
    assert making.reason((forged,)) is Reason.HEADER_UNKNOWN


def issuer_in_part(given: Input) -> None:
    header, claims = making.opened(making.root()[0])
    forged = making.forge(header, {**claims, "iss": claims["iss"][:-4]}, making.ROOT)
    assert making.reason((forged,)) is Reason.ISS_MISMATCH


def sibling(given: Input) -> None:
    assert reads(given["scope"], given["path"]) is Effect.DENY
    assert reads(given["scope"], f"{given['scope']}/x") is Effect.ALLOW


def link_in_scope(given: Input) -> None:
    target = ResolvedPath(path="/etc/hosts", device=1, inode=2)
    assert reads(given["scope"], given["path"], resolved={"/path": target}) is Effect.DENY


def letter_case(given: Input) -> None:
    forbid = f'@id("no") forbid (principal, action, resource == File::"{given["deny"]}");'
    assert reads("/w", given["path"], rules=forbid, credentials=FOLDED) is Effect.DENY


def link_to_denied(given: Input) -> None:
    forbid = f'@id("no") forbid (principal, action, resource == File::"{given["deny"]}");'
    target = ResolvedPath(path=given["deny"], device=1, inode=2)
    assert reads("/w", given["path"], rules=forbid, resolved={"/path": target}) is Effect.DENY


def failed_canonicalization(given: Input) -> None:
    # Here `..` is a matter of spelling, so this one has a canonical form; what has none is never allowed.
    for path in ("a\x00b", "~root/x", "x" * 70_000):
        assert reads("/", path) is not Effect.ALLOW, path


def own_directory(given: Input) -> None:
    # A directory that the caller may not declare is no base: what is relative to it is unknown.
    assert reads("/w", given["tool_args"]["path"], cwd=given["tool_args"]["cwd"]) is not Effect.ALLOW


def blank_before_url(given: Input) -> None:
    permit = '@id("all") permit (principal, action, resource);'
    forbid = f'@id("no") forbid (principal, action, resource in Domain::"{given["deny_host"]}");'
    decided = decide_in(world(permit + forbid), call("web/fetch", url=given["url"])).decision
    assert decided.effect is Effect.DENY


def names_by_case(given: Input) -> None:
    assert strict_json.loads(given["json_text"].encode()) == {"method": "tools/list", "Method": "tools/call"}
    # Two names are two members; the second is none that a call has.
    decided = decide_in(world(), call("fs/file_read", {"path": "/w/a", "Path": "/etc/shadow"})).decision
    assert (decided.effect, decided.stage.value) == (Effect.DENY, "schema")


def refused_json(given: Input) -> None:
    with pytest.raises(MalformedInput):
        strict_json.loads(given["json_text"].encode())


def minus_zero(given: Input) -> None:
    tools = tool_file(
        "n",
        tool(
            "t",
            [{"verb": "read", "kind": "path", "at": "/p"}],
            {"p": {"type": "string"}, "x": {"type": "number"}},
        ),
    )
    ruleset = world(tools=tools)
    prints = {
        decide_in(ruleset, call("n/t", {"p": "/w/a", **json.loads(given[name])})).decision.fingerprint
        for name in ("call_a", "call_b")
    }
    assert len(prints) == 1
    assert None not in prints


def approval_of_other_arguments(given: Input) -> None:
    rules = (
        '@id("p") permit (principal, action, resource);'
        '@id("ask") @requires("approval") forbid (principal, action, resource);'
    )
    tools = tool_file(
        "mcp", tool("run", [{"verb": "execute", "kind": "shell", "at": "/cmd"}], {"cmd": {"type": "string"}})
    )
    ruleset = world(rules, tools=tools)
    approved, called = (call("mcp/run", given[name]["args"]) for name in ("approved", "called"))
    known = replace(facts(ruleset), approvals=yes_to(ruleset, approved))
    assert decide(approved, known).decision.effect is Effect.ALLOW
    assert decide(called, known).decision.effect is Effect.REQUIRE_APPROVAL


def swapped_under_a_decision(given: Input) -> None:
    assert "thread" in (CLIENT / "test_files_race.py").read_text(encoding="utf-8")


JUDGES: dict[str, Callable[[Input], None]] = {
    "adv-01-key-confusion": key_confusion,
    "adv-02-jwk-json-as-secret": jwk_as_secret,
    "adv-04-crit": critical_header,
    "adv-05-der-secret": der_as_secret,
    "adv-07-iss-partial": issuer_in_part,
    "adv-08-path-sibling": sibling,
    "adv-09-mcp-prefix": sibling,
    "adv-10-mcp-symlink": link_in_scope,
    "adv-11-case": letter_case,
    "adv-12-deny-symlink": link_to_denied,
    "adv-13-failed-canon": failed_canonicalization,
    "adv-14-cwd": own_directory,
    "adv-15-url-blank": blank_before_url,
    "adv-17-json-case": names_by_case,
    "adv-18-json-dup": refused_json,
    "adv-22-minus-zero": minus_zero,
    "adv-23-nan": refused_json,
    "adv-26-toctou": swapped_under_a_decision,
    "adv-27-approval-args": approval_of_other_arguments,
}


@pytest.mark.parametrize("name", JUDGES)
def test_advisory(name: str) -> None:
    given = next(vector for vector in vectors("advisory_cases") if vector["id"] == name)
    JUDGES[name](given["input"])


def test_every_advisory_has_its_test() -> None:
    assert {vector["id"] for vector in vectors("advisory_cases")} == set(JUDGES)

"""The two implementations of the token profile, asked the same: they take, refuse, contain and sign alike."""

import json
from collections.abc import Iterator, Mapping
from enum import StrEnum
from pathlib import Path
from typing import Any

import authz_client
import pytest
from authz_client import capabilities as cap
from authz_client import errors, outcomes, refusals
from authz_client.capabilities.digests import canonical_json
from authz_client.capabilities.entries import fit
from authz_client.capabilities.objects import parse_object
from authz_client.capabilities.rights import parse_right
from authz_client.capabilities.strict_json import NotStrictJson, loads
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.clients.python.capabilities import generated, making
from tests.clients.python.capabilities.golden_tables import CANONICAL, CONTAINED, NOT_CANONICAL, OUTSIDE
from tests.clients.python.capabilities.test_objects import URIS
from tests.clients.python.capabilities.test_strict_json import PIECES, VALUES
from tests.clients.typescript.noding import Answering
from tests.support.shared import vectors

often = settings(max_examples=400, deadline=None)
seldom = settings(often, max_examples=150)


@pytest.fixture(scope="module")
def node() -> Iterator[Answering]:
    answering = Answering(Path(__file__).with_name("agree.mjs"))
    yield answering
    answering.close()


def same_object(node: Answering, uri: str) -> None:
    found = parse_object(uri)
    assert node.ask("object", uri=uri) == (found and [found.key, sorted(found.above)]), uri


@given(URIS)
@often
def test_generated_objects(node: Answering, uri: str) -> None:
    same_object(node, uri)


def test_known_objects(node: Answering) -> None:
    pairs = [uri for _, *pair in (*CONTAINED, *OUTSIDE) for uri in pair]
    for uri in (*CANONICAL, *NOT_CANONICAL, *pairs):
        same_object(node, uri)


@pytest.mark.external
def test_hosts_and_paths_of_the_public_vectors(node: Answering) -> None:
    cases = [*vectors("idna_uts46"), *vectors("path_traversal_payloads")]
    texts = {text for case in cases for text in case["input"].values() if isinstance(text, str)}
    assert len(texts) > 500
    for text in texts:
        for prefix, end in (("host:", ""), ("https://", "/"), ("file://", ""), ("https://a.example/", "")):
            uri = f"{prefix}{text}{end}".encode("utf-8", "replace").decode()
            if text != JOINED:
                same_object(node, uri)


JOINED = "xn--ab-j1t"
"""With a zero width joiner where none may be (UTS #46, CheckJoiners): Node's URL parser refuses it."""


@given(st.sampled_from(generated.RIGHTS) | st.text("abz/:.-_ *", max_size=12) | st.text(max_size=8))
@often
def test_rights(node: Answering, text: str) -> None:
    found = parse_right(text.encode("utf-8", "replace").decode())
    asked = node.ask("right", text=text.encode("utf-8", "replace").decode())
    assert asked == (found and len(found.above))


def canonical(data: bytes) -> str | None:
    try:
        return canonical_json(loads(data)).decode()
    except (NotStrictJson, ValueError):
        return None


@given(
    VALUES.map(json.dumps).map(str.encode)
    | st.binary(max_size=12)
    | st.lists(PIECES, max_size=8).map("".join).map(str.encode)
)
@often
def test_json_in_and_out(node: Answering, data: bytes) -> None:
    assert node.ask("json", hex=data.hex()) == canonical(data)


def told(found: Any) -> Any:
    if isinstance(found, cap.Refusal):
        component = found.component.value if found.component is not None else None
        return [found.reason.value, component, found.link]
    return list(found)


@given(st.data())
@often
def test_narrowings_and_widenings(node: Answering, data: st.DataObject) -> None:
    parents = data.draw(st.lists(generated.entries(), min_size=1, max_size=2))
    child = st.one_of(generated.entries(), generated.narrowings(parents[0]))
    children = data.draw(st.lists(child, min_size=1, max_size=2))
    mine, theirs = cap.parse_entries(children), cap.parse_entries(parents)
    if isinstance(mine, cap.Refusal) or isinstance(theirs, cap.Refusal):
        expected = [told(found) for found in (mine, theirs) if isinstance(found, cap.Refusal)]
    else:
        expected = told(fit(mine, theirs))
    asked = node.ask("fit", children=json.dumps(children), parents=json.dumps(parents))
    assert asked == expected, (children, parents)


@given(st.data())
@often
def test_calls(node: Answering, data: st.DataObject) -> None:
    details = data.draw(st.lists(generated.entries(), min_size=1, max_size=2))
    access = st.fixed_dictionaries(
        {
            "verb": st.sampled_from(["read", "write", "send"]),
            "uri": st.sampled_from([*generated.LOCATIONS, "opaque:x"]),
        },
        optional={"argument": st.sampled_from(["/x", "/y", "/y/0"])},
    )
    tool = data.draw(st.sampled_from(["fs/edit", "web/get", "edit", "fs/edit:write"]))
    accesses = data.draw(st.lists(access, max_size=2))
    arguments = data.draw(st.dictionaries(st.sampled_from(["x", "y"]), generated.SCALARS))
    call = cap.ToolCall(
        tool=tool,
        accesses=tuple(cap.CallAccess(**access) for access in accesses),
        arguments=loads(json.dumps(arguments).encode()),
    )
    entries = cap.parse_entries(details)
    expected = told(entries if isinstance(entries, cap.Refusal) else cap.check_call(entries, call))
    asked = {"tool": tool, "accesses": accesses, "arguments": arguments}
    assert node.ask("call", entries=json.dumps(details), call=json.dumps(asked)) == expected


@given(st.data())
@seldom
def test_links_are_signed_alike_byte_for_byte(node: Answering, data: st.DataObject) -> None:
    details = data.draw(st.lists(generated.entries(), min_size=1, max_size=2))
    narrower = data.draw(st.none() | st.tuples(st.one_of(*map(generated.narrowings, details))).map(list))
    holder, below = making.HOLDERS[:2]
    claims: dict[str, Any] = {"kid": making.KID, "issuer": making.ISSUER, "audience": making.AUDIENCE}
    claims |= {"subject": "ada", "agent": "coder-é", "jti": "j-0", "iat": making.NOW, "exp": making.NOW + 9}
    try:
        root = cap.issue_root(making.ROOT, **claims, holder=holder.public, entries=details, max_depth=2)
    except cap.Refused:
        return
    assert root == node.ask(
        "root",
        **claims,
        maxDepth=2,
        jwk=making.ROOT.private_jwk,
        holder=holder.public.jwk,
        entries=json.dumps(details),
    )
    child: dict[str, Any] = {"agent": "sub-1", "jti": "j-1", "iat": making.NOW}
    asked = node.ask(
        "narrow",
        chain=[root],
        jwk=holder.private_jwk,
        holder=below.public.jwk,
        entries=narrower and json.dumps(narrower),
        **child,
    )
    try:
        chain = cap.narrow((root,), holder, holder=below.public, entries=narrower, **child)
    except cap.Refused as refused:
        expected = told(refused.refusal)
    else:
        expected = list(chain)
    assert asked == expected


def test_proofs_are_signed_alike_byte_for_byte(node: Answering) -> None:
    chain = making.child(making.root())
    digest = cap.request_digest({"arguments": {"b": 1.5, "a": "é"}, "proof": "x"})
    claims: dict[str, Any] = {"audience": making.AUDIENCE, "jti": "p-1", "iat": making.NOW}
    key = making.HOLDERS[1]
    asked = node.ask("prove", leaf=chain[-1], jwk=key.private_jwk, requestDigest=digest, **claims)
    assert asked == cap.prove(chain[-1], key, request_digest=digest, **claims)


def test_the_codes_are_the_same(node: Answering) -> None:
    kinds: list[type[StrEnum]] = [cap.Reason, authz_client.Effect, authz_client.Obligation]
    kinds += [outcomes.OperationState, outcomes.Outcome, outcomes.ApprovalState]
    assert [set(values) for values in node.ask("codes")] == [{code.value for code in kind} for kind in kinds]


def test_refusals_have_the_same_names(node: Answering) -> None:
    mine = set(node.ask("names")[0])
    for module in (errors, refusals):
        theirs = {name for name, kind in vars(module).items() if is_own_error(kind, module.__name__)}
        # Of files, of fetching, and their own ways to refuse: only in Python.
        assert {
            name for name in theirs if not issubclass(vars(module)[name], errors.ExecutionRefused)
        } <= mine


def is_own_error(kind: Any, module: str) -> bool:
    return isinstance(kind, type) and issubclass(kind, Exception) and kind.__module__ == module


def test_the_profile_has_the_names_of_python(node: Answering) -> None:
    """What is missing there: task packets, files of keys, the signing of tickets, and PEM."""
    missing: Mapping[str, set[str]] = {
        "packets": {"Completion", "OutputContract", "TaskPacket", "TaskResource", "parse_packet"},
        "keys": {"read_key", "write_key", "signing_key", "signing_key_from_pem", "sign_ticket"},
        "values": {"allows", "implies", "chain_digest", "parse_budget"},
        "types": {"Ancestor", "Budget", "CallAccess", "Component", "Debit", "Entry", "Revocations", "Signer"},
        "more types": {"Ticket", "ToolCall", "VerifiedChain", "VerifiedLink", "VerifiedProof", "Widening"},
    }
    theirs = set(cap.__all__) - set().union(*missing.values())
    assert {camel(name) for name in theirs} <= set(node.ask("names")[1])


def camel(name: str) -> str:
    if name[0].isupper():
        return name
    first, *rest = name.split("_")
    return first + "".join(part.capitalize() for part in rest)

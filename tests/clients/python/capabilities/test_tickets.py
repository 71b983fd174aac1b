"""Tickets: verified offline by an endpoint; each thing that is wrong has its own code."""

from typing import Any

import pytest
from authz_client.capabilities import (
    NOTHING_REVOKED,
    Reason,
    Refusal,
    Refused,
    Ticket,
    published_keys,
    sign_ticket,
    verify_ticket,
)

from tests.clients.python.capabilities.making import (
    HOLDERS,
    ISSUER,
    KID,
    NOW,
    ROOT,
    accepted,
    child,
    forge,
    key,
    opened,
    revoking,
    root,
)

SERVER = "https://files.example.com"
ARGUMENTS = {"path": "/srv/work/a", "size": 10}
CHAIN = accepted(child(root()))
JWKS = published_keys({"keys": [{**ROOT.public.jwk, "kid": KID, "use": "sig", "alg": "EdDSA"}]})


def ticket(**changes: Any) -> str:
    given: dict[str, Any] = {
        "kid": KID,
        "issuer": ISSUER,
        "audience": SERVER,
        "subject": "ada",
        "agent": "sub-1",
        "tool": "fs/file_read",
        "fingerprint": "sha256:aa",
        "arguments": ARGUMENTS,
        "decision_id": "d-1",
        "ancestors": CHAIN.handles,
        "holder_thumbprint": CHAIN.leaf.holder.thumbprint,
        "jti": "t-1",
        "iat": NOW,
        "exp": NOW + 60,
    }
    return sign_ticket(ROOT, **(given | changes))


def check(token: Any, **changes: Any) -> Ticket | Refusal:
    given: dict[str, Any] = {
        "jwks": JWKS,
        "issuer": ISSUER,
        "audience": SERVER,
        "fingerprint": "sha256:aa",
        "arguments": ARGUMENTS,
        "holder_thumbprint": HOLDERS[1].public.thumbprint,
        "now": NOW + 5,
        "revoked": NOTHING_REVOKED,
    }
    return verify_ticket(token, **(given | changes))


def why(token: Any, **changes: Any) -> Reason:
    found = check(token, **changes)
    assert isinstance(found, Refusal), "the ticket was accepted"
    return found.reason


def test_a_ticket() -> None:
    found = check(ticket())
    assert isinstance(found, Ticket)
    assert (found.token.sub, found.token.agent, found.tool, found.decision_id) == (
        "ada",
        "sub-1",
        "fs/file_read",
        "d-1",
    )
    assert found.ancestors == CHAIN.handles


def test_a_ticket_without_a_capability() -> None:
    free = ticket(holder_thumbprint=None, ancestors=(), agent=None)
    assert isinstance(check(free, holder_thumbprint=None), Ticket)
    assert why(free) is Reason.HOLDER_MISMATCH


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"audience": "https://other.example.com"}, Reason.AUD_MISMATCH),
        ({"issuer": "https://other.example.com"}, Reason.ISS_MISMATCH),
        ({"fingerprint": "sha256:bb"}, Reason.FINGERPRINT_MISMATCH),
        ({"arguments": {**ARGUMENTS, "size": 11}}, Reason.ARGUMENTS_MISMATCH),
        ({"arguments": {**ARGUMENTS, "more": None}}, Reason.ARGUMENTS_MISMATCH),
        ({"arguments": {"path": float("nan")}}, Reason.ARGUMENTS_MISMATCH),
        ({"holder_thumbprint": HOLDERS[0].public.thumbprint}, Reason.HOLDER_MISMATCH),
        ({"holder_thumbprint": None}, Reason.HOLDER_MISMATCH),
        ({"now": NOW + 60}, Reason.EXPIRED),
        ({"now": NOW - 61}, Reason.IAT_IN_FUTURE),
        ({"jwks": {}}, Reason.KID_UNKNOWN),
        ({"jwks": {KID: key("another").public}}, Reason.SIGNATURE_INVALID),
        ({"max_lifetime_seconds": 59}, Reason.LIFETIME_TOO_LONG),
        ({"revoked": revoking(jtis=["t-1"])}, Reason.REVOKED_JTI),
        ({"revoked": revoking(jtis=["j-0"])}, Reason.REVOKED_JTI),
        ({"revoked": revoking(links=[CHAIN.links[0].link_hash])}, Reason.REVOKED_LINK),
        ({"revoked": revoking(holders=[HOLDERS[0].public.thumbprint])}, Reason.REVOKED_HOLDER),
        ({"revoked": revoking(holders=[HOLDERS[1].public.thumbprint])}, Reason.REVOKED_HOLDER),
    ],
)
def test_each_mismatch_has_its_own_code(changes: Any, expected: Reason) -> None:
    assert why(ticket(), **changes) is expected


def test_the_order_of_members_does_not_matter() -> None:
    assert isinstance(check(ticket(), arguments={"size": 10.0, "path": "/srv/work/a"}), Ticket)


@pytest.mark.parametrize(
    ("header", "claims", "expected"),
    [
        ({"typ": "cap+jwt"}, {}, Reason.TYP_REFUSED),
        ({"alg": "ES256"}, {}, Reason.ALG_REFUSED),
        ({"jku": "https://e.example"}, {}, Reason.HEADER_UNKNOWN),
        ({}, {"scope": "all"}, Reason.CLAIM_UNKNOWN),
        ({}, {"aud": [SERVER]}, Reason.AUD_INVALID),
        ({}, {"exp": str(NOW + 60)}, Reason.EXP_INVALID),
        ({}, {"nbf": NOW + 66}, Reason.NOT_YET_VALID),
        ({}, {"cnf": {"jwk": {}}}, Reason.CNF_INVALID),
        ({}, {"cnf": None}, Reason.CNF_INVALID),
        ({}, {"anc": []}, Reason.ANC_INVALID),
        ({}, {"tool": ""}, Reason.TICKET_CLAIM_INVALID),
        ({}, {"fingerprint": None}, Reason.TICKET_CLAIM_INVALID),
        ({}, {"arguments_digest": 1}, Reason.TICKET_CLAIM_INVALID),
        ({}, {"decision_id": []}, Reason.TICKET_CLAIM_INVALID),
    ],
)
def test_the_profile(header: Any, claims: Any, expected: Reason) -> None:
    good_header, good = opened(ticket())
    assert why(forge(good_header | header, good | claims, ROOT)) is expected


def test_a_link_is_no_ticket_and_a_ticket_no_link() -> None:
    assert why(root()[0]) is Reason.TYP_REFUSED
    assert why(forge(opened(ticket())[0], opened(root()[0])[1], ROOT)) is Reason.CLAIM_UNKNOWN


def test_nothing_is_signed_that_would_be_refused() -> None:
    with pytest.raises(Refused, match="ticket_claim_invalid"):
        ticket(fingerprint="")


def test_a_revoked_holder_stops_a_ticket_that_names_no_chain() -> None:
    alone = ticket(ancestors=())
    assert isinstance(check(alone), Ticket)
    assert why(alone, revoked=revoking(holders=[HOLDERS[1].public.thumbprint])) is Reason.REVOKED_HOLDER

"""What a verified chain says, what is checked again for every use, and what outsiders try."""

import pytest
from authz_client.capabilities import (
    NOTHING_REVOKED,
    Reason,
    Refused,
    chain_digest,
    issue_root,
    narrow,
    parse_revocations,
    public_key,
    recheck,
    signing_key_from_jwk,
    verify_structure,
)
from authz_client.capabilities.digests import base64url

from tests.clients.python.capabilities.making import (
    AUDIENCE,
    HOLDERS,
    ISSUER,
    KEYS,
    KID,
    NOW,
    ROOT,
    accepted,
    child,
    entry,
    forge,
    key,
    opened,
    reason,
    reforged,
    refused,
    revoking,
    root,
)

BUDGET = {"calls": 10}


def three() -> tuple[str, ...]:
    """A chain of three links."""
    wide = [entry(actions=["read"]), entry(actions=["write"], budget=BUDGET)]
    narrowed = [entry(actions=["fs/edit:write"], budget={"calls": 3})]
    return child(child(root(wide), narrowed), exp=NOW + 300)


def test_what_it_says() -> None:
    found = accepted(three())
    assert found.agents == ("coder-1", "sub-1", "sub-2")
    assert (found.subject, found.issuer, found.audience, found.root_kid) == ("ada", ISSUER, AUDIENCE, KID)
    assert [link.holder for link in found.links] == [holder.public for holder in HOLDERS[:3]]
    assert (found.depth, found.expires_at, found.max_depth) == (2, NOW + 300, 8)
    assert [right.text for right in found.entries[0].rights] == ["fs/edit:write"]
    assert [link.parents for link in found.links] == [(), (1,), (0,)]


def test_debits_reach_every_ancestor_that_states_a_budget() -> None:
    found = accepted(three())
    assert [(debit.link, debit.budget.calls) for debit in found.debits(0)] == [(0, 10), (1, 3), (2, 3)]
    assert len({debit.link_hash for debit in found.debits(0)}) == 3
    assert [debit.link for debit in accepted(root([entry(), entry(budget=BUDGET)])).debits(0)] == []


def test_an_agent_that_is_left_out_is_the_subject() -> None:
    assert accepted(child(root(agent=None), agent=None)).agents == ("ada", "ada")


def test_a_narrowed_root_carries_what_is_above_it() -> None:
    above = accepted(three())
    token = issue_root(
        ROOT,
        kid=KID,
        issuer=ISSUER,
        audience=AUDIENCE,
        subject="ada",
        agent="sub-3",
        holder=HOLDERS[3].public,
        entries=[entry(actions=["fs/edit:write"])],
        jti="j-new",
        iat=NOW,
        exp=NOW + 100,
        max_depth=8,
        ancestors=above.handles,
    )
    found = accepted((token,))
    assert found.agents == ("coder-1", "sub-1", "sub-2", "sub-3")
    for item in above.handles:
        assert reason((token,), revoked=revoking(links=[item.link])) is Reason.REVOKED_LINK
        assert reason((token,), revoked=revoking(jtis=[item.jti])) is Reason.REVOKED_JTI
        assert reason((token,), revoked=revoking(holders=[item.jkt])) is Reason.REVOKED_HOLDER


@pytest.mark.parametrize("position", [0, 1, 2])
def test_revocation_cascades_by_every_handle(position: int) -> None:
    chain = three()
    handle = accepted(chain).handles[position]
    for revoked in (
        revoking(links=[handle.link]),
        revoking(jtis=[handle.jti]),
        revoking(holders=[handle.jkt]),
    ):
        for length in range(1, 4):
            part = chain[:length]
            if position < length:
                assert refused(part, revoked=revoked).link == position
            else:
                accepted(part, revoked=revoked)


def test_a_victims_jti_taken_by_a_child_is_no_handle_on_the_victim() -> None:
    """By link hash only the thief's own link stops: the service resolves a `jti` to hashes."""
    victim, thief = child(root()), child(root(), jti="j-1", agent="thief")
    stolen = accepted(thief).leaf
    assert stolen.jti == accepted(victim).leaf.jti
    assert reason(thief, revoked=revoking(links=[stolen.link_hash])) is Reason.REVOKED_LINK
    accepted(victim, revoked=revoking(links=[stolen.link_hash]))


def test_every_use_is_checked_again() -> None:
    found = verify_structure(three(), audience=AUDIENCE, issuer=ISSUER, keys=KEYS)
    usual = {"now": NOW, "audience": AUDIENCE, "issuer": ISSUER, "keys": KEYS, "revoked": NOTHING_REVOKED}
    assert recheck(found, **usual) is None  # type: ignore[arg-type]

    def again(**changes: object) -> Reason:
        answer = recheck(found, **(usual | changes))  # type: ignore[arg-type]
        assert answer is not None
        return answer.reason

    assert again(now=NOW + 300) is Reason.EXPIRED
    assert again(now=NOW - 61) is Reason.IAT_IN_FUTURE
    assert again(revoked=revoking(jtis=["j-1"])) is Reason.REVOKED_JTI
    assert again(keys={}) is Reason.KID_UNKNOWN
    assert again(keys={KID: key("another").public}) is Reason.KID_UNKNOWN
    assert again(audience="https://other.example.com") is Reason.AUD_MISMATCH
    assert again(issuer="https://other.example.com") is Reason.ISS_MISMATCH


def test_a_cap_of_the_verifier_holds_whatever_the_tokens_say() -> None:
    chain = child(child(root()))
    accepted(chain, max_depth=2)
    assert reason(chain, max_depth=1) is Reason.CHAIN_TOO_LONG
    assert reason(reforged(root(max_depth=500)), max_depth=-1) is Reason.CHAIN_TOO_LONG
    long = root(max_depth=500)
    for _ in range(8):
        long = child(long)  # type: ignore[assignment]
    assert accepted(long).max_depth == 8
    with pytest.raises(Refused, match="depth_exceeded"):
        child(long)
    assert reason((*long, long[-1]), max_depth=500) is Reason.CHAIN_TOO_LONG


def test_a_longest_lifetime_is_the_verifiers() -> None:
    accepted(root(), max_lifetime_seconds=600)
    assert reason(root(), max_lifetime_seconds=599) is Reason.LIFETIME_TOO_LONG


def test_skew_never_extends_an_expiry() -> None:
    for skew in (0, 60, 10_000):
        accepted(root(), now=NOW + 599, skew_seconds=skew)
        assert reason(root(), now=NOW + 600, skew_seconds=skew) is Reason.EXPIRED


def test_keys_that_are_the_same_point_in_another_spelling_are_refused() -> None:
    """y and y + p are one point; the second would be a new thumbprint for a revoked holder."""
    header, claims = opened(root()[0])
    for y in (1, 0, 2**255 - 20, 2**255 - 19 + 3, 2**255 - 1):
        x = base64url(y.to_bytes(32, "little"))
        claims["cnf"]["jwk"]["x"] = x
        assert reason((forge(header, claims, ROOT),)) is Reason.CNF_INVALID
    with pytest.raises(ValueError, match="small order"):
        public_key({"kty": "OKP", "crv": "Ed25519", "x": base64url(bytes(32))})


def test_the_remembered_name_of_a_chain_is_of_its_exact_bytes() -> None:
    chain = three()
    assert chain_digest(chain) == chain_digest(list(chain))
    others = [
        chain[:2],
        chain[::-1],
        (chain[0] + chain[1], chain[2]),
        (*chain, ""),
        (*chain[:2], chain[2] + " "),
    ]
    assert len({chain_digest(other) for other in [chain, *others]}) == 6


@pytest.mark.parametrize(
    "value",
    [
        None,
        [],
        {},
        {"links": [], "jtis": []},
        {"links": ["x"], "jtis": [], "holders": []},
        {"links": [], "jtis": [1], "holders": []},
        {"links": [], "jtis": [], "holders": [], "more": []},
    ],
)
def test_a_revocation_list_that_is_not_understood_is_no_empty_one(value: object) -> None:
    with pytest.raises(ValueError, match="revocation list"):
        parse_revocations(value)


def test_a_revocation_list() -> None:
    handle = accepted(root()).handles[0]
    found = parse_revocations({"links": [handle.link], "jtis": ["j"], "holders": [handle.jkt]})
    assert reason(root(), revoked=found) is Reason.REVOKED_LINK


def test_nothing_is_signed_that_would_be_refused() -> None:
    for changes in (
        {"agent": "a\n"},
        {"jti": ""},
        {"exp": True},
        {"max_depth": -1},
        {"entries": [entry(actions=["*"])]},
        {"exp": float("nan")},
    ):
        entries = changes.pop("entries", None)
        with pytest.raises(Refused):
            root(entries, **changes)  # type: ignore[arg-type]
    with pytest.raises(Refused, match="token_too_large"):
        root([entry(locations=[f"file:///{'a' * 200}/{n}" for n in range(64)])])
    with pytest.raises(Refused, match="chain_empty"):
        narrow((), HOLDERS[0], holder=HOLDERS[1].public, jti="j", iat=NOW)
    with pytest.raises(Refused, match="token_parts"):
        narrow(("x",), HOLDERS[0], holder=HOLDERS[1].public, jti="j", iat=NOW)


def test_a_private_key_is_in_no_repr_and_no_refusal() -> None:
    secret = ROOT.private_jwk["d"]
    assert secret not in repr(ROOT)
    assert secret not in str(ROOT)
    assert signing_key_from_jwk(ROOT.private_jwk) == ROOT

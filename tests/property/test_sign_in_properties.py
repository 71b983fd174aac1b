"""After signing in nobody is led elsewhere, and a challenge holds for what it was made for alone."""

from ipaddress import IPv4Address, IPv6Address
from urllib.parse import urljoin, urlsplit

import can_ada
from hypothesis import assume, given
from hypothesis import strategies as st

from authz.core.approval_challenge import approval_challenge
from authz.errors import TooManyRequests
from authz.service.one_time import Challenges, Purpose
from authz.service.rate_limits import Rate, RateLimits, network_of
from authz.ui.session import START, safe_next

BASE = "https://authz.example.test/ui/sign-in"
PIECES = st.sampled_from(
    [
        *(
            "/ui/",
            "/",
            "//",
            "\\",
            "..",
            ".",
            "%2e",
            "%2f",
            "%5c",
            "%00",
            "evil.test",
            "https:",
            "javascript:",
        ),
        *(
            "@",
            "?",
            "#",
            ":",
            ";",
            " ",
            "\t",
            "\n",
            "\r",
            "\0",
            "é",
            "next=",
            "approvals/1",
            "sign-in",
            "sign-out",
        ),
    ]
)
SPELLED = st.lists(PIECES, max_size=8).map("".join)


@given(st.one_of(st.text(), SPELLED, SPELLED.map("/ui/".__add__)))
def test_next_is_a_page_of_ours_to_every_reader(wanted: str) -> None:
    there = safe_next(wanted)
    for resolved in (str(can_ada.parse(f"https://authz.example.test{there}")), urljoin(BASE, there)):
        found = urlsplit(resolved)
        assert (found.scheme, found.netloc) == ("https", "authz.example.test")
        assert found.path.startswith("/ui/")
        assert not found.path.startswith(("/ui/sign-", "/ui/oidc", "/ui/passkeys", "/ui/cli-session"))
    assert safe_next(there) == there


@given(st.from_regex(r"/ui/(approvals|decisions)/[a-z0-9-]{1,20}(\?[a-z]+=[a-z0-9%]{1,9})?", fullmatch=True))
def test_pages_of_ours_are_kept(wanted: str) -> None:
    assert safe_next(wanted) == wanted


def test_nothing_leads_to_the_first_page() -> None:
    assert safe_next("") == START


@given(st.lists(st.text(max_size=20), max_size=4), st.lists(st.text(max_size=20), max_size=4))
def test_a_challenge_holds_for_what_it_was_bound_to(made_for: list[str], used_for: list[str]) -> None:
    challenges = Challenges(b"k" * 32)
    made = challenges.make(Purpose.APPROVAL, *made_for, now_ms=1000)
    found = challenges.check(made, Purpose.APPROVAL, *used_for, now_ms=2000)
    assert (found is not None) == (made_for == used_for)
    assert challenges.check(made, Purpose.SIGN_IN, *made_for, now_ms=2000) is None
    assert Challenges(b"l" * 32).check(made, Purpose.APPROVAL, *made_for, now_ms=2000) is None


@given(st.binary(max_size=100), st.integers(0, 63), st.integers(1, 255))
def test_a_challenge_that_was_changed_is_none(other: bytes, place: int, flip: int) -> None:
    challenges = Challenges(b"k" * 32)
    made = bytearray(challenges.make(Purpose.SIGN_IN, "v", now_ms=1000))
    made[place] ^= flip
    assert challenges.check(bytes(made), Purpose.SIGN_IN, "v", now_ms=1000) is None
    assert challenges.check(other, Purpose.SIGN_IN, "v", now_ms=1000) is None


_ARGUMENTS = st.tuples(st.text(), st.text(), st.text(), st.binary())


@given(_ARGUMENTS, _ARGUMENTS)
def test_different_approvals_have_different_challenges(
    one: tuple[str, str, str, bytes], other: tuple[str, str, str, bytes]
) -> None:
    def of(said: tuple[str, str, str, bytes]) -> bytes:
        return approval_challenge(
            approval_id=said[0], fingerprint=said[1], shown_digest=said[2], nonce=said[3]
        )

    assert (of(one) == of(other)) == (one == other)


@given(st.lists(st.tuples(st.integers(0, 30), st.floats(0, 5)), max_size=60))
def test_tries_are_bounded_and_so_is_what_is_remembered(tries: list[tuple[int, float]]) -> None:
    now = 0.0
    limits = RateLimits(lambda: now, max_keys=8)
    rate, allowed, refused = Rate(tries=3, seconds_each=10.0), 0, 0
    for key, waited in tries:
        now += waited
        try:
            limits.check("one", "key", rate)
            allowed += 1
        except TooManyRequests:
            refused += 1
        limits.check("other", str(key), Rate(tries=100, seconds_each=1.0))
        assert len(limits) <= 8
    assert allowed + refused == len(tries)
    assert min(3, len(tries)) <= allowed <= 3 + now / 10.0 + 1


@given(st.ip_addresses(v=6), st.integers(0, 2**64 - 1))
def test_all_addresses_that_one_client_may_have_are_one(address: IPv6Address, host: int) -> None:
    neighbour = IPv6Address((int(address) >> 64 << 64) | host)
    assume(address.ipv4_mapped is None and neighbour.ipv4_mapped is None)
    assert network_of(str(address)) == network_of(str(neighbour))
    assert network_of(str(address)) != network_of(str(IPv6Address(int(address) ^ (1 << 64))))


@given(st.ip_addresses(v=4), st.text())
def test_other_addresses_are_themselves(address: IPv4Address, text: str) -> None:
    assert network_of(str(address)) == network_of(f"::ffff:{address}") == str(address)
    network_of(text)

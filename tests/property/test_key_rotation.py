"""Keys rotate and no valid token is refused; a withdrawn key verifies nothing (generated schedules)."""

import itertools
from dataclasses import dataclass
from typing import Final

from authz_client.capabilities import (
    NOTHING_REVOKED,
    PublicKey,
    Refusal,
    SigningKey,
    sign_ticket,
    signing_key,
    verify_ticket,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from authz.errors import ConfigError
from authz.store.key_set import MARGIN_MS, KeySet, KeyState

PUBLISH_MS: Final = 300_000
LIFETIME_MS: Final = 900_000
"""As long as a ticket may live."""
START_MS: Final = 1_796_032_800_000
POOL: Final = [signing_key(bytes([number]) * 32) for number in range(1, 33)]
# What a replica may be behind by: it looks at the file every second, and clocks differ.
STALE_MS: Final = 5_000
SKEW_MS: Final = 60_000

STEPS = st.lists(
    st.tuples(
        st.sampled_from(["rotate", "rotate", "issue", "issue", "issue", "tidy"]),
        st.integers(0, 2 * PUBLISH_MS),
        st.integers(0, STALE_MS),
        st.integers(-SKEW_MS, SKEW_MS),
        st.integers(1, LIFETIME_MS) | st.just(LIFETIME_MS),
    ),
    min_size=4,
    max_size=16,
)


@dataclass(frozen=True)
class Issued:
    kid: str
    at_ms: int
    exp_ms: int


class World:
    """The key file over time, and what was signed by replicas that see an older file, by another clock."""

    def __init__(self) -> None:
        self.pool = iter(POOL)
        self.history: list[tuple[int, KeySet]] = [(0, KeySet.of(next(self.pool)))]
        self.issued: list[Issued] = []

    @property
    def keys(self) -> KeySet:
        return self.history[-1][1]

    def seen_at(self, now_ms: int) -> KeySet:
        """The file as somebody has it who last looked at that moment."""
        return next(keys for at_ms, keys in reversed(self.history) if at_ms <= now_ms)

    def write(self, now_ms: int, keys: KeySet) -> None:
        self.history.append((now_ms, keys))

    def rotate(self, now_ms: int) -> None:
        try:
            self.write(
                now_ms,
                self.keys.rotated(
                    next(self.pool), now_ms, publish_ms=PUBLISH_MS, lifetime_ms=LIFETIME_MS
                ).tidied(now_ms),
            )
        except ConfigError:
            pass  # one waits already

    def issue(self, now_ms: int, *, stale_ms: int, skew_ms: int, life_ms: int) -> None:
        key = self.seen_at(now_ms - stale_ms).active(now_ms + skew_ms)
        assert key is not None
        self.issued.append(Issued(kid=key.kid, at_ms=now_ms, exp_ms=now_ms + skew_ms + life_ms))

    def check(self, token: Issued, now_ms: int) -> None:
        """The token verifies at that moment for everybody who goes by the rules."""
        for stale_ms, skew_ms in itertools.product((0, STALE_MS), (-SKEW_MS, 0, SKEW_MS)):
            own = self.seen_at(now_ms - stale_ms).verifying(now_ms + skew_ms, lifetime_ms=LIFETIME_MS)
            assert token.kid in own
            # Fetched from a replica that was behind itself, and kept for the time of Cache-Control.
            fetched_ms = now_ms - PUBLISH_MS // 2
            keys = self.seen_at(fetched_ms - stale_ms)
            assert token.kid in keys.verifying(fetched_ms + skew_ms, lifetime_ms=LIFETIME_MS)


@settings(max_examples=150)
@given(STEPS)
def test_rotation_refuses_no_token_that_is_valid(steps: list[tuple[str, int, int, int, int]]) -> None:
    """Not at this service, and not at a verifier that keeps the key set for as long as it was told it may."""
    world, now_ms, moments = World(), START_MS, []
    for what, wait_ms, stale_ms, skew_ms, life_ms in steps:
        now_ms += wait_ms
        moments.append(now_ms)
        if what == "rotate":
            world.rotate(now_ms)
        elif what == "tidy":
            world.write(now_ms, world.keys.tidied(now_ms))
        else:
            world.issue(now_ms, stale_ms=stale_ms, skew_ms=skew_ms, life_ms=life_ms)
    for token in world.issued:
        for moment in (*moments, token.exp_ms - 1):
            if token.at_ms <= moment < token.exp_ms:
                world.check(token, moment)


def test_the_longest_life_of_a_token_by_the_last_to_notice() -> None:
    """A replica with a slow clock signs with the old key as late as it can."""
    world = World()
    world.rotate(START_MS)
    late_ms = START_MS + PUBLISH_MS + SKEW_MS - 1
    world.issue(late_ms, stale_ms=STALE_MS, skew_ms=-SKEW_MS, life_ms=LIFETIME_MS)
    world.issue(late_ms, stale_ms=0, skew_ms=0, life_ms=LIFETIME_MS)
    assert [token.kid for token in world.issued] == [POOL[0].kid, POOL[1].kid]
    for token in world.issued:
        world.check(token, token.exp_ms - 1)
    gone_ms = START_MS + PUBLISH_MS + LIFETIME_MS + MARGIN_MS
    assert POOL[0].kid not in world.keys.verifying(gone_ms, lifetime_ms=LIFETIME_MS)


@settings(max_examples=100)
@given(
    st.lists(
        st.tuples(st.sampled_from(["rotate", "now", "withdraw"]), st.integers(0, PUBLISH_MS)),
        min_size=1,
        max_size=14,
    ),
    st.data(),
)
def test_whatever_is_done_one_key_signs_and_a_withdrawn_one_verifies_nothing(
    steps: list[tuple[str, int]], data: st.DataObject
) -> None:
    pool, now_ms = iter(POOL), START_MS
    keys = KeySet.of(next(pool))
    withdrawn: set[str] = set()
    for what, wait_ms in steps:
        now_ms += wait_ms
        if what == "withdraw":
            victim = data.draw(st.sampled_from(sorted(key.kid for key in keys.keys)))
            keys = keys.without(victim, next(pool), now_ms)
            withdrawn.add(victim)
        else:
            try:
                keys = keys.rotated(
                    next(pool),
                    now_ms,
                    publish_ms=PUBLISH_MS,
                    lifetime_ms=LIFETIME_MS,
                    at_once=what == "now",
                )
            except ConfigError:
                assert what == "rotate"
        keys = keys.tidied(now_ms)
        # A moment of its own for a key that took over in the millisecond of another.
        for at_ms in (now_ms + 2, now_ms + PUBLISH_MS, now_ms + PUBLISH_MS + LIFETIME_MS + 2 * MARGIN_MS):
            active = keys.active(at_ms)
            verifying = keys.verifying(at_ms, lifetime_ms=LIFETIME_MS)
            assert active is not None
            assert active.kid in verifying
            assert not withdrawn & verifying.keys()
            statuses = keys.statuses(at_ms, lifetime_ms=LIFETIME_MS)
            assert [s.key.kid for s in statuses if s.state is KeyState.ACTIVE] == [active.kid]
        assert keys.withdrawn() == withdrawn
        for key in keys.keys:
            assert key.signing is None or key.kid not in withdrawn


def ticket(key: SigningKey, now: int) -> str:
    return sign_ticket(
        key,
        issuer="https://authz.example",
        audience="https://tools.example",
        subject="ada",
        agent=None,
        tool="fs/file_read",
        fingerprint="f",
        arguments={},
        decision_id="d",
        holder_thumbprint=None,
        ancestors=(),
        jti="j",
        iat=now,
        exp=now + LIFETIME_MS // 1000,
    )


def verified(token: str, keys: dict[str, PublicKey], now: int) -> bool:
    found = verify_ticket(
        token,
        jwks=keys,
        issuer="https://authz.example",
        audience="https://tools.example",
        fingerprint="f",
        arguments={},
        holder_thumbprint=None,
        now=now,
        revoked=NOTHING_REVOKED,
    )
    return not isinstance(found, Refusal)


@settings(max_examples=60)
@given(st.integers(0, LIFETIME_MS // 1000 - 1), st.integers(0, LIFETIME_MS // 1000), st.booleans())
def test_a_real_ticket_holds_across_a_rotation_and_not_across_a_withdrawal(
    issued_s: int, rotated_s: int, is_withdrawn: bool
) -> None:
    """Whenever the key is rotated, before or after the ticket is signed."""
    start = START_MS // 1000
    before = KeySet.of(POOL[0])
    rotated_ms = (start + rotated_s) * 1000
    after = before.rotated(POOL[1], rotated_ms, publish_ms=PUBLISH_MS, lifetime_ms=LIFETIME_MS)
    iat = start + issued_s
    key = (after if issued_s >= rotated_s else before).active(iat * 1000)
    assert key is not None
    token = ticket(key, iat)
    last = iat + LIFETIME_MS // 1000 - 1
    now = max(last, start + rotated_s)
    if is_withdrawn:
        after = after.without(key.kid, POOL[2], now * 1000)
    found = verified(token, after.verifying(last * 1000, lifetime_ms=LIFETIME_MS), last)
    assert found is not is_withdrawn

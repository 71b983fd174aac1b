"""Signing keys through their lives: next, active, retired, expired, withdrawn, at explicit moments."""

import pytest
from authz_client.capabilities import SigningKey, generate_key
from authz_client.capabilities.keys import MAX_KEYS

from authz.errors import ConfigError
from authz.store.key_set import MARGIN_MS, KeySet, ServiceKey

PUBLISH, LIFETIME = 300_000, 86_400_000
A, B, C = (generate_key() for _ in range(3))
START = 1_796_032_800_000


def states(keys: KeySet, now_ms: int) -> list[str]:
    return [str(status.state) for status in keys.statuses(now_ms, lifetime_ms=LIFETIME)]


def verifying(keys: KeySet, now_ms: int) -> set[str]:
    return set(keys.verifying(now_ms, lifetime_ms=LIFETIME))


def rotated(keys: KeySet, new: SigningKey, now_ms: int, *, at_once: bool = False) -> KeySet:
    return keys.rotated(new, now_ms, publish_ms=PUBLISH, lifetime_ms=LIFETIME, at_once=at_once)


def test_the_first_key_is_in_use_whatever_the_clock_says() -> None:
    keys = KeySet.of(A)
    for now_ms in (0, START, 10**14):
        assert (keys.active(now_ms), states(keys, now_ms), verifying(keys, now_ms)) == (
            A,
            ["active"],
            {A.kid},
        )


def test_the_life_of_a_key_without_anybody_doing_anything() -> None:
    keys = rotated(KeySet.of(A), B, START)
    handover = START + PUBLISH
    gone = handover + LIFETIME + MARGIN_MS
    expected = [
        (START - 1, A, ["active", "next"]),
        (START, A, ["active", "next"]),
        (handover - 1, A, ["active", "next"]),
        (handover, B, ["retired", "active"]),
        (gone - 1, B, ["retired", "active"]),
        (gone, B, ["expired", "active"]),
    ]
    for now_ms, active, found in expected:
        assert (keys.active(now_ms), states(keys, now_ms)) == (active, found)
        assert verifying(keys, now_ms) == {B.kid} | ({A.kid} if now_ms < gone else set())
    assert keys.moments(lifetime_ms=LIFETIME) == [0, handover, gone]


def test_in_an_emergency_a_key_takes_over_at_once_and_so_does_one_that_waits() -> None:
    keys = rotated(KeySet.of(A), B, START, at_once=True)
    assert (keys.active(START), states(keys, START)) == (B, ["retired", "active"])
    waiting = rotated(KeySet.of(A), B, START)
    with pytest.raises(ConfigError, match="waits to take over"):
        rotated(waiting, C, START + 1)
    forward = rotated(waiting, C, START + 1, at_once=True)
    assert forward.active(START + 1) == B
    assert forward.find(C.kid) is None, "the key that was published is the one that is used"


def test_the_key_in_use_is_withdrawn_and_another_takes_over_at_once() -> None:
    keys = rotated(KeySet.of(A), B, START, at_once=True).without(B.kid, C, START + 5)
    assert (keys.active(START + 5), states(keys, START + 5)) == (C, ["retired", "withdrawn", "active"])
    assert verifying(keys, START + 5) == {A.kid, C.kid}
    gone = keys.find(B.kid)
    assert gone is not None
    assert gone.signing is None, "its private part is forgotten"
    assert keys.active(START + 4) == C, "a clock that is behind never goes on with it"
    assert keys.without(B.kid, generate_key(), START + 9) == keys, "for good, and once"


def test_the_only_key_withdrawn_in_the_moment_of_its_use() -> None:
    keys = rotated(KeySet.of(A), B, START, at_once=True).without(B.kid, C, START)
    assert keys.active(START + 1) == C
    assert verifying(keys, START + 1) == {A.kid, C.kid}


def test_a_waiting_key_takes_the_place_of_a_withdrawn_one() -> None:
    keys = rotated(KeySet.of(A), B, START).without(A.kid, C, START + 1)
    assert (keys.active(START + 1), states(keys, START + 1)) == (B, ["withdrawn", "active"])


def test_a_key_that_is_withdrawn_before_its_use_changes_nothing() -> None:
    keys = rotated(KeySet.of(A), B, START).without(B.kid, C, START + 1)
    for now_ms in (START + 1, START + PUBLISH, START + 10 * LIFETIME):
        assert (keys.active(now_ms), states(keys, now_ms)) == (A, ["active", "withdrawn"])
    assert rotated(keys, C, START + 2).active(START + 2 + PUBLISH) == C


def test_a_retired_key_can_still_be_withdrawn() -> None:
    keys = rotated(KeySet.of(A), B, START, at_once=True).without(A.kid, C, START + 1)
    assert (keys.active(START + 1), verifying(keys, START + 1)) == (B, {B.kid})


def test_private_parts_are_forgotten_once_no_clock_can_use_them() -> None:
    keys = rotated(KeySet.of(A), B, START)
    late = START + PUBLISH + MARGIN_MS
    assert keys.tidied(late) == keys
    tidy = keys.tidied(late + 1)
    assert [key.signing for key in tidy.keys] == [None, B]
    assert verifying(tidy, late + 1) == {A.kid, B.kid}
    assert tidy.active(START) == B, "a clock that is far behind signs with the next one"


def test_verifiers_read_so_many_keys_and_no_more() -> None:
    keys = KeySet.of(A)
    for number in range(MAX_KEYS - 1):
        keys = rotated(keys, generate_key(), START + number, at_once=True)
    now_ms = START + MAX_KEYS
    assert len(verifying(keys, now_ms)) == MAX_KEYS
    with pytest.raises(ConfigError, match="wait until the oldest"):
        rotated(keys, B, now_ms, at_once=True)
    assert rotated(keys, B, now_ms + LIFETIME + MARGIN_MS).find(B.kid) is not None
    assert keys.without(keys.keys[-1].kid, B, now_ms).active(now_ms) == B, "an emergency is not held up"


def test_no_key_by_that_name() -> None:
    with pytest.raises(ConfigError, match="no key"):
        KeySet.of(A).without(B.kid, C, START)


@pytest.mark.parametrize(
    "starts", [(), (1, 0), (1, 1)], ids=["no key", "out of order", "two in use at one moment"]
)
def test_sets_that_are_none(starts: tuple[int, ...]) -> None:
    keys = tuple(
        ServiceKey(public=key.public, signing=key, active_from_ms=start)
        for key, start in zip((A, B), starts, strict=False)
    )
    with pytest.raises(ValueError, match="key set"):
        KeySet(keys=keys)
    with pytest.raises(ValueError, match="key set"):
        KeySet(
            keys=(
                ServiceKey(public=A.public, signing=A),
                ServiceKey(public=A.public, signing=A, active_from_ms=1),
            )
        )


def test_nothing_private_shows() -> None:
    assert A.private_jwk["d"] not in repr(rotated(KeySet.of(A), B, START))

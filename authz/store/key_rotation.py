"""What an operator does to the key file: publish the next key, or withdraw one."""

from pathlib import Path

from authz_client.capabilities import generate_key

from authz.store.key_file import KeyMaterial, change_key_file
from authz.store.key_set import KeySet


def rotate_keys(
    path: Path, *, now_ms: int, publish_seconds: int, lifetime_seconds: int, at_once: bool = False
) -> KeySet:
    """Publish a new key that takes over in `publish_seconds`; `at_once`, without that time, in an emergency.

    Running services notice by themselves, and change keys at that moment. Raises `ConfigError`.
    """

    def change(material: KeyMaterial) -> KeySet:
        return material.keys.rotated(
            generate_key(),
            now_ms,
            publish_ms=publish_seconds * 1000,
            lifetime_ms=lifetime_seconds * 1000,
            at_once=at_once,
        )

    return change_key_file(path, lambda material: _with_keys(material, change(material), now_ms)).keys


def withdraw_key(path: Path, kid: str, *, now_ms: int) -> KeySet:
    """Throw a key out as compromised: no token verifies with it from now on. Raises `ConfigError`.

    Where it was the one in use, another takes over at once.
    """

    def change(material: KeyMaterial) -> KeySet:
        return material.keys.without(kid, generate_key(), now_ms)

    return change_key_file(path, lambda material: _with_keys(material, change(material), now_ms)).keys


def tidy_keys(path: Path, *, now_ms: int) -> KeyMaterial:
    """Forget the private parts that have no more to sign, and bring the file to the newest version.

    Raises `ConfigError`, as where the file cannot be written.
    """
    return change_key_file(path, lambda material: _with_keys(material, material.keys, now_ms))


def _with_keys(material: KeyMaterial, keys: KeySet, now_ms: int) -> KeyMaterial:
    return KeyMaterial(identity=material.identity, secret=material.secret, keys=keys.tidied(now_ms))

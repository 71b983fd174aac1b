"""Keys: one spelling, safe files, nothing private where it can be read."""

import json
import os
import stat
from pathlib import Path
from typing import Any

import pytest
from authz_client.capabilities import (
    BadKey,
    generate_key,
    public_key,
    published_keys,
    read_key,
    signing_key,
    signing_key_from_jwk,
    signing_key_from_pem,
    write_key,
)
from authz_client.capabilities.keys import published_key
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ed448

from tests.clients.python.capabilities.making import HOLDERS, ROOT


def test_thumbprint_is_that_of_rfc_8037() -> None:
    """RFC 8037, appendix A.3."""
    key = public_key({"kty": "OKP", "crv": "Ed25519", "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"})
    assert key.thumbprint == "kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k"
    assert key.urn == f"urn:ietf:params:oauth:jwk-thumbprint:sha-256:{key.thumbprint}"


@pytest.mark.parametrize("name", ["key.json", "key.jwk", "key.pem", "key"])
def test_a_written_key_is_its_owners_alone_and_comes_back(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    previous = os.umask(0)
    try:
        write_key(path, ROOT)
    finally:
        os.umask(previous)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert read_key(path) == ROOT
    with pytest.raises(FileExistsError):
        write_key(path, HOLDERS[0])
    assert read_key(path) == ROOT


def test_never_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError):  # noqa: PT011  (EEXIST or ELOOP, by system)
        write_key(tmp_path / "link", ROOT)
    assert not (tmp_path / "elsewhere").exists()


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o622, 0o666])
def test_a_key_that_others_can_read_is_not_used(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "key.json"
    write_key(path, ROOT)
    path.chmod(mode)
    with pytest.raises(BadKey, match="chmod 600"):
        read_key(path)


@pytest.mark.parametrize(
    "text", ["", "{", "{}", '{"kty":"OKP","kty":"OKP"}', "-----BEGIN PRIVATE KEY-----", "x" * 10_000]
)
def test_a_file_that_is_no_key(tmp_path: Path, text: str) -> None:
    path = tmp_path / "key"
    path.write_text(text)
    path.chmod(0o600)
    with pytest.raises(BadKey):
        read_key(path)


def test_other_private_keys_are_refused() -> None:
    other = ed448.Ed448PrivateKey.generate().private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    with pytest.raises(BadKey, match="Ed25519"):
        signing_key_from_pem(other)
    with pytest.raises(BadKey, match="not the public key"):
        signing_key_from_jwk({**ROOT.private_jwk, "x": HOLDERS[0].public.x})
    with pytest.raises(BadKey):
        signing_key_from_jwk(ROOT.public.jwk)
    with pytest.raises(BadKey, match="32 bytes"):
        signing_key(b"short")


def test_generated_keys_differ_and_say_nothing() -> None:
    one, other = generate_key(), generate_key()
    assert one != other
    for text in (repr(one), str(one), repr(one.public)):
        assert one.private_jwk["d"] not in text


def jwk(**changes: Any) -> dict[str, Any]:
    return {**ROOT.public.jwk, "kid": "k", **changes}


def test_a_key_set() -> None:
    exported = jwk(key_ops=["verify"], use="sig", alg="Ed25519")
    rsa = {"kty": "RSA", "kid": "r", "n": "AQAB", "e": "AQAB"}
    assert published_keys({"keys": [exported, rsa]}) == {"k": ROOT.public}
    assert published_keys({"keys": []}) == {}
    assert published_key(jwk(use="enc")) is None
    assert published_key(jwk(key_ops=["sign"])) is None
    assert published_key(jwk(alg="HS256")) is None


@pytest.mark.parametrize(
    "value",
    [
        None,
        [],
        {},
        {"keys": {}},
        {"keys": [1]},
        {"keys": [ROOT.public.jwk]},
        {"keys": [jwk(), jwk(x=HOLDERS[0].public.x)]},
        {"keys": [jwk(), {"kty": "RSA", "kid": "k"}]},
        {"keys": [jwk(kid="")]},
        {"keys": [jwk(d=ROOT.private_jwk["d"])]},
        {"keys": [jwk(x5c=["AA"])]},
        {"keys": [jwk(x="AA")]},
        {"keys": [jwk(kid=str(n)) for n in range(65)]},
    ],
    ids=range(13),
)
def test_a_key_set_that_is_refused(value: Any) -> None:
    with pytest.raises(BadKey) as error:
        published_keys(value)
    assert ROOT.private_jwk["d"] not in str(error.value)


def test_a_private_jwk_is_what_rfc_8037_says() -> None:
    assert set(json.loads(json.dumps(ROOT.private_jwk))) == {"kty", "crv", "x", "d"}

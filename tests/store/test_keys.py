"""The service's own keys."""

import copy
import json
import pickle
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import jwt
import pytest

from authz.errors import ConfigError
from authz.store.jwks import load_log_keys
from authz.store.keys import ServiceKeys


def test_a_new_file_is_private_and_loads_again(tmp_path: Path) -> None:
    path = tmp_path / "var" / "keys.json"
    made = ServiceKeys.load_or_create(path)

    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert [file.name for file in path.parent.iterdir()] == ["keys.json"], "no draft is left"
    loaded = ServiceKeys.load_or_create(path)
    assert loaded.kid == made.kid
    assert loaded.derive("x") == made.derive("x")


def test_an_existing_file_is_never_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    first = ServiceKeys.load_or_create(path)
    with pytest.raises(FileExistsError):
        ServiceKeys.generate().write_new(path)
    assert [file.name for file in tmp_path.iterdir()] == ["keys.json"]
    assert ServiceKeys.load(path).kid == first.kid


def test_many_at_once_end_with_one_key(tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    with ThreadPoolExecutor(8) as pool:
        kids = {keys.kid for keys in pool.map(ServiceKeys.load_or_create, [path] * 32)}
    assert len(kids) == 1


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o610, 0o644])
def test_a_file_that_is_open_to_others_is_refused(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "keys.json"
    ServiceKeys.load_or_create(path)
    path.chmod(mode)
    with pytest.raises(ConfigError, match="chmod 600"):
        ServiceKeys.load(path)


def test_damaged_files_are_refused_without_quoting_them(tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    keys = ServiceKeys.load_or_create(path)
    good = json.loads(path.read_bytes())
    (key,) = good["keys"]
    jwk = key["jwk"]
    other = ServiceKeys.generate().public_jwks()["keys"][0]["x"]

    def with_key(**members: object) -> dict[str, object]:
        return {**good, "keys": [{**key, **members}]}

    damaged: list[object] = [
        [],
        {},
        {**good, "version": 1},
        {**good, "version": 3},
        {**good, "more": 1},
        {**good, "secret": good["secret"][:-4]},
        {**good, "secret": "*" * 43},
        {**good, "secret": None},
        {**good, "id": other},
        {**good, "id": None},
        {**good, "keys": []},
        {**good, "keys": None},
        {**good, "keys": ["d"]},
        {**good, "keys": [key, key]},
        {**good, "keys": [{**key, "active_from_ms": 1}, key]},
        with_key(jwk={**jwk, "x": other}),
        with_key(jwk={**jwk, "crv": "X25519"}),
        with_key(jwk={**jwk, "d": "AAAA"}),
        with_key(jwk={name: jwk[name] for name in ("kty", "crv", "x")}),
        with_key(jwk=None),
        with_key(withdrawn_at_ms=1),
        with_key(published_at_ms=True),
        with_key(active_from_ms=-1),
        with_key(active_from_ms=1.0),
        with_key(active_from_ms=10**18),
        with_key(state="active"),
    ]
    for content in damaged:
        path.write_text(json.dumps(content))
        with pytest.raises(ConfigError, match="damaged") as refused:
            ServiceKeys.load(path)
        assert refused.value.__cause__ is None
        assert refused.value.__suppress_context__
        assert good["secret"] not in str(refused.value)
    for text in (json.dumps(good)[:-10], "[" * 100_000, "\udcff"):
        path.write_text(text, errors="surrogateescape")
        with pytest.raises(ConfigError, match="damaged"):
            ServiceKeys.load(path)
    with pytest.raises(ConfigError, match="cannot be read"):
        ServiceKeys.load(tmp_path / "absent.json")
    assert keys.kid


def test_secrets_do_not_show(tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    keys = ServiceKeys.load_or_create(path)
    content = json.loads(path.read_bytes())
    shown = f"{keys!r} {keys} {keys.public_jwks()}"
    assert content["secret"] not in shown
    assert content["keys"][0]["jwk"]["d"] not in shown
    for leak in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError):
            leak(keys)


def test_what_is_signed_verifies_with_what_is_published(tmp_path: Path) -> None:
    keys = ServiceKeys.generate()
    token = keys.sign({"typ": "example+jwt"}, {"a": "ü"})

    header = jwt.get_unverified_header(token)
    assert header == {"alg": "EdDSA", "typ": "example+jwt", "kid": keys.kid}
    path = tmp_path / "jwks.json"
    path.write_text(json.dumps(keys.public_jwks()))
    published = load_log_keys(path).keys
    assert jwt.PyJWS().decode(token, published[keys.kid], algorithms=["EdDSA"]) == '{"a":"ü"}'.encode()
    assert set(keys.public_jwks()["keys"][0]) == {"kty", "crv", "x", "kid", "use", "alg"}


@pytest.mark.parametrize("header", [{}, {"typ": ""}, {"typ": "t", "alg": "none"}, {"typ": "t", "kid": "k"}])
def test_headers_that_are_not_signed(header: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="typ"):
        ServiceKeys.generate().sign(header, {})


def test_derived_keys_are_apart() -> None:
    keys = ServiceKeys.generate()
    derived = {keys.derive(purpose) for purpose in ("idempotency", "lease", "digest")}
    assert len(derived) == 3
    assert {len(key) for key in derived} == {32}
    assert keys.derive("lease") == keys.derive("lease")
    assert ServiceKeys.generate().derive("lease") not in derived
    with pytest.raises(ValueError, match="purpose"):
        keys.derive("")


@pytest.mark.parametrize(
    "content", ["", "[]", "{}", '{"keys": []}', '{"keys": [{"kty": "RSA"}]}', '{"keys": 1}']
)
def test_key_sets_that_are_none(tmp_path: Path, content: str) -> None:
    path = tmp_path / "jwks.json"
    path.write_text(content)
    with pytest.raises(ConfigError):
        load_log_keys(path)

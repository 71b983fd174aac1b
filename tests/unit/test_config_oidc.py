"""`[oidc.<tenant>]` and the lifetimes of sessions: what may be configured, and what a refusal says."""

from pathlib import Path
from typing import Any

import pytest

from authz.config import Config, load_config
from authz.errors import ConfigError

GOOD = """\
[oidc.default]
issuer = "https://idp.example.test/realm"
client_id = "authz"
client_secret = "quite-a-secret"
person_claim = "preferred_username"
roles = {approvers = ["approve", "audit"]}
groups = {money = ["finance"]}
"""


def load(tmp_path: Path, text: str) -> Config:
    file = tmp_path / "authz.toml"
    file.write_text(text)
    return load_config({"AUTHZ_CONFIG": str(file)})


def test_a_provider_of_a_tenant(tmp_path: Path) -> None:
    config = load(tmp_path, GOOD)
    provider = config.oidc["default"].provider("default")
    assert (provider.issuer, provider.client_secret) == ("https://idp.example.test/realm", "quite-a-secret")
    assert provider.roles == {"approvers": frozenset({"approve", "audit"})}
    assert provider.groups == {"money": frozenset({"finance"})}
    assert "quite-a-secret" not in repr(config) + repr(provider)


@pytest.mark.parametrize(
    ("old", "new", "where"),
    [
        ("https://idp.example.test/realm", "http://idp.example.test", "issuer"),
        ("https://idp.example.test/realm", "https://idp.example.test/?x", "issuer"),
        ("https://idp.example.test/realm", "https://user@idp.example.test", "issuer"),
        ("https://idp.example.test/realm", "idp", "issuer"),
        ('["approve", "audit"]', '["decide"]', "roles"),
        ('{approvers = ["approve", "audit"]}', "{}", "roles"),
        ("[oidc.default]", "[oidc.elsewhere]", "oidc"),
        ("client_id", "client", "client"),
        ('"quite-a-secret"', '""', "client_secret"),
        ("groups =", 'scopes = ["profile"]\ngroups =', "scopes"),
        ("groups =", 'origins = ["https://keys.example.test/"]\ngroups =', "origins"),
    ],
)
def test_what_is_refused_names_its_place_and_no_secret(
    tmp_path: Path, old: str, new: str, where: str
) -> None:
    assert old in GOOD
    with pytest.raises(ConfigError, match=where) as refused:
        load(tmp_path, GOOD.replace(old, new))
    assert "quite-a-secret" not in str(refused.value)


@pytest.mark.parametrize("value", [0, 59, 604_801, True, "an hour"])
@pytest.mark.parametrize("name", ["person_session_seconds", "person_session_idle_seconds"])
def test_lifetimes_have_bounds(name: str, value: Any) -> None:
    with pytest.raises(ConfigError, match=name):
        load_config({}, **{name: value})


def test_providers_are_of_the_file_alone() -> None:
    with pytest.raises(ConfigError, match="`AUTHZ_OIDC` is no setting"):
        load_config({"AUTHZ_OIDC": "x"})


@pytest.mark.parametrize("url", ["https://authz.example", "http://localhost:8700", "http://127.0.0.1:8700"])
def test_sessions_travel_where_nobody_reads_them(tmp_path: Path, url: str) -> None:
    assert load(tmp_path, f'public_url = "{url}"\n{GOOD}').public_url == url
    with pytest.raises(ConfigError, match="`oidc` needs a `public_url` with `https`"):
        load(tmp_path, f'public_url = "http://authz.example"\n{GOOD}')

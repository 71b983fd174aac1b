"""Configuration: validated at start, unknown keys are errors, values never echoed."""

from pathlib import Path

import pytest

from authz.app import protected_places
from authz.config import ONLY_IN_FILE, Config, load_config
from authz.core.credentials import read_key
from authz.errors import ConfigError
from authz.store.ledger import locate_database
from authz.store.postgres_url import PostgresUrl


def test_defaults_are_local_and_embedded() -> None:
    config = load_config({})
    assert (config.host, config.port) == ("127.0.0.1", 8700)
    assert config.dev_key is None
    assert config.bundles == {"default": Path("policies")}


def test_the_command_line_wins_over_the_environment_and_that_over_the_file(tmp_path: Path) -> None:
    file = tmp_path / "authz.toml"
    file.write_text('port = 1\nhost = "::1"\nlog_level = "error"\n')
    config = load_config({"AUTHZ_CONFIG": str(file), "AUTHZ_PORT": "2", "AUTHZ_HOST": "127.0.0.2"}, port=3)
    assert (config.port, config.host, config.log_level) == (3, "127.0.0.2", "error")


@pytest.mark.parametrize(
    "url", ["https://authz.example", "http://localhost:8700", "https://h:8443/teams/a", "http://[::1]:1"]
)
def test_the_public_url_is_taken_as_it_is_spelled(url: str) -> None:
    assert load_config({"AUTHZ_PUBLIC_URL": url}).public_url == url


def test_the_public_url_is_local_unless_it_is_set() -> None:
    assert load_config({}).public_url == "http://localhost:8700"
    assert load_config({}, port=9000).public_url == "http://localhost:9000"
    assert load_config({"AUTHZ_PORT": "80"}).public_url == "http://localhost", "as it is spelled canonically"
    with pytest.raises(ConfigError, match="`port`"):
        load_config({"AUTHZ_PORT": "eight"})


def test_a_boolean_is_no_number(tmp_path: Path) -> None:
    file = tmp_path / "authz.toml"
    for name in ("capability_max_lifetime_seconds", "key_publish_seconds"):
        file.write_text(f"{name} = true\n")
        with pytest.raises(ConfigError, match=f"`{name}` must be a number"):
            load_config({"AUTHZ_CONFIG": str(file)})


def test_proxies_are_addresses_and_networks(tmp_path: Path) -> None:
    file = tmp_path / "authz.toml"
    file.write_text('trusted_proxies = ["10.0.0.0/8", "::1"]\n')
    given = [
        load_config({}),
        load_config({"AUTHZ_CONFIG": str(file)}),
        load_config({"AUTHZ_TRUSTED_PROXIES": "10.0.0.0/8, ::1"}),
    ]
    assert [[str(network) for network in config.trusted_proxies] for config in given] == [
        [],
        *[["10.0.0.0/8", "::1/128"]] * 2,
    ]


def test_tenants_come_from_the_file(tmp_path: Path) -> None:
    file = tmp_path / "authz.toml"
    file.write_text('policies = "a"\n[tenants]\nacme = "b"\n')
    config = load_config({"AUTHZ_CONFIG": str(file)})
    assert config.bundles == {"default": Path("a"), "acme": Path("b")}


@pytest.mark.parametrize(
    ("environment", "said"),
    [
        ({"AUTHZ_PROT": "8700"}, "`AUTHZ_PROT` is no setting"),
        ({"AUTHZ_TENANTS": "{}"}, "`AUTHZ_TENANTS` is no setting"),
        ({"AUTHZ_PORT": "0"}, "`port`"),
        ({"AUTHZ_PORT": "70000"}, "`port`"),
        ({"AUTHZ_PORT": "eight"}, "`port`"),
        ({"AUTHZ_TRUSTED_PROXIES": "*"}, "`trusted_proxies"),
        ({"AUTHZ_TRUSTED_PROXIES": "10.0.0.1,secret-but-short"}, "`trusted_proxies"),
        ({"AUTHZ_TRUSTED_PROXIES": "10.0.0.1/8"}, "`trusted_proxies"),
        ({"AUTHZ_LOG_LEVEL": "loud"}, "`log_level`"),
        ({"AUTHZ_DECISION_TTL_SECONDS": "0"}, "`decision_ttl_seconds`"),
        ({"AUTHZ_APPROVAL_PENDING_SECONDS": "9"}, "`approval_pending_seconds`"),
        ({"AUTHZ_APPROVAL_DEFAULT_TTL_SECONDS": "0"}, "`approval_default_ttl_seconds`"),
        ({"AUTHZ_CAPABILITY_MAX_LIFETIME_SECONDS": "59"}, "`capability_max_lifetime_seconds`"),
        ({"AUTHZ_CAPABILITY_MAX_LIFETIME_SECONDS": "2592001"}, "`capability_max_lifetime_seconds`"),
        ({"AUTHZ_KEY_PUBLISH_SECONDS": "59"}, "`key_publish_seconds`"),
        ({"AUTHZ_PUBLIC_URL": "authz.example"}, "`public_url` must be an absolute url"),
        ({"AUTHZ_PUBLIC_URL": "ftp://authz.example"}, "`public_url` must be `http` or `https`"),
        (
            {"AUTHZ_PUBLIC_URL": "https://u:secret-but-short@h"},
            "`public_url` must be `http` or `https`, without",
        ),
        ({"AUTHZ_PUBLIC_URL": "https://h?a"}, "without credentials, query"),
        ({"AUTHZ_PUBLIC_URL": "https://h/a?"}, "without credentials, query"),
        ({"AUTHZ_PUBLIC_URL": "https://h/#"}, "query and fragment"),
        ({"AUTHZ_PUBLIC_URL": "https://h/"}, "`public_url` must be spelled as a browser does"),
        ({"AUTHZ_PUBLIC_URL": "https://h/a/"}, "without a slash at the end"),
        ({"AUTHZ_PUBLIC_URL": "https://h//"}, "without a slash at the end"),
        ({"AUTHZ_PUBLIC_URL": "HTTPS://H"}, "as a browser does"),
        ({"AUTHZ_PUBLIC_URL": "https://h:443"}, "as a browser does"),
        ({"AUTHZ_PUBLIC_URL": "https://h/a/../b"}, "as a browser does"),
        ({"AUTHZ_PUBLIC_URL": "https://bücher.example"}, "as a browser does"),
        ({"AUTHZ_PUBLIC_URL": " https://h"}, "as a browser does"),
        ({"AUTHZ_PUBLIC_URL": "https://" + "h" * 1100}, "`public_url`"),
        ({"AUTHZ_PUBLIC_URL": "https://"}, "`public_url`"),
        ({"AUTHZ_WATCH": "sometimes"}, "`watch`"),
        ({"AUTHZ_BUNDLE_MAX_STALENESS_SECONDS": "1"}, "`bundle_max_staleness_seconds`"),
        ({"AUTHZ_BUNDLE_MAX_STALENESS_SECONDS": "nan"}, "`bundle_max_staleness_seconds`"),
        (
            {"AUTHZ_BUNDLE_MAX_STALENESS_SECONDS": "60", "AUTHZ_WATCH": "false"},
            "`bundle_max_staleness_seconds` needs `watch`",
        ),
        ({"AUTHZ_DEV_KEY": "secret-but-short"}, "`dev_key`"),
        ({"AUTHZ_DEV_KEY": "k" * 513}, "`dev_key` must be at most 512 bytes"),
        ({"AUTHZ_DEV_KEY": "ключ" * 65}, "`dev_key` must be at most 512 bytes"),
        ({"AUTHZ_DEV_KEY": " " + "k" * 40}, "`dev_key` must not begin or end with a blank"),
        ({"AUTHZ_DEV_KEY": "k" * 40 + "\n"}, "`dev_key` must be text without control characters"),
        ({"AUTHZ_DEV_KEY": "k" * 40 + "\udcff"}, "`dev_key` must be UTF-8"),
    ],
)
def test_a_faulty_setting_is_named_and_its_value_is_not(environment: dict[str, str], said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_config(environment)
    assert said in caught.value.message
    assert "secret-but-short" not in caught.value.message


@pytest.mark.parametrize("text", ["port = ", "prot = 1", "port = true", "[tenants]\n'../x' = 'y'", "\xff"])
def test_a_faulty_file_is_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "authz.toml"
    file.write_text(text, encoding="latin-1")
    with pytest.raises(ConfigError):
        load_config({"AUTHZ_CONFIG": str(file)})


def test_other_programs_variables_are_left_alone() -> None:
    assert load_config({"PATH": "/bin", "AUTHZ_FORBID_SKIPS": "1"}) == Config()


def test_the_dev_key_does_not_show() -> None:
    config = load_config({"AUTHZ_DEV_KEY": "k" * 40})
    assert "k" * 40 not in repr(config)


def test_an_empty_variable_is_unset_for_every_setting() -> None:
    names = [name for name in Config.model_fields if name not in ONLY_IN_FILE] + ["config"]
    assert load_config({f"AUTHZ_{name.upper()}": "" for name in names}) == Config()
    with pytest.raises(ConfigError):
        load_config({"AUTHZ_PROT": ""})


def test_an_empty_host_of_the_file_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "authz.toml"
    file.write_text('host = ""\n')
    with pytest.raises(ConfigError, match="`host`"):
        load_config({"AUTHZ_CONFIG": str(file)})


@pytest.mark.parametrize(
    "key", ["k" * 32, "k" * 512, "two words, and more of them: a tab\tin it", "ключ" * 20]
)
def test_a_dev_key_that_is_taken_is_one_that_authenticates(key: str) -> None:
    config = load_config({"AUTHZ_DEV_KEY": key})
    assert config.dev_key is not None
    assert read_key(key.encode()) == config.dev_key.get_secret_value()


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("AUTHZ.Example.COM.", "authz.example.com"),
        ("2001:DB8:0::1", "2001:db8::1"),
        ("fe80::1%lo", "fe80::1"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
    ],
)
def test_its_own_address_is_protected_as_rules_spell_it(host: str, expected: str) -> None:
    protected = protected_places(Config(host=host))
    assert {"localhost", expected} <= protected.hosts
    assert not protected.non_global_addresses


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("", None),
        ("http://localhost:8700", None),
        ("http://localhost", ("localhost", 80)),
        ("https://authz.example.com", ("authz.example.com", 443)),
        ("https://gateway.example.com:8443/authz", ("gateway.example.com", 8443)),
        ("http://192.0.2.7:8700", ("192.0.2.7", 8700)),
        ("https://[2001:db8::1]", ("2001:db8::1", 443)),
    ],
)
def test_the_address_that_callers_know_is_protected_too(url: str, expected: tuple[str, int] | None) -> None:
    """A proxy before it has another host and port than it listens on."""
    assert protected_places(Config(public_url=url)).public == expected


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "0"])
def test_a_listener_on_every_address_is_this_machine_under_all_its_names(
    host: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("socket.gethostname", lambda: "Node-7")
    monkeypatch.setattr("socket.getfqdn", lambda: "node-7.example.com")
    addresses = {"Node-7": ["192.0.2.7"], "node-7.example.com": ["192.0.2.7", "2001:db8::7"]}
    monkeypatch.setattr(
        "socket.getaddrinfo", lambda name, _: [(0, 0, 0, "", (address, 0)) for address in addresses[name]]
    )
    protected = protected_places(Config(host=host))
    assert protected.hosts == {"localhost", "node-7", "node-7.example.com", "192.0.2.7", "2001:db8::7"}
    assert protected.non_global_addresses


@pytest.mark.parametrize("url", ["mysql://ada:hunter2hunter2@db/authz", "hunter2hunter2", "/var/authz.db"])
def test_a_database_url_is_of_postgresql_and_is_not_quoted(url: str) -> None:
    with pytest.raises(ConfigError, match="`database_url` must begin with `postgresql://`") as refused:
        load_config({"AUTHZ_DATABASE_URL": url})
    assert "hunter2" not in str(refused.value)


def test_where_the_data_is() -> None:
    assert locate_database(load_config({"AUTHZ_DATABASE_URL": ""})) == Path("var/authz.db")
    config = load_config({"AUTHZ_DATABASE_URL": "postgresql://ada:hunter2hunter2@db.example.com:5433/authz"})
    assert "hunter2" not in repr(config)
    database = locate_database(config)
    assert isinstance(database, PostgresUrl)
    assert database.password == "hunter2hunter2"
    assert str(database) == "postgresql://db.example.com:5433/authz"
    broken = load_config({"AUTHZ_DATABASE_URL": "postgresql://ada:hunter2hunter2@db/authz?sslmod=require"})
    with pytest.raises(ConfigError) as refused:
        locate_database(broken)
    assert "hunter2" not in str(refused.value)

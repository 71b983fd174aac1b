"""Configuration: validated at start, unknown keys are errors, values never echoed."""

from pathlib import Path

import pytest

from authz.config import Config, load_config
from authz.errors import ConfigError


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
        ({"AUTHZ_LOG_LEVEL": "loud"}, "`log_level`"),
        ({"AUTHZ_DECISION_TTL_SECONDS": "0"}, "`decision_ttl_seconds`"),
        ({"AUTHZ_DEV_KEY": "secret-but-short"}, "`dev_key`"),
        ({"AUTHZ_DEV_KEY": "ключ" * 20}, "`dev_key`"),
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

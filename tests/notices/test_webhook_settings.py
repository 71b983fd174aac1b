"""`[[webhooks]]` of the configuration file: checked at start, and no secret of it is echoed."""

from pathlib import Path

import pytest

from authz.config import Config, load_config
from authz.core.notice import NoticeKind
from authz.errors import ConfigError
from authz.model.webhook import WebhookFormat
from tests.notices.receiver import OLD_SECRET, SECRET


def read(folder: Path, *tables: str) -> Config:
    file = folder / "authz.toml"
    file.write_text('tenants = { acme = "acme" }\n' + "".join(f"[[webhooks]]\n{table}\n" for table in tables))
    return load_config({"AUTHZ_CONFIG": str(file)})


def table(**said: str) -> str:
    known = {"name": "ops", "url": "https://hooks.example/a", "secret": SECRET}
    return "\n".join(
        f"{name} = {value if value.startswith('[') else repr(value)}"
        for name, value in {**known, **said}.items()
        if value
    )


def test_a_webhook_gets_every_kind_unless_it_chooses(tmp_path: Path) -> None:
    config = read(tmp_path, table(), table(name="few", events='["approval.requested"]', tenant="acme"))
    every, few = (one.webhook for one in config.webhooks)

    assert (every.tenant, every.name, every.url) == ("default", "ops", "https://hooks.example/a")
    assert every.keys == (bytes(range(32)),)
    assert every.format is WebhookFormat.AUTHZ
    assert every.events == {kind.value for kind in NoticeKind}
    assert few.tenant == "acme"
    assert few.events == {"approval.requested"}


def test_two_secrets_sign_while_receivers_change(tmp_path: Path) -> None:
    (one,) = read(tmp_path, table(old_secret=OLD_SECRET)).webhooks
    assert one.webhook.keys == (bytes(range(32)), bytes(range(32, 64)))


def test_slack_needs_no_secret(tmp_path: Path) -> None:
    (one,) = read(tmp_path, table(format="slack", secret="")).webhooks
    assert one.webhook.keys == ()


@pytest.mark.parametrize("url", ["http://127.0.0.1:9/a", "http://[::1]:9/a", "http://localhost/a"])
def test_plain_text_stays_on_this_machine(tmp_path: Path, url: str) -> None:
    (one,) = read(tmp_path, table(url=url)).webhooks
    assert one.webhook.url == url


@pytest.mark.parametrize(
    ("said", "where", "why"),
    [
        ({"url": "http://hooks.example/a"}, "0.url", "loopback"),
        ({"url": "http://localhost.example/a"}, "0.url", "loopback"),
        ({"url": "http://127.0.0.1.example/a"}, "0.url", "loopback"),
        ({"url": "http://0.0.0.0/a"}, "0.url", "loopback"),
        ({"url": "ftp://localhost/a"}, "0.url", "https"),
        ({"url": "file:///etc/passwd"}, "0.url", "https"),
        ({"url": "https://me:topsecret@hooks.example/"}, "0.url", "credentials"),
        ({"url": "https://hooks.example/#a"}, "0.url", "fragment"),
        ({"url": "hooks"}, "0.url", "absolute"),
        ({"secret": ""}, "0.secret", "needed"),
        ({"secret": "topsecret-topsecret-topsecret"}, "0.secret", "24 to 64"),
        ({"secret": "whsec_dG9wc2VjcmV0"}, "0.secret", "24 to 64"),
        ({"secret": "whsec_" + "A" * 100}, "0.secret", "24 to 64"),
        ({"secret": "whsec_not base64 not base64 not base64"}, "0.secret", "24 to 64"),
        ({"old_secret": "topsecret"}, "0.old_secret", "24 to 64"),
        ({"name": "Ops"}, "0.name", "pattern"),
        ({"format": "teams"}, "0.format", "authz"),
        ({"events": '["approval.imagined"]'}, "0.events", "approval"),
        ({"events": "[]"}, "0.events", "1"),
        ({"tenant": "nobody"}, "webhooks", "nobody"),
        ({"sekret": "topsecret"}, "0.sekret", "no setting"),
    ],
)
def test_a_faulty_webhook_is_named_and_its_secrets_are_not(
    tmp_path: Path, said: dict[str, str], where: str, why: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        read(tmp_path, table(**said))
    assert where in caught.value.message
    assert why in caught.value.message
    assert "topsecret" not in caught.value.message


def test_names_are_told_apart_within_a_tenant(tmp_path: Path) -> None:
    assert len(read(tmp_path, table(), table(tenant="acme")).webhooks) == 2
    with pytest.raises(ConfigError, match="names of their own"):
        read(tmp_path, table(), table())


def test_webhooks_come_from_the_file_alone() -> None:
    with pytest.raises(ConfigError, match="`AUTHZ_WEBHOOKS` is no setting"):
        load_config({"AUTHZ_WEBHOOKS": "[]"})


def test_no_secret_shows(tmp_path: Path) -> None:
    config = read(tmp_path, table(url="https://hooks.slack.example/services/T0/B0/topsecret"))
    for text in (repr(config), str(config), repr(config.webhooks[0].webhook)):
        assert "topsecret" not in text
        assert SECRET not in text
        assert "\\x01\\x02" not in text

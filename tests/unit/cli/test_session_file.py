"""The file of a command line's session: for its owner alone, and never half of it."""

import os
import stat
from pathlib import Path

import pytest

from authz.cli.session_file import forget_session, read_session, session_path, write_session
from authz.errors import ConfigError

TOKEN = "azs_" + "t" * 43


@pytest.fixture(autouse=True)
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    found = tmp_path / "config" / "session.json"
    monkeypatch.setenv("AUTHZ_SESSION_FILE", str(found))
    return found


def test_what_is_written_is_read_and_is_private(path: Path) -> None:
    old = os.umask(0)
    try:
        assert write_session("http://localhost:8700", TOKEN) == path
    finally:
        os.umask(old)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert read_session() == ("http://localhost:8700", TOKEN)
    write_session("https://authz.example.test", TOKEN)
    assert read_session()[0] == "https://authz.example.test"
    assert [each.name for each in path.parent.iterdir()] == [path.name]


def test_it_is_forgotten_and_may_be_again(path: Path) -> None:
    write_session("http://localhost:8700", TOKEN)
    forget_session()
    forget_session()
    with pytest.raises(ConfigError, match="nobody is signed in here"):
        read_session()


def test_one_that_others_may_read_is_refused(path: Path) -> None:
    write_session("http://localhost:8700", TOKEN)
    path.chmod(0o640)
    with pytest.raises(ConfigError, match="not for you alone"):
        read_session()


def test_a_link_to_another_file_is_refused(path: Path, tmp_path: Path) -> None:
    write_session("http://localhost:8700", TOKEN)
    path.rename(tmp_path / "elsewhere")
    path.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ConfigError, match="cannot be read"):
        read_session()


@pytest.mark.parametrize(
    "content",
    ["", "{", "[]", "null", "[" * 3000, '{"url": "http://x"}', '{"url": 1, "token": "azs_x"}']
    + ['{"url": "http://x", "token": "azk_x"}', "x" * 5000],
)
def test_one_that_is_none_is_refused(path: Path, content: str) -> None:
    write_session("http://localhost:8700", TOKEN)
    path.write_text(content)
    with pytest.raises(ConfigError, match="cannot be read"):
        read_session()


def test_where_it_is_without_being_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("AUTHZ_SESSION_FILE")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert session_path() == tmp_path / "authz" / "session.json"
    monkeypatch.setenv("XDG_CONFIG_HOME", "relative")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert session_path() == tmp_path / "home" / ".config" / "authz" / "session.json"

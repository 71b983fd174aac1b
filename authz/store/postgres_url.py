"""Where a PostgreSQL database is: a connection URL whose password is never shown."""

from dataclasses import dataclass
from typing import Self

from psycopg import ProgrammingError
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from authz.errors import ConfigError

_DEFAULTS = {
    # A server that is gone without a word is noticed within these bounds, and then asked for anew.
    "connect_timeout": "5",
    "keepalives_idle": "10",
    "keepalives_interval": "5",
    "keepalives_count": "3",
    "tcp_user_timeout": "15000",
}
_FORCED = {
    # Both ends of a decision must see the newest state, so a standby is no database of ours.
    "target_session_attrs": "read-write",
    "client_encoding": "UTF8",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class PostgresUrl:
    """A checked connection string. Its text forms hold no password, so that it can be logged."""

    conninfo: str
    """What the driver takes, password included. Never to be shown."""
    label: str
    """`host:port/database`, to be shown."""
    password: str

    @classmethod
    def parse(cls, url: str) -> Self:
        """Read `postgresql://…` with any of libpq's parameters (TLS: `sslmode`, `sslrootcert`, …).

        Raises `ConfigError`, which does not quote the url: it may hold a password.
        """
        try:
            given = conninfo_to_dict(url)
        except (ProgrammingError, UnicodeError, ValueError):
            # `from None`: the driver's error quotes what it could not read.
            raise ConfigError("the database url is not one that PostgreSQL's client library reads") from None
        parameters = {**_DEFAULTS, **given, **_FORCED}
        host = given.get("host") or given.get("hostaddr") or "local socket"
        port = f":{given['port']}" if given.get("port") else ""
        database = given.get("dbname") or given.get("user") or ""
        return cls(
            conninfo=make_conninfo("", **parameters),
            label=f"{host}{port}/{database}",
            password=str(given.get("password") or ""),
        )

    def __str__(self) -> str:
        return f"postgresql://{self.label}"

    def __repr__(self) -> str:
        return f"PostgresUrl({self.label!r})"

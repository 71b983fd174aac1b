"""Configuration by environment (`AUTHZ_…`) and file (TOML), validated at start. Unknown keys are errors."""

import base64
import binascii
import ipaddress
import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import can_ada
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    IPvAnyNetwork,
    SecretStr,
    ValidationError,
    ValidationInfo,
    field_validator,
)

from authz.core.credentials import fault_of_chosen_key
from authz.core.notice import NoticeKind
from authz.errors import ConfigError
from authz.model.oidc import OidcProvider
from authz.model.webhook import Webhook, WebhookFormat

PREFIX: Final = "AUTHZ_"
CONFIG_FILE: Final = "AUTHZ_CONFIG"
FOREIGN: Final = frozenset(
    {
        "AUTHZ_REQUIRE_SHARED",
        "AUTHZ_FORBID_SKIPS",
        "AUTHZ_SESSION_FILE",
        "AUTHZ_HOOK_CONFIG",
        "AUTHZ_HOOK_KEY",
    }
)
"""Variables with the prefix that belong to the test runner, to the command line or to a hook alone."""
ONLY_IN_FILE: Final = frozenset({"tenants", "webhooks", "oidc"})
DEFAULT_TENANT: Final = "default"
WEBHOOK_SECRET_PREFIX: Final = "whsec_"


class WebhookConfig(BaseModel):
    """One receiver of notices: a table `[[webhooks]]` of the file."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    name: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]{0,62}$")]
    """What commands and records call it."""
    tenant: str = DEFAULT_TENANT
    url: SecretStr
    """`https`, or `http` to this machine. A secret: of Slack's whoever knows it may post."""
    format: WebhookFormat = WebhookFormat.AUTHZ
    secret: Annotated[SecretStr | None, Field(validate_default=True)] = None
    """`whsec_` and the base64 form of 24 to 64 bytes, as the Standard Webhooks specification has it. Slack
    looks at no signature, so there it may be left out."""
    old_secret: SecretStr | None = None
    """Signs as well, while receivers change to `secret`."""
    events: Annotated[frozenset[NoticeKind], Field(min_length=1)] = frozenset(NoticeKind)

    @field_validator("url")
    @classmethod
    def _keeps_what_it_carries(cls, value: SecretStr) -> SecretStr:
        try:
            url = can_ada.parse(value.get_secret_value())
        except ValueError:
            raise ValueError("must be an absolute url") from None
        if url.has_credentials() or url.hash:
            raise ValueError("must be without credentials and fragment")
        if url.protocol != "https:" and not (url.protocol == "http:" and _is_loopback(url.hostname)):
            raise ValueError("must be `https`, or `http` to a loopback address")
        return SecretStr(str(url))

    @field_validator("secret", "old_secret")
    @classmethod
    def _is_long_enough(cls, value: SecretStr | None, others: ValidationInfo) -> SecretStr | None:
        if value is not None:
            _webhook_key(value)
        elif others.field_name == "secret" and others.data.get("format") is WebhookFormat.AUTHZ:
            raise ValueError("is needed: receivers know by it that a notice is this service's")
        return value

    @property
    def webhook(self) -> Webhook:
        """Without what only the configuration needs."""
        given = [secret for secret in (self.secret, self.old_secret) if secret is not None]
        return Webhook(
            tenant=self.tenant,
            name=self.name,
            url=self.url.get_secret_value(),
            keys=tuple(map(_webhook_key, given)),
            format=self.format,
            events=frozenset(kind.value for kind in self.events),
        )


class OidcConfig(BaseModel):
    """The identity provider of one tenant: a table `[oidc.<tenant>]` of the file.

    There this service is registered with the redirect URI `<public_url>/ui/oidc/callback/<tenant>`.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    issuer: str
    """As the provider spells it, character by character; `https`, or `http` to this machine."""
    client_id: Annotated[str, Field(min_length=1)]
    client_secret: Annotated[SecretStr, Field(min_length=1)]
    scopes: Annotated[list[str], Field(min_length=1)] = ["openid", "profile"]
    person_claim: Annotated[str, Field(min_length=1)]
    """The claim of the ID token that is the id of the `User`. Whoever can choose it there chooses whom they
    are here."""
    groups_claim: str = "groups"
    groups: dict[str, list[str]] = {}
    """Groups of the bundle by a group of the provider's."""
    roles: Annotated[dict[str, list[Literal["approve", "policy", "audit"]]], Field(min_length=1)]
    """Roles by a group of the provider's. Who is in none of them is not signed in."""
    origins: list[str] = []
    """Where else than at the issuer its token endpoint and its keys may be, such as
    `https://oauth2.googleapis.com`."""

    @field_validator("issuer")
    @classmethod
    def _is_an_issuer(cls, value: str) -> str:
        return _check_provider_url(value)

    @field_validator("origins")
    @classmethod
    def _are_origins(cls, value: list[str]) -> list[str]:
        for each in value:
            if can_ada.parse(_check_provider_url(each)).origin != each:
                raise ValueError("must be origins, without a path and a slash at the end")
        return value

    @field_validator("scopes")
    @classmethod
    def _ask_who_it_is(cls, value: list[str]) -> list[str]:
        if "openid" not in value:
            raise ValueError("must have `openid`")
        return value

    def provider(self, tenant: str) -> OidcProvider:
        """Without what only the configuration needs."""
        return OidcProvider(
            tenant=tenant,
            issuer=self.issuer,
            client_id=self.client_id,
            client_secret=self.client_secret.get_secret_value(),
            scopes=tuple(self.scopes),
            person_claim=self.person_claim,
            groups_claim=self.groups_claim,
            groups={name: frozenset(groups) for name, groups in self.groups.items()},
            roles={name: frozenset(roles) for name, roles in self.roles.items()},
            origins=frozenset(self.origins),
        )


def _check_provider_url(value: str) -> str:
    try:
        url = can_ada.parse(value)
    except ValueError:
        raise ValueError("must be an absolute url") from None
    if url.has_credentials() or "?" in value or "#" in value:
        raise ValueError("must be without credentials, query and fragment")
    if url.protocol != "https:" and not (url.protocol == "http:" and _is_loopback(url.hostname)):
        raise ValueError("must be `https`, or `http` to a loopback address")
    return value


def _webhook_key(secret: SecretStr) -> bytes:
    text = secret.get_secret_value()
    try:
        key = base64.b64decode(text.removeprefix(WEBHOOK_SECRET_PREFIX), validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if not text.startswith(WEBHOOK_SECRET_PREFIX) or not 24 <= len(key) <= 64:
        raise ValueError(f"must be `{WEBHOOK_SECRET_PREFIX}` and the base64 form of 24 to 64 random bytes")
    return key


def _is_private(url: str) -> bool:
    """Whether what a browser sends there is nobody else's to read."""
    parsed = can_ada.parse(url)
    return bool(parsed.protocol == "https:") or _is_loopback(parsed.hostname)


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


class Config(BaseModel):
    """Everything that can be configured. The environment wins over the file."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    host: Annotated[str, Field(min_length=1)] = "127.0.0.1"
    port: Annotated[int, Field(ge=1, le=65535)] = 8700
    public_url: Annotated[str, Field(max_length=1024, validate_default=True)] = ""
    """Where callers and verifiers reach this service; `http://localhost:<port>` unless it is set.

    It is the issuer (`iss`) and the audience of tokens, which are compared character by character: as a
    browser would spell it, `http` or `https`, without a slash at the end, the same for every replica. A
    change of it voids all tokens.
    """
    policies: Path = Path("policies")
    """The bundle of the tenant `default`."""
    tenants: dict[Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]{0,62}$")], Path] = {}
    """Further tenants and their bundles; only from the file."""
    webhooks: list[WebhookConfig] = []
    """Who is told of approvals; only from the file."""
    data_dir: Path = Path("var")
    """Database and keys. Created with mode 0700."""
    database_url: SecretStr | None = None
    """`postgresql://…` for many replicas; by default SQLite in the data directory. A secret: it may hold a
    password."""
    dev_key: SecretStr | None = None
    """The key of `serve --dev`, for scripts: 32 or more characters that an HTTP header can carry."""
    trusted_proxies: tuple[IPvAnyNetwork, ...] = ()
    """Addresses and networks whose `X-Forwarded-For` is believed; in the environment with commas between.

    By the client's address sign-ins are limited: behind a proxy that is not named here all people share one
    limit, and a stranger could use it up for everybody.
    """
    max_body_bytes: Annotated[int, Field(ge=1024, le=64 * 1024 * 1024)] = 1024 * 1024
    decision_ttl_seconds: Annotated[int, Field(ge=1, le=86400)] = 300
    """How long an allow, and its lease, lasts."""
    approval_pending_seconds: Annotated[int, Field(ge=10, le=604_800)] = 3600
    """How long a request for an approval waits for people; then it has expired, which is no denial."""
    approval_default_ttl_seconds: Annotated[int, Field(ge=1, le=86_400)] = 900
    """How long a yes lasts where no rule that asks says it (`@ttl`)."""
    approval_waiters_per_caller: Annotated[int, Field(ge=1, le=1000)] = 64
    """How many long polls and streams of one caller may wait for approvals at a time (429 over it)."""
    person_session_seconds: Annotated[int, Field(ge=60, le=604_800)] = 28_800
    """How long people stay signed in at most."""
    person_session_idle_seconds: Annotated[int, Field(ge=60, le=604_800)] = 3_600
    """How long they stay signed in when they do nothing."""
    oidc: dict[str, OidcConfig] = {}
    """Identity providers by tenant; only from the file. Without one, people sign in by passkey."""
    capability_max_lifetime_seconds: Annotated[int, Field(ge=60, le=2_592_000)] = 86_400
    """The longest that a capability may live. For so long a retired signing key goes on to verify."""
    key_publish_seconds: Annotated[int, Field(ge=60, le=604_800)] = 300
    """How long a new signing key is published before it is used. Verifiers may keep the key set half as
    long; where replicas have copies of the key file, they must all have the new one within this time."""
    revocation_max_staleness_seconds: Annotated[float, Field(ge=1, le=60, allow_inf_nan=False)] = 2.0
    """Within how long a revocation stops calls on every replica. When what was revoked is not known for
    longer than this, nothing is decided by a capability (503 `revocations.stale`)."""
    watch: bool = True
    """Whether changes of the bundles' files are noticed. Without it only SIGHUP and the API reload."""
    bundle_max_staleness_seconds: Annotated[float, Field(ge=5, le=86400, allow_inf_nan=False)] | None = None
    """How long decisions may go by a bundle that its files were not seen to be; off by default.

    The files are looked at about once a second, of a large folder less often: four times within the bound
    at least. The service says so at its start where that is more than it can do. When for this long they
    were different from what is in force, could not be read, or were not looked at, nothing is decided
    (503 `bundle.stale`) and `/readyz` is not ready, until a good bundle loads.
    """
    log_level: Literal["debug", "info", "warning", "error"] = "info"

    @field_validator(
        *("port", "max_body_bytes", "decision_ttl_seconds", "bundle_max_staleness_seconds"),
        *("capability_max_lifetime_seconds", "key_publish_seconds", "revocation_max_staleness_seconds"),
        *("person_session_seconds", "person_session_idle_seconds"),
        *("approval_pending_seconds", "approval_default_ttl_seconds", "approval_waiters_per_caller"),
        mode="before",
    )
    @classmethod
    def _no_boolean(cls, value: Any) -> Any:
        # `true` would count as 1.
        if isinstance(value, bool):
            raise ValueError("must be a number")  # noqa: TRY004 - pydantic takes no TypeError
        return value

    @field_validator("trusted_proxies", mode="before")
    @classmethod
    def _of_a_text(cls, value: Any) -> Any:
        return [each.strip() for each in value.split(",")] if isinstance(value, str) else value

    @field_validator("public_url")
    @classmethod
    def _is_canonical(cls, value: str, others: ValidationInfo) -> str:
        # Without a port there is a fault already, which is the one that is told.
        port = others.data.get("port", 80)
        value = value or ("http://localhost" if port == 80 else f"http://localhost:{port}")
        try:
            url = can_ada.parse(value)
        except ValueError:
            raise ValueError("must be an absolute url") from None
        if url.protocol not in ("http:", "https:") or url.has_credentials() or "?" in value or "#" in value:
            raise ValueError("must be `http` or `https`, without credentials, query and fragment")
        if value != str(url).removesuffix("/") or value.endswith("/"):
            raise ValueError("must be spelled as a browser does, without a slash at the end")
        return value

    @field_validator("webhooks")
    @classmethod
    def _are_told_apart(cls, value: list[WebhookConfig], others: ValidationInfo) -> list[WebhookConfig]:
        tenants = {DEFAULT_TENANT, *others.data.get("tenants", {})}
        if unknown := sorted({webhook.tenant for webhook in value} - tenants):
            raise ValueError(f"name a tenant that is not configured: `{unknown[0]}`")
        if len({(webhook.tenant, webhook.name) for webhook in value}) < len(value):
            raise ValueError("must have names of their own")
        return value

    @field_validator("oidc")
    @classmethod
    def _are_of_tenants(cls, value: dict[str, OidcConfig], others: ValidationInfo) -> dict[str, OidcConfig]:
        tenants = {DEFAULT_TENANT, *others.data.get("tenants", {})}
        if unknown := sorted(set(value) - tenants):
            raise ValueError(f"names a tenant that is not configured: `{unknown[0]}`")
        # Without a fault in it; and passkeys, the other way to sign in, browsers refuse there by themselves.
        public_url = others.data.get("public_url")
        if value and public_url is not None and not _is_private(public_url):
            raise ValueError("needs a `public_url` with `https`, or on this machine: sessions are secrets")
        return value

    @field_validator("bundle_max_staleness_seconds")
    @classmethod
    def _needs_the_watch(cls, value: float | None, others: ValidationInfo) -> float | None:
        if value is not None and others.data.get("watch") is False:
            raise ValueError("needs `watch`, or every bundle would become stale")
        return value

    @field_validator("database_url")
    @classmethod
    def _is_postgresql(cls, value: SecretStr | None) -> SecretStr | None:
        if value is not None and not value.get_secret_value().startswith(("postgresql://", "postgres://")):
            raise ValueError("must begin with `postgresql://`; leave it out for SQLite in the data directory")
        return value

    @field_validator("dev_key", "database_url", mode="before")
    @classmethod
    def _unset_when_empty(cls, value: Any) -> Any:
        return value or None

    @field_validator("dev_key", mode="before")
    @classmethod
    def _can_be_presented(cls, value: Any) -> Any:
        # Before it becomes a secret, because pydantic itself refuses what is no UTF-8, in words of its own.
        key = value.get_secret_value() if isinstance(value, SecretStr) else value
        if isinstance(key, str) and (fault := fault_of_chosen_key(key)) is not None:
            raise ValueError(fault)
        return value

    @property
    def bundles(self) -> dict[str, Path]:
        """The folder of each tenant's bundle."""
        return {DEFAULT_TENANT: self.policies, **self.tenants}


def load_config(environment: Mapping[str, str] | None = None, **overrides: Any) -> Config:
    """Read file, environment and command line, in rising precedence. Raises `ConfigError`.

    Messages name the key and never the value: it could be a secret.
    """
    environment = os.environ if environment is None else environment
    values: dict[str, Any] = {}
    path = environment.get(CONFIG_FILE)
    if path:
        values |= _read_file(Path(path))
    for name, value in environment.items():
        if not name.startswith(PREFIX) or name == CONFIG_FILE or name in FOREIGN:
            continue
        key = name.removeprefix(PREFIX).lower()
        if key not in Config.model_fields or key in ONLY_IN_FILE:
            raise ConfigError(f"`{name}` is no setting; settings are {', '.join(_names())}")
        # Compose files and shells cannot unset a variable, only empty it: for every setting that is unset.
        if value:
            values[key] = value
    values |= {key: value for key, value in overrides.items() if value is not None}
    try:
        return Config.model_validate(values)
    except ValidationError as error:
        fault = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in fault["loc"])
        message = "is no setting" if fault["type"] == "extra_forbidden" else fault["msg"]
        raise ConfigError(f"the setting `{where}` {_lower(message)}") from None


def _names() -> list[str]:
    return [PREFIX + name.upper() for name in Config.model_fields if name not in ONLY_IN_FILE] + [CONFIG_FILE]


def _read_file(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"the configuration file `{path}` cannot be read: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"the configuration file `{path}` is not TOML: {error}") from None


def _lower(message: str) -> str:
    message = message.removeprefix("Value error, ").removeprefix("Input ")
    return message[:1].lower() + message[1:]

"""The records of people: accounts, passkeys, sign-ins and refusals. No token, link or code is in one."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import orjson

from authz.core.log_chain import index_members
from authz.core.record_places import redaction_members
from authz.core.redact import Redactor
from authz.model.account import Account, SignedIn, SignInMethod
from authz.model.record import Event, EventType


class Change(StrEnum):
    """What became of an account. Closed."""

    INVITED = "invited"
    """It was made or its roles were set, and a link was handed out for registering a passkey."""
    DEV_ACCOUNT = "dev_account"
    """A run with `--dev` made it, or gave it another link."""
    DEV_ENDED = "dev_ended"
    """A run without `--dev` voided it, with its sessions, links and passkeys."""
    FROM_PROVIDER = "from_provider"
    """Its provider says who it is and what it may do."""
    DISABLED = "disabled"
    ENABLED = "enabled"
    PASSKEY_ADDED = "passkey_added"
    PASSKEY_REMOVED = "passkey_removed"
    PASSKEY_USED = "passkey_used"
    """It signed for an approval. The vote has a record of its own."""
    CODE_ISSUED = "code_issued"
    """A code for signing in on the command line."""
    ORDER_REFUSED = "order_refused"
    """What an operator asked for was not done."""


class By(StrEnum):
    """By whose act."""

    PERSON = "person"
    OPERATOR = "operator"
    """Somebody with access to the data, on the command line."""
    PROVIDER = "provider"
    SERVICE = "service"


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedPasskey:
    """What of a passkey is told: its public key, so that what it signed can be checked by the log alone."""

    credential_id: str
    public_key: str
    label: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """What else a record says."""

    passkey: RecordedPasskey | None = None
    groups: frozenset[str] = field(default_factory=frozenset)
    approval_id: str = ""
    why: str = ""
    bearer: bool = False


def changed_event(
    account: Account, change: Change, by: By, *, redactor: Redactor, now_ms: int, told: Told | None = None
) -> Event:
    """The record that an account was changed. `account` is as it is afterwards."""
    body = {
        "account": _account(account, redactor),
        "change": change.value,
        "by": by.value,
        **_told(told or Told(), redactor),
    }
    return _event(EventType.ACCOUNT_CHANGED, account.tenant, body, now_ms)


def signed_in_event(
    account: Account,
    method: SignInMethod,
    *,
    redactor: Redactor,
    now_ms: int,
    expires_at_ms: int,
    told: Told | None = None,
) -> Event:
    """The record that a session was opened, by whatever method."""
    body = {
        "person": _person(account, method),
        "roles": sorted(account.roles),
        "expires_at_ms": expires_at_ms,
        **_told(told or Told(), redactor),
    }
    return _event(EventType.PERSON_SIGNED_IN, account.tenant, body, now_ms)


def signed_out_event(person: SignedIn, *, now_ms: int) -> Event:
    """The record that a session ended by its person's wish."""
    body: dict[str, Any] = {"person": _person(person.account, person.method), "bearer": person.bearer}
    return _event(EventType.PERSON_SIGNED_OUT, person.tenant, body, now_ms)


def sign_in_refused_event(
    tenant: str, account: Account | None, method: SignInMethod, why: str, *, redactor: Redactor, now_ms: int
) -> Event:
    """The record that somebody was not let in. `why` is from a closed set, or a provider's word."""
    body = {
        "person": None if account is None else _person(account, method),
        "method": method.value,
        "why": redactor.text(why),
    }
    return _event(EventType.SIGN_IN_REFUSED, tenant, body, now_ms)


def order_refused_event(
    tenant: str, person: str, kind: str, why: str, *, redactor: Redactor, now_ms: int
) -> Event:
    """The record that an operator's order was not carried out."""
    body = {
        "account": {"person": redactor.text(person)},
        "change": Change.ORDER_REFUSED.value,
        "by": By.OPERATOR.value,
        "order": kind,
        "why": redactor.text(why),
    }
    return _event(EventType.ACCOUNT_CHANGED, tenant, body, now_ms)


def _account(account: Account, redactor: Redactor) -> dict[str, Any]:
    return {
        "id": account.account_id,
        "person": redactor.text(account.person),
        "display_name": redactor.text(account.display_name),
        "roles": sorted(account.roles),
        "disabled": account.disabled_at_ms > 0,
        "dev": account.dev,
    }


def _person(account: Account, method: SignInMethod) -> dict[str, Any]:
    return {"id": account.person, "account_id": account.account_id, "method": method.value}


def _told(told: Told, redactor: Redactor) -> dict[str, Any]:
    said: dict[str, Any] = {}
    if told.passkey is not None:
        said["passkey"] = {
            "credential_id": told.passkey.credential_id,
            "public_key": told.passkey.public_key,
            "label": redactor.text(told.passkey.label),
        }
    if told.groups:
        said["groups"] = [redactor.text(group) for group in sorted(told.groups)]
    if told.approval_id:
        said["approval_id"] = told.approval_id
    if told.why:
        said["why"] = redactor.text(told.why)
    if told.bearer:
        said["bearer"] = True
    return said


def _event(kind: EventType, tenant: str, body: Mapping[str, Any], now_ms: int) -> Event:
    # Where a person's or a passkey's name looks like a secret, the record says that it is a digest.
    body = dict(body) | redaction_members(body)
    index = index_members(body)
    return Event(
        type=kind,
        tenant=tenant,
        occurred_at_ms=now_ms,
        # A redacted text is of its own type.
        body=orjson.dumps(body, option=orjson.OPT_NON_STR_KEYS),
        rules=index.rules,
    )

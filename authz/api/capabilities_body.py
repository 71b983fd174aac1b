"""Bodies of `/capabilities`, read into what the use cases take. All else is `MalformedInput`."""

import re
from collections.abc import Mapping
from typing import Any, Final, TypeVar

from authz_client.capabilities import BadKey, PublicKey, Refused, TaskPacket, parse_packet, public_key
from pydantic import ValidationError

from authz.api.capabilities_wire import (
    HolderKey,
    IntrospectCapability,
    IssueCapability,
    NarrowCapability,
    RevokeCapability,
)
from authz.core.fingerprint import digest
from authz.core.issuing import IssueRequest
from authz.core.requests import Wire, malformed
from authz.core.strict_json import loads
from authz.errors import MalformedInput
from authz.model.capability import RevocationKind
from authz.service.capabilities_narrow import NarrowAsked

DEFAULT_LIFETIME_SECONDS: Final = 3600
_JSON_IN_FORMS: Final = ("authorization_details", "holder", "task")
_INTEGERS: Final = ("expires_in", "max_depth")
_NOT_SIGNED: Final = frozenset({"proof", "subject_token"})
Model = TypeVar("Model", bound=Wire)


def parse_issue(body: Any, now_ms: int) -> IssueRequest:
    """What `POST /capabilities` asks for."""
    found = _validated(IssueCapability, body)
    if found.on_behalf_of == found.agent:
        # A token would say of both that the agent acts for nobody.
        raise MalformedInput(
            "an agent acts for somebody else, or for nobody; leave `on_behalf_of` out",
            code="input.invalid",
            pointer="/on_behalf_of",
        )
    task = _task(found.task)
    _one_of(found.authorization_details, task)
    if task is not None and found.expires_in is not None:
        raise MalformedInput(
            "a task ends at its own `deadline`; leave `expires_in` out",
            code="input.invalid",
            pointer="/expires_in",
        )
    lifetime = found.expires_in or DEFAULT_LIFETIME_SECONDS
    return IssueRequest(
        agent=found.agent,
        user=found.on_behalf_of,
        holder=_holder(found.holder),
        details=found.authorization_details if task is None else _entries(task),  # type: ignore[arg-type]
        lifetime_seconds=lifetime if task is None else task.expires_at - now_ms // 1000,
        max_depth=found.max_depth,
        task=task,
        task_json=found.task,
    )


def parse_narrow(body: Any, *, is_form: bool) -> NarrowAsked:
    """What `POST /capabilities/attenuate` asks for. The proof signs the parameters as they were sent."""
    sent = body
    if is_form:
        body = _of_form(body)
    found = _validated(NarrowCapability, body)
    task = _task(found.task)
    if task is not None and (found.authorization_details is not None or found.expires_in is not None):
        raise MalformedInput(
            "a task says by itself what is needed and until when; send it alone",
            code="input.invalid",
            pointer="/task",
        )
    try:
        signed = digest({name: value for name, value in sent.items() if name not in _NOT_SIGNED})
    except ValueError as error:
        raise MalformedInput(f"the body has no canonical form: {error}", code="input.invalid") from None
    token = found.subject_token
    return NarrowAsked(
        chain=tuple(token.split(" ") if isinstance(token, str) else token),
        proof=found.proof,
        request_digest=signed,
        agent=found.agent,
        holder=_holder(found.holder),
        details=found.authorization_details if task is None else _entries(task),
        lifetime_seconds=found.expires_in,
        max_depth=found.max_depth,
        audience=found.audience,
        task=task,
        task_json=found.task,
    )


def parse_introspect(body: Any) -> IntrospectCapability:
    """What `POST /capabilities/introspect` asks about: one of the two."""
    found = _validated(IntrospectCapability, body)
    if (found.capability is None) == (found.link is None):
        raise MalformedInput("send `capability` or `link`, one of them", code="input.invalid")
    return found


def parse_revoke(body: Any) -> tuple[RevocationKind, str, str]:
    """(handle, its value, why)."""
    found = _validated(RevokeCapability, body)
    named = {
        kind: value
        for kind, value in (
            (RevocationKind.LINK, found.link),
            (RevocationKind.JTI, found.jti),
            (RevocationKind.HOLDER, found.holder),
        )
        if value is not None
    }
    if len(named) != 1:
        raise MalformedInput("send exactly one of `link`, `jti` and `holder`", code="input.invalid")
    [(kind, value)] = named.items()
    return kind, value, found.reason


def _validated(model: type[Model], body: Any) -> Model:
    try:
        return model.model_validate(body)
    except ValidationError as error:
        raise malformed(error) from None


def _of_form(form: Mapping[str, str]) -> dict[str, Any]:
    """The parameters of a form in the types that they have in JSON."""
    found: dict[str, Any] = dict(form)
    for name in _JSON_IN_FORMS:
        if name in found:
            found[name] = loads(found[name].encode())
    for name in _INTEGERS:
        if name in found and re.fullmatch(r"0|[1-9][0-9]{0,9}", found[name], re.ASCII):
            found[name] = int(found[name])
    if found.get("subject_token", "").startswith("["):
        found["subject_token"] = loads(found["subject_token"].encode())
    return found


def _one_of(details: Any, task: TaskPacket | None) -> None:
    if (details is None) == (task is None):
        raise MalformedInput("send `authorization_details` or `task`, one of them", code="input.invalid")


def _task(task: Mapping[str, Any] | None) -> TaskPacket | None:
    if task is None:
        return None
    try:
        return parse_packet(task)
    except Refused as error:
        raise _of_packet(error) from None


def _entries(task: TaskPacket) -> list[dict[str, Any]]:
    try:
        return task.entries()
    except Refused as error:
        raise _of_packet(error) from None


def _of_packet(error: Refused) -> MalformedInput:
    return MalformedInput(
        error.refusal.detail, code=f"capability.{error.refusal.reason.value}", pointer="/task"
    )


def _holder(jwk: HolderKey) -> PublicKey:
    try:
        return public_key(jwk.model_dump())
    except BadKey as error:
        raise MalformedInput(str(error), code="capability.cnf_invalid", pointer="/holder") from None

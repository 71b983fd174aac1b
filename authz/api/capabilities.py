"""`/capabilities`: issue, narrow, inspect and revoke (spec section 7)."""

from typing import Annotated, Any, Final

from fastapi import APIRouter, Depends, Query, Request, Response

from authz.api.capabilities_body import (
    parse_introspect,
    parse_issue,
    parse_narrow,
    parse_revoke,
)
from authz.api.capabilities_wire import (
    TOKEN_TYPE,
    CapabilitiesOut,
    CapabilityOut,
    IntrospectCapability,
    IntrospectionOut,
    IssueCapability,
    NarrowCapability,
    NarrowedOut,
    RevocationOut,
    RevokeCapability,
    TreeOut,
)
from authz.api.form import is_form, read_form
from authz.api.problems import problem_responses
from authz.api.request import body_of, caller_with, refuse_unknown_parameters
from authz.api.wire import dump
from authz.core.cedar_context import rfc3339
from authz.errors import MalformedInput
from authz.model.caller import Caller
from authz.model.capability import LinkQuery
from authz.service.bundles import Admitted
from authz.service.capabilities import Given
from authz.service.capability_services import CapabilityServices

router = APIRouter(tags=["capabilities"])

MAX_PAGE: Final = 200
_NO_STORE: Final = {"cache-control": "no-store"}
_ERRORS: Final = problem_responses(400, 401, 403, 408, 413, 415, 503)
Text = Annotated[str, Query(max_length=256)]


def _document(model: type, *, form: bool = False) -> dict[str, Any]:
    """The body of a route that reads it by the strict parser."""
    schema = {"schema": {"$ref": f"#/components/schemas/{model.__name__}"}}
    content = {"application/json": schema}
    if form:
        content["application/x-www-form-urlencoded"] = schema
    return {"requestBody": {"required": True, "content": content}}


@router.post(
    "/capabilities",
    status_code=201,
    response_model=CapabilityOut,
    summary="Issue a capability to an agent's key",
    description=(
        "Role `issue`. Every location of every entry is put to the policies as the resource of the action "
        "`issue`; what is not permitted is refused (403), naming rule, entry and location. The refusal is "
        "recorded as `capability.refused`, the capability as `capability.issued`."
    ),
    openapi_extra=_document(IssueCapability),
    responses=_ERRORS,
)
async def issue(request: Request, caller: Annotated[Caller, Depends(caller_with("issue"))]) -> Response:
    """Issue."""
    refuse_unknown_parameters(request)
    services = _services(request)
    asked = parse_issue(await body_of(request), services.now_ms())
    given = await services.issuer.issue(asked, _admitted(request, caller))
    return _answer(_given(given, request), 201)


@router.post(
    "/capabilities/attenuate",
    status_code=201,
    response_model=NarrowedOut,
    summary="Narrow a capability on the server",
    description=(
        "Role `issue` or `decide`. Token exchange (RFC 8693) with the proof of the leaf's key: a root for "
        "less of what the chain gives, for another key. A refusal (403) says which of R, O, P, E would "
        "widen, and how. JSON, or a form in which `authorization_details`, `holder` and `task` are JSON "
        "texts."
    ),
    openapi_extra=_document(NarrowCapability, form=True),
    responses=_ERRORS,
)
async def attenuate(
    request: Request, caller: Annotated[Caller, Depends(caller_with("issue", "decide"))]
) -> Response:
    """Narrow."""
    refuse_unknown_parameters(request)
    if is_form(request.scope["headers"]):
        asked = parse_narrow(read_form(request.state.body), is_form=True)
    else:
        asked = parse_narrow(await body_of(request), is_form=False)
    given = await _services(request).narrower.narrow(asked, _admitted(request, caller))
    body = _given(given, request)
    exchange = {"access_token": given.token, "issued_token_type": TOKEN_TYPE, "token_type": "N_A"}
    return _answer({**body, **exchange}, 201)


@router.post(
    "/capabilities/introspect",
    response_model=IntrospectionOut,
    response_model_exclude_unset=True,
    summary="What a capability is worth now",
    description=(
        "Role `audit` or `policy`. Of a chain, or of a link on record: each link with its entries, what it "
        "gave up, what of its budgets is used, and what stops it (RFC 7662)."
    ),
    openapi_extra=_document(IntrospectCapability),
    responses={**_ERRORS, **problem_responses(404)},
)
async def introspect(
    request: Request, caller: Annotated[Caller, Depends(caller_with("audit", "policy"))]
) -> Response:
    """Introspect."""
    refuse_unknown_parameters(request)
    asked = parse_introspect(await body_of(request))
    views = _services(request).views
    if asked.capability is not None:
        return _answer(await views.introspect(caller, tuple(asked.capability)))
    return _answer(await views.introspect_link(caller, asked.link or ""))


@router.post(
    "/capabilities/revoke",
    response_model=RevocationOut,
    summary="Revoke a link, or a holder's key, and everything beneath",
    description=(
        "Role `issue` or `policy`. By `link` (its hash), by `jti` (that of a root names it alone; else every "
        "link that has it, whoever made it and whether or not it was seen yet), or by `holder` (for good). "
        "In force here before the answer, and within the configured bound on every other replica. Doing it "
        "again changes nothing. Where `live` and `live_beneath` are 0 and `complete` is true, nothing that "
        "is known here was stopped: look whether the handle is the right one."
    ),
    openapi_extra=_document(RevokeCapability),
    responses=_ERRORS,
)
async def revoke(
    request: Request, caller: Annotated[Caller, Depends(caller_with("issue", "policy"))]
) -> Response:
    """Revoke."""
    refuse_unknown_parameters(request)
    kind, value, reason = parse_revoke(await body_of(request))
    found = await _services(request).revoker.revoke(caller, kind, value, reason)
    return _answer(
        {
            "revoked": [
                {"kind": one.kind.value, "value": one.value, "until": rfc3339(one.until_ms)}
                for one in found.records
            ],
            "already": found.already,
            "links": [link.link_hash for link in found.links],
            "live": found.live,
            "live_beneath": found.live_beneath,
            "complete": found.complete,
        }
    )


@router.get(
    "/capabilities",
    response_model=CapabilitiesOut,
    summary="Links on record",
    description="Role `audit` or `policy`. Newest first. `live=true` leaves out those that have ended.",
    responses=problem_responses(400, 401, 403, 503),
)
async def listed(
    request: Request,
    caller: Annotated[Caller, Depends(caller_with("audit", "policy"))],
    agent: Text = "",
    on_behalf_of: Text = "",
    holder: Text = "",
    jti: Text = "",
    root: Text = "",
    live: bool = False,
    after: Text = "",
    limit: Annotated[int, Query(ge=1, le=MAX_PAGE)] = 50,
) -> Response:
    """List."""
    refuse_unknown_parameters(request)
    services = _services(request)
    query = LinkQuery(
        tenant=caller.tenant,
        root_hash=root,
        jti=jti,
        holder=holder,
        agent=agent,
        subject=on_behalf_of,
        live_at_ms=services.now_ms() if live else None,
        after=_cursor(after),
        limit=limit,
    )
    found = await services.views.list_links(query)
    following = None if found.next is None else f"{found.next[0]}.{found.next[1]}"
    return _answer({"capabilities": list(found.links), "next": following})


@router.get(
    "/capabilities/{link}",
    response_model=TreeOut,
    summary="The tree that a link belongs to",
    description="Role `audit` or `policy`. Everything on record of its root, by who handed it to whom.",
    responses=problem_responses(400, 401, 403, 404, 503),
)
async def tree(
    request: Request, caller: Annotated[Caller, Depends(caller_with("audit", "policy"))], link: str
) -> Response:
    """Show a tree."""
    refuse_unknown_parameters(request)
    return _answer(await _services(request).views.tree(caller.tenant, link))


def _cursor(text: str) -> tuple[int, str] | None:
    if not text:
        return None
    at, dot, link = text.partition(".")
    if not dot or not at.isdecimal() or len(at) > 15 or not link:
        raise MalformedInput(
            "`after` is no place in a list; begin again without it", code="input.invalid", pointer="/after"
        )
    return int(at), link


def _given(given: Given, request: Request) -> dict[str, Any]:
    link = given.link
    return {
        "capability": [given.token],
        "link": link.link_hash,
        "jti": link.jti,
        "root": link.root_hash,
        "holder": link.holder,
        "issuer": given.issuer,
        "audience": given.audience,
        "subject": link.subject,
        "agent": link.agent,
        "issued_at": rfc3339(link.issued_at_ms),
        "expires_at": rfc3339(link.expires_at_ms),
        "expires_in": (link.expires_at_ms - link.issued_at_ms) // 1000,
        "max_depth": given.max_depth,
        "authorization_details": [dict(entry) for entry in given.details],
        "matched": [
            {
                "rule": rule.rule,
                "kind": rule.kind.value,
                "file": rule.file,
                "line": rule.line,
                "reason": rule.reason,
            }
            for rule in given.rules
        ],
        "policy_version": request.state.ruleset.version,
    }


def _answer(body: dict[str, Any], status: int = 200) -> Response:
    return Response(dump(body), status, media_type="application/json", headers=_NO_STORE)


def _services(request: Request) -> CapabilityServices:
    services: CapabilityServices = request.app.state.services.capabilities
    return services


def _admitted(request: Request, caller: Caller) -> Admitted:
    return Admitted(caller=caller, ruleset=request.state.ruleset)

"""The ASGI application: FastAPI for the document and most routes, plain handlers for the hot ones."""

import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from starlette.routing import Match

from authz.api import (
    approval_answers,
    approvals,
    capabilities,
    decisions,
    explain,
    operations,
    policies,
    probes,
    revocations,
    tools,
)
from authz.api.auth import Authenticator
from authz.api.decide import DecideApi
from authz.api.metrics import Metrics
from authz.api.problems import INTERNAL, PROBLEM_JSON, dump_problem, problem_responses
from authz.api.refusals import refuse
from authz.api.wire import BatchOut, BatchRequest, DecideRequest, DecisionOut
from authz.core.strict_json import escape_pointer
from authz.errors import AuthzError, MalformedInput, NotFound
from authz.ports import Ledger, RequestObserver
from authz.service.approvals import ApprovalService
from authz.service.bundles import BundlesInForce
from authz.service.capability_services import CapabilityServices
from authz.service.decide import DecisionService
from authz.service.explain import ExplanationService
from authz.service.operations import OperationService
from authz.service.person_services import PersonServices
from authz.service.reloads import Reloads

logger = logging.getLogger("authz.api")

_MODULES: Final = (
    *(tools, decisions, operations, approvals, approval_answers),
    *(capabilities, revocations, explain, policies, probes),
)

Asgi = Callable[[dict[str, Any], Any, Any], Awaitable[None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """What the routes need; made by `authz.app`."""

    authenticator: Authenticator
    decisions: DecisionService
    explanations: ExplanationService
    operations: OperationService
    capabilities: CapabilityServices
    approvals: ApprovalService
    people: PersonServices
    ledger: Ledger
    bundles: BundlesInForce
    reloads: Reloads
    jwks: Callable[[], Mapping[str, Any]]
    """The key set as it is to be published now."""
    jwks_max_age_seconds: int
    """How long verifiers may keep it: less than a new key waits before it is used."""
    metrics: Metrics
    max_body_bytes: int


class Application:
    """Dispatches the hot routes itself, hands the pages on, and leaves the rest to FastAPI."""

    def __init__(self, services: Services, ui: Asgi) -> None:
        """`ui` answers everything under `/ui`: the pages for people."""
        self.services = services
        self._ui = ui
        self._hot = DecideApi(
            authenticator=services.authenticator,
            service=services.decisions,
            observer=services.metrics,
            max_body_bytes=services.max_body_bytes,
        )
        self._routes: dict[tuple[str, str], Asgi] = {
            ("POST", "/decide"): self._hot.decide,
            ("POST", "/decide/batch"): self._hot.batch,
        }
        self.api = create_api(services)

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            hot = self._routes.get((scope["method"], scope["path"]))
            if hot is not None:
                await hot(scope, receive, send)
                return
            is_page = scope["path"] == "/ui" or scope["path"].startswith("/ui/")
            app = self._ui if is_page else self.api
            await _observed(app, scope, receive, send, self._hot.observer)
            return
        await self.api(scope, receive, send)


async def _observed(
    app: Asgi, scope: dict[str, Any], receive: Any, send: Any, observer: RequestObserver
) -> None:
    started = time.perf_counter()
    seen = {"status": 500}

    async def watch(message: dict[str, Any]) -> None:
        if message["type"] == "http.response.start":
            seen["status"] = message["status"]
        await send(message)

    try:
        await app(scope, receive, watch)
    finally:
        # A path that is no route is a caller's own text: it must not become a label.
        route = scope.get("route")
        observer.answered(getattr(route, "path", "other"), seen["status"], time.perf_counter() - started)


def create_api(services: Services) -> FastAPI:
    """The FastAPI application. The hot routes stand here too, so that one document shows all."""
    api = FastAPI(
        title="authz",
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        redirect_slashes=False,
    )
    api.state.services = services
    api.add_exception_handler(AuthzError, _authz_problem)
    api.add_exception_handler(RequestValidationError, _invalid_parameter)
    api.add_exception_handler(404, _not_found)
    api.add_exception_handler(405, _method_not_allowed)
    api.add_exception_handler(Exception, _internal)
    add_routes(api)
    return api


def add_routes(api: FastAPI) -> None:
    """Every route of the API."""
    _document_hot_routes(api)
    for module in _MODULES:
        api.include_router(module.router)


def _document_hot_routes(api: FastAPI) -> None:
    async def never_called() -> None:
        # `Application` answers these paths before FastAPI sees them.
        raise AssertionError("a hot route reached FastAPI")

    for path, body, answer, summary in (
        ("/decide", DecideRequest, DecisionOut, "Decide one tool call"),
        ("/decide/batch", BatchRequest, BatchOut, "Decide several tool calls, in order"),
    ):
        api.add_api_route(
            path,
            never_called,
            methods=["POST"],
            response_model=answer,
            summary=summary,
            description="Role `decide`. Every answer has its durable record in the decision log.",
            tags=["decide"],
            openapi_extra={
                "requestBody": {
                    "required": True,
                    "content": {
                        "application/json": {"schema": {"$ref": f"#/components/schemas/{body.__name__}"}}
                    },
                }
            },
            responses=problem_responses(400, 401, 403, 408, 413, 415, 503),
        )


async def _authz_problem(request: Request, error: Exception) -> Response:
    assert isinstance(error, AuthzError)  # noqa: S101 - registered for this class only
    services: Services = request.app.state.services
    caller = getattr(request.state, "caller", None)
    told = await refuse(error, caller, services.decisions, services.metrics)
    status, payload = dump_problem(told)
    headers = {"cache-control": "no-store"}
    if status == 401:
        headers["www-authenticate"] = "Bearer"
    if status == 408:
        # What else arrives on this connection would be the rest of the old body.
        headers["connection"] = "close"
    return Response(payload, status, headers, PROBLEM_JSON)


async def _invalid_parameter(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)  # noqa: S101 - registered for this class only
    fault = error.errors()[0]
    name = str(fault["loc"][-1])
    message = f"`{name}`: {fault['msg'][:1].lower()}{fault['msg'][1:]}"
    return await _authz_problem(
        request, MalformedInput(message, code="input.invalid", pointer="/" + escape_pointer(name))
    )


async def _not_found(request: Request, error: Exception) -> Response:
    return await _authz_problem(request, NotFound("there is nothing here", code="route.unknown"))


async def _method_not_allowed(request: Request, error: Exception) -> Response:
    response = await _authz_problem(
        request, NotFound("this route does not take that method", code="route.method")
    )
    # Every route of this path, not only the first, which is all that the framework names.
    routers = [request.app.router, *(module.router for module in _MODULES)]
    routes = [route for router in routers for route in router.routes if isinstance(route, APIRoute)]
    here = [route for route in routes if route.matches(request.scope)[0] is not Match.NONE]
    methods = {method for route in here for method in route.methods or ()}
    response.headers["allow"] = ", ".join(sorted(methods))
    return response


async def _internal(request: Request, error: Exception) -> Response:
    logger.error("a request failed", exc_info=error)
    return await _authz_problem(request, AuthzError(INTERNAL))

"""The OpenAPI document: generated, committed, and compared in CI."""

from typing import Any, Final

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from authz.api.application import add_routes
from authz.api.approvals_wire import ApprovalEventOut, ApproveRequest, DenyRequest
from authz.api.capabilities_wire import (
    IntrospectCapability,
    IssueCapability,
    NarrowCapability,
    RevokeCapability,
)
from authz.api.operations import CancelOperation, ResolveOperation, SettleOperation, StartOperation
from authz.api.problems import Problem
from authz.api.tools import VisibleRequest
from authz.api.wire import BatchRequest, DecideRequest

_BODIES: Final[tuple[type[BaseModel], ...]] = (
    DecideRequest,
    BatchRequest,
    VisibleRequest,
    IssueCapability,
    NarrowCapability,
    IntrospectCapability,
    RevokeCapability,
    StartOperation,
    SettleOperation,
    ResolveOperation,
    CancelOperation,
    ApproveRequest,
    DenyRequest,
    ApprovalEventOut,
    Problem,
)


def openapi_document() -> dict[str, Any]:
    """The document, the same every time it is made."""
    api = FastAPI(title="authz", version="1")
    add_routes(api)
    document = get_openapi(
        title="authz",
        version="1",
        summary="The decision point that a runtime asks before it lets an AI agent act.",
        description=(
            "Policy outcomes are HTTP 200 with an effect. An HTTP error means that no decision was made, "
            "is RFC 9457 problem+json, and is never an allow. On every path: 404 where there is no route, "
            "405 with `Allow` for a method that the route does not take, 408 for a request that does not "
            "arrive in time, 431 for headers over 64 KiB."
        ),
        routes=api.routes,
    )
    # Bodies that are parsed by the strict parser are not declared to FastAPI, so their models are added here.
    _, definitions = models_json_schema(
        [(model, "validation") for model in _BODIES],
        ref_template="#/components/schemas/{model}",
    )
    components = document.setdefault("components", {})
    components.setdefault("schemas", {}).update(definitions["$defs"])
    components["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer"}}
    open_paths = {"/healthz", "/readyz", "/.well-known/jwks.json", "/revocations"}
    for path, methods in document["paths"].items():
        for operation in methods.values():
            operation["responses"].pop("422", None)
            if path not in open_paths:
                operation["security"] = [{"key": []}]
    return document

"""The pages for people as one ASGI application, for every address under `/ui`."""

from typing import Final

from fastapi import FastAPI

from authz.ui import (
    account_pages,
    confirmation,
    delegations,
    explorer,
    history,
    inbox,
    passkey_routes,
    sign_in,
    static_files,
    trace,
)
from authz.ui.error_pages import add_error_pages
from authz.ui.headers import Asgi, SecurityHeaders
from authz.ui.services import UiServices

_MODULES: Final = (
    static_files,
    inbox,
    confirmation,
    history,
    explorer,
    trace,
    delegations,
    sign_in,
    passkey_routes,
    account_pages,
)


def create_ui(services: UiServices) -> Asgi:
    """The application. Every answer has the security headers, errors of the framework's own included."""
    app = FastAPI(title="authz", docs_url=None, redoc_url=None, openapi_url=None, redirect_slashes=False)
    app.state.services = services
    add_error_pages(app)
    for module in _MODULES:
        app.include_router(module.router)
    return SecurityHeaders(app, https=services.public_url.startswith("https://"))

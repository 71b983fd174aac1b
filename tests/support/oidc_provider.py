"""A small OpenID provider on loopback, spoken to over real HTTP, that says what a test wants it to say."""

import base64
import hashlib
import json
import secrets
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import parse_qs, urlencode

import jwt
import uvicorn
from cryptography.hazmat.primitives.asymmetric import rsa
from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, RedirectResponse, Response

from tests.support.server import free_port

CLIENT_ID: Final = "authz"
CLIENT_SECRET: Final = "of-a-test"
KID: Final = "k1"


@dataclass
class Provider:
    """What it says. Change the members to have it say something else."""

    issuer: str
    claims: dict[str, Any] = field(default_factory=dict)
    """Laid over what an ID token has; `None` leaves one out."""
    algorithm: str = "RS256"
    key: Any = None
    document: dict[str, Any] = field(default_factory=dict)
    """Laid over the discovery document."""
    answer: dict[str, str] = field(default_factory=dict)
    """Laid over what the browser is sent back with."""
    token_status: int = 200
    padding: int = 0
    """Bytes of blanks before the answer of its token endpoint."""
    now_s: int | None = None
    own_key: rsa.RSAPrivateKey = field(
        default_factory=lambda: rsa.generate_private_key(public_exponent=65537, key_size=2048)
    )
    codes: dict[str, Mapping[str, str]] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    """Paths that were asked for."""

    def id_token(self, nonce: str) -> str:
        now = self.now_s if self.now_s is not None else int(time.time())
        claims = {
            "iss": self.issuer,
            "sub": "sub-7",
            "aud": CLIENT_ID,
            "iat": now,
            "exp": now + 300,
            "nonce": nonce,
            "preferred_username": "kim",
            "groups": ["people"],
            **self.claims,
        }
        claims = {name: value for name, value in claims.items() if value is not None}
        key = self.own_key if self.key is None else self.key
        return jwt.encode(claims, key, algorithm=self.algorithm, headers={"kid": KID})


def application(provider: Provider) -> FastAPI:
    """Its endpoints. PKCE and the client's secret are really checked."""
    app = FastAPI()

    @app.get("/.well-known/openid-configuration")
    async def discovery() -> Any:
        provider.asked.append("discovery")
        return {
            "issuer": provider.issuer,
            "authorization_endpoint": f"{provider.issuer}/authorize",
            "token_endpoint": f"{provider.issuer}/token",
            "jwks_uri": f"{provider.issuer}/jwks",
            **provider.document,
        }

    @app.get("/authorize")
    async def authorize(request: Request) -> Response:
        asked = dict(request.query_params)
        if asked.get("client_id") != CLIENT_ID or asked.get("code_challenge_method") != "S256":
            return Response(status_code=400)
        code = secrets.token_urlsafe(16)
        provider.codes[code] = asked
        back = {"code": code, "state": asked["state"], **provider.answer}
        back = {name: value for name, value in back.items() if value}
        return RedirectResponse(f"{asked['redirect_uri']}?{urlencode(back)}", 303)

    @app.post("/token")
    async def token(request: Request) -> Response:
        provider.asked.append("token")
        if provider.token_status != 200:
            return Response("no", provider.token_status)
        sent = {name: values[0] for name, values in parse_qs((await request.body()).decode()).items()}
        expected = base64.b64encode(f"{CLIENT_ID}:{CLIENT_SECRET}".encode()).decode()
        asked = provider.codes.pop(sent.get("code", ""), None)
        digest = hashlib.sha256(sent.get("code_verifier", "").encode()).digest()
        challenge = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
        good = (
            asked is not None
            and request.headers.get("authorization") == f"Basic {expected}"
            and challenge == asked["code_challenge"]
            and sent.get("redirect_uri") == asked["redirect_uri"]
        )
        if not good or asked is None:
            return JSONResponse({"error": "invalid_grant"}, 400)
        answer = {
            "access_token": secrets.token_urlsafe(16),
            "token_type": "Bearer",
            "expires_in": 300,
            "id_token": provider.id_token(asked["nonce"]),
        }
        return Response(b" " * provider.padding + json.dumps(answer).encode(), media_type="application/json")

    @app.get("/jwks")
    async def jwks() -> Any:
        key = jwt.algorithms.RSAAlgorithm.to_jwk(provider.own_key.public_key(), as_dict=True)
        return {"keys": [{**key, "kid": KID, "use": "sig"}]}

    return app


@contextmanager
def running_provider() -> Iterator[Provider]:
    """The provider on a free port, until the block ends."""
    port = free_port()
    provider = Provider(issuer=f"http://127.0.0.1:{port}")
    config = uvicorn.Config(
        application(provider), host="127.0.0.1", port=port, log_level="critical", lifespan="off"
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        if not thread.is_alive():
            raise RuntimeError("the provider did not start")
        time.sleep(0.01)
    try:
        yield provider
    finally:
        server.should_exit = True
        thread.join(10)

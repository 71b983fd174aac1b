"""Speaking to an OpenID provider: discovery, the code for tokens, and the ID token's claims, by Authlib.

OpenID Connect Core 1.0 (3.1), Discovery 1.0, RFC 7636 (PKCE), RFC 9207 (`iss` in the answer). Requests go to
the configured issuer and to the origins that were configured beside it, and follow no redirect. A provider is
one tenant's, and the service is all tenants': what it answers is bounded, in size and in time.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote_plus, urlsplit

import httpx
from authlib.oauth2.client import OAuth2Client  # type: ignore[import-untyped]
from authlib.oidc.core import CodeIDToken  # type: ignore[import-untyped]
from joserfc import jwt
from joserfc.jwk import KeySet

from authz.core.strict_json import loads
from authz.errors import AuthzError, MalformedInput, Unauthenticated
from authz.model.oidc import OidcProvider

ALGORITHMS: Final = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
"""Signatures by a key that the provider alone has. Never `none`, nor a secret that both have."""
TIMEOUT_SECONDS: Final = 10.0
MAX_DOCUMENT_BYTES: Final = 256 * 1024
LEEWAY_SECONDS: Final = 60
MAX_TOKEN_AGE_SECONDS: Final = 600


class OidcRefused(Unauthenticated):
    """The provider, or what it said, does not sign anybody in."""

    code = "oidc.refused"


class OidcUnavailable(AuthzError):
    """The provider could not be asked."""

    code = "oidc.unavailable"


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoints:
    """What discovery says, checked."""

    authorization: str
    token: str
    jwks: str
    tells_issuer: bool
    """Whether its answers always have `iss`."""


class ProviderClient:
    """One provider, for one `redirect_uri`. Nothing is remembered between two sign-ins."""

    def __init__(self, provider: OidcProvider, redirect_uri: str) -> None:
        self.provider: Final = provider
        self._redirect_uri = redirect_uri

    async def discover(self) -> Endpoints:
        """Raises `OidcUnavailable`, `OidcRefused` for a document of another issuer."""
        document = await self._fetch(f"{self.provider.issuer.rstrip('/')}/.well-known/openid-configuration")
        if document.get("issuer") != self.provider.issuer:
            raise OidcRefused("the identity provider says to be another one than is configured")
        return Endpoints(
            authorization=self._endpoint(document, "authorization_endpoint"),
            token=self._endpoint(document, "token_endpoint"),
            jwks=self._endpoint(document, "jwks_uri"),
            tells_issuer=document.get("authorization_response_iss_parameter_supported") is True,
        )

    def authorization_url(self, endpoints: Endpoints, *, state: str, nonce: str, verifier: str) -> str:
        """Where the browser goes."""
        client = OAuth2Client(
            session=None,
            client_id=self.provider.client_id,
            scope=" ".join(self.provider.scopes),
            redirect_uri=self._redirect_uri,
            code_challenge_method="S256",
        )
        url, _ = client.create_authorization_url(
            endpoints.authorization, state=state, nonce=nonce, code_verifier=verifier
        )
        return str(url)

    async def redeem(
        self, endpoints: Endpoints, *, code: str, nonce: str, verifier: str, now_ms: int
    ) -> Mapping[str, Any]:
        """The claims of the ID token that the code is for. Raises `OidcRefused`, `OidcUnavailable`."""
        token = await self._redeem(endpoints.token, code, verifier)
        id_token, access_token = token.get("id_token"), token.get("access_token")
        if not isinstance(id_token, str):
            raise OidcRefused("the identity provider sent no ID token")
        keys = await self._fetch(endpoints.jwks)
        return self._verified(id_token, access_token, keys, nonce=nonce, now_ms=now_ms)

    async def _redeem(self, url: str, code: str, verifier: str) -> Mapping[str, Any]:
        """The token request (RFC 6749, 4.1.3), with the client's id and secret as 2.3.1 has them encoded."""
        sent = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": self._redirect_uri,
            "code_verifier": verifier,
        }
        who = httpx.BasicAuth(quote_plus(self.provider.client_id), quote_plus(self.provider.client_secret))
        status, document = await _ask("POST", url, data=sent, auth=who)
        if status in (httpx.codes.BAD_REQUEST, httpx.codes.UNAUTHORIZED):
            raise OidcRefused("the identity provider does not take its own code, try again")
        if status != httpx.codes.OK or document is None:
            raise OidcUnavailable("the identity provider did not answer, try again")
        return document

    def _verified(
        self, id_token: str, access_token: object, keys: Mapping[str, Any], *, nonce: str, now_ms: int
    ) -> Mapping[str, Any]:
        """3.1.3.7, in its order where the order matters."""
        provider, now = self.provider, now_ms // 1000
        try:
            decoded = jwt.decode(
                id_token, KeySet.import_key_set(_only_public(keys)), algorithms=list(ALGORITHMS)
            )
            claims = CodeIDToken(
                decoded.claims,
                decoded.header,
                {
                    "iss": {"essential": True, "value": provider.issuer},
                    "aud": {"essential": True, "value": provider.client_id},
                    "sub": {"essential": True},
                    "exp": {"essential": True},
                    "iat": {"essential": True},
                },
                {"nonce": nonce, "client_id": provider.client_id, "access_token": access_token},
            )
            claims.validate(now=now, leeway=LEEWAY_SECONDS)
        except Exception as fault:
            raise OidcRefused("what the identity provider said could not be verified") from fault
        # Once more by our own words: what these mean must not depend on a library's options.
        audience = claims["aud"] if isinstance(claims["aud"], list) else [claims["aud"]]
        issued, ends = claims["iat"], claims["exp"]
        fits = (
            claims["iss"] == provider.issuer
            and provider.client_id in audience
            and (len(audience) == 1 or claims.get("azp") == provider.client_id)
            and claims.get("nonce") == nonce
            and isinstance(claims["sub"], str)
            and _is_number(issued)
            and _is_number(ends)
            and now < ends + LEEWAY_SECONDS
            and now - MAX_TOKEN_AGE_SECONDS <= issued <= now + LEEWAY_SECONDS
        )
        if not fits:
            raise OidcRefused("what the identity provider said could not be verified")
        return dict(claims)

    def _endpoint(self, document: Mapping[str, Any], name: str) -> str:
        url = document.get(name)
        if not isinstance(url, str) or _origin(url) not in {
            _origin(self.provider.issuer),
            *self.provider.origins,
        }:
            raise OidcRefused(f"the `{name}` of the identity provider is at no configured origin")
        return url

    async def _fetch(self, url: str) -> Mapping[str, Any]:
        status, document = await _ask("GET", url)
        if status != httpx.codes.OK or document is None:
            raise OidcUnavailable("the identity provider did not answer as one does, try again")
        return document


async def _ask(method: str, url: str, **sent: Any) -> tuple[int, Mapping[str, Any] | None]:
    """The status, and the object that came with it; `None` for anything else. Raises `OidcUnavailable`."""
    body = bytearray()
    # Compressed, little that arrives can be much that is kept.
    headers = {"accept": "application/json", "accept-encoding": "identity"}
    try:
        async with (
            # For all of it: the client's own is for each piece.
            asyncio.timeout(TIMEOUT_SECONDS),
            httpx.AsyncClient(timeout=TIMEOUT_SECONDS, trust_env=False) as client,
            client.stream(method, url, headers=headers, **sent) as response,
        ):
            async for chunk in response.aiter_raw():
                body += chunk
                if len(body) > MAX_DOCUMENT_BYTES:
                    raise OidcUnavailable("the identity provider answers too much")
            status = response.status_code
    except (httpx.HTTPError, httpx.InvalidURL, TimeoutError) as fault:
        raise OidcUnavailable("the identity provider did not answer, try again") from fault
    try:
        document = loads(bytes(body))
    except MalformedInput:
        document = None
    return status, document if isinstance(document, dict) else None


def _only_public(keys: Mapping[str, Any]) -> Any:
    """Keys that can sign by themselves; a shared secret in a key set would sign for everybody."""
    listed = keys.get("keys")
    if not isinstance(listed, list):
        raise TypeError("no key set")
    return {"keys": [key for key in listed if isinstance(key, dict) and key.get("kty") != "oct"]}


def _origin(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)

"""Holders of capabilities, as clients of a running service: they ask, narrow, prove and call.

ada = await issue(service, entry("fs/file_read", "file:///workspace"), max_depth=2)
sub = ada.hand_on("sub-1", entry("fs/file_read", "file:///workspace/a"))
answer = await sub.call(service, "fs/file_read", {"path": "/workspace/a"})
"""

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import httpx
from authz_client.capabilities import SigningKey, generate_key, narrow, new_jti, prove, request_digest

from tests.support.chains import entry
from tests.support.service import Service

__all__ = ["EXCHANGE", "Holder", "entry", "exchange", "issue", "issue_body", "narrowed"]

EXCHANGE = {
    "grant_type": "urn:ietf:params:oauth:grant-type:token-exchange",
    "subject_token_type": "urn:ietf:params:oauth:token-type:jwt",
}
_ids = itertools.count(1)


@dataclass(frozen=True, kw_only=True)
class Holder:
    """A chain, and the key of its leaf."""

    chain: tuple[str, ...]
    key: SigningKey
    agent: str
    audience: str
    now: int
    user: str | None = "ada"
    link: str = ""
    jti: str = ""

    def hand_on(self, agent: str, *entries: Mapping[str, Any], **more: Any) -> "Holder":
        """A child, made offline; everything of the parent where no entries are given."""
        key = more.pop("key", None) or generate_key()
        chain = narrow(
            self.chain,
            self.key,
            holder=key.public,
            agent=agent,
            entries=list(entries) or None,
            **({"jti": new_jti(), "iat": self.now} | more),
        )
        return Holder(chain=chain, key=key, agent=agent, audience=self.audience, now=self.now, user=self.user)

    def prove(self, body: Mapping[str, Any], **more: Any) -> str:
        """A proof for a body, by the leaf's key; `more` are arguments of `prove`."""
        given: dict[str, Any] = {
            "audience": self.audience,
            "request_digest": request_digest(body),
            "jti": new_jti(),
            "iat": self.now,
        }
        return prove(self.chain[-1], more.pop("key", self.key), **(given | more))

    def body(self, name: str, arguments: Mapping[str, Any], **more: Any) -> dict[str, Any]:
        """A request of `server/tool` with the chain and a proof."""
        server, _, tool = name.partition("/")
        body = {
            "subject": {"agent": self.agent, "on_behalf_of": self.user, "session": f"s-{self.agent}"},
            "tool": {"server": server, "name": tool},
            "arguments": dict(arguments),
            "context": {
                "trace_id": "t-1",
                "turn_id": "1",
                "tool_call_id": f"held-{next(_ids)}",
                "cwd": "/workspace",
                "sandbox_root": "/workspace",
            },
            **more,
        }
        return {**body, "capability": list(self.chain), "proof": self.prove(body)}

    async def call(self, service: Service, name: str, arguments: Mapping[str, Any]) -> Any:
        """The answer to one call."""
        return await service.decide(self.body(name, arguments))

    async def reads(self, service: Service, path: str = "/workspace/a") -> str:
        """What reading a file is answered: `allow`, or the code of the refusal."""
        answer = await self.call(service, "fs/file_read", {"path": path})
        return str(answer["effect"] if answer["effect"] == "allow" else answer["code"])


def issue_body(*entries: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    """A body of `POST /capabilities` for `coder-1`; a `holder` is made where none is given."""
    body = {"agent": "coder-1", "on_behalf_of": "ada", "authorization_details": list(entries), **more}
    body.setdefault("holder", generate_key().public.jwk)
    return {name: value for name, value in body.items() if value is not None and value != []}


async def issue(
    service: Service,
    *entries: Mapping[str, Any],
    headers: Mapping[str, str] | None = None,
    **more: Any,
) -> Holder:
    """A root from the service. Fails when it is refused."""
    key = more.pop("key", None) or generate_key()
    body = issue_body(*entries, holder=key.public.jwk, **more)
    response = await service.client.post("/capabilities", json=body, headers=headers)
    assert response.status_code == 201, response.text
    return _holder(service, response.json(), key)


def exchange(holder: Holder, key: SigningKey, *entries: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    """A body of `POST /capabilities/attenuate` with the holder's proof."""
    body: dict[str, Any] = {**EXCHANGE, "agent": "sub-1", "holder": key.public.jwk, **more}
    if entries:
        body["authorization_details"] = list(entries)
    proof = holder.prove(body)
    return {**body, "subject_token": list(holder.chain), "proof": proof}


async def narrowed(service: Service, holder: Holder, *entries: Mapping[str, Any], **more: Any) -> Holder:
    """A root that the service narrowed from the holder's chain. Fails when it is refused."""
    key = more.pop("key", None) or generate_key()
    response: httpx.Response = await service.client.post(
        "/capabilities/attenuate", json=exchange(holder, key, *entries, **more)
    )
    assert response.status_code == 201, response.text
    return _holder(service, response.json(), key)


def _holder(service: Service, given: Mapping[str, Any], key: SigningKey) -> Holder:
    user = given["subject"] if given["subject"] != given["agent"] else None
    return Holder(
        chain=tuple(given["capability"]),
        key=key,
        agent=given["agent"],
        audience=given["audience"],
        now=service.clock.now_ms() // 1000,
        user=user,
        link=given["link"],
        jti=given["jti"],
    )

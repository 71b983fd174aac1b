"""What tests of guards share: a service with rules, the two kinds of guard behind one face, and an effect."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Protocol

import httpx
from authz_client import AsyncClient, Client
from authz_client.guard import AsyncGuard, Guard, Permitted

from tests.support.bundles import write_bundle
from tests.support.server import RunningServer
from tests.support.signing_in import command_line_code
from tests.support.waiting import wait_until

RULES: Final = """\
@id("everything") permit (principal, action, resource);
@id("approving") permit (principal in Group::"finance", action in Action::"approve", resource);
@id("secrets") @reason("Secrets stay where they are.")
forbid (principal, action, resource in Directory::"/workspace/.secrets");
@id("money-asks") @requires("approval") @approvers("Group::\\"finance\\"")
@reason("Money moves only with a person's yes.")
forbid (principal, action in Action::"transact", resource);
"""
SUBJECT: Final = {"agent": "coder-1", "on_behalf_of": "ada", "session": "s-1"}
CONTEXT: Final = {"cwd": "/workspace", "sandbox_root": "/workspace"}
MAIL: Final = ("bank", "mail_send", {"to": "ada@example.com", "body": "hello"})
"""May not run twice: `cumulative`."""
EDIT: Final = ("fs", "file_edit", {"path": "/workspace/a", "text": "x"})
"""May run twice: `idempotent`."""
READ: Final = ("fs", "file_read", {"path": "/workspace/a"})
PAY: Final = ("bank", "transfer", {"to": "acc-1", "amount": 5})
"""Waits for a person."""


def serve(folder: Path, **env: str) -> RunningServer:
    """A service over these rules, not started yet."""
    bundle = write_bundle(folder / "bundle", rules=RULES)
    return RunningServer(bundle=bundle, data_dir=folder / "var", env=env)


@dataclass
class Effect:
    """A tool that counts what it did, by the arguments that it was given."""

    had: list[dict[str, Any]] = field(default_factory=list)
    error: BaseException | None = None
    """Raised after the effect."""

    def __call__(self, permitted: Permitted) -> str:
        self.had.append(dict(permitted.arguments))
        if self.error is not None:
            raise self.error
        return f"done {len(self.had)}"


class Runtime(Protocol):
    """Either kind of guard."""

    def call(
        self, call: tuple[str, str, dict[str, Any]], run: Callable[[Permitted], Any], /, **options: Any
    ) -> Any: ...

    def close(self) -> None: ...


class SyncRuntime:
    def __init__(self, url: str, key: str, *, client: dict[str, Any] | None = None, **guard: Any) -> None:
        self.client = Client(url, api_key=key, **{"deadline_seconds": 30, **(client or {})})
        self.guard = Guard(self.client, **{"subject": SUBJECT, "context": CONTEXT, **guard})

    def call(
        self, call: tuple[str, str, dict[str, Any]], run: Callable[[Permitted], Any], /, **options: Any
    ) -> Any:
        with self.guard.call(*call, **options) as permitted:
            return run(permitted)

    def close(self) -> None:
        self.client.close()


class AsyncRuntime:
    def __init__(self, url: str, key: str, *, client: dict[str, Any] | None = None, **guard: Any) -> None:
        self.runner = asyncio.Runner()
        self.client = AsyncClient(url, api_key=key, **{"deadline_seconds": 30, **(client or {})})
        self.guard = AsyncGuard(self.client, **{"subject": SUBJECT, "context": CONTEXT, **guard})

    def call(
        self, call: tuple[str, str, dict[str, Any]], run: Callable[[Permitted], Any], /, **options: Any
    ) -> Any:
        async def whole() -> Any:
            async with self.guard.call(*call, **options) as permitted:
                came = run(permitted)
                return await came if isinstance(came, Awaitable) else came

        return self.runner.run(whole())

    def close(self) -> None:
        self.runner.run(self.client.aclose())
        self.runner.close()


MakeRuntime = Callable[..., Any]


def state_of(server: RunningServer, decision_id: str) -> dict[str, Any]:
    """Where an operation stands, past every proxy."""
    with server.client() as client:
        response = client.get(f"/operations/{decision_id}")
        assert response.status_code == httpx.codes.OK, response.text
        told: dict[str, Any] = response.json()
        return told


def records(server: RunningServer, **query: str) -> list[dict[str, Any]]:
    """Records that match, oldest first."""
    with server.client() as client:
        found = client.get("/decisions", params={"limit": "500", **query}).json()["records"]
    return [entry["record"] for entry in reversed(found)]


class Grace:
    """Signed in; of finance."""

    def __init__(self, server: RunningServer) -> None:
        # By name, as her link says: sessions are for that origin.
        self._client = httpx.Client(base_url=f"http://localhost:{server.port}", timeout=30, trust_env=False)
        told = self._client.post("/ui/cli-session", json={"code": command_line_code(server)}).json()
        self._client.headers["Authorization"] = f"Bearer {told['token']}"

    def pending(self, call_id: str) -> dict[str, Any]:
        """The request that this call waits for, once it does."""

        def find() -> dict[str, Any]:
            asked = self._client.get("/approvals", params={"state": "pending"}).json()["approvals"]
            return next((one for one in asked if one.get("tool_call_id") == call_id), {})

        return wait_until(find)

    def approve(self, call_id: str) -> str:
        asked = self.pending(call_id)
        return self._answer(asked, "approve", shown_digest=asked["shown_digest"])

    def deny(self, call_id: str, reason: str) -> str:
        return self._answer(self.pending(call_id), "deny", reason=reason)

    def _answer(self, asked: dict[str, Any], what: str, **body: Any) -> str:
        response = self._client.post(f"/approvals/{asked['id']}/{what}", json=body)
        assert response.status_code == httpx.codes.OK, response.text
        return str(asked["id"])

    def close(self) -> None:
        self._client.close()

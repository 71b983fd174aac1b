"""What a reload costs requests: latencies at a steady rate, alone and while a bundle is reloaded.

Open loop: requests are sent at a fixed rate on a few connections, so that a held-up server shows as late
answers and not as fewer requests. Each answer's time counts from when its request was due.
"""

import asyncio
import json
import os
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import httpx

from tests.bench.bundle import write_bundle
from tests.bench.calls import ALLOWED, DecideRequests
from tests.bench.server import Cores, Server, serving_authz

RATE_PER_SECOND: Final = 200
CONNECTIONS: Final = 8
BASELINE_SECONDS: Final = 5.0
RELOADS: Final = 3
SIZES: Final = (1000, 10_000)


def measure_reload(folder: Path, cores: Cores, sizes: Sequence[int] = SIZES) -> dict[str, Any]:
    """Latencies in ms by number of rules: alone, and while each of some reloads runs."""
    found = {}
    for rules in sizes:
        bundle = folder / f"reload-{rules}"
        write_bundle(bundle, rules)
        with serving_authz(f"{rules} rules", bundle, folder / f"reload-{rules}-var", cores) as server:
            found[str(rules)] = asyncio.run(_measure(server, bundle))
    return found


async def _measure(server: Server, bundle: Path) -> dict[str, Any]:
    load = _Load(server)
    await load.open()
    await load.run_for(1.0)
    alone = _told(await load.run_for(BASELINE_SECONDS))
    reloads = []
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{server.port}", trust_env=False) as client:
        # What the client imports at its first request would hold up this process, and with it the load.
        (await client.get("/healthz")).raise_for_status()
        for number in range(RELOADS):
            _change(bundle, number)
            began = time.perf_counter()
            latencies, outcome = await load.run_while(_reload(client, load.key))
            assert outcome["outcome"] in ("loaded", "unchanged"), outcome
            reloads.append({"seconds": round(time.perf_counter() - began, 1)} | _told(latencies))
    await load.close()
    return {"alone": alone, "reloads": reloads}


def _told(latencies_ms: list[float]) -> dict[str, float]:
    ordered = sorted(latencies_ms)

    def percentile(percent: float) -> float:
        return round(ordered[min(len(ordered) - 1, int(len(ordered) * percent / 100))], 2)

    return {"requests": len(ordered), "p50": percentile(50), "p99": percentile(99), "max": percentile(100)}


def _change(bundle: Path, number: int) -> None:
    (bundle / "rules" / "zz-reload.cedar").write_text(
        f'@id("reload-{number}") '
        f'forbid (principal, action in Action::"read", resource in Directory::"/r{number}");'
    )


async def _reload(client: httpx.AsyncClient, key: str) -> dict[str, Any]:
    headers = {"Authorization": f"Bearer {key}"}
    answer = await client.post("/policies/reload", headers=headers, timeout=300)
    outcome: dict[str, Any] = answer.raise_for_status().json()
    return outcome


class _Load:
    """Requests at a fixed rate over connections that take turns."""

    def __init__(self, server: Server) -> None:
        assert isinstance(server.requests, DecideRequests)
        self._requests = server.requests
        self._port = server.port
        self.key = server.requests.key
        self._streams: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []

    async def open(self) -> None:
        self._streams = [await asyncio.open_connection("127.0.0.1", self._port) for _ in range(CONNECTIONS)]

    async def close(self) -> None:
        for _, writer in self._streams:
            writer.close()

    async def run_for(self, seconds: float) -> list[float]:
        latencies, _ = await self.run_while(asyncio.sleep(seconds))
        return latencies

    async def run_while(self, work: Any) -> tuple[list[float], Any]:
        """Latencies in ms until `work` is done and a little longer, and its result."""
        running = asyncio.ensure_future(work)
        over = asyncio.Event()
        running.add_done_callback(lambda _: asyncio.get_running_loop().call_later(0.5, over.set))
        found: list[float] = []
        started = time.perf_counter()
        await asyncio.gather(
            *(self._drive(index, started, over, found) for index in range(len(self._streams)))
        )
        return found, await running

    async def _drive(self, index: int, started: float, over: asyncio.Event, found: list[float]) -> None:
        reader, writer = self._streams[index]
        turn = index
        while not over.is_set():
            due = started + turn / RATE_PER_SECOND
            turn += len(self._streams)
            await asyncio.sleep(max(0.0, due - time.perf_counter()))
            writer.write(self._requests.take(1)[0])
            head = await reader.readuntil(b"\r\n\r\n")
            length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
            body = await reader.readexactly(length)
            assert ALLOWED in body, json.loads(body)
            found.append((time.perf_counter() - due) * 1000)


def main() -> None:
    """Measure reloads alone, and print."""
    cores = Cores.choose()
    os.sched_setaffinity(0, {cores.load})
    with tempfile.TemporaryDirectory(prefix="authz-bench-") as name:
        for rules, found in measure_reload(Path(name), cores).items():
            print(f"{rules} rules, alone: {found['alone']}")
            for reload in found["reloads"]:
                print(f"{rules} rules, while a reload runs: {reload}")


if __name__ == "__main__":
    main()

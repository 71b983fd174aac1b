"""What a reload costs requests: latencies at a steady rate, without and during reloads.

Open loop: requests are sent at a fixed rate on a few connections, so that a held-up server shows as late
answers and not as fewer requests. Each answer's time counts from when its request was due.

Between any two reloads the same load runs for as long without one, and each reload is compared with the
stretch before it: what else the machine does hits both. A reload's trial runs in a process of its own,
which is put either on the other core, beside the load generator, or on the one of the server.
"""

import asyncio
import contextlib
import json
import os
import statistics
import tempfile
import time
from collections.abc import Coroutine, Sequence
from pathlib import Path
from typing import Any, Final

import httpx

from tests.bench.bundle import change_one_rule, write_bundle
from tests.bench.calls import ALLOWED, DecideRequests
from tests.bench.reload_lag import measure_lag
from tests.bench.server import Cores, Server, serving_authz

RATE_PER_SECOND: Final = 200
CONNECTIONS: Final = 8
WARM_UP_SECONDS: Final = 3.0
"""So long that every kind of call was made before."""
AFTERWARDS_SECONDS: Final = 0.5
"""After a reload its first decisions count to it."""
ROUNDS: Final = 5
SIZES: Final = (1000, 10_000)
LOOK_SECONDS: Final = 0.005
LOOK_AGAIN_SECONDS: Final = 1.0


def measure_reload(
    folder: Path, cores: Cores, sizes: Sequence[int] = SIZES, rounds: int = ROUNDS
) -> dict[str, Any]:
    """Latencies in ms by number of rules and by where the trial runs; and what holds up the loop."""
    found: dict[str, Any] = {}
    for rules in sizes:
        bundle = folder / f"reload-{rules}"
        write_bundle(bundle, rules)
        with serving_authz(f"{rules} rules", bundle, folder / f"reload-{rules}-var", cores) as server:
            latencies = asyncio.run(_measure(server, bundle, cores, rounds))
        found[str(rules)] = latencies | {"lag": measure_lag(bundle)}
    return found


async def _measure(server: Server, bundle: Path, cores: Cores, rounds: int) -> dict[str, Any]:
    load = _Load(server)
    await load.open()
    await load.run_for(WARM_UP_SECONDS)
    found: dict[str, list[dict[str, Any]]] = {"trial on another core": [], "trial on the same core": []}
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{server.port}", trust_env=False) as client:
        # What the client imports at its first request would hold up this process, and with it the load.
        (await client.get("/healthz")).raise_for_status()
        seconds = 3.0
        for number in range(rounds):
            for offset, (place, measured) in enumerate(found.items()):
                core = cores.load if place == "trial on another core" else cores.server
                alone = _told(await load.run_for(seconds))
                change_one_rule(bundle, 2 * number + offset)
                began, cpu = time.perf_counter(), server.cpu_seconds()
                latencies = await load.run_while(_reload(client, load.key, server.pid, core))
                seconds = time.perf_counter() - began
                cpu_ms = (server.cpu_seconds() - cpu) * 1000 / len(latencies)
                measured.append(
                    {
                        "seconds": round(seconds, 1),
                        "alone": alone,
                        "reload": _told(latencies),
                        "server_cpu_ms_a_request": round(cpu_ms, 2),
                    }
                )
    await load.close()
    return {place: _summed_up(measured) for place, measured in found.items()}


def _told(latencies_ms: list[float]) -> dict[str, float]:
    ordered = sorted(latencies_ms)

    def percentile(percent: float) -> float:
        return round(ordered[min(len(ordered) - 1, int(len(ordered) * percent / 100))], 2)

    return {"requests": len(ordered), "p50": percentile(50), "p99": percentile(99), "max": percentile(100)}


def _summed_up(rounds: list[dict[str, Any]]) -> dict[str, Any]:
    """Medians over the rounds, and of the differences within each."""

    def median(values: Sequence[float]) -> float:
        return round(statistics.median(values), 2)

    numbers = ("p50", "p99", "max")
    return {
        "alone": {name: median([one["alone"][name] for one in rounds]) for name in numbers},
        "reload": {name: median([one["reload"][name] for one in rounds]) for name in numbers},
        "more": {
            name: median([one["reload"][name] - one["alone"][name] for one in rounds]) for name in numbers
        },
        "seconds": median([one["seconds"] for one in rounds]),
        "rounds": rounds,
    }


async def _reload(client: httpx.AsyncClient, key: str, pid: int, core: int) -> None:
    headers = {"Authorization": f"Bearer {key}"}
    moving = asyncio.create_task(_move_children(pid, core))
    answer = await client.post("/policies/reload", headers=headers, timeout=300)
    moving.cancel()
    outcome = answer.raise_for_status().json()
    assert outcome["outcome"] in ("loaded", "unchanged"), outcome
    await asyncio.sleep(AFTERWARDS_SECONDS)


async def _move_children(pid: int, core: int) -> None:
    """Put each child that the server starts from now on upon a core."""
    known = _children(pid)
    pause = LOOK_SECONDS
    while True:
        await asyncio.sleep(pause)
        for child in _children(pid) - known:
            known.add(child)
            # Looking costs the load generator time. There is hardly a second one.
            pause = LOOK_AGAIN_SECONDS
            with contextlib.suppress(OSError):
                os.sched_setaffinity(child, {core})


def _children(pid: int) -> set[int]:
    """The processes that threads of this one have started and that live (proc_pid_children(5))."""
    found: set[int] = set()
    for task in Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(OSError):
            found.update(map(int, (task / "children").read_text(encoding="ascii").split()))
    return found


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
        return await self.run_while(asyncio.sleep(seconds))

    async def run_while(self, work: Coroutine[Any, Any, None]) -> list[float]:
        """Latencies in ms until `work` is done."""
        running = asyncio.ensure_future(work)
        found: list[float] = []
        started = time.perf_counter()
        await asyncio.gather(
            *(self._drive(index, started, running, found) for index in range(len(self._streams)))
        )
        await running
        return found

    async def _drive(
        self, index: int, started: float, running: "asyncio.Future[None]", found: list[float]
    ) -> None:
        reader, writer = self._streams[index]
        turn = index
        while not running.done():
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
            lag = found.pop("lag")
            for place, measured in found.items():
                for what in ("alone", "reload", "more"):
                    print(f"{rules} rules, {place}, {what}: {measured[what]}")
            for stage, lags in lag["stages"].items():
                print(f"{rules} rules, the loop during {stage}: {lags}")
            print(f"{rules} rules, first decisions after a swap: {lag['first_decisions_cpu_ms']}")


if __name__ == "__main__":
    main()
